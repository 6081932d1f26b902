//! `cargo xtask bench batch`: large batches through the whole binary, against plain inserts.
//!
//! Never: a failure because of a time; it fails only if a row or a version is missing.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use sprag_tests::bench::batch::{self, BatchOptions};
use std::{env, path::PathBuf};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Time and memory of large batches from Pub/Sub to the store and a screen, against plain inserts.")]
struct Arguments {
    /// The binary that is measured; by default the one beside this program.
    #[arg(long, value_name = "PATH")]
    sprag: Option<PathBuf>,
    /// Blocks of each series.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Bytes of a block of the first series; 0 for none.
    #[arg(long, default_value_t = 25_000_000)]
    bytes: usize,
    /// Tick updates of a block of the second series, fewer if a block would not hold them; 0 for none.
    #[arg(long, default_value_t = 100_000)]
    events: usize,
    /// Small blocks before them.
    #[arg(long, default_value_t = 5)]
    warm_up: usize,
    /// Pairs of the exchange.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Live ticks of a pair in the long run.
    #[arg(long, default_value_t = 3_000)]
    ticks: usize,
}

/// Tick updates of a small block.
const WARM_UP_TICKS: usize = 2_000;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let beside = env::current_exe()?.with_file_name("sprag");
    let sprag = arguments.sprag.unwrap_or(beside).canonicalize();
    let sprag = sprag.context("no binary; `cargo build --release -p sprag-server --bin sprag` makes it")?;
    ensure!(sprag.is_file(), "{} is no program", sprag.display());
    let options = BatchOptions {
        sprag,
        rounds: arguments.rounds,
        warm_up: arguments.warm_up,
        warm_up_ticks: WARM_UP_TICKS,
        bytes: arguments.bytes,
        ticks: arguments.events,
        pairs: arguments.pairs,
        ticks_per_pair: arguments.ticks,
    };
    println!("{}", batch::run(&options, |line| eprintln!("{line}"))?.text()?);
    Ok(())
}
