//! The feed: subscriptions, books with their checksums, trades, the market's status; of both protocols.
//!
//! Never: a book shown after its checksum failed.

use super::{
    book::{checksum, rows},
    message::{Book, Envelope, Named, Status, Subscription, Trade},
    v1,
};
use crate::venue_feed::{
    self, Arrival, Books, Undecodable, VenueFeed, listings::Listings, number::token, numbered::BookText,
    standby::Standby, time, trades::TradeText,
};
use foldhash::{HashMap, HashSet};
use market::{Body, Event, LegId, Side, Venue, Window, guard::BreakReason, trade::TRADE_ID_BYTES_MAX};
use std::{collections::BTreeMap, sync::Arc};

const VENUE: Venue = Venue::KrakenSpot;

/// The depth that the venue subscribes to when none is named.
const DEPTH_DEFAULT: u32 = 10;

/// The decoder of Kraken spot.
#[derive(Debug)]
pub struct Feed {
    books: Standby,
    /// Subscribed depths.
    depths: HashMap<(LegId, Box<str>), u32>,
    /// Legs on which the venue said that it is in maintenance.
    halted: HashSet<LegId>,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let (books, depths) = (Standby::new(VENUE, listings), HashMap::default());
        Self { books, depths, halted: HashSet::default() }
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

    /// All parts of a `book` message, each instrument's as one change: the message has one place in the order of arrival.
    fn books(
        &mut self,
        arrival: Arrival<'_>,
        data: &str,
        snapshot: bool,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let books: Vec<Book<'_>> = json(data).inspect_err(|_| self.unreadable(arrival, data, out))?;
        let mut by_symbol: BTreeMap<&str, Vec<&Book<'_>>> = BTreeMap::new();
        books.iter().for_each(|book| by_symbol.entry(&book.symbol).or_default().push(book));
        let mut result = Ok(());
        for (symbol, mut parts) in by_symbol {
            if snapshot {
                // The last of several replaces those before.
                parts.drain(..parts.len().saturating_sub(1));
            }
            // What is wrong with one instrument is not to keep the others from theirs.
            result = result.and(self.book(arrival, symbol, &parts, snapshot, out));
        }
        result
    }

    fn book(
        &mut self,
        arrival: Arrival<'_>,
        symbol: &str,
        parts: &[&Book<'_>],
        snapshot: bool,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let Some(last) = parts.last() else { return Ok(()) };
        let venue_ns = last.timestamp.as_deref().map_or(Ok(0), |text| time::from_rfc3339(VENUE, text));
        let venue_ns = venue_ns.inspect_err(|_| self.books.fail(arrival, symbol, BreakReason::Undecodable, out))?;
        let depth = self.depths.get(&(arrival.leg, symbol.into())).copied();
        let window = Window::Best(depth.unwrap_or(DEPTH_DEFAULT));
        let levels = parts.iter().flat_map(|book| rows(&book.bids, &book.asks));
        let text = BookText { symbol, levels, window, venue_ns };
        let check = |text: &_| Some(checksum(text) == last.checksum);
        if snapshot {
            self.books.snapshot(arrival, text, check, out)
        } else {
            self.books.update(arrival, text, check, out)
        }
    }

    /// A `book` message that cannot be read breaks the books of those that it names.
    fn unreadable(&mut self, arrival: Arrival<'_>, data: &str, out: &mut Vec<Event>) {
        let named: Vec<Named<'_>> = json(data).unwrap_or_default();
        named.iter().for_each(|named| self.books.fail(arrival, &named.symbol, BreakReason::Undecodable, out));
    }

    /// The venue's word on its market: between maintenance and `online` it only prepares to go on.
    fn system(&mut self, arrival: Arrival<'_>, system: &str, out: &mut Vec<Event>) {
        let body = match system {
            "maintenance" => self.halted.insert(arrival.leg).then_some(Body::Halted),
            "online" => self.halted.remove(&arrival.leg).then_some(Body::Resumed),
            _ => None,
        };
        out.extend(body.map(|body| Event::of_leg(0, arrival.leg, arrival.frame.ts_ns, body)));
    }

    /// An array of v1.
    fn array(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let frame = v1::Frame::read(text)?;
        let depth = v1::depth(&frame.channel, DEPTH_DEFAULT)?;
        if let Some(depth) = depth {
            let broken = |_: &_| self.books.fail(arrival, &frame.pair, BreakReason::Undecodable, out);
            let book = frame.book().inspect_err(broken)?;
            let (levels, venue_ns) = (book.levels.iter().copied(), book.venue_ns);
            let text = BookText { symbol: &frame.pair, levels, window: Window::Best(depth), venue_ns };
            let check = |text: &_| book.checksum.map(|right| checksum(text) == right);
            return if book.snapshot {
                self.books.snapshot(arrival, text, check, out)
            } else {
                self.books.update(arrival, text, check, out)
            };
        }
        if frame.channel == "trade" {
            return self.books.unnamed_trades(arrival, &frame.pair, frame.trades()?.into_iter().map(Ok), out);
        }
        self.books.counts.ignored += 1;
        Ok(())
    }

    /// An object of v1.
    fn event(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let v1::EventMessage { event, status, pair, channel } = json(text)?;
        match (&*event, status.as_deref(), pair, channel) {
            ("systemStatus", Some(status), ..) => self.system(arrival, status, out),
            ("subscriptionStatus", Some("unsubscribed"), Some(pair), Some(channel)) if channel.starts_with("book") => {
                self.books.lose(arrival, &pair, BreakReason::Unsubscribed, out);
            }
            ("subscriptionStatus", ..) => {}
            _ => self.books.counts.ignored += 1,
        }
        Ok(())
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        (at, trade): (usize, &Trade<'_>),
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let venue_ns = time::from_rfc3339(VENUE, &trade.timestamp)?;
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
        self.books.trade(arrival, &trade.symbol, text, out)
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
        if text.starts_with('[') {
            return self.array(arrival, text, out);
        }
        let envelope: Envelope<'_> = json(text)?;
        if envelope.event.is_some() {
            return self.event(arrival, text, out);
        }
        if let (Some(method), Some(result), true) = (&envelope.method, envelope.result, envelope.success) {
            return self.acknowledged(arrival, method, result.get(), out);
        }
        let data = envelope.data.map(|data| data.get());
        match (envelope.channel.as_deref(), data) {
            (Some("book"), Some(data)) => self.books(arrival, data, envelope.kind.as_deref() == Some("snapshot"), out),
            (Some("status"), Some(data)) => {
                let parts: Vec<Status<'_>> = json(data)?;
                parts.iter().for_each(|part| self.system(arrival, &part.system, out));
                Ok(())
            }
            (Some("trade"), Some(data)) => {
                let trades: Vec<Trade<'_>> = json(data)?;
                trades.iter().enumerate().try_for_each(|trade| self.trade(arrival, trade, out))
            }
            _ => {
                self.books.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// The leg's books are those of no connection.
    fn connection(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) {
        self.books.reconnected(arrival, out);
        self.halted.remove(&arrival.leg);
    }
}

#[cfg(test)]
mod tests;
