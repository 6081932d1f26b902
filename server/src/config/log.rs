//! `[log]`: how much is said and in which form.
//!
//! Never: where it goes; that is standard error, and the supervisor's to keep.

use super::error::Problems;
use serde::{Deserialize, Serialize};

/// Levels from the least to the most said.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Longest list of levels, in bytes.
const LEVEL_BYTES_MAX: usize = 1024;

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// The process's own log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`, and `target=level` for parts, separated by commas; at most
    /// 1,024 bytes.
    pub level: String,
    /// `"text"` or `"json"`.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

impl Log {
    /// The same log with warnings only, for commands whose output is read by a person.
    #[must_use]
    pub fn quiet(&self) -> Self {
        Self { level: "warn".to_owned(), ..self.clone() }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let is_level = |part: &str| LEVELS.contains(&part.rsplit_once('=').map_or(part, |(_, level)| level));
        let right = self.level.len() <= LEVEL_BYTES_MAX && self.level.split(',').all(|part| is_level(part.trim()));
        let value = format_args!("{:?}", self.level);
        problems.unless(right, "log.level", &value, &"off, error, warn, info, debug or trace, or target=level");
    }
}
