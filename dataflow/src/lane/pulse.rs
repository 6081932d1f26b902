//! The pulse of one instrument's book: how often it changes, and when its silence is no longer likely although its
//! connection ticks. Connectors keep the same rule for each leg; this one is for the stream that all of them feed.
//!
//! Never: a clock; times are passed in.

use market::feed::PULSE_INTERVALS;

/// The last intervals between two events of one instrument's book.
#[derive(Debug)]
pub(super) struct Pulse {
    /// So many times its median interval it may be silent; 0 = for ever.
    intervals_max: u64,
    /// And at least this long, nanoseconds.
    least_ns: u64,
    intervals_ns: [u64; PULSE_INTERVALS],
    next: usize,
    /// There are as many as the median needs.
    full: bool,
    /// The last event of the book.
    beat_ns: Option<u64>,
    /// The last sign of life of the stream.
    sign_ns: u64,
    silent: bool,
    /// When it is to be looked at next.
    noted_ns: Option<u64>,
}

impl Pulse {
    pub(super) fn new(intervals_max: u64, least_ns: u64) -> Self {
        Self {
            intervals_max,
            least_ns,
            intervals_ns: [0; PULSE_INTERVALS],
            next: 0,
            full: false,
            beat_ns: None,
            sign_ns: 0,
            silent: false,
            noted_ns: None,
        }
    }

    /// An update was applied. What came at one time is one event.
    #[inline]
    pub(super) fn beat(&mut self, now_ns: u64) {
        self.sign(now_ns);
        let Some(before_ns) = self.beat_ns.replace(now_ns) else { return };
        let Some(since_ns) = now_ns.checked_sub(before_ns).filter(|since_ns| *since_ns > 0) else { return };
        if let Some(oldest) = self.intervals_ns.get_mut(self.next) {
            *oldest = since_ns;
        }
        self.next = self.next.saturating_add(1);
        if self.next >= PULSE_INTERVALS {
            (self.next, self.full) = (0, true);
        }
    }

    /// The stream lives, although nothing was applied.
    #[inline]
    pub(super) fn sign(&mut self, now_ns: u64) {
        self.sign_ns = self.sign_ns.max(now_ns);
        self.silent = false;
    }

    /// The book was replaced: what lies between it and the event before is no interval of the venue's.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.sign(now_ns);
        self.beat_ns = Some(now_ns);
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// When it could be silent at the earliest, if that is not noted yet. The median is left for then.
    #[inline]
    pub(super) fn note(&mut self) -> Option<u64> {
        if !self.full || self.silent || self.intervals_max == 0 {
            return None;
        }
        let look_ns = self.sign_ns.saturating_add(self.least_ns);
        if self.noted_ns.is_some_and(|noted_ns| noted_ns <= look_ns) {
            return None;
        }
        self.noted_ns = Some(look_ns);
        self.noted_ns
    }

    /// Time passes; gives when it is to be looked at again, if it was noted for now and is not silent.
    pub(super) fn expire(&mut self, now_ns: u64) -> Option<u64> {
        self.noted_ns.filter(|noted_ns| *noted_ns <= now_ns)?;
        self.noted_ns = None;
        let bound_ns = self.median_ns().saturating_mul(self.intervals_max).max(self.least_ns);
        let deadline_ns = self.sign_ns.saturating_add(bound_ns);
        self.silent = now_ns >= deadline_ns;
        self.noted_ns = (!self.silent).then_some(deadline_ns);
        self.noted_ns
    }

    fn median_ns(&self) -> u64 {
        let mut sorted = self.intervals_ns;
        *sorted.select_nth_unstable(PULSE_INTERVALS / 2).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A pulse of so many events, one every so many milliseconds; the last one at the time that is given too.
    fn beating(events: u64, every_ms: u64) -> (Pulse, u64) {
        let mut pulse = Pulse::new(20, 2_000 * MS);
        (1..=events).for_each(|at| pulse.beat(at * every_ms * MS));
        (pulse, events * every_ms * MS)
    }

    /// When it falls silent, if it is looked at whenever it wants to be.
    fn silent_at(pulse: &mut Pulse) -> Option<u64> {
        let mut look_ns = pulse.note();
        while let Some(at_ns) = look_ns {
            look_ns = pulse.expire(at_ns);
            if pulse.is_silent() {
                return Some(at_ns);
            }
        }
        None
    }

    #[test]
    fn the_bound_is_twenty_medians_and_two_seconds_at_least() {
        for (every_ms, bound_ms) in [(50, 2_000), (100, 2_000), (101, 2_020), (1_000, 20_000)] {
            let (mut pulse, last_ns) = beating(33, every_ms);
            assert_eq!(silent_at(&mut pulse), Some(last_ns + bound_ms * MS), "{every_ms}");
        }
    }

    #[test]
    fn too_few_intervals_say_nothing() {
        let (mut pulse, _) = beating(32, 50);
        assert_eq!(silent_at(&mut pulse), None);
        let mut bursts = Pulse::new(20, 2_000 * MS);
        (0..100).for_each(|_| bursts.beat(7 * MS));
        assert_eq!(silent_at(&mut bursts), None, "what came at one time is one event");
        let (mut off, _) = beating(33, 50);
        off.intervals_max = 0;
        assert_eq!(silent_at(&mut off), None);
    }

    #[test]
    fn a_sign_of_life_puts_it_off_and_ends_it() {
        let (mut pulse, last_ns) = beating(33, 50);
        pulse.sign(last_ns + 1_500 * MS);
        assert_eq!(silent_at(&mut pulse), Some(last_ns + 3_500 * MS));
        pulse.sign(last_ns + 9_000 * MS);
        assert!(!pulse.is_silent());
        assert_eq!(silent_at(&mut pulse), Some(last_ns + 11_000 * MS));
    }

    #[test]
    fn a_pulse_that_quickens_is_looked_at_earlier() {
        let (mut pulse, last_ns) = beating(33, 1_000);
        assert_eq!(pulse.note(), Some(last_ns + 2_000 * MS));
        assert_eq!(pulse.expire(last_ns + 2_000 * MS), Some(last_ns + 20_000 * MS));
        let from_ns = last_ns + 2_000 * MS;
        (1..=32).for_each(|at| pulse.beat(from_ns + at * 10 * MS));
        assert_eq!(silent_at(&mut pulse), Some(from_ns + 320 * MS + 2_000 * MS));
    }
}
