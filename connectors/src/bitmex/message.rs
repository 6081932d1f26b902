//! The shapes of messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, listings};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What every message may have.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) table: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) action: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) filter: Option<Filter<'a>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
    /// Which subscription was ended.
    #[serde(borrow, default)]
    pub(crate) unsubscribe: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) success: bool,
}

/// What a partial was asked for.
#[derive(Debug, Deserialize)]
pub(crate) struct Filter<'a> {
    #[serde(borrow, default)]
    pub(crate) symbol: Option<Cow<'a, str>>,
}

/// A row of `orderBookL2`.
#[derive(Debug, Deserialize)]
pub(crate) struct BookRow<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
    pub(crate) id: u64,
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    /// Absent in a delete.
    #[serde(borrow, default)]
    pub(crate) size: Option<&'a RawValue>,
    /// Rule 3.
    #[serde(borrow, default)]
    pub(crate) price: Option<&'a RawValue>,
    /// RFC 3339; absent in older captures.
    #[serde(borrow, default)]
    pub(crate) timestamp: Option<Cow<'a, str>>,
}

/// The name alone of a row.
#[derive(Debug, Deserialize)]
pub(crate) struct Named<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
}

/// A row of `trade`.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
    /// RFC 3339.
    #[serde(borrow)]
    pub(crate) timestamp: Cow<'a, str>,
    /// The taker's.
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) size: &'a RawValue,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow, rename = "trdMatchID")]
    pub(crate) id: Cow<'a, str>,
}

/// Bytes of a future's end: a month's letter and a year, as in `XBTM21`.
const EXPIRY_BYTES: usize = 3;

/// The letters of months.
const MONTHS: &str = "FGHJKMNQUVXZ";

/// What contracts are priced in where their name says it, longest first.
const QUOTES: [&str; 3] = ["USDT", "USD", "EUR"];

/// `XBT_USDT` is spot; everything else is a contract, which is an asset of its own. It is priced in what its name ends
/// with (`XBTUSD`, `EOSUSDT`, `LINKUSDTM21`); where it does not say, bitcoin's futures in USD, all others in bitcoin.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    let named = |text: &str| QUOTES.into_iter().find(|quote| text.ends_with(quote));
    // What follows `_` in a contract's name is what it is settled in.
    let name = match symbol.split_once('_') {
        Some((name, _)) if named(name).is_none() => return listings::separated(symbol, '_'),
        Some((name, _)) => name,
        None => symbol,
    };
    if name.is_empty() || name.starts_with('.') {
        return None;
    }
    let quote = named(name).or_else(|| {
        let (root, expiry) = name.split_at_checked(name.len().checked_sub(EXPIRY_BYTES)?)?;
        let (month, year) = (expiry.chars().next()?, expiry.get(1..)?);
        if root.is_empty() || !MONTHS.contains(month) || !year.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(named(root).unwrap_or(if root == "XBT" { "USD" } else { "XBT" }))
    })?;
    Some((symbol.into(), quote.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_an_asset_of_its_own_priced_in_what_its_name_says() {
        for (symbol, right) in [
            ("XBTUSD", Some(("XBTUSD", "USD"))),
            ("XBTM21", Some(("XBTM21", "USD"))),
            ("ETHH21", Some(("ETHH21", "XBT"))),
            ("EOSUSDT", Some(("EOSUSDT", "USDT"))),
            ("LINKUSDTM21", Some(("LINKUSDTM21", "USDT"))),
            ("XBTEURU23", Some(("XBTEURU23", "EUR"))),
            ("ETHUSD_ETH", Some(("ETHUSD_ETH", "USD"))),
            ("XBT_USDT", Some(("XBT", "USDT"))),
            (".BXBT", None),
            (".BXBTUSD", None),
            ("M21", None),
            ("WHAT", None),
            ("ÄÖ1", None),
            ("", None),
        ] {
            let right = right.map(|(base, quote)| (base.into(), quote.into()));
            assert_eq!(assets(symbol), right, "{symbol}");
        }
    }
}
