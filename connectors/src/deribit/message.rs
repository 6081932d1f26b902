//! The shapes of Deribit messages, borrowed from the frame, and what its symbols mean.
//!
//! Never: a number as anything but its token text, save ids and times, which are integers.

use crate::venue_feed::{Assets, listings};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What every message may have.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    /// `subscription` or `heartbeat`.
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) params: Option<Params<'a>>,
    /// Which request is answered.
    #[serde(default)]
    pub(crate) id: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// What a notification is about.
#[derive(Debug, Deserialize)]
pub(crate) struct Params<'a> {
    #[serde(borrow, default)]
    pub(crate) channel: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
    /// Of a heartbeat.
    #[serde(borrow, rename = "type", default)]
    pub(crate) kind: Option<Cow<'a, str>>,
}

/// A level: verb, price, amount.
pub(crate) type Row<'a> = (&'a RawValue, &'a RawValue, &'a RawValue);

/// A book, or changes of one.
#[derive(Debug, Deserialize)]
pub(crate) struct Book<'a> {
    /// `snapshot` or `change`.
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    /// Unix milliseconds.
    #[serde(rename = "timestamp")]
    pub(crate) ms: u64,
    #[serde(borrow, rename = "instrument_name")]
    pub(crate) instrument: Cow<'a, str>,
    #[serde(rename = "change_id")]
    pub(crate) last: u64,
    #[serde(rename = "prev_change_id", default)]
    pub(crate) prev: Option<u64>,
    #[serde(borrow)]
    pub(crate) bids: Vec<Row<'a>>,
    #[serde(borrow)]
    pub(crate) asks: Vec<Row<'a>>,
}

/// One trade of a `trades` notification.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(borrow, rename = "trade_id")]
    pub(crate) id: &'a RawValue,
    #[serde(rename = "trade_seq")]
    pub(crate) order: u64,
    /// Unix milliseconds.
    #[serde(rename = "timestamp")]
    pub(crate) ms: u64,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) amount: &'a RawValue,
    /// Of the taker.
    #[serde(borrow)]
    pub(crate) direction: Cow<'a, str>,
    #[serde(borrow, rename = "instrument_name")]
    pub(crate) instrument: Cow<'a, str>,
}

/// `platform_state`.
#[derive(Debug, Deserialize)]
pub(crate) struct PlatformState {
    /// Absent where only an index is told of.
    #[serde(default)]
    pub(crate) maintenance: Option<bool>,
}

/// The assets of a symbol: `BASE_QUOTE` is spot; `COIN-…` an inverse contract, quoted in US dollars, or an option, quoted in
/// the coin; `COIN_QUOTE-…` a linear contract, quoted in what is named. Contracts are assets of their own.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    let Some((underlying, kind)) = symbol.split_once('-') else { return listings::separated(symbol, '_') };
    let (coin, named) = match underlying.split_once('_') {
        Some((coin, quote)) => (coin, Some(quote)),
        None => (underlying, None),
    };
    let parts: Vec<&str> = kind.split('-').collect();
    let inverse = match &*parts {
        [expiry] if *expiry == "PERPETUAL" || is_date(expiry) => "USD",
        [expiry, strike, "C" | "P"] if is_date(expiry) && strike.starts_with(|first: char| first.is_ascii_digit()) => {
            coin
        }
        _ => return None,
    };
    let quote = named.unwrap_or(inverse);
    (!coin.is_empty() && !quote.is_empty()).then_some((symbol.into(), quote.into()))
}

/// `7MAY21` or `25JUN21`.
fn is_date(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit()) && matches!(text.len(), 6..=7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_an_asset_of_its_own_and_spot_is_split() {
        for (symbol, right) in [
            ("BTC-PERPETUAL", Some(("BTC-PERPETUAL", "USD"))),
            ("ETH-25JUN21", Some(("ETH-25JUN21", "USD"))),
            ("ETH-7MAY21-2100-C", Some(("ETH-7MAY21-2100-C", "ETH"))),
            ("BTC-25MAR22-50000-P", Some(("BTC-25MAR22-50000-P", "BTC"))),
            ("SOL_USDC-PERPETUAL", Some(("SOL_USDC-PERPETUAL", "USDC"))),
            ("BTC_USDC-27SEP24", Some(("BTC_USDC-27SEP24", "USDC"))),
            ("XRP_USDC-30JUN23-0d625-C", Some(("XRP_USDC-30JUN23-0d625-C", "USDC"))),
            ("BTC_USDC", Some(("BTC", "USDC"))),
            ("STETH_ETH", Some(("STETH", "ETH"))),
            // Combinations have negative prices.
            ("BTC-FS-27SEP24_PERP", None),
            ("BTC-CS-27SEP24-60000_70000", None),
            ("BTC-25MAR22-X-C", None),
            ("BTC", None),
            ("-PERPETUAL", None),
            ("BTC_-PERPETUAL", None),
            ("BTC-", None),
            ("", None),
        ] {
            let right = right.map(|(base, quote)| (base.into(), quote.into()));
            assert_eq!(assets(symbol), right, "{symbol}");
        }
    }
}
