//! The shapes of Binance's messages, spot and futures, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A message of a combined stream.
#[derive(Debug, Deserialize)]
pub(crate) struct Combined<'a> {
    #[serde(borrow)]
    pub(crate) stream: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) data: &'a RawValue,
}

/// What may come beside the streams: the answer to a request, or a word of the server about itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Aside<'a> {
    /// Which request is answered.
    #[serde(default)]
    pub(crate) id: Option<u64>,
    /// What went wrong with it.
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    /// The same where the answer is nothing but an error.
    #[serde(borrow, default)]
    pub(crate) code: Option<&'a RawValue>,
    /// The kind of event.
    #[serde(rename = "e", borrow, default)]
    pub(crate) event: Option<Cow<'a, str>>,
}

impl Aside<'_> {
    /// Whether it is anything at all.
    pub(crate) fn is_one(&self) -> bool {
        self.id.is_some() || self.error.is_some() || self.code.is_some() || self.event.is_some()
    }
}

/// `depthUpdate`.
#[derive(Debug, Deserialize)]
pub(crate) struct Depth<'a> {
    /// Event time, Unix milliseconds.
    #[serde(rename = "E")]
    pub(crate) event_ms: u64,
    #[serde(rename = "s", borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(rename = "U")]
    pub(crate) first: u64,
    #[serde(rename = "u")]
    pub(crate) last: u64,
    /// `u` of the event before, on futures.
    #[serde(rename = "pu", default)]
    pub(crate) previous: Option<u64>,
    #[serde(rename = "b", borrow)]
    pub(crate) bids: Vec<(&'a RawValue, &'a RawValue)>,
    #[serde(rename = "a", borrow)]
    pub(crate) asks: Vec<(&'a RawValue, &'a RawValue)>,
}

/// The REST snapshot.
#[derive(Debug, Deserialize)]
pub(crate) struct DepthSnapshot<'a> {
    #[serde(rename = "lastUpdateId")]
    pub(crate) last: u64,
    /// Time of the reply, Unix milliseconds, on futures.
    #[serde(rename = "E", default)]
    pub(crate) event_ms: Option<u64>,
    #[serde(borrow)]
    pub(crate) bids: Vec<(&'a RawValue, &'a RawValue)>,
    #[serde(borrow)]
    pub(crate) asks: Vec<(&'a RawValue, &'a RawValue)>,
}

/// `trade` and `aggTrade`, which differ in the name of their id.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(rename = "s", borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(rename = "t", borrow, default)]
    pub(crate) trade_id: Option<&'a RawValue>,
    #[serde(rename = "a", borrow, default)]
    pub(crate) aggregate_id: Option<&'a RawValue>,
    #[serde(rename = "p", borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(rename = "q", borrow)]
    pub(crate) quantity: &'a RawValue,
    /// Trade time, Unix milliseconds.
    #[serde(rename = "T")]
    pub(crate) trade_ms: u64,
    /// The buyer was the maker.
    #[serde(rename = "m")]
    pub(crate) buyer_made: bool,
}
