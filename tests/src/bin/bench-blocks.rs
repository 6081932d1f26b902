//! `bench-blocks [BYTES] [BLOCKS]`: how long the decoder of Neutron's blocks takes for large ones, in each dialect.
//!
//! Never: a verdict; the numbers are for whoever runs it.

use anyhow::{Context, Result};
use connectors::neutron_dex::{
    generator::{DexGenerator, DexOptions, Dialect},
    message::decode_block,
};
use mimalloc::MiMalloc;
use std::{env, hint::black_box, time::Instant};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Bytes of a block, unless told otherwise: the largest that is expected.
const BYTES: usize = 25_000_000;
/// Blocks of each dialect, unless told otherwise.
const BLOCKS: usize = 5;
/// More `TickUpdate`s than fit a block.
const EVENTS: usize = 200_000;

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let mut number = |otherwise: usize| arguments.next().map_or(Ok(otherwise), |text| text.parse().context("a number"));
    let (bytes_target, blocks) = (number(BYTES)?, number(BLOCKS)?);
    for dialect in [Dialect::Tendermint034, Dialect::Comet037, Dialect::Comet038] {
        let options = DexOptions {
            pairs: 20,
            ticks_per_pair: 3_000,
            events_per_block: EVENTS,
            bytes_target,
            dialect,
            ..DexOptions::default()
        };
        for batch in DexGenerator::new(options).take(blocks) {
            let started = Instant::now();
            let block = black_box(decode_block(black_box(&batch.content))?);
            let took = started.elapsed();
            let (bytes, ticks) = (batch.content.len(), block.ticks.len());
            println!("{dialect:?}: {bytes} bytes, {} events, {ticks} ticks: {took:.3?}", block.events);
        }
    }
    Ok(())
}
