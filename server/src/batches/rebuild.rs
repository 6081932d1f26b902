//! How a stream is rebuilt from its log: a state, and every logged batch above it, each tick's last word counting.
//!
//! Never: a batch held in memory after it was put in.

use connectors::neutron_dex::{Block, BlockTick, message::symbol};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use market::{
    Side, U256,
    batch::{end_of, place_of},
};
use std::sync::Arc;

/// Names a tick within a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    pair: Arc<str>,
    side: Side,
    tick_index: i64,
    fee: u32,
    tranche: Box<str>,
}

/// One instrument as it comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rebuilt {
    /// Position of its last change.
    pub(super) place: u64,
    /// Its live ticks, as those of a block with this one pair.
    pub(super) book: Block,
}

/// The state that a stream is rebuilt into.
#[derive(Debug, Default)]
pub(super) struct Rebuilding {
    ticks: HashMap<Key, U256>,
    /// By pair, the position of the last change above the beginning.
    places: HashMap<Arc<str>, u64>,
    pairs: HashMap<Arc<str>, (Box<str>, Box<str>)>,
    /// The pairs that must be rebuilt; none for all.
    wanted: Option<HashSet<Arc<str>>>,
}

/// One tick of the state that it begins from.
#[derive(Clone, Debug)]
pub(super) struct Begun<'a> {
    pub(super) token_0: &'a str,
    pub(super) token_1: &'a str,
    pub(super) side: Side,
    pub(super) tick_index: i64,
    pub(super) fee: u32,
    pub(super) tranche: &'a str,
    pub(super) reserves: U256,
}

impl Rebuilding {
    /// Rebuilds these instruments and no others.
    pub(super) fn only(wanted: Vec<Box<str>>) -> Self {
        Self { wanted: Some(wanted.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Takes one tick of the state that it begins from.
    pub(super) fn begin(&mut self, tick: &Begun<'_>) {
        let pair = self.pair(tick.token_0, tick.token_1);
        let key =
            Key { pair, side: tick.side, tick_index: tick.tick_index, fee: tick.fee, tranche: tick.tranche.into() };
        self.ticks.insert(key, tick.reserves);
    }

    /// Takes a snapshot as the state that it begins from; all pairs are rebuilt then, down to where the snapshot stands.
    pub(super) fn begin_snapshot(&mut self, block: &Block) {
        self.wanted = None;
        self.snapshot(block);
    }

    /// Puts in a snapshot that stands in the log: what it does not name is dead.
    pub(super) fn snapshot(&mut self, block: &Block) {
        self.ticks.clear();
        self.put(block, |_| Some(end_of(block.height)));
    }

    /// Puts in the next block of the log.
    pub(super) fn block(&mut self, block: &Block) {
        self.put(block, |tick| place_of(block.height, tick.ordinal));
    }

    /// Says that the pairs of a late block must be rebuilt.
    pub(super) fn want(&mut self, block: &Block) {
        let pairs: Vec<_> = block.pairs.iter().map(|(zero, one)| self.pair(zero, one)).collect();
        self.wanted.get_or_insert_with(HashSet::new).extend(pairs);
    }

    fn pair(&mut self, token_0: &str, token_1: &str) -> Arc<str> {
        let name: Arc<str> = symbol(token_0, token_1).into();
        self.pairs.entry(Arc::clone(&name)).or_insert_with(|| (token_0.into(), token_1.into()));
        name
    }

    fn put(&mut self, block: &Block, place: impl Fn(&BlockTick) -> Option<u64>) {
        let pairs: Vec<_> = block.pairs.iter().map(|(zero, one)| self.pair(zero, one)).collect();
        for tick in &block.ticks {
            let Some(pair) = pairs.get(tick.pair) else { continue };
            let key = Key {
                pair: Arc::clone(pair),
                side: tick.side,
                tick_index: tick.tick_index,
                fee: tick.fee,
                tranche: tick.tranche.clone(),
            };
            if tick.reserves.is_zero() {
                self.ticks.remove(&key);
            } else {
                self.ticks.insert(key, tick.reserves);
            }
            if let Some(place) = place(tick) {
                let last = self.places.entry(Arc::clone(pair)).or_default();
                *last = place.max(*last);
            }
        }
    }

    /// The instruments that are to be shown anew, by name; those that nothing changed since the beginning are right as
    /// they are.
    pub(super) fn finish(self) -> Vec<Rebuilt> {
        let Self { ticks, places, pairs, wanted } = self;
        let wanted = |pair: &Arc<str>| wanted.as_ref().is_none_or(|wanted| wanted.contains(pair));
        let mut books: HashMap<Arc<str>, Rebuilt> = HashMap::new();
        for (pair, place) in places.into_iter().filter(|(pair, _)| wanted(pair)) {
            let Some(tokens) = pairs.get(&pair) else { continue };
            let book =
                Block { height: market::batch::height_of(place), pairs: vec![tokens.clone()], ..Block::default() };
            books.insert(pair, Rebuilt { place, book });
        }
        for (key, reserves) in ticks {
            if let Some(rebuilt) = books.get_mut(&key.pair) {
                let Key { side, tick_index, fee, tranche, .. } = key;
                rebuilt.book.ticks.push(BlockTick { ordinal: 0, pair: 0, side, tick_index, fee, tranche, reserves });
            }
        }
        let mut books: Vec<_> = books.into_iter().collect();
        books.sort_by(|(left, _), (right, _)| left.cmp(right));
        let order = |tick: &BlockTick| (tick.side, tick.tick_index, tick.fee, tick.tranche.clone());
        let sorted = |(_, mut rebuilt): (Arc<str>, Rebuilt)| {
            rebuilt.book.ticks.sort_by_cached_key(order);
            rebuilt
        };
        books.into_iter().map(sorted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(height: u64, ticks: &[(u64, i64, u64)]) -> Block {
        let tick = |(ordinal, tick_index, reserves): &(u64, i64, u64)| BlockTick {
            ordinal: *ordinal,
            pair: 0,
            side: Side::Ask,
            tick_index: *tick_index,
            fee: 1,
            tranche: Box::default(),
            reserves: U256::from(*reserves),
        };
        Block {
            height,
            events: 9,
            failed: 0,
            pairs: vec![("A".into(), "B".into())],
            ticks: ticks.iter().map(tick).collect(),
        }
    }

    #[test]
    fn only_what_is_wanted_comes_out_of_the_whole_log() {
        let other = Block { pairs: vec![("C".into(), "B".into())], ..block(4, &[(0, 9, 5)]) };
        let mut rebuilding = Rebuilding::only(vec![symbol("A", "B").into()]);
        rebuilding.snapshot(&block(3, &[(0, 1, 4), (1, 2, 4)]));
        rebuilding.block(&other);
        rebuilding.block(&block(5, &[(2, 1, 0)]));
        let rebuilt = rebuilding.finish();
        let [rebuilt] = &rebuilt[..] else { panic!("{rebuilt:?}") };
        let ticks: Vec<_> = rebuilt.book.ticks.iter().map(|tick| tick.tick_index).collect();
        assert_eq!((ticks, Some(rebuilt.place)), (vec![2], place_of(5, 2)));
    }

    #[test]
    fn the_last_word_counts_and_untouched_pairs_are_left_alone() {
        let mut rebuilding = Rebuilding::default();
        for (token_0, tick_index) in [("A", 1), ("A", 2), ("C", 9)] {
            let reserves = U256::from(5_u64);
            let (side, token_1, tranche) = (Side::Ask, "B", "");
            rebuilding.begin(&Begun { token_0, token_1, side, tick_index, fee: 1, tranche, reserves });
        }
        rebuilding.want(&block(3, &[(0, 1, 0)]));
        for next in [block(3, &[(0, 1, 0), (1, 3, 7)]), block(5, &[(4, 3, 8)])] {
            rebuilding.block(&next);
        }
        let rebuilt = rebuilding.finish();
        assert_eq!(rebuilt.len(), 1, "C<>B had no change");
        let ticks: Vec<_> = rebuilt[0].book.ticks.iter().map(|tick| (tick.tick_index, tick.reserves)).collect();
        assert_eq!(ticks, [(2, U256::from(5_u64)), (3, U256::from(8_u64))]);
        assert_eq!(Some(rebuilt[0].place), place_of(5, 4));
    }
}
