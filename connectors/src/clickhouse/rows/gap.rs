//! What the history lacks, as rows of `history_gaps`.
//!
//! Never: a clock; a gap tells when the newest of what is left out was received.

use super::{put_instrument, put_text, time};
use clickhouse::Row;
use market::Instrument;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What was left out of the history: changes of an instrument, or trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The least place: a version, or of trades their order.
    pub first: u128,
    /// The greatest place.
    pub last: u128,
    /// How many.
    pub count: u64,
    /// When the newest of them was received, Unix nanoseconds.
    pub received_ns: u64,
}

impl LeftOut {
    /// One change, or trade.
    #[must_use]
    pub const fn one(place: u128, received_ns: u64) -> Self {
        Self { first: place, last: place, count: 1, received_ns }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            count: self.count.saturating_add(other.count),
            received_ns: self.received_ns.max(other.received_ns),
        }
    }

    /// Adds to what may be none yet.
    pub fn add(sum: &mut Option<Self>, more: Self) {
        *sum = Some(sum.map_or(more, |sum| sum.and(more)));
    }
}

/// Why the history lacks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The store was behind: of changes that waited the older ones of each tick were left out. Places are versions.
    StoreBehind,
    /// The store was behind: the oldest trades that waited were left out. Places are trade orders.
    TradesLeftOut,
}

impl GapReason {
    /// As the store has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StoreBehind => "store_behind",
            Self::TradesLeftOut => "trades_left_out",
        }
    }
}

/// A gap in the history of one instrument, waiting to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryGap {
    /// The instrument.
    pub instrument: Arc<Instrument>,
    /// Why.
    pub reason: GapReason,
    /// What is missing.
    pub left_out: LeftOut,
}

impl HistoryGap {
    /// The place before the first that is missing: all up to here is complete.
    #[must_use]
    pub const fn after(&self) -> u128 {
        self.left_out.first.saturating_sub(1)
    }

    pub(super) fn put(&self, hash: &mut Sha256) {
        put_instrument(hash, &self.instrument);
        put_text(hash, self.reason.name());
        hash.update(self.left_out.first.to_le_bytes());
        hash.update(self.left_out.last.to_le_bytes());
        hash.update(self.left_out.count.to_le_bytes());
        hash.update(self.left_out.received_ns.to_le_bytes());
    }
}

/// A row of `history_gaps` on its way.
#[derive(Row, Serialize)]
pub(in crate::clickhouse) struct HistoryGapRow<'a> {
    venue: &'a str,
    symbol: &'a str,
    asset_0: &'a str,
    asset_1: &'a str,
    after: u128,
    through: u128,
    changes: u64,
    reason: &'a str,
    noted_at: i64,
}

impl<'a> From<&'a HistoryGap> for HistoryGapRow<'a> {
    fn from(gap: &'a HistoryGap) -> Self {
        Self {
            venue: gap.instrument.venue.name(),
            symbol: &gap.instrument.symbol,
            asset_0: &gap.instrument.asset_0,
            asset_1: &gap.instrument.asset_1,
            after: gap.after(),
            through: gap.left_out.last,
            changes: gap.left_out.count,
            reason: gap.reason.name(),
            noted_at: time(gap.left_out.received_ns),
        }
    }
}
