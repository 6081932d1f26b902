//! The feed: subscriptions, books with their checksums, trades.
//!
//! Never: a book shown after its checksum failed.

use super::{
    book::{checksum, rows},
    message::{Book, Envelope, Subscription, Trade},
};
use crate::venue_feed::{
    self, Arrival, FeedCounts, Undecodable, VenueFeed,
    listings::Listings,
    number::{Subject, token},
    numbered::BookText,
    standby::Standby,
    time,
    trades::TradeText,
};
use foldhash::HashMap;
use market::{Event, LegId, Side, Venue, Window, guard::BreakReason, trade::TRADE_ID_BYTES_MAX};
use std::sync::Arc;

const VENUE: Venue = Venue::KrakenSpot;

/// The depth that the venue subscribes to when none is named.
const DEPTH_DEFAULT: u32 = 10;

/// The decoder of Kraken spot v2.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
    /// Subscribed depths.
    depths: HashMap<(LegId, Box<str>), u32>,
    counts: FeedCounts,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let (books, depths) = (Standby::new(VENUE, listings), HashMap::default());
        Self { books, depths, counts: FeedCounts::default() }
    }

    fn acknowledged(
        &mut self,
        arrival: Arrival<'_>,
        method: &str,
        result: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let subscription: Subscription<'_> = json(result)?;
        let (Some("book"), Some(symbol)) = (subscription.channel.as_deref(), subscription.symbol.as_deref()) else {
            return Ok(());
        };
        match (method, subscription.depth) {
            ("subscribe", Some(depth)) => {
                self.depths.insert((arrival.leg, symbol.into()), depth);
            }
            ("unsubscribe", _) => self.books.lose(arrival, symbol, BreakReason::Unsubscribed, out),
            _ => {}
        }
        Ok(())
    }

    fn book(
        &mut self,
        arrival: Arrival<'_>,
        book: &Book<'_>,
        snapshot: bool,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let venue_ns = book.timestamp.as_deref().map_or(Ok(0), |text| time::from_rfc3339(VENUE, text))?;
        let depth = self.depths.get(&(arrival.leg, book.symbol.as_ref().into())).copied();
        let window = Window::Best(depth.unwrap_or(DEPTH_DEFAULT));
        let levels = rows(&book.bids, &book.asks);
        let text = BookText { symbol: &book.symbol, levels, window, venue_ns };
        let check = |text: &_| Some(checksum(text) == book.checksum);
        if snapshot {
            self.books.snapshot(arrival, text, check, out)
        } else {
            self.books.update(arrival, text, check, out)
        }
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        (at, trade): (usize, &Trade<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let venue_ns = time::from_rfc3339(VENUE, &trade.timestamp)?;
        let stream = self.books.stream(&trade.symbol, arrival, out)?;
        let subject = Subject { venue: VENUE, symbol: &trade.symbol };
        let id = token(trade.trade_id);
        let text = TradeText {
            id: id.get(..TRADE_ID_BYTES_MAX.min(id.len())).unwrap_or(id),
            // An id beyond 64 bits is kept as text; its place is then the arrival order.
            order: id.parse().ok(),
            at: u16::try_from(at).unwrap_or(u16::MAX),
            price: token(trade.price),
            quantity: token(trade.qty),
            taker: if trade.side == "buy" { Side::Bid } else { Side::Ask },
            venue_ns,
        };
        out.push(text.event(subject, stream.symbol, stream.steps, arrival)?);
        Ok(())
    }
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(VENUE, text)
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let envelope: Envelope<'_> = json(text)?;
        if let (Some(method), Some(result), true) = (&envelope.method, envelope.result, envelope.success) {
            return self.acknowledged(arrival, method, result.get(), out);
        }
        let data = envelope.data.map(|data| data.get());
        match (envelope.channel.as_deref(), data) {
            (Some("book"), Some(data)) => {
                let snapshot = envelope.kind.as_deref() == Some("snapshot");
                let books: Vec<Book<'_>> = json(data)?;
                books.iter().try_for_each(|book| self.book(arrival, book, snapshot, out))
            }
            (Some("trade"), Some(data)) => {
                let trades: Vec<Trade<'_>> = json(data)?;
                trades.iter().enumerate().try_for_each(|trade| self.trade(arrival, trade, out))
            }
            _ => {
                self.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// The leg's books are those of no connection.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.books.lose_all(arrival, BreakReason::Unsubscribed, out);
    }

    fn counts_mut(&mut self) -> &mut FeedCounts {
        &mut self.counts
    }

    fn counts(&self) -> FeedCounts {
        let mut counts = self.counts;
        counts += self.books.counts;
        counts
    }

    fn active(&self, symbol: &str) -> Option<LegId> {
        self.books.active(symbol)
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
