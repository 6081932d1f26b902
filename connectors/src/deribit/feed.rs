//! The feed: books by their chain of ids, trades, maintenances.
//!
//! Never: a decision about order, which is the guard's.

use super::{
    book::{rows, unknown_verb},
    message::{Book, Envelope, PlatformState, Trade},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, excerpt,
    listings::Listings,
    number::token,
    numbered::{BookText, Numbered},
    time,
    trades::TradeText,
};
use market::{Body, Event, Side, Venue, Window};
use std::sync::Arc;

const VENUE: Venue = Venue::Deribit;

/// The decoder of Deribit.
#[derive(Debug)]
pub struct Feed {
    books: Numbered,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { books: Numbered::new(VENUE, listings) }
    }

    fn book(&mut self, arrival: Arrival<'_>, data: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let book: Book<'_> = json(data)?;
        let (symbol, last) = (&*book.instrument, book.last);
        if let Some(verb) = unknown_verb(&book.bids).or_else(|| unknown_verb(&book.asks)) {
            return Err(field("verb", verb));
        }
        let venue_ns = time::from_ms(VENUE, book.ms)?;
        let text = BookText { symbol, levels: rows(&book.bids, &book.asks), window: Window::Whole, venue_ns };
        match (&*book.kind, book.prev) {
            ("snapshot", _) => self.books.snapshot_of_stream(arrival, last, text, out),
            ("change", Some(prev)) => {
                let first = prev.saturating_add(1);
                if last == prev && !(book.bids.is_empty() && book.asks.is_empty()) {
                    return Err(Undecodable::Ids { venue: VENUE, symbol: excerpt(symbol), first, last });
                }
                self.books.delta(arrival, (first, last), text, out)
            }
            ("change", None) => Err(field("prev_change_id", "absent")),
            (other, _) => Err(field("type", other)),
        }
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        (at, trade): (usize, &Trade<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let venue_ns = time::from_ms(VENUE, trade.ms)?;
        let taker = match &*trade.direction {
            "buy" => Side::Bid,
            "sell" => Side::Ask,
            other => return Err(field("direction", other)),
        };
        let text = TradeText {
            id: token(trade.id),
            order: Some(trade.order),
            at: u16::try_from(at).unwrap_or(u16::MAX),
            price: token(trade.price),
            quantity: token(trade.amount),
            taker,
            venue_ns,
        };
        self.books.trade(arrival, &trade.instrument, text, out)
    }

    /// Rule 6.
    fn state(&mut self, arrival: Arrival<'_>, data: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let state: PlatformState = json(data)?;
        let body = match state.maintenance {
            Some(true) => Body::Halted,
            Some(false) => Body::Resumed,
            None => {
                self.books.counts.ignored += 1;
                return Ok(());
            }
        };
        out.push(Event::of_leg(0, arrival.leg, arrival.frame.ts_ns, body));
        Ok(())
    }

    fn notification(
        &mut self,
        arrival: Arrival<'_>,
        channel: &str,
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let mut parts = channel.split('.');
        match (parts.next(), parts.count()) {
            // Rule 7: with more parts it is no book.
            (Some("book"), 2) => self.book(arrival, data, out),
            (Some("trades"), _) => {
                let trades: Vec<Trade<'_>> = json(data)?;
                trades.iter().enumerate().try_for_each(|trade| self.trade(arrival, trade, out))
            }
            (Some("platform_state"), 0) => self.state(arrival, data, out),
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(VENUE, text)
}

fn field(field: &'static str, text: &str) -> Undecodable {
    Undecodable::Field { venue: VENUE, field, text: excerpt(text) }
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
        let envelope: Envelope<'_> = json(text)?;
        match (envelope.method.as_deref(), envelope.params) {
            (Some("subscription"), Some(params)) => {
                let channel = params.channel.ok_or_else(|| field("channel", text))?;
                let data = params.data.ok_or_else(|| field("data", text))?;
                self.notification(arrival, &channel, data.get(), out)
            }
            (Some("heartbeat"), _) => {
                self.books.counts.ignored += 1;
                Ok(())
            }
            _ if envelope.result.is_some() || envelope.error.is_some() => {
                self.books.counts.ignored += 1;
                Ok(())
            }
            _ => Err(field("method", envelope.method.as_deref().unwrap_or("absent"))),
        }
    }
}

#[cfg(test)]
mod tests;
