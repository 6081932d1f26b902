//! The feed: whole books, changes by their levels' offsets, trades, and the count of messages.
//!
//! Never: a book that went on after a message of its connection was lost.

use super::{
    book::{Kept, Offsets, subject},
    message::{Book, Changes, Envelope, Trade, Trades},
    message_ids::MessageIds,
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, excerpt,
    listings::Listings,
    number::{LevelText, token},
    numbered::BookText,
    standby::Standby,
    time,
    trades::UnnamedTrade,
};
use foldhash::HashMap;
use market::{Event, LegId, Side, Venue, Window, guard::BreakReason};
use std::sync::Arc;

const VENUE: Venue = Venue::DydxV3;

/// The decoder of dYdX v3.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
    offsets: HashMap<(LegId, Box<str>), Offsets>,
    connections: HashMap<LegId, Connection>,
    /// Legs that lost a message and were not reconnected since; told ones stay, so that each is told once.
    lost: HashMap<LegId, Told>,
}

/// What is known of a leg's connection.
#[derive(Debug, Default)]
struct Connection {
    ids: MessageIds,
    /// The venue's name for it.
    name: Option<Box<str>>,
}

/// Whether it was said already that a leg must be reconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    No,
    Yes,
}

/// What a message of the channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Changes,
    /// Several changes in one message.
    Batch,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let (books, offsets) = (Standby::new(VENUE, listings), HashMap::default());
        let (connections, lost) = (HashMap::default(), HashMap::default());
        Self { books, offsets, connections, lost }
    }

    /// Every book of the leg is lost.
    fn lose_all(&mut self, arrival: Arrival<'_>, reason: BreakReason, out: &mut Vec<Event>) {
        self.offsets.retain(|(leg, _), _| *leg != arrival.leg);
        self.books.lose_all(arrival, reason, out);
    }

    /// A connection that is not the one before begins, whether or not the capture says so.
    fn named(&mut self, arrival: Arrival<'_>, name: &str, out: &mut Vec<Event>) {
        let known = self.connections.get(&arrival.leg).and_then(|connection| connection.name.as_deref());
        if known == Some(name) {
            return;
        }
        if known.is_some() {
            self.connection(arrival, out);
        }
        self.connections.entry(arrival.leg).or_default().name = Some(name.into());
    }

    /// Rule 4. Whether the message was not seen before.
    fn counted(&mut self, arrival: Arrival<'_>, id: u64, out: &mut Vec<Event>) -> bool {
        let seen = self.connections.entry(arrival.leg).or_default().ids.see(id, arrival.frame.ts_ns);
        if seen.lost > 0 {
            self.books.counts.missing = self.books.counts.missing.saturating_add(seen.lost);
            self.lose_all(arrival, BreakReason::Missing, out);
            self.lost.entry(arrival.leg).or_insert(Told::No);
        }
        seen.new
    }

    fn book(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (kind, contents): (Kind, &str),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let applied = match kind {
            Kind::Whole => self.whole(arrival, symbol, contents, out),
            Kind::Changes | Kind::Batch => self.changes(arrival, symbol, (kind, contents), out),
        };
        applied.inspect_err(|_| {
            self.offsets.remove(&(arrival.leg, symbol.into()));
            self.books.fail(arrival, symbol, BreakReason::Undecodable, out);
        })
    }

    /// Rule 1.
    fn whole(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        contents: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let book: Book<'_> = json(contents)?;
        let offsets = self.offsets.entry((arrival.leg, symbol.into())).or_default();
        let newer = offsets.whole(subject(symbol), &book)?;
        let sides = [(Side::Bid, &book.bids), (Side::Ask, &book.asks)];
        let levels = sides.iter().flat_map(|(side, levels)| {
            levels.iter().map(|level| LevelText { side: *side, price: token(level.price), quantity: token(level.size) })
        });
        let levels = levels.chain(newer.iter().map(Kept::text));
        self.books.snapshot(arrival, BookText { symbol, levels, window: Window::Whole, venue_ns: 0 }, |_| None, out)
    }

    /// Rules 2 and 3.
    fn changes(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (kind, contents): (Kind, &str),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let parts: Vec<Changes<'_>> = each(kind, contents)?;
        let offsets = self.offsets.entry((arrival.leg, symbol.into())).or_default();
        let news = offsets.news(subject(symbol), &parts)?;
        self.books.counts.suppressed += news.suppressed;
        let levels = news.levels.iter().copied();
        self.books.update(arrival, BookText { symbol, levels, window: Window::Whole, venue_ns: 0 }, |_| None, out)
    }

    /// Rule 5.
    fn trades(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        (kind, contents): (Kind, &str),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let parts: Vec<Trades<'_>> = each(kind, contents)?;
        let trades = parts.iter().flat_map(|part| part.trades.iter().rev()).map(unnamed);
        self.books.unnamed_trades(arrival, symbol, trades, out)
    }
}

fn unnamed<'m>(trade: &'m Trade<'_>) -> Result<UnnamedTrade<'m>, Undecodable> {
    let taker = match &*trade.side {
        "BUY" => Side::Bid,
        "SELL" => Side::Ask,
        other => return Err(Undecodable::Field { venue: VENUE, field: "side", text: excerpt(other) }),
    };
    let venue_ns = time::from_rfc3339(VENUE, &trade.created_at)?;
    Ok(UnnamedTrade { price: token(trade.price), quantity: token(trade.size), taker, venue_ns })
}

/// The parts of a message's contents, of which a batch has several.
fn each<'a, T: serde::Deserialize<'a>>(kind: Kind, contents: &'a str) -> Result<Vec<T>, Undecodable> {
    if kind == Kind::Batch { json(contents) } else { json(contents).map(|one| vec![one]) }
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
        if let Some(name) = &envelope.connection_id {
            self.named(arrival, name, out);
        }
        if let Some(id) = envelope.message_id
            && !self.counted(arrival, id, out)
        {
            // The same message again, or one that was given up.
            self.books.counts.ignored += 1;
            return Ok(());
        }
        let kind = match envelope.kind.as_deref() {
            Some("subscribed") => Some(Kind::Whole),
            Some("channel_data") => Some(Kind::Changes),
            Some("channel_batch_data") => Some(Kind::Batch),
            _ => None,
        };
        let contents = kind.zip(envelope.contents.map(|contents| contents.get()));
        match (envelope.channel.as_deref(), envelope.id.as_deref(), contents) {
            (Some("v3_orderbook"), Some(symbol), Some(contents)) => self.book(arrival, symbol, contents, out),
            (Some("v3_trades"), Some(symbol), Some(contents)) => self.trades(arrival, symbol, contents, out),
            (Some("v3_orderbook"), Some(symbol), None) if envelope.kind.as_deref() == Some("unsubscribed") => {
                self.offsets.remove(&(arrival.leg, symbol.into()));
                self.books.lose(arrival, symbol, BreakReason::Unsubscribed, out);
                Ok(())
            }
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// The leg's books are those of no connection; its messages are counted from 0.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.lose_all(arrival, BreakReason::Unsubscribed, out);
        self.connections.insert(arrival.leg, Connection { ids: MessageIds::begun(), name: None });
        self.lost.remove(&arrival.leg);
    }

    fn torn(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> bool {
        self.lose_all(arrival, BreakReason::Undecodable, out);
        true
    }

    fn reconnects(&mut self) -> Vec<LegId> {
        let untold = self.lost.iter_mut().filter(|(_, told)| **told == Told::No);
        let mut legs: Vec<LegId> = untold.map(|(leg, told)| (*leg, *told = Told::Yes).0).collect();
        legs.sort_unstable();
        legs
    }
}

#[cfg(test)]
mod tests;
