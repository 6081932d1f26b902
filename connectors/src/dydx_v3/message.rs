//! The shapes of messages, borrowed from the frame.
//!
//! Never: a number as anything but its token text.

use crate::venue_feed::{Assets, Undecodable, excerpt, listings, number::token, row::Row};
use market::Venue;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What every message may have.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(crate) kind: Option<Cow<'a, str>>,
    /// Another one is another connection.
    #[serde(borrow, default)]
    pub(crate) connection_id: Option<Cow<'a, str>>,
    /// Rule 4.
    #[serde(default)]
    pub(crate) message_id: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) channel: Option<Cow<'a, str>>,
    /// The market.
    #[serde(borrow, default)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) contents: Option<&'a RawValue>,
}

/// A level of a whole book.
#[derive(Debug, Deserialize)]
pub(crate) struct Level<'a> {
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) size: &'a RawValue,
    #[serde(borrow)]
    pub(crate) offset: &'a RawValue,
}

/// A whole book.
#[derive(Debug, Deserialize)]
pub(crate) struct Book<'a> {
    #[serde(borrow)]
    pub(crate) bids: Vec<Level<'a>>,
    #[serde(borrow)]
    pub(crate) asks: Vec<Level<'a>>,
}

/// Changes of a book: rule 2.
#[derive(Debug, Deserialize)]
pub(crate) struct Changes<'a> {
    #[serde(borrow)]
    pub(crate) offset: &'a RawValue,
    #[serde(borrow)]
    pub(crate) bids: Vec<Row<'a, 2>>,
    #[serde(borrow)]
    pub(crate) asks: Vec<Row<'a, 2>>,
}

/// Trades.
#[derive(Debug, Deserialize)]
pub(crate) struct Trades<'a> {
    #[serde(borrow)]
    pub(crate) trades: Vec<Trade<'a>>,
}

/// A trade.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    /// The taker's.
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) size: &'a RawValue,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    /// RFC 3339.
    #[serde(borrow, rename = "createdAt")]
    pub(crate) created_at: Cow<'a, str>,
}

/// An offset, as text or number.
///
/// # Errors
/// [`Undecodable::Field`]: it is none.
pub(super) fn offset(raw: &RawValue) -> Result<u64, Undecodable> {
    let text = token(raw);
    text.parse().map_err(|_| Undecodable::Field { venue: Venue::DydxV3, field: "offset", text: excerpt(text) })
}

/// `BTC-USD` is a perpetual, an asset of its own.
pub(crate) fn assets(symbol: &str) -> Option<Assets<'_>> {
    listings::separated(symbol, '-').map(|(_, quote)| (symbol.into(), quote))
}
