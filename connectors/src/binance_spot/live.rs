//! Live connections: combined streams of depth and trades, snapshots by REST. The venue's rules:
//!
//! 1. A connection takes 5 messages a second, pings and pongs included, and carries 1,024 streams.
//! 2. The server pings every 20 seconds and wants the pong within a minute.
//! 3. A connection ends after 24 hours. `serverShutdown` says that it ends in some minutes.
//! 4. REST requests weigh 6,000 a minute and address; `depth` of 1,000 levels weighs 50. 429 means to wait as told, 418
//!    that we did not.
//!
//! Never: a symbol changed but for the lower case of stream names.

use super::message::Aside;
use crate::{
    live::protocol::{Answer, Listed, Protocol, RestRequest, Terms, halted},
    venue_feed::{
        self, Undecodable,
        number::{is_zero, told},
    },
};
use market::Venue;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

const VENUE: Venue = Venue::BinanceSpot;

const TERMS: Terms = Terms {
    // The addresses that the venue keeps for public market data alone.
    socket_url: "wss://data-stream.binance.vision/stream",
    rest_url: "https://data-api.binance.vision",
    // Rule 2, and half as much again.
    silence_ms: 30_000,
    answer_ms: 10_000,
    // A quiet market may well have no update for long.
    data_ms: 60_000,
    data_each: false,
    // Rule 1, with one message a second to spare for pongs.
    pace_ms: 250,
    batch: 100,
    // Rule 1: two streams for each.
    instruments_max: 512,
    weight_per_minute: 6_000,
    ping_ms: 0,
    // None is documented.
    requests_per_hour: None,
    too_often: None,
};

/// The start of every message of a combined stream.
const STREAM: &str = r#"{"stream":""#;

/// Binance spot.
#[derive(Clone, Copy, Debug, Default)]
pub struct BinanceSpot;

/// The streams of a symbol.
const CHANNELS: [&str; 2] = ["depth@100ms", "trade"];

/// A request about so many streams of each symbol.
pub(crate) fn request(method: &str, channels: [&str; 2], symbols: &[&str], id: u64) -> String {
    let [book, trades] = channels;
    let mut text = format!(r#"{{"method":"{method}","params":["#);
    for (at, symbol) in symbols.iter().enumerate() {
        let name = symbol.to_ascii_lowercase();
        let comma = if at == 0 { "" } else { "," };
        text.push_str(&format!(r#"{comma}"{name}@{book}","{name}@{trades}""#));
    }
    text.push_str(&format!(r#"],"id":{id}}}"#));
    text
}

/// The request for a symbol's depth behind the given path.
pub(crate) fn depth(path: &str, symbol: &str, weight: u32) -> RestRequest {
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("symbol", symbol).finish();
    RestRequest { path: format!("{path}?{query}&limit=1000"), weight }
}

/// What a message of a combined stream means.
pub(crate) fn answer(text: &str) -> Answer<'_> {
    if let Some((name, channel)) = text.strip_prefix(STREAM).and_then(|rest| rest.split_once('@')) {
        return if channel.starts_with("depth") { Answer::Data(name.into()) } else { Answer::Life };
    }
    let Ok(aside) = serde_json::from_str::<Aside<'_>>(text) else { return Answer::Life };
    if aside.event.as_deref() == Some("serverShutdown") {
        return Answer::Leaving;
    }
    let refusal = aside.error.or(aside.code).map(|_| venue_feed::excerpt(text));
    if aside.id.is_none() && refusal.is_none() {
        return Answer::Life;
    }
    Answer::Reply { request: aside.id, key: None, refusal }
}

impl Protocol for BinanceSpot {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.to_ascii_lowercase().into()
    }

    fn subscribe(&self, symbols: &[&str], id: u64) -> String {
        request("SUBSCRIBE", CHANNELS, symbols, id)
    }

    fn unsubscribe(&self, symbol: &str, _handle: Option<&str>, id: u64) -> String {
        request("UNSUBSCRIBE", CHANNELS, &[symbol], id)
    }

    fn subscribe_beside(&self, _symbols: &[&str], _id: u64) -> Option<String> {
        None
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        answer(text)
    }

    fn snapshot(&self, symbol: &str) -> Option<RestRequest> {
        Some(depth("/api/v3/depth", symbol, 50))
    }

    fn listing(&self) -> RestRequest {
        RestRequest { path: "/api/v3/exchangeInfo?showPermissionSets=false".to_owned(), weight: 20 }
    }

    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        let info: ExchangeInfo<'_> = venue_feed::json(VENUE, body)?;
        let of = |pair: Pair<'_>| {
            let [price_step, quantity_step] = steps(pair.filters);
            Listed {
                symbol: pair.symbol.into(),
                asset_0: pair.base.into(),
                asset_1: pair.quote.into(),
                price_step,
                quantity_step,
                halted: halted(pair.status, TRADING),
            }
        };
        Ok(info.symbols.into_iter().map(of).collect())
    }
}

/// The state of a symbol that trades.
pub(crate) const TRADING: &str = "TRADING";

/// The steps of prices and quantities by a symbol's filters. A step of zero says that there is no such rule.
pub(crate) fn steps(filters: Option<&RawValue>) -> [Option<Box<str>>; 2] {
    let filters: Vec<Filter<'_>> =
        filters.and_then(|filters| serde_json::from_str(filters.get()).ok()).unwrap_or_default();
    let of = |kind| filters.iter().find(|filter| filter.kind == kind);
    let steps = [of("PRICE_FILTER").and_then(|filter| filter.price), of("LOT_SIZE").and_then(|filter| filter.quantity)];
    steps.map(|step| told(step).filter(|step| !is_zero(step)))
}

#[derive(Deserialize)]
struct Filter<'a> {
    #[serde(borrow, rename = "filterType", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, rename = "tickSize", default)]
    price: Option<&'a RawValue>,
    #[serde(borrow, rename = "stepSize", default)]
    quantity: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ExchangeInfo<'a> {
    #[serde(borrow)]
    symbols: Vec<Pair<'a>>,
}

#[derive(Deserialize)]
struct Pair<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
    #[serde(borrow, rename = "baseAsset")]
    base: Cow<'a, str>,
    #[serde(borrow, rename = "quoteAsset")]
    quote: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    filters: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_documented_ones() {
        let two = BinanceSpot.subscribe(&["BTCUSDT", "ETHUSDT"], 7);
        assert_eq!(
            two,
            r#"{"method":"SUBSCRIBE","params":["btcusdt@depth@100ms","btcusdt@trade","ethusdt@depth@100ms","ethusdt@trade"],"id":7}"#
        );
        let one = BinanceSpot.unsubscribe("BTCUSDT", None, 8);
        assert_eq!(one, r#"{"method":"UNSUBSCRIBE","params":["btcusdt@depth@100ms","btcusdt@trade"],"id":8}"#);
        let snapshot = BinanceSpot.snapshot("币安人生USDT").unwrap();
        assert!(snapshot.path.starts_with("/api/v3/depth?symbol=%E5%B8%81"), "{}", snapshot.path);
    }

    #[test]
    fn answers_are_told_apart() {
        let understand = |text| BinanceSpot.understand(text);
        let depth = r#"{"stream":"btcusdt@depth@100ms","data":{}}"#;
        assert_eq!(understand(depth), Answer::Data("btcusdt".into()));
        assert_eq!(understand(r#"{"stream":"btcusdt@trade","data":{}}"#), Answer::Life);
        let reply = |request, refusal| Answer::Reply { request, key: None, refusal };
        assert_eq!(understand(r#"{"result":null,"id":3}"#), reply(Some(3), None));
        let refused = r#"{"error":{"code":2,"msg":"no"},"id":3}"#;
        assert_eq!(understand(refused), reply(Some(3), Some(refused.into())));
        assert_eq!(understand(r#"{"e":"serverShutdown","E":1}"#), Answer::Leaving);
        for text in ["", "{", "[]", "null", "{}", r#"{"stream":""#] {
            assert_eq!(understand(text), Answer::Life, "{text}");
        }
    }

    #[test]
    fn a_listing_is_in_the_venues_own_words() {
        let body = r#"{"timezone":"UTC","symbols":[
            {"symbol":"ABCXYZ","status":"TRADING","baseAsset":"ABC","quoteAsset":"XYZ","filters":[
                {"filterType":"PRICE_FILTER","minPrice":"0.01000000","maxPrice":"1000000.00000000","tickSize":"0.01000000"},
                {"filterType":"LOT_SIZE","minQty":"0.00001000","maxQty":"9000.00000000","stepSize":"0.00001000"},
                {"filterType":"MARKET_LOT_SIZE","minQty":"0.00000000","maxQty":"77.00000000","stepSize":"0.00000000"},
                {"filterType":"ICEBERG_PARTS","limit":10}]},
            {"symbol":"OLDXYZ","status":"BREAK","baseAsset":"OLD","quoteAsset":"XYZ","filters":[
                {"filterType":"PRICE_FILTER","tickSize":"0.00000000"},{"filterType":"LOT_SIZE"}]},
            {"symbol":"NEWXYZ","baseAsset":"NEW","quoteAsset":"XYZ","filters":{"PRICE_FILTER":1}}]}"#;
        let of = |base: &str, steps: [Option<&str>; 2], halted: Option<&str>| {
            let [price_step, quantity_step] = steps.map(|step| step.map(Into::into));
            let (symbol, asset_0, asset_1) = (format!("{base}XYZ").into(), base.into(), "XYZ".into());
            Listed { symbol, asset_0, asset_1, price_step, quantity_step, halted: halted.map(Into::into) }
        };
        let right = [
            of("ABC", [Some("0.01000000"), Some("0.00001000")], None),
            of("OLD", [None, None], Some("BREAK")),
            of("NEW", [None, None], None),
        ];
        assert_eq!(BinanceSpot.listed(body).unwrap(), right);
        assert!(BinanceSpot.listed("{}").is_err());
    }
}
