//! Live connections: combined streams of depth and trades, snapshots by REST. The venue's rules:
//!
//! 1. `/public` carries what the engine sends at each change: depth, `bookTicker`, `trade`; `/market` what is made of it:
//!    `aggTrade`, `contractInfo`. Each acknowledges the other's streams and then sends nothing of them, without an error;
//!    a path without either is `/public`. So depth and trades come on one connection only as `depth` and `trade`.
//! 2. A connection takes 10 messages a second and carries 1,024 streams. It ends after 24 hours.
//! 3. The server pings every 3 minutes and wants the pong within 10.
//! 4. REST requests weigh 2,400 a minute and address; `depth` of 1,000 levels weighs 20, `exchangeInfo` 1.
//!
//! Never: a symbol changed but for the lower case of stream names.

use super::message::ExchangeInfo;
use crate::{
    binance_spot::live::{TRADING, answer, depth, request, steps},
    live::protocol::{Answer, Listed, Protocol, RestRequest, Terms, halted},
    venue_feed::{self, Undecodable},
};
use market::Venue;
use std::borrow::Cow;

const VENUE: Venue = Venue::BinanceUsdm;

const TERMS: Terms = Terms {
    socket_url: "wss://fstream.binance.com/public/stream",
    rest_url: "https://fapi.binance.com",
    // Rule 3 says nothing for minutes, so we ask; three questions without an answer are enough.
    silence_ms: 30_000,
    answer_ms: 10_000,
    // A quiet market may well have no update for long.
    data_ms: 60_000,
    data_each: false,
    // Rule 2, with three messages a second to spare for pongs and pings.
    pace_ms: 150,
    batch: 100,
    // Rule 2: two streams for each.
    instruments_max: 512,
    weight_per_minute: 2_400,
    ping_ms: 10_000,
    // None is documented.
    requests_per_hour: None,
    too_often: None,
};

/// The streams of a symbol.
const CHANNELS: [&str; 2] = ["depth@100ms", "trade"];

/// Binance USD-M futures.
#[derive(Clone, Copy, Debug, Default)]
pub struct BinanceUsdm;

impl Protocol for BinanceUsdm {
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

    fn ping(&self, id: u64) -> Option<String> {
        Some(format!(r#"{{"method":"LIST_SUBSCRIPTIONS","id":{id}}}"#))
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
        Some(depth("/fapi/v1/depth", symbol, 20))
    }

    fn listing(&self) -> RestRequest {
        RestRequest { path: "/fapi/v1/exchangeInfo".to_owned(), weight: 1 }
    }

    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        let info: ExchangeInfo<'_> = venue_feed::json(VENUE, body)?;
        let of = |contract: super::message::Contract<'_>| {
            let [price_step, quantity_step] = steps(contract.filters);
            Listed {
                asset_0: contract.symbol.as_ref().into(),
                symbol: contract.symbol.into(),
                asset_1: contract.quote.into(),
                price_step,
                quantity_step,
                halted: halted(contract.status, TRADING),
            }
        };
        Ok(info.symbols.into_iter().map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_documented_ones() {
        let two = BinanceUsdm.subscribe(&["BTCUSDT", "ETHUSDT_261225"], 7);
        assert_eq!(
            two,
            r#"{"method":"SUBSCRIBE","params":["btcusdt@depth@100ms","btcusdt@trade","ethusdt_261225@depth@100ms","ethusdt_261225@trade"],"id":7}"#
        );
        let one = BinanceUsdm.unsubscribe("BTCUSDT", None, 8);
        assert_eq!(one, r#"{"method":"UNSUBSCRIBE","params":["btcusdt@depth@100ms","btcusdt@trade"],"id":8}"#);
        let snapshot = BinanceUsdm.snapshot("BTCUSDT").unwrap();
        assert_eq!(snapshot, RestRequest { path: "/fapi/v1/depth?symbol=BTCUSDT&limit=1000".to_owned(), weight: 20 });
    }

    #[test]
    fn answers_are_told_apart() {
        let understand = |text| BinanceUsdm.understand(text);
        let depth = r#"{"stream":"btcusdt_261225@depth@100ms","data":{}}"#;
        assert_eq!(understand(depth), Answer::Data(BinanceUsdm.key("BTCUSDT_261225")));
        let reply = |request, refusal| Answer::Reply { request, key: None, refusal };
        assert_eq!(understand(r#"{"result":["btcusdt@trade"],"id":3}"#), reply(Some(3), None), "of a ping");
        let refused = r#"{"error":{"code":2,"msg":"no"},"id":3}"#;
        assert_eq!(understand(refused), reply(Some(3), Some(refused.into())));
    }

    #[test]
    fn a_listing_is_in_the_sense_of_symbols() {
        let body = r#"{"symbols":[{"symbol":"BTCUSDT","status":"TRADING","baseAsset":"BTC","quoteAsset":"USDT",
                "pricePrecision":2,"quantityPrecision":3,"filters":[
                {"filterType":"PRICE_FILTER","maxPrice":"4529764","minPrice":"556.80","tickSize":"0.10"},
                {"filterType":"LOT_SIZE","maxQty":"1000","minQty":"0.001","stepSize":"0.001"},
                {"filterType":"MARKET_LOT_SIZE","maxQty":"120","minQty":"0.01","stepSize":"0.01"}]},
            {"symbol":"XYZABC_261225","status":"PENDING_TRADING","baseAsset":"XYZ","quoteAsset":"ABC"}]}"#;
        let of = |symbol: &str, quote: &str| Listed {
            symbol: symbol.into(),
            asset_0: symbol.into(),
            asset_1: quote.into(),
            price_step: None,
            quantity_step: None,
            halted: Some("PENDING_TRADING".into()),
        };
        let (price_step, quantity_step) = (Some("0.10".into()), Some("0.001".into()));
        let bitcoin = Listed { price_step, quantity_step, halted: None, ..of("BTCUSDT", "USDT") };
        assert_eq!(BinanceUsdm.listed(body).unwrap(), [bitcoin, of("XYZABC_261225", "ABC")]);
        assert!(BinanceUsdm.listed("{}").is_err());
    }
}
