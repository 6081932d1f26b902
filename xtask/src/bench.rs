//! `cargo xtask bench`: measurements, always in release.
//!
//! Never: a measurement itself; those are programs of `sprag-tests`.

use crate::{process, workspace::Workspace};
use anyhow::Result;
use std::ffi::OsString;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Updates per second through a lane.
    Lane {
        /// Passed on to the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<OsString>,
    },
    /// The checkpoint's codec against others, and a whole checkpoint.
    Checkpoint {
        /// Passed on to the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<OsString>,
    },
    /// What people ask of the store, beside naive ways; inserts with and without views.
    Store {
        /// Passed on to the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<OsString>,
    },
    /// Large batches through the whole binary, against plain inserts.
    Batch {
        /// Passed on to the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<OsString>,
    },
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let (program, rest) = match &arguments.part {
        Part::Lane { rest } => ("bench-lane", rest),
        Part::Checkpoint { rest } => ("bench-checkpoint", rest),
        Part::Store { rest } => ("bench-store", rest),
        Part::Batch { rest } => {
            // What is measured is the binary itself; the program looks for it beside its own.
            let build = ["build", "--locked", "--release", "-p", "sprag-server", "--bin", "sprag"];
            process::run(&mut workspace.cargo(&build))?;
            ("bench-batch", rest)
        }
    };
    let line = ["run", "--locked", "--release", "-p", "sprag-tests", "--bin", program, "--"];
    process::run(workspace.cargo(&line).args(rest))
}
