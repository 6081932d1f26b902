//! The levels of diffs and snapshots, and their time, which is their place.
//!
//! Never: a price that was parsed.

use super::message::Book;
use crate::venue_feed::{
    Undecodable, excerpt,
    number::{LevelText, token},
    time,
};
use market::{Side, Venue};
use serde_json::value::RawValue;

/// A time in Unix microseconds, and the same in nanoseconds.
///
/// # Errors
/// [`Undecodable::Time`] if it is no number, or implausible.
pub(crate) fn time_us(text: &RawValue) -> Result<(u64, u64), Undecodable> {
    let text = token(text);
    let implausible = |_| Undecodable::Time { venue: Venue::Bitstamp, text: excerpt(text) };
    let us = text.parse().map_err(implausible)?;
    Ok((us, time::from_us(Venue::Bitstamp, us)?))
}

/// All levels, bids first.
pub(crate) fn levels<'m>(book: &'m Book<'_>) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side| {
        move |(price, quantity): &(&'m _, &'m _)| LevelText { side, price: token(price), quantity: token(quantity) }
    };
    book.bids.iter().map(side(Side::Bid)).chain(book.asks.iter().map(side(Side::Ask)))
}
