//! The pulse of one instrument on one leg: how often it says something, and when its silence is no longer likely.
//!
//! Never: a clock; times are passed in.

use market::feed::{PULSE_INTERVALS as INTERVALS, SILENT_NS_MIN};

/// So many times its median interval before its subscription counts as dead, although its connection ticks.
pub(crate) const DEAD_INTERVALS: u64 = 50;
/// And at least this long, in nanoseconds.
pub(crate) const DEAD_NS_MIN: u64 = 5_000_000_000;
/// A silence that all legs share is the market's, or ours; only so long after does it count against one of them.
const SHARED_NS_MIN: u64 = 60_000_000_000;
/// And after so many median intervals.
const SHARED_INTERVALS: u64 = 500;
/// A leg that is so much ahead of another has ticked while the other did not; less is a race after a pause.
const AHEAD_NS_MIN: u64 = 250_000_000;

/// The last intervals between two signs of one instrument.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    last_ns: u64,
    /// The sign before the last one.
    before_ns: u64,
    intervals: Vec<u64>,
    next: usize,
    /// When it was last called dead.
    told_ns: u64,
}

impl Pulse {
    /// The instrument said something.
    pub(crate) fn beat(&mut self, now_ns: u64) {
        self.before_ns = std::mem::replace(&mut self.last_ns, now_ns);
        let since_ns = now_ns.saturating_sub(self.before_ns);
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
        (self.last_ns, self.before_ns, self.told_ns) = (0, 0, 0);
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

    /// Whether it is silent for longer than it ever should, by so many intervals; never if that is 0.
    pub(crate) fn is_silent(&self, now_ns: u64, intervals: u64) -> bool {
        intervals > 0 && self.quiet_for(now_ns, SILENT_NS_MIN, intervals)
    }

    /// Whether it had ticked on while another did not, before what it says just now.
    pub(crate) fn is_ahead_of(&self, other: &Self) -> bool {
        self.before_ns >= other.last_ns.saturating_add(AHEAD_NS_MIN)
    }

    /// Whether another had ticked on while it did not.
    pub(crate) fn is_behind(&self, other: &Self) -> bool {
        other.last_ns >= self.last_ns.saturating_add(AHEAD_NS_MIN)
    }

    /// Whether its subscription counts as dead, given when the instrument last said something on any other leg that
    /// carries it; told once, and again each time that it has lasted so long again.
    pub(crate) fn dies(&mut self, now_ns: u64, elsewhere_ns: Option<u64>) -> bool {
        let shared = elsewhere_ns.is_some_and(|other_ns| other_ns < self.last_ns.saturating_add(AHEAD_NS_MIN));
        let (least_ns, intervals) =
            if shared { (SHARED_NS_MIN, SHARED_INTERVALS) } else { (DEAD_NS_MIN, DEAD_INTERVALS) };
        let dead = self.quiet_for(now_ns, least_ns, intervals)
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
        assert!(!pulse.is_silent(last_ns + 1_999 * MS, 20));
        assert!(pulse.is_silent(last_ns + 2_000 * MS, 20));
        assert!(!pulse.dies(last_ns + 4_999 * MS, None));
        assert!(pulse.dies(last_ns + 5_000 * MS, None));
        assert!(!pulse.dies(last_ns + 5_100 * MS, None), "told once");
        assert!(pulse.dies(last_ns + 11_000 * MS, None), "and again");
        pulse.beat(last_ns + 12_000 * MS);
        assert!(!pulse.is_silent(last_ns + 13_000 * MS, 20));
    }

    #[test]
    fn a_silence_that_all_legs_share_is_the_markets() {
        let (mut pulse, last_ns) = beating(50);
        assert!(!pulse.dies(last_ns + 30_000 * MS, Some(last_ns + 10 * MS)));
        assert!(pulse.dies(last_ns + 30_000 * MS, Some(last_ns + 20_000 * MS)), "another ticks on");
        let (mut pulse, last_ns) = beating(50);
        assert!(pulse.dies(last_ns + 60_000 * MS, Some(last_ns)), "not for ever");
    }

    #[test]
    fn the_first_word_after_a_pause_is_no_proof_against_the_others() {
        let ((mut one, last_ns), (mut other, _)) = (beating(50), beating(50));
        one.beat(last_ns + 2_100 * MS);
        assert!(other.is_silent(last_ns + 2_100 * MS, 20) && !one.is_ahead_of(&other), "it was quiet as well");
        one.beat(last_ns + 2_200 * MS);
        assert!(one.is_ahead_of(&other));
        other.beat(last_ns + 2_201 * MS);
        assert!(!one.is_ahead_of(&other));
        assert!(!other.is_silent(last_ns + 60_000 * MS, 0), "never if that is switched off");
    }

    #[test]
    fn a_slow_one_may_be_quiet_and_an_unknown_one_says_nothing() {
        let (mut pulse, last_ns) = beating(1_000);
        assert!(!pulse.is_silent(last_ns + 19_000 * MS, 20));
        assert!(pulse.is_silent(last_ns + 20_000 * MS, 20));
        assert!(!pulse.dies(last_ns + 49_000 * MS, None));
        pulse.forget();
        assert!(!pulse.is_silent(last_ns + 99_000 * MS, 20));
        let mut young = Pulse::default();
        (0..20).for_each(|at| young.beat((1 + at) * MS));
        assert!(!young.is_silent(60_000 * MS, 20));
    }
}
