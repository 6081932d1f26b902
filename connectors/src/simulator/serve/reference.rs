//! The venue's own books: text-exact, kept from what is served by the venues' published rules alone, so that a REST
//! request or a new subscription can be answered at the served position.
//!
//! Never: a decoder or a book of the venues' connectors; a number re-spelled.

use crate::simulator::SimInstrument;

/// Decimals kept of a price when two are compared: more than any venue quotes.
const KEY_DECIMALS: usize = 18;
/// Exponents beyond this cannot fit a key anyway.
const EXPONENT_MAX: i32 = 40;

/// A side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Bid,
    Ask,
}

/// Both, bids first.
pub(super) const SIDES: [Side; 2] = [Side::Bid, Side::Ask];

/// A price as a whole number of 10^-18, for comparing only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PriceKey(u128);

impl PriceKey {
    /// Reads a plain decimal, with an exponent or without; none for what is no number or does not fit.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = || whole.bytes().chain(part.bytes());
        if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) || exponent.abs() > EXPONENT_MAX {
            return None;
        }
        let mut units = digits()
            .try_fold(0_u128, |units, byte| units.checked_mul(10)?.checked_add(u128::from(byte.wrapping_sub(b'0'))))?;
        let decimals = i32::try_from(part.len()).ok()?.checked_sub(exponent)?;
        let mut missing = i32::try_from(KEY_DECIMALS).ok()?.checked_sub(decimals)?;
        while missing > 0 && units > 0 {
            units = units.checked_mul(10)?;
            missing -= 1;
        }
        while missing < 0 && units > 0 {
            (units % 10 == 0).then_some(())?;
            units /= 10;
            missing += 1;
        }
        Some(Self(units))
    }
}

/// Whether a quantity means that the level is dead.
pub(super) fn is_zero(quantity: &str) -> bool {
    let mantissa = quantity.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

/// Decimals that a number needs: `0.2500` needs two.
pub(super) fn decimals(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, part)| part.trim_end_matches('0').len())
}

/// A listing takes as many decimals as its capture shows.
pub(super) fn note(listed: &mut SimInstrument, price: &str, quantity: &str) {
    let seen = |text: &str| u32::try_from(decimals(text)).unwrap_or(u32::MAX);
    listed.price_decimals = listed.price_decimals.max(seen(price));
    listed.quantity_decimals = listed.quantity_decimals.max(seen(quantity));
}

/// One level, spelled as the venue did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) key: PriceKey,
    pub(super) price: Box<str>,
    pub(super) quantity: Box<str>,
}

/// A level that is set, or dies where its quantity is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) side: Side,
    pub(super) key: PriceKey,
    pub(super) price: &'a str,
    pub(super) quantity: &'a str,
}

/// What a change replaced.
#[derive(Clone, Debug)]
pub(super) struct Prior {
    pub(super) side: Side,
    pub(super) key: PriceKey,
    /// The level as it was; none when there was none.
    pub(super) level: Option<Level>,
}

/// One side, the best level last.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    side: Side,
    levels: Vec<Level>,
}

impl Ladder {
    pub(super) const fn len(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn best_first(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter().rev()
    }

    /// The level with `rank` better ones before it.
    pub(super) fn ranked(&self, rank: usize) -> Option<&Level> {
        self.levels.len().checked_sub(rank.checked_add(1)?).and_then(|index| self.levels.get(index))
    }

    /// The worst price among the best `depth` levels; none when there are fewer, so that everything is inside.
    pub(super) fn edge(&self, depth: usize) -> Option<PriceKey> {
        self.ranked(depth.checked_sub(1)?).map(|level| level.key)
    }

    /// Whether a price is inside of an edge.
    pub(super) fn within(&self, key: PriceKey, edge: Option<PriceKey>) -> bool {
        edge.is_none_or(|edge| match self.side {
            Side::Bid => key >= edge,
            Side::Ask => key <= edge,
        })
    }

    pub(super) fn get(&self, key: PriceKey) -> Option<&Level> {
        self.find(key).ok().and_then(|index| self.levels.get(index))
    }

    fn find(&self, key: PriceKey) -> Result<usize, usize> {
        match self.side {
            Side::Bid => self.levels.binary_search_by(|at| at.key.cmp(&key)),
            Side::Ask => self.levels.binary_search_by(|at| key.cmp(&at.key)),
        }
    }

    /// Puts back what a change replaced.
    fn restore(&mut self, key: PriceKey, level: Option<Level>) {
        match (self.find(key), level) {
            (Ok(index), Some(level)) => {
                if let Some(at) = self.levels.get_mut(index) {
                    *at = level;
                }
            }
            (Ok(index), None) => {
                self.levels.remove(index);
            }
            (Err(index), Some(level)) => self.levels.insert(index, level),
            (Err(_), None) => {}
        }
    }
}

/// The book of one instrument.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) bids: Ladder,
    pub(super) asks: Ladder,
}

impl Book {
    pub(super) const fn new() -> Self {
        Self {
            bids: Ladder { side: Side::Bid, levels: Vec::new() },
            asks: Ladder { side: Side::Ask, levels: Vec::new() },
        }
    }

    pub(super) const fn ladder(&self, side: Side) -> &Ladder {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }

    const fn ladder_mut(&mut self, side: Side) -> &mut Ladder {
        match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        }
    }

    /// Applies one change; gives what it replaced.
    pub(super) fn apply(&mut self, change: &Change<'_>) -> Prior {
        let Change { side, key, price, quantity } = *change;
        let ladder = self.ladder_mut(side);
        let prior = ladder.get(key).cloned();
        let level = Level { key, price: price.into(), quantity: quantity.into() };
        ladder.restore(key, (!is_zero(quantity)).then_some(level));
        Prior { side, key, level: prior }
    }

    /// Undoes a change.
    pub(super) fn undo(&mut self, prior: Prior) {
        self.ladder_mut(prior.side).restore(prior.key, prior.level);
    }

    /// Drops the levels beyond the best `depth` of each side; gives them, the worst first.
    pub(super) fn truncate(&mut self, depth: usize) -> Vec<(Side, Level)> {
        let mut gone = Vec::new();
        for side in SIDES {
            let levels = &mut self.ladder_mut(side).levels;
            let surplus = levels.len().saturating_sub(depth);
            gone.extend(levels.drain(..surplus).map(|level| (side, level)));
        }
        gone
    }
}

/// A book with the id of its last change, as it was told.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) last: u64,
    pub(super) book: Book,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> PriceKey {
        PriceKey::read(text).unwrap()
    }

    #[test]
    fn prices_compare_whatever_their_spelling() {
        assert_eq!(key("63004.90"), key("63004.9"));
        assert_eq!(key("5e-05"), key("0.00005"));
        assert_eq!(key("1.5E2"), key("150"));
        assert!(key("9.9") < key("10.0"));
        assert!(key("0.00000001") < key("0.00000002"));
        for text in ["", ".", "-1", "1.2.3", "abc", "1e", "0.0000000000000000001", "1e99"] {
            assert_eq!(PriceKey::read(text), None, "{text}");
        }
    }

    #[test]
    fn zeros_and_decimals_are_told_from_text() {
        assert!(is_zero("0.00000000") && is_zero("0") && is_zero("0e-8"));
        assert!(!is_zero("0.00000001"));
        assert_eq!((decimals("61837.63000000"), decimals("10"), decimals("0.100")), (2, 0, 1));
    }

    #[test]
    fn a_change_is_undone_exactly() {
        let mut book = Book::new();
        let mut put = |side, price: &'static str, quantity: &'static str| {
            book.apply(&Change { side, key: key(price), price, quantity })
        };
        put(Side::Bid, "10.0", "1.0");
        put(Side::Bid, "11.0", "2.0");
        let grown = put(Side::Bid, "11.0", "2.50");
        let died = put(Side::Bid, "10.0", "0.0");
        let born = put(Side::Ask, "12.0", "3.0");
        let spelled = |book: &Book| -> Vec<String> {
            let both = book.bids.best_first().chain(book.asks.best_first());
            both.map(|level| format!("{}x{}", level.price, level.quantity)).collect()
        };
        assert_eq!(spelled(&book), ["11.0x2.50", "12.0x3.0"]);
        for prior in [born, died, grown] {
            book.undo(prior);
        }
        assert_eq!(spelled(&book), ["11.0x2.0", "10.0x1.0"]);
        assert_eq!(book.bids.edge(1), Some(key("11.0")));
        assert_eq!(book.truncate(1).len(), 1);
        assert_eq!(spelled(&book), ["11.0x2.0"]);
    }
}
