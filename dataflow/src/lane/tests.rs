//! The lane as scenarios, each named after what happens to it.
//!
//! Never: a wall clock; times are numbers that the test makes.

mod batches;
mod copies;
mod legs;
mod powers;
mod returning;
mod views;

use super::*;
use crate::cut::{BookCut, InstrumentCut, LaneCounts, LegCounts};
use market::{
    Delta, FeedState, LegId, Level, LevelChange, Listing, Scale, Sequence, Side, Snapshot, TickChange, U256, Venue,
    Version, Views, Window, event::Event, guard::BreakReason,
};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const SCALE: Scale = Scale { price: -2, quantity: -3 };
const LEG: LegId = LegId(0);

/// A lane with cuts of 40 ms, driven as its operator would.
struct Tape {
    lane: Lane,
    open: u64,
    worked: bool,
    published: Vec<(u64, InstrumentCut)>,
    quotes: Vec<QuoteChange>,
    requests: usize,
    through: Vec<(u64, LegId, u64)>,
    counts: LaneCounts,
    legs: BTreeMap<LegId, LegCounts>,
    copies: Vec<(u64, BookCopy)>,
}

impl Tape {
    fn new() -> Self {
        let clock = CutClock { origin_ns: 0, cut_ns: 40 * MS };
        let config = LaneConfig {
            clock,
            limits: Limits::default(),
            silent_ns: 2_000 * MS,
            silent_intervals: 20,
            admitted: true,
        };
        Self {
            lane: Lane::new(config),
            open: 0,
            worked: false,
            published: Vec::new(),
            quotes: Vec::new(),
            requests: 0,
            through: Vec::new(),
            counts: LaneCounts::default(),
            legs: BTreeMap::new(),
            copies: Vec::new(),
        }
    }

    /// Closes every cut before the one that a time falls into.
    fn until(&mut self, ms: u64) {
        let upper = ms / 40;
        loop {
            let due = self.lane.next_due(true).map(|due| due.max(self.open));
            let open = self.worked.then_some(self.open);
            let Some(cut) = open.into_iter().chain(due).min().filter(|cut| *cut < upper) else { break };
            let mut out = LaneCut::default();
            self.lane.close(cut, true, &mut out, &mut self.quotes);
            self.published.extend(out.instruments.into_iter().map(|instrument| (cut, instrument)));
            self.requests += out.requests.len();
            self.through.extend(out.through.iter().map(|(leg, place)| (cut, *leg, *place)));
            self.copies.extend(out.copies.into_iter().map(|copy| (cut, copy)));
            self.counts.add(&out.counts);
            for (leg, more) in out.legs {
                self.legs.entry(leg).or_default().add(&more);
            }
            self.worked = false;
            self.open = cut + 1;
        }
        self.open = upper;
    }

    fn take(&mut self, ms: u64, symbol: u32, body: Body) {
        self.take_on(LEG, ms, symbol, body);
    }

    fn take_on(&mut self, leg: LegId, ms: u64, symbol: u32, body: Body) {
        self.until(ms);
        self.worked = true;
        self.lane.take(Event::of(SymbolId(symbol), leg, ms * MS + 1, 0, body));
    }

    fn list(&mut self, symbol: u32) {
        let venue = if symbol == 0 { Venue::BinanceSpot } else { Venue::KrakenSpot };
        self.take(0, symbol, Body::Listing(Listing { venue, pair: PairId(0), epoch: 0, block: 0, views: Views::NONE }));
    }

    fn delta(&mut self, ms: u64, symbol: u32, ids: (u64, u64), changes: &[TickChange]) {
        self.delta_on(LEG, ms, symbol, ids, changes);
    }

    fn delta_on(&mut self, leg: LegId, ms: u64, symbol: u32, ids: (u64, u64), changes: &[TickChange]) {
        let sequence = Sequence::Venue { first: ids.0, last: ids.1 };
        let delta = Delta {
            sequence,
            scale: SCALE,
            changes: changes.to_vec(),
            window: Window::Known(1_000),
            places: Vec::new(),
        };
        self.take_on(leg, ms, symbol, Body::Delta(delta));
    }

    fn snapshot(&mut self, ms: u64, symbol: u32, id: u64, ticks: &[TickChange]) {
        let sequence = Sequence::Venue { first: id, last: id };
        let snapshot = Snapshot { sequence, scale: SCALE, ticks: ticks.to_vec(), window: Window::Known(1_000) };
        self.take(ms, symbol, Body::Snapshot(snapshot));
    }

    fn heard(&mut self, ms: u64) {
        self.life(LEG, ms, Body::LegHeard);
    }

    /// Something about a leg as a whole.
    fn life(&mut self, leg: LegId, ms: u64, body: Body) {
        self.until(ms);
        self.worked = true;
        self.lane.take(Event::of_leg(0, leg, ms * MS + 1, body));
    }

    fn last(&self) -> &InstrumentCut {
        &self.published.last().expect("nothing was published").1
    }

    fn states(&self, symbol: u32) -> Vec<FeedState> {
        let of = self.published.iter().filter(|(_, cut)| cut.symbol == SymbolId(symbol));
        of.filter_map(|(_, cut)| cut.feed.map(|feed| feed.state)).collect()
    }
}

fn bid(price: i64, quantity: u64) -> TickChange {
    TickChange::at(Side::Bid, price, U256::from(quantity))
}

fn ask(price: i64, quantity: u64) -> TickChange {
    TickChange::at(Side::Ask, price, U256::from(quantity))
}

fn level(tick_index: i64, quantity: u64) -> Level {
    Level { tick_index, quantity: U256::from(quantity) }
}

#[test]
fn deltas_before_the_snapshot_show_nothing_and_then_only_what_it_lacks() {
    let mut tape = Tape::new();
    tape.list(0);
    tape.delta(10, 0, (101, 101), &[bid(100, 1)]);
    tape.delta(20, 0, (102, 102), &[bid(99, 1)]);
    tape.until(80);
    assert!(tape.published.iter().all(|(_, cut)| cut.version.is_none() && cut.book == BookCut::Unchanged));
    tape.snapshot(90, 0, 101, &[bid(100, 1)]);
    tape.delta(91, 0, (103, 103), &[ask(101, 1)]);
    tape.until(200);
    let (bids, asks) = (vec![level(100, 1), level(99, 1)], vec![level(101, 1)]);
    assert_eq!(tape.last().book, BookCut::Snapshot { bids, asks, horizon: [None, None] });
    assert_eq!(tape.last().version, Some(Version::new(0, 103)));
    assert_eq!(tape.states(0), [FeedState::Syncing, FeedState::Live]);
}

/// A lane whose instrument 0 is live at version 101.
fn live() -> Tape {
    let mut tape = Tape::new();
    tape.list(0);
    tape.snapshot(0, 0, 100, &[bid(100, 1), bid(99, 2), ask(102, 3)]);
    tape.delta(1, 0, (101, 101), &[]);
    tape.until(40);
    tape.published.clear();
    tape
}

#[test]
fn a_change_and_its_reverse_within_a_cut_publish_only_the_version() {
    let mut tape = live();
    tape.delta(41, 0, (102, 102), &[bid(100, 9)]);
    tape.delta(42, 0, (103, 103), &[bid(100, 1)]);
    tape.until(80);
    let base = Version::new(0, 101);
    assert_eq!(tape.last().book, BookCut::Delta { base, changes: Vec::new() });
    assert_eq!((tape.last().version, tape.last().quote), (Some(Version::new(0, 103)), None));
}

#[test]
fn deleting_an_unknown_level_is_no_error_and_the_version_advances() {
    let mut tape = live();
    tape.delta(41, 0, (102, 102), &[bid(7, 0)]);
    tape.until(80);
    assert_eq!(tape.last().book, BookCut::Delta { base: Version::new(0, 101), changes: Vec::new() });
    assert_eq!(tape.last().version, Some(Version::new(0, 102)));
}

#[test]
fn a_snapshot_without_levels_is_an_explicit_empty_book_and_deltas_apply() {
    let mut tape = Tape::new();
    tape.list(0);
    tape.snapshot(0, 0, 100, &[]);
    tape.until(400);
    assert_eq!(tape.last().book, BookCut::Snapshot { bids: vec![], asks: vec![], horizon: [None, None] });
    assert_eq!(tape.states(0), [FeedState::Syncing, FeedState::Live]);
    tape.delta(410, 0, (101, 101), &[bid(100, 1)]);
    tape.until(480);
    assert_eq!(tape.last().quote.map(|quote| quote.bid), Some(Some(level(100, 1))));
}

#[test]
fn deltas_alone_show_nothing() {
    let mut tape = Tape::new();
    tape.list(0);
    for id in 1..50 {
        tape.delta(id * 10, 0, (id, id), &[bid(100, id)]);
    }
    tape.until(1_000);
    assert!(tape.published.iter().all(|(_, cut)| cut.version.is_none() && cut.quote.is_none()));
    assert_eq!(tape.states(0), [FeedState::Syncing]);
    assert!(tape.requests > 0, "a snapshot is asked for");
}

#[test]
fn a_hole_marks_one_instrument_and_never_the_other() {
    let mut tape = live();
    tape.list(1);
    tape.snapshot(41, 1, 10, &[bid(50, 1)]);
    tape.delta(42, 1, (11, 11), &[]);
    tape.delta(43, 0, (105, 105), &[bid(100, 7)]);
    for (id, ms) in (12..40).zip((50..).step_by(20)) {
        tape.delta(ms, 1, (id, id), &[bid(50, id)]);
    }
    tape.until(700);
    assert_eq!(
        (tape.lane.state(SymbolId(0)), tape.lane.state(SymbolId(1))),
        (Some(FeedState::Gapped), Some(FeedState::Live))
    );
    assert_eq!(tape.states(0), [FeedState::Gapped]);
    assert_eq!((tape.counts.gaps, tape.counts.applied), (1, 1 + 29), "{:?}", tape.counts);
    let gapped: Vec<_> = tape.published.iter().filter(|(_, cut)| cut.symbol == SymbolId(0)).collect();
    assert!(gapped.iter().all(|(_, cut)| cut.version == Some(Version::new(0, 101))), "the book stays readable");
    assert_eq!(gapped[0].0, (43 + 250) / 40, "declared by time, at the cut in which its bound passes");
    assert!(tape.requests > 0);
    tape.snapshot(701, 0, 104, &[bid(98, 5)]);
    tape.until(760);
    let recovered = tape.published.iter().rev().find(|(_, cut)| cut.symbol == SymbolId(0)).expect("not published");
    assert_eq!(recovered.1.version, Some(Version::new(0, 105)));
    let deaths =
        recovered.1.admitted.iter().flat_map(|admitted| &admitted.changes).filter(|change| change.reserves.is_zero());
    assert_eq!(deaths.count(), 3, "what the snapshot lacks dies in the history too");
}

#[test]
fn a_rebuilt_book_at_the_shown_version_is_published_only_if_it_differs() {
    for (ticks, version) in [
        (vec![bid(100, 1), bid(99, 2), ask(102, 3)], Version::new(0, 101)),
        (vec![bid(100, 4), ask(102, 3)], Version::new(1, 101)),
    ] {
        let mut tape = live();
        tape.take(41, 0, Body::Broken(BreakReason::Missing));
        tape.snapshot(90, 0, 101, &ticks);
        tape.until(480);
        assert_eq!((tape.lane.state(SymbolId(0)), tape.last().version), (Some(FeedState::Live), Some(version)));
        let republished = tape.published.iter().any(|(_, cut)| cut.book != BookCut::Unchanged);
        assert_eq!(republished, version.epoch == 1);
    }
}

#[test]
fn silence_of_the_connection_is_stale_and_any_sign_of_life_ends_it() {
    let mut tape = live();
    tape.heard(41);
    tape.until(2_000);
    assert!(tape.states(0).is_empty());
    tape.until(2_200);
    assert_eq!(tape.states(0), [FeedState::Stale]);
    assert_eq!(tape.quotes.last().map(|change| change.now), Some(None), "a stale quote is no candidate for the best");
    tape.heard(2_300);
    tape.until(2_400);
    assert_eq!(tape.states(0), [FeedState::Stale, FeedState::Live]);
}

#[test]
fn a_finer_price_refines_the_steps_through_a_snapshot() {
    let mut tape = live();
    let scale = Scale { price: -3, quantity: -3 };
    let sequence = Sequence::Venue { first: 102, last: 102 };
    let delta = Delta { sequence, scale, changes: vec![bid(1_005, 6)], window: Window::Whole, places: Vec::new() };
    tape.take(41, 0, Body::Delta(delta));
    tape.until(80);
    let bids = vec![level(1_005, 6), level(1_000, 1), level(990, 2)];
    assert_eq!(tape.last().book, BookCut::Snapshot { bids, asks: vec![level(1_020, 3)], horizon: [None, None] });
    assert_eq!(tape.last().scale, scale);
    // A coarser update that follows is brought to the finer steps.
    tape.delta(81, 0, (103, 103), &[bid(100, 8)]);
    tape.until(120);
    let change = LevelChange { side: Side::Bid, level: level(1_000, 8) };
    assert_eq!(tape.last().book, BookCut::Delta { base: Version::new(0, 102), changes: vec![change] });
}

#[test]
fn what_leaves_the_window_dies_as_a_change_of_that_event() {
    let mut tape = Tape::new();
    tape.list(1);
    let ticks = vec![bid(100, 1), bid(99, 1)];
    let window = Window::Best(2);
    tape.take(1, 1, Body::Snapshot(Snapshot { sequence: Sequence::Arrival(1), scale: SCALE, ticks, window }));
    let changes = vec![bid(101, 1)];
    tape.take(
        41,
        1,
        Body::Delta(Delta { sequence: Sequence::Arrival(5), scale: SCALE, changes, window, places: Vec::new() }),
    );
    tape.until(80);
    let gone = LevelChange { side: Side::Bid, level: level(99, 0) };
    let come = LevelChange { side: Side::Bid, level: level(101, 1) };
    assert_eq!(tape.last().book, BookCut::Delta { base: Version::new(0, 1), changes: vec![gone, come] });
    assert_eq!(tape.last().admitted[0].changes, [bid(101, 1), bid(99, 0)]);
}

#[test]
fn a_late_trade_is_history_and_never_the_last_price() {
    let mut tape = live();
    let trade = |order: u64| Body::Trade {
        scale: SCALE,
        trade: market::Trade {
            id: order.to_string().into(),
            order,
            tick_index: 100,
            quantity: U256::from(1_u64),
            taker: Side::Bid,
            venue_ns: 0,
        },
    };
    for order in [7, 9, 8, 9] {
        tape.take(41, 0, trade(order));
    }
    tape.until(80);
    let shown: Vec<_> = tape.last().trades.iter().map(|(_, trade)| trade.order).collect();
    let kept: Vec<_> = tape.last().admitted_trades.iter().map(|admitted| admitted.trade.order).collect();
    assert_eq!((shown, kept), (vec![7, 9], vec![7, 9, 8]));
    assert_eq!((tape.counts.trades_late, tape.counts.trade_duplicates), (1, 1));
}
