//! The workspace as cargo sees it: its root, its target directory, its packages and who depends on whom.
//!
//! Never: a path written down; all come from cargo.

use crate::process;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// What `cargo metadata --no-deps` says.
#[derive(Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    root: PathBuf,
    #[serde(rename = "target_directory")]
    target: PathBuf,
    packages: Vec<Package>,
}

/// One crate of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a crate's dependencies, of any kind.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Given for crates of the workspace only.
    pub(crate) path: Option<PathBuf>,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        // Where cargo started this program from; by hand, the working directory.
        command.current_dir(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| ".".into()));
        let text = process::output(&mut command)?;
        serde_json::from_str(&text).context("cargo metadata said something unexpected")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    pub(crate) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// A cargo command in the root of the workspace.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// The built `sprag` of a profile, `debug` or `release`.
    pub(crate) fn sprag(&self, profile: &str) -> PathBuf {
        self.target.join(profile).join("sprag")
    }
}

/// The cargo that started this program.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
