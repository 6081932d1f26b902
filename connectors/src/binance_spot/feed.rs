//! The feed: Binance's combined streams in the order of spot.
//!
//! Never: an update id of another market's rule.

use super::combined::{CombinedFeed, DepthIds, Market};
use market::Venue;

/// The spot market.
#[derive(Clone, Copy, Debug)]
pub struct Spot;

impl Market for Spot {
    const VENUE: Venue = Venue::BinanceSpot;

    /// Rule 3: an event covers its own ids, and they leave none out.
    fn covered(ids: DepthIds) -> Option<(u64, u64)> {
        Some((ids.first, ids.last))
    }
}

/// The decoder of Binance spot.
pub type Feed = CombinedFeed<Spot>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        raw::{RawFrame, RawKind, RawPayload},
        venue_feed::{Arrival, Undecodable, VenueFeed, listings::Listings},
    };
    use market::{Body, Event, LegId, Sequence};
    use std::sync::Arc;

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
