//! WebSocket v1: arrays that carry data, objects that carry events.
//!
//! Never: state; that is the feed's, for both protocols.

use crate::venue_feed::{
    self, Undecodable, excerpt,
    number::{LevelText, token},
    row::Row,
    time,
    trades::UnnamedTrade,
};
use market::{Side, Venue};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

const VENUE: Venue = Venue::KrakenSpot;

/// An array: rule 5.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    payloads: Vec<&'a RawValue>,
    /// `book-1000`, `trade` and others.
    pub(super) channel: Cow<'a, str>,
    pub(super) pair: Cow<'a, str>,
}

/// What a `book` frame says of its instrument.
#[derive(Debug)]
pub(super) struct Book<'a> {
    pub(super) snapshot: bool,
    /// In the venue's order.
    pub(super) levels: Vec<LevelText<'a>>,
    /// Rule 6.
    pub(super) checksum: Option<u32>,
    /// The time of its latest level, Unix nanoseconds; 0 for an empty one.
    pub(super) venue_ns: u64,
}

/// An object.
#[derive(Debug, Deserialize)]
pub(super) struct EventMessage<'a> {
    #[serde(borrow)]
    pub(super) event: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) pair: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "channelName")]
    pub(super) channel: Option<Cow<'a, str>>,
}

/// Price, volume, and a time in seconds as text: rule 7.
type Level<'a> = Row<'a, 3>;

/// One map of a `book` frame.
#[derive(Debug, Deserialize)]
struct Sides<'a> {
    #[serde(borrow, default, rename = "as")]
    all_asks: Option<Vec<Level<'a>>>,
    #[serde(borrow, default, rename = "bs")]
    all_bids: Option<Vec<Level<'a>>>,
    #[serde(borrow, default)]
    a: Vec<Level<'a>>,
    #[serde(borrow, default)]
    b: Vec<Level<'a>>,
    #[serde(borrow, default)]
    c: Option<&'a RawValue>,
}

/// The depth that a channel's name says, if it is a book's.
///
/// # Errors
/// [`Undecodable::Field`]: it is no number.
pub(super) fn depth(channel: &str, default: u32) -> Result<Option<u32>, Undecodable> {
    let wrong = || Undecodable::Field { venue: VENUE, field: "channelName", text: excerpt(channel) };
    match channel.strip_prefix("book") {
        None => Ok(None),
        Some("") => Ok(Some(default)),
        Some(rest) => rest.strip_prefix('-').and_then(|depth| depth.parse().ok()).map(Some).ok_or_else(wrong),
    }
}

impl<'a> Frame<'a> {
    /// # Errors
    /// [`Undecodable`]: it is no such array.
    pub(super) fn read(text: &'a str) -> Result<Self, Undecodable> {
        let parts: Vec<&'a RawValue> = venue_feed::json(VENUE, text)?;
        let [_channel_id, payloads @ .., channel, pair] = parts.as_slice() else {
            return Err(Undecodable::Field { venue: VENUE, field: "array", text: excerpt(text) });
        };
        let (channel, pair) = (venue_feed::json(VENUE, channel.get())?, venue_feed::json(VENUE, pair.get())?);
        Ok(Self { payloads: payloads.to_vec(), channel, pair })
    }

    /// The frame as a book's: rules 6 and 7.
    ///
    /// # Errors
    /// [`Undecodable`]: it is none.
    pub(super) fn book(&self) -> Result<Book<'a>, Undecodable> {
        let mut book = Book { snapshot: false, levels: Vec::new(), checksum: None, venue_ns: 0 };
        for payload in &self.payloads {
            let sides: Sides<'a> = venue_feed::json(VENUE, payload.get())?;
            book.snapshot |= sides.all_asks.is_some() || sides.all_bids.is_some();
            let (all_asks, all_bids) = (sides.all_asks.unwrap_or_default(), sides.all_bids.unwrap_or_default());
            for (side, levels) in
                [(Side::Ask, all_asks), (Side::Bid, all_bids), (Side::Ask, sides.a), (Side::Bid, sides.b)]
            {
                for Row([price, quantity, at]) in levels {
                    book.venue_ns = book.venue_ns.max(time::from_seconds(VENUE, at)?);
                    book.levels.push(LevelText { side, price, quantity });
                }
            }
            if let Some(text) = sides.c.map(token) {
                let wrong = |_| Undecodable::Field { venue: VENUE, field: "c", text: excerpt(text) };
                book.checksum = Some(text.parse().map_err(wrong)?);
            }
        }
        Ok(book)
    }

    /// The frame as trades, in the order of their happening.
    ///
    /// # Errors
    /// [`Undecodable`]: they are none.
    pub(super) fn trades(&self) -> Result<Vec<UnnamedTrade<'a>>, Undecodable> {
        let mut trades = Vec::new();
        for payload in &self.payloads {
            let rows: Vec<Row<'a, 4>> = venue_feed::json(VENUE, payload.get())?;
            for Row([price, quantity, at, side]) in rows {
                let taker = match side {
                    "b" => Side::Bid,
                    "s" => Side::Ask,
                    _ => return Err(Undecodable::Field { venue: VENUE, field: "side", text: excerpt(side) }),
                };
                trades.push(UnnamedTrade { price, quantity, taker, venue_ns: time::from_seconds(VENUE, at)? });
            }
        }
        Ok(trades)
    }
}

#[cfg(test)]
mod tests;
