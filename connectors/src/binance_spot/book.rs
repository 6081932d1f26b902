//! The levels of depth messages in the venue's order.
//!
//! Never: a number that was parsed.

use crate::venue_feed::number::{LevelText, token};
use market::Side;
use serde_json::value::RawValue;

type Rows<'m, 'a> = &'m [(&'a RawValue, &'a RawValue)];

/// All levels, bids first.
pub(crate) fn rows<'m>(bids: Rows<'m, '_>, asks: Rows<'m, '_>) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side, rows: Rows<'m, '_>| {
        rows.iter().map(move |(price, quantity)| LevelText { side, price: token(price), quantity: token(quantity) })
    };
    side(Side::Bid, bids).chain(side(Side::Ask, asks))
}
