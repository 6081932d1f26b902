//! Trades of one instrument in the venue's order, and the last price.
//!
//! Never: a trade shown twice; a last price that turns back, but for a venue whose order itself restarted or was absurd.

use market::{Scale, Trade, TradeGuard, trade::TradeVerdict};

/// How long, after a server restart, every trade must be older than the shown one before the order counts as
/// restarted, in milliseconds: the time in which the tape itself decides so about a book.
pub const ORDER_RESTART_MS: u64 = 10_000;

/// The last trade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownTrade {
    /// The steps that its numbers are in.
    pub scale: Scale,
    /// The trade.
    pub trade: Trade,
}

/// The guard of one instrument's trades.
#[derive(Clone, Debug, Default)]
pub(crate) struct TradeTape {
    guard: TradeGuard,
    last: Option<ShownTrade>,
    /// The server generation that the shown order came from.
    generation: u64,
    /// Since when another generation sends only older trades.
    behind_since_ms: Option<u64>,
}

impl TradeTape {
    /// Decides about a trade and remembers it if it is the newest.
    pub(crate) fn offer(&mut self, scale: Scale, trade: &Trade, generation: u64, now_ms: u64) -> TradeVerdict {
        let mut verdict = self.guard.offer(trade.order, &trade.id);
        if verdict == TradeVerdict::Late && self.is_restarted(generation, now_ms) {
            self.guard = TradeGuard::default();
            verdict = self.guard.offer(trade.order, &trade.id);
        }
        if verdict == TradeVerdict::Shown {
            self.last = Some(ShownTrade { scale, trade: trade.clone() });
            self.generation = generation;
            self.behind_since_ms = None;
        }
        verdict
    }

    pub(crate) fn last(&self) -> Option<&ShownTrade> {
        self.last.as_ref()
    }

    fn is_restarted(&mut self, generation: u64, now_ms: u64) -> bool {
        if self.generation == generation {
            return false;
        }
        let since = *self.behind_since_ms.get_or_insert(now_ms);
        now_ms.saturating_sub(since) >= ORDER_RESTART_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::{Side, U256};

    fn offer(tape: &mut TradeTape, order: u64, generation: u64, now_ms: u64) -> TradeVerdict {
        let trade = Trade {
            id: format!("{generation}-{order}").into(),
            order,
            tick_index: 1,
            quantity: U256::ONE,
            taker: Side::Bid,
            venue_ns: 0,
        };
        tape.offer(Scale { price: 0, quantity: 0 }, &trade, generation, now_ms)
    }

    #[test]
    fn one_absurd_order_does_not_hold_the_last_price_for_ever() {
        let mut tape = TradeTape::default();
        let run = u64::from(market::trade::LATE_RUN_MAX);
        assert_eq!(offer(&mut tape, u64::MAX, 1, 0), TradeVerdict::Shown);
        for order in 1..run {
            assert_eq!(offer(&mut tape, order, 1, order), TradeVerdict::Late);
        }
        assert_eq!(offer(&mut tape, run, 1, run), TradeVerdict::Shown);
        assert_eq!(offer(&mut tape, run, 1, run), TradeVerdict::Duplicate);
        assert_eq!(tape.last().map(|last| last.trade.order), Some(run));
    }

    #[test]
    fn an_order_that_restarted_with_its_server_is_not_refused_for_ever() {
        let mut tape = TradeTape::default();
        assert_eq!(offer(&mut tape, 100, 1, 0), TradeVerdict::Shown);
        assert_eq!(offer(&mut tape, 1, 1, 60_000), TradeVerdict::Late);
        assert_eq!(offer(&mut tape, 1, 2, 60_000), TradeVerdict::Late);
        assert_eq!(offer(&mut tape, 2, 2, 69_999), TradeVerdict::Late);
        assert_eq!(offer(&mut tape, 3, 2, 70_000), TradeVerdict::Shown);
        assert_eq!(offer(&mut tape, 2, 2, 70_001), TradeVerdict::Late);
        assert_eq!(tape.last().map(|last| last.trade.order), Some(3));
    }
}
