//! Live connections to the venue simulator: books that are right in the end, whatever the venue did meanwhile.
//!
//! Never: the simulator's word for it that a frame arrived.

use super::{PATIENCE, Source, live_venue};
use connectors::{
    live::LiveOptions,
    raw::RawPayload,
    simulator::{Ending, Fault, SimulatorConfig, VenueSim, VenueSimOptions, VenueSimSource},
    venue_feed::number::{price_step, quantity_step},
};
use market::{Body, Decimal, Scale, Sequence, Side, TickChange, U256, Venue};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

async fn simulator(venue: Venue) -> VenueSim {
    let market = SimulatorConfig {
        pairs: 3,
        venues: vec![venue],
        updates_per_second: 300,
        start_ns: super::unix_ns(),
        ..SimulatorConfig::default()
    };
    VenueSim::start(VenueSimOptions::new(VenueSimSource::Market(market))).await.unwrap()
}

fn source(sim: &VenueSim, venue: Venue, legs: usize) -> (Source, Vec<String>) {
    let symbols: Vec<String> = sim.books().into_iter().map(|book| book.symbol).collect();
    let names: Vec<&str> = symbols.iter().map(|symbol| &**symbol).collect();
    let path = if venue == Venue::BinanceSpot { "stream" } else { "v2" };
    let ws = format!("ws://{}/{venue}/{path}", sim.address());
    let http = format!("http://{}/{venue}", sim.address());
    (Source::start(live_venue(venue, &names, legs, ws, http), LiveOptions::default()), symbols)
}

/// Steps that are fine enough for every number of the simulated market.
const FINE: Scale = Scale { price: -12, quantity: -12 };

/// Levels a side that are subscribed to at Kraken.
const KRAKEN_DEPTH: usize = 100;

/// A book: bids, asks.
type Sides = [BTreeMap<i64, U256>; 2];

fn apply(sides: &mut Sides, scale: Scale, changes: &[TickChange]) {
    for change in changes {
        let price = scale.price_in(FINE, change.key.tick_index).unwrap();
        let side = &mut sides[usize::from(change.side == Side::Ask)];
        match scale.quantity_in(FINE, change.reserves).unwrap() {
            quantity if quantity.is_zero() => side.remove(&price),
            quantity => side.insert(price, quantity),
        };
    }
}

fn truncate([bids, asks]: &mut Sides, depth: usize) {
    while bids.len() > depth {
        bids.pop_first();
    }
    while asks.len() > depth {
        asks.pop_last();
    }
}

/// The book that the events so far say, by the venues' published rules; none while it is not known.
fn rebuilt(source: &Source, venue: Venue, symbol: &str) -> Option<Sides> {
    let symbol = source.directory.find(&format!("{venue}/{symbol}"))?.id;
    let own = || source.events.iter().filter(|event| event.symbol == symbol).map(|event| &event.body);
    if venue == Venue::BinanceSpot { binance_book(&own().collect::<Vec<_>>()) } else { kraken_book(own()) }
}

fn kraken_book<'a>(own: impl Iterator<Item = &'a Body>) -> Option<Sides> {
    let mut known = None;
    for body in own {
        match (body, &mut known) {
            (Body::Snapshot(snapshot), _) => {
                apply(known.insert(Sides::default()), snapshot.scale, &snapshot.ticks);
            }
            (Body::Delta(delta), Some(sides)) => {
                apply(sides, delta.scale, &delta.changes);
                truncate(sides, KRAKEN_DEPTH);
            }
            (Body::Broken(_), _) => known = None,
            _ => {}
        }
    }
    known
}

/// The last snapshot with the updates of all legs that join it, one after the other.
fn binance_book(own: &[&Body]) -> Option<Sides> {
    let snapshot = own.iter().rev().find_map(|body| match body {
        Body::Snapshot(snapshot) => Some(snapshot),
        _ => None,
    })?;
    let mut updates: Vec<_> = own
        .iter()
        .filter_map(|body| match body {
            Body::Delta(delta) => match delta.sequence {
                Sequence::Venue { first, last } => Some((first, last, delta)),
                Sequence::Arrival(_) => None,
            },
            _ => None,
        })
        .collect();
    updates.sort_by_key(|(first, last, _)| (*first, *last));
    let (mut sides, mut reached) = (Sides::default(), snapshot.sequence.last());
    apply(&mut sides, snapshot.scale, &snapshot.ticks);
    for (first, last, delta) in updates.into_iter().filter(|(_, last, _)| *last > snapshot.sequence.last()) {
        if last <= reached {
            continue;
        }
        if first > reached + 1 {
            return None;
        }
        apply(&mut sides, delta.scale, &delta.changes);
        reached = last;
    }
    Some(sides)
}

/// The venue's own books.
fn right(sim: &VenueSim, venue: Venue) -> BTreeMap<String, Sides> {
    let side = |levels: &[(String, String)]| -> BTreeMap<i64, U256> {
        let decimal = |text: &str| Decimal::parse(text).unwrap();
        let steps = |(price, quantity): &(String, String)| {
            (FINE.price(&decimal(price)).unwrap(), FINE.quantity(&decimal(quantity)).unwrap())
        };
        levels.iter().map(steps).collect()
    };
    let books = sim.books().into_iter().map(|book| {
        let mut sides = [side(&book.bids), side(&book.asks)];
        if venue == Venue::KrakenSpot {
            truncate(&mut sides, KRAKEN_DEPTH);
        }
        (book.symbol, sides)
    });
    books.collect()
}

/// Stops the market and waits until every book is what the venue's is. Guards would ask for snapshots of books that
/// are not known; here the test does.
fn settle(sim: &VenueSim, source: &mut Source, venue: Venue) {
    sim.pause();
    let right = right(sim, venue);
    assert!(!right.is_empty());
    let started = Instant::now();
    let mut asked = Instant::now();
    loop {
        source.take(Duration::from_millis(20));
        let wrong: Vec<&String> = right
            .iter()
            .filter(|(symbol, book)| rebuilt(source, venue, symbol).as_ref() != Some(book))
            .map(|(symbol, _)| symbol)
            .collect();
        if wrong.is_empty() {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{wrong:?} are not right: {:?}", source.counts());
        if asked.elapsed() > Duration::from_secs(1) {
            asked = Instant::now();
            wrong.iter().for_each(|symbol| source.live.request(venue, symbol, None));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_are_right_after_disconnects_of_either_venue() {
    for venue in [Venue::BinanceSpot, Venue::KrakenSpot] {
        let sim = simulator(venue).await;
        let (mut source, symbols) = source(&sim, venue, 1);
        source.until("every book", |source| source.snapshots() >= symbols.len() && source.deltas() > 200);
        for ending in [Ending::Normal, Ending::Abort] {
            let before = source.count("connects");
            sim.set_fault(Fault::Disconnect { venue, connection: None, ending }).unwrap();
            source.until("the next connection", |source| source.count("connects") > before);
            let deltas = source.deltas();
            source.until("more updates", |source| source.deltas() > deltas + 200);
        }
        settle(&sim, &mut source, venue);
        assert_eq!(source.count("disconnects"), 2);
        assert_eq!(sim.state().connections.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_leg_takes_every_book_over_when_the_active_one_ends() {
    let venue = Venue::KrakenSpot;
    let sim = simulator(venue).await;
    let (mut source, symbols) = source(&sim, venue, 2);
    source.until("both legs", |source| {
        let counts: Vec<_> = source.decoder.counts().collect();
        source.legs_open() == 2 && counts.iter().any(|(_, counts)| counts.ignored > 500)
    });
    let active = |source: &Source| -> Vec<String> {
        symbols.iter().map(|symbol| source.decoder.active(venue, symbol).unwrap().to_string()).collect()
    };
    assert_eq!(active(&source), ["kraken_spot/a"; 3]);
    let snapshots = source.snapshots();
    sim.set_fault(Fault::Disconnect { venue, connection: Some(1), ending: Ending::Abort }).unwrap();
    source.until("the takeover", |source| source.snapshots() >= snapshots + 3);
    assert_eq!(active(&source), ["kraken_spot/b"; 3]);
    assert_eq!(source.bodies(|body| matches!(body, Body::Broken(_))), 0);
    // The other way round, by a checksum: only that instrument goes back.
    source.until("the first leg again", |source| source.legs_open() == 2 && source.count("connects") == 3);
    let seen = source.frames.len();
    source.until("its books", |source| {
        let snapshots = source.frames.iter().skip(seen.saturating_sub(50)).filter(|frame| {
            *frame.conn == *"kraken_spot/a"
                && matches!(&frame.raw, RawPayload::Text(text) if text.contains("\"snapshot\",\"data\""))
        });
        snapshots.count() >= 3
    });
    let symbol = symbols[0].clone();
    sim.set_fault(Fault::CorruptChecksum { venue, symbol: symbol.clone(), count: 1, connection: Some(2) }).unwrap();
    source.until("the repair", |source| source.count("resubscribes") == 1);
    assert_eq!(active(&source)[1..], ["kraken_spot/b"; 2]);
    assert_eq!(source.decoder.active(venue, &symbol).map(|conn| &**conn), Some("kraken_spot/a"));
    settle(&sim, &mut source, venue);
    assert_eq!(source.bodies(|body| matches!(body, Body::Broken(_))), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_legs_fill_each_other_s_holes() {
    let venue = Venue::BinanceSpot;
    let sim = simulator(venue).await;
    let (mut source, symbols) = source(&sim, venue, 2);
    source.until("both legs", |source| source.legs_open() == 2 && source.deltas() > 500);
    for (connection, symbol) in [(1, &symbols[0]), (2, &symbols[1])] {
        let fault = Fault::DropDepth { venue, symbol: symbol.clone(), count: 5, connection: Some(connection) };
        sim.set_fault(fault).unwrap();
    }
    source.until("the holes", |_| sim.faults().fired.values().sum::<u64>() == 10);
    settle(&sim, &mut source, venue);
    assert_eq!((source.count("snapshots"), source.count("disconnects")), (3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_and_upgrades_only_delay() {
    let venue = Venue::BinanceSpot;
    let sim = simulator(venue).await;
    sim.set_fault(Fault::RefuseConnections { venue, for_ms: 700 }).unwrap();
    sim.set_fault(Fault::FailRest { venue, count: 2, status: 429, retry_after_s: Some(1) }).unwrap();
    let (mut source, symbols) = source(&sim, venue, 1);
    source.until("every book", |source| source.snapshots() >= symbols.len() && source.deltas() > 100);
    settle(&sim, &mut source, venue);
    assert!(source.count("connect_failures") >= 1 && source.count("rest_limited") == 2, "{:?}", source.counts());
}

/// What the venues' lists say is taken whole: every instrument with steps that can be, and trading.
#[tokio::test]
async fn every_simulated_venue_lists_its_instruments_with_their_steps() {
    for venue in [Venue::BinanceSpot, Venue::KrakenSpot, Venue::Okx, Venue::Deribit] {
        let sim = simulator(venue).await;
        let (symbols, http) = (sim.books(), format!("http://{}/{venue}", sim.address()));
        let names: Vec<&str> = symbols.iter().map(|book| &*book.symbol).collect();
        let live = live_venue(venue, &names, 1, format!("ws://{}/{venue}", sim.address()), http);
        let listed = live.listed(PATIENCE).await.unwrap();
        for symbol in names {
            let one = listed.iter().find(|one| *one.symbol == *symbol).unwrap_or_else(|| panic!("{venue} {symbol}"));
            let (price, quantity) = (one.price_step.as_deref().unwrap(), one.quantity_step.as_deref().unwrap());
            assert!(price_step(price).is_ok() && quantity_step(quantity).is_ok(), "{one:?}");
            assert_eq!(one.halted, None, "{venue}");
        }
    }
}
