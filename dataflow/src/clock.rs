//! Cuts of time: how a receive time becomes a timely timestamp, and when a cut ends.
//!
//! Never: a reading of a clock.

/// A fixed grid of cuts from an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutClock {
    /// Begin of cut 0, Unix nanoseconds.
    pub origin_ns: u64,
    /// Length of a cut, nanoseconds; more than zero.
    pub cut_ns: u64,
}

impl CutClock {
    /// The cut that a time falls into; times before the origin fall into cut 0.
    #[must_use]
    pub fn cut_at(&self, ts_ns: u64) -> u64 {
        ts_ns.saturating_sub(self.origin_ns).checked_div(self.cut_ns).unwrap_or(0)
    }

    /// The end of a cut: the time at which it closes.
    #[must_use]
    pub fn end_ns(&self, cut: u64) -> u64 {
        self.origin_ns.saturating_add(cut.saturating_add(1).saturating_mul(self.cut_ns))
    }

    /// The first cut that ends at or after a time: where a deadline is met.
    #[must_use]
    pub fn due(&self, deadline_ns: u64) -> u64 {
        self.cut_at(deadline_ns.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_met_at_the_first_cut_that_ends_no_earlier() {
        let clock = CutClock { origin_ns: 1_000, cut_ns: 40 };
        assert_eq!((clock.cut_at(1_039), clock.cut_at(1_040), clock.cut_at(0)), (0, 1, 0));
        assert_eq!(clock.end_ns(0), 1_040);
        for (deadline, cut) in [(1_001, 0), (1_040, 0), (1_041, 1), (1_080, 1)] {
            assert_eq!(clock.due(deadline), cut);
            assert!(clock.end_ns(cut) >= deadline);
        }
    }
}
