//! The shapes of KuCoin's messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, listings};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// `BASE-QUOTE`.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    listings::separated(symbol, '-')
}

/// Any message.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    /// `message`, or `welcome`, `ack`, `pong`, `error`.
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) topic: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
}

/// Price, quantity, sequence.
pub(crate) type Row<'a> = (&'a RawValue, &'a RawValue, &'a RawValue);

/// `/market/level2`.
#[derive(Debug, Deserialize)]
pub(crate) struct Update<'a> {
    #[serde(rename = "sequenceStart")]
    pub(crate) first: u64,
    #[serde(rename = "sequenceEnd")]
    pub(crate) last: u64,
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) changes: Changes<'a>,
    /// Unix milliseconds; absent in older messages.
    #[serde(rename = "time", default)]
    pub(crate) time_ms: Option<u64>,
}

/// The rows of an update.
#[derive(Debug, Deserialize)]
pub(crate) struct Changes<'a> {
    #[serde(borrow)]
    pub(crate) asks: Vec<Row<'a>>,
    #[serde(borrow)]
    pub(crate) bids: Vec<Row<'a>>,
}

/// `/market/match`.
#[derive(Debug, Deserialize)]
pub(crate) struct Match<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) sequence: &'a RawValue,
    /// The taker's.
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) size: &'a RawValue,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    /// Unix nanoseconds.
    #[serde(rename = "time", borrow)]
    pub(crate) time_ns: &'a RawValue,
    #[serde(rename = "tradeId", borrow)]
    pub(crate) id: &'a RawValue,
}

/// The answer to a REST request.
#[derive(Debug, Deserialize)]
pub(crate) struct Reply<'a> {
    /// [`CODE_OK`], or an error's.
    #[serde(borrow)]
    pub(crate) code: &'a RawValue,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
}

/// The code of a reply that is none of an error.
pub(crate) const CODE_OK: &str = "200000";

/// The REST snapshot.
#[derive(Debug, Deserialize)]
pub(crate) struct Depth<'a> {
    /// Unix milliseconds.
    #[serde(rename = "time")]
    pub(crate) time_ms: u64,
    #[serde(borrow)]
    pub(crate) sequence: &'a RawValue,
    #[serde(borrow)]
    pub(crate) bids: Vec<(&'a RawValue, &'a RawValue)>,
    #[serde(borrow)]
    pub(crate) asks: Vec<(&'a RawValue, &'a RawValue)>,
}
