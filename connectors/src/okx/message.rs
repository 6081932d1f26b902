//! The shapes of OKX v5 messages, borrowed from the frame, and what its symbols mean.
//!
//! Never: a number as anything but its token text, save ids and checksums, which are integers.

use crate::venue_feed::{Assets, listings};
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, marker::PhantomData};

/// What every message may have.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) arg: Option<Arg<'a>>,
    #[serde(borrow, default)]
    pub(crate) action: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
    /// Instead of data: the answer to a request, or a word of the server about itself.
    #[serde(borrow, default)]
    pub(crate) event: Option<Cow<'a, str>>,
    /// Which request is answered.
    #[serde(borrow, default)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) msg: Option<Cow<'a, str>>,
}

/// A channel, and whose.
#[derive(Debug, Deserialize)]
pub(crate) struct Arg<'a> {
    #[serde(borrow)]
    pub(crate) channel: Cow<'a, str>,
    /// Absent in channels that are of no instrument.
    #[serde(borrow, rename = "instId", default)]
    pub(crate) instrument: Option<Cow<'a, str>>,
}

/// A level: price, size, and what nobody needs: a retired field and the number of orders.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) price: &'a RawValue,
    pub(crate) size: &'a RawValue,
}

struct RowVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for RowVisitor<'a> {
    type Value = Row<'a>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a level of price and size at least")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Row<'a>, A::Error> {
        let price = fields.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let size = fields.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
        while fields.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Row { price, size })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Row<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RowVisitor(PhantomData))
    }
}

/// A book, or changes of one.
#[derive(Debug, Deserialize)]
pub(crate) struct Book<'a> {
    #[serde(borrow)]
    pub(crate) bids: Vec<Row<'a>>,
    #[serde(borrow)]
    pub(crate) asks: Vec<Row<'a>>,
    /// Unix milliseconds.
    #[serde(borrow, rename = "ts")]
    pub(crate) ms: Cow<'a, str>,
    /// 0 where there is none, and absent where it is retired.
    #[serde(default)]
    pub(crate) checksum: i64,
    #[serde(rename = "seqId", default)]
    pub(crate) seq: Option<u64>,
    /// -1 in a snapshot.
    #[serde(rename = "prevSeqId", default)]
    pub(crate) prev: Option<i64>,
}

/// One trade of a `trades` message, or several of one taker at one price.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(borrow, rename = "tradeId")]
    pub(crate) id: &'a RawValue,
    #[serde(borrow, rename = "px")]
    pub(crate) price: &'a RawValue,
    #[serde(borrow, rename = "sz")]
    pub(crate) size: &'a RawValue,
    /// Of the taker.
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    /// Unix milliseconds.
    #[serde(borrow, rename = "ts")]
    pub(crate) ms: Cow<'a, str>,
}

/// One maintenance of a `status` message.
#[derive(Debug, Deserialize)]
pub(crate) struct Status<'a> {
    #[serde(borrow)]
    pub(crate) state: Cow<'a, str>,
    #[serde(borrow, rename = "serviceType", default)]
    pub(crate) service: Cow<'a, str>,
    /// "2" for the demonstration environment.
    #[serde(borrow, default)]
    pub(crate) env: Cow<'a, str>,
}

/// What is behind the underlying of a contract that is margined in dollars of whatever coin.
const DOLLAR_MARGINED: &str = "_UM";

/// The assets of a symbol: `BASE-QUOTE` is spot, and with more behind it a contract, which is an asset of its own. Its
/// quote is that of its price: for options on `X-USD` the coin X, else what the underlying is quoted in.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    let mut parts = symbol.split('-');
    let (base, quote) = (parts.next()?, parts.next()?);
    let Some(kind) = parts.next() else { return listings::separated(symbol, '-') };
    let rest: Vec<&str> = parts.collect();
    let quote = match (kind, &*rest) {
        (expiry, []) if expiry == "SWAP" || is_date(expiry) => quote.strip_suffix(DOLLAR_MARGINED).unwrap_or(quote),
        (expiry, [_, "C" | "P"]) if is_date(expiry) => match quote {
            "USD" => base,
            quote => quote.strip_suffix(DOLLAR_MARGINED).unwrap_or(quote),
        },
        _ => return None,
    };
    (!base.is_empty() && !quote.is_empty()).then_some((symbol.into(), quote.into()))
}

/// `YYMMDD`.
fn is_date(text: &str) -> bool {
    text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_an_asset_of_its_own_and_spot_is_split() {
        for (symbol, right) in [
            ("BTC-USDT", Some(("BTC", "USDT"))),
            ("kPEPE-USDT", Some(("kPEPE", "USDT"))),
            ("BTC-USDT-SWAP", Some(("BTC-USDT-SWAP", "USDT"))),
            ("BTC-USD-SWAP", Some(("BTC-USD-SWAP", "USD"))),
            ("BTC-USD_UM-SWAP", Some(("BTC-USD_UM-SWAP", "USD"))),
            ("TRX-USDT-210924", Some(("TRX-USDT-210924", "USDT"))),
            ("BTC-USD-210924-66000-C", Some(("BTC-USD-210924-66000-C", "BTC"))),
            ("BTC-USD_UM-260925-66000-P", Some(("BTC-USD_UM-260925-66000-P", "USD"))),
            ("BTC-USD-210924-66000", None),
            ("BTC-USD-SWAP-66000-C", None),
            ("BTC-USD-WHAT", None),
            ("BTC", None),
            ("-USDT", None),
            ("BTC-", None),
            ("--SWAP", None),
            ("", None),
        ] {
            let right = right.map(|(base, quote)| (base.into(), quote.into()));
            assert_eq!(assets(symbol), right, "{symbol}");
        }
    }

    #[test]
    fn a_level_may_have_more_fields_than_are_needed_but_not_fewer() {
        let row = |text| serde_json::from_str::<Row<'_>>(text).map(|row| (row.price.get(), row.size.get()));
        assert_eq!(row(r#"["0.3415","5","0","1"]"#).unwrap(), (r#""0.3415""#, r#""5""#));
        assert_eq!(row("[1,2]").unwrap(), ("1", "2"));
        for bad in ["[]", r#"["1"]"#, "{}", "1", "null"] {
            assert!(row(bad).is_err(), "{bad}");
        }
    }
}
