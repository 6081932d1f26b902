//! The venue's own spelling of the subscribed window, kept for its checksum.
//!
//! Never: used to answer what a price is; that is the lane's book.

use crate::venue_feed::number::LevelText;
use market::{Decimal, DecimalError, quote::Exact};
use std::collections::BTreeMap;

/// Levels a side that the checksum covers, whatever the depth.
const CHECKSUM_LEVELS: usize = 10;

/// Price and quantity as the venue wrote them.
#[derive(Clone, Debug)]
struct Spelling {
    price: Box<str>,
    quantity: Box<str>,
}

impl Spelling {
    fn text(&self, side: market::Side) -> LevelText<'_> {
        LevelText { side, price: &self.price, quantity: &self.quantity }
    }
}

/// The texts of one instrument's book.
#[derive(Debug, Default)]
pub(super) struct TextBook {
    bids: BTreeMap<Exact, Spelling>,
    asks: BTreeMap<Exact, Spelling>,
}

impl TextBook {
    pub(super) fn clear(&mut self) {
        self.bids.clear();
        self.asks.clear();
    }

    /// Every level, as the venue wrote it.
    pub(super) fn levels(&self) -> impl Iterator<Item = LevelText<'_>> + Clone {
        let bids = self.bids.values().map(|level| level.text(market::Side::Bid));
        bids.chain(self.asks.values().map(|level| level.text(market::Side::Ask)))
    }

    /// Rule 1 for one level.
    pub(super) fn apply(&mut self, side: market::Side, price: &str, quantity: &str) -> Result<(), DecimalError> {
        let value = Decimal::parse(price)?;
        let exponent = i8::try_from(value.exponent()).map_err(|_| DecimalError::ExponentOutOfRange)?;
        let levels = match side {
            market::Side::Bid => &mut self.bids,
            market::Side::Ask => &mut self.asks,
        };
        let key = Exact::new(value.digits(), exponent);
        if Decimal::parse(quantity)?.is_zero() {
            levels.remove(&key);
        } else {
            levels.insert(key, Spelling { price: price.into(), quantity: quantity.into() });
        }
        Ok(())
    }

    /// Rule 2.
    pub(super) fn truncate(&mut self, depth: usize) {
        while self.bids.len() > depth {
            self.bids.pop_first();
        }
        while self.asks.len() > depth {
            self.asks.pop_last();
        }
    }

    /// Rule 3.
    pub(super) fn checksum(&self) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        let mut hash = |spelling: &Spelling| {
            digits(&mut crc, &spelling.price);
            digits(&mut crc, &spelling.quantity);
        };
        self.asks.values().take(CHECKSUM_LEVELS).for_each(&mut hash);
        self.bids.values().rev().take(CHECKSUM_LEVELS).for_each(&mut hash);
        crc.finalize()
    }
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
    use market::Side;

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
        for price in asks {
            book.apply(Side::Ask, price, "0.00000500").unwrap();
        }
        for price in bids {
            book.apply(Side::Bid, price, "0.00000500").unwrap();
        }
        assert_eq!(book.checksum(), 974_947_235);
        book.apply(Side::Ask, "0.05005", "0.000005").unwrap();
        assert_ne!(book.checksum(), 974_947_235, "the same value in another spelling is another checksum");
    }

    #[test]
    fn what_leaves_the_window_is_gone() {
        let mut book = TextBook::default();
        for price in ["3", "1", "2"] {
            book.apply(Side::Bid, price, "1").unwrap();
            book.apply(Side::Ask, price, "1").unwrap();
        }
        book.truncate(2);
        assert_eq!(book.bids.values().map(|level| &*level.price).collect::<Vec<_>>(), ["2", "3"]);
        assert_eq!(book.asks.values().map(|level| &*level.price).collect::<Vec<_>>(), ["1", "2"]);
        book.apply(Side::Ask, "1.0", "0.000").unwrap();
        assert_eq!(book.asks.len(), 1);
    }
}
