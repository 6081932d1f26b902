//! Tickers of Binance that carry the id of a depth event: at that id the best prices must be theirs.
//!
//! Never: the order in which tickers and depth events arrive; the two streams are not in step.

use crate::{books::canonical, pipeline::venue_of};
use connectors::{capture::MergedCaptures, decoder::Decoder, raw::RawPayload, venue_feed::listings::Listings};
use dataflow::{
    clock::CutClock,
    cut::LaneCut,
    lane::{Lane, LaneConfig},
};
use market::{Level, Quote, Scale, Venue, guard::Limits};
use serde_json::Value;
use sprag_tests::corpus;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

fn compared(format: &str) -> Option<usize> {
    let files = corpus::captures(format);
    if files.is_empty() {
        println!("corpus absent: skipped the tickers of {format} (set {} to its directory)", corpus::VARIABLE);
        return None;
    }
    let compared = files.iter().map(|path| tickers(venue_of(format), path)).sum();
    println!("{format}: {compared} tickers compared");
    Some(compared)
}

#[test]
fn at_every_spot_ticker_with_the_id_of_a_depth_event_the_best_prices_agree() {
    if let Some(compared) = compared("binance_spot") {
        // 199 + 26 + 1,072 after events that were applied, and 3 where the snapshot itself has the event's id.
        assert_eq!(compared, 199 + 26 + 1_072 + 3);
    }
}

#[test]
fn at_every_futures_ticker_with_the_id_of_a_depth_event_the_best_prices_agree() {
    if let Some(compared) = compared("binance_usdm") {
        assert_eq!(compared, 50 + 629);
    }
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
fn tickers(venue: Venue, path: &Path) -> usize {
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
        decoder.decode(venue, &captured.frame, captured.position, &mut events).unwrap();
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
