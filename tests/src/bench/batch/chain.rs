//! The blocks that are measured: one chain of a made-up exchange, and what must come of each block.
//!
//! Never: a block made up while something is measured.

use super::{BatchOptions, stage::STREAM};
use anyhow::{Context, Result};
use bytes::Bytes;
use connectors::{
    neutron_dex::{
        BETWEEN_TOKENS,
        generator::{DexGenerator, DexOptions, GeneratedBatch},
        message::decode_block,
    },
    pubsub::header::{BatchHeader, CONTENT_BYTES_MAX, Encoding},
};
use market::{Venue, batch::place_of};
use std::{iter, sync::Arc};

/// More `TickUpdate`s than a block of any size has.
const TICKS_MAX: usize = 1_000_000;

/// Bytes that a block of so many ticks may come to: later blocks are somewhat larger than the first ones.
const ROOM: usize = CONTENT_BYTES_MAX / 10 * 9;

/// Blocks that are made up to see how large they are.
const PROBES: usize = 2;

/// A block on its way, and what must come of it.
pub(super) struct Prepared {
    pub(super) header: BatchHeader,
    pub(super) content: Bytes,
    pub(super) events: u64,
    pub(super) ticks: usize,
    /// The last change of each instrument, which its book is shown at.
    pub(super) shown: Vec<(Arc<str>, u64)>,
}

/// The chain: where it stands.
pub(super) struct Chain {
    options: DexOptions,
}

impl Chain {
    pub(super) fn new(options: &BatchOptions) -> Self {
        let BatchOptions { pairs, ticks_per_pair, .. } = *options;
        Self { options: DexOptions { pairs, ticks_per_pair, ..DexOptions::default() } }
    }

    /// The height before the next block.
    pub(super) fn height(&self) -> u64 {
        self.options.start_height.saturating_sub(1)
    }

    /// Blocks of that many bytes, about.
    pub(super) fn of_bytes(&mut self, bytes_target: usize) -> impl Iterator<Item = Result<Prepared>> {
        self.blocks(DexOptions { bytes_target, events_per_block: TICKS_MAX, ..self.options })
    }

    /// Blocks of that many `TickUpdate`s, or of as many as fit a content.
    pub(super) fn of_ticks(&mut self, ticks: usize) -> impl Iterator<Item = Result<Prepared>> {
        let mut options = DexOptions { events_per_block: ticks, ..self.options };
        loop {
            let probes = DexGenerator::new(options).take(PROBES);
            let bytes = probes.map(|batch| batch.content.len()).max().unwrap_or(0);
            if bytes <= ROOM {
                break;
            }
            // A little fewer than would just fit, so that this ends.
            let fitting = options.events_per_block.saturating_mul(ROOM) / bytes;
            options.events_per_block = fitting.saturating_sub(fitting / 50).max(1);
        }
        self.blocks(options)
    }

    /// The next blocks. The exchange itself begins anew, with the same pairs: a block says what rests at its ticks, whatever
    /// was there.
    fn blocks(&mut self, options: DexOptions) -> impl Iterator<Item = Result<Prepared>> {
        let mut generator = DexGenerator::new(options);
        iter::from_fn(move || {
            let batch = generator.next()?;
            self.options.start_height = batch.name.height.saturating_add(1);
            self.options.start_time_ns = batch.block_time_ns;
            Some(prepared(batch))
        })
    }
}

fn prepared(batch: GeneratedBatch) -> Result<Prepared> {
    let GeneratedBatch { name, block_time_ns, content } = batch;
    let block = decode_block(&content)?;
    let mut last = vec![None; block.pairs.len()];
    for tick in &block.ticks {
        *last.get_mut(tick.pair).context("a tick of no pair")? = place_of(block.height, tick.ordinal);
    }
    let venue = Venue::NeutronDex.name();
    let shown =
        block.pairs.iter().zip(last).filter_map(|((zero, one), place)| {
            Some((Arc::from(format!("{venue}/{zero}{BETWEEN_TOKENS}{one}")), place?))
        });
    let header = BatchHeader {
        stream: STREAM.into(),
        kind: name.kind,
        height: name.height,
        previous: name.previous,
        id: name.id,
        encoding: Encoding::Zstd,
        block_time_ns,
        part: 0,
        parts: 1,
    };
    let shown = shown.collect();
    Ok(Prepared { header, content: content.into(), events: block.events, ticks: block.ticks.len(), shown })
}
