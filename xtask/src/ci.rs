//! `cargo xtask ci`: everything that is judged without running the project.
//!
//! Never: a change to a file.

use crate::{arrows, process, stages::Stages, text, tools, workspace::Workspace};
use anyhow::Result;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also judge known vulnerabilities, which needs the advisory database from the network.
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let mut stages = Stages::new();
    stages.run("texts", || text::check(workspace.root()));
    stages.run("arrows", || arrows::check(workspace));
    stages.run("format", || process::run(&mut workspace.cargo(&["fmt", "--all", "--check"])));
    stages.run("deny", || deny(workspace, arguments.advisories));
    stages.run("clippy", || clippy(workspace));
    stages.finish()
}

fn deny(workspace: &Workspace, advisories: bool) -> Result<()> {
    let mut command = Command::new(tools::cargo_tool(workspace, &tools::DENY)?);
    // Duplicates are for a person who looks for them; here they would bury what fails.
    command.current_dir(workspace.root()).args(["--log-level", "error", "--locked", "check"]);
    if advisories {
        command.arg("advisories");
    }
    process::run(command.args(["bans", "licenses", "sources"]))
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let line = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    process::run(&mut workspace.cargo(&line))
}
