//! Any mixture of restarts of the venue's ids, legs that go and come or are subscribed to again, losses, and REST that lags: each version has one
//! content for ever, and when the venue falls quiet the stream is live at the venue's own state.
//!
//! Never: a restart that ids cannot give away; each count begins far below the one before.

use super::*;
use std::collections::BTreeMap;

/// Updates of one count.
const LENGTH: u64 = 120;

/// Where the counts begin.
const BEGINS: [u64; 3] = [10_000, 5_000, 100];

/// A place: which count, and which of its updates, from 0.
type At = (usize, u64);

fn id((era, at): At) -> u64 {
    BEGINS[era] + at
}

/// One connection: it tells what it tells in order.
#[derive(Clone, Copy, Debug)]
struct Wire {
    leg: LegId,
    up: bool,
    next: At,
}

struct Stage {
    guard: Guard<At, At>,
    now_ns: u64,
    /// What the shown book holds.
    content: Option<At>,
    /// What was ever shown at a version.
    seen: BTreeMap<Version, At>,
    wires: [Wire; 2],
    /// What the venue did last.
    venue: At,
}

impl Stage {
    fn new() -> Self {
        let wire = |leg| Wire { leg, up: true, next: (0, 0) };
        Self {
            guard: Guard::new(Limits::default(), 0, 1),
            now_ns: 0,
            content: None,
            seen: BTreeMap::new(),
            wires: [wire(A), wire(B)],
            venue: (0, 0),
        }
    }

    fn show(&mut self, version: Version, content: At) {
        assert_eq!(version.seq, id(content));
        if let Some((last, _)) = self.seen.last_key_value() {
            assert!(version >= *last, "{version} after {last}");
        }
        let held = *self.seen.entry(version).or_insert(content);
        assert_eq!(held, content, "two books at {version}");
        self.content = Some(content);
    }

    fn replaced(&mut self, version: Version, content: At) {
        // The lane compares the books where a rebuilt one ends at the shown version; here it is the same one or not.
        if self.seen.get(&version).is_some_and(|held| *held != content) {
            let version = self.guard.diverged().expect("shown");
            return self.show(version, content);
        }
        if self.seen.last_key_value().is_some_and(|(last, _)| version < *last) {
            self.content = Some(content);
        } else {
            self.show(version, content);
        }
    }

    fn applied(&mut self, version: Version, update: At) {
        let content = self.content.expect("an update without a book");
        assert!(update.0 == content.0 && update.1 <= content.1 + 1, "{update:?} applied over {content:?}");
        let content = (content.0, content.1.max(update.1));
        if self.seen.last_key_value().is_some_and(|(last, _)| version < *last) {
            self.content = Some(content);
        } else {
            self.show(version, content);
        }
    }

    fn settle(&mut self) {
        if let Some((version, content)) = self.guard.poll(self.now_ns) {
            self.replaced(version, content);
        }
        while let Some((version, update)) = self.guard.next_ready() {
            self.applied(version, update);
        }
    }

    fn wait(&mut self, ms: u64) {
        for _ in 0..ms / 50 {
            self.now_ns += 50 * MS;
            self.settle();
        }
    }

    /// A wire tells its next update, after losing some.
    fn tell(&mut self, at: usize, lost: u64) {
        let wire = &mut self.wires[at];
        let mut next = (wire.next.0, wire.next.1 + lost);
        if next.1 >= LENGTH || next.0 < self.venue.0 && lost > 3 {
            next = (next.0 + 1, 0);
        }
        if !wire.up || next > self.venue {
            return;
        }
        wire.next = (next.0, next.1 + 1);
        let leg = wire.leg;
        let sequence = Sequence::Venue { first: id(next), last: id(next) };
        match self.guard.offer(self.now_ns, leg, sequence) {
            Offer::Apply(version) => self.applied(version, next),
            Offer::Hold => self.guard.hold(self.now_ns, leg, sequence, next, 100),
            _ => {}
        }
        self.settle();
    }

    /// A wire says that nothing is missing after what it told last.
    fn assure(&mut self, at: usize) {
        let wire = self.wires[at];
        let Some(last) = wire.next.1.checked_sub(1).filter(|_| wire.up) else { return };
        let (leg, place) = (wire.leg, (wire.next.0, last));
        let sequence = Sequence::Venue { first: id(place) + 1, last: id(place) };
        match self.guard.offer(self.now_ns, leg, sequence) {
            Offer::Apply(version) => panic!("an assurance was applied at {version}"),
            Offer::Hold => self.guard.hold(self.now_ns, leg, sequence, place, 100),
            _ => {}
        }
        self.settle();
    }

    /// A wire is subscribed to again on its open connection. It is answered with a book some updates old, goes on from
    /// there, as it says at once.
    fn resubscribe(&mut self, at: usize, ago: u64) {
        let place = (self.venue.0, self.venue.1.saturating_sub(ago));
        if !self.wires[at].up {
            return;
        }
        self.wires[at].next = (place.0, place.1 + 1);
        let sequence = Sequence::Venue { first: id(place), last: id(place) };
        self.guard.leg_told_all(self.wires[at].leg, sequence);
        self.rest(place);
        self.assure(at);
    }

    fn rest(&mut self, place: At) {
        let sequence = Sequence::Venue { first: id(place), last: id(place) };
        if let Ok(Some((version, content))) = self.guard.offer_snapshot(self.now_ns, sequence, place) {
            self.replaced(version, content);
        }
        self.settle();
    }

    fn down(&mut self, at: usize) {
        if std::mem::replace(&mut self.wires[at].up, false) {
            self.guard.leg_down(self.wires[at].leg);
            if self.wires.iter().all(|wire| !wire.up) {
                self.guard.interrupt(self.now_ns);
            }
        }
    }

    fn up(&mut self, at: usize) {
        if !std::mem::replace(&mut self.wires[at].up, true) {
            self.guard.leg_up(self.now_ns, self.wires[at].leg);
            // It begins with what the venue does from now on.
            self.wires[at].next = (self.venue.0, self.venue.1 + 1);
        }
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Change(u64),
    Restart,
    Tell(usize, u64),
    Assure(usize),
    Rest(u64),
    Resubscribe(usize, u64),
    Down(usize),
    Up(usize),
    Wait(u64),
    Break,
}

fn deed() -> impl Strategy<Value = Deed> {
    let leg = 0_usize..2;
    prop_oneof![
        6 => (1_u64..4).prop_map(Deed::Change),
        1 => Just(Deed::Restart),
        12 => (leg.clone(), prop_oneof![4 => Just(0_u64), 1 => 1_u64..6]).prop_map(|(leg, lost)| Deed::Tell(leg, lost)),
        2 => leg.clone().prop_map(Deed::Assure),
        3 => (0_u64..4).prop_map(Deed::Rest),
        2 => (leg.clone(), 0_u64..20).prop_map(|(leg, ago)| Deed::Resubscribe(leg, ago)),
        1 => leg.clone().prop_map(Deed::Down),
        1 => leg.prop_map(Deed::Up),
        2 => prop_oneof![3 => 50_u64..400, 1 => 2_000_u64..15_000].prop_map(Deed::Wait),
        1 => Just(Deed::Break),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]
    #[test]
    fn any_mixture_of_restarts_and_lost_legs_ends_live_at_the_venues_state(
        deeds in prop::collection::vec(deed(), 0..160),
    ) {
        let mut stage = Stage::new();
        for deed in deeds {
            match deed {
                Deed::Change(count) => stage.venue.1 = (stage.venue.1 + count).min(LENGTH / 2),
                Deed::Restart if stage.venue.0 + 1 < BEGINS.len() => stage.venue = (stage.venue.0 + 1, 0),
                Deed::Restart => {}
                Deed::Tell(at, lost) => stage.tell(at, lost),
                Deed::Assure(at) => stage.assure(at),
                // An answer that is some updates old, but of the present count.
                Deed::Rest(ago) => stage.rest((stage.venue.0, stage.venue.1.saturating_sub(ago))),
                Deed::Resubscribe(at, ago) => stage.resubscribe(at, ago),
                Deed::Down(at) => stage.down(at),
                Deed::Up(at) => stage.up(at),
                Deed::Wait(ms) => stage.wait(ms),
                Deed::Break => stage.guard.broken(stage.now_ns),
            }
        }
        // Both legs are there, and tell what happens for longer than a restart may go unnoticed. Then the venue is quiet.
        for _ in 0..40 {
            stage.venue.1 += 1;
            for at in [0, 1] {
                stage.up(at);
                stage.wires[at].next = stage.venue;
                stage.tell(at, 0);
            }
            stage.wait(400);
            if stage.guard.wants_snapshot(stage.now_ns) {
                stage.rest(stage.venue);
            }
        }
        for _ in 0..1_600 {
            stage.wait(50);
            if stage.guard.wants_snapshot(stage.now_ns) {
                stage.rest(stage.venue);
            }
        }
        let guard = &stage.guard;
        prop_assert_eq!(guard.state(), FeedState::Live);
        prop_assert_eq!(stage.content, Some(stage.venue), "{:?}", guard);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// The ids never restart, and one leg tells everything: whatever the other is answered when it is subscribed to again,
    /// nothing is lost, nothing counts as a restart, and the book goes on.
    #[test]
    fn a_leg_that_is_subscribed_to_again_disturbs_no_other(
        deeds in prop::collection::vec((0_u64..3, 0_usize..6, 0_u64..20, 0_u64..3), 1..60),
    ) {
        let mut stage = Stage::new();
        stage.tell(0, 0);
        stage.resubscribe(0, 0);
        for (changes, told, ago, waits) in deeds {
            for _ in 0..changes {
                stage.venue.1 = (stage.venue.1 + 1).min(LENGTH - 1);
                stage.tell(0, 0);
            }
            (0..told).for_each(|_| stage.tell(1, 0));
            if waits == 0 {
                stage.resubscribe(1, ago);
            }
            stage.wait(waits * 100);
            prop_assert_eq!(stage.content, Some(stage.venue));
            prop_assert_eq!((stage.guard.counts().resets, stage.guard.counts().gaps), (0, 0));
        }
        prop_assert_eq!(stage.guard.state(), FeedState::Live);
    }
}
