//! What keeps the store small: the sweep, and how long each table keeps its rows.
//!
//! Never: a row removed that would let an older one live again.

mod retention;
mod sweep;

pub use retention::{Retention, keep};
pub use sweep::{HORIZON, Sweep, SweepStep, Swept, sweep};

/// The store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// It gave an error.
    #[error("cannot {action} in the store")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The client's error.
        #[source]
        source: clickhouse::error::Error,
    },
    /// It does not come to an end: its merges are stopped, perhaps, and mutations with them.
    #[error("cannot {action} in the store within {seconds} s; are its merges stopped?")]
    Slow {
        /// What was tried.
        action: &'static str,
        /// The bound.
        seconds: u64,
    },
}

fn failed(action: &'static str) -> impl FnOnce(clickhouse::error::Error) -> UpkeepError {
    move |source| UpkeepError::Store { action, source }
}
