//! Memory that the process holds, as the kernel counts it.
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
    let status = std::fs::read_to_string("/proc/self/status").context("no /proc/self/status")?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("a field is missing")?;
        let kib = line.split_ascii_whitespace().next().context("a field is empty")?;
        Ok(kib.parse::<u64>()? << 10)
    };
    Ok(Memory { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}
