//! Trades of any venue in exact steps, and ids for those to which their venue gives none.
//!
//! Never: a trade that refines the steps of a book.

use super::{
    Arrival, Undecodable, excerpt,
    number::{Steps, Subject},
};
use foldhash::HashMap;
use market::{Body, Decimal, Event, Side, SymbolId, trade::TRADE_ID_BYTES_MAX};

/// Trades of one frame that keep their order.
const FRAME_TRADES_MAX: u64 = 1 << 16;

/// One trade as the venue wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TradeText<'a> {
    /// The venue's id, as text.
    pub(crate) id: &'a str,
    /// Its place in the venue's order; none where the ids order nothing, then it is that of the frame and in the frame.
    pub(crate) order: Option<u64>,
    /// Its place among the trades of its frame.
    pub(crate) at: u16,
    pub(crate) price: &'a str,
    pub(crate) quantity: &'a str,
    /// `Bid` when a buyer took.
    pub(crate) taker: Side,
    /// Unix nanoseconds.
    pub(crate) venue_ns: u64,
}

impl TradeText<'_> {
    /// The event that tells it, in steps of its own: a finer number must not touch the book's.
    ///
    /// # Errors
    /// [`Undecodable`]: no id, or a number that cannot be taken.
    pub(crate) fn event(
        self,
        subject: Subject<'_>,
        symbol: SymbolId,
        steps: Steps,
        arrival: Arrival<'_>,
    ) -> Result<Event, Undecodable> {
        if self.id.is_empty() || self.id.len() > TRADE_ID_BYTES_MAX {
            return Err(Undecodable::TradeId { venue: subject.venue, symbol: excerpt(subject.symbol) });
        }
        let mut own = steps;
        let (tick_index, quantity) = subject.pair(&mut own, self.price, self.quantity)?;
        let arrived = || arrival.position.saturating_mul(FRAME_TRADES_MAX).saturating_add(u64::from(self.at));
        let order = self.order.unwrap_or_else(arrived);
        let (id, taker, venue_ns) = (self.id.into(), self.taker, self.venue_ns);
        let trade = market::Trade { id, order, tick_index, quantity, taker, venue_ns };
        let body = Body::Trade { scale: own.scale(), trade };
        Ok(Event::of(symbol, arrival.leg, arrival.frame.ts_ns, venue_ns, body))
    }
}

/// A trade to which its venue gives no id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnnamedTrade<'a> {
    pub(crate) price: &'a str,
    pub(crate) quantity: &'a str,
    /// `Bid` when a buyer took.
    pub(crate) taker: Side,
    /// Unix nanoseconds.
    pub(crate) venue_ns: u64,
}

/// Makes the ids of one message's trades out of all that is known of them: the venue's time, the taker's side, price and
/// quantity as values, and the trade's place among its equals in the message.
///
/// So the same trade told again has the same id: on another leg, or in the history that comes with a subscription. What
/// cannot be told: two real trades that are equal in all of it are two within one message, but one if they come in two
/// messages; and if a history holds both, the second of them is new there. With times in microseconds (Kraken) that is
/// next to never, with times in milliseconds (dYdX, Bitget) rare: one pair among the 1,000 trades of dYdX' capture.
#[derive(Debug, Default)]
pub(crate) struct MadeIds {
    equals: HashMap<Box<str>, u32>,
}

impl MadeIds {
    /// The id of the message's next trade.
    pub(crate) fn next(&mut self, trade: &UnnamedTrade<'_>) -> String {
        // A text that is no number is refused with the trade; until then it stands for itself.
        let value = |text: &str| Decimal::parse(text).map_or_else(|_| text.to_owned(), |value| value.to_string());
        let taker = if trade.taker == Side::Bid { 'b' } else { 's' };
        let id = format!("{}{taker}{}x{}", trade.venue_ns, value(trade.price), value(trade.quantity));
        match self.equals.get_mut(&*id) {
            None => {
                self.equals.insert(id.as_str().into(), 0);
                id
            }
            Some(before) => {
                *before = before.saturating_add(1);
                format!("{id}#{before}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_is_that_of_the_value_and_equals_of_one_message_are_told_apart() {
        let trade = |price, venue_ns| UnnamedTrade { price, quantity: "1.50", taker: Side::Bid, venue_ns };
        let told = |trades: &[UnnamedTrade<'_>]| {
            let mut ids = MadeIds::default();
            trades.iter().map(|trade| ids.next(trade)).collect::<Vec<_>>()
        };
        let first = told(&[trade("2.440", 7), trade("2.44", 7), trade("2.44", 8)]);
        assert_eq!(first, ["7b2.44x1.5", "7b2.44x1.5#1", "8b2.44x1.5"]);
        assert_eq!(told(&[trade("2.44", 8)]), first[2..], "the same trade told again");
        let sold = UnnamedTrade { taker: Side::Ask, ..trade("2.44", 8) };
        assert_eq!(told(&[sold]), ["8s2.44x1.5"]);
    }
}
