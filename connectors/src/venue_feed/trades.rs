//! Trades of any venue in exact steps.
//!
//! Never: a trade that refines the steps of a book.

use super::{
    Arrival, Undecodable, excerpt,
    number::{Steps, Subject},
};
use market::{Body, Event, Side, SymbolId, trade::TRADE_ID_BYTES_MAX};

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
