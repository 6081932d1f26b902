//! Large batches measured through everything: a Pub/Sub server in this process, the real binary as a process with its own
//! engine, a real receiver; and plain inserts of the same content and rows into the same engine, in turn in one run.
//!
//! Never: a failure because of a time; it fails when a row or a version is missing.

mod chain;
mod plain;
mod report;
mod stage;
mod usage;

pub use report::BatchReport;

use anyhow::{Result, ensure};
use chain::{Chain, Prepared};
use plain::{Plain, PlainCosts};
use report::Peaks;
use stage::{Costs, Stage};
use std::{path::PathBuf, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// A block that does not get on for so long has failed: the largest takes seconds in release, and machines are busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// Threads for publishing, pulling and the receiver: those of the Pub/Sub server are its own.
const THREADS: usize = 2;

/// What is measured.
#[derive(Clone, Debug)]
pub struct BatchOptions {
    /// The binary `sprag`.
    pub sprag: PathBuf,
    /// Blocks of each series.
    pub rounds: usize,
    /// Small blocks before them, which count for nothing.
    pub warm_up: usize,
    /// `TickUpdate`s of each of those, about.
    pub warm_up_ticks: usize,
    /// Bytes of a block of the first series, about; 0 for none.
    pub bytes: usize,
    /// `TickUpdate`s of a block of the second series, about; fewer if their block would be too large; 0 for none.
    pub ticks: usize,
    /// Pairs of the exchange.
    pub pairs: usize,
    /// Live ticks of a pair that orders and pools come to in the long run.
    pub ticks_per_pair: usize,
}

/// What a block took.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Bytes of the content, and of what was sent.
    bytes: [usize; 2],
    /// Events of all kinds.
    events: u64,
    /// `TickUpdate`s that count: rows of the store.
    ticks: usize,
    costs: Costs,
    /// From accepted to streamed to a bare subscriber, milliseconds.
    hop_ms: f64,
    plain: PlainCosts,
}

/// Blocks of one kind.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    rounds: Vec<Round>,
    /// Of the server and of its engine after the last block.
    peaks: Peaks,
}

/// Everything that takes part.
struct Bench {
    // Dropped in this order: the engine goes with the server.
    plain: Plain,
    stage: Stage,
    runtime: Runtime,
}

/// Measures; tells each block as it is done.
///
/// # Errors
/// A server that does not come up, a block that does not get on, rows that are missing.
pub fn run(options: &BatchOptions, mut told: impl FnMut(&str)) -> Result<BatchReport> {
    let BatchOptions { bytes, ticks, rounds, warm_up, .. } = *options;
    ensure!(rounds > 0 && options.pairs > 0 && bytes.max(ticks) > 0, "nothing to measure");
    let load_before = usage::load()?;
    let mut chain = Chain::new(options);
    let mut bench = Bench::start(options, &chain)?;
    for block in chain.of_ticks(options.warm_up_ticks).take(warm_up) {
        bench.round(&block?)?;
    }
    let mut all = Vec::new();
    if bytes > 0 {
        let name = format!("blocks of {}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000);
        all.push(bench.series(name, rounds, chain.of_bytes(bytes), &mut told)?);
    }
    if ticks > 0 {
        let name = format!("blocks of {ticks} ticks");
        all.push(bench.series(name, rounds, chain.of_ticks(ticks), &mut told)?);
    }
    Ok(BatchReport { series: all, load: [load_before, usage::load()?] })
}

impl Bench {
    fn start(options: &BatchOptions, chain: &Chain) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let stage = Stage::start(&runtime, &options.sprag, chain.height())?;
        let plain = Plain::new(stage.store(), stage.engine())?;
        Ok(Self { plain, stage, runtime })
    }

    fn series(
        &mut self,
        name: String,
        rounds: usize,
        blocks: impl Iterator<Item = Result<Prepared>>,
        told: &mut impl FnMut(&str),
    ) -> Result<Series> {
        let mut series = Series { name, rounds: Vec::with_capacity(rounds), peaks: Peaks::default() };
        for block in blocks.take(rounds) {
            let round = self.round(&block?)?;
            told(&format!("{}: {round}", series.name));
            series.rounds.push(round);
        }
        series.peaks = self.stage.peaks()?;
        Ok(series)
    }

    fn round(&mut self, block: &Prepared) -> Result<Round> {
        let costs = self.runtime.block_on(self.stage.take(block))?;
        let hop_ms = self.runtime.block_on(self.stage.hop(block))?;
        let plain = self.plain.insert(block)?;
        let bytes = [block.content.len(), costs.packed_bytes];
        Ok(Round { bytes, events: block.events, ticks: block.ticks, costs, hop_ms, plain })
    }
}
