//! Blocks of a log stream in the whole graph: the mark that everything before it was told comes out with the cut that holds
//! the last of it, or later, at any number of workers.
//!
//! Never: a wall clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

use dataflow::{
    clock::CutClock,
    cut::InstrumentCut,
    graph::{self, GraphConfig},
    ingest::{Batch, Credit, IngestConfig, Pace, feed},
    lane::LaneConfig,
    sink::SinkMessage,
};
use market::{
    AdmittedChanges, Body, Delta, Event, FeedState, LegId, Listing, PairId, Restored, Scale, Sequence, Side, SymbolId,
    TickChange, U256, Venue, Version, Views, Window,
    batch::{end_of, height_of, place_of},
    guard::Limits,
    scale::PRICE_POWERS,
};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

const CUT_NS: u64 = 4_000_000;
const INSTRUMENTS: u32 = 9;
const CHAIN: LegId = LegId(2);
const STEPS: Scale = Scale { price: PRICE_POWERS, quantity: -27 };

/// By cut: what was told as passed, and what was admitted.
type Steps = BTreeMap<u64, (Vec<(LegId, u64)>, Vec<AdmittedChanges>)>;

/// Gives the steps, and each instrument's state at the end.
fn run(events: &[(u64, Event)], workers: usize) -> (Steps, BTreeMap<SymbolId, FeedState>) {
    let clock = CutClock { origin_ns: 0, cut_ns: CUT_NS };
    let credit = Credit::new(1 << 20);
    let lane =
        LaneConfig { clock, limits: Limits::default(), silent_ns: 2_000_000_000, silent_intervals: 20, admitted: true };
    let ingest = IngestConfig { clock, pace: Pace::Replay, credit: Arc::clone(&credit) };
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| feed()).unzip();
    senders.truncate(1);
    let (hub, messages) = std::sync::mpsc::channel::<SinkMessage>();
    let guards = graph::start(
        GraphConfig { lane, ingest, best: true, views: Arc::default(), priority: Arc::default() },
        receivers,
        hub,
    )
    .unwrap();
    let batches = events.to_vec();
    let source = std::thread::spawn(move || {
        for (ts_ns, event) in batches {
            senders[0].send(Batch { cut: clock.cut_at(ts_ns), events: vec![event] }).unwrap();
        }
    });
    let (mut steps, mut states) = (Steps::new(), BTreeMap::new());
    for message in messages {
        let SinkMessage::Cut(cut) = message else { continue };
        credit.release(cut.input_bytes);
        assert!(cut.requests.is_empty(), "nobody can be asked");
        let step = steps.entry(cut.cut).or_default();
        step.0.extend(cut.through);
        let known = |cut: &InstrumentCut| cut.feed.map(|feed| (cut.symbol, feed.state));
        states.extend(cut.instruments.iter().filter_map(known));
        step.1.extend(cut.instruments.into_iter().flat_map(|instrument| instrument.admitted));
    }
    source.join().unwrap();
    drop(guards);
    assert_eq!(credit.in_flight(), 0, "every byte is given back");
    (steps, states)
}

/// Of a block: milliseconds before it and before each of its events, how many heights are omitted before it, whose
/// instruments it changes, and whether it came late.
#[derive(Clone, Debug)]
struct Block {
    wait_ms: u64,
    spread_ms: u64,
    omitted: u64,
    symbols: Vec<u32>,
    late: bool,
}

fn block() -> impl Strategy<Value = Block> {
    let symbols = prop::collection::vec(0..INSTRUMENTS, 0..6);
    (0_u64..20, 0_u64..6, 0_u64..3, symbols, prop::bool::weighted(0.2))
        .prop_map(|(wait_ms, spread_ms, omitted, symbols, late)| Block { wait_ms, spread_ms, omitted, symbols, late })
}

fn events(blocks: &[Block]) -> Vec<(u64, Event)> {
    let (mut now_ns, mut height) = (1, 0);
    let mut from: BTreeMap<u32, u64> = BTreeMap::new();
    let mut events = Vec::new();
    for block in blocks {
        height += 1 + block.omitted;
        now_ns += block.wait_ms * 1_000_000;
        for (ordinal, symbol) in (0_u64..).zip(&block.symbols) {
            now_ns += block.spread_ms * 1_000_000;
            let mut tell = |body| events.push((now_ns, Event::of(SymbolId(*symbol), CHAIN, now_ns, 0, body)));
            let known = *from.entry(*symbol).or_insert_with(|| {
                let listing =
                    Listing { venue: Venue::NeutronDex, pair: PairId(*symbol), epoch: 1, block: 9, views: Views::NONE };
                tell(Body::Listing(listing));
                let at = Version::new(1, end_of(height - 1));
                let ticks = Some(Vec::new());
                let restored =
                    Restored { version: at, through: at, scale: STEPS, ticks, from_log: true, heard_ns: now_ns };
                tell(Body::Restored(Box::new(restored)));
                at.seq
            });
            let place = place_of(height, ordinal).unwrap();
            let delta = Delta {
                sequence: Sequence::Venue { first: known + 1, last: place },
                scale: STEPS,
                changes: vec![TickChange::at(Side::Bid, 5, U256::from(place))],
                window: Window::Whole,
                places: vec![place],
            };
            if block.late {
                tell(Body::Late(delta));
            } else {
                tell(Body::Delta(delta));
                from.insert(*symbol, place);
            }
        }
        events.push((now_ns, Event::of_leg(0, CHAIN, now_ns, Body::Through(end_of(height)))));
    }
    events
}

#[test]
fn a_mark_ends_the_wait_of_kept_books_in_every_lane_and_is_told_once() {
    let mut events = Vec::new();
    for symbol in (0..INSTRUMENTS).map(SymbolId) {
        let mut tell = |body| events.push((1, Event::of(symbol, CHAIN, 1, 0, body)));
        tell(Body::Listing(Listing {
            venue: Venue::NeutronDex,
            pair: PairId(symbol.0),
            epoch: 1,
            block: 9,
            views: Views::NONE,
        }));
        let (version, through) = (Version::new(1, end_of(5)), Version::new(1, end_of(7)));
        let ticks = Some(Vec::new());
        tell(Body::Restored(Box::new(Restored { version, through, scale: STEPS, ticks, from_log: true, heard_ns: 1 })));
    }
    for workers in [1, 2, 4] {
        for (height, state) in [(6, FeedState::Syncing), (7, FeedState::Live)] {
            let mark = (CUT_NS * 3, Event::of_leg(0, CHAIN, CUT_NS * 3, Body::Through(end_of(height))));
            let (steps, states) = run(&[&events[..], &[mark]].concat(), workers);
            assert!(states.len() == events.len() / 2 && states.values().all(|found| *found == state), "{states:?}");
            let told: Vec<_> = steps.values().flat_map(|(through, _)| through).collect();
            assert_eq!(told, [&(CHAIN, end_of(height))]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("SPRAG_FULL").is_some() { 500 } else { 24 }))]
    #[test]
    fn what_a_mark_says_to_be_told_is_in_its_cut_or_before_and_each_mark_comes_once(
        blocks in prop::collection::vec(block(), 1..40),
    ) {
        let events = events(&blocks);
        let marks = events.iter().filter(|(_, event)| matches!(event.body, Body::Through(_))).count();
        let rows = events.iter().filter(|(_, event)| matches!(event.body, Body::Delta(_) | Body::Late(_))).count();
        let (one, _) = run(&events, 1);
        prop_assert_eq!(one.values().map(|(_, admitted)| admitted.len()).sum::<usize>(), rows);
        for workers in [1, 2, 4] {
            let (many, _) = run(&events, workers);
            let told = |steps: &Steps| -> Vec<_> {
                steps.iter().flat_map(|(cut, (through, _))| through.iter().map(|mark| (*cut, *mark))).collect()
            };
            prop_assert_eq!(told(&many).len(), marks);
            prop_assert_eq!(told(&many), told(&one));
            for (cut, (leg, place)) in told(&many) {
                prop_assert_eq!(leg, CHAIN);
                let later = many.range(cut + 1..).flat_map(|(_, (_, admitted))| admitted);
                for admitted in later {
                    prop_assert!(height_of(admitted.version.seq) > height_of(place), "{:?} after its mark", admitted);
                }
            }
        }
    }
}
