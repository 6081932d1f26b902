//! A made-up Neutron exchange: from one seed the blocks of a chain with limit orders that expire, pools, swaps, transactions
//! that fail and what other modules say, in each dialect of the node. Real blocks with heights are rare.
//!
//! What happens depends on the seed and the sizes alone; the dialect is only how it is told.
//!
//! Never: a state read back from what was written; it is kept beside it, so that decoders can be held against it.

mod chance;
mod exchange;
mod json;

use self::{
    chance::Chance,
    exchange::{Key, Maker, Pair, Resting},
    json::Writer,
};
use market::{
    U256,
    batch::{BatchId, BatchKind, BatchName},
};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, sync::Arc};

/// Most bytes of a block that can be asked for; what a decoder takes at most is more.
pub const BYTES_TARGET_MAX: usize = 25_000_000;

/// Most heights without a batch in a row.
const OMITTED_MAX: u64 = 5;

/// Ticks that one action of a user touches at most; beyond it a swap stops.
const TOUCHED_MAX: usize = 64;

/// How long the longest order lives, blocks.
const LIFE_BLOCKS_MAX: u64 = 400;

/// How a block is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Names and values in base64.
    Tendermint034,
    /// Text, the events of the block in two lists.
    Comet037,
    /// Text, the events of the block in one list, each with its mode.
    #[default]
    Comet038,
    /// One after the other, by height.
    Mixed,
}

/// What is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DexOptions {
    /// The one source of everything that happens.
    pub seed: u64,
    /// Pairs, at least one.
    pub pairs: usize,
    /// Live ticks of a pair that orders and pools come to in the long run.
    pub ticks_per_pair: usize,
    /// `TickUpdate`s of a block that count, about.
    pub events_per_block: usize,
    /// Transactions that fail, in 1/256.
    pub failed_share: u32,
    /// Times that heights without a batch come before a block, in 1/256.
    pub omit_share: u32,
    /// How it is told.
    pub dialect: Dialect,
    /// Bytes that a block comes to in the newest dialect, about: what is missing other modules say, and when it is reached no
    /// more happens. 0 for whatever it comes to; at most [`BYTES_TARGET_MAX`]. CometBFT 0.37 is somewhat less.
    pub bytes_target: usize,
    /// Time between two blocks, milliseconds.
    pub block_time_ms: u64,
    /// Height of the first block; the one before it is one lower.
    pub start_height: u64,
    /// Time of the first block, Unix nanoseconds.
    pub start_time_ns: u64,
}

impl Default for DexOptions {
    /// A small exchange.
    fn default() -> Self {
        Self {
            seed: 1,
            pairs: 4,
            ticks_per_pair: 200,
            events_per_block: 60,
            failed_share: 24,
            omit_share: 40,
            dialect: Dialect::default(),
            bytes_target: 0,
            block_time_ms: 900,
            start_height: 1_000,
            start_time_ns: 1_700_000_000_000_000_000,
        }
    }
}

/// A batch of the made-up stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedBatch {
    /// Its name.
    pub name: BatchName,
    /// The block's time, Unix nanoseconds.
    pub block_time_ns: u64,
    /// The document.
    pub content: Vec<u8>,
}

/// A live tick, in the venue's own words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveTick {
    /// The lesser of both tokens.
    pub token_zero: Arc<str>,
    /// The greater.
    pub token_one: Arc<str>,
    /// The one that rests.
    pub token_in: Arc<str>,
    /// The price's exponent, of the other token for one of `token_in`.
    pub tick_index: i64,
    /// The pool's fee; none of an order.
    pub fee: Option<u32>,
    /// The order's tranche; none of a pool.
    pub tranche_key: Option<Arc<str>>,
    /// In steps of 10^-27.
    pub reserves: U256,
}

/// Something that stands in a block.
#[derive(Clone, Debug)]
enum Happening {
    /// A `TickUpdate`: of which pair, and what rests there now; swapped amounts where there were any.
    Tick { pair: usize, key: Key, reserves: U256, swapped: Option<[U256; 2]> },
    /// Something of another module; the number makes it up.
    Other(u64),
}

/// A transaction of a block.
#[derive(Clone, Debug, Default)]
struct Transaction {
    failed: bool,
    happenings: Vec<Happening>,
}

/// A block before it is told.
#[derive(Clone, Debug, Default)]
struct Told {
    begin: Vec<Happening>,
    transactions: Vec<Transaction>,
    end: Vec<Happening>,
    /// Ticks that count.
    ticks: usize,
    /// Bytes of it as text, about.
    bytes: usize,
}

/// The chain: an endless iterator of its blocks.
#[derive(Debug)]
pub struct DexGenerator {
    options: DexOptions,
    chance: Chance,
    pairs: Vec<Pair>,
    /// Orders that end, by height: pair and key.
    ending: BTreeMap<u64, Vec<(usize, Key)>>,
    /// Height and time of the last block.
    last: (u64, u64),
    /// Blocks so far.
    blocks: u64,
    /// Numbers what other modules say.
    others: u64,
}

impl DexGenerator {
    /// The chain of the options; the same options give the same bytes.
    #[must_use]
    pub fn new(options: DexOptions) -> Self {
        let options = DexOptions {
            pairs: options.pairs.max(1),
            events_per_block: options.events_per_block.max(1),
            bytes_target: options.bytes_target.min(BYTES_TARGET_MAX),
            ..options
        };
        let mut chance = Chance::new(options.seed);
        let pairs = (0..options.pairs).map(|number| Pair::new(number, &mut chance)).collect();
        let last = (options.start_height.saturating_sub(1), options.start_time_ns);
        Self { options, chance, pairs, ending: BTreeMap::new(), last, blocks: 0, others: 0 }
    }

    /// Every live tick at the end of the last block, in the order of pairs, tokens, prices and makers.
    #[must_use]
    pub fn state(&self) -> Vec<LiveTick> {
        self.pairs.iter().flat_map(Pair::state).collect()
    }

    /// The same as a source snapshot.
    #[must_use]
    pub fn snapshot(&self) -> GeneratedBatch {
        let (height, block_time_ns) = self.last;
        let content = json::snapshot(height, &self.state()).into_bytes();
        GeneratedBatch { name: name(height, height, BatchKind::Snapshot, &content), block_time_ns, content }
    }

    /// Makes up the block of a height.
    fn block(&mut self, height: u64) -> Told {
        let mut told = Told::default();
        let mut ended = self.ending.remove(&height).unwrap_or_default();
        ended.retain(|(pair, key)| self.pairs.get_mut(*pair).is_some_and(|pair| pair.remove(key)));
        for (number, (pair, key)) in ended.into_iter().enumerate() {
            let happening = Happening::Tick { pair, key, reserves: U256::ZERO, swapped: None };
            told.bytes += json::bytes(&happening, &self.pairs);
            told.ticks += 1;
            // The chain ended orders after the transactions once, and ends them before these now.
            if number % 3 == 0 { told.end.push(happening) } else { told.begin.push(happening) }
        }
        while told.ticks < self.options.events_per_block && !self.full(&told) {
            let transaction = self.transaction(height);
            told.bytes += json::bytes_of(&transaction, &self.pairs);
            told.ticks += if transaction.failed { 0 } else { ticks(&transaction.happenings) };
            told.transactions.push(transaction);
        }
        while told.bytes < self.options.bytes_target {
            let happenings: Vec<_> = (0..8).map(|_| self.other()).collect();
            let transaction = Transaction { failed: false, happenings };
            told.bytes += json::bytes_of(&transaction, &self.pairs);
            told.transactions.push(transaction);
        }
        told.begin.push(self.other());
        told.end.push(self.other());
        told
    }

    fn full(&self, told: &Told) -> bool {
        self.options.bytes_target > 0 && told.bytes >= self.options.bytes_target
    }

    fn other(&mut self) -> Happening {
        self.others += 1;
        Happening::Other(self.others)
    }

    /// One to three actions of a user, between what other modules say of them.
    fn transaction(&mut self, height: u64) -> Transaction {
        let failed = self.chance.in_256(self.options.failed_share);
        let mut happenings = vec![self.other()];
        for _ in 0..=self.chance.below(3) {
            let at = self.chance.index(self.pairs.len());
            let Some(pair) = self.pairs.get_mut(at) else { continue };
            let resting = if failed {
                pair.in_vain(&mut self.chance)
            } else {
                pair.action(height, self.options.ticks_per_pair, &mut self.chance)
            };
            for Resting { key, reserves, swapped, ends } in resting {
                if let Some(ends) = ends {
                    self.ending.entry(ends).or_default().push((at, key.clone()));
                }
                happenings.push(Happening::Tick { pair: at, key, reserves, swapped });
            }
        }
        happenings.push(self.other());
        Transaction { failed, happenings }
    }
}

fn ticks(happenings: &[Happening]) -> usize {
    happenings.iter().filter(|happening| matches!(happening, Happening::Tick { .. })).count()
}

fn name(height: u64, previous: u64, kind: BatchKind, content: &[u8]) -> BatchName {
    BatchName { height, previous, kind, id: BatchId(Sha256::digest(content).into()) }
}

impl Iterator for DexGenerator {
    type Item = GeneratedBatch;

    fn next(&mut self) -> Option<GeneratedBatch> {
        let (previous, before_ns) = self.last;
        let omits = self.blocks > 0 && self.chance.in_256(self.options.omit_share);
        let omitted = if omits { 1 + self.chance.below(OMITTED_MAX) } else { 0 };
        let height = previous.saturating_add(1);
        // Nothing happens in the heights between, so what ends in them ends in the next block.
        let reached = height.saturating_add(omitted);
        let due: Vec<u64> = self.ending.range(..reached).map(|(height, _)| *height).collect();
        for passed in due {
            let late = self.ending.remove(&passed).unwrap_or_default();
            self.ending.entry(reached).or_default().extend(late);
        }
        let step_ns = self.options.block_time_ms.saturating_mul(1_000_000);
        let jitter_ns = self.chance.below(step_ns / 8);
        let block_time_ns = before_ns.saturating_add(step_ns.saturating_mul(omitted + 1)).saturating_add(jitter_ns);
        let told = self.block(reached);
        let dialect = match self.options.dialect {
            Dialect::Mixed => match reached % 3 {
                0 => Dialect::Tendermint034,
                1 => Dialect::Comet037,
                _ => Dialect::Comet038,
            },
            one => one,
        };
        let content = Writer::new(dialect, &self.pairs, told.bytes).block(reached, &told).into_bytes();
        self.last = (reached, block_time_ns);
        self.blocks += 1;
        Some(GeneratedBatch { name: name(reached, previous, BatchKind::Block, &content), block_time_ns, content })
    }
}

#[cfg(test)]
mod tests;
