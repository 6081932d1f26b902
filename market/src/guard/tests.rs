//! Tables of single situations, then any mixture of faults against a reference that knows the truth.
//!
//! Never: a wall clock; time is a number that the test makes.

mod assurances;
mod eras;
mod resubscribed;
mod returning;

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const A: LegId = LegId(0);
const B: LegId = LegId(1);

/// A guard whose payloads are the ids themselves, and the ids that were shown, in order.
struct Tape {
    guard: Guard<u64, (u64, u64)>,
    shown: Vec<Version>,
    now_ns: u64,
    /// Id that the book's content stands at; checked at every step.
    content: Option<u64>,
}

impl Tape {
    fn new() -> Self {
        Self { guard: Guard::new(Limits::default(), 0, 0), shown: Vec::new(), now_ns: 0, content: None }
    }

    fn delta(&mut self, leg: LegId, first: u64, last: u64) -> Offer {
        let sequence = Sequence::Venue { first, last };
        let offer = self.guard.offer(self.now_ns, leg, sequence);
        match offer {
            Offer::Apply(version) => self.applied(version, (first, last)),
            Offer::Hold => self.guard.hold(self.now_ns, leg, sequence, (first, last), 100),
            _ => {}
        }
        self.poll();
        offer
    }

    fn snapshot(&mut self, id: u64) -> Result<bool, Refusal> {
        let offer = self.guard.offer_snapshot(self.now_ns, Sequence::Venue { first: id, last: id }, id);
        if let Ok(Some((version, id))) = offer {
            self.replaced(version, id);
        }
        self.drain();
        offer.map(|replaced| replaced.is_some())
    }

    /// A snapshot that the stream of a leg brings by itself.
    fn told_all(&mut self, leg: LegId, id: u64) -> Result<bool, Refusal> {
        self.guard.leg_told_all(leg, Sequence::Venue { first: id, last: id });
        let taken = self.snapshot(id);
        // With it comes the word that the stream stands there.
        self.delta(leg, id + 1, id);
        taken
    }

    fn poll(&mut self) {
        if let Some((version, id)) = self.guard.poll(self.now_ns) {
            self.replaced(version, id);
        }
        self.drain();
    }

    fn after(&mut self, ms: u64) {
        self.now_ns += ms * MS;
        self.poll();
    }

    fn drain(&mut self) {
        while let Some((version, ids)) = self.guard.next_ready() {
            self.applied(version, ids);
        }
    }

    fn applied(&mut self, version: Version, (first, last): (u64, u64)) {
        let content = self.content.expect("an update was applied without a book");
        assert!(first <= content + 1 && content < last, "{first}..{last} applied over {content}");
        assert_eq!(version.seq, last);
        self.content = Some(last);
        self.show(version);
    }

    fn replaced(&mut self, version: Version, id: u64) {
        assert_eq!(version.seq, id);
        self.content = Some(id);
        self.show(version);
    }

    fn show(&mut self, version: Version) {
        self.shown.push(version);
    }

    fn seqs(&self) -> Vec<u64> {
        self.shown.iter().map(|version| version.seq).collect()
    }
}

#[test]
fn nothing_is_visible_before_the_snapshot_and_then_only_what_it_lacks() {
    let mut tape = Tape::new();
    assert_eq!(tape.delta(A, 101, 101), Offer::Hold);
    assert_eq!(tape.delta(A, 102, 102), Offer::Hold);
    assert_eq!(tape.guard.state(), FeedState::Syncing);
    assert!(tape.shown.is_empty());
    assert_eq!(tape.snapshot(101), Ok(true));
    assert_eq!(tape.delta(A, 103, 103), Offer::Apply(Version::new(0, 103)));
    assert_eq!(tape.seqs(), [101, 102, 103]);
}

#[test]
fn a_snapshot_that_the_first_update_does_not_join_is_refused_and_fetched_again() {
    let mut tape = Tape::new();
    assert_eq!(tape.snapshot(100), Ok(false));
    tape.delta(A, 105, 105);
    assert_eq!((tape.guard.state(), tape.shown.len()), (FeedState::Syncing, 0));
    assert!(!tape.guard.wants_snapshot(tape.now_ns), "not before its pause");
    tape.after(250);
    assert!(tape.guard.wants_snapshot(tape.now_ns));
    assert!(!tape.guard.wants_snapshot(tape.now_ns), "one in flight");
    assert_eq!(tape.snapshot(100), Err(Refusal::Unbridged));
    assert_eq!(tape.snapshot(104), Ok(true));
    assert_eq!(tape.seqs(), [104, 105]);
}

#[test]
fn a_quiet_book_is_shown_when_nothing_contradicts_its_snapshot() {
    let mut tape = Tape::new();
    assert_eq!(tape.snapshot(100), Ok(false));
    tape.after(249);
    assert_eq!(tape.guard.state(), FeedState::Syncing);
    tape.after(1);
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![100]));
}

#[test]
fn a_snapshot_ahead_of_the_stream_covers_what_comes_late() {
    let mut tape = Tape::new();
    tape.delta(A, 100, 100);
    assert_eq!(tape.snapshot(143), Ok(false));
    for id in 101..=143 {
        assert_eq!(tape.delta(A, id, id), Offer::Covered);
    }
    tape.delta(A, 144, 144);
    assert_eq!(tape.seqs(), [143, 144]);
    assert_eq!(tape.guard.counts(), Counts::default());
}

#[test]
fn updates_that_overlap_the_shown_one_are_applied() {
    let mut tape = Tape::new();
    tape.delta(A, 99, 102);
    assert_eq!(tape.snapshot(100), Ok(true));
    assert_eq!(tape.delta(A, 102, 104), Offer::Apply(Version::new(0, 104)));
    assert_eq!(tape.delta(A, 90, 104), Offer::Duplicate);
    assert_eq!(tape.delta(A, 105, 105), Offer::Apply(Version::new(0, 105)));
    assert_eq!(tape.seqs(), [100, 102, 104, 105]);
}

fn live_at(id: u64) -> Tape {
    let mut tape = Tape::new();
    tape.delta(A, id, id);
    tape.snapshot(id - 1).unwrap();
    tape
}

#[test]
fn the_other_leg_fills_a_hole() {
    let mut tape = live_at(100);
    assert_eq!(tape.delta(A, 102, 102), Offer::Hold);
    tape.after(200);
    assert_eq!(tape.delta(B, 101, 101), Offer::Apply(Version::new(0, 101)));
    assert_eq!(tape.delta(B, 102, 102), Offer::Duplicate);
    tape.after(1_000);
    assert_eq!((tape.guard.state(), tape.seqs()), (FeedState::Live, vec![99, 100, 101, 102]));
    assert_eq!(tape.guard.counts().gaps, 0);
}

#[test]
fn a_hole_is_declared_by_time_and_healed_by_a_bridged_snapshot() {
    let mut tape = live_at(100);
    tape.delta(A, 102, 102);
    tape.after(250);
    assert_eq!((tape.guard.state(), tape.guard.counts().gaps), (FeedState::Gapped, 1));
    assert_eq!(tape.guard.version(), Some(Version::new(0, 100)), "the old book stays readable");
    assert!(tape.guard.wants_snapshot(tape.now_ns));
    assert_eq!(tape.snapshot(100), Err(Refusal::Unbridged));
    tape.delta(A, 103, 103);
    assert_eq!(tape.snapshot(101), Ok(true));
    assert_eq!((tape.guard.state(), tape.guard.counts().resyncs), (FeedState::Live, 1));
    assert_eq!(tape.seqs(), [99, 100, 101, 102, 103]);
}

#[test]
fn an_older_snapshot_heals_nothing() {
    let mut tape = live_at(100);
    assert_eq!(tape.snapshot(50), Err(Refusal::Older));
    tape.guard.broken(tape.now_ns);
    assert_eq!(tape.snapshot(50), Err(Refusal::Older));
    assert_eq!(tape.guard.state(), FeedState::Gapped);
    assert_eq!(tape.snapshot(100), Ok(false));
    tape.delta(A, 101, 101);
    assert_eq!(tape.seqs(), [99, 100, 100, 101]);
}

#[test]
fn a_regression_is_counted_apart_from_a_duplicate_and_neither_is_applied() {
    let mut tape = live_at(100);
    tape.delta(A, 101, 105);
    assert_eq!(tape.delta(B, 101, 105), Offer::Duplicate);
    assert_eq!(tape.delta(LegId(2), 103, 104), Offer::Regression);
    assert_eq!(tape.seqs(), [99, 100, 105]);
}

#[test]
fn ids_that_restart_on_one_connection_open_a_new_epoch() {
    let mut tape = live_at(26_941_144);
    assert_eq!(tape.delta(A, 624_086, 624_086), Offer::Hold);
    assert_eq!((tape.guard.state(), tape.guard.counts().resets), (FeedState::Gapped, 1));
    tape.delta(A, 624_087, 624_087);
    assert_eq!(tape.snapshot(26_941_144), Err(Refusal::Older), "from before the restart");
    assert_eq!(tape.snapshot(624_085), Ok(true));
    let last: Vec<_> = tape.shown.iter().rev().take(3).rev().copied().collect();
    assert_eq!(last, [Version::new(1, 624_085), Version::new(1, 624_086), Version::new(1, 624_087)]);
}

#[test]
fn ids_that_a_new_connection_brings_below_the_shown_ones_count_as_restarted_after_a_while() {
    let mut tape = live_at(1_000);
    tape.guard.block = 50;
    for id in 1..=100 {
        assert_eq!(tape.delta(B, id, id), Offer::Regression);
        assert_eq!(tape.snapshot(id), Err(Refusal::Older));
        tape.after(100);
    }
    assert_eq!(tape.delta(B, 101, 101), Offer::Hold);
    assert_eq!((tape.guard.state(), tape.guard.counts().resets), (FeedState::Gapped, 1));
    assert_eq!(tape.snapshot(100), Ok(true));
    assert_eq!(tape.shown.last(), Some(&Version::new(50, 101)), "the epoch is one of the reserved block");
}

#[test]
fn a_leg_that_lags_behind_the_other_restarts_nothing() {
    let mut tape = live_at(1_000);
    for id in 1_001..1_400 {
        tape.delta(A, id, id);
        assert_ne!(tape.delta(B, id - 900, id - 900), Offer::Hold);
        tape.after(100);
    }
    assert_eq!(tape.guard.counts(), Counts::default());
}

#[test]
fn an_overflowing_buffer_is_a_gap_and_never_applied_in_part() {
    let mut tape = Tape::new();
    tape.guard.limits.held_bytes_max = 1_000 * 100;
    for id in 1..=1_500 {
        tape.delta(A, id, id);
    }
    assert_eq!(tape.guard.counts().overflows, 1);
    assert!(tape.guard.held_bytes() <= 1_000 * 100);
    assert_eq!(tape.snapshot(10), Err(Refusal::Unbridged));
    assert!(tape.shown.is_empty());
    assert_eq!(tape.snapshot(1_400), Ok(true));
    assert_eq!(tape.seqs().last(), Some(&1_500));
}

#[test]
fn requests_back_off_to_a_cap() {
    let mut tape = live_at(100);
    tape.guard.broken(tape.now_ns);
    let mut asked = Vec::new();
    for _ in 0..400 {
        if tape.guard.wants_snapshot(tape.now_ns) {
            asked.push(tape.now_ns / MS);
        }
        tape.after(500);
    }
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert_eq!(pauses.last(), Some(&30_000));
}

#[test]
fn a_refresh_asks_for_a_snapshot_while_the_book_goes_on() {
    let mut tape = live_at(100);
    tape.guard.refresh(tape.now_ns);
    assert!(tape.guard.wants_snapshot(tape.now_ns) && !tape.guard.wants_snapshot(tape.now_ns));
    assert_eq!(tape.delta(A, 101, 101), Offer::Apply(Version::new(0, 101)));
    assert_eq!(tape.snapshot(99), Err(Refusal::Older));
    tape.after(250);
    assert!(tape.guard.wants_snapshot(tape.now_ns));
    assert_eq!((tape.snapshot(103), tape.guard.state()), (Ok(true), FeedState::Live));
    assert_eq!(tape.delta(A, 102, 103), Offer::Covered);
    tape.after(60_000);
    assert!(!tape.guard.wants_snapshot(tape.now_ns), "it was told");
    assert_eq!(tape.guard.counts().gaps, 0);
}

#[test]
fn a_synthesized_stream_opens_an_epoch_at_each_start() {
    let mut guard: Guard<(), ()> = Guard::new(Limits::default(), 7, 7);
    assert_eq!(guard.offer(0, A, Sequence::Arrival(3)), Offer::Unanchored);
    assert_eq!(guard.offer_snapshot(0, Sequence::Arrival(4), ()), Ok(Some((Version::new(7, 4), ()))));
    assert_eq!(guard.offer(0, A, Sequence::Arrival(9)), Offer::Apply(Version::new(7, 9)));
    assert_eq!(guard.offer(0, A, Sequence::Arrival(9)), Offer::Duplicate);
    guard.broken(0);
    assert_eq!(guard.offer(0, A, Sequence::Arrival(10)), Offer::Unanchored);
    assert_eq!(guard.offer_snapshot(0, Sequence::Arrival(11), ()), Ok(Some((Version::new(8, 11), ()))));
    assert_eq!(guard.offer_snapshot(0, Sequence::Arrival(11), ()), Err(Refusal::Duplicate));
}

#[derive(Clone, Debug)]
enum Step {
    /// Update number, modulo those there are, on a leg.
    Update(usize, bool),
    /// Snapshot of the venue's state after that many updates.
    Snapshot(usize),
    Wait(u64),
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_usize..40, any::<bool>()).prop_map(|(at, leg)| Step::Update(at, leg)),
        2 => (0_usize..40).prop_map(Step::Snapshot),
        1 => (0_u64..400).prop_map(Step::Wait),
        1 => Just(Step::Break),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// Whatever is lost, repeated, late or reordered: versions only rise, nothing is applied over a hole (the tape
    /// asserts it), and a clean tail brings the stream back to life at the venue's own state.
    #[test]
    fn any_mixture_of_faults_only_moves_forward(
        widths in prop::collection::vec(1_u64..5, 40),
        ordered in any::<bool>(),
        mut steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut next = 1;
        let updates: Vec<(u64, u64)> = widths.iter().map(|width| { let first = next; next += width; (first, next - 1) }).collect();
        if ordered {
            // One connection never reorders; two legs and late snapshots do.
            steps.sort_by_key(|step| match step { Step::Update(at, _) => *at, _ => 0 });
        }
        let mut tape = Tape::new();
        for step in steps {
            match step {
                Step::Update(at, leg) => { tape.delta(if leg { A } else { B }, updates[at].0, updates[at].1); }
                Step::Snapshot(at) => { let _refused = tape.snapshot(updates[at].1); }
                Step::Wait(ms) => tape.after(ms),
                Step::Break => tape.guard.broken(tape.now_ns),
            }
        }
        for pair in tape.shown.windows(2) {
            prop_assert!(pair[0] <= pair[1], "{} then {}", pair[0], pair[1]);
        }
        // A clean tail on a third leg: a snapshot of now, asked for and bridged.
        tape.after(400);
        let end = next - 1;
        for id in end + 1..=end + 20 {
            tape.delta(LegId(9), id, id);
            tape.after(40);
            if tape.guard.state() != FeedState::Live {
                let _refused = tape.snapshot(id);
            }
        }
        tape.after(300);
        prop_assert_eq!(tape.guard.state(), FeedState::Live);
        prop_assert_eq!(tape.content, Some(end + 20));
    }
}
