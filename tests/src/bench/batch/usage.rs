//! What a process took, as the kernel counts it.
//!
//! Never: the time of a process's children; each is asked by itself.

use anyhow::{Context, Result};
use std::{fs, time::Duration};

/// What the kernel counts processor time in for programs: 100 to a second on every Linux.
pub(super) const CPU_STEP: Duration = Duration::from_millis(10);

/// Where the user's time stands behind the name; the system's follows.
const USER_AT: usize = 11;

/// Processor time of a process so far, all its threads together.
pub(super) fn cpu(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("no such process")?;
    // The name may hold blanks and brackets; what follows it does not.
    let (_, fields) = stat.rsplit_once(')').context("a process without a name")?;
    let mut fields = fields.split_ascii_whitespace().skip(USER_AT);
    let mut steps = || -> Result<u32> { Ok(fields.next().context("a field is missing")?.parse()?) };
    Ok(CPU_STEP.saturating_mul(steps()?.saturating_add(steps()?)))
}

/// Load averages of 1, 5 and 15 minutes.
pub(super) fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg").context("no /proc/loadavg")?;
    Ok(text.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_busy_process_takes_time() {
        let before = cpu(std::process::id()).unwrap();
        let begin = Instant::now();
        while cpu(std::process::id()).unwrap() <= before {
            assert!(begin.elapsed() < Duration::from_secs(30), "no processor time in all that");
        }
        assert_eq!(load().unwrap().split(' ').count(), 3);
    }
}
