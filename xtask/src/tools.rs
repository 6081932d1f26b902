//! The programs that a command needs, installed where they are missing.
//!
//! Never: a cargo tool installed outside the target directory.

use crate::{process, workspace::Workspace};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::{IsTerminal, stdin},
    path::{Path, PathBuf},
    process::Command,
};

/// A program and the Debian package that brings it.
pub(crate) struct Program {
    name: &'static str,
    package: &'static str,
}

/// Runs the engine's download and the browser's parts.
pub(crate) const NODE: Program = Program { name: "node", package: "nodejs" };
/// Fetches the engine.
pub(crate) const NPM: Program = Program { name: "npm", package: "npm" };
/// Opens captures by hand.
pub(crate) const ZSTD: Program = Program { name: "zstd", package: "zstd" };
/// Runs helpers of the tests.
pub(crate) const PYTHON: Program = Program { name: "python3", package: "python3" };

/// Asks the store as analysts do.
pub(crate) const CURL: Program = Program { name: "curl", package: "curl" };

/// What analysts write their programs with in Python, and the version that is tested.
const PYTHON_CLIENT: &str = "clickhouse-connect==1.12.0";
/// The same in JavaScript.
const NODE_CLIENT: &str = "@clickhouse/client@1.23.1";

/// A cargo tool and the version that is installed where none is found.
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
    /// Start of the versions that are taken from the path.
    accepted: &'static str,
}

/// Judges the dependency tree; `deny.toml` is written for this series.
pub(crate) const DENY: CargoTool = CargoTool { name: "cargo-deny", version: "0.20.2", accepted: "0.20." };
/// Runs the tests.
pub(crate) const NEXTEST: CargoTool = CargoTool { name: "cargo-nextest", version: "0.9.143", accepted: "0.9." };

/// Runs the fuzz targets.
pub(crate) const FUZZ: CargoTool = CargoTool { name: "cargo-fuzz", version: "0.13.2", accepted: "0.13." };

/// Makes sure that every program is there.
pub(crate) fn install(programs: &[Program]) -> Result<()> {
    let missing: Vec<_> = programs.iter().filter(|program| process::on_path(program.name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|program| program.name).collect::<Vec<_>>().join(", ");
    let packages: Vec<_> = missing.iter().map(|program| program.package).collect();
    println!("missing: {names}");
    let Some(prefix) = rights() else {
        bail!("{names} missing; as root, run: apt-get install {}", packages.join(" "));
    };
    apt_get(prefix, &["update"])
        .and_then(|()| apt_get(prefix, &[&["install", "-y"], packages.as_slice()].concat()))
        .with_context(|| format!("{names} missing and not installable; install {}", packages.join(" ")))
}

/// What comes before `apt-get` so that it may install: nothing for root, else sudo; `None` where there is no way.
fn rights() -> Option<&'static [&'static str]> {
    process::on_path("apt-get")?;
    let user = process::output(Command::new("id").arg("-u")).ok()?;
    if user.trim() == "0" {
        return Some(&[]);
    }
    process::on_path("sudo")?;
    // Without a terminal nobody could type a password.
    Some(if stdin().is_terminal() { &["sudo"] } else { &["sudo", "-n"] })
}

fn apt_get(prefix: &[&str], arguments: &[&str]) -> Result<()> {
    let line = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"], arguments].concat();
    let mut parts = line.into_iter();
    let program = parts.next().context("an empty command")?;
    process::run(Command::new(program).args(parts))
}

/// The clients that analysts use, in places of their own under the target directory.
pub(crate) struct AnalystClients {
    /// A Python that has its client.
    pub(crate) python: PathBuf,
    /// A directory whose `node_modules` has the client.
    pub(crate) node: PathBuf,
}

/// Installs the clients where they are missing, or of another version; from the ordinary registries.
pub(crate) fn analyst_clients(workspace: &Workspace) -> Result<AnalystClients> {
    let root = workspace.target().join("tools").join("analysts");
    let (environment, node) = (root.join("python"), root.join("node"));
    let python = environment.join("bin").join("python");
    if !is_installed(&environment, PYTHON_CLIENT) {
        install_venv()?;
        process::run(Command::new(PYTHON.name).args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut pip = Command::new(&python);
        process::run(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYTHON_CLIENT]))?;
        mark_installed(&environment, PYTHON_CLIENT)?;
    }
    if !is_installed(&node, NODE_CLIENT) {
        fs::create_dir_all(&node).context("a directory for JavaScript packages")?;
        fs::write(node.join("package.json"), "{\"private\": true}\n").context("a JavaScript package")?;
        let mut npm = Command::new(NPM.name);
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--save-exact", NODE_CLIENT]).current_dir(&node);
        process::run(&mut npm)?;
        mark_installed(&node, NODE_CLIENT)?;
    }
    Ok(AnalystClients { python, node })
}

/// Debian's Python lacks what makes an environment, unless its package is there.
fn install_venv() -> Result<()> {
    let has = Command::new(PYTHON.name).args(["-c", "import venv, ensurepip"]).output();
    if has.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let package = "python3-venv";
    let Some(prefix) = rights() else {
        bail!("{package} missing; as root, run: apt-get install {package}");
    };
    apt_get(prefix, &["update"])
        .and_then(|()| apt_get(prefix, &["install", "-y", package]))
        .with_context(|| format!("{package} missing and not installable"))
}

/// Written last, so that what was broken off is made anew.
const MARK: &str = ".sprag-installed";

fn is_installed(directory: &Path, what: &str) -> bool {
    fs::read_to_string(directory.join(MARK)).is_ok_and(|mark| mark == what)
}

fn mark_installed(directory: &Path, what: &str) -> Result<()> {
    fs::write(directory.join(MARK), what).context("a mark of what is installed")
}

/// The path of a cargo tool: the workspace's own, one on the path, or a fresh one.
pub(crate) fn cargo_tool(workspace: &Workspace, tool: &CargoTool) -> Result<PathBuf> {
    let root = workspace.target().join("tools");
    let own = root.join("bin").join(tool.name);
    if is_accepted(&own, tool) {
        return Ok(own);
    }
    if let Some(found) = process::on_path(tool.name).filter(|found| is_accepted(found, tool)) {
        return Ok(found);
    }
    println!("{} {} is missing; building it (some minutes)", tool.name, tool.version);
    let mut command = workspace.cargo(&["install", tool.name, "--version", tool.version, "--locked", "--debug"]);
    process::run(command.arg("--root").arg(&root))?;
    Ok(own)
}

/// Whether the program says a version that will do: the second word of its first line.
fn is_accepted(program: &PathBuf, tool: &CargoTool) -> bool {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.split_whitespace().nth(1).is_some_and(|version| version.starts_with(tool.accepted))
}
