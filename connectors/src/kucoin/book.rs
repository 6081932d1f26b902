//! The rows of an update in the order of their own sequence.
//!
//! Never: a row that only advances the sequence taken for a level.

use super::message::{Changes, Depth, Row};
use crate::venue_feed::{
    Undecodable, excerpt,
    number::{LevelText, is_zero, token},
};
use market::{Side, Venue};

/// A sequence, which the venue writes as text here and as a number there.
///
/// # Errors
/// [`Undecodable::Field`] if it is neither.
pub(crate) fn sequence(field: &'static str, text: &str) -> Result<u64, Undecodable> {
    text.parse().map_err(|_| Undecodable::Field { venue: Venue::Kucoin, field, text: excerpt(text) })
}

/// Rule 3: all rows of an update that are levels, in the order of their sequence.
///
/// The message that bridges a snapshot S may have rows at or below S, and is applied whole. It tells every change from
/// `sequenceStart` to `sequenceEnd`, and quantities are absolute. So for each of its prices the last row counts: one
/// above S is newer than the snapshot; one at or below S says that nothing happened to the price since, so it says what
/// the snapshot does. A row that a later one of its price overtakes is never seen, since all are applied under one
/// version.
///
/// # Errors
/// [`Undecodable`] if a row has no sequence.
pub(crate) fn rows<'m>(changes: &Changes<'m>) -> Result<Vec<LevelText<'m>>, Undecodable> {
    let of = |side: Side| {
        move |(price, quantity, at): &Row<'m>| {
            let level = LevelText { side, price: token(price), quantity: token(quantity) };
            Ok((sequence("a row's sequence", token(at))?, level))
        }
    };
    let both = changes.bids.iter().map(of(Side::Bid)).chain(changes.asks.iter().map(of(Side::Ask)));
    let mut rows = both.collect::<Result<Vec<_>, Undecodable>>()?;
    rows.sort_by_key(|(at, _)| *at);
    Ok(rows.into_iter().map(|(_, level)| level).filter(|level| !is_zero(level.price)).collect())
}

/// The levels of a snapshot.
pub(crate) fn levels<'m>(depth: &'m Depth<'_>) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side| {
        move |(price, quantity): &(&'m _, &'m _)| LevelText { side, price: token(price), quantity: token(quantity) }
    };
    depth.bids.iter().map(side(Side::Bid)).chain(depth.asks.iter().map(side(Side::Ask)))
}
