//! Coming back: kept books, legs that open again, and what is told ahead of its cut.
//!
//! Never: a wall clock.

use super::*;
use crate::{cut::PriorityUpdate, priority::PriorityBoard};
use market::{Restored, RestoredTick};

fn kept(version: Version, through: Version, from_log: bool, ticks: &[(TickChange, u64)]) -> Body {
    let tick = |(tick, seq): &(TickChange, u64)| RestoredTick { tick: *tick, version: Version::new(0, *seq) };
    let ticks = Some(ticks.iter().map(tick).collect());
    Body::Restored(Box::new(Restored { version, through, scale: SCALE, ticks, from_log, heard_ns: 7 }))
}

/// A lane whose instrument 0 goes on from a book that was kept at version 101.
fn restored() -> Tape {
    let mut tape = Tape::new();
    tape.list(0);
    let at = Version::new(0, 101);
    tape.take(0, 0, kept(at, at, false, &[(bid(100, 1), 100), (bid(99, 2), 101), (ask(102, 3), 90)]));
    tape
}

#[test]
fn a_kept_book_is_readable_at_once_with_its_mark_and_age() {
    let mut tape = restored();
    tape.until(40);
    let (bids, asks) = (vec![level(100, 1), level(99, 2)], vec![level(102, 3)]);
    assert_eq!(tape.last().book, BookCut::Snapshot { bids, asks, horizon: [None, None] });
    assert_eq!((tape.last().version, tape.last().received_ns), (Some(Version::new(0, 101)), 7));
    assert_eq!(tape.states(0), [FeedState::Syncing]);
    assert!(tape.quotes.is_empty(), "no candidate for the best");
    assert!(tape.last().admitted.is_empty(), "the store has it");
}

#[test]
fn a_kept_book_goes_on_from_a_snapshot_and_kills_what_the_snapshot_lacks() {
    let mut tape = restored();
    tape.delta(50, 0, (105, 105), &[bid(100, 8)]);
    tape.until(300);
    assert_eq!(tape.requests, 1, "a snapshot is asked for");
    tape.snapshot(310, 0, 104, &[bid(100, 7), ask(103, 1)]);
    tape.until(360);
    assert_eq!(tape.states(0), [FeedState::Syncing, FeedState::Live]);
    assert_eq!((tape.last().version, tape.counts.gaps), (Some(Version::new(0, 105)), 0));
    let whole = &tape.last().admitted[0];
    assert!(whole.whole);
    let dead: Vec<_> = whole.changes.iter().filter(|change| change.reserves.is_zero()).collect();
    assert_eq!(dead.len(), 2, "{dead:?}");
}

#[test]
fn a_snapshot_at_the_kept_version_is_written_whole_and_shown_again_only_if_it_differs() {
    for (ticks, epoch) in [(vec![bid(100, 1), bid(99, 2), ask(102, 3)], 0), (vec![bid(100, 1), ask(102, 3)], 1)] {
        let mut tape = restored();
        tape.snapshot(50, 0, 101, &ticks);
        tape.until(480);
        let version = Version::new(epoch, 101);
        assert_eq!((tape.lane.state(SymbolId(0)), tape.last().version), (Some(FeedState::Live), Some(version)));
        let shown = tape.published.iter().filter(|(_, cut)| cut.book != BookCut::Unchanged).count();
        assert_eq!(shown, 1 + usize::from(epoch == 1));
        let admitted: Vec<_> = tape.published.iter().flat_map(|(_, cut)| &cut.admitted).collect();
        assert_eq!(admitted.len(), 1, "never a second book at the old version");
        assert!(admitted[0].whole && admitted[0].version == version);
        let dead = admitted[0].changes.iter().filter(|change| change.reserves.is_zero()).count();
        assert_eq!(dead, usize::from(epoch == 1), "what only the kept book had");
    }
}

/// The same values: in coarser steps they are brought to the kept ones, in finer ones every tick has another index.
#[test]
fn only_a_snapshot_in_finer_steps_than_the_kept_book_is_another_book() {
    for (shift, epoch) in [(1, 0), (-1, 1)] {
        let mut tape = Tape::new();
        tape.list(0);
        let at = Version::new(0, 101);
        tape.take(0, 0, kept(at, at, false, &[(bid(100, 10), 100), (ask(120, 30), 90)]));
        let scale = Scale { price: SCALE.price + shift, quantity: SCALE.quantity + shift };
        let ticks = if shift == 1 { vec![bid(10, 1), ask(12, 3)] } else { vec![bid(1_000, 100), ask(1_200, 300)] };
        let sequence = Sequence::Venue { first: 101, last: 101 };
        tape.take(50, 0, Body::Snapshot(Snapshot { sequence, scale, ticks, window: Window::Whole }));
        tape.until(480);
        assert_eq!(tape.last().version, Some(Version::new(epoch, 101)), "{shift}");
        assert_eq!(tape.last().scale.price, SCALE.price.min(scale.price));
    }
}

#[test]
fn a_book_from_a_log_keeps_its_newer_ticks_until_the_log_has_passed_them() {
    let mut tape = Tape::new();
    tape.list(0);
    // The stream was durable up to 101; the store has the ticks of 103 and 104 already, but not all of 102.
    let ticks = [(bid(100, 1), 100), (bid(99, 7), 103), (ask(102, 9), 104)];
    tape.take(0, 0, kept(Version::new(0, 101), Version::new(0, 104), true, &ticks));
    tape.delta(50, 0, (101, 101), &[bid(100, 1)]);
    tape.delta(60, 0, (102, 102), &[bid(99, 5), bid(98, 6)]);
    tape.until(100);
    assert_eq!(tape.lane.state(SymbolId(0)), Some(FeedState::Syncing));
    let quantity = |tape: &Tape, price| {
        let instrument = tape.lane.instruments[0].as_ref().unwrap();
        instrument.levels(Side::Bid).find(|level| level.tick_index == price).map(|level| level.quantity)
    };
    assert_eq!(quantity(&tape, 99), Some(U256::from(7_u64)), "not set back to 5");
    assert_eq!(quantity(&tape, 98), Some(U256::from(6_u64)));
    let rewritten: Vec<_> = tape.published.iter().flat_map(|(_, cut)| &cut.admitted).collect();
    assert_eq!(rewritten[0].version, Version::new(0, 101), "what the guard refuses heals the store");
    tape.delta(110, 0, (103, 103), &[bid(99, 7)]);
    tape.delta(120, 0, (104, 104), &[ask(102, 9)]);
    tape.delta(130, 0, (105, 105), &[bid(99, 8)]);
    tape.until(200);
    assert_eq!(tape.lane.state(SymbolId(0)), Some(FeedState::Live));
    assert_eq!(quantity(&tape, 99), Some(U256::from(8_u64)));
}

#[test]
fn a_version_without_a_book_shows_none_and_is_never_undercut() {
    let mut tape = Tape::new();
    tape.list(0);
    let at = Version::new(3, 101);
    let body = Restored { version: at, through: at, scale: SCALE, ticks: None, from_log: false, heard_ns: 7 };
    tape.take(0, 0, Body::Restored(Box::new(body)));
    tape.snapshot(10, 0, 99, &[bid(100, 1)]);
    tape.until(400);
    assert!(tape.published.iter().all(|(_, cut)| cut.version.is_none() && cut.book == BookCut::Unchanged));
    tape.snapshot(410, 0, 102, &[bid(100, 1)]);
    tape.until(800);
    assert_eq!(tape.last().version, Some(Version::new(3, 102)));
}

impl Tape {
    fn leg(&mut self, ms: u64, leg: u16, body: Body) {
        self.until(ms);
        self.worked = true;
        self.lane.take(Event::of_leg(0, LegId(leg), ms * MS + 1, body));
    }
}

#[test]
fn disconnected_is_stale_from_the_first_moment_and_live_again_only_once_proven() {
    let mut tape = live();
    tape.heard(41);
    tape.leg(100, 0, Body::LegDown);
    tape.until(140);
    assert_eq!(tape.states(0), [FeedState::Stale]);
    tape.until(10_000);
    let asked = tape.requests;
    assert!(asked < 10, "{asked} requests without a connection");
    tape.leg(10_000, 0, Body::LegUp);
    tape.heard(10_010);
    tape.until(10_100);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Gapped], "something may have been missed");
    tape.until(10_400);
    assert_eq!(tape.requests, asked + 1);
    tape.snapshot(10_410, 0, 101, &[bid(100, 1), bid(99, 2), ask(102, 3)]);
    tape.until(10_480);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Gapped, FeedState::Live]);
    assert_eq!(tape.counts.resets, 0);
    assert!(tape.published.iter().all(|(_, cut)| cut.book == BookCut::Unchanged), "the same book is not sent again");
}

#[test]
fn one_of_two_legs_down_is_no_mark() {
    let mut tape = live();
    tape.until(50);
    tape.worked = true;
    let sequence = Sequence::Venue { first: 102, last: 102 };
    let delta =
        Delta { sequence, scale: SCALE, changes: vec![bid(100, 4)], window: Window::Known(1_000), places: Vec::new() };
    tape.lane.take(Event::of(SymbolId(0), LegId(1), 50 * MS, 0, Body::Delta(delta)));
    tape.leg(60, 0, Body::LegDown);
    tape.leg(70, 1, Body::LegHeard);
    tape.until(400);
    tape.leg(410, 0, Body::LegUp);
    tape.until(800);
    assert!(tape.states(0).is_empty(), "{:?}", tape.states(0));
    assert_eq!(tape.requests, 0);
}

#[test]
fn after_a_takeover_only_the_active_leg_vouches_for_a_stream_without_ids() {
    let mut tape = Tape::new();
    tape.list(1);
    let window = Window::Best(10);
    let whole = |seq| {
        Body::Snapshot(Snapshot { sequence: Sequence::Arrival(seq), scale: SCALE, ticks: vec![bid(100, seq)], window })
    };
    let on = |tape: &mut Tape, ms: u64, leg: u16, body| {
        tape.until(ms);
        tape.worked = true;
        tape.lane.take(Event::of(SymbolId(1), LegId(leg), ms * MS + 1, 0, body));
    };
    on(&mut tape, 1, 0, whole(1));
    tape.leg(2, 0, Body::LegHeard);
    tape.leg(3, 1, Body::LegHeard);
    tape.leg(50, 0, Body::LegDown);
    on(&mut tape, 51, 1, whole(2));
    tape.leg(100, 0, Body::LegUp);
    // The former leg is back and ticks; the active one falls silent.
    for ms in (200..3_000).step_by(200) {
        tape.leg(ms, 0, Body::LegHeard);
    }
    tape.until(3_000);
    assert_eq!(tape.states(1).last(), Some(&FeedState::Stale), "{:?}", tape.states(1));
}

#[test]
fn finer_steps_are_one_entry_of_the_history() {
    let mut tape = live();
    let scale = Scale { price: -3, quantity: -3 };
    let sequence = Sequence::Venue { first: 102, last: 102 };
    let changes = vec![bid(1_005, 6), TickChange::at(Side::Bid, 990, U256::ZERO)];
    tape.take(41, 0, Body::Delta(Delta { sequence, scale, changes, window: Window::Whole, places: Vec::new() }));
    tape.until(80);
    let admitted = &tape.last().admitted;
    assert_eq!(admitted.len(), 1, "never two books at one version");
    let entry = &admitted[0];
    assert!(entry.whole && entry.scale == scale && entry.version == Version::new(0, 102));
    let live: Vec<_> = entry.changes.iter().filter(|change| !change.reserves.is_zero()).copied().collect();
    let mut dead: Vec<_> =
        entry.changes.iter().filter(|change| change.reserves.is_zero()).map(|change| change.key.tick_index).collect();
    dead.sort_unstable();
    assert_eq!(live, [bid(1_000, 1), bid(1_005, 6), ask(1_020, 3)]);
    assert_eq!(dead, [99, 100, 102], "the keys in the former steps");
}

#[test]
fn a_rebuilt_book_that_does_not_get_there_leaves_the_shown_one() {
    let mut tape = live();
    tape.delta(41, 0, (102, 102), &[bid(100, 5)]);
    tape.until(80);
    tape.take(81, 0, Body::Broken(BreakReason::Missing));
    // The rebuilt book begins at 99; what bridges it has a number that fits no common steps.
    let sequence = Sequence::Venue { first: 103, last: 103 };
    let scale = Scale { price: -38, quantity: -3 };
    let never = Delta { sequence, scale, changes: vec![bid(1, 6)], window: Window::Whole, places: Vec::new() };
    tape.take(90, 0, Body::Delta(never));
    tape.snapshot(100, 0, 102, &[bid(98, 5)]);
    tape.until(480);
    let versions: Vec<_> = tape.published.iter().filter_map(|(_, cut)| cut.version).collect();
    assert!(versions.is_sorted(), "{versions:?}");
    assert_ne!(tape.lane.state(SymbolId(0)), Some(FeedState::Live));
}

/// A live lane with a board, and everything that was told ahead.
fn wanted() -> (Tape, Arc<PriorityBoard>) {
    let board = Arc::new(PriorityBoard::default());
    let mut tape = live();
    tape.lane.board = Some(Arc::clone(&board));
    (tape, board)
}

fn told(tape: &mut Tape) -> Vec<PriorityUpdate> {
    let mut out = Vec::new();
    tape.lane.tell_ahead(&mut out);
    out
}

#[test]
fn a_wanted_instrument_is_told_whole_then_event_by_event_without_a_cut() {
    let (mut tape, board) = wanted();
    tape.delta(41, 0, (102, 102), &[bid(100, 4)]);
    assert!(told(&mut tape).is_empty());
    board.want(SymbolId(0));
    let first = told(&mut tape);
    let (bids, asks) = (vec![level(100, 4), level(99, 2)], vec![level(102, 3)]);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].book, BookCut::Snapshot { bids, asks, horizon: [None, None] });
    tape.delta(42, 0, (103, 103), &[bid(100, 5), bid(100, 6), ask(102, 0)]);
    tape.delta(42, 0, (104, 104), &[bid(100, 4)]);
    let next = told(&mut tape);
    let change = |side, tick_index, quantity| LevelChange { side, level: level(tick_index, quantity) };
    let book = |base, changes| BookCut::Delta { base: Version::new(0, base), changes };
    assert_eq!(next[0].book, book(102, vec![change(Side::Bid, 100, 6), change(Side::Ask, 102, 0)]));
    assert_eq!(next[1].book, book(103, vec![change(Side::Bid, 100, 4)]));
    assert_eq!((next[1].version, next[1].feed.state), (Version::new(0, 104), FeedState::Live));
    tape.until(80);
    assert!(told(&mut tape).is_empty(), "the close of a cut adds nothing");
    board.forget(SymbolId(0));
    tape.delta(81, 0, (105, 105), &[bid(100, 7)]);
    assert!(told(&mut tape).is_empty());
    board.want(SymbolId(0));
    assert!(matches!(told(&mut tape)[0].book, BookCut::Snapshot { .. }), "anew from the whole book");
}

#[test]
fn a_replaced_book_is_told_whole_ahead_too() {
    let (mut tape, board) = wanted();
    board.want(SymbolId(0));
    assert_eq!(told(&mut tape).len(), 1);
    tape.take(41, 0, Body::Broken(BreakReason::Missing));
    tape.snapshot(50, 0, 110, &[bid(98, 1)]);
    tape.until(400);
    let after = told(&mut tape);
    assert_eq!((after.len(), after[0].version), (1, Version::new(0, 110)));
    assert!(matches!(&after[0].book, BookCut::Snapshot { bids, .. } if *bids == [level(98, 1)]));
}
