//! Trades, and the guard that keeps the last price from turning back.
//!
//! Never: a trade id as a number alone; ids beyond 64 bits exist.

use crate::{Side, U256};
use serde::{Deserialize, Serialize};

/// Longest trade id taken from a venue, in bytes.
pub const TRADE_ID_BYTES_MAX: usize = 64;

/// One trade of an instrument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trade {
    /// The venue's id, kept as text.
    pub id: Box<str>,
    /// Position in the venue's trade order: the id where it fits, else the arrival order.
    pub order: u64,
    /// Price in the price step that the event names.
    pub tick_index: i64,
    /// Quantity in the quantity step that the event names.
    pub quantity: U256,
    /// Which side took: `Bid` when a buyer did.
    pub taker: Side,
    /// The venue's own time of the trade, Unix nanoseconds.
    pub venue_ns: u64,
}

/// What became of an offered trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TradeVerdict {
    /// Newer than all before: shown, and the last price.
    Shown,
    /// The same trade again.
    Duplicate,
    /// Older than the shown one: history only.
    Late,
}

/// Orders that were shown lately, so that a repeat is told from a late trade. Beyond it a repeat counts as late,
/// which shows neither.
pub const TRADES_REMEMBERED_MAX: usize = 1_024;

/// Keeps one instrument's trades in order.
#[derive(Clone, Debug, Default)]
pub struct TradeGuard {
    last: Option<u64>,
    recent: std::collections::VecDeque<u64>,
}

impl TradeGuard {
    /// Decides about a trade at a position of the venue's order.
    pub fn offer(&mut self, order: u64) -> TradeVerdict {
        if self.last.is_none_or(|last| order > last) {
            self.last = Some(order);
            if self.recent.len() == TRADES_REMEMBERED_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(order);
            return TradeVerdict::Shown;
        }
        if self.recent.binary_search(&order).is_ok() { TradeVerdict::Duplicate } else { TradeVerdict::Late }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trade_is_shown_once_and_never_backwards() {
        let mut guard = TradeGuard::default();
        let verdicts: Vec<_> = [5, 7, 7, 6, 5, 8].into_iter().map(|order| guard.offer(order)).collect();
        use TradeVerdict::{Duplicate, Late, Shown};
        assert_eq!(verdicts, [Shown, Shown, Duplicate, Late, Duplicate, Shown]);
    }
}
