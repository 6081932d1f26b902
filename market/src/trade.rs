//! Trades, and the guard that keeps the last price from turning back.
//!
//! Never: a trade id as a number alone; ids beyond 64 bits exist.

use crate::{Side, U256};
use foldhash::{HashSet, fast::FixedState};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, hash::BuildHasher};

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

/// Trades of an instrument whose ids are remembered, so that one that comes again is known, however it comes: in the same
/// message, in the next, or minutes later on another leg. Beyond them a repeat of a trade with a numeric id counts as
/// late, which is never shown; one whose id orders nothing would be shown again. The bound is in trades and not in time,
/// since only a bound in trades holds in memory: at 10 trades a second it is some 7 minutes.
pub const TRADES_REMEMBERED_MAX: usize = 4_096;

/// Keeps one instrument's trades in order, and each of them single.
#[derive(Clone, Debug, Default)]
pub struct TradeGuard {
    last: Option<u64>,
    /// Ids as 64-bit hashes, in the order of their coming: two among 4,096 are alike once in 10^12.
    recent: VecDeque<u64>,
    /// The same, to be found.
    known: HashSet<u64>,
}

impl TradeGuard {
    /// Decides about a trade with its id and its position in the venue's order.
    pub fn offer(&mut self, order: u64, id: &str) -> TradeVerdict {
        let hash = FixedState::default().hash_one(id);
        if self.known.contains(&hash) {
            return TradeVerdict::Duplicate;
        }
        self.remember(hash);
        if self.last.is_none_or(|last| order > last) {
            self.last = Some(order);
            return TradeVerdict::Shown;
        }
        TradeVerdict::Late
    }

    fn remember(&mut self, hash: u64) {
        if self.recent.len() >= TRADES_REMEMBERED_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.recent.push_back(hash);
        self.known.insert(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TradeVerdict::{Duplicate, Late, Shown};

    #[test]
    fn a_trade_is_shown_once_and_never_backwards() {
        let mut guard = TradeGuard::default();
        let verdicts: Vec<_> =
            [5_u64, 7, 7, 6, 6, 5, 8].into_iter().map(|order| guard.offer(order, &order.to_string())).collect();
        assert_eq!(verdicts, [Shown, Shown, Duplicate, Late, Duplicate, Duplicate, Shown]);
    }

    #[test]
    fn an_id_that_orders_nothing_is_still_single() {
        let mut guard = TradeGuard::default();
        let mut at = 0;
        let mut offer = |id: &str| {
            at += 1;
            guard.offer(at, id)
        };
        // In the same message, in the next one, and long after on another leg.
        assert_eq!([offer("ab-1"), offer("ab-1"), offer("ab-2"), offer("ab-1")], [Shown, Duplicate, Shown, Duplicate]);
        for other in 0..TRADES_REMEMBERED_MAX - 2 {
            assert_eq!(offer(&other.to_string()), Shown);
        }
        assert_eq!(offer("ab-1"), Duplicate, "the last moment at which it is remembered");
        assert_eq!(offer("one more"), Shown);
        assert_eq!(offer("ab-1"), Shown, "the memory has its documented bound");
    }

    #[test]
    fn memory_stays_bounded() {
        let mut guard = TradeGuard::default();
        for order in 0..2 * u64::try_from(TRADES_REMEMBERED_MAX).unwrap() {
            guard.offer(order, &order.to_string());
        }
        assert_eq!((guard.recent.len(), guard.known.len()), (TRADES_REMEMBERED_MAX, TRADES_REMEMBERED_MAX));
    }
}
