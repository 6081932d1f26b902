//! The shapes of Bitstamp's messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, listings};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What the venue's pairs end with; `usdtusd` is USDT in USD.
const QUOTE_ASSETS: [&str; 8] = ["USD", "EUR", "GBP", "USDT", "USDC", "BTC", "ETH", "PAX"];

/// `btcusd` is BTC in USD; `btcusd-perp` is a contract, and an asset of its own.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    let upper = symbol.to_ascii_uppercase();
    let pair = match upper.split_once('-') {
        Some((_, "")) => return None,
        Some((pair, _)) => pair,
        None => &upper,
    };
    let (base, quote) = listings::joined_by(pair, &QUOTE_ASSETS)?;
    let base = if pair.len() == upper.len() { base.into_owned() } else { upper.clone() };
    Some((base.into(), quote.into_owned().into()))
}

/// Any message.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow)]
    pub(crate) event: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) channel: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
}

/// A diff, and the REST snapshot.
#[derive(Debug, Deserialize)]
pub(crate) struct Book<'a> {
    /// Unix microseconds, as text.
    #[serde(rename = "microtimestamp", borrow)]
    pub(crate) time_us: &'a RawValue,
    #[serde(borrow)]
    pub(crate) bids: Vec<(&'a RawValue, &'a RawValue)>,
    #[serde(borrow)]
    pub(crate) asks: Vec<(&'a RawValue, &'a RawValue)>,
}

/// A trade.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(borrow)]
    pub(crate) id: &'a RawValue,
    /// Unix microseconds, as text.
    #[serde(rename = "microtimestamp", borrow)]
    pub(crate) time_us: &'a RawValue,
    /// Quantity as text; beside it is the same as a number.
    #[serde(rename = "amount_str", borrow)]
    pub(crate) quantity: &'a RawValue,
    #[serde(rename = "price_str", borrow)]
    pub(crate) price: &'a RawValue,
    /// The taker: 0 bought, 1 sold.
    #[serde(rename = "type", borrow)]
    pub(crate) kind: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_in_upper_case_and_a_contract_is_its_own() {
        for (symbol, right) in [
            ("btcusd", Some(("BTC", "USD"))),
            ("BTCUSD", Some(("BTC", "USD"))),
            ("gusdusd", Some(("GUSD", "USD"))),
            ("linkbtc", Some(("LINK", "BTC"))),
            ("gbpusd", Some(("GBP", "USD"))),
            ("usdtusd", Some(("USDT", "USD"))),
            ("btcusd-perp", Some(("BTCUSD-PERP", "USD"))),
            ("btcusd-", None),
            ("usd", None),
            ("what", None),
        ] {
            assert_eq!(assets(symbol), right.map(|(base, quote)| (base.into(), quote.into())), "{symbol}");
        }
    }
}
