//! A book message's levels, and the venue's checksum over the book that they lead to.
//!
//! Never: a checksum over anything but the venue's own spelling.

use super::message::Row;
use crate::venue_feed::{
    number::{LevelText, token},
    text_book::TextBook,
};
use market::Side;

/// Levels a side that the checksum covers.
const CHECKSUM_LEVELS: usize = 25;

/// A channel that carries books by changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Books,
    TickByTick,
    TickByTick50,
}

impl Channel {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "books" => Some(Self::Books),
            "books-l2-tbt" => Some(Self::TickByTick),
            "books50-l2-tbt" => Some(Self::TickByTick50),
            _ => None,
        }
    }

    /// Levels a side; rule 1.
    pub(super) fn depth(self) -> u32 {
        match self {
            Self::Books | Self::TickByTick => 400,
            Self::TickByTick50 => 50,
        }
    }
}

/// The levels of a message in the venue's order.
pub(super) fn rows<'m>(bids: &'m [Row<'_>], asks: &'m [Row<'_>]) -> impl Iterator<Item = LevelText<'m>> + Clone {
    let side = |side, rows: &'m [Row<'_>]| {
        rows.iter().map(move |row| LevelText { side, price: token(row.price), quantity: token(row.size) })
    };
    side(Side::Bid, bids).chain(side(Side::Ask, asks))
}

/// Rule 5.
fn checksum(book: &TextBook) -> i64 {
    i64::from(book.interleaved_crc(CHECKSUM_LEVELS, ["", ""]))
}

/// Whether a book is what the venue says of it; none where it says nothing.
pub(super) fn matches(book: &TextBook, stated: i64) -> Option<bool> {
    (stated != 0).then(|| checksum(book) == stated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(bids: &[(&str, &str)], asks: &[(&str, &str)]) -> TextBook {
        let mut book = TextBook::default();
        for (side, levels) in [(Side::Bid, bids), (Side::Ask, asks)] {
            levels.iter().for_each(|(price, quantity)| book.apply(LevelText { side, price, quantity }).unwrap());
        }
        book
    }

    #[test]
    fn the_checksum_is_over_ranks_by_turns_in_the_venues_spelling() {
        // A recorded snapshot with its checksum: five bids, four asks, so the last rank has a bid only.
        let bids = [("0.335", "5"), ("0.3345", "300"), ("0.334", "301"), ("0.3295", "305"), ("0.0005", "10")];
        let asks = [("0.3415", "5"), ("0.342", "300"), ("0.3425", "301"), ("0.3445", "305")];
        assert_eq!(matches(&book(&bids, &asks), -1_431_042_442), Some(true));
        let mut other = bids;
        other[0].1 = "5.0";
        assert_eq!(matches(&book(&other, &asks), -1_431_042_442), Some(false), "the same value in another spelling");
        assert_eq!(matches(&book(&[], &[("0.0025", "20"), ("0.003", "1506")]), 1_483_419_732), Some(true), "one side");
        assert_eq!(matches(&book(&bids, &[]), 0), None, "0 is none");
    }

    #[test]
    fn what_is_beyond_the_best_25_changes_nothing() {
        let price = |at: i32| format!("{at}");
        let prices: Vec<String> = (1..=30).map(price).collect();
        let mut book = book(&[], &[]);
        for price in &prices {
            book.apply(LevelText { side: Side::Ask, price, quantity: "1" }).unwrap();
        }
        let before = checksum(&book);
        book.apply(LevelText { side: Side::Ask, price: "26", quantity: "2" }).unwrap();
        assert_eq!(checksum(&book), before);
        book.apply(LevelText { side: Side::Ask, price: "25", quantity: "2" }).unwrap();
        assert_ne!(checksum(&book), before);
    }
}
