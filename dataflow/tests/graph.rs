//! The whole graph in a replay: any number of workers publishes the same, and the consolidated best is what a naive
//! reference finds.
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
    cut::{BestChange, InstrumentCut, LegCounts},
    graph::{self, GraphConfig},
    ingest::{Batch, Credit, IngestConfig, Pace, feed},
    lane::LaneConfig,
    sink::SinkMessage,
};
use market::{
    Best, BestSide, Body, Delta, Event, FeedState, LegId, Listing, PairId, Quote, Scale, Sequence, Side, Snapshot,
    SymbolId, TickChange, U256, Venue, Views, Window, guard::Limits,
};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

const CUT_NS: u64 = 40_000_000;
const INSTRUMENTS: u32 = 6;

type Published = (BTreeMap<(u64, SymbolId), InstrumentCut>, Vec<BestChange>, BTreeMap<LegId, LegCounts>);

/// Runs events, each with its time, through the graph.
fn run(events: &[(u64, Event)], workers: usize, credit_bytes: u64) -> Published {
    let clock = CutClock { origin_ns: 0, cut_ns: CUT_NS };
    let credit = Credit::new(credit_bytes);
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
    let (mut cuts, mut best) = (BTreeMap::new(), Vec::new());
    let mut legs: BTreeMap<LegId, LegCounts> = BTreeMap::new();
    for message in messages {
        match message {
            SinkMessage::Cut(cut) => {
                credit.release(cut.input_bytes);
                cut.legs.iter().for_each(|(leg, more)| legs.entry(*leg).or_default().add(more));
                for instrument in cut.instruments {
                    assert!(cuts.insert((cut.cut, instrument.symbol), instrument).is_none(), "published twice");
                }
            }
            SinkMessage::Best(changes) => best.extend(changes),
            SinkMessage::Closed { .. } | SinkMessage::Priority(_) | SinkMessage::Views(_) => {}
        }
    }
    source.join().unwrap();
    drop(guards);
    assert_eq!(credit.in_flight(), 0, "every byte is given back");
    best.sort_by_key(|change| (change.cut, change.pair));
    (cuts, best, legs)
}

fn listing(symbol: u32) -> Listing {
    let venue = if symbol.is_multiple_of(2) { Venue::BinanceSpot } else { Venue::KrakenSpot };
    Listing { venue, pair: PairId(symbol / 2), epoch: 1, block: 1, views: Views::NONE }
}

#[derive(Clone, Debug)]
enum Step {
    Delta { symbol: u32, skip: u64, changes: Vec<(bool, i64, u64)> },
    Snapshot { symbol: u32, levels: Vec<(bool, i64, u64)> },
    Heard,
}

fn changes() -> impl Strategy<Value = Vec<(bool, i64, u64)>> {
    prop::collection::vec((any::<bool>(), 0_i64..20, 0_u64..4), 0..6)
}

fn step() -> impl Strategy<Value = Step> {
    let symbol = 0..INSTRUMENTS;
    prop_oneof![
        8 => (symbol.clone(), prop_oneof![9 => Just(0_u64), 1 => Just(1)], changes())
            .prop_map(|(symbol, skip, changes)| Step::Delta { symbol, skip, changes }),
        2 => (symbol, changes()).prop_map(|(symbol, levels)| Step::Snapshot { symbol, levels }),
        1 => Just(Step::Heard),
    ]
}

/// Steps as events: ids follow each other but where a step skips one, snapshots are of the present.
fn events(steps: Vec<(u64, Step)>) -> Vec<(u64, Event)> {
    let mut ids = [100_u64; 6];
    let mut now_ns = 1;
    let leg = LegId(0);
    let mut events: Vec<_> = (0..INSTRUMENTS)
        .map(|symbol| (0, Event::of(SymbolId(symbol), leg, 1, 0, Body::Listing(listing(symbol)))))
        .collect();
    let ticks = |rows: Vec<(bool, i64, u64)>| -> Vec<TickChange> {
        let side = |bid| if bid { Side::Bid } else { Side::Ask };
        rows.into_iter().map(|(bid, price, quantity)| TickChange::at(side(bid), price, U256::from(quantity))).collect()
    };
    for (wait_ms, step) in steps {
        now_ns += wait_ms * 1_000_000;
        let (symbol, body) = match step {
            Step::Delta { symbol, skip, changes } => {
                let id = &mut ids[usize::try_from(symbol).unwrap()];
                *id += 1 + skip;
                let sequence = Sequence::Venue { first: *id, last: *id };
                let scale = Scale { price: -i8::try_from(symbol).unwrap(), quantity: 0 };
                (
                    symbol,
                    Body::Delta(Delta {
                        sequence,
                        scale,
                        changes: ticks(changes),
                        window: Window::Whole,
                        places: Vec::new(),
                    }),
                )
            }
            Step::Snapshot { symbol, levels } => {
                let id = ids[usize::try_from(symbol).unwrap()];
                let sequence = Sequence::Venue { first: id, last: id };
                let scale = Scale { price: -i8::try_from(symbol).unwrap(), quantity: 0 };
                (symbol, Body::Snapshot(Snapshot { sequence, scale, ticks: ticks(levels), window: Window::Whole }))
            }
            Step::Heard => {
                events.push((now_ns, Event::of_leg(0, leg, now_ns, Body::LegHeard)));
                continue;
            }
        };
        let event = Event::of(SymbolId(symbol), leg, now_ns, 0, body);
        // A second leg brings every update of some instruments too, a little later.
        let again = (symbol > 3 && matches!(event.body, Body::Delta(_))).then(|| Event {
            leg: LegId(1),
            received_ns: now_ns + 1,
            ..event.clone()
        });
        events.push((now_ns, event));
        events.extend(again.map(|again| (now_ns, again)));
    }
    events
}

/// The best of each pair after each cut, from the published quotes and states alone.
fn naive_best(cuts: &BTreeMap<(u64, SymbolId), InstrumentCut>) -> Vec<BestChange> {
    let mut quotes: BTreeMap<SymbolId, (Quote, FeedState, Scale)> = BTreeMap::new();
    let mut held: BTreeMap<PairId, Best> = BTreeMap::new();
    let mut found = Vec::new();
    let times: Vec<u64> =
        cuts.keys().map(|(cut, _)| *cut).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    for cut in times {
        for ((_, symbol), published) in cuts.range((cut, SymbolId(0))..(cut + 1, SymbolId(0))) {
            let entry = quotes.entry(*symbol).or_insert((Quote::default(), FeedState::Syncing, published.scale));
            entry.0 = published.quote.unwrap_or(entry.0);
            entry.1 = published.feed.map_or(entry.1, |feed| feed.state);
            entry.2 = published.scale;
        }
        for pair in (0..INSTRUMENTS / 2).map(PairId) {
            let candidates = quotes
                .iter()
                .filter(|(symbol, (_, state, _))| listing(symbol.0).pair == pair && *state == FeedState::Live);
            let best = candidates.fold(Best::default(), |best, (symbol, (quote, _, scale))| {
                let side = |level| BestSide::of(listing(symbol.0).venue, level, *scale);
                best.merge(Best { bid: quote.bid.and_then(side), ask: quote.ask.and_then(side) })
            });
            let before = held.insert(pair, best).unwrap_or_default();
            if best != before {
                found.push(BestChange { cut, pair, best: (best != Best::default()).then_some(best) });
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn any_number_of_workers_publishes_the_same_and_the_best_is_right(
        steps in prop::collection::vec((0_u64..120, step()), 1..120),
    ) {
        let events = events(steps);
        let (one, best, legs) = run(&events, 1, 1 << 20);
        prop_assert_eq!(&best, &naive_best(&one));
        let admitted = one.values().flat_map(|cut| &cut.admitted).filter(|changes| !changes.whole).count();
        let wins: u64 = legs.values().map(|leg| leg.wins).sum();
        prop_assert_eq!(wins, u64::try_from(admitted).unwrap(), "every update that was applied has its winner");
        for workers in [2, 4] {
            // A credit smaller than some cuts must slow the source, and change nothing.
            let (many, best_of_many, legs_of_many) = run(&events, workers, 4_096);
            let keys = |cuts: &BTreeMap<(u64, SymbolId), InstrumentCut>| cuts.keys().copied().collect::<Vec<_>>();
            prop_assert_eq!(keys(&one), keys(&many));
            for (key, published) in &one {
                prop_assert_eq!(format!("{published:?}"), format!("{:?}", many[key]), "{:?}", key);
            }
            prop_assert_eq!(&best, &best_of_many);
            prop_assert_eq!(&legs, &legs_of_many);
        }
    }
}

/// Few in an ordinary run; `SPRAG_FULL=1` asks for many.
fn cases() -> u32 {
    if std::env::var_os("SPRAG_FULL").is_some() { 1_000 } else { 32 }
}
