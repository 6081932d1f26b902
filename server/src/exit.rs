//! Exit codes: what a supervisor may conclude from the end of the process.
//!
//! Never: a code whose meaning changes; the table in `docs/OPERATIONS.md` is tested against this list.

use std::process::ExitCode;

/// Why the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, or stopped by a signal and drained.
    Ok = 0,
    /// A broken invariant; keep the log. Restarting may help once.
    Internal = 1,
    /// Command line or configuration refused; restarting does not help.
    Usage = 2,
    /// A capture or another input file cannot be read; restarting does not help.
    Input = 3,
    /// ClickHouse or the engine's library cannot be reached or opened.
    Store = 4,
    /// The port is in use or the network refused.
    Network = 5,
    /// Another process uses the data directory; restarting helps once that one has ended.
    DataDirectory = 6,
    /// The frontier stood still past its bound; restart at once.
    Stalled = 7,
    /// Another process of the computation was lost; restart all of them.
    PeerLost = 8,
}

impl Exit {
    /// Every code, ascending.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Internal,
        Self::Usage,
        Self::Input,
        Self::Store,
        Self::Network,
        Self::DataDirectory,
        Self::Stalled,
        Self::PeerLost,
    ];

    /// The number that the process ends with; 0 to 8.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// A few words for a person, as in the table of `docs/OPERATIONS.md`.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done",
            Self::Internal => "internal error",
            Self::Usage => "command line or configuration refused",
            Self::Input => "input unreadable",
            Self::Store => "store unavailable",
            Self::Network => "port in use or network refused",
            Self::DataDirectory => "data directory in use",
            Self::Stalled => "frontier stalled",
            Self::PeerLost => "peer lost",
        }
    }

    /// Whether a supervisor gains anything by starting the process again as it is.
    #[must_use]
    pub const fn restart_helps(self) -> bool {
        !matches!(self, Self::Ok | Self::Usage | Self::Input)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dense_and_documented() {
        let operations = include_str!("../../docs/OPERATIONS.md");
        for (index, exit) in Exit::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(exit.code()), index);
            let row = format!(
                "| {} | {} | {} |",
                exit.code(),
                exit.meaning(),
                if exit.restart_helps() { "yes" } else { "no" }
            );
            assert!(operations.contains(&row), "docs/OPERATIONS.md lacks {row:?}");
        }
    }
}
