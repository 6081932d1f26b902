//! The shapes of Coinbase messages of both protocols, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, listings};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What a message may have, of either protocol; an empty text stands for none.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame<'a> {
    /// The kind of a message of the Exchange feed, or `error` of either protocol.
    #[serde(borrow, rename = "type", default)]
    pub(crate) kind: Cow<'a, str>,
    /// Advanced Trade names a channel in every message.
    #[serde(borrow, default)]
    pub(crate) channel: Cow<'a, str>,
    /// RFC 3339.
    #[serde(borrow, default)]
    pub(crate) timestamp: Cow<'a, str>,
    #[serde(default)]
    pub(crate) sequence_num: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) events: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) product_id: Cow<'a, str>,
    /// RFC 3339.
    #[serde(borrow, default)]
    pub(crate) time: Cow<'a, str>,
    /// Of an `l2update`: `[side, price, size]`.
    #[serde(borrow, default)]
    pub(crate) changes: Option<&'a RawValue>,
    /// Of a `snapshot`: `[price, size]`.
    #[serde(borrow, default)]
    pub(crate) bids: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) asks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) trade_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) side: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) price: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) size: Option<&'a RawValue>,
}

/// A change of the Exchange feed: side, price, size.
pub(crate) type Change<'a> = (&'a RawValue, &'a RawValue, &'a RawValue);

/// A level of the Exchange feed's snapshot: price, size.
pub(crate) type Level<'a> = (&'a RawValue, &'a RawValue);

/// One event of an `l2_data` message.
#[derive(Debug, Deserialize)]
pub(crate) struct BookEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) product_id: Cow<'a, str>,
    /// Rows, which are read once it is known whose they are.
    #[serde(borrow)]
    pub(crate) updates: &'a RawValue,
}

/// One row of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Row<'a> {
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) price_level: &'a RawValue,
    #[serde(borrow)]
    pub(crate) new_quantity: &'a RawValue,
}

/// One event of a `market_trades` message.
#[derive(Debug, Deserialize)]
pub(crate) struct TradesEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) trades: Vec<Trade<'a>>,
}

/// One trade of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(borrow, default)]
    pub(crate) trade_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) product_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) size: &'a RawValue,
    /// The maker's.
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    /// RFC 3339.
    #[serde(borrow)]
    pub(crate) time: Cow<'a, str>,
}

/// The assets of `BASE-QUOTE`. Contracts have a third part: `BTC-PERP-INTX` is settled in USDC, `BIT-26DEC25-CDE` in USD.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    match symbol.rsplit_once('-') {
        Some((contract, "INTX")) if contract.contains('-') => Some((symbol.into(), "USDC".into())),
        Some((contract, "CDE")) if contract.contains('-') => Some((symbol.into(), "USD".into())),
        Some((base, _)) if !base.contains('-') => listings::separated(symbol, '-'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_an_asset_of_its_own() {
        for (symbol, right) in [
            ("BTC-USD", Some(("BTC", "USD"))),
            ("00-EUR", Some(("00", "EUR"))),
            ("BTC-PERP-INTX", Some(("BTC-PERP-INTX", "USDC"))),
            ("BIT-26DEC25-CDE", Some(("BIT-26DEC25-CDE", "USD"))),
            ("A-B-C", None),
            ("BTCUSD", None),
            ("-USD", None),
            ("", None),
        ] {
            assert_eq!(assets(symbol), right.map(|(base, quote)| (base.into(), quote.into())), "{symbol}");
        }
    }
}
