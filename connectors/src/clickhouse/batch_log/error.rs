//! Why the log, or what is kept beside it, cannot be used.
//!
//! Never: a text of the store that is passed on as if it were understood.

use super::GapState;
use std::time::Duration;

/// The log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BatchLogError {
    /// The store did not answer as it should.
    #[error("cannot {action} in the store")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The client's error.
        #[source]
        source: clickhouse::error::Error,
    },
    /// The store did not answer.
    #[error("the store did not {action} within {seconds} s")]
    TimedOut {
        /// What was tried.
        action: &'static str,
        /// The bound.
        seconds: u64,
    },
    /// A column holds a text that this build does not know.
    #[error("the store has {column} {text:?}, which is not known here")]
    UnknownText {
        /// The column, with its table.
        column: &'static str,
        /// As stored.
        text: Box<str>,
    },
    /// What is stored is not what its id says.
    #[error("the content of the {kind} at height {height} is damaged in the log: its digest is not its id")]
    Damaged {
        /// Its height.
        height: u64,
        /// `block` or `snapshot`.
        kind: &'static str,
    },
    /// A content beyond the bound.
    #[error("the content at height {height} has more than {limit} bytes")]
    TooLarge {
        /// Its height.
        height: u64,
        /// The bound, bytes.
        limit: usize,
    },
    /// A dead letter beyond the bound.
    #[error("dead letter {id} has more than {limit} bytes")]
    LetterTooLarge {
        /// Its id.
        id: Box<str>,
        /// The bound, bytes.
        limit: usize,
    },
    /// The store confirms inserts and does not have the row.
    #[error(
        "the log lacks the batch at height {height} after {attempts} confirmed inserts: rows are being deleted, or a read does not see what was inserted"
    )]
    Swallowed {
        /// Its height.
        height: u64,
        /// The bound.
        attempts: u32,
    },
    /// More ticks than memory is planned for.
    #[error("more than {limit} ticks live at height {height}")]
    TooManyTicks {
        /// The height.
        height: u64,
        /// The bound.
        limit: usize,
    },
    /// A stored tick rests an asset that is none of its instrument's.
    #[error("a stored tick of {symbol} rests {asset:?}, which is none of its assets")]
    Asset {
        /// The instrument.
        symbol: Box<str>,
        /// The asset as stored.
        asset: Box<str>,
    },
    /// The gap that was to be accepted is not open.
    #[error(
        "no gap after {after} through {through} is open in {stream}{}",
        .state.map(|state| format!(": it is {state}")).unwrap_or_default()
    )]
    NotOpen {
        /// The stream.
        stream: Box<str>,
        /// The last height before it.
        after: u64,
        /// The last height of it.
        through: u64,
        /// What it is, if it is known.
        state: Option<GapState>,
    },
}

impl BatchLogError {
    /// Whether it may pass: the store is away, busy or refuses for now, so that the same attempt is right later.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::TimedOut { .. } | Self::Swallowed { .. })
    }
}

pub(super) fn failed(action: &'static str) -> impl FnOnce(clickhouse::error::Error) -> BatchLogError {
    move |source| BatchLogError::Store { action, source }
}

pub(super) async fn in_time<T>(
    action: &'static str,
    bound: Duration,
    answer: impl Future<Output = Result<T, clickhouse::error::Error>>,
) -> Result<T, BatchLogError> {
    let answer = tokio::time::timeout(bound, answer).await;
    answer.map_err(|_| BatchLogError::TimedOut { action, seconds: bound.as_secs() })?.map_err(failed(action))
}

/// A stored time as Unix nanoseconds; one before 1970 is unknown.
pub(super) fn ns(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
