//! The shapes of Kraken Futures' messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, listings};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What the venue's contracts are quoted in.
const QUOTE_ASSETS: [&str; 3] = ["USD", "EUR", "GBP"];

/// A contract is an asset of its own, quoted in what its pair ends with: `PI_XBTUSD`, or `FI_XBTUSD_210625` with its
/// maturity.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    let (kind, rest) = symbol.split_once('_')?;
    let pair = rest.split('_').next().unwrap_or_default();
    if kind.is_empty() || symbol.ends_with('_') {
        return None;
    }
    let (_, quote) = listings::joined_by(pair, &QUOTE_ASSETS)?;
    Some((symbol.into(), quote))
}

/// What any message begins with.
#[derive(Debug, Deserialize)]
pub(crate) struct Head<'a> {
    /// What data are of.
    #[serde(borrow, default)]
    pub(crate) feed: Option<Cow<'a, str>>,
    /// Words about the connection and its subscriptions.
    #[serde(borrow, default)]
    pub(crate) event: Option<Cow<'a, str>>,
}

/// A level of a snapshot.
#[derive(Debug, Deserialize)]
pub(crate) struct Row<'a> {
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) qty: &'a RawValue,
}

/// `book_snapshot`.
#[derive(Debug, Deserialize)]
pub(crate) struct BookSnapshot<'a> {
    #[serde(rename = "product_id", borrow)]
    pub(crate) symbol: Cow<'a, str>,
    /// Unix milliseconds.
    #[serde(rename = "timestamp")]
    pub(crate) time_ms: u64,
    pub(crate) seq: u64,
    #[serde(borrow)]
    pub(crate) bids: Vec<Row<'a>>,
    #[serde(borrow)]
    pub(crate) asks: Vec<Row<'a>>,
}

/// `book`.
#[derive(Debug, Deserialize)]
pub(crate) struct BookLevel<'a> {
    #[serde(rename = "product_id", borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    pub(crate) seq: u64,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) qty: &'a RawValue,
    /// Unix milliseconds.
    #[serde(rename = "timestamp")]
    pub(crate) time_ms: u64,
}

/// `trade`.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(rename = "product_id", borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(rename = "uid", borrow)]
    pub(crate) id: Cow<'a, str>,
    /// The taker's.
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    pub(crate) seq: u64,
    /// Unix milliseconds.
    #[serde(rename = "time")]
    pub(crate) time_ms: u64,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) qty: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_an_asset_of_its_own() {
        for (symbol, quote) in [
            ("PI_XBTUSD", Some("USD")),
            ("FI_XBTUSD_210625", Some("USD")),
            ("PF_USDTUSD", Some("USD")),
            ("PF_XBTEUR", Some("EUR")),
            ("FI_XBTUSD_", None),
            ("_XBTUSD", None),
            ("PI_USD", None),
            ("XBTUSD", None),
        ] {
            assert_eq!(assets(symbol), quote.map(|quote| (symbol.into(), quote.into())), "{symbol}");
        }
    }
}
