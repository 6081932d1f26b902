//! The feed: whole books, changes, trades.
//!
//! Never: a book that went on over a message that could not be read.

use super::{
    book::{levels, side},
    message::{Change, Envelope, Trade},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, listings::Listings, number::token, numbered::BookText,
    standby::Standby, time, trades::TradeText,
};
use market::{Event, Venue, Window, guard::BreakReason};
use std::sync::Arc;

const VENUE: Venue = Venue::Gemini;

/// The decoder of Gemini.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { books: Standby::new(VENUE, listings) }
    }

    /// Rules 1 and 2.
    fn book(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (changes, whole): (&str, bool),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let read = json(changes).and_then(|changes: Vec<Change<'_>>| levels(&changes));
        let read = read.inspect_err(|_| self.books.fail(arrival, symbol, BreakReason::Undecodable, out))?;
        let text = BookText { symbol, levels: read.iter().copied(), window: Window::Whole, venue_ns: 0 };
        if whole {
            self.books.snapshot(arrival, text, |_| None, out)
        } else {
            self.books.update(arrival, text, |_| None, out)
        }
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (at, trade): (usize, &Trade<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let id = token(trade.event_id);
        let text = TradeText {
            id,
            order: id.parse().ok(),
            at: u16::try_from(at).unwrap_or(u16::MAX),
            price: token(trade.price),
            quantity: token(trade.quantity),
            taker: side(&trade.side)?,
            venue_ns: time::from_ms(VENUE, trade.timestamp)?,
        };
        self.books.trade(arrival, symbol, text, out)
    }

    /// Rule 4: what was traded before, told in the order of its happening; what was told already is known by its id.
    fn history(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        trades: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let trades: Vec<Trade<'_>> = json(trades)?;
        trades.iter().rev().enumerate().try_for_each(|trade| self.trade(arrival, symbol, trade, out))
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
        let envelope: Envelope<'_> = json(text)?;
        match (envelope.kind.as_deref(), envelope.symbol.as_deref()) {
            (Some("l2_updates"), Some(symbol)) => {
                let changes = envelope.changes.map_or("[]", |changes| changes.get());
                let book = self.book(arrival, symbol, (changes, envelope.trades.is_some()), out);
                let trades = envelope.trades.map(|trades| self.history(arrival, symbol, trades.get(), out));
                book.and(trades.unwrap_or(Ok(())))
            }
            (Some("trade"), Some(symbol)) => self.trade(arrival, symbol, (0, &json(text)?), out),
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
