//! Dead letters: frames that could not be decoded, kept with their reason so that nothing is lost silently. Of one kind,
//! which is a venue, a reason and a symbol, only samples are kept in each minute, so that one chatty symbol pushes nothing
//! else out; all are counted.
//!
//! Never: unbounded; past its bound the file stops growing and the loss is counted.

use connectors::{
    raw::{RawFrame, RawPayload},
    venue_feed::Undecodable,
};
use foldhash::HashMap;
use market::Venue;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Bytes that one run writes at most: enough for a bad day of one venue, little for a disk.
const BYTES_MAX: u64 = 64 << 20;

/// Letters of one kind that are kept in a minute: enough to see what is wrong with them.
const SAMPLES_MAX: u32 = 32;

/// Kinds that are told apart in a minute; of later ones the symbols are not.
const KINDS_MAX: usize = 4_096;

/// Letters that are logged in a minute, the first of its kind each; the file has more.
const LOGGED_MAX: u32 = 8;

/// A minute, nanoseconds.
const MINUTE_NS: u64 = 60_000_000_000;

/// What letters have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    venue: Venue,
    reason: &'static str,
    symbol: Box<str>,
}

/// What was kept since a minute began, by the frames' own times.
#[derive(Debug, Default)]
struct Samples {
    minute: u64,
    kinds: HashMap<Kind, u32>,
    logged: u32,
    /// Letters that were only counted.
    passed_over: u64,
}

/// The dead letters of a run.
#[derive(Debug, Default)]
pub struct DeadLetters {
    file: Option<File>,
    bytes: u64,
    count: u64,
    unkept: u64,
    samples: Samples,
    by_reason: BTreeMap<(Venue, &'static str), u64>,
}

#[derive(Serialize)]
struct Letter<'a> {
    ts_ns: String,
    conn: &'a str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

/// The name of a reason, and the symbol where it concerns one.
fn reason_of(reason: &Undecodable) -> (&'static str, &str) {
    match reason {
        Undecodable::Json { .. } => ("json", ""),
        Undecodable::Number { symbol, .. } => ("number", symbol),
        Undecodable::Time { .. } => ("time", ""),
        Undecodable::Symbol { symbol, .. } => ("symbol", symbol),
        Undecodable::Unlisted { symbol, .. } => ("unlisted", symbol),
        Undecodable::Field { field, .. } => ("field", field),
        Undecodable::Ids { symbol, .. } => ("ids", symbol),
        Undecodable::TradeId { symbol, .. } => ("trade_id", symbol),
        Undecodable::Binary { .. } => ("binary", ""),
        Undecodable::Block { .. } => ("block", ""),
        Undecodable::Tranche(_) => ("tranche", ""),
        Undecodable::Full(_) => ("full", ""),
    }
}

impl Samples {
    /// Whether a letter is among the samples of its kind, and the first of them.
    fn takes(&mut self, ts_ns: u64, venue: Venue, reason: &Undecodable) -> (bool, bool) {
        let minute = ts_ns / MINUTE_NS;
        if std::mem::replace(&mut self.minute, minute) != minute {
            if self.passed_over > 0 {
                tracing::warn!(
                    letters = self.passed_over,
                    "dead letters of which there were samples were only counted"
                );
            }
            *self = Self { minute, ..Self::default() };
        }
        let (reason, symbol) = reason_of(reason);
        let mut kind = Kind { venue, reason, symbol: symbol.into() };
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            kind.symbol = Box::default();
        }
        let kept = self.kinds.entry(kind).or_insert(0);
        if *kept >= SAMPLES_MAX {
            self.passed_over += 1;
            return (false, false);
        }
        *kept += 1;
        (true, *kept == 1)
    }
}

impl DeadLetters {
    /// Dead letters that are appended to a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file: Some(file), bytes, ..Self::default() })
    }

    /// Letters so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Letters that were counted but not kept: there were samples of their kind, or the file is full or cannot be written.
    #[must_use]
    pub fn unkept(&self) -> u64 {
        self.unkept
    }

    /// How many there were of each venue for each reason.
    pub fn by_reason(&self) -> impl Iterator<Item = (Venue, &'static str, u64)> + '_ {
        self.by_reason.iter().map(|((venue, reason), count)| (*venue, *reason, *count))
    }

    /// Keeps a frame with its reason, if there are not enough of its kind in this minute.
    pub fn keep(&mut self, venue: Venue, frame: &RawFrame, reason: &Undecodable) {
        self.count += 1;
        *self.by_reason.entry((venue, reason_of(reason).0)).or_insert(0) += 1;
        let (sample, first) = self.samples.takes(frame.ts_ns, venue, reason);
        if first && self.samples.logged < LOGGED_MAX {
            self.samples.logged += 1;
            let source = std::error::Error::source(reason).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(conn = &*frame.conn, %reason, source, "dead letter");
        }
        let Some(file) = &mut self.file else { return };
        if !sample {
            self.unkept += 1;
            return;
        }
        let (raw, hex) = match &frame.raw {
            RawPayload::Text(text) => (Some(text.as_str()), None),
            RawPayload::Binary(bytes) => (None, Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())),
        };
        let letter = Letter { ts_ns: frame.ts_ns.to_string(), conn: &frame.conn, reason: reason.to_string(), raw, hex };
        let kept = serde_json::to_vec(&letter).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
            if self.bytes.saturating_add(bytes) > BYTES_MAX {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes += bytes;
            file.write_all(&line)
        });
        self.unkept += u64::from(kept.is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::raw::RawKind;

    const VENUE: Venue = Venue::BinanceSpot;

    fn unlisted(symbol: &str) -> Undecodable {
        Undecodable::Unlisted { venue: VENUE, symbol: symbol.into() }
    }

    fn frame(ts_ns: u64) -> RawFrame {
        let raw = RawPayload::Text("{}".into());
        RawFrame { ts_ns, kind: RawKind::Ws, conn: "binance_spot/a".into(), url: None, raw }
    }

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_chatty_symbol_is_counted_and_sampled_and_pushes_nothing_else_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letters");
        let mut letters = DeadLetters::append_to(&path).unwrap();
        for at in 0..1_000 {
            letters.keep(VENUE, &frame(at), &unlisted("WHATUSDT"));
        }
        letters.keep(VENUE, &frame(1_000), &unlisted("OTHERUSDT"));
        letters.keep(VENUE, &frame(1_000), &Undecodable::Binary { venue: VENUE });
        assert_eq!((letters.count(), letters.unkept()), (1_002, 1_000 - u64::from(SAMPLES_MAX)));
        assert_eq!(lines(&path).len(), usize::try_from(SAMPLES_MAX).unwrap() + 2);
        assert!(lines(&path)[0].contains("WHATUSDT"), "{}", lines(&path)[0]);
        let counts: Vec<_> = letters.by_reason().collect();
        assert_eq!(counts, [(VENUE, "binary", 1), (VENUE, "unlisted", 1_001)]);
        letters.keep(VENUE, &frame(MINUTE_NS), &unlisted("WHATUSDT"));
        assert_eq!(lines(&path).len(), usize::try_from(SAMPLES_MAX).unwrap() + 3, "a new minute, new samples");
    }

    #[test]
    fn the_kinds_told_apart_are_bounded() {
        let mut letters = DeadLetters::default();
        for at in 0..3 * KINDS_MAX {
            letters.keep(VENUE, &frame(1), &unlisted(&format!("S{at}")));
        }
        assert!(letters.samples.kinds.len() <= KINDS_MAX + 1, "{}", letters.samples.kinds.len());
    }
}
