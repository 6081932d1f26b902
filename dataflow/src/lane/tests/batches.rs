//! Instruments of a batch stream: blocks shown whole, holes told and not healed by asking, kept ticks that are ahead of the
//! log, batches that come late, books that are rebuilt.
//!
//! Never: a wall clock; a snapshot that is asked for.

use super::*;
use crate::{cut::PriorityUpdate, priority::PriorityBoard};
use market::{
    Restored, RestoredTick, TickKey, TrancheId, Views,
    batch::{end_of, place_of},
    scale::PRICE_POWERS,
};
use std::sync::Arc;

const CHAIN: LegId = LegId(3);
const STEPS: Scale = Scale { price: PRICE_POWERS, quantity: -27 };
/// Where new epochs are taken from.
const BLOCK: u64 = 50;

fn at(height: u64, ordinal: u64) -> u64 {
    place_of(height, ordinal).unwrap()
}

fn version(place: u64) -> Version {
    Version::new(0, place)
}

/// A limit order at the price of a pool.
fn order(tick_index: i64, tranche: u32, reserves: u64) -> TickChange {
    let key = TickKey { tick_index, fee: 0, tranche: TrancheId(tranche) };
    TickChange { side: Side::Bid, key, reserves: U256::from(reserves) }
}

/// An instrument's part of the block at a height, which follows what it has from the given place on.
fn part(from: u64, height: u64, changes: &[(u64, TickChange)]) -> Delta {
    let places: Vec<u64> = changes.iter().map(|(ordinal, _)| at(height, *ordinal)).collect();
    Delta {
        sequence: Sequence::Venue { first: from + 1, last: *places.last().unwrap() },
        scale: STEPS,
        changes: changes.iter().map(|(_, change)| *change).collect(),
        window: Window::Whole,
        places,
    }
}

fn kept(cursor: u64, through: u64, ticks: &[(TickChange, u64)]) -> Body {
    let tick = |(tick, place): &(TickChange, u64)| RestoredTick { tick: *tick, version: version(*place) };
    Body::Restored(Box::new(Restored {
        version: version(cursor),
        through: version(through),
        scale: STEPS,
        ticks: Some(ticks.iter().map(tick).collect()),
        from_log: true,
        heard_ns: 7,
    }))
}

impl Tape {
    fn restore(&mut self, ms: u64, symbol: u32, restored: Body) {
        let listing = Listing { venue: Venue::NeutronDex, pair: PairId(0), epoch: 0, block: BLOCK, views: Views::NONE };
        self.take_on(CHAIN, ms, symbol, Body::Listing(listing));
        self.take_on(CHAIN, ms, symbol, restored);
    }

    /// An instrument that is new in the block above a height.
    fn begin(&mut self, ms: u64, symbol: u32, height: u64) {
        self.restore(ms, symbol, kept(end_of(height), end_of(height), &[]));
    }

    fn part(&mut self, ms: u64, symbol: u32, from: u64, height: u64, changes: &[(u64, TickChange)]) {
        self.take_on(CHAIN, ms, symbol, Body::Delta(part(from, height, changes)));
    }

    fn whole(&mut self, ms: u64, symbol: u32, height: u64, ticks: &[TickChange]) {
        let sequence = Sequence::Venue { first: end_of(height), last: end_of(height) };
        let body = Snapshot { sequence, scale: STEPS, ticks: ticks.to_vec(), window: Window::Whole };
        self.take_on(CHAIN, ms, symbol, Body::Snapshot(body));
    }

    fn chain(&mut self, ms: u64, body: Body) {
        self.life(CHAIN, ms, body);
    }

    fn of(&self, symbol: u32) -> Vec<&InstrumentCut> {
        self.published.iter().map(|(_, cut)| cut).filter(|cut| cut.symbol == SymbolId(symbol)).collect()
    }

    fn bids(&self, symbol: usize) -> Vec<Level> {
        self.lane.instruments[symbol].as_ref().unwrap().levels(Side::Bid).collect()
    }

    fn asks_nothing(&self) {
        assert_eq!((self.requests, self.counts.requests, self.counts.resets), (0, 0, 0));
    }
}

/// Instrument 0 is live: it began in block 6.
fn chained() -> Tape {
    let mut tape = Tape::new();
    tape.begin(1, 0, 5);
    tape.part(1, 0, end_of(5), 6, &[(3, bid(100, 1)), (4, ask(-102, 3))]);
    tape.chain(2, Body::Through(end_of(6)));
    tape.until(40);
    tape
}

fn change(side: Side, tick_index: i64, quantity: u64) -> LevelChange {
    LevelChange { side, level: level(tick_index, quantity) }
}

#[test]
fn an_instrument_begins_empty_in_the_log_and_its_first_block_is_its_first_book() {
    let tape = chained();
    let [cut] = tape.of(0)[..] else { panic!("{:?}", tape.published) };
    let (bids, asks) = (vec![level(100, 1)], vec![level(-102, 3)]);
    assert_eq!(cut.book, BookCut::Snapshot { bids, asks, horizon: [None, None] });
    assert_eq!((cut.version, cut.scale), (Some(version(at(6, 4))), STEPS));
    assert_eq!(tape.states(0), [FeedState::Live]);
    let [admitted] = &cut.admitted[..] else { panic!("{:?}", cut.admitted) };
    assert_eq!((&admitted.places[..], admitted.leg, admitted.whole), (&[at(6, 3), at(6, 4)][..], CHAIN, false));
    assert_eq!((admitted.version, admitted.changes.len()), (version(at(6, 4)), 2));
    assert_eq!(tape.through, [(0, CHAIN, end_of(6))]);
    assert!(tape.quotes.iter().all(|change| change.now.is_none()), "powers have no place among decimal prices");
    tape.asks_nothing();
}

#[test]
fn an_instrument_without_any_change_is_live_and_empty() {
    let mut tape = Tape::new();
    tape.begin(1, 0, 5);
    tape.until(400);
    assert_eq!(tape.last().book, BookCut::Snapshot { bids: vec![], asks: vec![], horizon: [None, None] });
    assert_eq!((tape.states(0), tape.last().version), (vec![FeedState::Live], Some(version(end_of(5)))));
    tape.asks_nothing();
}

#[test]
fn a_pool_is_never_shown_half() {
    let board = Arc::new(PriorityBoard::default());
    let mut tape = chained();
    tape.lane.board = Some(Arc::clone(&board));
    board.want(SymbolId(0));
    let mut told: Vec<PriorityUpdate> = Vec::new();
    tape.lane.tell_ahead(&mut told);
    told.clear();
    // Two blocks in one cut; each moves a level and the order at its price.
    let pool = [(1, bid(100, 0)), (2, order(100, 9, 5)), (3, ask(-102, 0)), (9, ask(-101, 2))];
    tape.part(41, 0, at(6, 4), 8, &pool);
    tape.lane.tell_ahead(&mut told);
    tape.part(45, 0, at(8, 9), 9, &[(0, order(100, 9, 4)), (7, bid(100, 2))]);
    tape.lane.tell_ahead(&mut told);
    tape.until(400);
    let [first, second] = &told[..] else { panic!("one for each block: {told:?}") };
    let moved = vec![change(Side::Bid, 100, 5), change(Side::Ask, -102, 0), change(Side::Ask, -101, 2)];
    let book = |base, changes| BookCut::Delta { base: version(base), changes };
    assert_eq!((first.version, &first.book), (version(at(8, 9)), &book(at(6, 4), moved)));
    assert_eq!(second.book, book(at(8, 9), vec![change(Side::Bid, 100, 6)]));
    let [_, cut] = tape.of(0)[..] else { panic!("{:?}", tape.published) };
    let net = vec![change(Side::Bid, 100, 6), change(Side::Ask, -102, 0), change(Side::Ask, -101, 2)];
    assert_eq!((cut.version, &cut.book), (Some(version(at(9, 7))), &book(at(6, 4), net)));
    let places: Vec<_> = cut.admitted.iter().map(|admitted| admitted.places.len()).collect();
    assert_eq!(places, [4, 2]);
}

#[test]
fn the_same_block_again_changes_nothing_however_long_it_is_repeated() {
    let mut tape = chained();
    tape.part(41, 0, at(6, 4), 7, &[(1, bid(100, 2))]);
    tape.until(80);
    let shown = tape.of(0).len();
    // For longer than ids below the shown one may come before a venue counts as restarted, and back and forth.
    for ms in (100..15_000).step_by(500) {
        tape.part(ms, 0, at(6, 4), 7, &[(1, bid(100, 2))]);
        tape.part(ms + 1, 0, end_of(5), 6, &[(3, bid(100, 1)), (4, ask(-102, 3))]);
        tape.part(ms + 2, 0, end_of(3), 4, &[(3, bid(90, 1))]);
    }
    tape.until(20_000);
    for cut in &tape.of(0)[shown..] {
        assert_eq!((&cut.book, cut.feed, cut.quote), (&BookCut::Unchanged, None, None));
        assert_eq!((cut.version, cut.received_ns), (Some(version(at(7, 1))), 41 * MS + 1));
    }
    tape.part(20_001, 0, at(7, 1), 8, &[(0, bid(100, 3))]);
    tape.until(20_040);
    assert_eq!(tape.last().book, BookCut::Delta { base: version(at(7, 1)), changes: vec![change(Side::Bid, 100, 3)] });
    assert_eq!(tape.states(0), [FeedState::Live]);
    tape.asks_nothing();
}

#[test]
fn equal_reserves_are_a_row_and_no_level() {
    let mut tape = chained();
    tape.part(41, 0, at(6, 4), 7, &[(2, bid(100, 1)), (5, ask(-102, 3))]);
    tape.until(80);
    assert_eq!(tape.last().book, BookCut::Delta { base: version(at(6, 4)), changes: Vec::new() });
    assert_eq!(tape.last().admitted[0].places, [at(7, 2), at(7, 5)]);
}

#[test]
fn a_hole_marks_the_instruments_of_its_stream_with_their_age_and_no_other() {
    let mut tape = chained();
    tape.begin(3, 2, 6);
    tape.list(1);
    tape.snapshot(41, 1, 10, &[bid(50, 1)]);
    tape.delta(42, 1, (11, 11), &[]);
    tape.chain(100, Body::Hole);
    // A new one is as little known to be up to date.
    tape.begin(130, 4, 6);
    tape.until(200);
    for symbol in [0, 2] {
        assert_eq!(tape.states(symbol), [FeedState::Live, FeedState::Gapped]);
    }
    let marked = tape.of(0).pop().unwrap();
    assert_eq!((marked.version, marked.received_ns), (Some(version(at(6, 4))), MS + 1), "as old as its last event");
    assert_eq!((tape.states(4), tape.states(1)), (vec![FeedState::Gapped], vec![FeedState::Syncing, FeedState::Live]));
    // Whether anything comes says more than what is missing.
    tape.chain(300, Body::Halted);
    tape.until(340);
    assert_eq!(tape.states(0).pop(), Some(FeedState::Stale));
    tape.chain(400, Body::Resumed);
    tape.chain(500, Body::Filled);
    tape.until(600);
    for symbol in [0, 2, 4] {
        let states = tape.states(symbol);
        assert_eq!(states[states.len() - 3..], [FeedState::Stale, FeedState::Gapped, FeedState::Live], "{symbol}");
    }
    assert_eq!(tape.states(1), [FeedState::Syncing, FeedState::Live]);
    tape.asks_nothing();
}

#[test]
fn a_kept_book_that_nothing_changes_follows_its_stream_all_the_same() {
    let mut tape = Tape::new();
    tape.restore(1, 0, kept(end_of(5), end_of(5), &[(bid(100, 1), at(3, 1))]));
    tape.chain(50, Body::Hole);
    tape.chain(100, Body::Filled);
    tape.chain(150, Body::Halted);
    tape.chain(200, Body::Resumed);
    tape.chain(250, Body::LegHeard);
    tape.until(3_000);
    tape.chain(3_001, Body::LegHeard);
    tape.until(3_100);
    let (live, stale) = (FeedState::Live, FeedState::Stale);
    assert_eq!(tape.states(0), [live, FeedState::Gapped, live, stale, live, stale, live]);
    assert!(tape.of(0).iter().all(|cut| cut.received_ns == 7), "its age is that of its last event");
    tape.asks_nothing();
}

#[test]
fn a_subscription_that_is_lost_and_found_is_stale_between_and_needs_no_snapshot() {
    let mut tape = chained();
    tape.chain(50, Body::Halted);
    tape.until(20_000);
    tape.chain(20_001, Body::Resumed);
    tape.part(20_050, 0, at(6, 4), 9, &[(1, bid(100, 2))]);
    tape.until(30_000);
    assert_eq!(tape.states(0), [FeedState::Live, FeedState::Stale, FeedState::Live]);
    assert_eq!(tape.last().book, BookCut::Delta { base: version(at(6, 4)), changes: vec![change(Side::Bid, 100, 2)] });
    tape.asks_nothing();
}

#[test]
fn a_quiet_instrument_of_a_stream_that_ticks_is_not_silent() {
    let mut tape = chained();
    let mut from = at(6, 4);
    for height in 7..60 {
        tape.part(height * 50, 0, from, height, &[(0, bid(100, height))]);
        from = at(height, 0);
    }
    for ms in (3_000..100_000).step_by(500) {
        tape.chain(ms, Body::LegHeard);
    }
    tape.until(100_000);
    assert_eq!(tape.states(0), [FeedState::Live]);
}

#[test]
fn ticks_kept_from_further_on_in_the_log_are_not_set_back_within_a_block_either() {
    let mut tape = Tape::new();
    // The cursor stands behind block 5; of block 7 some rows are there: a tick's new state, another one's death.
    let ticks = [(bid(100, 1), at(5, 1)), (bid(99, 7), at(7, 4)), (bid(98, 0), at(7, 6)), (ask(-50, 2), at(7, 9))];
    tape.restore(1, 0, kept(end_of(5), at(7, 9), &ticks));
    tape.part(41, 0, end_of(5), 6, &[(1, bid(99, 5)), (2, bid(98, 3)), (3, bid(97, 1))]);
    tape.until(80);
    assert_eq!(tape.bids(0), [level(100, 1), level(99, 7), level(97, 1)]);
    assert_eq!(tape.states(0), [FeedState::Syncing]);
    let rows = [(2, bid(99, 6)), (4, bid(99, 7)), (5, bid(98, 4)), (6, bid(98, 0)), (8, bid(99, 9)), (9, ask(-50, 2))];
    tape.part(81, 0, at(6, 3), 7, &rows);
    tape.until(120);
    assert_eq!(tape.bids(0), [level(100, 1), level(99, 9), level(97, 1)]);
    assert_eq!(tape.states(0), [FeedState::Syncing, FeedState::Live]);
    let admitted: Vec<_> = tape.published.iter().flat_map(|(_, cut)| &cut.admitted).collect();
    let changes: Vec<_> = admitted.iter().map(|admitted| (admitted.changes.len(), admitted.places.len())).collect();
    assert_eq!(changes, [(3, 3), (6, 6)], "the store gets every row again");
    tape.asks_nothing();
}

#[test]
fn a_kept_book_is_live_once_its_stream_has_passed_it_although_nothing_of_it_came() {
    let mut tape = Tape::new();
    // It was rebuilt at the end of block 7, and killed before the cursor was there.
    tape.restore(1, 0, kept(end_of(5), end_of(7), &[(bid(100, 1), end_of(7))]));
    tape.restore(1, 1, kept(end_of(5), end_of(9), &[(bid(100, 1), end_of(9))]));
    tape.chain(50, Body::Through(end_of(6)));
    tape.life(LegId(8), 60, Body::Through(end_of(8)));
    tape.until(100);
    assert_eq!(tape.states(0), [FeedState::Syncing]);
    tape.chain(101, Body::Through(end_of(8)));
    tape.until(200);
    assert_eq!((tape.states(0), tape.states(1)), (vec![FeedState::Syncing, FeedState::Live], vec![FeedState::Syncing]));
    tape.part(201, 0, end_of(5), 9, &[(1, bid(100, 4))]);
    tape.until(240);
    assert_eq!((tape.bids(0), tape.lane.state(SymbolId(0))), (vec![level(100, 4)], Some(FeedState::Live)));
    tape.asks_nothing();
}

#[test]
fn a_snapshot_below_what_was_kept_does_not_set_it_back() {
    let mut tape = Tape::new();
    let ticks = [(bid(100, 1), at(5, 1)), (bid(99, 7), at(8, 1)), (bid(98, 0), at(8, 2))];
    tape.restore(1, 0, kept(end_of(5), at(8, 2), &ticks));
    tape.whole(41, 0, 6, &[bid(99, 5), bid(98, 2), bid(97, 3)]);
    tape.until(80);
    assert_eq!(tape.bids(0), [level(99, 7), level(97, 3)]);
    assert_eq!((tape.last().version, tape.states(0)), (Some(version(end_of(6))), vec![FeedState::Syncing]));
    let whole = &tape.last().admitted[0];
    assert!(whole.whole && whole.version == version(end_of(6)));
    for row in [bid(99, 5), bid(98, 2), bid(97, 3), bid(100, 0)] {
        assert!(whole.changes.contains(&row), "the store learns what it was: {:?}", whole.changes);
    }
    tape.part(81, 0, end_of(6), 8, &[(1, bid(99, 7)), (2, bid(98, 0))]);
    tape.until(120);
    assert_eq!((tape.bids(0), tape.lane.state(SymbolId(0))), (vec![level(99, 7), level(97, 3)], Some(FeedState::Live)));
    tape.asks_nothing();
}

#[test]
fn late_batches_are_rows_and_nothing_else_however_many_and_however_long() {
    let mut tape = chained();
    let shown = tape.of(0).len();
    for (ms, height) in (100..16_000).step_by(400).zip((1..=5).cycle()) {
        let late = part(end_of(height - 1), height, &[(0, bid(100, 9)), (1, ask(-7, 1))]);
        tape.take_on(CHAIN, ms, 0, Body::Late(late));
    }
    tape.until(20_000);
    let late = tape.of(0).split_off(shown);
    assert_eq!(late.len(), 40);
    for cut in late {
        let same = (cut.version, cut.received_ns) == (Some(version(at(6, 4))), MS + 1);
        assert!(same && cut.book == BookCut::Unchanged && cut.feed.is_none() && cut.quote.is_none(), "{cut:?}");
        let [admitted] = &cut.admitted[..] else { panic!("{:?}", cut.admitted) };
        assert_eq!((admitted.places.len(), admitted.leg, admitted.whole), (2, CHAIN, false));
        assert_eq!(admitted.version, version(admitted.places[1]));
    }
    tape.part(20_001, 0, at(6, 4), 7, &[(0, bid(100, 2))]);
    tape.until(20_100);
    assert_eq!(tape.last().book, BookCut::Delta { base: version(at(6, 4)), changes: vec![change(Side::Bid, 100, 2)] });
    assert_eq!((tape.states(0), tape.counts.regressions, tape.counts.gaps), (vec![FeedState::Live], 0, 0));
    tape.asks_nothing();
}

#[test]
fn a_late_batch_is_below_all_that_was_said_since_also_after_an_epoch() {
    let mut tape = Tape::new();
    tape.restore(1, 0, kept(end_of(5), end_of(5), &[(bid(100, 1), at(3, 1))]));
    tape.until(40);
    tape.whole(41, 0, 5, &[bid(100, 2)]);
    tape.until(80);
    assert_eq!(tape.last().version, Some(Version::new(BLOCK, end_of(5))));
    tape.take_on(CHAIN, 81, 0, Body::Late(part(end_of(1), 2, &[(1, bid(100, 9))])));
    tape.until(120);
    let [admitted] = &tape.last().admitted[..] else { panic!("{:?}", tape.last().admitted) };
    assert_eq!(admitted.version, version(at(2, 1)));
}

#[test]
fn a_book_rebuilt_at_the_shown_position_is_a_new_epoch_only_if_it_differs() {
    for (ticks, epoch) in [(vec![bid(100, 1), bid(98, 1)], 0), (vec![bid(100, 2)], BLOCK)] {
        let mut tape = Tape::new();
        tape.restore(1, 0, kept(end_of(5), end_of(5), &[(bid(100, 1), at(3, 1)), (bid(98, 1), at(4, 1))]));
        tape.until(40);
        tape.whole(41, 0, 5, &ticks);
        tape.until(80);
        let rebuilt = Version::new(epoch, end_of(5));
        assert_eq!((tape.last().version, tape.states(0)), (Some(rebuilt), vec![FeedState::Live]));
        assert_eq!(tape.last().book == BookCut::Unchanged, epoch == 0);
        let [admitted] = &tape.last().admitted[..] else { panic!("{:?}", tape.last().admitted) };
        assert!(admitted.whole && admitted.version == rebuilt && admitted.places.is_empty());
        assert_eq!(admitted.changes.contains(&bid(98, 0)), epoch != 0, "what only the old book had is dead");
        tape.part(81, 0, end_of(5), 6, &[(0, bid(101, 1))]);
        tape.until(120);
        assert_eq!(tape.last().version, Some(Version::new(epoch, at(6, 0))));
        assert_eq!(tape.last().book, BookCut::Delta { base: rebuilt, changes: vec![change(Side::Bid, 101, 1)] });
        tape.asks_nothing();
    }
}

#[test]
fn a_snapshot_above_brings_the_book_forward_in_its_epoch_and_blocks_go_on_from_there() {
    let mut tape = chained();
    tape.chain(41, Body::Hole);
    tape.whole(81, 0, 9, &[bid(100, 4)]);
    tape.chain(82, Body::Filled);
    tape.until(120);
    assert_eq!(tape.last().version, Some(version(end_of(9))));
    assert_eq!(tape.last().book, BookCut::Snapshot { bids: vec![level(100, 4)], asks: vec![], horizon: [None, None] });
    tape.part(121, 0, end_of(9), 12, &[(3, bid(100, 5))]);
    tape.until(160);
    assert_eq!(tape.last().book, BookCut::Delta { base: version(end_of(9)), changes: vec![change(Side::Bid, 100, 5)] });
    // One below is of no use any more.
    tape.whole(161, 0, 11, &[bid(1, 1)]);
    tape.until(20_000);
    assert_eq!((tape.bids(0), tape.lane.state(SymbolId(0))), (vec![level(100, 5)], Some(FeedState::Live)));
    tape.asks_nothing();
}

/// A connector that leaves something out is told so by the mark; no one can be asked, and no cut is spent on asking.
#[test]
fn whatever_happens_to_a_book_from_a_log_nothing_is_asked_for() {
    let hole = |tape: &mut Tape| tape.part(50, 0, at(6, 9), 7, &[(1, bid(100, 2))]);
    let broken = |tape: &mut Tape| tape.take_on(CHAIN, 50, 0, Body::Broken(BreakReason::Undecodable));
    let steps = |tape: &mut Tape| {
        let delta = Delta { scale: SCALE, ..part(at(6, 4), 7, &[(1, bid(100, 2))]) };
        tape.take_on(CHAIN, 50, 0, Body::Delta(delta));
    };
    let down = |tape: &mut Tape| {
        tape.chain(50, Body::LegDown);
        tape.chain(60, Body::LegUp);
    };
    let horizon = |tape: &mut Tape| {
        let sequence = Sequence::Venue { first: end_of(6), last: end_of(6) };
        let window = Window::Known(1);
        let body = Snapshot { sequence, scale: STEPS, ticks: vec![bid(100, 1), ask(7, 1)], window };
        tape.take_on(CHAIN, 50, 0, Body::Snapshot(body));
        tape.part(90, 0, end_of(6), 7, &[(1, bid(100, 0))]);
    };
    let faults: [&dyn Fn(&mut Tape); 5] = [&hole, &broken, &steps, &down, &horizon];
    for (at, fault) in faults.into_iter().enumerate() {
        let mut tape = chained();
        fault(&mut tape);
        tape.until(1_000);
        assert_eq!(tape.lane.next_due(false), None, "{at}");
        tape.until(60_000);
        tape.asks_nothing();
        assert_eq!(tape.of(0).iter().filter(|cut| cut.book != BookCut::Unchanged).count(), if at == 4 { 3 } else { 1 });
        // A rebuilt book ends it.
        tape.whole(60_001, 0, 9, &[bid(100, 5)]);
        tape.until(61_000);
        assert_eq!((tape.bids(0), tape.lane.state(SymbolId(0))), (vec![level(100, 5)], Some(FeedState::Live)), "{at}");
        tape.asks_nothing();
    }
}
