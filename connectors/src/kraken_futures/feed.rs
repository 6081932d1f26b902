//! The feed: what a message is of, and what it says.
//!
//! Never: a message of one product that touches another.

use super::{
    book::{levels, side},
    message::{BookLevel, BookSnapshot, Head, Trade},
};
use crate::venue_feed::{
    self, Arrival, FeedCounts, Undecodable, VenueFeed,
    listings::Listings,
    number::{LevelText, Subject, token},
    numbered::{BookText, Numbered},
    time,
    trades::TradeText,
};
use market::{Event, LegId, Venue, Window};
use std::sync::Arc;

const VENUE: Venue = Venue::KrakenFutures;

/// The decoder of Kraken Futures.
#[derive(Debug)]
pub struct Feed {
    books: Numbered,
    counts: FeedCounts,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { books: Numbered::new(VENUE, listings), counts: FeedCounts::default() }
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
        let stream = self.books.stream(&trade.symbol, arrival, out)?;
        let (price, quantity) = (token(trade.price), token(trade.qty));
        let text = TradeText { id: &trade.id, order: Some(trade.seq), at: 0, price, quantity, taker, venue_ns };
        let subject = Subject { venue: VENUE, symbol: &trade.symbol };
        out.push(text.event(subject, stream.symbol, stream.steps, arrival)?);
        Ok(())
    }
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let head: Head<'_> = venue_feed::json(VENUE, text)?;
        // A word about a subscription names the feed as well.
        match head.feed.as_deref().filter(|_| head.event.is_none()) {
            Some("book") => self.level(arrival, text, out),
            Some("book_snapshot") => self.snapshot(arrival, text, out),
            Some("trade") => self.trade(arrival, text, out),
            _ => {
                self.counts.ignored += 1;
                Ok(())
            }
        }
    }

    fn connection(&mut self, arrival: Arrival<'_>, _out: &mut Vec<Event>) {
        self.books.reconnected(arrival.leg);
    }

    fn counts_mut(&mut self) -> &mut FeedCounts {
        &mut self.counts
    }

    fn counts(&self) -> FeedCounts {
        self.counts
    }

    fn look_after(&mut self, leg: LegId, now_ns: u64) {
        self.books.look_after(leg, now_ns);
    }

    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        self.books.repairs()
    }
}

#[cfg(test)]
mod tests;
