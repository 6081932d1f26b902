//! `cargo xtask demo`: from a fresh checkout to a running server.
//!
//! Never: a process between the caller and the server; it takes this one's place, signals included.

use crate::{process, tools, workspace::Workspace};
use anyhow::{Context, Result};
use std::{ffi::OsString, os::unix::process::CommandExt, process::Command};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build optimised, which is the default.
    #[arg(long, conflicts_with = "dev")]
    release: bool,
    /// Build as tests are built: sooner there, slower then.
    #[arg(long)]
    dev: bool,
    /// Passed on to `sprag run`.
    #[arg(last = true)]
    rest: Vec<OsString>,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    tools::install(&[tools::NODE, tools::NPM, tools::ZSTD, tools::PYTHON])?;
    let mut build = workspace.cargo(&["build", "--locked", "-p", "sprag-server", "--bin", "sprag"]);
    let profile = if arguments.dev { "debug" } else { "release" };
    if !arguments.dev {
        build.arg("--release");
    }
    process::run(&mut build)?;
    let program = workspace.sprag(profile);
    println!("$ sprag run");
    let error = Command::new(&program).arg("run").args(&arguments.rest).current_dir(workspace.root()).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
