//! A book message's rows, and the venue's checksum over the book that they lead to.
//!
//! Never: a checksum over anything but the venue's own spelling.

use super::message::Head;
use crate::venue_feed::{self, Undecodable, excerpt, number::LevelText, text_book::TextBook};
use market::{Decimal, Side, Venue};

const VENUE: Venue = Venue::Bitfinex;

/// Levels a side that the checksum covers, whatever the length.
const CHECKSUM_LEVELS: usize = 25;

/// `[price, count, amount]`.
type Row<'a> = Head<'a, 3>;

/// Whether an array is one of arrays, or empty.
pub(super) fn is_list(payload: &str) -> bool {
    let inside = payload.trim_start().strip_prefix('[').map(str::trim_start);
    inside.is_some_and(|inside| inside.starts_with(['[', ']']))
}

/// The levels of a whole book or of one row, in the venue's order.
pub(super) fn levels(payload: &str) -> Result<Vec<LevelText<'_>>, Undecodable> {
    let rows: Vec<Row<'_>> =
        if is_list(payload) { venue_feed::json(VENUE, payload)? } else { vec![venue_feed::json(VENUE, payload)?] };
    rows.iter().map(level).collect()
}

/// Rule 3. A count of 0 is a deletion; an amount of 0 is none, so there it is nothing that can be meant.
fn level<'a>(row: &Row<'a>) -> Result<LevelText<'a>, Undecodable> {
    let part = |at, field| row.text(at).ok_or_else(|| wrong(field, ""));
    let (price, count, amount) = (part(0, "price")?, part(1, "count")?, part(2, "amount")?);
    let count: u64 = count.parse().map_err(|_| wrong("count", count))?;
    let (side, quantity) = match amount.strip_prefix('-') {
        Some(quantity) => (Side::Ask, quantity),
        None => (Side::Bid, amount),
    };
    if Decimal::parse(quantity).map_or(true, |quantity| quantity.is_zero()) {
        return Err(wrong("amount", amount));
    }
    Ok(LevelText { side, price, quantity: if count == 0 { "0" } else { quantity } })
}

pub(super) fn wrong(field: &'static str, text: &str) -> Undecodable {
    Undecodable::Field { venue: VENUE, field, text: excerpt(text) }
}

/// Rule 4.
pub(super) fn checksum(book: &TextBook) -> i32 {
    book.interleaved_crc(CHECKSUM_LEVELS, ["", "-"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(rows: &str) -> TextBook {
        let mut book = TextBook::default();
        levels(rows).unwrap().into_iter().for_each(|level| book.apply(level).unwrap());
        book
    }

    fn crc(text: &str) -> i32 {
        crc32fast::hash(text.as_bytes()).cast_signed()
    }

    #[test]
    fn the_checksum_is_over_the_venues_spelling_and_amounts_keep_their_sign() {
        let rows = "[[0.0000082,1,5.5],[1.7e-7,3,100],[0.0000083,1,-2],[0.0000091,2,-0.10]]";
        let right = crc("0.0000082:5.5:0.0000083:-2:1.7e-7:100:0.0000091:-0.10");
        assert_eq!(checksum(&book(rows)), right);
        assert_ne!(checksum(&book(&rows.replace("1.7e-7", "0.00000017"))), right, "the same value, another spelling");
        assert_eq!(checksum(&book("[[2,1,1],[1,1,1],[3,1,-1]]")), crc("2:1:3:-1:1:1"), "sides of other lengths");
        assert_eq!(checksum(&book("[]")), 0);
    }

    #[test]
    fn it_covers_twenty_five_levels_a_side() {
        let rows: Vec<_> = (1..=30).map(|price| format!("[{price},1,1]")).collect();
        let covered: Vec<_> = (6..=30).rev().map(|price| format!("{price}:1")).collect();
        assert_eq!(checksum(&book(&format!("[{}]", rows.join(",")))), crc(&covered.join(":")));
    }

    #[test]
    fn a_row_says_its_side_by_its_sign_and_a_deletion_by_its_count() {
        let read = |payload| {
            levels(payload).map(|levels| {
                let text = |level: &LevelText<'_>| (level.side, level.price.to_owned(), level.quantity.to_owned());
                levels.iter().map(text).collect::<Vec<_>>()
            })
        };
        assert_eq!(read("[2e-8,0,1]").unwrap(), [(Side::Bid, "2e-8".to_owned(), "0".to_owned())]);
        assert_eq!(read(" [ 5 , 0 , -1 , 9 ]").unwrap(), [(Side::Ask, "5".to_owned(), "0".to_owned())]);
        assert_eq!(read("[5,2,-0.1]").unwrap(), [(Side::Ask, "5".to_owned(), "0.1".to_owned())]);
        assert_eq!(read("[[1,1,1]]").unwrap().len(), 1);
        for bad in
            ["[1,1]", "[1,-1,1]", "[1,1.5,1]", "[1,1,0]", "[1,1,-0.0]", "[1,0,0]", "[[1,1,1],2]", "[1,null,1]", "5"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
