//! REST snapshots of one venue as a state machine: whose is asked for when, within the venue's allowance. The caller
//! asks [`Snapshots::poll`] which to fetch, and says what came of it.
//!
//! An instrument is owed a snapshot from the moment that a leg carries it after none did, until one came; that is tried
//! until it succeeds. What a guard wants is tried once: it asks again by its own back-off.
//!
//! Never: two requests for one instrument at a time; I/O, a clock or chance, which are passed in.

use super::backoff::{Backoff, Insistence};
use std::collections::VecDeque;

/// Requests under way together at most: enough to start quickly, little enough not to be a burst.
pub const IN_FLIGHT_MAX: usize = 4;

/// Share of the venue's allowance that is used, percent: others may share our address.
pub const ALLOWANCE_PERCENT: u32 = 90;

/// The allowance is for any time this long, in nanoseconds.
const WINDOW_NS: u64 = 60_000_000_000;

/// Pause after a refusal for too many requests that names none, in milliseconds: the whole window.
const LIMITED_MS_DEFAULT: u64 = 60_000;

/// Longest pause that is kept, in milliseconds; the longest ban that Binance documents.
const LIMITED_MS_MAX: u64 = 3 * 24 * 3_600_000;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The snapshot is with the decoder.
    Taken {
        /// What the venue says was used of its allowance in this minute, ours and others'.
        used_weight: Option<u32>,
    },
    /// It failed.
    Failed,
    /// The venue wants fewer requests.
    Limited {
        /// For how long there must be none, in milliseconds, if it says so.
        retry_after_ms: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Idle,
    Queued,
    InFlight {
        run: u64,
    },
    /// To be queued again later.
    Paused,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Bits of the legs that carry it.
    legs: u64,
    /// Counts the times that a leg carried it after none had.
    run: u64,
    /// A snapshot came in this run.
    fresh: bool,
    place: Place,
    backoff: Backoff,
    insistence: Insistence,
}

impl Entry {
    fn owed(&self) -> bool {
        self.legs != 0 && !self.fresh
    }
}

/// The snapshots of one venue.
#[derive(Debug)]
pub struct Snapshots {
    entries: Vec<Entry>,
    weights: Vec<u32>,
    queue: VecDeque<usize>,
    paused: Vec<(u64, usize)>,
    in_flight: usize,
    allowance: u32,
    spent: VecDeque<(u64, u32)>,
    limited_until_ns: u64,
}

impl Snapshots {
    /// For instruments with requests of these weights, within an allowance per minute.
    #[must_use]
    pub fn new(weights: Vec<u32>, weight_per_minute: u32) -> Self {
        Self {
            entries: vec![Entry::default(); weights.len()],
            weights,
            queue: VecDeque::new(),
            paused: Vec::new(),
            in_flight: 0,
            allowance: weight_per_minute / 100 * ALLOWANCE_PERCENT,
            spent: VecDeque::new(),
            limited_until_ns: 0,
        }
    }

    /// A leg (0 to 63) carries an instrument now. If another one did all along, its book goes on.
    pub fn carried(&mut self, leg: usize, at: usize) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        if entry.legs == 0 {
            entry.run += 1;
            entry.fresh = false;
        }
        entry.legs |= bit(leg);
        if entry.owed() {
            self.queue(at);
        }
    }

    /// A leg's connection ended.
    pub fn leg_down(&mut self, leg: usize) {
        for entry in &mut self.entries {
            entry.legs &= !bit(leg);
        }
    }

    /// A guard wants one; whether it did so often in a row that a person should look.
    pub fn wanted(&mut self, now_ns: u64, at: usize) -> bool {
        let Some(entry) = self.entries.get_mut(at) else { return false };
        let insisted = entry.insistence.done(now_ns);
        self.queue(at);
        insisted
    }

    fn queue(&mut self, at: usize) {
        if let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.place == Place::Idle) {
            entry.place = Place::Queued;
            self.queue.push_back(at);
        }
    }

    /// Which to fetch now, if any; to be asked until there is none. What no leg carries any more is forgotten.
    pub fn poll(&mut self, now_ns: u64) -> Option<usize> {
        self.resume(now_ns);
        while self.spent.front().is_some_and(|(at_ns, _)| now_ns >= at_ns.saturating_add(WINDOW_NS)) {
            self.spent.pop_front();
        }
        if self.in_flight >= IN_FLIGHT_MAX || now_ns < self.limited_until_ns {
            return None;
        }
        let used = self.used();
        loop {
            let at = *self.queue.front()?;
            let (entry, weight) = (self.entries.get_mut(at)?, self.weights.get(at).copied().unwrap_or(0));
            if entry.legs == 0 {
                entry.place = Place::Idle;
                self.queue.pop_front();
                continue;
            }
            if used.saturating_add(weight) > self.allowance && !self.spent.is_empty() {
                return None;
            }
            entry.place = Place::InFlight { run: entry.run };
            self.queue.pop_front();
            self.spent.push_back((now_ns, weight));
            self.in_flight += 1;
            return Some(at);
        }
    }

    fn used(&self) -> u32 {
        self.spent.iter().fold(0, |sum, (_, weight)| sum.saturating_add(*weight))
    }

    /// Queues what waited for its time.
    fn resume(&mut self, now_ns: u64) {
        let due: Vec<_> = self.paused.extract_if(.., |(at_ns, _)| now_ns >= *at_ns).collect();
        for (_, at) in due {
            if let Some(entry) = self.entries.get_mut(at) {
                entry.place = Place::Idle;
                self.queue(at);
            }
        }
    }

    /// A request ended. A later attempt is spread by 64 random bits.
    pub fn answered(&mut self, now_ns: u64, at: usize, outcome: Outcome, random: u64) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        let Place::InFlight { run } = entry.place else { return };
        entry.place = Place::Idle;
        self.in_flight = self.in_flight.saturating_sub(1);
        match outcome {
            Outcome::Taken { used_weight } => {
                entry.backoff.reset();
                entry.fresh |= entry.run == run && entry.legs != 0;
                if entry.owed() {
                    self.queue(at);
                }
                self.told_used(now_ns, used_weight);
            }
            Outcome::Failed if entry.owed() => {
                let pause_ns = entry.backoff.next_ms(random).saturating_mul(1_000_000);
                entry.place = Place::Paused;
                self.paused.push((now_ns.saturating_add(pause_ns), at));
            }
            Outcome::Failed => {}
            Outcome::Limited { retry_after_ms } => {
                let pause_ms = retry_after_ms.unwrap_or(LIMITED_MS_DEFAULT).min(LIMITED_MS_MAX);
                let until_ns = now_ns.saturating_add(pause_ms.saturating_mul(1_000_000));
                self.limited_until_ns = self.limited_until_ns.max(until_ns);
                self.queue(at);
            }
        }
    }

    /// Others that share our address count as well.
    fn told_used(&mut self, now_ns: u64, used_weight: Option<u32>) {
        let others = used_weight.unwrap_or(0).saturating_sub(self.used());
        if others > 0 {
            self.spent.push_back((now_ns, others));
        }
    }

    /// When [`Snapshots::poll`] has something to do, if nothing else happens; none for now.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let paused = self.paused.iter().map(|(at_ns, _)| *at_ns).min();
        if self.queue.is_empty() || self.in_flight >= IN_FLIGHT_MAX {
            return paused;
        }
        let weight = self.queue.front().and_then(|at| self.weights.get(*at)).copied().unwrap_or(0);
        let exceeded = self.used().saturating_add(weight) > self.allowance;
        let released = self.spent.front().filter(|_| exceeded).map_or(0, |(at_ns, _)| at_ns.saturating_add(WINDOW_NS));
        Some(paused.unwrap_or(u64::MAX).min(self.limited_until_ns.max(released)))
    }

    /// Whether a snapshot came since a leg carries the instrument.
    #[must_use]
    pub fn is_fresh(&self, at: usize) -> bool {
        self.entries.get(at).is_some_and(|entry| entry.legs != 0 && entry.fresh)
    }
}

fn bit(leg: usize) -> u64 {
    u32::try_from(leg).ok().and_then(|leg| 1_u64.checked_shl(leg)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const TAKEN: Outcome = Outcome::Taken { used_weight: None };

    fn all(snapshots: &mut Snapshots, now_ns: u64) -> Vec<usize> {
        std::iter::from_fn(|| snapshots.poll(now_ns)).collect()
    }

    #[test]
    fn one_request_for_an_instrument_at_a_time_and_few_together() {
        let mut snapshots = Snapshots::new(vec![50; 6], 6_000);
        (0..6).for_each(|at| snapshots.carried(0, at));
        assert_eq!(all(&mut snapshots, S), [0, 1, 2, 3]);
        for _ in 0..100 {
            snapshots.wanted(S, 0);
            snapshots.wanted(S, 5);
        }
        assert_eq!(all(&mut snapshots, S), [0; 0]);
        snapshots.answered(S, 0, TAKEN, 0);
        assert_eq!(all(&mut snapshots, S), [4]);
        (1..5).for_each(|at| snapshots.answered(S, at, TAKEN, 0));
        assert_eq!(all(&mut snapshots, S), [5], "the hundred wishes were one");
        snapshots.answered(S, 5, TAKEN, 0);
        assert_eq!((all(&mut snapshots, 2 * S), snapshots.deadline_ns()), (vec![], None));
        assert!((0..6).all(|at| snapshots.is_fresh(at)));
    }

    #[test]
    fn too_many_requests_pause_all_of_them_for_as_long_as_told() {
        let mut snapshots = Snapshots::new(vec![50; 2], 6_000);
        snapshots.carried(0, 0);
        assert_eq!(all(&mut snapshots, S), [0]);
        snapshots.answered(S, 0, Outcome::Limited { retry_after_ms: Some(7_000) }, 0);
        snapshots.carried(0, 1);
        assert_eq!((all(&mut snapshots, 8 * S - 1), snapshots.deadline_ns()), (vec![], Some(8 * S)));
        assert_eq!(all(&mut snapshots, 8 * S), [0, 1]);
    }

    #[test]
    fn the_allowance_of_any_minute_is_kept_with_what_others_use() {
        let mut snapshots = Snapshots::new(vec![50; 200], 6_000);
        (0..200).for_each(|at| snapshots.carried(0, at));
        let mut fetched = 0;
        while let Some(at) = snapshots.poll(S) {
            fetched += 1;
            snapshots.answered(S, at, TAKEN, 0);
        }
        assert_eq!(fetched, 5_400 / 50);
        assert_eq!(snapshots.deadline_ns(), Some(61 * S));
        let next = snapshots.poll(61 * S).unwrap();
        snapshots.answered(61 * S, next, Outcome::Taken { used_weight: Some(5_390) }, 0);
        assert_eq!(snapshots.poll(61 * S), None);
        assert!(snapshots.poll(121 * S).is_some());
    }

    #[test]
    fn what_is_owed_is_tried_until_it_comes_and_what_a_guard_wants_once() {
        let mut snapshots = Snapshots::new(vec![50], 6_000);
        snapshots.carried(0, 0);
        let mut now_ns = S;
        for ceiling_ms in [250, 500, 1_000] {
            assert_eq!(snapshots.poll(now_ns), Some(0));
            snapshots.answered(now_ns, 0, Outcome::Failed, u64::MAX);
            assert_eq!(snapshots.deadline_ns(), Some(now_ns + ceiling_ms * 1_000_000));
            snapshots.wanted(now_ns, 0);
            assert_eq!(snapshots.poll(now_ns), None, "a wish does not hurry it");
            now_ns += ceiling_ms * 1_000_000;
        }
        assert_eq!(snapshots.poll(now_ns), Some(0));
        snapshots.answered(now_ns, 0, TAKEN, 0);
        snapshots.wanted(now_ns, 0);
        assert_eq!(snapshots.poll(now_ns), Some(0));
        snapshots.answered(now_ns, 0, Outcome::Failed, u64::MAX);
        assert_eq!((snapshots.poll(now_ns), snapshots.deadline_ns()), (None, None));
    }

    #[test]
    fn a_second_leg_needs_no_snapshot_and_the_last_one_s_end_owes_one() {
        let mut snapshots = Snapshots::new(vec![50], 6_000);
        snapshots.carried(0, 0);
        assert_eq!(snapshots.poll(S), Some(0));
        snapshots.answered(S, 0, TAKEN, 0);
        snapshots.carried(1, 0);
        snapshots.leg_down(0);
        snapshots.carried(0, 0);
        assert_eq!(snapshots.poll(S), None);
        snapshots.leg_down(0);
        snapshots.leg_down(1);
        snapshots.wanted(S, 0);
        assert_eq!(snapshots.poll(S), None, "nobody carries it");
        snapshots.carried(1, 0);
        assert_eq!(snapshots.poll(S), Some(0));
        // It was asked for before the gap that comes now.
        snapshots.leg_down(1);
        snapshots.carried(1, 0);
        snapshots.answered(S, 0, TAKEN, 0);
        assert!(!snapshots.is_fresh(0));
        assert_eq!(snapshots.poll(S), Some(0));
    }

    #[test]
    fn a_guard_that_is_never_content_is_told_of() {
        let mut snapshots = Snapshots::new(vec![50], 6_000);
        snapshots.carried(0, 0);
        let mut alarms = 0;
        for time in 0..12 {
            alarms += u32::from(snapshots.wanted(time * 30 * S, 0));
            if snapshots.poll(time * 30 * S).is_some() {
                snapshots.answered(time * 30 * S, 0, TAKEN, 0);
            }
        }
        assert_eq!(alarms, 2);
    }
}
