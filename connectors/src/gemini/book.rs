//! The levels of a message.
//!
//! Never: a side guessed.

use super::message::Change;
use crate::venue_feed::{Undecodable, excerpt, number::LevelText, row::Row};
use market::{Side, Venue};

/// The venue's word for a side.
///
/// # Errors
/// [`Undecodable::Field`]: another word.
pub(super) fn side(text: &str) -> Result<Side, Undecodable> {
    match text {
        "buy" => Ok(Side::Bid),
        "sell" => Ok(Side::Ask),
        _ => Err(Undecodable::Field { venue: Venue::Gemini, field: "side", text: excerpt(text) }),
    }
}

/// The levels in the venue's order.
///
/// # Errors
/// [`Undecodable::Field`]: one of them has no side.
pub(super) fn levels<'a>(changes: &[Change<'a>]) -> Result<Vec<LevelText<'a>>, Undecodable> {
    let level = |Row([word, price, quantity]): &Change<'a>| Ok(LevelText { side: side(word)?, price, quantity });
    changes.iter().map(level).collect()
}
