//! `[analysts]`: the embedded engine's second listener, which only reads.
//!
//! Never: an address beyond this machine; a limit that could take the engine from what writes.

use super::{Store, error::Problems, secret::Secret};
use connectors::clickhouse::{AnalystLimits, AnalystOptions};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Longest user name or password, in bytes.
const TEXT_BYTES_MAX: usize = 2_048;

/// Part of the engine's memory that all statements of analysts together may take.
const MEMORY_PART: u64 = 2;

/// Where analysts connect, and what their statements may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Analysts {
    /// Serve them at all. A ClickHouse server elsewhere has accounts of its own.
    pub enabled: bool,
    /// Loopback address to listen on.
    pub host: String,
    /// TCP port, 0 to 65,535; 0 = any free one, told in `<data-dir>/analysts.url`.
    pub port: u16,
    /// Name of the account; 1 to 2,048 bytes.
    pub user: String,
    /// Its password; at most 2,048 bytes. Empty = none.
    pub password: Secret,
    /// Statements at one time; 1 to 16.
    pub statements: usize,
    /// Statements that wait for their turn; 0 to 1,000.
    pub waiting: usize,
    /// Milliseconds that one waits at the most; 0 to 600,000.
    pub wait_ms: u64,
    /// Seconds that a statement may take; 1 to 3,600.
    pub seconds: u64,
    /// Threads of a statement; 1 to 64.
    pub threads: u64,
    /// Bytes of memory of a statement; 16,777,216 to 1,099,511,627,776. All together get half of the engine's at the most.
    pub memory_bytes: u64,
    /// Bytes of temporary files of a statement; 1,048,576 to 1,099,511,627,776.
    pub temporary_bytes: u64,
    /// Rows that a statement may read; 1,000 to 1,000,000,000,000.
    pub read_rows: u64,
    /// Rows of a result; 1,000 to 1,000,000,000.
    pub result_rows: u64,
    /// Bytes of a result; 1,048,576 to 1,073,741,824.
    pub result_bytes: u64,
    /// Seconds of the quota's interval; 1 to 86,400.
    pub quota_seconds: u64,
    /// Statements in an interval; 1 to 1,000,000,000.
    pub quota_statements: u64,
    /// Bytes of results in an interval; 1,048,576 to 1,000,000,000,000,000.
    pub quota_bytes: u64,
}

impl Default for Analysts {
    fn default() -> Self {
        let (options, limits) = (AnalystOptions::default(), AnalystLimits::default());
        Self {
            enabled: true,
            host: options.host.to_string(),
            port: options.port,
            user: options.user,
            password: Secret::default(),
            statements: limits.statements,
            waiting: limits.waiting,
            wait_ms: limits.wait_ms,
            seconds: limits.seconds,
            threads: limits.threads,
            memory_bytes: limits.memory_bytes,
            temporary_bytes: limits.temporary_bytes,
            read_rows: limits.read_rows,
            result_rows: limits.result_rows,
            result_bytes: limits.result_bytes,
            quota_seconds: limits.quota_seconds,
            quota_statements: limits.quota_statements,
            quota_bytes: limits.quota_bytes,
        }
    }
}

impl Analysts {
    /// The listener of an embedded engine; `None` where there is none.
    #[must_use]
    pub fn options(&self, store: &Store) -> Option<AnalystOptions> {
        let host = self.address().filter(|_| self.enabled && store.is_embedded())?;
        let statements = u64::try_from(self.statements).unwrap_or(u64::MAX).max(1);
        let memory_bytes = self.memory_bytes.min(store.engine_memory_bytes / MEMORY_PART / statements);
        let limits = AnalystLimits {
            statements: self.statements,
            waiting: self.waiting,
            wait_ms: self.wait_ms,
            seconds: self.seconds,
            threads: self.threads,
            memory_bytes,
            temporary_bytes: self.temporary_bytes,
            read_rows: self.read_rows,
            result_rows: self.result_rows,
            result_bytes: self.result_bytes,
            quota_seconds: self.quota_seconds,
            quota_statements: self.quota_statements,
            quota_bytes: self.quota_bytes,
        };
        Some(AnalystOptions {
            host,
            port: self.port,
            user: self.user.clone(),
            password: self.password.reveal().into(),
            database: store.database.clone(),
            limits,
        })
    }

    fn address(&self) -> Option<IpAddr> {
        let name = if self.host == "localhost" { "127.0.0.1" } else { &self.host };
        name.parse::<IpAddr>().ok().filter(IpAddr::is_loopback)
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let shown = format!("{:?}", self.host);
        let limit = "a loopback address: 127.0.0.1, ::1 or localhost; tunnel to it from elsewhere";
        problems.unless(self.address().is_some(), "analysts.host", &shown, &limit);
        let texts = [("analysts.user", self.user.len(), 1), ("analysts.password", self.password.reveal().len(), 0)];
        for (field, bytes, least) in texts {
            let limit = format_args!("{least} to {TEXT_BYTES_MAX} bytes");
            problems.unless((least..=TEXT_BYTES_MAX).contains(&bytes), field, &format_args!("({bytes} bytes)"), &limit);
        }
        problems.range("analysts.statements", self.statements, 1..=16);
        problems.range("analysts.waiting", self.waiting, 0..=1_000);
        problems.range("analysts.wait_ms", self.wait_ms, 0..=600_000);
        problems.range("analysts.seconds", self.seconds, 1..=3_600);
        problems.range("analysts.threads", self.threads, 1..=64);
        problems.range("analysts.memory_bytes", self.memory_bytes, 16 << 20..=1 << 40);
        problems.range("analysts.temporary_bytes", self.temporary_bytes, 1 << 20..=1 << 40);
        problems.range("analysts.read_rows", self.read_rows, 1_000..=1_000_000_000_000);
        problems.range("analysts.result_rows", self.result_rows, 1_000..=1_000_000_000);
        problems.range("analysts.result_bytes", self.result_bytes, 1 << 20..=1 << 30);
        problems.range("analysts.quota_seconds", self.quota_seconds, 1..=86_400);
        problems.range("analysts.quota_statements", self.quota_statements, 1..=1_000_000_000);
        problems.range("analysts.quota_bytes", self.quota_bytes, 1 << 20..=1_000_000_000_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_statements_together_get_half_of_the_engine() {
        let store = Store { engine_memory_bytes: 1_000_000_000, ..Store::default() };
        let analysts = Analysts { statements: 4, ..Analysts::default() };
        assert_eq!(analysts.options(&store).unwrap().limits.memory_bytes, 125_000_000);
        let elsewhere = Store { url: "http://localhost:8123".to_owned(), ..Store::default() };
        assert_eq!(analysts.options(&elsewhere), None);
        assert_eq!(Analysts { enabled: false, ..analysts }.options(&store), None);
    }

    #[test]
    fn only_this_machine_is_listened_to() {
        for (host, right) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("localhost", true),
            ("0.0.0.0", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            let mut problems = Problems::default();
            Analysts { host: host.to_owned(), ..Analysts::default() }.check(&mut problems);
            assert_eq!(problems.into_result().is_ok(), right, "{host}");
        }
    }
}
