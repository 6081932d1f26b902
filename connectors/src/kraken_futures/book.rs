//! The levels of book messages.
//!
//! Never: a number that was parsed.

use super::message::{BookSnapshot, Row};
use crate::venue_feed::{
    Undecodable, excerpt,
    number::{LevelText, token},
};
use market::{Side, Venue};

/// A side as the venue spells it: that of an order, or of a trade's taker.
///
/// # Errors
/// [`Undecodable::Field`] for another spelling.
pub(crate) fn side(text: &str) -> Result<Side, Undecodable> {
    match text {
        "buy" => Ok(Side::Bid),
        "sell" => Ok(Side::Ask),
        _ => Err(Undecodable::Field { venue: Venue::KrakenFutures, field: "side", text: excerpt(text) }),
    }
}

/// All levels of a snapshot, bids first.
pub(crate) fn levels<'m>(snapshot: &'m BookSnapshot<'_>) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let of = |side| move |row: &'m Row<'_>| LevelText { side, price: token(row.price), quantity: token(row.qty) };
    snapshot.bids.iter().map(of(Side::Bid)).chain(snapshot.asks.iter().map(of(Side::Ask)))
}
