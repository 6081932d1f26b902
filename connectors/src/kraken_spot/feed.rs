//! The feed: subscriptions, books with their checksums, trades.
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
    steps: Steps,
    depth: u32,
    text: TextBook,
    /// A snapshot came and no checksum failed since.
    anchored: bool,
    /// The leg that the book is of; without venue ids the others stand by while it is anchored.
    leg: LegId,
}

/// The decoder of Kraken spot v2.
#[derive(Debug)]
pub struct Feed {
    listings: Arc<Listings>,
    streams: HashMap<Box<str>, Stream>,
    depths: HashMap<Box<str>, u32>,
    counts: FeedCounts,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { listings, streams: HashMap::default(), depths: HashMap::default(), counts: FeedCounts::default() }
    }

    fn stream(
        &mut self,
        symbol: &str,
        leg: LegId,
        received_ns: u64,
        out: &mut Vec<Event>,
    ) -> Result<&mut Stream, Undecodable> {
        if !self.streams.contains_key(symbol) {
            let request = Request { venue: VENUE, symbol, anchored: false, leg, received_ns };
            let (instrument, listing) = self.listings.list(request)?;
            out.push(listing);
            let depth = self.depths.get(symbol).copied().unwrap_or(DEPTH_DEFAULT);
            let (steps, text) = (Steps::default(), TextBook::default());
            let stream = Stream { symbol: instrument.id, steps, depth, text, anchored: false, leg };
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
        match (method, subscription.depth) {
            ("subscribe", Some(depth)) => {
                self.depths.insert(symbol.into(), depth);
                if let Some(stream) = self.streams.get_mut(symbol) {
                    stream.depth = depth;
                }
            }
            ("unsubscribe", _) => {
                if let Some(stream) = self.streams.get_mut(symbol).filter(|stream| stream.leg == arrival.leg) {
                    stream.broken(arrival, BreakReason::Unsubscribed, out);
                }
            }
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
        let received_ns = arrival.frame.ts_ns;
        let venue_ns = book.timestamp.as_deref().map_or(Ok(0), |text| time::from_rfc3339(VENUE, text))?;
        let stream = self.stream(&book.symbol, arrival.leg, received_ns, out)?;
        let standby = stream.anchored && stream.leg != arrival.leg;
        if standby || (!snapshot && !stream.anchored) {
            self.counts.ignored += 1;
            return Ok(());
        }
        let sequence = Sequence::Arrival(arrival.position);
        match stream.apply(book, snapshot) {
            Ok(Applied { changes, matched: true }) => {
                stream.anchored = true;
                stream.leg = arrival.leg;
                let (scale, window) = (stream.steps.scale(), Window::Best(stream.depth));
                let body = if snapshot {
                    Body::Snapshot(Snapshot { sequence, scale, ticks: changes, window })
                } else {
                    Body::Delta(Delta { sequence, scale, changes, window })
                };
                out.push(Event::of(stream.symbol, arrival.leg, received_ns, venue_ns, body));
                self.counts.checksums_matched += 1;
                Ok(())
            }
            Ok(Applied { matched: false, .. }) => {
                stream.broken(arrival, BreakReason::Checksum, out);
                self.counts.checksums_failed += 1;
                Ok(())
            }
            Err(error) => {
                stream.broken(arrival, BreakReason::Undecodable, out);
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

impl Stream {
    fn apply(&mut self, book: &Book<'_>, snapshot: bool) -> Result<Applied, Undecodable> {
        let subject = Subject { venue: VENUE, symbol: &book.symbol };
        let changes = subject.levels(&mut self.steps, rows(&book.bids, &book.asks))?;
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

    /// Rule 4.
    fn broken(&mut self, arrival: Arrival<'_>, reason: BreakReason, out: &mut Vec<Event>) {
        if std::mem::replace(&mut self.anchored, false) {
            let received_ns = arrival.frame.ts_ns;
            out.push(Event::of(self.symbol, arrival.leg, received_ns, 0, Body::Broken(reason)));
        }
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
        if arrival.frame.kind != RawKind::Ws {
            return Ok(());
        }
        let RawPayload::Text(text) = &arrival.frame.raw else { return Err(Undecodable::Binary { venue: VENUE }) };
        let decoded = self.message(arrival, text, out);
        self.counts.undecodable += u64::from(decoded.is_err());
        decoded
    }

    fn counts(&self) -> FeedCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawFrame;

    struct Wire {
        feed: Feed,
        events: Vec<Event>,
        position: u64,
    }

    impl Wire {
        fn new() -> Self {
            let feed = Feed::new(Arc::new(Listings::new(Arc::default())));
            Self { feed, events: Vec::new(), position: 0 }
        }

        fn say(&mut self, leg: u16, raw: &str) -> Result<(), Undecodable> {
            self.position += 1;
            let raw = RawPayload::Text(raw.into());
            let frame = RawFrame { ts_ns: 7, kind: RawKind::Ws, conn: "0".into(), url: None, raw };
            let arrival = Arrival { frame: &frame, position: self.position, leg: LegId(leg) };
            self.feed.decode(arrival, &mut self.events)
        }

        /// A message whose checksum is right for the bids given as what the book then holds.
        fn book(&mut self, leg: u16, kind: &str, bids: &[(&str, &str)], held: &[(&str, &str)]) {
            let mut text = TextBook::default();
            held.iter().for_each(|(price, qty)| text.apply(Side::Bid, price, qty).unwrap());
            let checksum = text.checksum();
            self.message(leg, kind, bids, checksum).unwrap();
        }

        fn message(&mut self, leg: u16, kind: &str, bids: &[(&str, &str)], checksum: u32) -> Result<(), Undecodable> {
            let rows: Vec<_> = bids.iter().map(|(price, qty)| format!(r#"{{"price":{price},"qty":{qty}}}"#)).collect();
            let rows = rows.join(",");
            self.say(
                leg,
                &format!(
                    r#"{{"channel":"book","type":"{kind}","data":[{{"symbol":"BTC/USD","bids":[{rows}],"asks":[],"checksum":{checksum}}}]}}"#
                ),
            )
        }

        fn kinds(&self) -> Vec<&'static str> {
            let kind = |event: &Event| match &event.body {
                Body::Listing(_) => "listing",
                Body::Snapshot(_) => "snapshot",
                Body::Delta(_) => "delta",
                Body::Broken(_) => "broken",
                _ => "other",
            };
            self.events.iter().map(kind).collect()
        }
    }

    #[test]
    fn a_failed_checksum_breaks_the_book_until_the_next_snapshot() {
        let mut wire = Wire::new();
        wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
        wire.message(0, "update", &[("99.0", "0.10")], 1).unwrap();
        wire.book(0, "update", &[("98.0", "0.10")], &[]);
        wire.book(0, "snapshot", &[("100.0", "0.5")], &[("100.0", "0.5")]);
        assert_eq!(wire.kinds(), ["listing", "snapshot", "broken", "snapshot"]);
        let counts = wire.feed.counts();
        assert_eq!((counts.checksums_matched, counts.checksums_failed, counts.ignored), (2, 1, 1));
    }

    #[test]
    fn an_undecodable_number_breaks_the_book_and_goes_to_the_dead_letters() {
        let mut wire = Wire::new();
        wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
        assert!(matches!(wire.message(0, "update", &[("-1", "0.10")], 0), Err(Undecodable::Number { .. })));
        assert_eq!(wire.kinds(), ["listing", "snapshot", "broken"]);
    }

    #[test]
    fn another_leg_stands_by_until_the_active_one_breaks() {
        let mut wire = Wire::new();
        let row = [("100.0", "0.50")];
        wire.book(0, "snapshot", &row, &row);
        wire.book(1, "snapshot", &row, &row);
        wire.book(1, "update", &[("101.0", "1")], &[]);
        assert_eq!(wire.kinds(), ["listing", "snapshot"]);
        wire.say(0, r#"{"method":"unsubscribe","success":true,"result":{"channel":"book","symbol":"BTC/USD"}}"#)
            .unwrap();
        wire.book(1, "snapshot", &row, &row);
        assert_eq!(wire.kinds(), ["listing", "snapshot", "broken", "snapshot"]);
    }

    #[test]
    fn the_subscribed_depth_is_the_window_and_ids_beyond_64_bits_are_text() {
        let mut wire = Wire::new();
        wire.say(
            0,
            r#"{"method":"subscribe","success":true,"result":{"channel":"book","symbol":"BTC/USD","depth":25}}"#,
        )
        .unwrap();
        wire.book(0, "snapshot", &[("100.0", "0.50")], &[("100.0", "0.50")]);
        let Body::Snapshot(snapshot) = &wire.events[1].body else { panic!("{:?}", wire.events) };
        assert_eq!(snapshot.window, Window::Best(25));
        wire.say(
            0,
            r#"{"channel":"trade","type":"update","data":[{"symbol":"BTC/USD","side":"buy","price":100.5,"qty":1,
               "trade_id":100155647470219567721,"timestamp":"2026-08-01T02:53:53.646219Z"}]}"#,
        )
        .unwrap();
        let Some(Body::Trade { trade, .. }) = wire.events.last().map(|event| &event.body) else { panic!("no trade") };
        assert_eq!((&*trade.id, trade.taker), ("100155647470219567721", Side::Bid));
    }
}
