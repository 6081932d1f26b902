//! `cargo xtask bench checkpoint`: the checkpoint's codec against others, and a whole checkpoint.
//!
//! Never: a failure because of a time; it fails only if a codec gives other records back.

use anyhow::Result;
use clap::Parser;
use sprag_tests::bench::checkpoint::{self, CheckpointOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "CPU time of the checkpoint's codec and of others, in turn, and of a whole checkpoint.")]
struct Arguments {
    /// Instruments.
    #[arg(long, default_value_t = 2_400)]
    instruments: u32,
    /// Levels of each instrument, both sides together.
    #[arg(long, default_value_t = 400)]
    levels: u32,
    /// Rounds of each way.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
}

fn main() -> Result<()> {
    let Arguments { instruments, levels, rounds } = Arguments::parse();
    println!("{}", checkpoint::run(CheckpointOptions { instruments, levels, rounds })?.text()?);
    Ok(())
}
