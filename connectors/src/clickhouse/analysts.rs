//! The analysts' listener: a second HTTP interface of the embedded engine that only reads, under limits of its own, so that
//! no query of a person can change the store or starve what writes to it.
//!
//! Three things keep it so, each for itself: the engine's grants close every source outside of its tables
//! (`engine/users.xml`), each statement runs under `readonly = 1` and fixed limits (`limits`), and no statement reaches the
//! engine whose every token was not understood (`lexer`, `statement`).
//!
//! Never: a place, a byte or a thread shared with the listener that ingestion uses; a socket beyond loopback.

mod answer;
mod caller;
mod lexer;
mod limits;
mod quota;
mod request;
mod serve;
mod statement;

pub(crate) use serve::serve;
pub use statement::judged;

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
};

/// What an analyst's statements may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalystLimits {
    /// Statements at one time.
    pub statements: usize,
    /// Statements that wait for one of these places.
    pub waiting: usize,
    /// Longest such wait, milliseconds.
    pub wait_ms: u64,
    /// Longest statement, seconds.
    pub seconds: u64,
    /// Threads of one statement.
    pub threads: u64,
    /// Memory of one statement, bytes.
    pub memory_bytes: u64,
    /// Temporary files of one statement, bytes.
    pub temporary_bytes: u64,
    /// Rows that one statement reads.
    pub read_rows: u64,
    /// Rows of one result.
    pub result_rows: u64,
    /// Bytes of one result, in the engine's blocks and again as sent, before compression.
    pub result_bytes: u64,
    /// The interval of the quota, seconds.
    pub quota_seconds: u64,
    /// Statements in an interval.
    pub quota_statements: u64,
    /// Bytes of results in an interval.
    pub quota_bytes: u64,
}

impl Default for AnalystLimits {
    /// Two statements of a quarter of the engine's memory each leave half of it to what writes.
    fn default() -> Self {
        Self {
            statements: 2,
            waiting: 16,
            wait_ms: 10_000,
            seconds: 60,
            threads: 2,
            memory_bytes: 500_000_000,
            temporary_bytes: 2_000_000_000,
            read_rows: 2_000_000_000,
            result_rows: 5_000_000,
            result_bytes: 128 << 20,
            quota_seconds: 3_600,
            quota_statements: 20_000,
            quota_bytes: 20_000_000_000,
        }
    }
}

/// A password, never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(Box<str>);

impl Password {
    /// The text itself, for the one who must compare or send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_empty() { "none" } else { "…" })
    }
}

/// The listener and its one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalystOptions {
    /// Loopback address to listen on.
    pub host: IpAddr,
    /// Its port; 0 lets the system choose.
    pub port: u16,
    /// The account's name. Without a password `default` and no name at all are the same account.
    pub user: String,
    /// Its password; empty for none. It is not part of the serialized form, which stands on a command line.
    #[serde(skip)]
    pub password: Password,
    /// Database of a statement that names none.
    pub database: String,
    /// What its statements may use.
    pub limits: AnalystLimits,
}

impl Default for AnalystOptions {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            user: "analyst".to_owned(),
            password: Password::default(),
            database: super::address::DATABASE_DEFAULT.to_owned(),
            limits: AnalystLimits::default(),
        }
    }
}
