//! The command line: what can be asked of `sprag`, and how each answer ends.
//!
//! Never: work of its own; each command is a module.

mod audit;
mod backup;
mod dex_sim;
mod dlq;
mod engine;
mod gaps;
mod publish;
mod pubsub_emulator;
mod replay;
mod restore;
mod run;
mod settings;
mod sql;
mod table;
mod venue_sim;
mod watch;
mod why;

use crate::{
    exit::Exit,
    store::{Sharing, Store},
};
use clap::{Args, CommandFactory, Parser, Subcommand};
use market::Venue;
use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

/// Version of the build, of the wire and of the store's schema.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\nwire sprag.v1\nschema 4");

/// A market-data tape that only turns one way.
#[derive(Debug, Parser)]
#[command(name = "sprag", version = VERSION, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Where settings come from, for every command that needs them.
#[derive(Clone, Debug, Args)]
struct Settings {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of everything that outlives the process.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// One setting, as NAME=VALUE with a dotted name; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take market data in, serve terminals and HTTP, and keep the history.
    Run(run::RunArgs),
    /// Put captures through the whole pipeline on their own clock, and write one JSON line per published event.
    Replay(replay::ReplayArgs),
    /// Publish batches to a Pub/Sub topic.
    Publish(publish::PublishArgs),
    /// Play an exchange that publishes its blocks: a simulated market in batches.
    DexSim(dex_sim::DexSimArgs),
    /// Show live ladders in this text terminal.
    Watch(watch::WatchArgs),
    /// Ask the store; by way of the listener that only reads, unless told otherwise.
    Sql(sql::SqlArgs),
    /// Write a copy of store and journals to a directory, beside a running server or without one.
    Backup(backup::BackupArgs),
    /// Make a new data directory of such a copy.
    Restore(restore::RestoreArgs),
    /// Tell which event gave a tick its present value, and what it was before.
    Why(why::WhyArgs),
    /// See the batches that could not be taken, and have them tried again.
    Dlq(dlq::DlqArgs),
    /// See what the audits of the store compared and found.
    Audit(audit::AuditArgs),
    /// See the batches that are missing, and accept a loss on record.
    Gaps(gaps::GapsArgs),
    /// Play the venues: serve a simulated market or captures over WebSocket and HTTP in the venues' own protocols, with
    /// faults on demand.
    VenueSim(venue_sim::VenueSimArgs),
    /// Play Pub/Sub: the service's protocol in memory, for tests and demonstrations, with faults on demand.
    PubsubEmulator(pubsub_emulator::PubsubEmulatorArgs),
    /// Print or check the configuration.
    Config(settings::ConfigArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Serve the embedded engine; started by other commands.
    #[command(hide = true, name = "engine")]
    Engine {
        /// As the parent passes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Find or fetch the embedded engine and print its path.
    #[command(hide = true)]
    EngineFetch,
}

/// How a command failed.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            if error.print().is_err() {
                return Exit::Internal.into();
            }
            return exit.into();
        }
    };
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Replay(args) => replay::replay(args),
        Command::Publish(args) => publish::publish(&args),
        Command::DexSim(args) => dex_sim::dex_sim(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Sql(args) => sql::sql(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => restore::restore(&args),
        Command::Why(args) => why::why(&args),
        Command::Dlq(args) => dlq::dlq(&args),
        Command::Audit(args) => audit::audit(&args),
        Command::Gaps(args) => gaps::gaps(&args),
        Command::VenueSim(args) => venue_sim::venue_sim(args),
        Command::PubsubEmulator(args) => pubsub_emulator::pubsub_emulator(&args),
        Command::Config(args) => settings::config(args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "sprag", &mut io::stdout());
            Ok(())
        }
        Command::Engine { args } => engine::serve(args),
        Command::EngineFetch => engine::fetch(),
    };
    match done {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            eprintln!("sprag: {:#}", failure.error);
            failure.exit.into()
        }
    }
}

impl Settings {
    /// Settings as overrides of the configuration, the command's own last.
    fn load(&self, own: Vec<(String, String)>) -> Result<crate::config::Config, Failure> {
        let mut overrides = Vec::new();
        for set in &self.sets {
            let Some((name, value)) = set.split_once('=') else {
                return Err(Failure::new(Exit::Usage, anyhow::anyhow!("--set {set}: NAME=VALUE is meant")));
            };
            overrides.push((name.to_owned(), value.to_owned()));
        }
        if let Some(data_dir) = &self.data_dir {
            overrides.push(("data_dir".to_owned(), data_dir.display().to_string()));
        }
        overrides.extend(own);
        crate::config::Config::load(self.config.as_deref(), &overrides)
            .map_err(|error| Failure::new(Exit::Usage, error))
    }
}

/// Starts the log as configured; on standard error, so that output stays clean.
fn start_log(log: &crate::config::Log) -> Result<(), Failure> {
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_new(&log.level).map_err(|error| Failure::new(Exit::Usage, error))?;
    let builder = fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let started = match log.format {
        crate::config::LogFormat::Json => builder.json().try_init(),
        crate::config::LogFormat::Text => builder.with_target(false).try_init(),
    };
    started.map_err(|error| Failure::new(Exit::Internal, anyhow::anyhow!(error)))
}

/// A runtime for one command.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let builder = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    builder.map_err(|error| Failure::new(Exit::Internal, error))
}

/// Asks the store, of a server that runs beside us or by opening it.
fn in_store<T>(settings: &Settings, ask: impl AsyncFnOnce(&Store) -> Result<T, Failure>) -> Result<T, Failure> {
    let config = settings.load(Vec::new())?;
    start_log(&config.log.quiet())?;
    runtime()?.block_on(async {
        let store = Store::connect(&config, Sharing::Join).await.map_err(|error| Failure::new(error.exit(), error))?;
        let asked = ask(&store).await;
        store.close().await;
        asked
    })
}

/// A venue by name.
fn venue(name: &str) -> Result<Venue, market::venue::UnknownVenue> {
    name.parse()
}
