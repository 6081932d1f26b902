//! The feed: which stream a frame belongs to, and what it says.
//!
//! Never: a REST reply whose instrument is uncertain taken for one's own.

use super::{
    book::rows,
    message::{Aside, Combined, Depth, DepthSnapshot, Trade},
};
use crate::venue_feed::{
    self, Arrival, FeedCounts, Undecodable, VenueFeed, excerpt,
    listings::Listings,
    number::{Subject, token},
    numbered::{BookText, Numbered},
    time,
    trades::TradeText,
};
use foldhash::HashMap;
use market::{Event, LegId, Side, Venue, Window, trade::TRADE_ID_BYTES_MAX};
use std::sync::Arc;

const VENUE: Venue = Venue::BinanceSpot;

/// Levels a side that a snapshot of this venue knows.
const SNAPSHOT_LEVELS: u32 = 1_000;

/// Rule 4: what the snapshot did not know is known only once touched.
const WINDOW: Window = Window::Known(SNAPSHOT_LEVELS);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TradeKind {
    Single,
    Aggregate,
}

/// The decoder of Binance spot.
#[derive(Debug)]
pub struct Feed {
    books: Numbered,
    /// Which of `trade` and `aggTrade` an instrument's trades are; the first seen, since both tell the same trades.
    trades: HashMap<Box<str>, TradeKind>,
    /// The leg that streams came on last; REST replies belong to it.
    stream_leg: LegId,
    repairs: Vec<(LegId, Box<str>)>,
    counts: FeedCounts,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let (trades, repairs) = (HashMap::default(), Vec::new());
        let books = Numbered::new(VENUE, listings);
        Self { books, trades, stream_leg: LegId(0), repairs, counts: FeedCounts::default() }
    }

    fn depth(&mut self, arrival: Arrival<'_>, data: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let depth: Depth<'_> = json(data)?;
        let (first, last) = (depth.first, depth.last);
        if first > last {
            return Err(Undecodable::Ids { venue: VENUE, symbol: depth.symbol.as_ref().into(), first, last });
        }
        let venue_ns = time::from_ms(VENUE, depth.event_ms)?;
        let levels = rows(&depth.bids, &depth.asks);
        let text = BookText { symbol: &depth.symbol, levels, window: WINDOW, venue_ns };
        self.books.delta(arrival, (first, last), text, out)
    }

    fn trade(
        &mut self,
        arrival: Arrival<'_>,
        kind: TradeKind,
        data: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let trade: Trade<'_> = json(data)?;
        let venue_ns = time::from_ms(VENUE, trade.trade_ms)?;
        let id = match kind {
            TradeKind::Single => trade.trade_id,
            TradeKind::Aggregate => trade.aggregate_id,
        };
        let id = id.map(token).filter(|id| id.len() <= TRADE_ID_BYTES_MAX);
        let stream = self.books.stream(&trade.symbol, arrival, out)?;
        let known = self.trades.get(&*trade.symbol).copied();
        if known.is_none() {
            self.trades.insert(trade.symbol.as_ref().into(), kind);
        }
        if known.is_some_and(|known| known != kind) {
            self.counts.ignored += 1;
            return Ok(());
        }
        let order = id.and_then(|id| id.parse().ok());
        let (Some(id), Some(order)) = (id, order) else {
            return Err(Undecodable::TradeId { venue: VENUE, symbol: excerpt(&trade.symbol) });
        };
        let subject = Subject { venue: VENUE, symbol: &trade.symbol };
        let taker = if trade.buyer_made { Side::Ask } else { Side::Bid };
        let (price, quantity) = (token(trade.price), token(trade.quantity));
        let text = TradeText { id, order: Some(order), at: 0, price, quantity, taker, venue_ns };
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
        self.stream_leg = arrival.leg;
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
            "depth" => self.depth(arrival, combined.data.get(), out),
            "trade" => self.trade(arrival, TradeKind::Single, combined.data.get(), out),
            "aggTrade" => self.trade(arrival, TradeKind::Aggregate, combined.data.get(), out),
            _ => {
                self.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// A REST reply names no symbol; its request does, or it belongs to the only instrument there is.
    fn reply(
        &mut self,
        arrival: Arrival<'_>,
        url: Option<&str>,
        text: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        if url.is_some_and(|url| !url.contains("/depth")) {
            self.counts.ignored += 1;
            return Ok(());
        }
        let named = url.and_then(|url| url.split(['?', '&']).find_map(|part| part.strip_prefix("symbol=")));
        let symbol = named.or_else(|| self.books.only()).map(str::to_owned);
        let symbol = symbol.ok_or(Undecodable::Symbol { venue: VENUE, symbol: Box::default() })?;
        let message: DepthSnapshot<'_> = json(text)?;
        let levels = rows(&message.bids, &message.asks);
        let text = BookText { symbol: &symbol, levels, window: WINDOW, venue_ns: 0 };
        self.books.snapshot(Arrival { leg: self.stream_leg, ..arrival }, message.last, text, out)
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
        let dead = self.books.dead(leg, now_ns);
        self.repairs.extend(dead.into_iter().map(|symbol| (leg, symbol)));
    }

    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        std::mem::take(&mut self.repairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{RawFrame, RawKind, RawPayload};
    use market::Body;

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
