//! A made-up chain with the right books after each of its blocks.
//!
//! Never: a book that a decoder has read.

use crate::books::{Book, canonical};
use connectors::neutron_dex::{
    feed::SCALE,
    generator::{DexGenerator, DexOptions, Dialect, GeneratedBatch, LiveTick},
};
use market::U256;
use std::{collections::BTreeMap, sync::Arc};

/// Price in steps and quantity of each level, best first; bids and asks.
pub(super) type Ticks = [Vec<(i64, U256)>; 2];

/// Books by the instrument's name.
pub(super) type Ladders = BTreeMap<String, Ticks>;

/// The height before the first block.
pub(super) const BEFORE: u64 = 999;

/// The right books after each block, by height.
#[derive(Debug, Default)]
pub(super) struct Truth(BTreeMap<u64, Ladders>);

impl Truth {
    /// The books after the last block up to that height.
    pub(super) fn at(&self, height: u64) -> Option<&Ladders> {
        self.0.range(..=height).next_back().map(|(_, ladders)| ladders)
    }

    /// What is wrong with a book that is shown as the one of that height.
    pub(super) fn fault(&self, instrument: &str, height: u64, shown: &Ticks) -> Option<String> {
        let right = self.at(height).and_then(|ladders| ladders.get(instrument)).cloned().unwrap_or_default();
        (right != *shown).then(|| {
            let [bids, asks] = [0, 1].map(|side| (right[side].len(), shown[side].len()));
            let differs = |side: usize| {
                shown[side]
                    .iter()
                    .find(|level| !right[side].contains(level))
                    .or_else(|| right[side].iter().find(|level| !shown[side].contains(level)))
            };
            let (bid, ask) = (differs(0), differs(1));
            format!("{instrument} is wrong at height {height}: bids {bids:?} {bid:?}, asks {asks:?} {ask:?}")
        })
    }
}

/// Blocks, and the truth after each.
pub(super) struct Chain {
    pub(super) batches: Vec<GeneratedBatch>,
    /// The whole state after each block, as a source snapshot.
    pub(super) snapshots: Vec<GeneratedBatch>,
    pub(super) ticks: Vec<LiveTick>,
    pub(super) truth: Arc<Truth>,
}

/// A small exchange, told in every dialect.
pub(super) fn options(seed: u64) -> DexOptions {
    let small = DexOptions { pairs: 3, ticks_per_pair: 40, events_per_block: 24, ..DexOptions::default() };
    DexOptions { seed, dialect: Dialect::Mixed, start_height: BEFORE + 1, ..small }
}

impl Chain {
    pub(super) fn of(options: DexOptions, blocks: usize) -> Self {
        let mut generator = DexGenerator::new(options);
        let (mut batches, mut snapshots) = (Vec::new(), Vec::new());
        let mut truth = Truth(BTreeMap::from([(0, Ladders::new())]));
        for _ in 0..blocks {
            let batch = generator.next().unwrap();
            truth.0.insert(batch.name.height, ladders(&generator.state()));
            batches.push(batch);
            snapshots.push(generator.snapshot());
        }
        Self { batches, snapshots, ticks: generator.state(), truth: Arc::new(truth) }
    }

    pub(super) fn height(&self, at: usize) -> u64 {
        self.batches[at].name.height
    }

    /// The books after a block.
    pub(super) fn after(&self, at: usize) -> Ladders {
        self.truth.at(self.height(at)).unwrap().clone()
    }
}

/// The name of a tick's instrument.
pub(super) fn instrument(tick: &LiveTick) -> String {
    format!("neutron_dex/{}<>{}", tick.token_zero, tick.token_one)
}

fn ladders(ticks: &[LiveTick]) -> Ladders {
    let mut sums: BTreeMap<String, [BTreeMap<i64, U256>; 2]> = BTreeMap::new();
    for tick in ticks {
        let sides = sums.entry(instrument(tick)).or_default();
        let bid = tick.token_in == tick.token_one;
        let (side, price) = if bid { (0, -tick.tick_index) } else { (1, tick.tick_index) };
        *sides[side].entry(price).or_default() += tick.reserves;
    }
    let ticks = |[bids, asks]: [BTreeMap<i64, U256>; 2]| [bids.into_iter().rev().collect(), asks.into_iter().collect()];
    sums.into_iter().map(|(name, sides)| (name, ticks(sides))).collect()
}

/// Books as HTTP tells them.
pub(super) fn as_text(ladders: &Ladders) -> BTreeMap<String, Book> {
    let level = |(price, quantity): &(i64, U256)| {
        (canonical(&SCALE.price_text(*price)), canonical(&SCALE.quantity_text(*quantity)))
    };
    let book = |ticks: &Ticks| ticks.each_ref().map(|side| side.iter().map(level).collect());
    ladders.iter().map(|(name, ticks)| (name.clone(), book(ticks))).collect()
}
