//! The shapes of WebSocket v2 messages, borrowed from the frame; those of v1 are in `v1.rs`.
//!
//! Never: a number as anything but its token text.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What every message may have.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) channel: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type", default)]
    pub(crate) kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) success: bool,
    /// Which request is answered.
    #[serde(default)]
    pub(crate) req_id: Option<u64>,
    /// What is wrong with it.
    #[serde(borrow, default)]
    pub(crate) error: Option<Cow<'a, str>>,
    /// For which instrument it was refused.
    #[serde(borrow, default)]
    pub(crate) symbol: Option<Cow<'a, str>>,
    /// Of v1 alone.
    #[serde(borrow, default)]
    pub(crate) event: Option<Cow<'a, str>>,
}

/// What a subscription was acknowledged for.
#[derive(Debug, Deserialize)]
pub(crate) struct Subscription<'a> {
    #[serde(borrow, default)]
    pub(crate) channel: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) symbol: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) depth: Option<u32>,
}

/// The name alone of an instrument's part of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct Named<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
}

/// One part of a `status` message.
#[derive(Debug, Deserialize)]
pub(crate) struct Status<'a> {
    /// `online`, `maintenance`, `cancel_only` or `post_only`.
    #[serde(borrow)]
    pub(crate) system: Cow<'a, str>,
}

/// A level.
#[derive(Debug, Deserialize)]
pub(crate) struct Level<'a> {
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) qty: &'a RawValue,
}

/// One instrument's part of a `book` message.
#[derive(Debug, Deserialize)]
pub(crate) struct Book<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) bids: Vec<Level<'a>>,
    #[serde(borrow)]
    pub(crate) asks: Vec<Level<'a>>,
    pub(crate) checksum: u32,
    /// RFC 3339; absent in snapshots of older captures.
    #[serde(borrow, default)]
    pub(crate) timestamp: Option<Cow<'a, str>>,
}

/// One trade of a `trade` message.
#[derive(Debug, Deserialize)]
pub(crate) struct Trade<'a> {
    #[serde(borrow)]
    pub(crate) symbol: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) side: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) price: &'a RawValue,
    #[serde(borrow)]
    pub(crate) qty: &'a RawValue,
    #[serde(borrow)]
    pub(crate) trade_id: &'a RawValue,
    /// RFC 3339.
    #[serde(borrow)]
    pub(crate) timestamp: Cow<'a, str>,
}
