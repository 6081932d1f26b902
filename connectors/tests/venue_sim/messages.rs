//! Faults of single messages and of connections, the same for every venue: each fires, is counted, and meets only whom it
//! means.
//!
//! Never: an assertion that depends on how fast this machine is.

use super::{
    binance,
    client::{Ws, request},
    deribit, market_of, okx, until,
};
use connectors::simulator::{Ending, Fault, FaultError, GarbageKind, Rates, VenueSim};
use futures_util::StreamExt;
use hyper::Method;
use market::Venue;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::{Error, Message};

const VENUE: Venue = Venue::Okx;

fn fired(sim: &VenueSim, name: &str) -> u64 {
    sim.faults().fired.get(name).copied().unwrap_or(0)
}

async fn okx(sim: &VenueSim) -> Ws {
    let mut ws = Ws::open(sim.address(), okx::PATH).await;
    ws.send(&okx::request("subscribe", "books", &["BTC-USDT"])).await;
    ws.next(|value| value["action"] == "snapshot").await;
    ws
}

/// The chain ids of the next updates.
async fn ids(ws: &mut Ws, count: usize) -> Vec<(u64, u64)> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let data = ws.next(|value| value["action"] == "update").await["data"][0].clone();
        ids.push((data["prevSeqId"].as_u64().unwrap(), data["seqId"].as_u64().unwrap()));
    }
    ids
}

fn chained(ids: &[(u64, u64)]) -> bool {
    ids.windows(2).all(|pair| pair[1].0 == pair[0].1)
}

#[tokio::test]
async fn updates_come_twice_or_in_another_order_to_one_connection_alone() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let (mut good, mut bad) = (okx(&sim).await, okx(&sim).await);
    let (symbol, connection) = (Some("BTC-USDT".to_owned()), Some(2));
    sim.set_fault(Fault::Duplicate { venue: VENUE, symbol: symbol.clone(), count: 3, connection }).unwrap();
    let mut seen = ids(&mut bad, 60).await;
    let twice = seen.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!((twice, fired(&sim, "duplicate")), (3, 3));
    seen.dedup();
    assert!(chained(&seen), "nothing else happened");
    sim.set_fault(Fault::Reorder { venue: VENUE, symbol, count: 2, connection }).unwrap();
    let mut seen = ids(&mut bad, 60).await;
    let back = seen.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
    assert_eq!((back, fired(&sim, "reorder")), (2, 2));
    seen.sort_unstable();
    assert!(chained(&seen), "nothing is missing");
    assert!(chained(&ids(&mut good, 120).await));
    assert!(sim.faults().faults.iter().all(|fault| !fault.active));
}

#[tokio::test]
async fn a_dropped_update_is_a_hole_at_any_venue() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = okx(&sim).await;
    let mut seen = ids(&mut ws, 1).await;
    sim.set_fault(Fault::DropDepth { venue: VENUE, symbol: "BTC-USDT".to_owned(), count: 2, connection: None })
        .unwrap();
    seen.extend(ids(&mut ws, 100).await);
    let holes = seen.windows(2).filter(|pair| pair[1].0 != pair[0].1).count();
    assert_eq!(holes, 1, "both at once");
    assert_eq!(fired(&sim, "drop_depth"), 2);
}

#[tokio::test]
async fn garbage_comes_in_place_of_updates() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = okx(&sim).await;
    for (kind, count) in [(GarbageKind::Truncated, 2), (GarbageKind::Random, 4), (GarbageKind::Binary, 6)] {
        let fault = Fault::Garbage { venue: VENUE, symbol: None, count: 2, connection: Some(1), kind, seed: 5 };
        sim.set_fault(fault).unwrap();
        let mut garbage = 0;
        while garbage < 2 {
            match ws.any().await.unwrap().unwrap() {
                Message::Text(text) => {
                    let broken = serde_json::from_str::<Value>(&text).is_err();
                    garbage += u64::from(broken);
                    let truncated = text.is_empty() || text.starts_with("{\"arg\"") || text.len() < 6;
                    assert!(!broken || truncated == (kind == GarbageKind::Truncated), "{text}");
                }
                Message::Binary(bytes) => {
                    assert_eq!((kind, bytes.len()), (GarbageKind::Binary, 64));
                    garbage += 1;
                }
                _ => {}
            }
        }
        assert_eq!(fired(&sim, "garbage"), count);
    }
    ids(&mut ws, 10).await;
}

#[tokio::test]
async fn a_delayed_leg_keeps_its_order() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = okx(&sim).await;
    let delay =
        |min_ms, max_ms| Fault::Delay { venue: VENUE, connection: Some(1), min_ms, max_ms, seed: 3, for_ms: None };
    sim.set_fault(delay(150, 150)).unwrap();
    let begun = Instant::now();
    ws.send_text("ping").await;
    while ws.text().await != "pong" {}
    assert!(begun.elapsed() >= Duration::from_millis(150));
    assert!(chained(&ids(&mut ws, 100).await));
    sim.clear_faults();
    sim.set_fault(delay(6, 9)).unwrap();
    assert!(chained(&ids(&mut ws, 200).await));
    assert!(fired(&sim, "delay") > 200);
    assert_eq!(sim.set_fault(delay(9, 6)), Err(FaultError::OutOfRange("max_ms")));
}

#[tokio::test]
async fn a_half_open_connection_is_silent_and_then_reset() {
    let sim = VenueSim::start(market_of(&[VENUE], 500)).await.unwrap();
    let (mut good, mut bad) = (okx(&sim).await, okx(&sim).await);
    sim.set_fault(Fault::HalfOpen { venue: VENUE, connection: Some(2), for_ms: 1_500 }).unwrap();
    let begun = Instant::now();
    bad.send_text("ping").await;
    let mut sent = Vec::new();
    let end = loop {
        match bad.any().await {
            Some(Ok(Message::Text(text))) => sent.push(text),
            Some(Ok(other)) => panic!("{other:?}"),
            end => break end,
        }
    };
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "it stayed open");
    assert!(sent.iter().all(|text| *text != "pong"), "nothing was read");
    assert!(matches!(end, Some(Err(Error::Io(error))) if error.kind() == std::io::ErrorKind::ConnectionReset));
    assert_eq!(fired(&sim, "half_open"), 1);
    until("it is gone", || sim.state().connections.len() == 1).await;
    ids(&mut good, 10).await;
}

#[tokio::test]
async fn a_reset_is_one_and_an_end_without_a_word_is_none() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    for (number, ending) in [(1, Ending::Reset), (2, Ending::Abort)] {
        let mut ws = okx(&sim).await;
        sim.set_fault(Fault::Disconnect { venue: VENUE, connection: Some(number), ending }).unwrap();
        let end = ws.any().await;
        let reset = matches!(&end, Some(Err(Error::Io(error))) if error.kind() == std::io::ErrorKind::ConnectionReset);
        assert_eq!(reset, ending == Ending::Reset, "{end:?}");
    }
    for (number, ending, code) in [(3, Ending::Normal, 1000), (4, Ending::GoingAway, 1001)] {
        let mut ws = okx(&sim).await;
        sim.set_fault(Fault::Disconnect { venue: VENUE, connection: Some(number), ending }).unwrap();
        assert_eq!(ws.end().await, Some(code));
    }
    assert_eq!(fired(&sim, "disconnect"), 4);
}

#[tokio::test]
async fn a_silenced_symbol_and_a_refused_connection_are_as_everywhere() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = okx(&sim).await;
    ws.send(&okx::request("subscribe", "books", &["ETH-USDT"])).await;
    let symbol = Some("BTC-USDT".to_owned());
    sim.set_fault(Fault::Silence { venue: VENUE, connection: Some(1), symbol, for_ms: None }).unwrap();
    until("some are silenced", || fired(&sim, "silence") > 50).await;
    let before = sim.faults().faults[0].fired;
    let symbol_of = |value: &Value| value["arg"]["instId"].as_str().unwrap_or_default().to_owned();
    // What was on its way before comes first.
    let mut last = String::new();
    for _ in 0..200 {
        last = symbol_of(&ws.next(|value| value["action"].is_string()).await);
    }
    assert_eq!(last, "ETH-USDT");
    assert!(sim.faults().faults[0].fired >= before);
    sim.set_fault(Fault::RefuseConnections { venue: VENUE, for_ms: 60_000 }).unwrap();
    assert!(matches!(Ws::try_open(sim.address(), okx::PATH).await, Err(Error::Http(_))));
    sim.clear_faults();
    // The hole is seen.
    let next = ws.next(|value| value["action"] == "update" && symbol_of(value) == "BTC-USDT").await;
    assert!(next["data"][0]["seqId"].is_u64());
}

#[tokio::test]
async fn an_oversized_text_is_sent_once() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    let (mut ws, mut other) = (okx(&sim).await, okx(&sim).await);
    sim.set_fault(Fault::Oversized { venue: VENUE, connection: Some(1) }).unwrap();
    // The frame is beyond what a plain client takes.
    assert!(matches!(ws.any().await, Some(Err(Error::Capacity(_)))));
    other.send_text("ping").await;
    assert_eq!(other.text().await, "pong");
    assert_eq!(fired(&sim, "oversized"), 1);
}

#[tokio::test]
async fn chaos_meets_every_venue_and_counts_each_kind() {
    let venues = [Venue::BinanceSpot, Venue::KrakenSpot, Venue::Okx, Venue::Deribit];
    let sim = VenueSim::start(market_of(&venues, 4_000)).await.unwrap();
    let path = "/binance_spot/stream?streams=btcusdt@depth/ethusdt@depth";
    let mut kraken = Ws::open(sim.address(), "/kraken_spot/v2").await;
    kraken.send(&super::kraken::subscribe("book", &["BTC/USDT", "ETH/USDT"], 25)).await;
    let mut deribit = Ws::open(sim.address(), deribit::PATH).await;
    deribit.send(&deribit::call("public/subscribe", &["book.BTC_USDT.raw", "book.ETH_USDT.raw"])).await;
    let mut all = [Ws::open(sim.address(), path).await, kraken, okx(&sim).await, deribit];
    let per_10000 = Rates { drop: 500, duplicate: 500, reorder: 500, garbage: 500, reset: 0 };
    for venue in venues {
        sim.set_fault(Fault::Chaos { venue, connection: None, seed: 11, per_10000, for_ms: None }).unwrap();
    }
    for ws in &mut all {
        for _ in 0..300 {
            ws.any().await.unwrap().unwrap();
        }
    }
    sim.pause();
    let kinds = ["chaos_drop", "chaos_duplicate", "chaos_reorder", "chaos_garbage"].map(|name| fired(&sim, name));
    assert!(kinds.iter().all(|count| *count > 10), "{kinds:?}");
    assert_eq!(fired(&sim, "chaos"), kinds.iter().sum::<u64>());
    assert!(sim.faults().faults.iter().all(|fault| fault.fired > 10 && fault.active));
    sim.clear_faults();
    let reset = Rates { reset: 10_000, ..Rates::default() };
    sim.set_fault(Fault::Chaos { venue: VENUE, connection: None, seed: 1, per_10000: reset, for_ms: None }).unwrap();
    sim.resume();
    while all[2].any().await.is_some_and(|message| message.is_ok()) {}
    assert_eq!(fired(&sim, "chaos_reset"), 1);
}

#[tokio::test]
async fn a_duplicate_at_binance_is_the_same_event_again() {
    let sim = VenueSim::start(market_of(&[binance::VENUE], 1_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/binance_spot/ws/btcusdt@depth/btcusdt@bookTicker").await;
    sim.set_fault(Fault::Duplicate { venue: binance::VENUE, symbol: None, count: 1, connection: None }).unwrap();
    let mut last = ws.next(|value| value["e"] == "depthUpdate").await;
    loop {
        let next = ws.next(|value| value["e"] == "depthUpdate").await;
        if next == last {
            break;
        }
        last = next;
    }
    assert_eq!(fired(&sim, "duplicate"), 1);
}

#[tokio::test]
async fn an_old_kraken_snapshot_is_healed_by_another() {
    let sim = VenueSim::start(market_of(&[Venue::KrakenSpot], 1_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    until("some updates are known", || sim.state().position > 300).await;
    let symbol = "BTC/USDT".to_owned();
    let fault = Fault::StaleSnapshots { venue: Venue::KrakenSpot, symbol, count: 1, updates_ago: Some(30) };
    sim.set_fault(fault).unwrap();
    ws.send(&super::kraken::subscribe("book", &["BTC/USDT"], 10)).await;
    let mut local = super::kraken::Local::new(10);
    while local.failed == 0 {
        local.take(&ws.text().await);
    }
    assert_eq!((local.snapshots, local.matched > 0), (1, true), "the old snapshot is right in itself");
    assert_eq!(fired(&sim, "stale_snapshots"), 1);
}

#[tokio::test]
async fn every_fault_can_be_set_as_json() {
    let sim = VenueSim::start(market_of(&[VENUE, Venue::KrakenSpot, Venue::BinanceSpot], 0)).await.unwrap();
    let mut ws = okx(&sim).await;
    let faults = [
        json!({"fault": "disconnect", "venue": "okx", "connection": 9, "ending": "reset"}),
        json!({"fault": "drop_depth", "venue": "okx", "symbol": "BTC-USDT", "count": 1, "connection": 1}),
        json!({"fault": "duplicate", "venue": "okx", "symbol": "BTC-USDT", "count": 1, "connection": 1}),
        json!({"fault": "reorder", "venue": "okx"}),
        json!({"fault": "garbage", "venue": "okx", "kind": "binary", "seed": 3}),
        json!({"fault": "delay", "venue": "okx", "connection": 1}),
        json!({"fault": "half_open", "venue": "okx", "connection": 9, "for_ms": 100}),
        json!({"fault": "oversized", "venue": "okx", "connection": 9}),
        json!({"fault": "silence", "venue": "okx", "symbol": "BTC-USDT", "for_ms": 10}),
        json!({"fault": "ping_flood", "venue": "okx", "every_ms": 10, "for_ms": 20}),
        json!({"fault": "stale_snapshots", "venue": "okx", "symbol": "BTC-USDT", "updates_ago": 5}),
        json!({"fault": "stale_snapshots", "symbol": "BTCUSDT"}),
        json!({"fault": "reset_ids", "venue": "okx", "symbol": "BTC-USDT", "next_id": 5}),
        json!({"fault": "corrupt_checksum", "symbol": "BTC/USDT"}),
        json!({"fault": "corrupt_checksum", "venue": "okx", "symbol": "BTC-USDT"}),
        json!({"fault": "chaos", "venue": "okx", "seed": 1, "per_10000": {"drop": 1, "duplicate": 2}, "for_ms": 50}),
    ];
    for fault in &faults {
        let answer = request(Method::POST, sim.address(), "/sim/faults", &fault.to_string()).await;
        assert_eq!(answer.status, 200, "{fault} {}", answer.body);
    }
    let told = super::client::get(sim.address(), "/sim/faults").await.body;
    let named: Vec<&Value> = told["faults"].as_array().unwrap().iter().map(|fault| &fault["fault"]).collect();
    assert_eq!(named, faults.iter().map(|fault| &fault["fault"]).collect::<Vec<_>>());
    let delay = &told["faults"][5];
    assert_eq!((&delay["min_ms"], &delay["max_ms"]), (&json!(6), &json!(9)));
    for wrong in [
        json!({"fault": "reset_ids", "venue": "kraken_spot", "symbol": "BTC/USDT", "next_id": 5}),
        json!({"fault": "chaos", "venue": "okx", "per_10000": {"drop": 10_001}}),
        json!({"fault": "corrupt_checksum", "venue": "binance_spot", "symbol": "BTCUSDT"}),
        json!({"fault": "duplicate", "venue": "deribit"}),
        json!({"fault": "duplicate", "venue": "okx", "symbol": "NO-NE"}),
    ] {
        let answer = request(Method::POST, sim.address(), "/sim/faults", &wrong.to_string()).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
    sim.clear_faults();
    ws.send_text("ping").await;
    while ws.0.next().await.unwrap().unwrap() != Message::text("pong") {}
}
