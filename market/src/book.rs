//! The fast book: per side one sorted vector with the best tick at its end, searched from there, because that is
//! where venues trade. It also nets its own changes: what was touched since the last cut, and what it was before.
//!
//! Never: an ordered map (2-3 times slower here); a decision about versions, which is the guard's.

#![expect(clippy::indexing_slicing, reason = "hot path; every index comes from a search of the same vector")]

use crate::{Flags, Level, LevelChange, Quote, Scale, Side, TickChange, TickKey, U256, Window};

/// All live ticks of one instrument.
#[derive(Clone, Debug, Default)]
pub struct Book {
    sides: [BookSide; 2],
    scale: Scale,
    touched: Vec<Touched>,
    /// Number of the open cut among the book's own non-empty cuts.
    cut: u32,
    /// Some tick has a fee or tranche, so that a level may be several ticks.
    layered: bool,
}

/// A key ordered so that the greater is the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    price: i64,
    fee: u32,
    tranche: crate::TrancheId,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    reserves: U256,
    /// The cut that touched it last.
    cut: u32,
    /// Where it stands in `touched`, if `cut` is the open one.
    at: u32,
}

#[derive(Clone, Debug, Default)]
struct BookSide {
    ranks: Vec<Rank>,
    slots: Vec<Slot>,
    /// Slots whose tick died in the open cut; they leave at its close.
    dead: usize,
    /// Worst rank that the last snapshot knew, if the venue has more beyond it.
    horizon: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Touched {
    side: Side,
    key: TickKey,
    before: U256,
    now: U256,
}

/// The book cannot take a finer scale: some price or quantity would not fit its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tick does not fit at the finer scale")]
pub struct RescaleError;

const fn side_at(side: Side) -> usize {
    match side {
        Side::Bid => 0,
        Side::Ask => 1,
    }
}

impl Rank {
    fn of(side: Side, key: TickKey) -> Self {
        Self { price: side.rank(key.tick_index), fee: key.fee, tranche: key.tranche }
    }

    fn key(self, side: Side) -> TickKey {
        TickKey { tick_index: side.tick_index(self.price), fee: self.fee, tranche: self.tranche }
    }
}

impl BookSide {
    /// Exponential search from the best end, then binary.
    #[inline]
    fn find(&self, rank: Rank) -> Result<usize, usize> {
        let len = self.ranks.len();
        let (mut step, mut high) = (1_usize, len);
        while step < len {
            let probe = len - step;
            if self.ranks[probe] <= rank {
                return match self.ranks[probe..high].binary_search(&rank) {
                    Ok(at) => Ok(at + probe),
                    Err(at) => Err(at + probe),
                };
            }
            high = probe;
            step <<= 1;
        }
        self.ranks[..high].binary_search(&rank)
    }

    fn live(&self) -> usize {
        self.ranks.len() - self.dead
    }

    fn remove(&mut self, rank: Rank) {
        if let Ok(at) = self.find(rank) {
            self.ranks.remove(at);
            self.slots.remove(at);
        }
    }
}

impl Book {
    /// The steps that the book's numbers are in.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// How many ticks are live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sides.iter().map(BookSide::live).sum()
    }

    /// Whether no tick is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a tick's reserves, zero to kill it, and gives back what they were. Killing an unknown tick is no error.
    #[inline]
    pub fn apply(&mut self, change: TickChange) -> U256 {
        let rank = Rank::of(change.side, change.key);
        self.layered |= !change.key.is_plain();
        let side = &mut self.sides[side_at(change.side)];
        let at = match side.find(rank) {
            Ok(at) => at,
            Err(_) if change.reserves.is_zero() => return U256::ZERO,
            Err(at) => {
                side.ranks.insert(at, rank);
                side.slots.insert(at, Slot { reserves: U256::ZERO, cut: self.cut.wrapping_sub(1), at: 0 });
                // Counted as dead until the reserves are set below.
                side.dead += 1;
                at
            }
        };
        let slot = &mut side.slots[at];
        let before = slot.reserves;
        if slot.cut == self.cut {
            if let Some(touched) = usize::try_from(slot.at).ok().and_then(|at| self.touched.get_mut(at)) {
                touched.now = change.reserves;
            }
        } else {
            slot.cut = self.cut;
            slot.at = u32::try_from(self.touched.len()).unwrap_or(u32::MAX);
            self.touched.push(Touched { side: change.side, key: change.key, before, now: change.reserves });
        }
        slot.reserves = change.reserves;
        match (before.is_zero(), change.reserves.is_zero()) {
            (true, false) => side.dead -= 1,
            (false, true) => side.dead += 1,
            _ => {}
        }
        before
    }

    /// A tick's reserves, zero if it is not live.
    #[must_use]
    pub fn reserves(&self, side: Side, key: TickKey) -> U256 {
        let book = &self.sides[side_at(side)];
        book.find(Rank::of(side, key)).map_or(U256::ZERO, |at| book.slots[at].reserves)
    }

    /// Replaces the whole book. Ticks that were live and are not in it are pushed to `deaths`.
    pub fn replace(&mut self, ticks: &[TickChange], scale: Scale, window: Window, deaths: &mut Vec<TickChange>) {
        let old = std::mem::take(self);
        self.scale = scale;
        self.cut = old.cut;
        for side in Side::BOTH {
            self.load(side, ticks);
            self.set_horizon(side, window);
        }
        for tick in old.ticks() {
            let same_steps = old.scale == scale;
            if !same_steps || self.reserves(tick.side, tick.key).is_zero() {
                deaths.push(TickChange { reserves: U256::ZERO, ..tick });
            }
        }
        if old.scale != scale {
            // A key of the old steps may be a live key of the new ones; it is then no death.
            deaths.retain(|death| self.reserves(death.side, death.key).is_zero());
        }
        self.forget_touched();
    }

    /// Sorts once and builds: naive inserts in the worst order are quadratic.
    fn load(&mut self, side: Side, ticks: &[TickChange]) {
        let mut rows: Vec<(Rank, usize, U256)> = ticks
            .iter()
            .enumerate()
            .filter(|(_, tick)| tick.side == side)
            .map(|(order, tick)| (Rank::of(side, tick.key), order, tick.reserves))
            .collect();
        rows.sort_unstable_by_key(|(rank, order, _)| (*rank, std::cmp::Reverse(*order)));
        rows.dedup_by_key(|(rank, ..)| *rank);
        rows.retain(|(.., reserves)| !reserves.is_zero());
        let book = &mut self.sides[side_at(side)];
        book.ranks = rows.iter().map(|(rank, ..)| *rank).collect();
        book.slots = rows.iter().map(|(.., reserves)| Slot { reserves: *reserves, cut: u32::MAX, at: 0 }).collect();
        book.dead = 0;
        self.layered |= book.ranks.iter().any(|rank| !rank.key(side).is_plain());
    }

    fn set_horizon(&mut self, side: Side, window: Window) {
        let levels = self.levels(side).count();
        let book = &mut self.sides[side_at(side)];
        book.horizon = match window {
            Window::Known(known) if u32::try_from(levels).is_ok_and(|levels| levels >= known) => {
                book.ranks.first().map(|rank| rank.price)
            }
            _ => None,
        };
    }

    /// Expresses the whole book in finer steps, without changing any value.
    ///
    /// # Errors
    /// [`RescaleError`] if a number would not fit; the book is then unchanged.
    pub fn rescale(&mut self, finer: Scale) -> Result<(), RescaleError> {
        let mut ticks = Vec::with_capacity(self.len());
        for tick in self.ticks() {
            let tick_index = self.scale.price_in(finer, tick.key.tick_index).ok_or(RescaleError)?;
            let reserves = self.scale.quantity_in(finer, tick.reserves).ok_or(RescaleError)?;
            ticks.push(TickChange { key: TickKey { tick_index, ..tick.key }, reserves, ..tick });
        }
        let mut horizons = [None; 2];
        for side in Side::BOTH {
            if let Some(rank) = self.sides[side_at(side)].horizon {
                let moved = self.scale.price_in(finer, side.tick_index(rank)).ok_or(RescaleError)?;
                horizons[side_at(side)] = Some(side.rank(moved));
            }
        }
        for side in Side::BOTH {
            self.load(side, &ticks);
            self.sides[side_at(side)].horizon = horizons[side_at(side)];
        }
        self.scale = finer;
        self.forget_touched();
        Ok(())
    }

    fn forget_touched(&mut self) {
        self.touched.clear();
        self.next_cut();
    }

    fn next_cut(&mut self) {
        self.cut = self.cut.wrapping_add(1);
        if self.cut >= u32::MAX - 1 {
            // The stamps are used up: clear them once, so that none from long ago looks current.
            for slot in self.sides.iter_mut().flat_map(|side| side.slots.iter_mut()) {
                slot.cut = u32::MAX;
            }
            self.cut = 0;
        }
    }

    /// Kills what lies beyond the best `depth` levels of each side; the dead are pushed to `deaths`.
    pub fn truncate(&mut self, depth: usize, deaths: &mut Vec<TickChange>) {
        for side in Side::BOTH {
            let book = &self.sides[side_at(side)];
            if book.live() <= depth {
                continue;
            }
            let Some(worst) = self.levels(side).take(depth).last() else { continue };
            let limit = side.rank(worst.tick_index);
            let beyond: Vec<_> = book
                .ranks
                .iter()
                .zip(&book.slots)
                .take_while(|(rank, _)| rank.price < limit)
                .filter(|(_, slot)| !slot.reserves.is_zero())
                .map(|(rank, _)| TickChange { side, key: rank.key(side), reserves: U256::ZERO })
                .collect();
            for death in beyond {
                self.apply(death);
                deaths.push(death);
            }
        }
    }

    /// Closes the open cut: pushes each level that differs from the cut's begin, and forgets the dead.
    pub fn close_cut(&mut self, changes: &mut Vec<LevelChange>) {
        if self.touched.is_empty() {
            return;
        }
        if self.layered {
            self.net_levels(changes);
        } else {
            changes.reserve(self.touched.len());
            changes.extend(self.touched.iter().filter(|touched| touched.before != touched.now).map(|touched| {
                let level = Level { tick_index: touched.key.tick_index, quantity: touched.now };
                LevelChange { side: touched.side, level }
            }));
        }
        let touched = std::mem::take(&mut self.touched);
        for dead in touched.iter().filter(|touched| touched.now.is_zero()) {
            self.sides[side_at(dead.side)].remove(Rank::of(dead.side, dead.key));
        }
        for side in &mut self.sides {
            side.dead = 0;
        }
        self.touched = touched;
        self.forget_touched();
    }

    /// Levels of several ticks: a level's begin is its end, less what its ticks are, plus what they were.
    fn net_levels(&self, changes: &mut Vec<LevelChange>) {
        let mut touched = self.touched.clone();
        touched.sort_unstable_by_key(|touched| (touched.side, touched.key));
        for group in touched.chunk_by(|a, b| a.side == b.side && a.key.tick_index == b.key.tick_index) {
            let Some(first) = group.first() else { continue };
            let level = Level {
                tick_index: first.key.tick_index,
                quantity: self.level_quantity(first.side, first.key.tick_index),
            };
            let gone = group.iter().fold(U256::ZERO, |sum, touched| sum.saturating_add(touched.now));
            let came = group.iter().fold(U256::ZERO, |sum, touched| sum.saturating_add(touched.before));
            if gone != came {
                changes.push(LevelChange { side: first.side, level });
            }
        }
    }

    /// The sum of the ticks at a price, zero if there is none.
    #[must_use]
    pub fn level_quantity(&self, side: Side, tick_index: i64) -> U256 {
        let book = &self.sides[side_at(side)];
        let price = side.rank(tick_index);
        let begin = book.ranks.partition_point(|rank| rank.price < price);
        let same = book.ranks.iter().skip(begin).take_while(|rank| rank.price == price);
        same.zip(book.slots.iter().skip(begin)).fold(U256::ZERO, |sum, (_, slot)| sum.saturating_add(slot.reserves))
    }

    /// The live levels of a side, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = Level> + '_ {
        let book = &self.sides[side_at(side)];
        let mut ticks = book.ranks.iter().rev().zip(book.slots.iter().rev()).peekable();
        std::iter::from_fn(move || {
            loop {
                let (rank, slot) = ticks.next()?;
                let mut quantity = slot.reserves;
                while let Some((_, next)) = ticks.next_if(|(next, _)| next.price == rank.price) {
                    quantity = quantity.saturating_add(next.reserves);
                }
                if !quantity.is_zero() {
                    return Some(Level { tick_index: side.tick_index(rank.price), quantity });
                }
            }
        })
    }

    /// Every live tick, bids first.
    pub fn ticks(&self) -> impl Iterator<Item = TickChange> + '_ {
        Side::BOTH.into_iter().flat_map(|side| {
            let book = &self.sides[side_at(side)];
            book.ranks
                .iter()
                .zip(&book.slots)
                .filter(|(_, slot)| !slot.reserves.is_zero())
                .map(move |(rank, slot)| TickChange { side, key: rank.key(side), reserves: slot.reserves })
        })
    }

    /// The best level of each side.
    #[must_use]
    pub fn quote(&self) -> Quote {
        Quote { bid: self.best(Side::Bid), ask: self.best(Side::Ask) }
    }

    fn best(&self, side: Side) -> Option<Level> {
        if self.layered {
            return self.levels(side).next();
        }
        let book = &self.sides[side_at(side)];
        let at = book.slots.iter().rposition(|slot| !slot.reserves.is_zero())?;
        Some(Level { tick_index: side.tick_index(book.ranks[at].price), quantity: book.slots[at].reserves })
    }

    /// The worst price that a side is known to, where the venue has more beyond it.
    #[must_use]
    pub fn horizon(&self, side: Side) -> Option<i64> {
        self.sides[side_at(side)].horizon.map(|rank| side.tick_index(rank))
    }

    /// What is remarkable about the book's shape.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags_at(self.quote())
    }

    /// What is remarkable about the book's shape, for one who has its quote already.
    #[must_use]
    pub fn flags_at(&self, quote: Quote) -> Flags {
        let exhausted = Side::BOTH.into_iter().any(|side| {
            let best = match side {
                Side::Bid => quote.bid,
                Side::Ask => quote.ask,
            };
            let horizon = self.sides[side_at(side)].horizon;
            horizon.is_some_and(|horizon| best.is_none_or(|best| side.rank(best.tick_index) < horizon))
        });
        let both = quote.bid.zip(quote.ask);
        Flags {
            crossed: both.is_some_and(|(bid, ask)| bid.tick_index > ask.tick_index),
            locked: both.is_some_and(|(bid, ask)| bid.tick_index == ask.tick_index),
            one_sided: quote.bid.is_some() != quote.ask.is_some(),
            exhausted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TrancheId, naive::NaiveBook};
    use proptest::prelude::*;

    fn u(value: u64) -> U256 {
        U256::from(value)
    }

    fn bid(tick_index: i64, reserves: u64) -> TickChange {
        TickChange::at(Side::Bid, tick_index, u(reserves))
    }

    fn ask(tick_index: i64, reserves: u64) -> TickChange {
        TickChange::at(Side::Ask, tick_index, u(reserves))
    }

    const SCALE: Scale = Scale { price: 0, quantity: 0 };

    fn prices(book: &Book, side: Side) -> Vec<i64> {
        book.levels(side).map(|level| level.tick_index).collect()
    }

    #[test]
    fn a_snapshot_replaces_and_names_the_dead() {
        let (mut book, mut deaths) = (Book::default(), Vec::new());
        book.replace(&[bid(100, 1), bid(99, 2)], SCALE, Window::Whole, &mut deaths);
        assert!(deaths.is_empty());
        book.replace(&[bid(95, 1)], SCALE, Window::Whole, &mut deaths);
        assert_eq!(prices(&book, Side::Bid), [95]);
        deaths.sort_by_key(|death| death.key);
        assert_eq!(deaths, [bid(99, 0), bid(100, 0)]);
    }

    #[test]
    fn a_change_and_its_reverse_within_a_cut_leave_nothing() {
        let (mut book, mut changes) = (Book::default(), Vec::new());
        book.apply(ask(101, 5));
        book.close_cut(&mut changes);
        changes.clear();
        book.apply(ask(101, 7));
        book.apply(ask(102, 1));
        book.apply(ask(102, 0));
        book.apply(ask(101, 5));
        book.close_cut(&mut changes);
        assert!(changes.is_empty(), "{changes:?}");
        assert_eq!(book.len(), 1);
    }

    #[test]
    fn deleting_an_unknown_level_is_no_error() {
        let (mut book, mut changes) = (Book::default(), Vec::new());
        assert_eq!(book.apply(bid(7, 0)), U256::ZERO);
        book.close_cut(&mut changes);
        assert!(changes.is_empty() && book.is_empty());
    }

    #[test]
    fn locked_is_not_crossed() {
        let mut book = Book::default();
        book.apply(bid(100, 1));
        assert_eq!(book.flags().names(), ["ONE_SIDED"]);
        book.apply(ask(100, 1));
        assert_eq!(book.flags().names(), ["LOCKED"]);
        book.apply(bid(101, 1));
        assert_eq!(book.flags().names(), ["CROSSED"]);
    }

    #[test]
    fn a_level_is_the_sum_of_its_ticks() {
        let (mut book, mut changes) = (Book::default(), Vec::new());
        let at = |fee, tranche, reserves| TickChange {
            side: Side::Ask,
            key: TickKey { tick_index: 5, fee, tranche: TrancheId(tranche) },
            reserves: u(reserves),
        };
        book.apply(at(1, 0, 10));
        book.apply(at(0, 9, 20));
        book.close_cut(&mut changes);
        let level = |quantity| LevelChange { side: Side::Ask, level: Level { tick_index: 5, quantity: u(quantity) } };
        assert_eq!(changes, [level(30)]);
        changes.clear();
        book.apply(at(1, 0, 5));
        book.apply(at(0, 9, 25));
        book.close_cut(&mut changes);
        assert!(changes.is_empty(), "the sum is the same: {changes:?}");
        book.apply(at(1, 0, 0));
        book.close_cut(&mut changes);
        assert_eq!(changes, [level(25)]);
    }

    #[test]
    fn a_side_known_to_a_horizon_is_exhausted_not_empty() {
        let mut book = Book::default();
        book.replace(&[ask(101, 1), ask(102, 1), bid(9, 1)], SCALE, Window::Known(2), &mut Vec::new());
        assert_eq!(book.horizon(Side::Ask), Some(102));
        assert_eq!(book.horizon(Side::Bid), None);
        book.apply(ask(101, 0));
        assert!(!book.flags().exhausted);
        book.apply(ask(105, 1));
        book.apply(ask(102, 0));
        assert!(book.flags().exhausted);
    }

    #[test]
    fn finer_steps_change_no_value() {
        let mut book = Book::default();
        book.replace(&[ask(101, 3), bid(99, 2)], SCALE, Window::Known(1), &mut Vec::new());
        book.rescale(Scale { price: -2, quantity: -3 }).unwrap();
        assert_eq!(book.quote().ask, Some(Level { tick_index: 10_100, quantity: u(3_000) }));
        assert_eq!(book.horizon(Side::Ask), Some(10_100));
        assert_eq!(book.rescale(Scale { price: -30, quantity: -3 }), Err(RescaleError));
        let powers = Scale { price: crate::scale::PRICE_POWERS, quantity: -3 };
        assert_eq!(book.rescale(powers), Err(RescaleError));
        let mut of_powers = Book::default();
        of_powers.rescale(powers).unwrap();
        of_powers.apply(TickChange::at(Side::Bid, 0, U256::ONE));
        assert_eq!(of_powers.rescale(Scale { price: -2, quantity: -3 }), Err(RescaleError));
        of_powers.rescale(Scale { quantity: -4, ..powers }).unwrap();
        assert_eq!(of_powers.levels(Side::Bid).next(), Some(Level { tick_index: 0, quantity: U256::from(10_u64) }));
        assert_eq!(prices(&book, Side::Bid), [9_900]);
    }

    fn change() -> impl Strategy<Value = TickChange> {
        (any::<bool>(), 0_i64..24, 0_u32..2, 0_u64..4).prop_map(|(side, tick_index, fee, reserves)| TickChange {
            side: if side { Side::Bid } else { Side::Ask },
            key: TickKey { tick_index, fee, tranche: TrancheId(0) },
            reserves: u(reserves),
        })
    }

    fn agree(book: &Book, naive: &NaiveBook) -> Result<(), TestCaseError> {
        for side in Side::BOTH {
            prop_assert_eq!(book.levels(side).collect::<Vec<_>>(), naive.levels(side));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn the_fast_book_is_the_naive_book(
            start in prop::collection::vec(change(), 0..40),
            cuts in prop::collection::vec((prop::collection::vec(change(), 0..12), prop::option::of(1_usize..6)), 0..12),
        ) {
            let (mut book, mut naive) = (Book::default(), NaiveBook::default());
            book.replace(&start, SCALE, Window::Whole, &mut Vec::new());
            naive.replace(&start);
            let mut shown = naive.clone();
            for (changes, depth) in cuts {
                for change in changes {
                    book.apply(change);
                    naive.apply(change);
                }
                agree(&book, &naive)?;
                if let Some(depth) = depth {
                    book.truncate(depth, &mut Vec::new());
                    naive.truncate(depth);
                }
                let mut net = Vec::new();
                book.close_cut(&mut net);
                agree(&book, &naive)?;
                prop_assert_eq!(book.len(), book.ticks().count());
                // The net changes carry the state of the last cut to this one, and say nothing superfluous.
                for side in Side::BOTH {
                    let mut levels: std::collections::BTreeMap<i64, U256> =
                        shown.levels(side).into_iter().map(|level| (level.tick_index, level.quantity)).collect();
                    for change in net.iter().filter(|change| change.side == side) {
                        let before = levels.insert(change.level.tick_index, change.level.quantity);
                        prop_assert_ne!(before.unwrap_or_default(), change.level.quantity);
                    }
                    levels.retain(|_, quantity| !quantity.is_zero());
                    let right = naive.levels(side).into_iter().map(|level| (level.tick_index, level.quantity)).collect();
                    prop_assert_eq!(levels, right);
                }
                shown = naive.clone();
            }
        }
    }
}
