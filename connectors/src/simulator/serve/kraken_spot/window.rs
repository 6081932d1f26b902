//! What a subscriber of some depth must be told about a change of the whole book, so that its book, truncated to that
//! depth, is the best part of the whole one.
//!
//! Never: a line for a level that only left the window.

use crate::simulator::serve::reference::{Book, Level, PriceKey, Prior, SIDES, Side};
use std::{borrow::Cow, fmt::Write};

/// The checksum covers this many best levels of each side, whatever the depth.
const CHECKSUM_LEVELS: usize = 10;

/// The worst price of each side that a window shows; none where it shows the whole side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    bid: Option<PriceKey>,
    ask: Option<PriceKey>,
}

impl Edges {
    pub(super) fn of(book: &Book, depth: usize) -> Self {
        Self { bid: book.bids.edge(depth), ask: book.asks.edge(depth) }
    }

    fn show(self, book: &Book, side: Side, key: PriceKey) -> bool {
        let edge = match side {
            Side::Bid => self.bid,
            Side::Ask => self.ask,
        };
        book.ladder(side).within(key, edge)
    }
}

/// A level in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) side: Side,
    pub(super) price: &'a str,
    pub(super) quantity: Cow<'a, str>,
}

/// The lines for a window of `depth`. `book` is after the change, `before` are the window's edges before it; `touched`
/// are the prices that the change named, as they were before; `evicted` levels are known no more.
pub(super) fn seen<'a>(
    book: &'a Book,
    depth: usize,
    before: Edges,
    touched: &'a [Prior],
    evicted: &'a [(Side, Level)],
) -> Vec<Line<'a>> {
    let after = Edges::of(book, depth);
    let mut lines = Vec::with_capacity(touched.len());
    for Prior { side, key, level: prior } in touched {
        let was = prior.as_ref().filter(|_| before.show(book, *side, *key));
        let now = book.ladder(*side).get(*key);
        match (was, now) {
            (Some(was), None) if !left(book, depth, *side, *key, evicted) => lines.push(dead(*side, was)),
            (was, Some(now)) if was != Some(now) && after.show(book, *side, *key) => lines.push(live(*side, now)),
            _ => {}
        }
    }
    for side in SIDES {
        let ladder = book.ladder(side);
        for rank in (0..depth.min(ladder.len())).rev() {
            let Some(level) = ladder.ranked(rank).filter(|level| !before.show(book, side, level.key)) else { break };
            if !names(touched, side, level.key) {
                lines.push(live(side, level));
            }
        }
    }
    let unnamed = evicted.iter().filter(|(side, level)| {
        before.show(book, *side, level.key)
            && !names(touched, *side, level.key)
            && !left(book, depth, *side, level.key, evicted)
    });
    lines.extend(unnamed.map(|(side, level)| dead(*side, level)));
    lines
}

/// Whether a level was evicted from the book, and a window of `depth` drops it by itself. A window that is deeper than
/// the book would keep it.
fn left(book: &Book, depth: usize, side: Side, key: PriceKey, evicted: &[(Side, Level)]) -> bool {
    depth <= book.ladder(side).len() && evicted.iter().any(|(at, level)| *at == side && level.key == key)
}

fn names(touched: &[Prior], side: Side, key: PriceKey) -> bool {
    touched.iter().any(|prior| prior.side == side && prior.key == key)
}

fn live(side: Side, level: &Level) -> Line<'_> {
    Line { side, price: &level.price, quantity: Cow::Borrowed(&level.quantity) }
}

/// A death, the zero spelled with as many decimals as the quantity had.
fn dead(side: Side, level: &Level) -> Line<'_> {
    let zero = match level.quantity.split_once('.') {
        Some((_, part)) => format!("0.{}", "0".repeat(part.len())),
        None => "0".to_owned(),
    };
    Line { side, price: &level.price, quantity: Cow::Owned(zero) }
}

/// Writes the lines of one side.
pub(super) fn write(out: &mut String, lines: &[Line<'_>], side: Side) {
    for (index, line) in lines.iter().filter(|line| line.side == side).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _written = write!(out, "{comma}{{\"price\":{},\"qty\":{}}}", line.price, line.quantity);
    }
}

/// CRC-32 over price and quantity of the best asks, then bids, without points and leading zeros.
pub(super) fn checksum(book: &Book) -> u32 {
    let mut digits = Vec::new();
    for ladder in [&book.asks, &book.bids] {
        for level in ladder.best_first().take(CHECKSUM_LEVELS) {
            for number in [&level.price, &level.quantity] {
                digits.extend(number.bytes().filter(|byte| *byte != b'.').skip_while(|byte| *byte == b'0'));
            }
        }
    }
    crc32fast::hash(&digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::serve::reference::Change;
    use proptest::prelude::*;

    const DEPTH: usize = 3;

    fn apply(book: &mut Book, side: Side, price: &str, quantity: &str) -> Prior {
        book.apply(&Change { side, key: PriceKey::read(price).unwrap(), price, quantity })
    }

    fn spelled(book: &Book, depth: usize) -> Vec<String> {
        let of = |side| book.ladder(side).best_first().take(depth);
        of(Side::Bid).chain(of(Side::Ask)).map(|level| format!("{}x{}", level.price, level.quantity)).collect()
    }

    proptest! {
        /// Whatever changes, a subscriber that truncates holds the best levels of the whole book, and is told of no
        /// level twice.
        #[test]
        fn a_window_stays_the_best_part_of_the_book(
            known in prop::sample::select(vec![2_usize, 3, 5, 1_000]),
            messages in prop::collection::vec(prop::collection::vec((any::<bool>(), 1_u32..12, 0_u32..3), 1..6), 1..60),
        ) {
            let (mut book, mut held) = (Book::new(), Book::new());
            for message in messages {
                let before = Edges::of(&book, DEPTH);
                let mut touched: Vec<Prior> = Vec::new();
                for (bid, price, quantity) in message {
                    let side = if bid { Side::Bid } else { Side::Ask };
                    let prior = apply(&mut book, side, &format!("{price}.0"), &format!("{}.50", quantity * 7));
                    let prior = if quantity == 0 { book.undo(prior); apply(&mut book, side, &format!("{price}.0"), "0.00") } else { prior };
                    if !names(&touched, prior.side, prior.key) {
                        touched.push(prior);
                    }
                }
                let evicted = book.truncate(known);
                let lines = seen(&book, DEPTH, before, &touched, &evicted);
                for (index, line) in lines.iter().enumerate() {
                    prop_assert!(!lines[..index].iter().any(|other| (other.side, other.price) == (line.side, line.price)));
                    apply(&mut held, line.side, line.price, &line.quantity);
                }
                held.truncate(DEPTH);
                prop_assert_eq!(spelled(&held, DEPTH), spelled(&book, DEPTH));
            }
        }
    }

    #[test]
    fn the_checksum_is_over_digits_without_leading_zeros() {
        let mut book = Book::new();
        apply(&mut book, Side::Ask, "0.5100", "0.00005100");
        apply(&mut book, Side::Bid, "0.5093", "1.20000000");
        assert_eq!(checksum(&book), crc32fast::hash(b"510051005093120000000"));
    }
}
