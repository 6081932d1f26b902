//! The trace: one line per event of note, in the order in which things happened. The same seed gives the same bytes.
//!
//! Never: a wall clock, an address, or anything else that differs between two runs.

use std::fmt;

/// Lines shown when an invariant does not hold.
const TAIL_LINES: usize = 60;

/// The lines of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    lines: Vec<String>,
}

impl Trace {
    /// Notes something at a virtual time, nanoseconds since the scenario's begin.
    pub(super) fn note(&mut self, at_ns: u64, what: fmt::Arguments<'_>) {
        self.lines.push(format!("{} {what}", Clock(at_ns)));
    }

    /// All lines.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Lines that contain a text.
    pub fn with<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |line| line.contains(text)).map(String::as_str)
    }

    /// The last lines, each ended; all of them where `SPRAG_TRACE` is set.
    pub(super) fn tail(&self) -> String {
        let shown = if std::env::var_os("SPRAG_TRACE").is_some() { usize::MAX } else { TAIL_LINES };
        let from = self.lines.len().saturating_sub(shown);
        self.lines.iter().skip(from).fold(String::new(), |text, line| text + line + "\n")
    }
}

/// A virtual time as `seconds.microseconds`.
pub(super) struct Clock(pub(super) u64);

impl fmt::Display for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:>3}.{:06}", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}
