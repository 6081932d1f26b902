//! A book notification's levels.
//!
//! Never: the amount of a deleted level.

use super::message::Row;
use crate::venue_feed::number::{LevelText, token};
use market::Side;

/// The end of a level.
const DELETE: &str = "delete";

/// The first verb that is none, if any.
pub(super) fn unknown_verb<'m>(rows: &'m [Row<'_>]) -> Option<&'m str> {
    let mut verbs = rows.iter().map(|(verb, ..)| token(verb));
    verbs.find(|verb| !matches!(*verb, "new" | "change" | DELETE))
}

/// The levels of a notification in the venue's order; rule 1.
pub(super) fn rows<'m>(bids: &'m [Row<'_>], asks: &'m [Row<'_>]) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side, rows: &'m [Row<'_>]| {
        rows.iter().map(move |(verb, price, amount)| {
            let quantity = if token(verb) == DELETE { "0" } else { token(amount) };
            LevelText { side, price: token(price), quantity }
        })
    };
    side(Side::Bid, bids).chain(side(Side::Ask, asks))
}
