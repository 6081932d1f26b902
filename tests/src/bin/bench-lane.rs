//! `cargo xtask bench lane`: the lane through timely against the same lane in a loop written by hand.
//!
//! Never: a failure because of a wall time; it fails only if the two ways end at different books.

use anyhow::Result;
use clap::Parser;
use sprag_tests::bench::{self, Options, Round};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Updates that a second of a round stands for, per worker: the goal's rate, so that a round that meets it is shorter.
const UPDATES_PER_SECOND: u32 = 1_000_000;

#[derive(Parser)]
#[command(about = "CPU time and rate of a lane, through timely and by hand, in turn.")]
struct Arguments {
    /// Length of a round at 1 M updates/s per worker.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds of each way.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Workers; more than cores measures the machine's scheduler.
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// Instruments.
    #[arg(long, default_value_t = 2_400)]
    instruments: u32,
    /// Live ticks of each instrument at the begin.
    #[arg(long, default_value_t = 1_000)]
    ticks: u32,
    /// Also hand on what a store keeps.
    #[arg(long)]
    store: bool,
    /// Also keep the consolidated best: by differential dataflow, and by hand.
    #[arg(long)]
    best: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let wanted = Duration::try_from_secs_f64(arguments.seconds)?.saturating_mul(UPDATES_PER_SECOND);
    let options = Options {
        updates: wanted.as_secs().saturating_mul(u64::from(arguments.workers)).clamp(1_000, u64::from(u32::MAX)),
        rounds: arguments.rounds,
        workers: usize::from(arguments.workers),
        instruments: arguments.instruments,
        ticks: arguments.ticks,
        store: arguments.store,
        best: arguments.best,
    };
    let told = |round: &Round| {
        let Round { way, cpu, wall, cuts, rows, .. } = round;
        eprintln!("{way:?}: {cpu:.2?} of CPU, {wall:.2?} of wall time, {cuts} cuts, {rows} level changes published");
    };
    let report = bench::run(&options, told)?;
    let memory = bench::memory()?;
    if arguments.json {
        let mut json = report.json()?;
        json["rss_bytes"] = memory.now.into();
        json["rss_peak_bytes"] = memory.peak.into();
        println!("{json:#}");
    } else {
        println!("{}", report.text()?);
        println!("RSS {} MiB now, {} MiB at its peak", memory.now >> 20, memory.peak >> 20);
    }
    Ok(())
}
