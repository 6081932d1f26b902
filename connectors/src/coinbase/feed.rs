//! The feed: books of both protocols, the numbers of Advanced Trade's connections, trades.
//!
//! Never: a message whose place on its connection was passed.

use super::{
    book::{Told, changes, merged, required, taker, whole},
    message::{BookEvent, Frame, Trade, TradesEvent},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed,
    listings::Listings,
    number::{LevelText, token},
    numbered::BookText,
    sequenced::{Sequenced, Step},
    standby::Standby,
    time,
    trades::TradeText,
};
use market::{Event, LegId, Venue, Window, guard::BreakReason};
use std::sync::Arc;

const VENUE: Venue = Venue::Coinbase;

/// The decoder of Coinbase, of whichever protocol a message is.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
    sequenced: Sequenced,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let (books, sequenced) = (Standby::new(VENUE, listings), Sequenced::default());
        Self { books, sequenced }
    }

    /// Rules 1 to 3.
    fn exchange(&mut self, arrival: Arrival<'_>, frame: &Frame<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let (symbol, snapshot) = (&*frame.product_id, frame.kind == "snapshot");
        let levels = match &*frame.kind {
            "snapshot" => whole(frame),
            "l2update" => changes(frame),
            "match" | "last_match" => return self.matched(arrival, frame, out),
            _ => {
                self.books.counts.ignored += 1;
                return Ok(());
            }
        };
        self.book(arrival, (symbol, snapshot, &frame.time), levels, out)
    }

    fn matched(&mut self, arrival: Arrival<'_>, frame: &Frame<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let trade = TradeText {
            id: token(required(frame.trade_id, "trade_id")?),
            order: None,
            at: 0,
            price: token(required(frame.price, "price")?),
            quantity: token(required(frame.size, "size")?),
            taker: taker(&frame.side)?,
            venue_ns: time::from_rfc3339(VENUE, &frame.time)?,
        };
        self.trade(arrival, &frame.product_id, trade, out)
    }

    /// One message's word on one book. Whatever cannot be read of it breaks that book, and no other.
    fn book(
        &mut self,
        arrival: Arrival<'_>,
        (symbol, snapshot, stamp): (&str, bool, &str),
        levels: Result<Vec<LevelText<'_>>, Undecodable>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let stamped = || if stamp.is_empty() { Ok(0) } else { time::from_rfc3339(VENUE, stamp) };
        let (levels, venue_ns) = match levels.and_then(|levels| Ok((levels, stamped()?))) {
            Ok(read) => read,
            Err(error) => {
                self.books.fail(arrival, symbol, BreakReason::Undecodable, out);
                return Err(error);
            }
        };
        let text = BookText { symbol, levels: levels.iter().copied(), window: Window::Whole, venue_ns };
        if snapshot {
            self.books.snapshot(arrival, text, |_| None, out)
        } else {
            self.books.update(arrival, text, |_| None, out)
        }
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        trade: TradeText<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        // An id beyond 64 bits is kept as text; its place is then the arrival order.
        self.books.trade(arrival, symbol, TradeText { order: trade.id.parse().ok(), ..trade }, out)
    }

    /// Rule 4.
    fn advanced(&mut self, arrival: Arrival<'_>, frame: &Frame<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        match frame.sequence_num.map(|number| self.sequenced.step(arrival.leg, number)) {
            None | Some(Step::Next) => {}
            Some(Step::Missing(missing)) => {
                self.books.counts.missing = self.books.counts.missing.saturating_add(missing);
                self.anew(arrival, BreakReason::Missing, out);
            }
            Some(Step::Passed) => {
                self.books.counts.passed += 1;
                return Ok(());
            }
        }
        match &*frame.channel {
            "l2_data" => self.books_of(arrival, frame, out),
            "market_trades" => self.trades_of(arrival, frame, out),
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }

    fn books_of(&mut self, arrival: Arrival<'_>, frame: &Frame<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let events = required(frame.events, "events").and_then(|events| json::<Vec<BookEvent<'_>>>(events.get()));
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                // Nobody knows whose books it changes.
                self.anew(arrival, BreakReason::Undecodable, out);
                return Err(error);
            }
        };
        let mut all = Ok(());
        for Told { symbol, snapshot, levels } in merged(&events) {
            let one = self.book(arrival, (&symbol, snapshot, &frame.timestamp), levels, out);
            all = all.and(one);
        }
        all
    }

    fn trades_of(&mut self, arrival: Arrival<'_>, frame: &Frame<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let events: Vec<TradesEvent<'_>> = json(required(frame.events, "events")?.get())?;
        let newest_last = |event: &TradesEvent<'_>| event.kind != "snapshot";
        let mut trades: Vec<&Trade<'_>> = Vec::new();
        for event in &events {
            if newest_last(event) {
                trades.extend(&event.trades);
            } else {
                trades.extend(event.trades.iter().rev());
            }
        }
        let mut all = Ok(());
        for (at, trade) in trades.into_iter().enumerate() {
            all = all.and(self.trade_of(arrival, (at, trade), out));
        }
        all
    }

    fn trade_of(
        &mut self,
        arrival: Arrival<'_>,
        (at, trade): (usize, &Trade<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let text = TradeText {
            id: token(required(trade.trade_id, "trade_id")?),
            order: None,
            at: u16::try_from(at).unwrap_or(u16::MAX),
            price: token(trade.price),
            quantity: token(trade.size),
            taker: taker(&trade.side)?,
            venue_ns: time::from_rfc3339(VENUE, &trade.time)?,
        };
        self.trade(arrival, &trade.product_id, text, out)
    }

    /// No book of the leg can be trusted any more; only another connection heals that.
    fn anew(&mut self, arrival: Arrival<'_>, reason: BreakReason, out: &mut Vec<Event>) {
        self.books.lose_all(arrival, reason, out);
        self.sequenced.reconnect(arrival.leg);
    }
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(VENUE, text)
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn books(&self) -> &dyn Books {
        &self.books
    }

    fn books_mut(&mut self) -> &mut dyn Books {
        &mut self.books
    }

    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let frame: Frame<'_> = json(text)?;
        if frame.channel.is_empty() { self.exchange(arrival, &frame, out) } else { self.advanced(arrival, &frame, out) }
    }

    /// The leg's books are those of no connection, and its numbers begin anew.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.books.reconnected(arrival, out);
        self.sequenced.begin(arrival.leg);
    }

    fn reconnects(&mut self) -> Vec<LegId> {
        self.sequenced.reconnects()
    }
}

#[cfg(test)]
mod tests;
