//! `cargo xtask golden`: the wire's golden bytes, written anew.
//!
//! Never: bytes of a released version of the wire changed unseen; they are under version control.

use crate::{process, workspace::Workspace};
use anyhow::Result;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo(&["test", "-p", "sprag-wire", "--test", "suite", "golden", "--", "--nocapture"]);
    process::run(command.env("SPRAG_GOLDEN_WRITE", "1"))
}
