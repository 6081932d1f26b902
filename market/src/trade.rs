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

/// Unknown late trades in a row, each above the one before it, after which their order is the venue's: one absurd id, or
/// ids that the venue begins anew, must not hold the last price for ever. A leg that lags by fewer turns nothing back, and
/// a busy venue passes it within a second or a few.
pub const LATE_RUN_MAX: u32 = 64;

/// Late trades that follow each other upwards.
#[derive(Clone, Copy, Debug)]
struct Run {
    length: u32,
    last: u64,
}

/// Keeps one instrument's trades in order, and each of them single.
#[derive(Clone, Debug, Default)]
pub struct TradeGuard {
    last: Option<u64>,
    /// Unknown late trades since the last shown one, as far back as they rise.
    late: Option<Run>,
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
        if self.last.is_none_or(|last| order > last) || self.is_late_for_long(order) {
            self.last = Some(order);
            self.late = None;
            return TradeVerdict::Shown;
        }
        TradeVerdict::Late
    }

    /// Notes a late trade; whether so many have risen in a row that their order is the venue's.
    fn is_late_for_long(&mut self, order: u64) -> bool {
        let before = self.late.filter(|run| run.last < order).map_or(0, |run| run.length);
        let length = before.saturating_add(1);
        self.late = Some(Run { length, last: order });
        length >= LATE_RUN_MAX
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

    /// Offers orders, each under an id of its own; gives those that were shown.
    fn shown(guard: &mut TradeGuard, orders: impl IntoIterator<Item = u64>) -> Vec<u64> {
        orders.into_iter().filter(|order| guard.offer(*order, &format!("of {order}")) == Shown).collect()
    }

    #[test]
    fn one_absurd_id_does_not_hold_the_last_price_for_ever() {
        let run = u64::from(LATE_RUN_MAX);
        for absurd in [u64::MAX, 1 << 60, 20_001 << 16] {
            let mut guard = TradeGuard::default();
            assert_eq!(shown(&mut guard, [5, absurd]), [5, absurd]);
            let heals = 6 + run - 1;
            assert_eq!(shown(&mut guard, 6..=20_000), (heals..=20_000).collect::<Vec<_>>(), "after {absurd}");
            assert_eq!(guard.offer(7, "of 7"), Late, "its id is forgotten by then");
            assert_eq!(guard.offer(20_000, "of 20000"), Duplicate);
            assert_eq!(guard.offer(20_001, "of 20001"), Shown);
        }
    }

    #[test]
    fn an_order_that_the_venue_begins_anew_is_followed() {
        let mut guard = TradeGuard::default();
        shown(&mut guard, 1_000_000..1_010_000);
        assert_eq!(shown(&mut guard, 1..=100), (u64::from(LATE_RUN_MAX)..=100).collect::<Vec<_>>());
    }

    #[test]
    fn a_leg_that_lags_turns_nothing_back() {
        let lag = u64::from(LATE_RUN_MAX) - 1;
        let mut guard = TradeGuard::default();
        shown(&mut guard, [1_000]);
        for round in 0..20 {
            let history = 100 * round..100 * round + lag;
            assert!(shown(&mut guard, history.filter(|order| *order < 1_000)).is_empty());
            assert_eq!(shown(&mut guard, [3_000 + round]), [3_000 + round]);
        }
        // What is known already proves nothing, however often it comes.
        for _ in 0..3 {
            for order in 0..lag {
                assert_eq!(guard.offer(order, &format!("of {order}")), Duplicate);
            }
        }
        // Nor do late ones that do not rise.
        assert!(shown(&mut guard, (1_100..1_900).rev()).is_empty());
        assert_eq!(guard.last, Some(3_019));
    }

    #[test]
    fn old_trades_between_new_ones_turn_nothing_back() {
        let mut guard = TradeGuard::default();
        let mixed = (0..2_000).flat_map(|at| [10_000 + at, at]);
        assert_eq!(shown(&mut guard, mixed), (10_000..12_000).collect::<Vec<_>>());
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
