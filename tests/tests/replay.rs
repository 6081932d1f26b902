//! Every Binance spot and Kraken v2 capture through the whole pipeline, against reconstructions that share no code.
//!
//! Never: an expectation taken from the code under test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

use connectors::{capture::MergedCaptures, decoder::Decoder, raw::RawPayload, venue_feed::listings::Listings};
use dataflow::{
    clock::CutClock,
    cut::LaneCut,
    lane::{Lane, LaneConfig},
};
use market::{Level, Quote, Scale, Venue, guard::Limits};
use serde_json::Value;
use server::replay::{Kept, ReplayChannel, ReplayOptions, ReplaySummary, replay};
use sprag_tests::{
    corpus,
    reference::{self, Reconstruction},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

fn options(venue: Venue, workers: usize) -> ReplayOptions {
    ReplayOptions { venue, workers, legs: Vec::new(), channels: Vec::new(), speed: 0.0, admitted: false }
}

fn run(path: &Path, options: &ReplayOptions) -> (Vec<u8>, ReplaySummary) {
    let captures = MergedCaptures::open(&[path.to_owned()]).unwrap();
    let listings = Listings::new(Arc::default()).with_epochs(foldhash::HashMap::default(), 1);
    let mut out = Vec::new();
    let replayed = replay(captures, options, Arc::new(listings), Kept::default(), &mut out, &mut |_| {});
    let (summary, _) = replayed.unwrap();
    (out, summary)
}

/// A decimal without the zeros that do not count.
fn canonical(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

/// A comparable form of a non-negative decimal: integer digits and fraction, padded.
fn sortable(text: &str) -> (usize, String, String) {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    (whole.len(), whole.to_owned(), fraction.trim_end_matches('0').to_owned())
}

type BookSide = BTreeMap<(usize, String, String), (String, String)>;

/// Price and quantity, best first.
type Rows = Vec<(String, String)>;

/// One instrument as a reader of the lines has it.
#[derive(Default)]
struct Reader {
    sides: [BookSide; 2],
    seq: String,
    version: (u64, u64),
    state: String,
    crossed: u64,
    deltas: u64,
}

/// Rebuilds every book from the lines alone, checking what the format promises.
fn read(lines: &[u8]) -> BTreeMap<String, Reader> {
    let mut readers: BTreeMap<String, Reader> = BTreeMap::new();
    let mut order: Option<(u64, String, u8)> = None;
    for line in std::str::from_utf8(lines).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (kind, instrument) = (line["type"].as_str().unwrap(), line["instrument"].as_str().unwrap().to_owned());
        let rank = ["snapshot", "delta", "status", "trade", "quote"].iter().position(|known| *known == kind).unwrap();
        let place = (line["frame"].as_u64().unwrap(), instrument.clone(), u8::try_from(rank).unwrap());
        assert!(order.as_ref().is_none_or(|before| *before <= place), "{place:?} after {order:?}");
        order = Some(place);
        let reader = readers.entry(instrument).or_default();
        if let Some(state) = line["state"].as_str() {
            state.clone_into(&mut reader.state);
        }
        if rank < 2 {
            reader.book(&line, kind == "snapshot");
        }
    }
    readers
}

impl Reader {
    fn book(&mut self, line: &Value, snapshot: bool) {
        self.seq = line["seq"].as_str().unwrap().to_owned();
        let version = (line["epoch"].as_u64().unwrap(), self.seq.parse().unwrap());
        assert!(version > self.version, "{version:?} after {:?}", self.version);
        self.version = version;
        self.deltas += u64::from(!snapshot);
        for (side, name) in self.sides.iter_mut().zip(["bids", "asks"]) {
            if snapshot {
                side.clear();
            }
            for row in line[name].as_array().unwrap() {
                let (price, quantity) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
                if quantity == "0" {
                    assert!(side.remove(&sortable(price)).is_some(), "{price} was removed but not there");
                } else {
                    side.insert(sortable(price), (canonical(price), canonical(quantity)));
                }
            }
        }
        let best = (self.sides[0].keys().next_back(), self.sides[1].keys().next());
        self.crossed += u64::from(matches!(best, (Some(bid), Some(ask)) if bid >= ask));
    }

    fn levels(&self) -> (Rows, Rows) {
        let [bids, asks] = &self.sides;
        (bids.values().rev().cloned().collect(), asks.values().cloned().collect())
    }
}

fn check(path: &Path, venue: Venue, right: &Reconstruction) -> ReplaySummary {
    let (one, summary) = run(path, &options(venue, 1));
    for workers in [2, 4] {
        assert!(run(path, &options(venue, workers)).0 == one, "{}: {workers} workers differ", path.display());
    }
    let readers = read(&one);
    for (symbol, book) in &right.books {
        let name = format!("{venue}/{symbol}");
        let reader = &readers[&name];
        assert_eq!(reader.levels(), (book.bids.clone(), book.asks.clone()), "{name}");
        assert_eq!(reader.crossed, 0, "{name} was crossed");
        if let Some(last) = &book.last_update_id {
            assert_eq!(&reader.seq, last, "{name}");
        }
    }
    assert_eq!(readers.values().filter(|reader| reader.version != (0, 0)).count(), right.books.len());
    assert_eq!((summary.dead_letters, summary.lanes.regressions, summary.lanes.duplicates), (0, 0, 0));
    summary
}

#[test]
fn every_binance_capture_ends_as_its_reconstruction() {
    let files = corpus::binance_spot_files();
    if files.is_empty() {
        return println!("corpus absent: skipped the Binance captures");
    }
    for path in files {
        let right = reference::binance_spot(&path).unwrap();
        let summary = check(&path, Venue::BinanceSpot, &right);
        assert_eq!(summary.lanes.applied, right.stats.applied, "{}", path.display());
        assert_eq!((summary.lanes.gaps, summary.lanes.resyncs), (0, 0));
        println!("{}: {} updates applied", path.display(), summary.lanes.applied);
    }
}

#[test]
fn every_kraken_capture_ends_as_its_reconstruction_and_all_checksums_match() {
    let files = corpus::kraken_v2_files();
    if files.is_empty() {
        return println!("corpus absent: skipped the Kraken captures");
    }
    let mut matched = Vec::new();
    for path in files {
        let right = reference::kraken_v2(&path).unwrap();
        let summary = check(&path, Venue::KrakenSpot, &right);
        let (_, feed) = summary.feeds[0];
        assert_eq!(feed.checksums_failed, 0, "{}", path.display());
        matched.push(feed.checksums_matched);
    }
    println!("checksums matched: {matched:?}");
    assert_eq!(matched, [301, 2_052, 1_129]);
}

#[test]
fn at_every_ticker_with_the_id_of_a_depth_event_the_best_prices_agree() {
    let files = corpus::binance_spot_files();
    if files.is_empty() {
        return println!("corpus absent: skipped the tickers");
    }
    let mut compared = 0;
    for path in files {
        compared += tickers(&path);
    }
    println!("tickers compared: {compared}");
    // 199 + 26 + 1,072 after events that were applied, and 3 where the snapshot itself has the event's id.
    assert_eq!(compared, 199 + 26 + 1_072 + 3);
}

/// Price and quantity of the best bid and ask, canonical.
type Best = [(String, String); 2];

fn best(quote: Quote, scale: Scale) -> Best {
    let side = |level: Option<Level>| {
        level.map_or_else(Default::default, |level| {
            (canonical(&scale.price_text(level.tick_index)), canonical(&scale.quantity_text(level.quantity)))
        })
    };
    [side(quote.bid), side(quote.ask)]
}

/// Compares every ticker that has the id of an applied depth event with the lane's quote after that event.
fn tickers(path: &Path) -> usize {
    let mut decoder = Decoder::new(Arc::new(Listings::new(Arc::default())));
    let mut told: BTreeMap<(String, u64), Best> = BTreeMap::new();
    let mut shown: BTreeMap<(String, u64), Best> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut depth_ids: BTreeSet<(String, u64)> = BTreeSet::new();
    let (mut lane, mut origin_ns, mut cut) = (None, 0, 0);
    for captured in MergedCaptures::open(&[path.to_owned()]).unwrap() {
        let captured = captured.unwrap();
        let RawPayload::Text(text) = &captured.frame.raw else { continue };
        if text.contains("@bookTicker") {
            let data: Value = serde_json::from_str(text).unwrap();
            let data = &data["data"];
            let text = |key: &str| canonical(data[key].as_str().unwrap());
            let key = (data["s"].as_str().unwrap().to_owned(), data["u"].as_u64().unwrap());
            told.insert(key, [(text("b"), text("B")), (text("a"), text("A"))]);
        }
        let ts_ns = captured.frame.ts_ns;
        let lane = lane.get_or_insert_with(|| {
            origin_ns = ts_ns;
            let clock = CutClock { origin_ns, cut_ns: 1 };
            Lane::new(LaneConfig {
                clock,
                limits: Limits::default(),
                silent_ns: u64::MAX / 2,
                silent_intervals: 0,
                admitted: false,
            })
        });
        let mut events = Vec::new();
        decoder.decode(Venue::BinanceSpot, &captured.frame, captured.position, &mut events).unwrap();
        for event in &events {
            if let market::Body::Delta(delta) = &event.body {
                let symbol = text.split("\"s\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
                names.insert(event.symbol, symbol.to_owned());
                depth_ids.insert((symbol.to_owned(), delta.sequence.last()));
            }
        }
        events.into_iter().for_each(|event| lane.take(event));
        // A cut per frame: one nanosecond long, so that it holds nothing but this frame.
        cut = (ts_ns - origin_ns).max(cut + 1);
        let mut out = LaneCut::default();
        lane.close(cut, true, &mut out, &mut Vec::new());
        for published in out.instruments {
            let (Some(version), Some(name)) = (published.version, names.get(&published.symbol)) else { continue };
            let key = (name.clone(), version.seq);
            let last =
                shown.range((name.clone(), 0)..(name.clone(), u64::MAX)).next_back().map(|(_, best)| best.clone());
            let now = published.quote.map(|quote| best(quote, published.scale)).or(last);
            shown.extend(now.map(|now| (key, now)));
        }
    }
    told.retain(|key, _| depth_ids.contains(key));
    let both: Vec<_> = told.iter().filter_map(|(key, told)| shown.get(key).map(|shown| (key, told, shown))).collect();
    for (key, told, shown) in &both {
        assert_eq!(told, shown, "{key:?}");
    }
    both.len()
}

#[test]
fn a_venue_clock_ahead_of_ours_changes_no_order_and_is_counted_apart() {
    let Some(path) = corpus::file("binance_spot/binance_spot_btcusdt_2024-08-08.frames.jsonl.zst") else {
        return println!("corpus absent: skipped the clock that is ahead");
    };
    // The recorder's clock was 1.27 s behind the venue's; the books are held against their reconstruction above.
    let (_, summary) = run(&path, &options(Venue::BinanceSpot, 1));
    println!("{} of {} updates are dated after their arrival", summary.lanes.venue_ahead, summary.lanes.applied);
    assert_eq!((summary.lanes.applied, summary.lanes.venue_ahead, summary.lanes.regressions), (6_493, 6_493, 0));
}

#[test]
fn channels_and_legs_are_filters() {
    let Some(path) = corpus::file("kraken_v2/kraken_v2_btcusd_l2.frames.jsonl.zst") else {
        return println!("corpus absent: skipped the filters");
    };
    let quotes = ReplayOptions { channels: vec![ReplayChannel::Quote], ..options(Venue::KrakenSpot, 1) };
    let (lines, _) = run(&path, &quotes);
    let lines = String::from_utf8(lines).unwrap();
    assert!(!lines.is_empty() && lines.lines().all(|line| line.contains(r#""type":"quote""#)));
    let no_leg = ReplayOptions { legs: vec!["other".to_owned()], ..options(Venue::KrakenSpot, 1) };
    assert_eq!(run(&path, &no_leg).1.lines, 0);
    let best = ReplayOptions { channels: vec![ReplayChannel::Best], ..options(Venue::KrakenSpot, 2) };
    let (lines, _) = run(&path, &best);
    let last = String::from_utf8(lines).unwrap().lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((last["instrument"].as_str(), last["bid"]["venue"].as_str()), (Some("BTC/USD"), Some("kraken_spot")));
}

#[test]
fn two_captures_at_once_are_as_good_as_each_alone() {
    let files: Vec<PathBuf> =
        corpus::binance_spot_files().into_iter().filter(|path| path.to_string_lossy().contains("2021")).collect();
    let [first, second] = files.as_slice() else { return println!("corpus absent: skipped the merge") };
    let captures = MergedCaptures::open(&[second.clone(), first.clone()]).unwrap();
    let mut out = Vec::new();
    let listings = Arc::new(Listings::new(Arc::default()));
    replay(captures, &options(Venue::BinanceSpot, 2), listings, Kept::default(), &mut out, &mut |_| {}).unwrap();
    let readers = read(&out);
    for path in [first, second] {
        for (symbol, book) in reference::binance_spot(path).unwrap().books {
            assert_eq!(readers[&format!("binance_spot/{symbol}")].levels(), (book.bids, book.asks), "{symbol}");
        }
    }
}
