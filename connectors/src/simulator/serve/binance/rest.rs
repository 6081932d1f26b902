//! Binance's REST at spot and USD-M: depth, exchange information, ping and time, with request weights.
//!
//! Never: more levels than asked for, or a body that the venue would not send.

use super::{Binance, Instrument};
use crate::simulator::serve::{
    bus::Bus,
    dialect,
    faults::Stale,
    http::{Reply, unix_ms},
    reference::{Ladder, Level, Snapshot},
};
use market::Venue;
use serde_json::{Value, json};
use std::{fmt::Write, sync::Arc};

/// The lengths of a depth reply that USD-M has; spot has any.
const USDM_LIMITS: [usize; 7] = [5, 10, 20, 50, 100, 500, 1_000];
/// The largest symbol, in characters.
const SYMBOL_CHARS_MAX: usize = 20;
const MINUTE_MS: u64 = 60_000;

/// The weight that was used in the present minute.
pub(in crate::simulator::serve) struct Weight {
    max: u32,
    minute: u64,
    used: u32,
}

impl Weight {
    /// At most `max` per minute.
    pub(in crate::simulator::serve) const fn new(max: u32) -> Self {
        Self { max, minute: 0, used: 0 }
    }

    fn add(&mut self, weight: u32, now_ms: u64) -> u32 {
        let minute = now_ms / MINUTE_MS;
        if minute != self.minute {
            (self.minute, self.used) = (minute, 0);
        }
        self.used = self.used.saturating_add(weight);
        self.used
    }
}

/// Request weight per minute and address, as the venue allows it.
pub(super) const fn weight_max(venue: Venue) -> u32 {
    match venue {
        Venue::BinanceUsdm => 2_400,
        _ => u32::MAX,
    }
}

/// Where REST is.
pub(in crate::simulator::serve) const fn root(venue: Venue) -> &'static str {
    match venue {
        Venue::BinanceUsdm => "/fapi/v1",
        _ => "/api/v3",
    }
}

/// Levels per side of a depth reply when none are asked for, and at most.
const fn limits(venue: Venue) -> (usize, usize) {
    match venue {
        Venue::BinanceUsdm => (500, 1_000),
        _ => (100, 5_000),
    }
}

/// The request's own fault.
fn refused(code: i32, words: &str) -> Reply {
    Reply::json(400, json!({"code": code, "msg": words}).to_string())
}

fn throttled(max: u32, now_ms: u64) -> Reply {
    let words = format!(
        "Too much request weight used; current limit is {max} request weight per 1 MINUTE. Please use WebSocket \
        Streams for live updates to avoid polling the API."
    );
    let wait_s = (MINUTE_MS - now_ms % MINUTE_MS).div_ceil(1_000);
    Reply::json(429, json!({"code": -1003, "msg": words}).to_string()).with("retry-after", wait_s.to_string())
}

/// A REST request that a fault lets fail.
fn failed(status: u16, retry_after_s: Option<u32>, max: u32, now_ms: u64) -> Reply {
    let reply = match status {
        429 => throttled(max, now_ms),
        _ => Reply::json(
            status,
            json!({"code": -1001, "msg": "Internal error; unable to process your request. Please try again."})
                .to_string(),
        ),
    };
    match retry_after_s {
        Some(seconds) => reply.with("retry-after", seconds.to_string()),
        None => reply,
    }
}

impl Binance {
    /// Answers a GET of a path below the venue's.
    pub(in crate::simulator::serve) fn get(&mut self, path: &str, query: &str, bus: &mut Bus) -> Reply {
        let now_ms = unix_ms();
        if let Some((status, retry_after_s)) = bus.faults.fails_rest(self.venue) {
            return failed(status, retry_after_s, self.weight.max, now_ms);
        }
        let limit = parameter(query, "limit");
        let path = path.strip_prefix(root(self.venue)).unwrap_or_default();
        let weight = match (path, self.venue) {
            ("/depth", venue) => depth_weight(venue, limit.as_deref().and_then(|limit| limit.parse().ok())),
            ("/exchangeInfo", Venue::BinanceSpot) => 20,
            _ => 1,
        };
        let used = self.weight.add(weight, now_ms);
        let reply = if used > self.weight.max {
            throttled(self.weight.max, now_ms)
        } else {
            match path {
                "/ping" => Reply::json(200, "{}".to_owned()),
                "/time" => Reply::json(200, format!("{{\"serverTime\":{now_ms}}}")),
                "/exchangeInfo" if self.venue == Venue::BinanceUsdm => self.futures_info(now_ms),
                "/exchangeInfo" => self.exchange_info(query, now_ms),
                "/depth" => self.depth(query, limit.as_deref(), bus),
                _ => return Reply::not_found(),
            }
        };
        reply.with("x-mbx-used-weight", used.to_string()).with("x-mbx-used-weight-1m", used.to_string())
    }

    fn depth(&self, query: &str, limit: Option<&str>, bus: &mut Bus) -> Reply {
        let symbol = match parameter(query, "symbol") {
            None => {
                return refused(-1102, "Mandatory parameter 'symbol' was not sent, was empty/null, or malformed.");
            }
            Some(symbol) if symbol.is_empty() => {
                return refused(-1105, "Parameter 'symbol' was empty.");
            }
            Some(symbol) => symbol,
        };
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
        if symbol.len() > SYMBOL_CHARS_MAX || !symbol.bytes().all(plain) {
            let words = "Illegal characters found in parameter 'symbol'; legal range is '^[A-Z0-9-_.]{1,20}$'.";
            return refused(-1100, words);
        }
        let (default, max) = limits(self.venue);
        let exact = self.venue == Venue::BinanceUsdm;
        let limit = match limit.map(str::parse::<usize>) {
            None => default,
            Some(Ok(limit)) if limit == 0 || (exact && !USDM_LIMITS.contains(&limit)) => {
                return refused(-1130, "Data sent for parameter 'limit' is not valid.");
            }
            Some(Ok(limit)) => limit.min(max),
            Some(Err(_)) => {
                let words = "Illegal characters found in parameter 'limit'; legal range is '^[0-9]{1,20}$'.";
                return refused(-1100, words);
            }
        };
        let Some(instrument) = self.instrument(&symbol) else { return refused(-1121, "Invalid symbol.") };
        let snapshot = match bus.faults.stale(self.venue, &symbol) {
            Some(Stale::Kept(kept)) => Some(kept),
            Some(Stale::Ago(updates)) => instrument.snapshot_ago(updates).map(Arc::new),
            None => instrument.snapshot().map(Arc::new),
        };
        match snapshot {
            Some(snapshot) => {
                let changed_ms = exact.then(|| instrument.changed_ms.unwrap_or_else(unix_ms));
                Reply::json(200, body(&snapshot, changed_ms, limit))
            }
            // A capture without a snapshot of this symbol: its book cannot be known.
            None => failed(500, None, self.weight.max, unix_ms()),
        }
    }

    fn exchange_info(&self, query: &str, now_ms: u64) -> Reply {
        let one = parameter(query, "symbol");
        let some = parameter(query, "symbols").map(|list| serde_json::from_str::<Vec<String>>(&list));
        let asked = match (one, some) {
            (Some(symbol), _) => Some(vec![symbol]),
            (None, Some(Ok(symbols))) => Some(symbols),
            (None, Some(Err(_))) => {
                let words = "Illegal characters found in parameter 'symbols'; legal range is '^\\\\[(\"[A-Z0-9-_.]{1,20}\"\
                    (,\"[A-Z0-9-_.]{1,20}\"){0,}){0,1}\\\\]$'.";
                return refused(-1100, words);
            }
            (None, None) => None,
        };
        let permissions = parameter(query, "showPermissionSets").is_none_or(|shown| shown != "false");
        let listing = |instrument| listing(instrument, permissions);
        let symbols: Option<Vec<Value>> = match &asked {
            Some(asked) => asked.iter().map(|symbol| self.instrument(symbol).map(listing)).collect(),
            None => Some(self.instruments().iter().map(listing).collect()),
        };
        let Some(symbols) = symbols else { return refused(-1121, "Invalid symbol.") };
        let limit = |kind: &str, interval: &str, number: u32, limit: u32| json!({"rateLimitType": kind, "interval": interval, "intervalNum": number, "limit": limit});
        let body = json!({
            "timezone": "UTC",
            "serverTime": now_ms,
            "rateLimits": [
                limit("REQUEST_WEIGHT", "MINUTE", 1, self.weight.max),
                limit("ORDERS", "SECOND", 10, 100),
                limit("ORDERS", "DAY", 1, 200_000),
                limit("RAW_REQUESTS", "MINUTE", 5, 61_000),
            ],
            "exchangeFilters": [],
            "symbols": symbols,
        });
        Reply::json(200, body.to_string())
    }
}

impl Binance {
    /// USD-M's exchange information knows no parameters.
    fn futures_info(&self, now_ms: u64) -> Reply {
        let limit = |kind: &str, interval: &str, number: u32, limit: u32| json!({"rateLimitType": kind, "interval": interval, "intervalNum": number, "limit": limit});
        let symbols: Vec<Value> = self.instruments().iter().map(perpetual).collect();
        let body = json!({
            "timezone": "UTC",
            "serverTime": now_ms,
            "futuresType": "U_MARGINED",
            "rateLimits": [
                limit("REQUEST_WEIGHT", "MINUTE", 1, self.weight.max),
                limit("ORDERS", "MINUTE", 1, 1_200),
                limit("ORDERS", "SECOND", 10, 300),
            ],
            "exchangeFilters": [],
            "assets": [],
            "symbols": symbols,
        });
        Reply::json(200, body.to_string())
    }
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

fn depth_weight(venue: Venue, limit: Option<usize>) -> u32 {
    let limit = limit.unwrap_or(limits(venue).0);
    match (venue, limit) {
        (Venue::BinanceUsdm, 0..=50) => 2,
        (_, 0..=100) => 5,
        (Venue::BinanceUsdm, 101..=500) => 10,
        (Venue::BinanceUsdm, _) => 20,
        (_, 101..=500) => 25,
        (_, 501..=1_000) => 50,
        (_, _) => 250,
    }
}

/// USD-M says when the book changed.
fn body(snapshot: &Snapshot, changed_ms: Option<u64>, limit: usize) -> String {
    let times = changed_ms.map(|ms| format!("\"E\":{ms},\"T\":{ms},")).unwrap_or_default();
    let mut out = format!("{{\"lastUpdateId\":{},{times}\"bids\":", snapshot.last);
    side(&mut out, &snapshot.book.bids, limit);
    out.push_str(",\"asks\":");
    side(&mut out, &snapshot.book.asks, limit);
    out.push('}');
    out
}

fn side(out: &mut String, ladder: &Ladder, limit: usize) {
    out.push('[');
    for (rank, Level { price, quantity, .. }) in ladder.best_first().take(limit).enumerate() {
        let comma = if rank == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _written = write!(out, "{comma}[\"{price}\",\"{quantity}\"]");
    }
    out.push(']');
}

/// A step with so many decimals, spelled with eight: `0.01000000`.
fn step(decimals: u32) -> String {
    let decimals = usize::try_from(decimals).unwrap_or(usize::MAX).min(8);
    match decimals {
        0 => "1.00000000".to_owned(),
        _ => format!("0.{}1{}", "0".repeat(decimals - 1), "0".repeat(8 - decimals)),
    }
}

fn listing(instrument: &Instrument, permissions: bool) -> Value {
    let listed = &instrument.listed;
    let (price, quantity) = (step(listed.price_decimals), step(listed.quantity_decimals));
    json!({
        "symbol": listed.symbol,
        "status": "TRADING",
        "baseAsset": listed.asset_0,
        "baseAssetPrecision": 8,
        "quoteAsset": listed.asset_1,
        "quotePrecision": 8,
        "quoteAssetPrecision": 8,
        "baseCommissionPrecision": 8,
        "quoteCommissionPrecision": 8,
        "orderTypes": ["LIMIT", "LIMIT_MAKER", "MARKET", "STOP_LOSS_LIMIT", "TAKE_PROFIT_LIMIT"],
        "icebergAllowed": true,
        "ocoAllowed": true,
        "isSpotTradingAllowed": true,
        "isMarginTradingAllowed": false,
        "filters": [
            {"filterType": "PRICE_FILTER", "minPrice": price, "maxPrice": "1000000.00000000", "tickSize": price},
            {"filterType": "LOT_SIZE", "minQty": quantity, "maxQty": "9000000.00000000", "stepSize": quantity},
        ],
        "permissions": [],
        "permissionSets": if permissions { json!([["SPOT"]]) } else { json!([]) },
    })
}

fn perpetual(instrument: &Instrument) -> Value {
    let listed = &instrument.listed;
    let (price, quantity) = (dialect::step(listed.price_decimals), dialect::step(listed.quantity_decimals));
    json!({
        "symbol": listed.symbol,
        "pair": listed.symbol,
        "contractType": "PERPETUAL",
        "deliveryDate": 4_133_404_800_000_u64,
        "onboardDate": 1_569_398_400_000_u64,
        "status": "TRADING",
        "baseAsset": listed.asset_0,
        "quoteAsset": listed.asset_1,
        "marginAsset": listed.asset_1,
        "pricePrecision": listed.price_decimals,
        "quantityPrecision": listed.quantity_decimals,
        "baseAssetPrecision": 8,
        "quotePrecision": 8,
        "underlyingType": "COIN",
        "underlyingSubType": [],
        "filters": [
            {"filterType": "PRICE_FILTER", "minPrice": price, "maxPrice": "1000000", "tickSize": price},
            {"filterType": "LOT_SIZE", "minQty": quantity, "maxQty": "1000000", "stepSize": quantity},
            {"filterType": "MARKET_LOT_SIZE", "minQty": quantity, "maxQty": "1000000", "stepSize": quantity},
        ],
        "orderTypes": ["LIMIT", "MARKET", "STOP", "STOP_MARKET", "TAKE_PROFIT", "TAKE_PROFIT_MARKET"],
        "timeInForce": ["GTC", "IOC", "FOK", "GTX"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_eight_decimals() {
        assert_eq!((step(0).as_str(), step(2).as_str(), step(8).as_str()), ("1.00000000", "0.01000000", "0.00000001"));
    }

    #[test]
    fn weight_is_counted_by_the_minute() {
        let mut weight = Weight::new(100);
        assert_eq!((weight.add(50, 59_999), weight.add(50, 59_999), weight.add(5, 60_000)), (50, 100, 5));
        let spot = [None, Some(101), Some(1_000), Some(5_000)].map(|limit| depth_weight(Venue::BinanceSpot, limit));
        assert_eq!(spot, [5, 25, 50, 250]);
        let usdm = [Some(50), Some(100), None, Some(1_000)].map(|limit| depth_weight(Venue::BinanceUsdm, limit));
        assert_eq!(usdm, [2, 5, 10, 20]);
    }
}
