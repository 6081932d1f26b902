//! The standing views in a replay: any number of workers keeps the same, and after every cut they are what a plain
//! computation from all books finds.
//!
//! Never: a wall clock; a formula taken over from what is tested.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

use dataflow::{
    clock::CutClock,
    cut::{BookCut, InstrumentCut, ViewChange},
    graph::{self, GraphConfig},
    ingest::{Batch, Credit, IngestConfig, Pace, feed},
    lane::LaneConfig,
    sink::SinkMessage,
    views::ViewRules,
};
use market::{
    Body, Delta, Event, FeedState, LegId, Listing, PairId, Scale, Sequence, Side, Snapshot, SymbolId, TickChange, U256,
    Venue, ViewId, ViewKey, ViewRule, ViewValue, Views, Window,
    guard::Limits,
    quote::Exact,
    scale::PRICE_POWERS,
    view::{Band, Imbalance, SignedExact, ViewNumber},
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const CUT_NS: u64 = 40_000_000;
const INSTRUMENTS: u32 = 8;
const PAIRS: u32 = 2;
/// Every price and quantity is a whole number of 10^-PLACES.
const PLACES: i8 = 6;

type Cuts = BTreeMap<(u64, SymbolId), InstrumentCut>;

fn rules() -> ViewRules {
    let band = |ppm| Band::of_ppm(ppm).unwrap();
    [
        ViewRule::ReservesWithin(band(50_000)),
        ViewRule::ImbalanceWithin(band(200_000)),
        ViewRule::Spread,
        ViewRule::ReservesWithin(band(1_000_000)),
    ]
    .into()
}

/// The pair 0 is in all views, the pair 1 in all but the first.
fn views_of(pair: PairId) -> Views {
    let places = usize::try_from(pair.0).unwrap()..rules().len();
    places.fold(Views::NONE, |views, place| views.with(ViewId::new(place).unwrap()))
}

fn pair_of(symbol: SymbolId) -> PairId {
    PairId(symbol.0 % PAIRS)
}

/// Steps of every kind; the last instrument has prices that are powers.
fn scale_of(symbol: u32, finer: bool) -> Scale {
    let places = i8::try_from(symbol % 4).unwrap() + i8::from(finer);
    let price = if symbol == INSTRUMENTS - 1 { PRICE_POWERS } else { -places };
    Scale { price, quantity: 1 - places }
}

/// Runs events, each with its time, through the graph.
fn run(events: &[(u64, Event)], workers: usize) -> (Cuts, Vec<ViewChange>) {
    let clock = CutClock { origin_ns: 0, cut_ns: CUT_NS };
    let credit = Credit::new(1 << 20);
    let limits = Limits::default();
    let lane = LaneConfig { clock, limits, silent_ns: 2_000_000_000, silent_intervals: 20, admitted: false };
    let ingest = IngestConfig { clock, pace: Pace::Replay, credit: Arc::clone(&credit) };
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| feed()).unzip();
    senders.truncate(1);
    let (hub, messages) = std::sync::mpsc::channel::<SinkMessage>();
    // The best is not needed for the views.
    let graph = GraphConfig { lane, ingest, best: false, views: rules(), priority: Arc::default() };
    let guards = graph::start(graph, receivers, hub).unwrap();
    let batches = events.to_vec();
    let source = std::thread::spawn(move || {
        for (ts_ns, event) in batches {
            senders[0].send(Batch { cut: clock.cut_at(ts_ns), events: vec![event] }).unwrap();
        }
    });
    let (mut cuts, mut views) = (BTreeMap::new(), Vec::new());
    let mut closed = vec![0; workers];
    for message in messages {
        match message {
            SinkMessage::Cut(cut) => {
                credit.release(cut.input_bytes);
                cuts.extend(cut.instruments.into_iter().map(|instrument| ((cut.cut, instrument.symbol), instrument)));
            }
            SinkMessage::Views(changes) => views.extend(changes),
            SinkMessage::Closed { worker, before } => closed[worker] = before,
            SinkMessage::Best(_) | SinkMessage::Priority(_) => {}
        }
    }
    source.join().unwrap();
    drop(guards);
    assert!(closed.iter().all(|before| *before == u64::MAX), "{closed:?}");
    views.sort_by_key(|change| (change.cut, change.key));
    (cuts, views)
}

#[derive(Clone, Debug)]
enum Step {
    Delta { symbol: u32, skip: u64, changes: Vec<(bool, i64, u64)>, finer: bool },
    Snapshot { symbol: u32, levels: Vec<(bool, i64, u64)>, known: Option<u32> },
    Down,
    Heard,
}

fn changes() -> impl Strategy<Value = Vec<(bool, i64, u64)>> {
    prop::collection::vec((any::<bool>(), 0_i64..30, 0_u64..4), 0..8)
}

fn step() -> impl Strategy<Value = Step> {
    let symbol = 0..INSTRUMENTS;
    prop_oneof![
        12 => (symbol.clone(), prop_oneof![15 => Just(0_u64), 1 => Just(1)], changes(), prop::bool::weighted(0.1))
            .prop_map(|(symbol, skip, changes, finer)| Step::Delta { symbol, skip, changes, finer }),
        5 => (symbol, changes(), prop::option::of(1_u32..4))
            .prop_map(|(symbol, levels, known)| Step::Snapshot { symbol, levels, known }),
        1 => Just(Step::Down),
        1 => Just(Step::Heard),
    ]
}

/// Steps as events: ids follow each other but where a step skips one, snapshots are of the present.
fn events(steps: Vec<(u64, Step)>) -> Vec<(u64, Event)> {
    let mut ids = [100_u64; 8];
    let (mut now_ns, leg) = (1, LegId(0));
    let listing = |symbol| {
        let (venue, pair) = (Venue::ALL[usize::try_from(symbol).unwrap()], pair_of(SymbolId(symbol)));
        Body::Listing(Listing { venue, pair, epoch: 1, block: 1, views: views_of(pair) })
    };
    let mut events: Vec<_> =
        (0..INSTRUMENTS).map(|symbol| (0, Event::of(SymbolId(symbol), leg, 1, 0, listing(symbol)))).collect();
    let ticks = |rows: Vec<(bool, i64, u64)>| -> Vec<TickChange> {
        let side = |bid| if bid { Side::Bid } else { Side::Ask };
        rows.into_iter().map(|(bid, price, quantity)| TickChange::at(side(bid), price, U256::from(quantity))).collect()
    };
    for (wait_ms, step) in steps {
        now_ns += wait_ms * 1_000_000;
        let (symbol, body) = match step {
            Step::Delta { symbol, skip, changes, finer } => {
                let id = &mut ids[usize::try_from(symbol).unwrap()];
                *id += 1 + skip;
                let (sequence, scale) = (Sequence::Venue { first: *id, last: *id }, scale_of(symbol, finer));
                let (changes, window) = (ticks(changes), Window::Whole);
                (symbol, Body::Delta(Delta { sequence, scale, changes, window, places: Vec::new() }))
            }
            Step::Snapshot { symbol, levels, known } => {
                let id = ids[usize::try_from(symbol).unwrap()];
                let (sequence, scale) = (Sequence::Venue { first: id, last: id }, scale_of(symbol, false));
                let window = known.map_or(Window::Whole, Window::Known);
                (symbol, Body::Snapshot(Snapshot { sequence, scale, ticks: ticks(levels), window }))
            }
            Step::Down | Step::Heard => {
                let down = matches!(step, Step::Down);
                let bodies = if down { vec![Body::LegDown, Body::LegUp] } else { vec![Body::LegHeard] };
                // To every lane of the most workers; a worker that is not there has none.
                for worker in 0..4 {
                    events.extend(bodies.iter().map(|body| (now_ns, Event::of_leg(worker, leg, now_ns, body.clone()))));
                }
                continue;
            }
        };
        events.push((now_ns, Event::of(SymbolId(symbol), leg, now_ns, 0, body)));
    }
    events
}

/// A book as it was published, in whole numbers of 10^-PLACES.
#[derive(Clone, Default)]
struct Plain {
    scale: Scale,
    state: FeedState,
    exhausted: bool,
    levels: [BTreeMap<i64, u128>; 2],
    horizon: [Option<i64>; 2],
}

impl Plain {
    fn apply(&mut self, cut: &InstrumentCut) {
        self.scale = cut.scale;
        if let Some(feed) = cut.feed {
            (self.state, self.exhausted) = (feed.state, feed.flags.exhausted);
        }
        match &cut.book {
            BookCut::Unchanged => {}
            BookCut::Delta { changes, .. } => {
                for change in changes {
                    let side = &mut self.levels[usize::from(change.side == Side::Ask)];
                    match u128::try_from(change.level.quantity).unwrap() {
                        0 => side.remove(&change.level.tick_index),
                        quantity => side.insert(change.level.tick_index, quantity),
                    };
                }
            }
            BookCut::Snapshot { bids, asks, horizon } => {
                self.levels = [bids, asks].map(|levels| {
                    let row = |level: &market::Level| (level.tick_index, u128::try_from(level.quantity).unwrap());
                    levels.iter().map(row).collect()
                });
                self.horizon = *horizon;
            }
        }
    }

    fn shown(&self) -> bool {
        self.state == FeedState::Live && self.scale.price != PRICE_POWERS
    }

    fn best(&self) -> [Option<i64>; 2] {
        [self.levels[0].keys().next_back().copied(), self.levels[1].keys().next().copied()]
    }

    /// Sums of both sides in 10^-PLACES within `ppm` of the mid, and whether something is missing.
    fn within(&self, ppm: u32) -> Option<([u128; 2], bool)> {
        if self.exhausted {
            return Some(([0, 0], true));
        }
        let [Some(bid), Some(ask)] = self.best() else { return None };
        let twice_mid = i128::from(bid + ask);
        let inside = |price: i64| (2 * i128::from(price) - twice_mid).abs() * 1_000_000 <= i128::from(ppm) * twice_mid;
        let known = |at: usize, price: i64| match (at, self.horizon[at]) {
            (_, None) => true,
            (0, Some(horizon)) => price >= horizon,
            (_, Some(horizon)) => price <= horizon,
        };
        let unit = 10_u128.pow(u32::try_from(self.scale.quantity + PLACES).unwrap());
        let sum = |at: usize| {
            let rows = self.levels[at].iter().filter(|(price, _)| inside(**price) && known(at, **price));
            rows.map(|(_, quantity)| quantity * unit).sum()
        };
        let missing = |at: usize| (0..=bid + ask).any(|price| inside(price) && !known(at, price));
        Some(([sum(0), sum(1)], missing(0) || missing(1)))
    }
}

fn exact(value: u128) -> Exact {
    Exact::new(U256::from(value), -PLACES)
}

/// A view of some books, by its words.
fn naive(rule: ViewRule, books: &[&Plain]) -> Option<ViewValue> {
    let ppm = match rule {
        ViewRule::ReservesWithin(band) | ViewRule::ImbalanceWithin(band) => band.ppm(),
        ViewRule::Spread => return spread(books),
    };
    let parts: Vec<_> = books.iter().filter_map(|book| book.within(ppm)).collect();
    let [bids, asks] = [0, 1].map(|at| parts.iter().map(|(sums, _)| sums[at]).sum::<u128>());
    let number = if matches!(rule, ViewRule::ReservesWithin(_)) {
        ViewNumber::Reserves { bids: exact(bids), asks: exact(asks) }
    } else if bids + asks == 0 {
        ViewNumber::Nothing
    } else {
        let (more, less) = (bids.max(asks), bids.min(asks));
        // Half a millionth more, and the rest cut off.
        let size = (2_000_000 * (more - less) + bids + asks) / (2 * (bids + asks));
        let size = i32::try_from(size).unwrap();
        ViewNumber::Imbalance(Imbalance::of_ppm(if bids < asks { -size } else { size }).unwrap())
    };
    let instruments = u32::try_from(parts.len()).unwrap();
    (instruments > 0).then(|| ViewValue { number, partial: parts.iter().any(|(_, partial)| *partial), instruments })
}

fn spread(books: &[&Plain]) -> Option<ViewValue> {
    let known: Vec<_> = books.iter().filter(|book| !book.exhausted && book.best() != [None, None]).collect();
    let best = |at: usize| {
        let price = |book: &&&Plain| {
            let unit = 10_u128.pow(u32::try_from(book.scale.price + PLACES).unwrap());
            book.best()[at].map(|price| u128::try_from(price).unwrap() * unit)
        };
        known.iter().filter_map(price).collect::<BTreeSet<u128>>()
    };
    let number = match (best(0).last(), best(1).first()) {
        (Some(bid), Some(ask)) => ViewNumber::Spread(SignedExact::new(ask < bid, exact(ask.abs_diff(*bid)))),
        _ => ViewNumber::Nothing,
    };
    let instruments = u32::try_from(known.len()).unwrap();
    (instruments > 0).then_some(ViewValue { number, partial: false, instruments })
}

/// Every view of every pair after each cut, from the published books and states alone.
fn naive_views(cuts: &Cuts) -> Vec<ViewChange> {
    let mut books: BTreeMap<SymbolId, Plain> = BTreeMap::new();
    let mut held: BTreeMap<ViewKey, ViewValue> = BTreeMap::new();
    let mut found = Vec::new();
    let times: BTreeSet<u64> = cuts.keys().map(|(cut, _)| *cut).collect();
    for cut in times {
        for ((_, symbol), published) in cuts.range((cut, SymbolId(0))..(cut + 1, SymbolId(0))) {
            books.entry(*symbol).or_default().apply(published);
        }
        for (view, rule) in rules().iter().enumerate().map(|(place, rule)| (ViewId::new(place).unwrap(), rule)) {
            for pair in (0..PAIRS).map(PairId).filter(|pair| views_of(*pair).has(view)) {
                let of_pair: Vec<&Plain> = books
                    .iter()
                    .filter(|(symbol, book)| pair_of(**symbol) == pair && book.shown())
                    .map(|row| row.1)
                    .collect();
                let (key, value) = (ViewKey { view, pair }, naive(*rule, &of_pair));
                if held.get(&key).copied() != value {
                    found.push(ViewChange { cut, key, value });
                }
                match value {
                    Some(value) => held.insert(key, value),
                    None => held.remove(&key),
                };
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn any_number_of_workers_keeps_the_views_that_the_books_have(
        steps in prop::collection::vec((0_u64..120, step()), 1..150),
    ) {
        let events = events(steps);
        let (cuts, views) = run(&events, 1);
        prop_assert_eq!(&views, &naive_views(&cuts));
        for workers in [2, 4] {
            let (_, of_many) = run(&events, workers);
            prop_assert_eq!(&views, &of_many);
        }
    }
}

/// Few in an ordinary run; `SPRAG_FULL=1` asks for many.
fn cases() -> u32 {
    if std::env::var_os("SPRAG_FULL").is_some() { 1_000 } else { 48 }
}
