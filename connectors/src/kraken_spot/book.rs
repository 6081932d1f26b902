//! A book message's levels, and the venue's checksum over the book that they lead to.
//!
//! Never: a checksum over anything but the venue's own spelling.

use super::message::Level;
use crate::venue_feed::{
    number::{LevelText, token},
    text_book::TextBook,
};
use market::Side;

/// Levels a side that the checksum covers, whatever the depth.
const CHECKSUM_LEVELS: usize = 10;

/// The levels of a message in the venue's order.
pub(super) fn rows<'m>(bids: &'m [Level<'_>], asks: &'m [Level<'_>]) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side, rows: &'m [Level<'_>]| {
        rows.iter().map(move |level| LevelText { side, price: token(level.price), quantity: token(level.qty) })
    };
    side(Side::Bid, bids).chain(side(Side::Ask, asks))
}

/// Rule 3.
pub(super) fn checksum(book: &TextBook) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for side in [Side::Ask, Side::Bid] {
        for level in book.best_first(side).take(CHECKSUM_LEVELS) {
            digits(&mut crc, level.price);
            digits(&mut crc, level.quantity);
        }
    }
    crc.finalize()
}

/// The text without its point and leading zeros.
fn digits(crc: &mut crc32fast::Hasher, text: &str) {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    crc.update(whole.as_bytes());
    crc.update(if whole.is_empty() { fraction.trim_start_matches('0') } else { fraction }.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_over_the_venues_spelling() {
        // The worked example of the venue's documentation for this checksum.
        let asks = [
            "0.05005", "0.05010", "0.05015", "0.05020", "0.05025", "0.05030", "0.05035", "0.05040", "0.05045",
            "0.05050",
        ];
        let bids = [
            "0.05000", "0.04995", "0.04990", "0.04980", "0.04975", "0.04970", "0.04965", "0.04960", "0.04955",
            "0.04950",
        ];
        let mut book = TextBook::default();
        let mut put = |side, price: &str, quantity: &str| {
            book.apply(LevelText { side, price, quantity }).unwrap();
            checksum(&book)
        };
        for price in asks {
            put(Side::Ask, price, "0.00000500");
        }
        let last = bids.iter().map(|price| put(Side::Bid, price, "0.00000500")).last();
        assert_eq!(last, Some(974_947_235));
        let other = put(Side::Ask, "0.05005", "0.000005");
        assert_ne!(other, 974_947_235, "the same value in another spelling is another checksum");
    }
}
