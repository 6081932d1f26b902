//! The shapes of messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, listings, row::Row};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Side, price, quantity.
pub(crate) type Change<'a> = Row<'a, 3>;

/// What every message may have.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(crate) kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) symbol: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) changes: Option<&'a RawValue>,
    /// Rule 1.
    #[serde(borrow, default)]
    pub(crate) trades: Option<&'a RawValue>,
}

/// A trade, alone or of a whole book's `trades`.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(borrow)]
    pub(crate) event_id: &'a RawValue,
    /// Milliseconds.
    pub(crate) timestamp: u64,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) quantity: &'a RawValue,
    /// The taker's.
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
}

/// `BTCUSD`: by the quote assets that are known.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    listings::joined(symbol)
}
