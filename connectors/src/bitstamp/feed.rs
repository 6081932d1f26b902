//! The feed: which channel a message belongs to, and what it says.
//!
//! Never: a diff that is told without what its connection can vouch for.

use super::{
    book::{levels, time_us},
    chain::{Chain, Place, Word},
    message::{Book, Envelope, Trade},
};
use crate::{
    raw::RawKind,
    venue_feed::{
        self, Arrival, Books, Undecodable, VenueFeed,
        check::{Check, Evidence, Judgement},
        excerpt,
        listings::Listings,
        number::token,
        numbered::{BookText, Numbered},
        trades::TradeText,
    },
};
use foldhash::HashMap;
use market::{Body, Event, LegId, Side, Venue, Window, guard::BreakReason};
use std::sync::Arc;

const VENUE: Venue = Venue::Bitstamp;

/// The channels that are of use, before the pair.
const DIFFS: &str = "diff_order_book_";
const TRADES: &str = "live_trades_";

/// The REST path of a snapshot, before the pair.
const SNAPSHOT_PATH: &str = "/order_book/";

/// What is kept of one instrument beside its steps.
#[derive(Debug, Default)]
struct Legs {
    chain: Chain,
    /// Whether legs contradict each other so often that the venue must cut its diffs by connection.
    check: Check,
}

/// The decoder of Bitstamp.
#[derive(Debug)]
pub struct Feed {
    books: Numbered,
    /// By symbol, of listed ones alone.
    legs: HashMap<Box<str>, Legs>,
    /// The legs that were opened once.
    opened: Vec<LegId>,
    /// The leg that messages came on last; REST replies belong to it.
    stream_leg: LegId,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self {
            books: Numbered::new(VENUE, listings),
            legs: HashMap::default(),
            opened: Vec::new(),
            stream_leg: LegId(0),
        }
    }

    /// A leg brought a diff that cannot be placed, perhaps of any symbol: its next one must not cover it up.
    fn unread(&mut self, leg: LegId, symbol: Option<&str>) {
        match symbol {
            Some(symbol) => self.legs.get_mut(symbol).into_iter().for_each(|legs| legs.chain.forget(leg)),
            None => self.legs.values_mut().for_each(|legs| legs.chain.forget(leg)),
        }
    }

    fn legs(&mut self, symbol: &str) -> &mut Legs {
        self.legs.entry(symbol.into()).or_default()
    }

    fn diff(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let read = venue_feed::json(VENUE, data).and_then(|book: Book<'_>| Ok((time_us(book.time_us)?, book)));
        let ((id, venue_ns), book) = read.inspect_err(|_| self.unread(arrival.leg, Some(symbol)))?;
        let instrument = self.books.stream(symbol, arrival, out)?.symbol;
        let legs = self.legs(symbol);
        let Place { covers, word } = legs.chain.take(arrival.leg, id);
        let judgement = match word {
            Word::None => Judgement::Right,
            Word::Agreed => legs.check.judge(Evidence::Change, true),
            Word::Lost => legs.check.judge(Evidence::Change, false),
        };
        let text = BookText { symbol, levels: levels(&book), window: Window::Whole, venue_ns };
        let told = self.books.delta(arrival, covers, text, out);
        self.books.counts.missing += u64::from(word == Word::Lost);
        match judgement {
            Judgement::Right | Judgement::Tolerated => {}
            Judgement::PutAside => self.books.counts.checks_put_aside += 1,
            Judgement::Wrong => {
                let body = Body::Broken(BreakReason::Missing);
                out.push(Event::of(instrument, arrival.leg, arrival.frame.ts_ns, venue_ns, body));
            }
        }
        told
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let trade: Trade<'_> = venue_feed::json(VENUE, data)?;
        let (_, venue_ns) = time_us(trade.time_us)?;
        let taker = match token(trade.kind) {
            "0" => Side::Bid,
            "1" => Side::Ask,
            other => return Err(Undecodable::Field { venue: VENUE, field: "type", text: excerpt(other) }),
        };
        let id = token(trade.id);
        let order = id.parse().map_err(|_| Undecodable::TradeId { venue: VENUE, symbol: excerpt(symbol) })?;
        let (price, quantity) = (token(trade.price), token(trade.quantity));
        let text = TradeText { id, order: Some(order), at: 0, price, quantity, taker, venue_ns };
        self.books.trade(arrival, symbol, text, out)
    }

    fn ignore(&mut self) -> Result<(), Undecodable> {
        self.books.counts.ignored += 1;
        Ok(())
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
        self.stream_leg = arrival.leg;
        let envelope: Envelope<'_> = venue_feed::json(VENUE, text).inspect_err(|_| self.unread(arrival.leg, None))?;
        let channel = envelope.channel.as_deref().unwrap_or_default();
        let Some(data) = envelope.data.map(|data| data.get()) else { return self.ignore() };
        match (&*envelope.event, channel.strip_prefix(DIFFS), channel.strip_prefix(TRADES)) {
            ("data", Some(symbol), _) => self.diff(arrival, symbol, data, out),
            ("trade", _, Some(symbol)) => self.trade(arrival, symbol, data, out),
            _ => self.ignore(),
        }
    }

    /// A REST reply names no pair; its request does, or it belongs to the only instrument there is.
    fn reply(
        &mut self,
        arrival: Arrival<'_>,
        url: Option<&str>,
        text: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let named = url.map(|url| url.split_once(SNAPSHOT_PATH));
        let symbol = match named {
            Some(None) => return self.ignore(),
            Some(Some((_, rest))) => rest.split(['/', '?']).next(),
            None => self.books.only(),
        };
        let symbol = symbol.ok_or(Undecodable::Symbol { venue: VENUE, symbol: Box::default() })?.to_owned();
        let book: Book<'_> = venue_feed::json(VENUE, text)?;
        let (last, venue_ns) = time_us(book.time_us)?;
        let text = BookText { symbol: &symbol, levels: levels(&book), window: Window::Whole, venue_ns };
        self.books.snapshot(Arrival { leg: self.stream_leg, ..arrival }, last, text, out)?;
        // Known from now on: if its connection ends before its first diff, that has missed something.
        self.legs(&symbol);
        Ok(())
    }

    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        let leg = arrival.leg;
        self.books.reconnected(arrival, out);
        if arrival.frame.kind == RawKind::Open && !self.opened.contains(&leg) {
            // There was none before that could have lost anything.
            self.opened.push(leg);
            return;
        }
        self.unread(leg, None);
    }
}

#[cfg(test)]
mod tests;
