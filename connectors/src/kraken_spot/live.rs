//! Live connections: subscriptions to books and trades of WebSocket v2. The venue's rules:
//!
//! 1. A subscription brings the snapshot; there is no other way to it.
//! 2. Each symbol of a request is answered on its own, with the request's `req_id`.
//! 3. A heartbeat comes every second while anything is subscribed to.
//! 4. REST still spells `XBT` and `XDG` what WebSocket v2 calls `BTC` and `DOGE`.
//!
//! Never: a depth that the venue does not offer.

use super::message::{Envelope, Named, Subscription};
use crate::{
    live::protocol::{Answer, Listed, Protocol, RestRequest, Terms, halted},
    venue_feed::{
        self, Undecodable,
        number::{token, told},
    },
};
use market::Venue;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap};

const VENUE: Venue = Venue::KrakenSpot;

/// Levels a side that are subscribed to; of 10, 25, 100, 500 and 1,000 that which a screen can show.
const DEPTH: u32 = 100;

const TERMS: Terms = Terms {
    socket_url: "wss://ws.kraken.com/v2",
    rest_url: "https://api.kraken.com",
    // Rule 3, ten times.
    silence_ms: 10_000,
    answer_ms: 10_000,
    // Rule 1.
    data_ms: 10_000,
    data_each: true,
    // No number is documented for public subscriptions; faster than this is of no use.
    pace_ms: 50,
    batch: 100,
    instruments_max: 2_000,
    // The list of instruments is all that is asked by REST.
    weight_per_minute: 60,
    ping_ms: 0,
    // None is documented.
    requests_per_hour: None,
    too_often: None,
};

/// The start of the messages that say nothing but that the connection lives, as the venue writes them.
const DATA: [&str; 3] = [r#"{"channel":"book","type":"update""#, r#"{"channel":"heartbeat""#, r#"{"channel":"trade""#];

/// Kraken spot, WebSocket v2.
#[derive(Clone, Copy, Debug, Default)]
pub struct KrakenSpot;

impl Protocol for KrakenSpot {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    fn subscribe(&self, symbols: &[&str], id: u64) -> String {
        let params = json!({ "channel": "book", "symbol": symbols, "depth": DEPTH, "snapshot": true });
        json!({ "method": "subscribe", "params": params, "req_id": id }).to_string()
    }

    fn unsubscribe(&self, symbol: &str, _handle: Option<&str>, id: u64) -> String {
        let params = json!({ "channel": "book", "symbol": [symbol], "depth": DEPTH });
        json!({ "method": "unsubscribe", "params": params, "req_id": id }).to_string()
    }

    /// The last trades come with it, which are those that a reconnection missed.
    fn subscribe_beside(&self, symbols: &[&str], id: u64) -> Option<String> {
        let params = json!({ "channel": "trade", "symbol": symbols, "snapshot": true });
        Some(json!({ "method": "subscribe", "params": params, "req_id": id }).to_string())
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        if DATA.iter().any(|start| text.starts_with(start)) {
            return Answer::Life;
        }
        let Ok(envelope) = serde_json::from_str::<Envelope<'a>>(text) else { return Answer::Life };
        let data = envelope.data.map(|data| data.get());
        if let (Some("book"), Some("snapshot"), Some(data)) =
            (envelope.channel.as_deref(), envelope.kind.as_deref(), data)
        {
            let books: Vec<Named<'a>> = serde_json::from_str(data).unwrap_or_default();
            return books.into_iter().next().map_or(Answer::Life, |book| Answer::Data(book.symbol));
        }
        if envelope.method.is_none() || !matches!(envelope.method.as_deref(), Some("subscribe" | "unsubscribe")) {
            return Answer::Life;
        }
        let result = envelope.result.and_then(|result| serde_json::from_str::<Subscription<'a>>(result.get()).ok());
        let key = result.and_then(|result| result.symbol).or(envelope.symbol);
        let refusal = (!envelope.success).then(|| envelope.error.as_deref().unwrap_or_default().into());
        Answer::Reply { request: envelope.req_id, key, refusal }
    }

    /// Rule 1.
    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        RestRequest { path: "/0/public/AssetPairs".to_owned(), weight: 1 }
    }

    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        let pairs: AssetPairs<'_> = venue_feed::json(VENUE, body)?;
        Ok(pairs.result.into_values().filter_map(|pair| listed(&pair)).collect())
    }
}

/// Rule 4.
fn listed(pair: &AssetPair<'_>) -> Option<Listed> {
    let (base, quote) = pair.wsname.as_deref()?.split_once('/')?;
    let current = |asset| match asset {
        "XBT" => "BTC",
        "XDG" => "DOGE",
        other => other,
    };
    let (asset_0, asset_1) = (current(base), current(quote));
    let symbol = format!("{asset_0}/{asset_1}").into();
    let decimals = |decimals: Option<&RawValue>| decimals.map(|decimals| format!("1e-{}", token(decimals)).into());
    Some(Listed {
        symbol,
        asset_0: asset_0.into(),
        asset_1: asset_1.into(),
        price_step: told(pair.tick_size).or_else(|| decimals(pair.pair_decimals)),
        quantity_step: decimals(pair.lot_decimals),
        halted: halted(pair.status, "online"),
    })
}

#[derive(Deserialize)]
struct AssetPairs<'a> {
    #[serde(borrow)]
    result: BTreeMap<Cow<'a, str>, AssetPair<'a>>,
}

#[derive(Deserialize)]
struct AssetPair<'a> {
    /// Absent for pairs that WebSocket does not carry.
    #[serde(borrow, default)]
    wsname: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tick_size: Option<&'a RawValue>,
    /// Digits behind the point of a price.
    #[serde(borrow, default)]
    pair_decimals: Option<&'a RawValue>,
    /// The same of a quantity.
    #[serde(borrow, default)]
    lot_decimals: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_documented_ones() {
        let value = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
        assert_eq!(
            value(KrakenSpot.subscribe(&["BTC/USD", "ETH/USD"], 7)),
            json!({"method":"subscribe","req_id":7,
                   "params":{"channel":"book","symbol":["BTC/USD","ETH/USD"],"depth":100,"snapshot":true}})
        );
        assert_eq!(
            value(KrakenSpot.unsubscribe("BTC/USD", None, 8)),
            json!({"method":"unsubscribe","req_id":8,
                   "params":{"channel":"book","symbol":["BTC/USD"],"depth":100}})
        );
        assert_eq!(
            value(KrakenSpot.subscribe_beside(&["BTC/USD"], 9).unwrap()),
            json!({"method":"subscribe","req_id":9,
                   "params":{"channel":"trade","symbol":["BTC/USD"],"snapshot":true}})
        );
    }

    #[test]
    fn answers_are_told_apart() {
        let understand = |text| KrakenSpot.understand(text);
        let snapshot =
            r#"{"channel":"book","type":"snapshot","data":[{"symbol":"BTC\/USD","bids":[],"asks":[],"checksum":0}]}"#;
        assert_eq!(understand(snapshot), Answer::Data("BTC/USD".into()));
        let update = snapshot.replace("snapshot", "update");
        assert_eq!(KrakenSpot.understand(&update), Answer::Life);
        let reply = |refusal: Option<&str>| Answer::Reply {
            request: Some(3),
            key: Some("BTC/USD".into()),
            refusal: refusal.map(Into::into),
        };
        let acknowledged = r#"{"method":"subscribe","req_id":3,"result":{"channel":"book","depth":100,"snapshot":true,"symbol":"BTC/USD"},"success":true,"time_in":"x"}"#;
        assert_eq!(understand(acknowledged), reply(None));
        let refused = r#"{"error":"Currency pair not supported","method":"subscribe","req_id":3,"success":false,"symbol":"BTC/USD"}"#;
        assert_eq!(understand(refused), reply(Some("Currency pair not supported")));
        for text in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            r#"{"channel":"heartbeat"}"#,
            r#"{"channel":"status","type":"update","data":[{"connection_id":13834774380200032777}]}"#,
        ] {
            assert_eq!(understand(text), Answer::Life, "{text}");
        }
    }

    #[test]
    fn a_listing_has_the_names_that_are_subscribed_to() {
        let body = r#"{"error":[],"result":{
            "XXBTZUSD":{"altname":"XBTUSD","wsname":"XBT/USD","pair_decimals":1,"lot_decimals":8,"lot_multiplier":1,
                "ordermin":"0.00005","costmin":"0.5","tick_size":"0.1","status":"online"},
            "XDGEUR":{"wsname":"XDG/EUR","pair_decimals":7,"lot_decimals":8,"status":"cancel_only"},
            "ABCEUR":{"wsname":"ABC/EUR"},"X":{}}}"#;
        let of = |base: &str, quote: &str| Listed {
            symbol: format!("{base}/{quote}").into(),
            asset_0: base.into(),
            asset_1: quote.into(),
            price_step: None,
            quantity_step: None,
            halted: None,
        };
        let (fine, lot) = (Some("1e-7".into()), Some(Box::from("1e-8")));
        let halted = Some("cancel_only".into());
        let right = [
            of("ABC", "EUR"),
            Listed { price_step: fine, quantity_step: lot.clone(), halted, ..of("DOGE", "EUR") },
            Listed { price_step: Some("0.1".into()), quantity_step: lot, ..of("BTC", "USD") },
        ];
        assert_eq!(KrakenSpot.listed(body).unwrap(), right);
        assert!(KrakenSpot.listed("[]").is_err());
    }
}
