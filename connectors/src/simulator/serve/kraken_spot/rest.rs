//! Kraken's REST: asset pairs and the system's status. The venue's older asset names are used, as it does: `XBT` for
//! Bitcoin, and a letter before the assets of its first years.
//!
//! Never: the names of the WebSocket v2 protocol.

use super::{Instrument, Kraken, VENUE};
use crate::simulator::serve::{
    bus::Bus,
    http::{Reply, unix_ns},
};
use serde_json::{Map, Value, json};

/// Assets that are written with an `X` before them.
const CRYPTO_OF_OLD: [&str; 11] = ["ETC", "ETH", "LTC", "MLN", "REP", "XBT", "XDG", "XLM", "XMR", "XRP", "ZEC"];
/// Currencies that are written with a `Z` before them.
const FIAT_OF_OLD: [&str; 6] = ["AUD", "CAD", "EUR", "GBP", "JPY", "USD"];

/// The older name of an asset.
fn old_name(asset: &str) -> &str {
    match asset {
        "BTC" => "XBT",
        "DOGE" => "XDG",
        other => other,
    }
}

/// The full name of an asset, and whether it has a letter before it.
fn full_name(old: &str) -> (String, bool) {
    match (CRYPTO_OF_OLD.contains(&old), FIAT_OF_OLD.contains(&old)) {
        (true, _) => (format!("X{old}"), true),
        (_, true) => (format!("Z{old}"), true),
        _ => (old.to_owned(), false),
    }
}

/// The name of a pair, and all that is said about it.
fn pair(instrument: &Instrument) -> (String, Value) {
    let listed = &instrument.listed;
    let (base, quote) = (old_name(&listed.asset_0), old_name(&listed.asset_1));
    let ((base_full, base_old), (quote_full, quote_old)) = (full_name(base), full_name(quote));
    let alternative = format!("{base}{quote}");
    let name = if base_old && quote_old { format!("{base_full}{quote_full}") } else { alternative.clone() };
    let decimals = listed.price_decimals;
    let tick = match usize::try_from(decimals) {
        Ok(0) | Err(_) => "1".to_owned(),
        Ok(decimals) => format!("0.{}1", "0".repeat(decimals - 1)),
    };
    let value = json!({
        "altname": alternative,
        "wsname": format!("{base}/{quote}"),
        "aclass_base": "currency",
        "base": base_full,
        "aclass_quote": "currency",
        "quote": quote_full,
        "lot": "unit",
        "cost_decimals": 5,
        "pair_decimals": decimals,
        "lot_decimals": listed.quantity_decimals,
        "lot_multiplier": 1,
        "leverage_buy": [],
        "leverage_sell": [],
        "fees": [],
        "fees_maker": [],
        "fee_volume_currency": "ZUSD",
        "margin_call": 80,
        "margin_stop": 40,
        "ordermin": "0.0001",
        "costmin": "0.5",
        "tick_size": tick,
        "status": "online",
    });
    (name, value)
}

fn error(status: u16, error: &str) -> Reply {
    Reply::json(status, json!({"error": [error]}).to_string())
}

fn result(result: &Value) -> Reply {
    Reply::json(200, json!({"error": [], "result": result}).to_string())
}

impl Kraken {
    /// Answers a GET of a path below the venue's.
    pub(in crate::simulator::serve) fn get(&mut self, path: &str, query: &str, bus: &mut Bus) -> Reply {
        if let Some((status, retry_after_s)) = bus.faults.fails_rest(VENUE) {
            let words = if status == 429 { "EGeneral:Too many requests" } else { "EService:Unavailable" };
            let reply = error(status, words);
            return match retry_after_s {
                Some(seconds) => reply.with("retry-after", seconds.to_string()),
                None => reply,
            };
        }
        match path {
            "/0/public/SystemStatus" => {
                let mut now = Vec::new();
                self.calendar.write(&mut now, unix_ns());
                let now = crate::simulator::text::take(&mut now);
                let second = now.split('.').next().unwrap_or_default();
                result(&json!({"status": "online", "timestamp": format!("{second}Z")}))
            }
            "/0/public/AssetPairs" => self.asset_pairs(query),
            _ => error(404, "EGeneral:Unknown method"),
        }
    }

    fn asset_pairs(&self, query: &str) -> Reply {
        let mut parameters = form_urlencoded::parse(query.as_bytes());
        let asked = parameters.find(|(name, _)| name == "pair").map(|(_, pairs)| pairs.into_owned());
        let all = self.instruments().iter().map(pair);
        let found: Map<String, Value> = match &asked {
            None => all.collect(),
            Some(asked) => {
                let all: Vec<(String, Value)> = all.collect();
                let named = |asked: &str| {
                    let is = |name: &str, value: &Value| {
                        name == asked
                            || ["altname", "wsname"].iter().any(|key| value.get(key).is_some_and(|text| text == asked))
                    };
                    all.iter().find(|(name, value)| is(name, value)).cloned()
                };
                match asked.split(',').map(named).collect::<Option<_>>() {
                    Some(found) => found,
                    None => return error(200, "EQuery:Unknown asset pair"),
                }
            }
        };
        result(&Value::Object(found))
    }
}
