//! Bitfinex's rows: how levels and trades are read and told, the window of a book, and its checksum.
//!
//! Never: a number re-spelled; a connection's channel or number.

use super::{
    dialect::{Levels, Said, Told, Trade},
    hall::Traded,
    reference::{Book, Change, Level, PriceKey, SIDES, Side},
};
use serde_json::value::RawValue;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

const NS_PER_MS: u64 = 1_000_000;

/// What is between a frame's channel and its number, if it has one.
pub(super) fn payload(text: &str, numbered: bool) -> Option<&str> {
    let (_, rest) = text.trim().strip_suffix(']')?.split_once(',')?;
    if numbered { rest.rsplit_once(',').map(|(payload, _)| payload) } else { Some(rest) }
}

/// A price, a count and an amount, whose sign tells the side.
fn change<'a>([price, count, amount]: &[&'a RawValue; 3]) -> Option<Change<'a>> {
    let (price, amount) = (price.get(), amount.get());
    let (side, quantity) = match amount.strip_prefix('-') {
        Some(quantity) => (Side::Ask, quantity),
        None => (Side::Bid, amount),
    };
    let quantity = if count.get() == "0" { "0" } else { quantity };
    Some(Change { side, key: PriceKey::read(price)?, price, quantity })
}

/// A whole book, or one row of it.
pub(super) fn said(rows: &str) -> Option<Said<'_>> {
    let levels = |changes| Levels { changes, ..Levels::default() };
    if rows.starts_with("[[") || rows == "[]" {
        let rows: Vec<[&RawValue; 3]> = serde_json::from_str(rows).ok()?;
        return Some(Said::Snapshot(levels(rows.iter().map(change).collect::<Option<Vec<_>>>()?)));
    }
    let row: [&RawValue; 3] = serde_json::from_str(rows).ok()?;
    Some(Said::Update(levels(vec![change(&row)?])))
}

/// An id, a time, an amount whose sign is the taker's side, and a price.
pub(super) fn traded(row: &str) -> Option<Trade<'_>> {
    let [id, _, amount, price]: [&RawValue; 4] = serde_json::from_str(row).ok()?;
    let amount = amount.get();
    let quantity = amount.strip_prefix('-');
    Some(Trade {
        id: id.get().parse().ok()?,
        sold: quantity.is_some(),
        price: price.get(),
        quantity: quantity.unwrap_or(amount),
    })
}

pub(super) fn row(trade: &Traded) -> String {
    let sign = if trade.sold { "-" } else { "" };
    format!("[{},{},{sign}{},{}]", trade.id, trade.at_ns / NS_PER_MS, trade.quantity, trade.price)
}

const fn sign(side: Side) -> &'static str {
    match side {
        Side::Bid => "",
        Side::Ask => "-",
    }
}

pub(super) fn level(side: Side, level: &Level) -> String {
    format!("[{},1,{}{}]", level.price, sign(side), level.quantity)
}

/// The rows that bring a window of the book before an update to the one after it.
pub(super) fn window(book: &Book, side: Side, told: &[Told<'_>], length: usize) -> Vec<String> {
    // Each price once: whether it was there before the update.
    let mut touched: BTreeMap<PriceKey, (&str, bool)> = BTreeMap::new();
    for told in told.iter().filter(|told| told.side == side) {
        if let Some(key) = PriceKey::read(told.price) {
            touched.entry(key).or_insert((told.price, told.existed));
        }
    }
    if touched.is_empty() {
        return Vec::new();
    }
    let ladder = book.ladder(side);
    let kept = ladder.best_first().filter(|level| !touched.contains_key(&level.key)).take(length);
    let mut before: Vec<(PriceKey, &str)> = kept.map(|level| (level.key, &*level.price)).collect();
    before.extend(touched.iter().filter(|(_, (_, existed))| *existed).map(|(key, (price, _))| (*key, *price)));
    match side {
        Side::Bid => before.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key)),
        Side::Ask => before.sort_unstable_by_key(|(key, _)| *key),
    }
    before.truncate(length);
    let seen: BTreeSet<PriceKey> = before.iter().map(|(key, _)| *key).collect();
    let after: BTreeSet<PriceKey> = ladder.best_first().take(length).map(|level| level.key).collect();
    let gone = before.iter().filter(|(key, _)| !after.contains(key));
    let mut rows: Vec<String> = gone.map(|(_, price)| format!("[{price},0,{}1]", sign(side))).collect();
    let shown = ladder.best_first().take(length);
    let news = shown.filter(|level| touched.contains_key(&level.key) || !seen.contains(&level.key));
    rows.extend(news.map(|known| level(side, known)));
    rows
}

/// The best bids and asks in turn, as texts joined by colons, amounts with their sign: CRC-32, read as a signed number.
pub(super) fn checksum(book: &Book, levels: usize) -> i32 {
    let mut text = String::new();
    for rank in 0..levels {
        for side in SIDES {
            if let Some(level) = book.ladder(side).ranked(rank) {
                let colon = if text.is_empty() { "" } else { ":" };
                // Writing to a string cannot fail.
                let _written = write!(text, "{colon}{}:{}{}", level.price, sign(side), level.quantity);
            }
        }
    }
    i32::from_ne_bytes(crc32fast::hash(text.as_bytes()).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<'a>(side: Side, price: &'a str, quantity: &'a str) -> Change<'a> {
        Change { side, key: PriceKey::read(price).unwrap(), price, quantity }
    }

    fn book(bids: &[&'static str]) -> Book {
        let mut book = Book::new();
        for price in bids {
            book.apply(&put(Side::Bid, price, "1.5"));
        }
        book
    }

    fn rows(book: &mut Book, changes: &[(&'static str, &'static str)], length: usize) -> Vec<String> {
        let mut told = Vec::new();
        for (price, quantity) in changes {
            let change = put(Side::Bid, price, quantity);
            let existed = book.apply(&change).level.is_some();
            told.push(Told::of(&change, existed));
        }
        window(book, Side::Bid, &told, length)
    }

    #[test]
    fn a_window_tells_what_enters_and_what_leaves() {
        let mut all = book(&["10", "9", "8", "7"]);
        assert_eq!(rows(&mut all, &[("9", "2")], 2), ["[9,1,2]"]);
        assert!(rows(&mut all, &[("7", "2")], 2).is_empty(), "beyond the window");
        assert_eq!(rows(&mut all, &[("9.5", "3")], 2), ["[9,0,1]", "[9.5,1,3]"]);
        assert_eq!(rows(&mut all, &[("10", "0")], 2), ["[10,0,1]", "[9,1,2]"]);
        assert_eq!(rows(&mut all, &[("9.5", "0"), ("9.5", "4"), ("9", "0")], 2), ["[9,0,1]", "[9.5,1,4]", "[8,1,1.5]"]);
        assert!(rows(&mut all, &[("11", "1"), ("11", "0")], 2).is_empty(), "born and dead at once");
    }

    #[test]
    fn checksums_are_of_interleaved_levels_with_signs() {
        let mut all = book(&["10", "9"]);
        all.apply(&put(Side::Ask, "11", "2"));
        assert_eq!(checksum(&all, 25).to_ne_bytes(), crc32fast::hash(b"10:1.5:11:-2:9:1.5").to_ne_bytes());
        assert_eq!(checksum(&all, 1).to_ne_bytes(), crc32fast::hash(b"10:1.5:11:-2").to_ne_bytes());
    }
}
