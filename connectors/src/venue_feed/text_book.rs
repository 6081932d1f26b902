//! A book in the venue's own spelling: kept for checksums over text, and so that a leg that stands by can take over.
//!
//! Never: used to answer what a price is; that is the lane's book.

use super::number::LevelText;
use market::{Decimal, DecimalError, Side, quote::Exact};
use std::collections::BTreeMap;

/// Price and quantity as the venue wrote them.
#[derive(Clone, Debug)]
struct Spelling {
    price: Box<str>,
    quantity: Box<str>,
}

impl Spelling {
    fn text(&self, side: Side) -> LevelText<'_> {
        LevelText { side, price: &self.price, quantity: &self.quantity }
    }
}

/// The texts of one instrument's book.
#[derive(Debug, Default)]
pub(crate) struct TextBook {
    bids: BTreeMap<Exact, Spelling>,
    asks: BTreeMap<Exact, Spelling>,
}

impl TextBook {
    pub(crate) fn clear(&mut self) {
        self.bids.clear();
        self.asks.clear();
    }

    /// Every level, as the venue wrote it.
    pub(crate) fn levels(&self) -> impl Iterator<Item = LevelText<'_>> + Clone {
        let bids = self.bids.values().map(|level| level.text(Side::Bid));
        bids.chain(self.asks.values().map(|level| level.text(Side::Ask)))
    }

    /// The levels of a side, the best first.
    pub(crate) fn best_first(&self, side: Side) -> Box<dyn Iterator<Item = LevelText<'_>> + '_> {
        match side {
            Side::Bid => Box::new(self.bids.values().rev().map(|level| level.text(Side::Bid))),
            Side::Ask => Box::new(self.asks.values().map(|level| level.text(Side::Ask))),
        }
    }

    /// Sets one level; a quantity of zero is its end.
    ///
    /// # Errors
    /// [`DecimalError`] where one of the texts is no number.
    pub(crate) fn apply(&mut self, level: LevelText<'_>) -> Result<(), DecimalError> {
        let LevelText { side, price, quantity } = level;
        let value = Decimal::parse(price)?;
        let exponent = i8::try_from(value.exponent()).map_err(|_| DecimalError::ExponentOutOfRange)?;
        let levels = match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        };
        let key = Exact::new(value.digits(), exponent);
        if Decimal::parse(quantity)?.is_zero() {
            levels.remove(&key);
        } else {
            levels.insert(key, Spelling { price: price.into(), quantity: quantity.into() });
        }
        Ok(())
    }

    /// The signed CRC-32 over so many levels of each side, rank by rank, bid before ask, `price:quantity` joined by colons;
    /// a rank that a side lacks is left out. The signs go before the quantities of bids and asks.
    pub(crate) fn interleaved_crc(&self, levels: usize, signs: [&str; 2]) -> i32 {
        let mut crc = crc32fast::Hasher::new();
        let mut colon = "";
        let (mut bids, mut asks) = (self.best_first(Side::Bid), self.best_first(Side::Ask));
        for _ in 0..levels {
            for (level, sign) in [bids.next(), asks.next()].into_iter().zip(signs) {
                let Some(level) = level else { continue };
                for text in [colon, level.price, ":", sign, level.quantity] {
                    crc.update(text.as_bytes());
                }
                colon = ":";
            }
        }
        crc.finalize().cast_signed()
    }

    /// Drops what is beyond the best so many levels of each side.
    pub(crate) fn truncate(&mut self, depth: usize) {
        while self.bids.len() > depth {
            self.bids.pop_first();
        }
        while self.asks.len() > depth {
            self.asks.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(book: &mut TextBook, side: Side, price: &str, quantity: &str) {
        book.apply(LevelText { side, price, quantity }).unwrap();
    }

    #[test]
    fn what_leaves_the_window_is_gone() {
        let mut book = TextBook::default();
        for price in ["3", "1", "2"] {
            put(&mut book, Side::Bid, price, "1");
            put(&mut book, Side::Ask, price, "1");
        }
        book.truncate(2);
        let prices =
            |book: &TextBook, side| book.best_first(side).map(|level| level.price.to_owned()).collect::<Vec<_>>();
        assert_eq!(prices(&book, Side::Bid), ["3", "2"]);
        assert_eq!(prices(&book, Side::Ask), ["1", "2"]);
        put(&mut book, Side::Ask, "1.0", "0.000");
        assert_eq!(prices(&book, Side::Ask), ["2"]);
    }

    #[test]
    fn the_spelling_is_kept_and_the_value_is_the_key() {
        let mut book = TextBook::default();
        put(&mut book, Side::Ask, "1.7e-7", "5.");
        put(&mut book, Side::Ask, "0.00000017", "6.0");
        let all: Vec<_> = book.levels().map(|level| (level.price.to_owned(), level.quantity.to_owned())).collect();
        assert_eq!(all, [("0.00000017".to_owned(), "6.0".to_owned())]);
        let bad = LevelText { side: Side::Bid, price: "x", quantity: "1" };
        assert!(book.apply(bad).is_err());
    }
}
