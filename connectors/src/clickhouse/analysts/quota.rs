//! How many statements and bytes the account may still have in the present interval.
//!
//! Never: a clock; the time is given.

use super::AnalystLimits;
use std::time::{Duration, Instant};

/// The account has used up an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Code: 201. DB::Exception: Quota for user has been exceeded: {what} = {used} of {limit}. The interval ends in {seconds_left} s. (QUOTA_EXCEEDED)"
)]
pub(super) struct QuotaExceeded {
    what: &'static str,
    used: u64,
    limit: u64,
    pub(super) seconds_left: u64,
}

/// One interval after the other; each begins with its first statement.
#[derive(Debug, Default)]
pub(super) struct Quota {
    begun: Option<Instant>,
    statements: u64,
    bytes: u64,
}

impl Quota {
    /// Counts a statement, if there is room for one.
    pub(super) fn admit(&mut self, limits: &AnalystLimits, now: Instant) -> Result<(), QuotaExceeded> {
        let interval = Duration::from_secs(limits.quota_seconds);
        let passed = self.begun.map(|begun| now.saturating_duration_since(begun));
        let Some(passed) = passed.filter(|passed| *passed < interval) else {
            *self = Self { begun: Some(now), statements: 1, bytes: 0 };
            return Ok(());
        };
        let seconds_left = (interval - passed).as_secs().saturating_add(1);
        let exceeded = |what, used, limit| QuotaExceeded { what, used, limit, seconds_left };
        if self.statements >= limits.quota_statements {
            return Err(exceeded("queries", self.statements, limits.quota_statements));
        }
        if self.bytes >= limits.quota_bytes {
            return Err(exceeded("result_bytes", self.bytes, limits.quota_bytes));
        }
        self.statements += 1;
        Ok(())
    }

    /// Counts a result.
    pub(super) fn used(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_so_many_statements_and_bytes() {
        let limits =
            AnalystLimits { quota_seconds: 10, quota_statements: 3, quota_bytes: 100, ..AnalystLimits::default() };
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut quota = Quota::default();
        for second in 0..3 {
            quota.admit(&limits, at(second)).unwrap();
        }
        let error = quota.admit(&limits, at(4)).unwrap_err();
        assert_eq!((error.what, error.seconds_left), ("queries", 7));
        quota.admit(&limits, at(10)).unwrap();
        quota.used(100);
        let error = quota.admit(&limits, at(19)).unwrap_err();
        assert_eq!((error.what, error.used), ("result_bytes", 100));
        quota.admit(&limits, at(20)).unwrap();
    }
}
