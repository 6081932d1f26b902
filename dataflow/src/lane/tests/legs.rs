//! Legs and silence: who was first and by how much, what each leg left out, an instrument that falls silent among others,
//! and a market that stands still.
//!
//! Never: a wall clock.

use super::*;

const A: LegId = LegId(0);
const B: LegId = LegId(1);

impl Tape {
    fn of_leg(&self, leg: LegId) -> LegCounts {
        self.legs.get(&leg).cloned().unwrap_or_default()
    }

    /// The word of a leg that nothing is missing after an id.
    fn assure(&mut self, leg: LegId, ms: u64, id: u64) {
        self.delta_on(leg, ms, 0, (id + 1, id), &[]);
    }
}

#[test]
fn the_first_leg_wins_an_update_and_leads_by_the_difference_of_receive_times() {
    let mut tape = live();
    tape.delta_on(B, 50, 0, (101, 101), &[]);
    for (id, at) in [(102, 60), (103, 70)] {
        tape.delta_on(A, at, 0, (id, id), &[bid(100, id)]);
        tape.delta_on(B, at + 7, 0, (id, id), &[bid(100, id)]);
    }
    tape.delta_on(B, 80, 0, (104, 104), &[bid(100, 4)]);
    tape.delta_on(A, 86, 0, (104, 104), &[bid(100, 4)]);
    tape.until(120);
    let (a, b) = (tape.of_leg(A), tape.of_leg(B));
    // Its update before the second leg was there is remembered by nobody.
    assert_eq!((a.wins, a.leads, a.lead_ns, a.duplicates), (3, 2, 14 * MS, 1));
    assert_eq!((b.wins, b.leads, b.lead_ns, b.duplicates), (1, 1, 6 * MS, 3));
    assert_eq!((tape.counts.applied, tape.counts.duplicates), (4, 4));
}

#[test]
fn an_update_that_waited_behind_a_hole_is_its_own_legs_win_and_the_hole_is_the_legs_gap() {
    let mut tape = live();
    tape.delta_on(B, 50, 0, (101, 101), &[]);
    tape.delta_on(A, 60, 0, (103, 103), &[bid(100, 3)]);
    tape.delta_on(B, 68, 0, (102, 102), &[bid(100, 2)]);
    tape.delta_on(B, 70, 0, (103, 103), &[bid(100, 3)]);
    tape.until(400);
    let (a, b) = (tape.of_leg(A), tape.of_leg(B));
    assert_eq!((a.wins, a.gaps, a.lead_ns), (2, 1, 10 * MS), "101 alone, then 103");
    assert_eq!((b.wins, b.gaps, b.duplicates), (1, 0, 2));
    assert_eq!((tape.counts.gaps, tape.lane.state(SymbolId(0))), (0, Some(FeedState::Live)), "the other leg filled it");
}

#[test]
fn a_leg_received_earlier_by_the_clock_is_told_apart() {
    let mut tape = live();
    tape.delta_on(B, 50, 0, (101, 101), &[]);
    tape.delta_on(A, 70, 0, (102, 102), &[]);
    let delta = Delta {
        sequence: Sequence::Venue { first: 102, last: 102 },
        scale: SCALE,
        changes: vec![],
        window: Window::Whole,
        places: Vec::new(),
    };
    tape.lane.take(Event::of(SymbolId(0), B, 65 * MS, 0, Body::Delta(delta)));
    tape.until(120);
    assert_eq!((tape.of_leg(A).late_wins, tape.of_leg(A).leads), (1, 0));
}

#[test]
fn resyncs_breaks_and_regressions_belong_to_the_leg_that_brought_them() {
    let mut tape = live();
    tape.delta_on(B, 50, 0, (101, 101), &[]);
    tape.take_on(B, 60, 0, Body::Broken(BreakReason::Checksum));
    let sequence = Sequence::Venue { first: 105, last: 105 };
    let snapshot = Snapshot { sequence, scale: SCALE, ticks: vec![bid(100, 1)], window: Window::Whole };
    tape.take_on(B, 70, 0, Body::Snapshot(snapshot));
    tape.delta_on(A, 75, 0, (106, 106), &[]);
    tape.delta_on(B, 80, 0, (106, 106), &[]);
    tape.delta_on(LegId(2), 85, 0, (90, 99), &[]);
    tape.until(400);
    let (a, b) = (tape.of_leg(A), tape.of_leg(B));
    assert_eq!((b.gaps, b.resyncs, b.regressions), (1, 1, 0), "what the book holds is no hole of its leg");
    assert_eq!((a.gaps, a.resyncs), (1, 0), "102 to 105 never came on it");
    assert_eq!(tape.of_leg(LegId(2)).regressions, 1);
    assert_eq!((tape.counts.gaps, tape.counts.resyncs, tape.counts.regressions), (1, 1, 1));
}

#[test]
fn a_leg_that_is_subscribed_to_again_and_answered_with_an_older_book_disturbs_nothing() {
    let mut tape = live();
    for id in 102..=111 {
        tape.delta_on(A, 50, 0, (id, id), &[bid(100, id)]);
        tape.delta_on(B, 51, 0, (id, id), &[bid(100, id)]);
    }
    let snapshot = |id| {
        let sequence = Sequence::Venue { first: id, last: id };
        Body::Snapshot(Snapshot {
            sequence,
            scale: SCALE,
            ticks: vec![bid(100, id), bid(99, 2), ask(102, 3)],
            window: Window::Whole,
        })
    };
    tape.take_on(A, 60, 0, snapshot(111));
    tape.take_on(B, 70, 0, snapshot(108));
    tape.assure(B, 71, 108);
    tape.take_on(A, 72, 0, snapshot(111));
    tape.delta_on(A, 80, 0, (112, 112), &[bid(100, 112)]);
    for id in 109..=113 {
        tape.delta_on(B, 90, 0, (id, id), &[bid(100, id)]);
    }
    tape.until(1_000);
    assert_eq!(tape.lane.state(SymbolId(0)), Some(FeedState::Live));
    assert_eq!((tape.counts.gaps, tape.counts.resets, tape.counts.unbound), (0, 0, 0));
    assert_eq!(tape.last().version, Some(Version::new(0, 113)));
}

#[test]
fn a_stream_without_ids_is_won_by_its_active_leg_and_has_no_leads() {
    let mut tape = Tape::new();
    tape.list(1);
    let window = Window::Best(10);
    let snapshot = |seq| {
        let ticks = vec![bid(100, 1)];
        Body::Snapshot(Snapshot { sequence: Sequence::Arrival(seq), scale: SCALE, ticks, window })
    };
    let delta = |seq| {
        let changes = vec![bid(100, seq)];
        Body::Delta(Delta { sequence: Sequence::Arrival(seq), scale: SCALE, changes, window, places: Vec::new() })
    };
    tape.take_on(A, 1, 1, snapshot(1));
    (2..5).for_each(|seq| tape.take_on(A, seq * 10, 1, delta(seq)));
    tape.take_on(B, 60, 1, snapshot(10));
    (11..13).for_each(|seq| tape.take_on(B, seq * 10, 1, delta(seq)));
    tape.until(400);
    assert_eq!((tape.of_leg(A).wins, tape.of_leg(B).wins, tape.of_leg(A).leads + tape.of_leg(B).leads), (3, 2, 0));
}

#[test]
fn only_legs_that_brought_something_are_in_a_cut() {
    let mut tape = live();
    let mut out = LaneCut::default();
    tape.lane.take(Event::of_leg(0, B, 41 * MS, Body::LegHeard));
    tape.lane.close(1, true, &mut out, &mut Vec::new());
    assert_eq!(out.legs, []);
}

/// An instrument with 20 updates a second and another one that ticks all the time, on a connection that lives.
fn busy() -> (Tape, u64) {
    let mut tape = live();
    tape.list(1);
    tape.snapshot(41, 1, 10, &[bid(50, 1)]);
    tape.delta(42, 1, (11, 11), &[]);
    let mut ms = 50;
    for id in 102..142 {
        tape.delta(ms, 0, (id, id), &[bid(100, id)]);
        tape.delta(ms + 1, 1, (id - 90, id - 90), &[bid(50, id)]);
        tape.heard(ms + 2);
        ms += 50;
    }
    (tape, ms - 50)
}

/// The other instrument goes on ticking until a time.
fn others_tick(tape: &mut Tape, from_ms: u64, until_ms: u64) {
    for (id, ms) in (52..).zip((from_ms..until_ms).step_by(50)) {
        tape.delta(ms, 1, (id, id), &[bid(50, id)]);
        tape.heard(ms + 1);
    }
}

#[test]
fn an_instrument_that_falls_silent_while_others_tick_is_stale_alone() {
    let (mut tape, last_ms) = busy();
    others_tick(&mut tape, last_ms + 50, last_ms + 10_000);
    tape.until(last_ms + 10_000);
    assert_eq!(tape.states(0), [FeedState::Stale]);
    assert_eq!(tape.states(1), [FeedState::Syncing, FeedState::Live], "the other one is as it was");
    let of = |(cut, published): &(u64, InstrumentCut)| {
        (published.symbol == SymbolId(0) && published.feed.is_some()).then_some((*cut, published.received_ns))
    };
    let stale: Vec<_> = tape.published.iter().filter_map(of).collect();
    assert_eq!(stale, [((last_ms + 2_000) / 40, last_ms * MS + 1)], "in time, with the age of its last event");
    assert_eq!((tape.lane.state(SymbolId(0)), tape.counts.gaps), (Some(FeedState::Live), 0), "nothing else changes");
    tape.delta(last_ms + 10_001, 0, (142, 142), &[bid(100, 9)]);
    tape.until(last_ms + 10_100);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Live]);
    assert_eq!(tape.last().version, Some(Version::new(0, 142)));
}

#[test]
fn the_word_that_nothing_is_missing_and_what_a_second_leg_repeats_are_signs_of_life() {
    let (mut tape, last_ms) = busy();
    others_tick(&mut tape, last_ms + 50, last_ms + 1_500);
    tape.assure(A, last_ms + 1_500, 141);
    others_tick(&mut tape, last_ms + 1_550, last_ms + 3_000);
    tape.delta_on(B, last_ms + 3_000, 0, (141, 141), &[]);
    others_tick(&mut tape, last_ms + 3_050, last_ms + 4_900);
    assert!(tape.states(0).is_empty());
    others_tick(&mut tape, last_ms + 4_900, last_ms + 5_200);
    assert_eq!(tape.states(0), [FeedState::Stale]);
    tape.assure(A, last_ms + 5_200, 141);
    tape.until(last_ms + 5_300);
    assert_eq!((tape.states(0), tape.counts.assurances), (vec![FeedState::Stale, FeedState::Live], 2));
}

#[test]
fn what_is_known_to_be_missing_says_more_than_the_silence_of_an_instrument() {
    let (mut tape, last_ms) = busy();
    tape.take(last_ms + 50, 0, Body::Broken(BreakReason::Checksum));
    others_tick(&mut tape, last_ms + 100, last_ms + 5_000);
    assert_eq!(tape.states(0), [FeedState::Gapped]);
}

#[test]
fn a_replay_that_has_ended_does_not_wait_for_silence() {
    let (mut tape, last_ms) = busy();
    tape.until(last_ms + 100);
    assert_eq!(tape.lane.next_due(false), None);
    assert!(tape.lane.next_due(true).is_some());
    let mut out = LaneCut::default();
    tape.lane.close((last_ms + 60_000) / 40, false, &mut out, &mut Vec::new());
    assert!(out.instruments.is_empty(), "{out:?}");
}

#[test]
fn a_market_that_stands_still_is_stale_with_its_age_and_goes_on_without_a_snapshot() {
    let mut tape = live();
    tape.heard(45);
    tape.life(A, 50, Body::Halted);
    tape.until(200);
    assert_eq!((tape.states(0), tape.last().received_ns), (vec![FeedState::Stale], MS + 1));
    tape.life(A, 1_000, Body::Resumed);
    tape.delta(1_010, 0, (102, 102), &[bid(100, 5)]);
    tape.until(1_100);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Live]);
    assert_eq!((tape.last().version, tape.requests, tape.counts.resyncs), (Some(Version::new(0, 102)), 0, 0));
}

#[test]
fn a_gap_during_a_halt_is_seen_when_it_is_over() {
    let mut tape = live();
    tape.heard(45);
    tape.life(A, 50, Body::Halted);
    tape.delta(60, 0, (105, 105), &[]);
    tape.heard(1_000);
    tape.until(1_000);
    tape.life(A, 1_001, Body::Resumed);
    tape.until(1_100);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Gapped]);
}

#[test]
fn the_last_word_of_the_legs_tells_whether_the_market_stands_still() {
    let mut tape = live();
    tape.delta_on(B, 42, 0, (101, 101), &[]);
    tape.life(A, 45, Body::LegHeard);
    tape.life(B, 45, Body::LegHeard);
    tape.life(A, 50, Body::Halted);
    tape.life(B, 57, Body::Halted);
    tape.until(120);
    assert_eq!(tape.states(0), [FeedState::Stale]);
    // What ended it is lost on one leg.
    tape.life(B, 200, Body::Resumed);
    tape.until(280);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Live]);
    tape.life(A, 300, Body::Halted);
    tape.until(360);
    assert_eq!(tape.states(0).last(), Some(&FeedState::Stale));
    // A leg that is down says nothing; the other one said last that the market goes on.
    tape.life(A, 400, Body::LegDown);
    tape.until(480);
    assert_eq!(tape.states(0).last(), Some(&FeedState::Live));
}

#[test]
fn a_halt_is_over_when_its_leg_is_opened_anew() {
    let mut tape = live();
    tape.heard(45);
    tape.life(A, 50, Body::Halted);
    tape.until(120);
    tape.life(A, 130, Body::LegDown);
    tape.life(A, 200, Body::LegUp);
    tape.life(A, 201, Body::LegHeard);
    tape.delta(210, 0, (102, 102), &[]);
    tape.until(280);
    assert_eq!((tape.states(0), tape.requests), (vec![FeedState::Stale, FeedState::Live], 0));
}

#[test]
fn the_silence_of_a_halted_market_is_not_held_against_an_instrument() {
    let (mut tape, last_ms) = busy();
    tape.life(A, last_ms + 100, Body::Halted);
    for ms in (last_ms + 200..last_ms + 5_000).step_by(200) {
        tape.heard(ms);
    }
    tape.life(A, last_ms + 5_000, Body::Resumed);
    tape.until(last_ms + 5_100);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Live]);
    for ms in (last_ms + 5_200..last_ms + 7_400).step_by(200) {
        tape.heard(ms);
    }
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Live, FeedState::Stale], "but what follows is");
}
