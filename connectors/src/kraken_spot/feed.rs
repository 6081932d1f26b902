//! The feed: subscriptions, books with their checksums, trades.
//!
//! Each leg has its own book of an instrument, held to its checksums; one leg's is shown.
//!
//! Never: a book shown after its checksum failed.

use super::{
    book::TextBook,
    message::{Book, Envelope, Level, Subscription, Trade},
};
use crate::{
    raw::{RawKind, RawPayload},
    venue_feed::{
        self, Arrival, FeedCounts, Undecodable, VenueFeed, excerpt,
        listings::{Listings, Request},
        number::{LevelText, Steps, Subject, token},
        time,
    },
};
use foldhash::HashMap;
use market::{
    Body, Delta, Event, LegId, Sequence, Side, Snapshot, SymbolId, Venue, Window, guard::BreakReason,
    trade::TRADE_ID_BYTES_MAX,
};
use std::sync::Arc;

const VENUE: Venue = Venue::KrakenSpot;

/// The depth that the venue subscribes to when none is named.
const DEPTH_DEFAULT: u32 = 10;

#[derive(Debug)]
struct Stream {
    symbol: SymbolId,
    /// Of all legs, so that any of their books can be told in them.
    steps: Steps,
    /// The leg whose book is shown; none while no leg has one that is verified.
    active: Option<LegId>,
    books: Vec<LegBook>,
}

/// One instrument's book on one leg.
#[derive(Debug)]
struct LegBook {
    leg: LegId,
    depth: u32,
    text: TextBook,
    /// A snapshot came and no checksum failed since.
    verified: bool,
    /// The venue's time of the last message, Unix nanoseconds.
    venue_ns: u64,
}

/// The decoder of Kraken spot v2.
#[derive(Debug)]
pub struct Feed {
    listings: Arc<Listings>,
    streams: HashMap<Box<str>, Stream>,
    /// Subscribed depths of instruments that had no message yet.
    depths: HashMap<(LegId, Box<str>), u32>,
    repairs: Vec<(LegId, Box<str>)>,
    counts: FeedCounts,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let (streams, depths) = (HashMap::default(), HashMap::default());
        Self { listings, streams, depths, repairs: Vec::new(), counts: FeedCounts::default() }
    }

    fn stream(
        &mut self,
        symbol: &str,
        leg: LegId,
        received_ns: u64,
        out: &mut Vec<Event>,
    ) -> Result<&mut Stream, Undecodable> {
        if !self.streams.contains_key(symbol) {
            let request = Request { venue: VENUE, symbol, anchored: VENUE.numbers_updates(), leg, received_ns };
            let (instrument, listing) = self.listings.list(request)?;
            out.push(listing);
            let stream = Stream { symbol: instrument.id, steps: Steps::default(), active: None, books: Vec::new() };
            self.streams.insert(symbol.into(), stream);
        }
        self.streams.get_mut(symbol).ok_or_else(|| Undecodable::Symbol { venue: VENUE, symbol: excerpt(symbol) })
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
                trades.iter().try_for_each(|trade| self.trade(arrival, trade, out))
            }
            _ => {
                self.counts.ignored += 1;
                Ok(())
            }
        }
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
        let stream = self.streams.get_mut(symbol);
        match (method, subscription.depth) {
            ("subscribe", Some(depth)) => match stream {
                Some(stream) => {
                    stream.depth(arrival.leg, depth);
                }
                None => {
                    self.depths.insert((arrival.leg, symbol.into()), depth);
                }
            },
            ("unsubscribe", _) => {
                if let Some(stream) = stream {
                    stream.lost(symbol, arrival, BreakReason::Unsubscribed, out);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The leg's connection began or ended: its books are those of no connection.
    fn reconnected(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        let mut of_leg: Vec<(&Box<str>, &mut Stream)> = self.streams.iter_mut().collect();
        of_leg.sort_unstable_by_key(|(_, stream)| stream.symbol);
        for (symbol, stream) in of_leg {
            stream.lost(symbol, arrival, BreakReason::Unsubscribed, out);
        }
        self.repairs.retain(|(leg, _)| *leg != arrival.leg);
    }

    /// Rule 4.
    fn repair(&mut self, leg: LegId, symbol: &str) {
        if !self.repairs.iter().any(|(wanted, known)| *wanted == leg && **known == *symbol) {
            self.repairs.push((leg, symbol.into()));
        }
    }

    fn book(
        &mut self,
        arrival: Arrival<'_>,
        book: &Book<'_>,
        snapshot: bool,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let received_ns = arrival.frame.ts_ns;
        let venue_ns = book.timestamp.as_deref().map_or(Ok(0), |text| time::from_rfc3339(VENUE, text))?;
        let noted = !self.depths.is_empty();
        let depth = noted.then(|| self.depths.remove(&(arrival.leg, book.symbol.as_ref().into()))).flatten();
        let stream = self.stream(&book.symbol, arrival.leg, received_ns, out)?;
        if let Some(depth) = depth {
            stream.depth(arrival.leg, depth);
        }
        let (steps, active) = (&mut stream.steps, stream.active);
        let own = leg_book(&mut stream.books, arrival.leg);
        if !snapshot && !own.verified {
            self.counts.ignored += 1;
            return Ok(());
        }
        match own.apply(steps, book, snapshot) {
            Ok(Applied { changes, matched: true }) => {
                (own.verified, own.venue_ns) = (true, venue_ns);
                if active.is_some_and(|active| active != arrival.leg) {
                    self.counts.checksums_matched += 1;
                    self.counts.ignored += 1;
                    return Ok(());
                }
                let sequence = Sequence::Arrival(arrival.position);
                let (scale, window) = (steps.scale(), Window::Best(own.depth));
                let body = if snapshot {
                    Body::Snapshot(Snapshot { sequence, scale, ticks: changes, window })
                } else {
                    Body::Delta(Delta { sequence, scale, changes, window })
                };
                stream.active = Some(arrival.leg);
                out.push(Event::of(stream.symbol, arrival.leg, received_ns, venue_ns, body));
                self.counts.checksums_matched += 1;
                Ok(())
            }
            Ok(Applied { matched: false, .. }) => {
                stream.lost(&book.symbol, arrival, BreakReason::Checksum, out);
                self.counts.checksums_failed += 1;
                self.repair(arrival.leg, &book.symbol);
                Ok(())
            }
            Err(error) => {
                stream.lost(&book.symbol, arrival, BreakReason::Undecodable, out);
                self.repair(arrival.leg, &book.symbol);
                Err(error)
            }
        }
    }

    fn trade(&mut self, arrival: Arrival<'_>, message: &Trade<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let received_ns = arrival.frame.ts_ns;
        let venue_ns = time::from_rfc3339(VENUE, &message.timestamp)?;
        let stream = self.stream(&message.symbol, arrival.leg, received_ns, out)?;
        let subject = Subject { venue: VENUE, symbol: &message.symbol };
        // A trade's steps are its own: a finer one must not touch the book's.
        let mut steps = stream.steps;
        let (tick_index, quantity) = subject.pair(&mut steps, token(message.price), token(message.qty))?;
        let id = token(message.trade_id);
        let id = id.get(..TRADE_ID_BYTES_MAX.min(id.len())).unwrap_or(id);
        // An id beyond 64 bits is kept as text; its place is then the arrival order.
        let order = id.parse().unwrap_or(arrival.position);
        let taker = if message.side == "buy" { Side::Bid } else { Side::Ask };
        let trade = market::Trade { id: id.into(), order, tick_index, quantity, taker, venue_ns };
        out.push(Event::of(
            stream.symbol,
            arrival.leg,
            received_ns,
            venue_ns,
            Body::Trade { scale: steps.scale(), trade },
        ));
        Ok(())
    }
}

/// What a book message came to.
struct Applied {
    changes: Vec<market::TickChange>,
    matched: bool,
}

impl LegBook {
    fn apply(&mut self, steps: &mut Steps, book: &Book<'_>, snapshot: bool) -> Result<Applied, Undecodable> {
        let subject = Subject { venue: VENUE, symbol: &book.symbol };
        let changes = subject.levels(steps, rows(&book.bids, &book.asks))?;
        if snapshot {
            self.text.clear();
        }
        for level in rows(&book.bids, &book.asks) {
            // The same text was parsed just above, so an error here cannot be met; it would break the checksum.
            if self.text.apply(level.side, level.price, level.quantity).is_err() {
                return Ok(Applied { changes, matched: false });
            }
        }
        self.text.truncate(usize::try_from(self.depth).unwrap_or(usize::MAX));
        Ok(Applied { changes, matched: self.text.checksum() == book.checksum })
    }
}

/// The book of a leg, an empty one if it had none.
fn leg_book(books: &mut Vec<LegBook>, leg: LegId) -> &mut LegBook {
    let at = books.iter().position(|book| book.leg == leg).unwrap_or_else(|| {
        let text = TextBook::default();
        books.push(LegBook { leg, depth: DEPTH_DEFAULT, text, verified: false, venue_ns: 0 });
        books.len() - 1
    });
    &mut books[at]
}

impl Stream {
    fn depth(&mut self, leg: LegId, depth: u32) {
        leg_book(&mut self.books, leg).depth = depth;
    }

    /// Rule 4: the book of the arrival's leg counts no more. If it was the shown one, a leg that stands by with a
    /// verified book takes over.
    fn lost(&mut self, symbol: &str, arrival: Arrival<'_>, reason: BreakReason, out: &mut Vec<Event>) {
        leg_book(&mut self.books, arrival.leg).verified = false;
        if self.active != Some(arrival.leg) {
            return;
        }
        let received_ns = arrival.frame.ts_ns;
        let standby = self.books.iter().find(|book| book.verified);
        self.active = standby.map(|book| book.leg);
        let taken = standby.and_then(|book| {
            let subject = Subject { venue: VENUE, symbol };
            // Every text was parsed before, so an error cannot be met; it would leave the book broken.
            let ticks = subject.levels(&mut self.steps, book.text.levels()).ok()?;
            let (scale, window) = (self.steps.scale(), Window::Best(book.depth));
            let sequence = Sequence::Arrival(arrival.position);
            let body = Body::Snapshot(Snapshot { sequence, scale, ticks, window });
            Some(Event::of(self.symbol, book.leg, received_ns, book.venue_ns, body))
        });
        let broken = || Event::of(self.symbol, arrival.leg, received_ns, 0, Body::Broken(reason));
        out.push(taken.unwrap_or_else(broken));
    }
}

fn rows<'m>(bids: &'m [Level<'_>], asks: &'m [Level<'_>]) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side, rows: &'m [Level<'_>]| {
        rows.iter().map(move |level| LevelText { side, price: token(level.price), quantity: token(level.qty) })
    };
    side(Side::Bid, bids).chain(side(Side::Ask, asks))
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(VENUE, text)
}

impl VenueFeed for Feed {
    fn decode(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        self.counts.frames += 1;
        match arrival.frame.kind {
            RawKind::Ws => {}
            RawKind::Open | RawKind::Close => {
                self.reconnected(arrival, out);
                return Ok(());
            }
            RawKind::Send | RawKind::Http | RawKind::Alive => return Ok(()),
        }
        let RawPayload::Text(text) = &arrival.frame.raw else { return Err(Undecodable::Binary { venue: VENUE }) };
        let decoded = self.message(arrival, text, out);
        self.counts.undecodable += u64::from(decoded.is_err());
        decoded
    }

    fn counts(&self) -> FeedCounts {
        self.counts
    }

    fn active(&self, symbol: &str) -> Option<LegId> {
        self.streams.get(symbol)?.active
    }

    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        std::mem::take(&mut self.repairs)
    }
}

#[cfg(test)]
mod tests;
