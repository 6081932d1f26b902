//! `cargo xtask demo`: from a fresh checkout to a running server.
//!
//! Never: a process between the caller and a server alone; it takes this one's place, signals included. Never a process
//! left behind: what runs beside the server ends with it.

use crate::{process, tools, workspace::Workspace};
use anyhow::{Context, Result, bail, ensure};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// What feeds the server.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Source {
    /// The market that the server itself simulates.
    #[default]
    Sim,
    /// A simulated exchange that publishes its blocks, and an emulator of Pub/Sub; each a process of its own.
    Pubsub,
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build optimised, which is the default.
    #[arg(long, conflicts_with = "dev")]
    release: bool,
    /// Build as tests are built: sooner there, slower then.
    #[arg(long)]
    dev: bool,
    /// What feeds the server.
    #[arg(long, value_enum, default_value_t)]
    source: Source,
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
    if matches!(arguments.source, Source::Pubsub) {
        return batches(workspace, &program, &arguments.rest);
    }
    println!("$ sprag run");
    let error = Command::new(&program).arg("run").args(&arguments.rest).current_dir(workspace.root()).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// Topic and subscription of the demonstration.
const TOPIC: &str = "projects/demo/topics/blocks";
const SUBSCRIPTION: &str = "projects/demo/subscriptions/sprag";

/// A process that ends with this one.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended already, by the same Ctrl-C.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn batches(workspace: &Workspace, program: &Path, rest: &[OsString]) -> Result<()> {
    let command = |arguments: &[&str]| {
        println!("$ sprag {}", arguments.join(" "));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(workspace.root());
        command
    };
    let mut emulator = command(&["pubsub-emulator", "--listen", "127.0.0.1:0"]);
    let mut emulator = Beside(emulator.stdout(Stdio::piped()).spawn().context("the emulator cannot be started")?);
    let host = listening(&mut emulator.0)?;
    println!("  PUBSUB_EMULATOR_HOST={host}");
    let mut run = command(&["run", "--subscription", SUBSCRIPTION, "--topic", TOPIC, "--data-dir", "data/pubsub"]);
    let mut server =
        Beside(run.args(rest).env("PUBSUB_EMULATOR_HOST", &host).spawn().context("the server cannot be started")?);
    let mut exchange = command(&["dex-sim", "--create", "--topic", TOPIC, "--subscription", SUBSCRIPTION]);
    let exchange = exchange.env("PUBSUB_EMULATOR_HOST", &host).stdout(Stdio::null()).spawn();
    let _exchange = Beside(exchange.context("the exchange cannot be started")?);
    let status = server.0.wait().context("the server cannot be waited for")?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}

/// Where the emulator listens, as it says.
fn listening(emulator: &mut Child) -> Result<String> {
    let Some(out) = emulator.stdout.take() else { bail!("the emulator says nothing") };
    let mut lines = BufReader::new(out).lines();
    while let Some(line) = lines.next() {
        let line = line.context("the emulator cannot be read")?;
        if let Some((_, host)) = line.split_once("http://") {
            let host = host.split_whitespace().next().unwrap_or(host).trim_end_matches('/').to_owned();
            // Whatever else it says must not fill its pipe.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(host);
        }
    }
    bail!("the emulator ended before it listened")
}
