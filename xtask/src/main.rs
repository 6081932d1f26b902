//! The single entry point of the workspace: `cargo xtask demo | test | ci | bench | fuzz | golden`.
//!
//! Never: logic; every command has a file of its own.

mod arrows;
mod bench;
mod ci;
mod demo;
mod fuzz;
mod golden;
mod process;
mod stages;
mod test;
mod text;
mod tools;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use workspace::Workspace;

/// Everything that is done with this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what is missing, build in release and run the server on a simulated market.
    Demo(demo::Arguments),
    /// Install what is missing, fetch the engine once and run every test.
    Test(test::Arguments),
    /// Check format, texts, dependency arrows, licences and lints.
    Ci(ci::Arguments),
    /// Measure a part in release.
    Bench(bench::Arguments),
    /// Run a fuzz target; needs a nightly compiler.
    Fuzz(fuzz::Arguments),
    /// Write the golden bytes of the wire anew; review the difference before committing it.
    Golden,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = Workspace::find().and_then(|workspace| match arguments.command {
        Command::Demo(arguments) => demo::run(&workspace, &arguments),
        Command::Test(arguments) => test::run(&workspace, &arguments),
        Command::Ci(arguments) => ci::run(&workspace, &arguments),
        Command::Bench(arguments) => bench::run(&workspace, &arguments),
        Command::Fuzz(arguments) => fuzz::run(&workspace, &arguments),
        Command::Golden => golden::run(&workspace),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
