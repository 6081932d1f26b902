//! `cargo xtask test`: every test of the workspace.
//!
//! Never: a retry, or a test left out in silence.

use crate::{process, stages::Stages, text, tools, workspace::Workspace};
use anyhow::Result;
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

/// Where recordings are looked for, relative to the root, unless `SPRAG_CORPUS` names another place.
const CORPUS: &str = "../shared/corpus";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Longer matrices: more seeds, more workers, larger books.
    #[arg(long)]
    full: bool,
    /// Passed on to `cargo nextest run`, as in `-- -p sprag-wire`.
    #[arg(last = true)]
    rest: Vec<OsString>,
}

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    tools::install(&[tools::NODE, tools::NPM, tools::ZSTD, tools::PYTHON, tools::CURL])?;
    let nextest = tools::cargo_tool(workspace, &tools::NEXTEST)?;
    let corpus = corpus(workspace.root());
    let clients = tools::analyst_clients(workspace)?;
    let surroundings = Surroundings { workspace, corpus: corpus.as_deref(), clients: &clients, full: arguments.full };
    let mut stages = Stages::new();
    // The same targets and features as the tests have, so that nothing is built twice.
    let build = ["build", "--locked", "--workspace", "--bins", "--tests"];
    let built = stages.run("build", || process::run(&mut workspace.cargo(&build)));
    if built && stages.run("engine", || fetch_engine(workspace)) {
        stages.run("tests", || {
            let mut command = Command::new(&nextest);
            command.args(["nextest", "run", "--locked", "--workspace"]).current_dir(workspace.root());
            if env::var_os("CI").is_some_and(|value| !value.is_empty()) {
                command.args(["--profile", "ci"]);
            }
            process::run(surroundings.of(&mut command).args(&arguments.rest))
        });
        if text::has_doc_tests(workspace.root())? {
            stages.run("doc tests", || {
                let mut command = workspace.cargo(&["test", "--locked", "--workspace", "--doc"]);
                process::run(surroundings.of(&mut command))
            });
        }
    }
    if corpus.is_none() {
        println!("No recordings: tests that need them passed without checking anything (see SPRAG_CORPUS).");
    }
    stages.finish()
}

/// Fetched once up front, or tests that start together would all wait for it.
fn fetch_engine(workspace: &Workspace) -> Result<()> {
    if env::var_os("CLICKHOUSE_URL").is_some_and(|url| !url.is_empty()) {
        println!("CLICKHOUSE_URL is set: no engine is fetched");
        return Ok(());
    }
    let mut command = Command::new(workspace.sprag("debug"));
    process::run(command.arg("engine-fetch").current_dir(workspace.root()))
}

/// What tests find by their environment.
struct Surroundings<'a> {
    workspace: &'a Workspace,
    corpus: Option<&'a Path>,
    clients: &'a tools::AnalystClients,
    full: bool,
}

impl Surroundings<'_> {
    fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("SPRAG_BIN", self.workspace.sprag("debug"));
        command.env("SPRAG_ANALYST_PYTHON", &self.clients.python).env("SPRAG_ANALYST_NODE", &self.clients.node);
        if let Some(corpus) = self.corpus {
            command.env("SPRAG_CORPUS", corpus);
        }
        if self.full {
            command.env("SPRAG_FULL", "1");
        }
        command
    }
}

fn corpus(root: &Path) -> Option<PathBuf> {
    let place = env::var_os("SPRAG_CORPUS").map_or_else(|| root.join(CORPUS), PathBuf::from);
    let found = place.canonicalize().ok().filter(|place| place.is_dir());
    match &found {
        Some(_) => println!("recordings found"),
        None => println!("no recordings at {CORPUS} nor at SPRAG_CORPUS: tests that need them skip themselves"),
    }
    found
}
