//! The one version space: the same `(epoch, seq)` is in the dataflow, on the wire and in ClickHouse.
//!
//! Never: a wall-clock time as part of an order.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Position of an instrument's stream, ordered by epoch, then sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Raised only when the sequence itself restarts or its source is switched.
    pub epoch: u64,
    /// The venue's own update id where it has one, else the arrival order.
    pub seq: u64,
}

impl Version {
    /// A version from its two parts.
    #[must_use]
    pub const fn new(epoch: u64, seq: u64) -> Self {
        Self { epoch, seq }
    }

    /// The store's column: `(epoch << 64) | seq`, which orders as the version does.
    #[must_use]
    pub fn to_u128(self) -> u128 {
        (u128::from(self.epoch) << 64) | u128::from(self.seq)
    }

    /// The version of a store column.
    #[must_use]
    pub fn from_u128(packed: u128) -> Self {
        let low = packed & u128::from(u64::MAX);
        Self { epoch: u64::try_from(packed >> 64).unwrap_or(u64::MAX), seq: u64::try_from(low).unwrap_or(u64::MAX) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.epoch, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_orders_before_sequence() {
        assert!(Version::new(1, u64::MAX) < Version::new(2, 0));
        assert!(Version::new(1, 5).to_u128() < Version::new(1, 6).to_u128());
        assert!(Version::new(1, u64::MAX).to_u128() < Version::new(2, 0).to_u128());
    }

    #[test]
    fn store_column_round_trips() {
        for version in [Version::new(0, 0), Version::new(3, u64::MAX), Version::new(u64::MAX, 9_007_199_254_740_993)] {
            assert_eq!(Version::from_u128(version.to_u128()), version);
        }
    }
}
