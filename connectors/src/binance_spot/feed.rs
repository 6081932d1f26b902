//! The feed: which stream a frame belongs to, and what it says.
//!
//! Never: a REST reply whose instrument is uncertain taken for one's own.

use super::{
    book,
    message::{Aside, Combined, Depth, DepthSnapshot, Trade},
};
use crate::{
    raw::{RawKind, RawPayload},
    venue_feed::{
        self, Arrival, FeedCounts, Undecodable, VenueFeed, excerpt,
        listings::{Listings, Request},
        number::{Steps, Subject, token},
        time,
    },
};
use foldhash::HashMap;
use market::{Body, Event, LegId, SymbolId, Venue, trade::TRADE_ID_BYTES_MAX};
use std::sync::Arc;

const VENUE: Venue = Venue::BinanceSpot;

#[derive(Debug)]
struct Stream {
    symbol: SymbolId,
    steps: Steps,
    /// Which of `trade` and `aggTrade` this instrument's trades are; the first seen, since both tell the same trades.
    trades: Option<TradeKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TradeKind {
    Single,
    Aggregate,
}

/// The decoder of Binance spot.
#[derive(Debug)]
pub struct Feed {
    listings: Arc<Listings>,
    streams: HashMap<Box<str>, Stream>,
    /// The leg that streams came on last; REST replies belong to it.
    stream_leg: LegId,
    counts: FeedCounts,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { listings, streams: HashMap::default(), stream_leg: LegId(0), counts: FeedCounts::default() }
    }

    fn stream(&mut self, symbol: &str, received_ns: u64, out: &mut Vec<Event>) -> Result<&mut Stream, Undecodable> {
        if !self.streams.contains_key(symbol) {
            let anchored = VENUE.numbers_updates();
            let request = Request { venue: VENUE, symbol, anchored, leg: self.stream_leg, received_ns };
            let (instrument, listing) = self.listings.list(request)?;
            out.push(listing);
            let stream = Stream { symbol: instrument.id, steps: Steps::default(), trades: None };
            self.streams.insert(symbol.into(), stream);
        }
        self.streams.get_mut(symbol).ok_or_else(|| Undecodable::Symbol { venue: VENUE, symbol: excerpt(symbol) })
    }

    fn message(&mut self, text: &str, received_ns: u64, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let combined: Combined<'_> = match json(text) {
            Ok(combined) => combined,
            Err(_) if serde_json::from_str::<Aside<'_>>(text).is_ok_and(|aside| aside.is_one()) => {
                self.counts.ignored += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (_, channel) = combined.stream.split_once('@').unwrap_or_default();
        match channel.split('@').next().unwrap_or_default() {
            "depth" => self.depth(combined.data.get(), received_ns, out),
            "trade" => self.trade(TradeKind::Single, combined.data.get(), received_ns, out),
            "aggTrade" => self.trade(TradeKind::Aggregate, combined.data.get(), received_ns, out),
            _ => {
                self.counts.ignored += 1;
                Ok(())
            }
        }
    }

    fn depth(&mut self, data: &str, received_ns: u64, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let depth: Depth<'_> = json(data)?;
        let venue_ns = time::from_ms(VENUE, depth.event_ms)?;
        let leg = self.stream_leg;
        let stream = self.stream(&depth.symbol, received_ns, out)?;
        let delta = book::delta(&depth, &mut stream.steps)?;
        out.push(Event::of(stream.symbol, leg, received_ns, venue_ns, Body::Delta(delta)));
        Ok(())
    }

    fn trade(
        &mut self,
        kind: TradeKind,
        data: &str,
        received_ns: u64,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let message: Trade<'_> = json(data)?;
        let venue_ns = time::from_ms(VENUE, message.trade_ms)?;
        let leg = self.stream_leg;
        let id = match kind {
            TradeKind::Single => message.trade_id,
            TradeKind::Aggregate => message.aggregate_id,
        };
        let id = id.map(token).filter(|id| id.len() <= TRADE_ID_BYTES_MAX);
        let stream = self.stream(&message.symbol, received_ns, out)?;
        if *stream.trades.get_or_insert(kind) != kind {
            self.counts.ignored += 1;
            return Ok(());
        }
        let subject = Subject { venue: VENUE, symbol: &message.symbol };
        // A trade's steps are its own: a finer one must not touch the book's.
        let mut steps = stream.steps;
        let (tick_index, quantity) = subject.pair(&mut steps, token(message.price), token(message.quantity))?;
        let order = id.and_then(|id| id.parse().ok());
        let (Some(id), Some(order)) = (id, order) else {
            return Err(Undecodable::TradeId { venue: VENUE, symbol: excerpt(&message.symbol) });
        };
        let taker = if message.buyer_made { market::Side::Ask } else { market::Side::Bid };
        let trade = market::Trade { id: id.into(), order, tick_index, quantity, taker, venue_ns };
        out.push(Event::of(stream.symbol, leg, received_ns, venue_ns, Body::Trade { scale: steps.scale(), trade }));
        Ok(())
    }

    /// A REST reply names no symbol; its request does, or it belongs to the only instrument there is.
    fn reply(
        &mut self,
        url: Option<&str>,
        text: &str,
        received_ns: u64,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        if url.is_some_and(|url| !url.contains("/depth")) {
            self.counts.ignored += 1;
            return Ok(());
        }
        let named = url.and_then(|url| url.split(['?', '&']).find_map(|part| part.strip_prefix("symbol=")));
        let only = || if self.streams.len() == 1 { self.streams.keys().next().map(|key| &**key) } else { None };
        let symbol = named.or_else(only).map(str::to_owned);
        let symbol = symbol.ok_or(Undecodable::Symbol { venue: VENUE, symbol: Box::default() })?;
        let message: DepthSnapshot<'_> = json(text)?;
        let leg = self.stream_leg;
        let stream = self.stream(&symbol, received_ns, out)?;
        let snapshot = book::snapshot(&symbol, &message, &mut stream.steps)?;
        out.push(Event::of(stream.symbol, leg, received_ns, 0, Body::Snapshot(snapshot)));
        Ok(())
    }
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Undecodable> {
    venue_feed::json(VENUE, text)
}

impl VenueFeed for Feed {
    fn decode(&mut self, arrival: Arrival<'_>, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        self.counts.frames += 1;
        let frame = arrival.frame;
        if !matches!(frame.kind, RawKind::Ws | RawKind::Http) {
            return Ok(());
        }
        let RawPayload::Text(text) = &frame.raw else { return Err(Undecodable::Binary { venue: VENUE }) };
        let decoded = if frame.kind == RawKind::Ws {
            self.stream_leg = arrival.leg;
            self.message(text, frame.ts_ns, out)
        } else {
            self.reply(frame.url.as_deref(), text, frame.ts_ns, out)
        };
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
    }

    impl Wire {
        fn new() -> Self {
            Self { feed: Feed::new(Arc::new(Listings::new(Arc::default()))), events: Vec::new() }
        }

        fn say(&mut self, kind: RawKind, url: Option<&str>, raw: &str) -> Result<(), Undecodable> {
            let frame = RawFrame {
                ts_ns: 7,
                kind,
                conn: "0".into(),
                url: url.map(Into::into),
                raw: RawPayload::Text(raw.into()),
            };
            self.feed.decode(Arrival { frame: &frame, position: 1, leg: LegId(0) }, &mut self.events)
        }

        fn depth(&mut self, bids: &str) -> Result<(), Undecodable> {
            self.say(
                RawKind::Ws,
                None,
                &format!(
                    r#"{{"stream":"btcusdt@depth@100ms","data":{{"e":"depthUpdate","E":1618677372122,"s":"BTCUSDT",
                    "U":9007199254740993,"u":8389765929445198309,"b":{bids},"a":[]}}}}"#
                ),
            )
        }
    }

    #[test]
    fn ids_beyond_two_to_the_53_and_every_zero_are_exact() {
        let mut wire = Wire::new();
        wire.depth(r#"[["3.79100000","0.00000000"],["3.8","0E-8"],["3.9",0],["4.0","-0"],["4.1","0.5"]]"#).unwrap();
        let Body::Delta(delta) = &wire.events[1].body else { panic!("{:?}", wire.events) };
        assert_eq!(delta.sequence, Sequence::Venue { first: 9_007_199_254_740_993, last: 8_389_765_929_445_198_309 });
        let dead: Vec<_> = delta.changes.iter().map(|change| change.reserves.is_zero()).collect();
        assert_eq!(dead, [true, true, true, true, false]);
    }
    use market::Sequence;

    #[test]
    fn bad_numbers_refuse_the_message_by_type() {
        for bad in [r#""NaN""#, r#""Infinity""#, r#""""#, "null", r#""abc""#, r#""-1""#, "[]", r#""1\u0030""#] {
            let mut wire = Wire::new();
            let error = wire.depth(&format!(r#"[["1.0","2.0"],[{bad},"1.0"]]"#)).unwrap_err();
            assert!(matches!(error, Undecodable::Number { .. }), "{bad}: {error}");
            assert!(!wire.events.iter().any(|event| matches!(event.body, Body::Delta(_))), "{bad}");
        }
        assert!(matches!(Wire::new().say(RawKind::Ws, None, "{"), Err(Undecodable::Json { .. })));
    }

    #[test]
    fn answers_to_requests_are_no_dead_letters() {
        let mut wire = Wire::new();
        for text in [
            r#"{"result":null,"id":1}"#,
            r#"{"error":{"code":2,"msg":"Invalid request"},"id":3}"#,
            r#"{"code":2,"msg":"Invalid request"}"#,
            r#"{"e":"serverShutdown","E":1770123456789}"#,
        ] {
            wire.say(RawKind::Ws, None, text).unwrap();
        }
        assert_eq!((wire.feed.counts().ignored, wire.events.len()), (4, 0));
        assert!(wire.say(RawKind::Ws, None, "{}").is_err());
        assert!(wire.say(RawKind::Ws, None, r#"{"price":1}"#).is_err());
    }

    #[test]
    fn a_reply_belongs_to_its_request_or_to_the_only_instrument() {
        let reply = r#"{"lastUpdateId":5,"bids":[["1.5","2"]],"asks":[]}"#;
        let mut wire = Wire::new();
        assert!(matches!(wire.say(RawKind::Http, None, reply), Err(Undecodable::Symbol { .. })));
        wire.say(RawKind::Http, Some("https://x/api/v3/depth?symbol=ETHUSDT&limit=1000"), reply).unwrap();
        wire.say(RawKind::Http, None, reply).unwrap();
        let snapshots = wire.events.iter().filter(|event| matches!(event.body, Body::Snapshot(_))).count();
        assert_eq!(snapshots, 2);
    }

    #[test]
    fn single_and_aggregate_trades_of_one_instrument_are_not_both_told() {
        let mut wire = Wire::new();
        let trade = |stream: &str, id: &str| {
            format!(
                r#"{{"stream":"btcusdt@{stream}","data":{{"s":"BTCUSDT",{id},"p":"1.5","q":"2","T":1618677372122,"m":true}}}}"#
            )
        };
        wire.say(RawKind::Ws, None, &trade("trade", r#""t":3735683259"#)).unwrap();
        wire.say(RawKind::Ws, None, &trade("aggTrade", r#""a":17"#)).unwrap();
        let trades: Vec<_> = wire
            .events
            .iter()
            .filter_map(|event| match &event.body {
                Body::Trade { trade, .. } => Some((&*trade.id, trade.taker)),
                _ => None,
            })
            .collect();
        assert_eq!(trades, [("3735683259", market::Side::Ask)]);
        assert_eq!(wire.feed.counts().ignored, 1);
    }
}
