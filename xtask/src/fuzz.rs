//! `cargo xtask fuzz`: a fuzz target for as long as one likes, from seeds made of the recordings. Needs a nightly compiler.
//!
//! Never: part of the ordinary tests; those run the same functions for a short while.

use crate::{process, tools, workspace::Workspace};
use anyhow::Result;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which: `feed` (decoders and lanes) or `answers` (what live connections read).
    #[arg(value_parser = ["feed", "answers"], default_value = "feed")]
    target: String,
    /// For how long.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let tool = tools::cargo_tool(workspace, &tools::FUZZ)?;
    let seeds = workspace.target().join("fuzz-seeds");
    let line = ["run", "--locked", "-p", "sprag-tests", "--bin", "fuzz-seeds", "--"];
    process::run(workspace.cargo(&line).arg(&seeds))?;
    let found = workspace.target().join("fuzz-corpus").join(&arguments.target);
    std::fs::create_dir_all(&found)?;
    let mut command = Command::new(tool);
    command.current_dir(workspace.root()).env("RUSTUP_TOOLCHAIN", "nightly").env_remove("CARGO");
    command.args(["fuzz", "run", "--fuzz-dir", "tests/fuzz", "--target-dir"]).arg(workspace.target().join("fuzz"));
    command.arg(&arguments.target).arg(&found).arg(&seeds).arg("--");
    process::run(command.arg(format!("-max_total_time={}", arguments.seconds)))
}
