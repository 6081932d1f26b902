//! `[audit]`: how often the store is held against the live books, and how fast.
//!
//! Never: what is done about a difference; that is not a matter of taste.

use super::error::Problems;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The audit of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Seconds from the beginning of one audit to that of the next; 0 to 86,400, 0 = none.
    pub every_s: u64,
    /// Instruments that are compared in a second; 1 to 10,000.
    pub instruments_per_second: u32,
    /// Rows of evidence that one audit keeps; 0 to 1,000,000. What is beyond is only counted.
    pub evidence_rows: usize,
}

impl Default for Audit {
    fn default() -> Self {
        Self { every_s: 180, instruments_per_second: 100, evidence_rows: 1_000 }
    }
}

impl Audit {
    /// From one audit to the next; none if there shall be none.
    #[must_use]
    pub fn every(&self) -> Option<Duration> {
        (self.every_s > 0).then(|| Duration::from_secs(self.every_s))
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        problems.range("audit.every_s", self.every_s, 0..=86_400);
        problems.range("audit.instruments_per_second", self.instruments_per_second, 1..=10_000);
        problems.range("audit.evidence_rows", self.evidence_rows, 0..=1_000_000);
    }
}
