//! A message's levels, and the venue's checksum over the book that they lead to.
//!
//! Never: a checksum over anything but the venue's own spelling.

use super::message::Book;
use crate::venue_feed::{number::LevelText, row::Row, text_book::TextBook};
use market::Side;

/// Levels a side that the checksum covers.
const CHECKSUM_LEVELS: usize = 25;

/// The levels of a message in the venue's order.
pub(super) fn rows<'m>(book: &'m Book<'_>) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side, rows: &'m [Row<'_, 2>]| {
        rows.iter().map(move |Row([price, quantity])| LevelText { side, price, quantity })
    };
    side(Side::Bid, &book.bids).chain(side(Side::Ask, &book.asks))
}

/// Rule 2.
pub(super) fn checksum(book: &TextBook) -> i32 {
    book.interleaved_crc(CHECKSUM_LEVELS, ["", ""])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_one_side_lacks_is_left_out_and_no_more_than_25_count() {
        let mut book = TextBook::default();
        let mut put = |side, price: &str, quantity: &str| {
            book.apply(LevelText { side, price, quantity }).unwrap();
            checksum(&book)
        };
        put(Side::Bid, "3366.1", "7");
        put(Side::Bid, "3366", "6.0");
        let right = crc32fast::hash(b"3366.1:7:3366.8:9:3366:6.0").cast_signed();
        assert_eq!(put(Side::Ask, "3366.8", "9"), right);
        for price in 0..CHECKSUM_LEVELS - 2 {
            put(Side::Bid, &price.to_string(), "1");
        }
        let full = put(Side::Ask, "3366.8", "9");
        assert_ne!(put(Side::Bid, "0.5", "1"), full, "within 25");
        let full = put(Side::Ask, "3366.8", "9");
        assert_eq!(put(Side::Bid, "0.25", "1"), full, "beyond");
    }
}
