//! Memory that a process holds, as the kernel counts it.
//!
//! Never: an estimate from sizes of types.

use anyhow::{Context, Result};

/// Resident bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Now.
    pub now: u64,
    /// At the most since the process began.
    pub peak: u64,
}

/// What the kernel says of this process.
///
/// # Errors
/// Where the kernel does not tell (Linux does).
pub fn memory() -> Result<Memory> {
    of("self")
}

/// The same of another process.
///
/// # Errors
/// The same, and when it is gone.
pub(super) fn memory_of(pid: u32) -> Result<Memory> {
    of(&pid.to_string())
}

fn of(process: &str) -> Result<Memory> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("no {path}"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("a field is missing")?;
        let kib = line.split_ascii_whitespace().next().context("a field is empty")?;
        Ok(kib.parse::<u64>()? << 10)
    };
    Ok(Memory { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}
