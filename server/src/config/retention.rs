//! `[retention]`: how long the store keeps what, and how often dead ticks are swept out of it.
//!
//! Never: fewer days than late data may take.

use super::error::Problems;
use connectors::clickhouse::upkeep;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most days, a century.
const DAYS_MAX: u32 = 36_500;

/// How long the store keeps what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Seconds between two sweeps of dead ticks out of `tick_state`; 60 to 604,800, or 0 for never.
    pub sweep_every_s: u64,
    /// Days that `tick_updates` keeps changes; up to 36,500. 0 leaves the table as it is, which is for ever.
    pub history_days: u32,
    /// Days that `trades` keeps trades, and so the candles; likewise.
    pub trades_days: u32,
    /// Days that `raw_events` keeps messages of venues; likewise. Blocks of batch streams are kept.
    pub messages_days: u32,
    /// Days that the audits and their evidence are kept; likewise.
    pub audits_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self { sweep_every_s: 3_600, history_days: 0, trades_days: 0, messages_days: 0, audits_days: 90 }
    }
}

impl Retention {
    /// Time between two sweeps, if there are any.
    #[must_use]
    pub fn sweep_every(&self) -> Option<Duration> {
        (self.sweep_every_s > 0).then(|| Duration::from_secs(self.sweep_every_s))
    }

    /// The days of each table.
    #[must_use]
    pub fn days(&self) -> upkeep::Retention {
        upkeep::Retention {
            history_days: self.history_days,
            trades_days: self.trades_days,
            messages_days: self.messages_days,
            audits_days: self.audits_days,
        }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        if self.sweep_every_s > 0 {
            problems.range("retention.sweep_every_s", self.sweep_every_s, 60..=604_800);
        }
        for (field, days) in [
            ("retention.history_days", self.history_days),
            ("retention.trades_days", self.trades_days),
            ("retention.messages_days", self.messages_days),
            ("retention.audits_days", self.audits_days),
        ] {
            problems.range(field, days, 0..=DAYS_MAX);
        }
    }
}
