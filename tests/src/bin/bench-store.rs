//! `cargo xtask bench store`: what people ask of the store, beside the naive ways to ask it, and what an insert costs.
//!
//! Never: a failure because of a time; it fails only if two ways that are right give different answers.

use anyhow::Result;
use clap::Parser;
use sprag_tests::bench::store::{self, StoreOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Queries of state and changes on merged and on unmerged parts, and inserts with and without views.")]
struct Arguments {
    /// Updates.
    #[arg(long, default_value_t = 10_000_000)]
    updates: u64,
    /// Ticks that these are of.
    #[arg(long, default_value_t = 5_000)]
    ticks: u64,
    /// Inserts, and so parts.
    #[arg(long, default_value_t = 100)]
    parts: u64,
    /// Rounds of each query and insert.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

fn main() -> Result<()> {
    let Arguments { updates, ticks, parts, rounds } = Arguments::parse();
    let options = StoreOptions { updates, ticks, parts, rounds };
    println!("{}", store::run(options, |line| eprintln!("{line}"))?.text()?);
    Ok(())
}
