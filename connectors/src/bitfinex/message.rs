//! The shapes of Bitfinex v2 messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text; a message refused since it is longer than it was.

use crate::venue_feed::Assets;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// An event: what is said about the connection and its channels.
#[derive(Debug, Deserialize)]
pub(crate) struct Said<'a> {
    #[serde(borrow)]
    pub(crate) event: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) channel: Cow<'a, str>,
    #[serde(borrow, rename = "chanId", default)]
    pub(crate) chan_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(default)]
    pub(crate) code: Option<i64>,
    /// Of a `conf`: what the connection has switched on.
    #[serde(default)]
    pub(crate) flags: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) msg: Cow<'a, str>,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
}

/// How the platform is.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Platform {
    /// 1 in operation, 0 in maintenance.
    pub(crate) status: i64,
}

/// Of the flags: books are followed by checksums.
pub(crate) const CHECKSUMS: u64 = 131_072;

/// The server restarts.
pub(crate) const RESTARTS: i64 = 20_051;
/// Maintenance begins.
pub(crate) const MAINTENANCE: i64 = 20_060;
/// Maintenance is over.
pub(crate) const RESUMES: i64 = 20_061;

/// The first `N` elements of an array, as many of them as there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a, const N: usize> {
    parts: [Option<&'a RawValue>; N],
}

impl<'a, const N: usize> Head<'a, N> {
    /// The text of an element.
    pub(crate) fn text(&self, at: usize) -> Option<&'a str> {
        self.parts.get(at).copied().flatten().map(RawValue::get)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Head<'de, N> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Elements<const N: usize>;

        impl<'de, const N: usize> Visitor<'de> for Elements<N> {
            type Value = Head<'de, N>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut parts = [None; N];
                for part in &mut parts {
                    *part = list.next_element::<&RawValue>()?;
                    if part.is_none() {
                        return Ok(Head { parts });
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Head { parts })
            }
        }

        input.deserialize_seq(Elements::<N>)
    }
}

/// What the venue calls otherwise than everybody does, by its own map of currencies.
const NAMES: [(&str, &str); 26] = [
    ("ALG", "ALGO"),
    ("AMP", "AMPL"),
    ("ATO", "ATOM"),
    ("BCHABC", "XEC"),
    ("BCHN", "BCH"),
    ("DAT", "DATA"),
    ("DOG", "MDOGE"),
    ("DSH", "DASH"),
    ("EDO", "PNT"),
    ("EUS", "EURS"),
    ("EUT", "EURT"),
    ("GNT", "GLM"),
    ("IDX", "ID"),
    ("IOT", "IOTA"),
    ("LBT", "LBTC"),
    ("MNA", "MANA"),
    ("OMN", "OMNI"),
    ("QSH", "QASH"),
    ("QTM", "QTUM"),
    ("RBT", "RBTC"),
    ("SNG", "SNGLS"),
    ("STJ", "STORJ"),
    ("TSD", "TUSD"),
    ("UDC", "USDC"),
    ("UST", "USDT"),
    ("VSY", "VSYS"),
];

/// How a contract's assets end.
const CONTRACT: &str = "F0";

fn named(asset: &str) -> &str {
    NAMES.iter().find(|(own, _)| *own == asset).map_or(asset, |(_, known)| known)
}

/// The assets of `tBASEQUOTE` with three letters each, or of `tBASE:QUOTE`. `tBTCF0:USTF0` is a contract settled in UST.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    let pair = symbol.strip_prefix('t')?;
    let (base, quote) = match pair.split_once(':') {
        Some(parts) => parts,
        None if pair.len() == 6 => pair.split_at_checked(3)?,
        None => return None,
    };
    if base.ends_with(CONTRACT) {
        let quote = quote.strip_suffix(CONTRACT).filter(|quote| !quote.is_empty())?;
        return Some((symbol.into(), named(quote).into()));
    }
    (!base.is_empty() && !quote.is_empty()).then(|| (named(base).into(), named(quote).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_split_and_are_named_as_everybody_does() {
        for (symbol, right) in [
            ("tBTCUSD", Some(("BTC", "USD"))),
            ("tBTCUST", Some(("BTC", "USDT"))),
            ("tUSTUSD", Some(("USDT", "USD"))),
            ("tUDCUSD", Some(("USDC", "USD"))),
            ("tDSHBTC", Some(("DASH", "BTC"))),
            ("tIOTETH", Some(("IOTA", "ETH"))),
            ("tDUSK:USD", Some(("DUSK", "USD"))),
            ("tTESTBTC:TESTUSD", Some(("TESTBTC", "TESTUSD"))),
            ("tBTCF0:USTF0", Some(("tBTCF0:USTF0", "USDT"))),
            ("tBTCF0:F0", None),
            ("tDUSKUSD", None),
            ("tä€", None),
            ("t:USD", None),
            ("fUSD", None),
            ("", None),
        ] {
            assert_eq!(assets(symbol), right.map(|(base, quote)| (base.into(), quote.into())), "{symbol}");
        }
    }

    #[test]
    fn an_array_may_be_shorter_or_longer() {
        let head = |text| serde_json::from_str::<Head<'_, 2>>(text).ok().map(|head| (head.text(0), head.text(1)));
        assert_eq!(head("[1.70e-7,[2,3],4,{}]"), Some((Some("1.70e-7"), Some("[2,3]"))));
        assert_eq!(head("[1]"), Some((Some("1"), None)));
        assert_eq!(head("[]"), Some((None, None)));
        assert!(head("[1,2").is_none() && head("{}").is_none());
    }
}
