//! Running other programs.
//!
//! Never: a failure without the command that failed.

use anyhow::{Context, Result, ensure};
use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

/// Runs to the end, output shown as it comes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = spelled(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

/// Runs to the end and returns what was printed; errors are shown as they come.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = spelled(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` ended with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed bytes that are no text"))
}

/// Where a program is, if it is on the path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

fn spelled(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|part| part.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
