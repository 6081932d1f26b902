//! The venue's own book in the simulator: two ladders of whole ticks, and how they live: they follow the fair price,
//! levels appear, grow, shrink and die, and depth refills.
//!
//! Never: a crossed or locked book, not even between two changes of one message.

use super::chance::Chance;

/// Levels that may die in one message because the price moved past them: the rest follows in the next messages.
const FOLLOW_MAX: usize = 6;
/// Of 256 random changes, this many delete a level, and as many add one; the rest grow or shrink.
const DELETE_IN_256: u64 = 78;
/// Half of the new levels come this many times closer to the best price than the book reaches.
const NEAR: u64 = 4;

/// A side of the simulated book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Bid,
    Ask,
}

/// One level: price in ticks, quantity in 10^-8 (0 in a change: the level died).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) price: u64,
    pub(super) quantity: u64,
}

/// One change, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) side: Side,
    pub(super) level: Level,
}

/// What an instrument's book looks like; constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Levels per side that the book tends to.
    pub(super) levels: usize,
    /// Changes happen in this many best levels.
    pub(super) window: usize,
    /// New levels come within this many ticks of the best.
    pub(super) span: u64,
    /// Usual ticks from the fair price to each best price, beyond the first.
    pub(super) half_spread: u64,
    /// A typical quantity, in 10^-8.
    pub(super) quantity: u64,
    /// The quantity step, in 10^-8.
    pub(super) step: u64,
}

impl Shape {
    /// No side has fewer levels.
    pub(super) const fn levels_min(&self) -> usize {
        self.levels / 2
    }

    /// No side has more levels.
    pub(super) const fn levels_max(&self) -> usize {
        self.levels + self.levels / 2
    }
}

/// One side, the best level last.
pub(super) struct Ladder {
    side: Side,
    levels: Vec<Level>,
}

impl Ladder {
    /// Best level first.
    pub(super) fn best_first(&self) -> impl DoubleEndedIterator<Item = Level> + '_ {
        self.levels.iter().rev().copied()
    }

    pub(super) const fn len(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn best(&self) -> Option<Level> {
        self.levels.last().copied()
    }

    /// The level with `rank` better ones before it.
    pub(super) fn ranked(&self, rank: usize) -> Option<Level> {
        self.levels.len().checked_sub(rank + 1).and_then(|index| self.levels.get(index)).copied()
    }

    /// True when `price` is as good as `other` or better.
    pub(super) const fn reaches(&self, price: u64, other: u64) -> bool {
        match self.side {
            Side::Bid => price >= other,
            Side::Ask => price <= other,
        }
    }

    fn set(&mut self, level: Level) {
        let found = match self.side {
            Side::Bid => self.levels.binary_search_by(|at| at.price.cmp(&level.price)),
            Side::Ask => self.levels.binary_search_by(|at| level.price.cmp(&at.price)),
        };
        match (found, level.quantity) {
            (Ok(index), 0) => {
                self.levels.remove(index);
            }
            (Ok(index), quantity) => {
                if let Some(at) = self.levels.get_mut(index) {
                    at.quantity = quantity;
                }
            }
            (Err(_), 0) => {}
            (Err(index), _) => self.levels.insert(index, level),
        }
    }

    fn quantity(&self, price: u64) -> Option<u64> {
        let found = match self.side {
            Side::Bid => self.levels.binary_search_by(|at| at.price.cmp(&price)),
            Side::Ask => self.levels.binary_search_by(|at| price.cmp(&at.price)),
        };
        found.ok().and_then(|index| self.levels.get(index)).map(|level| level.quantity)
    }

    /// `ticks` behind `price` (away from the other side); nothing when there is no such price.
    fn behind(&self, price: u64, ticks: u64) -> Option<u64> {
        match self.side {
            Side::Bid => price.checked_sub(ticks).filter(|&price| price > 0),
            Side::Ask => price.checked_add(ticks),
        }
    }
}

/// Both sides of one instrument at one venue.
pub(super) struct Book {
    pub(super) bids: Ladder,
    pub(super) asks: Ladder,
    shape: Shape,
}

impl Book {
    /// A full book around `centre` (the best bid is at or below it, the best ask above).
    pub(super) fn new(centre: u64, shape: Shape, chance: &mut Chance) -> Self {
        let ladder = |side| Ladder { side, levels: Vec::with_capacity(shape.levels_max() + 1) };
        let mut book = Self { bids: ladder(Side::Bid), asks: ladder(Side::Ask), shape };
        let mut unseen = Vec::new();
        let bid = centre.saturating_sub(shape.half_spread).max(1);
        book.put(Side::Bid, bid, &mut unseen, chance);
        book.put(Side::Ask, centre + 1 + shape.half_spread, &mut unseen, chance);
        for side in [Side::Bid, Side::Ask] {
            // Spans are at least three times the levels, so a free price is found in a few tries each.
            for _ in 0..shape.levels * 64 {
                if book.ladder(side).len() >= shape.levels {
                    break;
                }
                book.appear(side, &mut unseen, chance);
                unseen.clear();
            }
        }
        book
    }

    pub(super) const fn ladder(&self, side: Side) -> &Ladder {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }

    /// Moves the best prices towards `centre`: levels that the price has passed die, one new level closes the spread.
    pub(super) fn follow(&mut self, centre: u64, changes: &mut Vec<Change>, chance: &mut Chance) {
        for _ in 0..FOLLOW_MAX {
            let passed_bid = self.bids.best().filter(|best| best.price > centre);
            let passed_ask = self.asks.best().filter(|best| best.price <= centre);
            match (passed_bid, passed_ask) {
                (Some(best), _) if self.bids.len() > self.shape.levels_min() => {
                    self.die(Side::Bid, best.price, changes)
                }
                (_, Some(best)) if self.asks.len() > self.shape.levels_min() => {
                    self.die(Side::Ask, best.price, changes)
                }
                _ => break,
            }
        }
        let (Some(bid), Some(ask)) = (self.bids.best(), self.asks.best()) else { return };
        let highest_bid = centre.saturating_sub(self.shape.half_spread).min(ask.price - 1);
        if bid.price < highest_bid {
            let room = (highest_bid - bid.price).min(self.shape.half_spread + 2);
            self.put(Side::Bid, highest_bid - chance.below(room), changes, chance);
        }
        let Some(bid) = self.bids.best() else { return };
        let lowest_ask = (centre + 1 + self.shape.half_spread).max(bid.price + 1);
        if ask.price > lowest_ask {
            let room = (ask.price - lowest_ask).min(self.shape.half_spread + 2);
            self.put(Side::Ask, lowest_ask + chance.below(room), changes, chance);
        }
    }

    /// One random change somewhere in the window.
    pub(super) fn churn(&mut self, changes: &mut Vec<Change>, chance: &mut Chance) {
        let side = if chance.in_256(128) { Side::Bid } else { Side::Ask };
        let len = self.ladder(side).len();
        let roll = chance.below(256);
        let (mut delete, mut add) = (roll < DELETE_IN_256, roll >= 256 - DELETE_IN_256);
        if len * 10 < self.shape.levels * 9 {
            (delete, add) = (false, delete || add);
        } else if len * 10 > self.shape.levels * 11 {
            (delete, add) = (delete || add, false);
        }
        if add {
            self.appear(side, changes, chance);
        } else if delete && len > self.shape.levels_min() {
            let rank = self.rank(side, chance);
            // A book that is too deep loses its far end first: those levels belong to prices long gone.
            let rank = if len > self.shape.levels && chance.in_256(128) { len - 1 } else { rank };
            if let Some(level) = self.ladder(side).ranked(rank) {
                self.die(side, level.price, changes);
            }
        } else {
            self.resize(side, changes, chance);
        }
    }

    /// Grows or shrinks one level in the window.
    pub(super) fn resize(&mut self, side: Side, changes: &mut Vec<Change>, chance: &mut Chance) {
        let rank = self.rank(side, chance);
        if let Some(level) = self.ladder(side).ranked(rank) {
            self.redraw(side, level, changes, chance);
        }
    }

    /// A trade against the best level of `side`: its price and quantity, as the book allows.
    pub(super) fn trade(&mut self, side: Side, changes: &mut Vec<Change>, chance: &mut Chance) -> Option<Level> {
        let best = self.ladder(side).best()?;
        let wanted = chance.quantity(self.shape.quantity / 8, self.shape.step);
        let may_die = self.ladder(side).len() > self.shape.levels_min();
        let most = if may_die { best.quantity } else { best.quantity.checked_sub(self.shape.step)? };
        let taken = wanted.min(most);
        if taken == 0 {
            return None;
        }
        let left = Level { price: best.price, quantity: best.quantity - taken };
        self.apply(side, left, changes);
        Some(Level { price: best.price, quantity: taken })
    }

    /// A rank in the window: half of the time one of the five best.
    fn rank(&self, side: Side, chance: &mut Chance) -> usize {
        let len = self.ladder(side).len().min(self.shape.window);
        if chance.in_256(128) { chance.index(len.min(5)) } else { chance.index(len) }
    }

    /// A new level behind the best one; a taken price is resized instead.
    fn appear(&mut self, side: Side, changes: &mut Vec<Change>, chance: &mut Chance) {
        let Some(best) = self.ladder(side).best() else { return };
        let reach = if chance.in_256(128) { self.shape.span / NEAR } else { self.shape.span };
        let Some(price) = self.ladder(side).behind(best.price, 1 + chance.below(reach.max(1))) else { return };
        match self.ladder(side).quantity(price) {
            Some(quantity) => self.redraw(side, Level { price, quantity }, changes, chance),
            None => self.put(side, price, changes, chance),
        }
    }

    fn redraw(&mut self, side: Side, level: Level, changes: &mut Vec<Change>, chance: &mut Chance) {
        let step = self.shape.step;
        let part = (level.quantity / (2 + chance.below(8)) / step).max(1) * step;
        let quantity = match chance.below(4) {
            0 => level.quantity.saturating_sub(part),
            1 if level.quantity < self.shape.quantity.saturating_mul(64) => level.quantity + part,
            _ => chance.quantity(self.shape.quantity, step),
        };
        let quantity = if quantity == 0 || quantity == level.quantity { level.quantity + step } else { quantity };
        self.apply(side, Level { price: level.price, quantity }, changes);
    }

    fn put(&mut self, side: Side, price: u64, changes: &mut Vec<Change>, chance: &mut Chance) {
        let quantity = chance.quantity(self.shape.quantity, self.shape.step);
        self.apply(side, Level { price, quantity }, changes);
        if self.ladder(side).len() > self.shape.levels_max()
            && let Some(worst) = self.ladder(side).ranked(self.shape.levels_max())
        {
            self.die(side, worst.price, changes);
        }
    }

    fn die(&mut self, side: Side, price: u64, changes: &mut Vec<Change>) {
        self.apply(side, Level { price, quantity: 0 }, changes);
    }

    fn apply(&mut self, side: Side, level: Level, changes: &mut Vec<Change>) {
        match side {
            Side::Bid => self.bids.set(level),
            Side::Ask => self.asks.set(level),
        }
        changes.push(Change { side, level });
    }
}
