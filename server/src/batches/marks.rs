//! What the stream's instruments are marked with: out of date, or right but not the last there is.
//!
//! Never: a mark sent twice; LIVE while older batches than they should be are being caught up.

use super::numbers::BatchNumbers;
use market::{Body, Event, LegId};
use std::time::{Duration, Instant};

/// A subscription on which nothing came for so long has nothing that is waiting.
const QUIET: Duration = Duration::from_secs(1);

/// At most one sign of life in this time: a tenth of the least silence that makes a feed stale.
const HEARD_EVERY: Duration = Duration::from_millis(200);

/// The marks of one stream.
#[derive(Debug)]
pub(super) struct Marks {
    leg: LegId,
    behind: Duration,
    /// The subscription is there, since when.
    up: Option<Instant>,
    /// When a message came last.
    heard: Option<Instant>,
    /// When the lanes were told of one last.
    told: Option<Instant>,
    caught_up: bool,
    /// As they were sent last.
    stale: bool,
    gapped: bool,
}

impl Marks {
    /// The marks of a stream that was not heard yet, and what tells the lanes of them.
    pub(super) fn new(leg: LegId, behind: Duration, now_ns: u64) -> (Self, Event) {
        let marks =
            Self { leg, behind, up: None, heard: None, told: None, caught_up: false, stale: true, gapped: false };
        (marks, Event::of_leg(0, leg, now_ns, Body::Halted))
    }

    pub(super) fn up(&mut self, now: Instant) {
        self.up = Some(now);
    }

    pub(super) fn down(&mut self) {
        self.up = None;
        self.caught_up = false;
    }

    /// A message came; gives what tells the lanes of it, now and then.
    pub(super) fn heard(&mut self, now: Instant, now_ns: u64) -> Option<Event> {
        self.heard = Some(now);
        let due = self.told.is_none_or(|told| now.duration_since(told) >= HEARD_EVERY);
        due.then(|| {
            self.told = Some(now);
            Event::of_leg(0, self.leg, now_ns, Body::LegHeard)
        })
    }

    /// A batch was delivered that was published so long ago.
    pub(super) fn delivered(&mut self, age: Duration) {
        self.caught_up = age <= self.behind;
    }

    /// Nothing can be delivered before missing batches come: what is shown is all that there is, and is marked with them.
    pub(super) fn blocked(&mut self) {
        self.caught_up |= self.up.is_some();
    }

    /// Whether the lanes were told that something is missing.
    pub(super) fn is_gapped(&self) -> bool {
        self.gapped
    }

    /// What the lanes are to be told now. `waiting` says that batches are there to be delivered; `gapped`, that some are
    /// missing, or that a loss was accepted.
    pub(super) fn change(&mut self, now: Instant, now_ns: u64, waiting: bool, gapped: bool) -> Vec<Event> {
        let since = self.up.max(self.heard);
        if self.up.is_some() && !waiting && since.is_some_and(|since| now.duration_since(since) >= QUIET) {
            self.caught_up = true;
        }
        let stale = self.up.is_none() || !self.caught_up;
        let mut events = Vec::new();
        if std::mem::replace(&mut self.stale, stale) != stale {
            events.push(Event::of_leg(0, self.leg, now_ns, if stale { Body::Halted } else { Body::Resumed }));
        }
        if std::mem::replace(&mut self.gapped, gapped) != gapped {
            events.push(Event::of_leg(0, self.leg, now_ns, if gapped { Body::Hole } else { Body::Filled }));
        }
        events
    }

    /// Notes the marks for people.
    pub(super) fn note(&self, numbers: &BatchNumbers) {
        numbers.with(|state| {
            state.up = self.up.is_some();
            state.caught_up = self.caught_up;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(events: Vec<Event>) -> Vec<Body> {
        events.into_iter().map(|event| event.body).collect()
    }

    #[test]
    fn it_is_out_of_date_until_it_is_up_and_has_caught_up() {
        let start = Instant::now();
        let after = |ms: u64| start + Duration::from_millis(ms);
        let (mut marks, first) = Marks::new(LegId(3), Duration::from_secs(5), 1);
        assert_eq!(first.body, Body::Halted);
        assert!(marks.change(after(0), 1, false, false).is_empty());
        marks.up(after(10));
        assert!(marks.heard(after(20), 1).is_some());
        assert!(marks.heard(after(21), 1).is_none(), "it was told just now");
        marks.delivered(Duration::from_secs(60));
        assert!(marks.change(after(20), 1, true, false).is_empty(), "an old batch");
        marks.delivered(Duration::from_millis(50));
        assert_eq!(bodies(marks.change(after(30), 1, true, false)), [Body::Resumed]);
        assert_eq!(bodies(marks.change(after(40), 1, true, true)), [Body::Hole]);
        marks.down();
        assert_eq!(bodies(marks.change(after(50), 1, true, false)), [Body::Halted, Body::Filled]);
        marks.up(after(60));
        assert!(marks.change(after(500), 1, false, false).is_empty());
        assert_eq!(bodies(marks.change(after(1_100), 1, false, false)), [Body::Resumed], "nothing is waiting");
    }

    #[test]
    fn a_stream_that_goes_on_behind_a_hole_is_marked_with_the_hole() {
        let start = Instant::now();
        let (mut marks, _) = Marks::new(LegId(3), Duration::from_secs(5), 1);
        marks.up(start);
        assert!(marks.heard(start, 1).is_some());
        assert_eq!(bodies(marks.change(start, 1, false, true)), [Body::Hole]);
        marks.blocked();
        assert_eq!(bodies(marks.change(start, 1, false, true)), [Body::Resumed]);
    }
}
