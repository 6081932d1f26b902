//! The feed: what a message is of, and what it says.
//!
//! Never: a message of one product that touches another.

use super::{
    book::{levels, side},
    message::{BookLevel, BookSnapshot, Head, Trade},
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed,
    listings::Listings,
    number::{LevelText, token},
    numbered::{BookText, Numbered},
    time,
    trades::TradeText,
};
use market::{Event, Venue, Window};
use std::sync::Arc;

const VENUE: Venue = Venue::KrakenFutures;

/// The decoder of Kraken Futures.
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

    fn snapshot(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let snapshot: BookSnapshot<'_> = venue_feed::json(VENUE, text)?;
        let venue_ns = time::from_ms(VENUE, snapshot.time_ms)?;
        let (symbol, levels) = (&*snapshot.symbol, levels(&snapshot));
        let text = BookText { symbol, levels, window: Window::Whole, venue_ns };
        self.books.snapshot_of_stream(arrival, snapshot.seq, text, out)
    }

    fn level(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let level: BookLevel<'_> = venue_feed::json(VENUE, text)?;
        let venue_ns = time::from_ms(VENUE, level.time_ms)?;
        let one = LevelText { side: side(&level.side)?, price: token(level.price), quantity: token(level.qty) };
        let (symbol, levels) = (&*level.symbol, std::iter::once(one));
        let text = BookText { symbol, levels, window: Window::Whole, venue_ns };
        self.books.delta(arrival, (level.seq, level.seq), text, out)
    }

    fn trade(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let trade: Trade<'_> = venue_feed::json(VENUE, text)?;
        let venue_ns = time::from_ms(VENUE, trade.time_ms)?;
        let taker = side(&trade.side)?;
        let (price, quantity) = (token(trade.price), token(trade.qty));
        let text = TradeText { id: &trade.id, order: Some(trade.seq), at: 0, price, quantity, taker, venue_ns };
        self.books.trade(arrival, &trade.symbol, text, out)
    }
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
        let head: Head<'_> = venue_feed::json(VENUE, text)?;
        // A word about a subscription names the feed as well.
        match head.feed.as_deref().filter(|_| head.event.is_none()) {
            Some("book") => self.level(arrival, text, out),
            Some("book_snapshot") => self.snapshot(arrival, text, out),
            Some("trade") => self.trade(arrival, text, out),
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
