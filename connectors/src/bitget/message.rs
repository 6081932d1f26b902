//! The shapes of messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, listings, row::Row};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Stands between `instType` and `instId` in the symbol of what is not spot.
const SEPARATOR: char = ':';

/// What every message may have.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) event: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) action: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) arg: Option<Arg<'a>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
}

/// Which stream is meant.
#[derive(Debug, Deserialize)]
pub(crate) struct Arg<'a> {
    #[serde(borrow, rename = "instType")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) channel: Cow<'a, str>,
    #[serde(borrow, rename = "instId")]
    id: Cow<'a, str>,
}

impl Arg<'_> {
    /// Rule 4. Requests may spell the type in capitals.
    pub(crate) fn symbol(&self) -> Cow<'_, str> {
        if self.kind.eq_ignore_ascii_case("sp") {
            return Cow::Borrowed(&self.id);
        }
        Cow::Owned(format!("{}{SEPARATOR}{}", self.kind.to_ascii_lowercase(), self.id))
    }
}

/// One part of a `books` message.
#[derive(Debug, Deserialize)]
pub(crate) struct Book<'a> {
    #[serde(borrow)]
    pub(crate) asks: Vec<Row<'a, 2>>,
    #[serde(borrow)]
    pub(crate) bids: Vec<Row<'a, 2>>,
    /// Rule 2.
    #[serde(default)]
    pub(crate) checksum: Option<i32>,
    /// Milliseconds, as text.
    #[serde(borrow)]
    pub(crate) ts: &'a RawValue,
}

/// Spot by the quote assets that are known. A contract is an asset of its own.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    match symbol.split_once(SEPARATOR) {
        None => listings::joined(symbol),
        // `BTCUSDT_DMCBL`, `BTCUSD_DMCBL_230331`: what follows the pair says how the contract is settled.
        Some((_, id)) => {
            let pair = id.split_once('_').map_or(id, |(pair, _)| pair);
            listings::joined(pair).map(|(_, quote)| (symbol.into(), quote))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_id_is_another_instrument_on_another_socket() {
        let symbol = |kind: &str| {
            let text = format!(r#"{{"instType":"{kind}","channel":"books","instId":"BTCUSDT"}}"#);
            serde_json::from_str::<Arg<'_>>(&text).unwrap().symbol().into_owned()
        };
        assert_eq!([symbol("sp"), symbol("SP"), symbol("mc")], ["BTCUSDT", "BTCUSDT", "mc:BTCUSDT"]);
        for (symbol, right) in [
            ("BTCUSDT", Some(("BTC", "USDT"))),
            ("mc:BTCUSDT", Some(("mc:BTCUSDT", "USDT"))),
            ("mc:BTCUSD_DMCBL_230331", Some(("mc:BTCUSD_DMCBL_230331", "USD"))),
            ("mc:WHAT", None),
            ("mc:", None),
        ] {
            let right = right.map(|(base, quote)| (base.into(), quote.into()));
            assert_eq!(assets(symbol), right, "{symbol}");
        }
    }
}
