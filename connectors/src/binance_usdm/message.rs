//! The messages that futures have of their own; depth and trades are shaped as on spot.
//!
//! Never: a number.

use crate::venue_feed::{Assets, listings};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A contract is an asset of its own, quoted in what its name ends with: `BTCUSDT`, or `BTCUSDT_210924` with its
/// delivery.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    let pair = match symbol.split_once('_') {
        Some((_, "")) => return None,
        Some((pair, _)) => pair,
        None => symbol,
    };
    let (_, quote) = listings::joined(pair)?;
    Some((symbol.into(), quote))
}

/// `exchangeInfo`.
#[derive(Debug, Deserialize)]
pub(crate) struct ExchangeInfo<'a> {
    #[serde(borrow)]
    pub(crate) symbols: Vec<Contract<'a>>,
}

/// One of its contracts.
#[derive(Debug, Deserialize)]
pub(crate) struct Contract<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(borrow, rename = "quoteAsset")]
    pub(crate) quote: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) filters: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_an_asset_of_its_own() {
        for (symbol, quote) in [
            ("BTCUSDT", Some("USDT")),
            ("BTCUSDT_210924", Some("USDT")),
            ("1000PEPEUSDC", Some("USDC")),
            ("ETHBTC", Some("BTC")),
            ("BTCUSDT_", None),
            ("_210924", None),
            ("WHAT", None),
            ("USDT", None),
        ] {
            assert_eq!(assets(symbol), quote.map(|quote| (symbol.into(), quote.into())), "{symbol}");
        }
    }
}
