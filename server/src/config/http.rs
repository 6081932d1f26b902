//! `[http]`: what HTTP remembers and how much it does at one time.
//!
//! Never: the listener, which terminals share; that is `[server]`.

use super::error::Problems;
use crate::hub::ChangeBounds;
use serde::{Deserialize, Serialize};

/// Memory, waiting requests, and questions to the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Bytes of recent changes that are kept of one instrument; 0 to 1,073,741,824. What is older than they reach is
    /// answered with a whole book.
    pub changes_bytes_per_instrument: usize,
    /// Bytes of recent changes over all instruments; 0 to 17,179,869,184. Beyond it the oldest go, of whichever instrument.
    pub changes_bytes: usize,
    /// Requests that wait for a change (`wait_ms`) at one time; 0 to 65,536. One more is answered 503.
    pub waiting_max: usize,
    /// Different questions to the store at one time; 1 to 64. One more is answered 503.
    pub store_questions_max: usize,
    /// Requests that wait for their answers; 1 to 65,536. One more is answered 503.
    pub store_waiting_max: usize,
    /// Milliseconds that one question may take; 100 to 600,000.
    pub store_timeout_ms: u64,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            changes_bytes_per_instrument: 1 << 20,
            changes_bytes: 256 << 20,
            waiting_max: 1_024,
            store_questions_max: 4,
            store_waiting_max: 4_096,
            store_timeout_ms: 10_000,
        }
    }
}

impl Http {
    /// What the hub remembers.
    #[must_use]
    pub fn change_bounds(&self) -> ChangeBounds {
        ChangeBounds { instrument_bytes: self.changes_bytes_per_instrument, bytes: self.changes_bytes }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        problems.range("http.changes_bytes_per_instrument", self.changes_bytes_per_instrument, 0..=1 << 30);
        problems.range("http.changes_bytes", self.changes_bytes, 0..=16 << 30);
        problems.range("http.waiting_max", self.waiting_max, 0..=65_536);
        problems.range("http.store_questions_max", self.store_questions_max, 1..=64);
        problems.range("http.store_waiting_max", self.store_waiting_max, 1..=65_536);
        problems.range("http.store_timeout_ms", self.store_timeout_ms, 100..=600_000);
    }
}
