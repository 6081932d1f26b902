//! The pulse of one instrument on one leg: how often it says something, and when its silence is no longer likely.
//!
//! Never: a clock; times are passed in.

use market::feed::{PULSE_INTERVALS as INTERVALS, SILENT_INTERVALS, SILENT_NS_MIN};

/// So many times its median interval before its subscription counts as dead, although its connection ticks.
pub(crate) const DEAD_INTERVALS: u64 = 50;
/// And at least this long, in nanoseconds.
pub(crate) const DEAD_NS_MIN: u64 = 5_000_000_000;

/// The last intervals between two signs of one instrument.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    last_ns: u64,
    intervals: Vec<u64>,
    next: usize,
    /// When it was last called dead.
    told_ns: u64,
}

impl Pulse {
    /// The instrument said something.
    pub(crate) fn beat(&mut self, now_ns: u64) {
        let since_ns = now_ns.saturating_sub(std::mem::replace(&mut self.last_ns, now_ns));
        self.told_ns = 0;
        if since_ns == now_ns {
            return;
        }
        if self.intervals.len() < INTERVALS {
            self.intervals.push(since_ns);
        } else if let Some(oldest) = self.intervals.get_mut(self.next) {
            *oldest = since_ns;
            self.next = (self.next + 1) % INTERVALS;
        }
    }

    /// The connection is another: nothing was said on it yet.
    pub(crate) fn forget(&mut self) {
        (self.last_ns, self.told_ns) = (0, 0);
    }

    /// When it last said something, if it did on this connection.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        (self.last_ns > 0).then_some(self.last_ns)
    }

    fn median_ns(&self) -> Option<u64> {
        if self.intervals.len() < INTERVALS {
            return None;
        }
        let mut sorted = self.intervals.clone();
        let (_, median, _) = sorted.select_nth_unstable(INTERVALS / 2);
        Some(*median)
    }

    fn quiet_for(&self, now_ns: u64, least_ns: u64, intervals: u64) -> bool {
        let quiet_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns > 0
            && quiet_ns >= least_ns
            && self.median_ns().is_some_and(|median| quiet_ns >= median.saturating_mul(intervals))
    }

    /// Whether it is silent for longer than it ever should.
    pub(crate) fn is_silent(&self, now_ns: u64) -> bool {
        self.quiet_for(now_ns, SILENT_NS_MIN, SILENT_INTERVALS)
    }

    /// Whether its subscription counts as dead; told once, and again each time that it has lasted so long again.
    pub(crate) fn dies(&mut self, now_ns: u64) -> bool {
        let dead = self.quiet_for(now_ns, DEAD_NS_MIN, DEAD_INTERVALS)
            && now_ns >= self.told_ns.saturating_add(now_ns.saturating_sub(self.last_ns).min(60 * SILENT_NS_MIN) / 2);
        if dead {
            self.told_ns = now_ns;
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn beating(every_ms: u64) -> (Pulse, u64) {
        let mut pulse = Pulse::default();
        let mut now_ns = 1_000 * MS;
        for _ in 0..=INTERVALS {
            pulse.beat(now_ns);
            now_ns += every_ms * MS;
        }
        (pulse, now_ns - every_ms * MS)
    }

    #[test]
    fn a_busy_instrument_is_silent_after_two_seconds_and_dead_after_five() {
        let (mut pulse, last_ns) = beating(50);
        assert!(!pulse.is_silent(last_ns + 1_999 * MS));
        assert!(pulse.is_silent(last_ns + 2_000 * MS));
        assert!(!pulse.dies(last_ns + 4_999 * MS));
        assert!(pulse.dies(last_ns + 5_000 * MS));
        assert!(!pulse.dies(last_ns + 5_100 * MS), "told once");
        assert!(pulse.dies(last_ns + 11_000 * MS), "and again");
        pulse.beat(last_ns + 12_000 * MS);
        assert!(!pulse.is_silent(last_ns + 13_000 * MS));
    }

    #[test]
    fn a_slow_one_may_be_quiet_and_an_unknown_one_says_nothing() {
        let (mut pulse, last_ns) = beating(1_000);
        assert!(!pulse.is_silent(last_ns + 19_000 * MS));
        assert!(pulse.is_silent(last_ns + 20_000 * MS));
        assert!(!pulse.dies(last_ns + 49_000 * MS));
        pulse.forget();
        assert!(!pulse.is_silent(last_ns + 99_000 * MS));
        let mut young = Pulse::default();
        (0..20).for_each(|at| young.beat((1 + at) * MS));
        assert!(!young.is_silent(60_000 * MS));
    }
}
