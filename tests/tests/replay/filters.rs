//! What `replay` is asked for: legs, channels, several captures at once; and a venue clock that is ahead.
//!
//! Never: a book compared only with another replay.

use crate::{
    books::read,
    pipeline::{options, run},
};
use connectors::{capture::MergedCaptures, venue_feed::listings::Listings};
use market::Venue;
use serde_json::Value;
use server::replay::{Kept, ReplayChannel, ReplayOptions, replay};
use sprag_tests::{corpus, reference};
use std::{path::PathBuf, sync::Arc};

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
        corpus::captures("binance_spot").into_iter().filter(|path| path.to_string_lossy().contains("2021")).collect();
    let [first, second] = files.as_slice() else { return println!("corpus absent: skipped the merge") };
    let captures = MergedCaptures::open(&[second.clone(), first.clone()]).unwrap();
    let mut out = Vec::new();
    let listings = Arc::new(Listings::new(Arc::default()));
    replay(captures, &options(Venue::BinanceSpot, 2), listings, Kept::default(), &mut out, &mut |_| {}).unwrap();
    let readers = read(&out);
    for path in [first, second] {
        for (symbol, book) in reference::rebuild("binance_spot", path).unwrap().books {
            assert_eq!(readers[&format!("binance_spot/{symbol}")].levels(), (book.bids, book.asks), "{symbol}");
        }
    }
}
