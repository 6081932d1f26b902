//! Captures: passed on byte for byte, with REST and new subscriptions answered at the served position.
//!
//! Never: a reconstruction by anything but the venues' published rules.

use super::{LONG, binance::Locals, client::Ws, corpus, kraken, until};
use connectors::{
    capture::MergedCaptures,
    raw::{RawFrame, RawKind, RawPayload},
    simulator::{VenueSim, VenueSimOptions, VenueSimSource},
};
use futures_util::StreamExt;
use market::Venue;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio_tungstenite::tungstenite::Message;

/// A capture at the connections' own speed, once somebody listens.
pub(super) fn capture(file: PathBuf, venue: Venue, subscribers: usize) -> VenueSimOptions {
    let source = VenueSimSource::Captures { files: vec![file], venue, legs: Vec::new(), speed: 0.0, repeat: false };
    VenueSimOptions { wait_for_subscribers: subscribers, ..VenueSimOptions::new(source) }
}

pub(super) fn frames(file: &Path) -> Vec<RawFrame> {
    MergedCaptures::open(&[file.to_owned()]).unwrap().map(|frame| frame.unwrap().frame).collect()
}

pub(super) fn text(frame: &RawFrame) -> &str {
    match &frame.raw {
        RawPayload::Text(text) => text,
        RawPayload::Binary(_) => panic!("text only"),
    }
}

/// The recorded messages of some streams.
fn recorded(frames: &[RawFrame], holds: impl Fn(&Value) -> bool) -> Vec<String> {
    let messages = frames.iter().filter(|frame| frame.kind == RawKind::Ws).map(text);
    messages.filter(|text| holds(&serde_json::from_str(text).unwrap())).map(str::to_owned).collect()
}

/// Binance: every symbol of a capture by the venue's rules, from its own REST replies.
async fn binance_capture(rel: &str, symbols: &[&str]) {
    let Some(file) = corpus(rel) else { return };
    let frames = frames(&file);
    let sim = VenueSim::start(capture(file, Venue::BinanceSpot, 1)).await.unwrap();
    let streams: Vec<String> = symbols
        .iter()
        .flat_map(|symbol| ["depth@100ms", "bookTicker"].map(|kind| format!("{}@{kind}", symbol.to_lowercase())))
        .collect();
    let is_wanted = |value: &Value| streams.iter().any(|stream| value["stream"] == *stream);
    let expected = recorded(&frames, is_wanted);
    assert!(expected.len() > 20, "{}", expected.len());

    let mut ws = Ws::open(sim.address(), &format!("/binance_spot/stream?streams={}", streams.join("/"))).await;
    let mut locals = Locals::default();
    for (place, expected) in expected.iter().enumerate() {
        let text = ws.text().await;
        assert_eq!(text, *expected, "message {place}, byte for byte");
        locals.take(&text);
        if place == expected.len() / 40 {
            // Somewhere on the way: REST is at the served position, or ahead of what was read.
            for symbol in symbols {
                locals.fetch(sim.address(), symbol).await;
            }
        }
    }
    assert!(symbols.iter().all(|symbol| locals.0[*symbol].last.is_some()), "all were fetched");
    until("the capture ends", || sim.state().ended).await;
    locals.assert_are(&sim);
    assert_eq!(sim.state().unread, 0);

    // The same from the file alone.
    let mut alone = Locals::default();
    for frame in &frames {
        match frame.kind {
            RawKind::Ws => alone.take(text(frame)),
            RawKind::Http => {
                let query = frame.url.as_deref().and_then(|url| url.split_once("symbol=")).map(|(_, rest)| rest);
                let symbol = query.map_or(symbols[0], |rest| rest.split('&').next().unwrap());
                let local = alone.0.entry(symbol.to_owned()).or_default();
                if local.last.is_none() {
                    local.snapshot(&serde_json::from_str(text(frame)).unwrap());
                }
            }
            _ => {}
        }
    }
    for symbol in symbols {
        let (served, alone) = (&locals.0[*symbol], &alone.0[*symbol]);
        assert_eq!((served.gaps, alone.gaps), (0, 0), "{symbol}");
        assert_eq!(served.last, alone.last, "{symbol}");
        assert_eq!(served.book, alone.book, "{symbol}");
    }
}

#[tokio::test]
async fn binance_2021_04_is_passed_on_and_rest_fits() {
    binance_capture("binance_spot/binance_spot_2021-04.frames.jsonl.zst", &["BUSDTRY", "SWRVBUSD", "VETETH"]).await;
}

#[tokio::test]
async fn binance_2021_10_is_passed_on_and_rest_fits() {
    binance_capture("binance_spot/binance_spot_2021-10.frames.jsonl.zst", &["NKNUSDT", "LRCBTC", "RUNEEUR"]).await;
}

#[tokio::test]
async fn binance_2024_is_passed_on_and_rest_fits() {
    binance_capture("binance_spot/binance_spot_btcusdt_2024-08-08.frames.jsonl.zst", &["BTCUSDT"]).await;
}

/// Kraken: a client at the recorded depth gets the recorded messages; others get their own view.
async fn kraken_capture(rel: &str, symbol: &str, depth: usize, others: &[usize]) {
    let Some(file) = corpus(rel) else { return };
    let frames = frames(&file);
    let expected = recorded(&frames, |value| value["channel"] == "book");
    let sim = VenueSim::start(capture(file, Venue::KrakenSpot, others.len() + 1)).await.unwrap();
    let mut same = Ws::open(sim.address(), "/kraken_spot/v2").await;
    let mut clients = Vec::new();
    for other in others {
        let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
        ws.send(&kraken::subscribe("book", &[symbol], *other)).await;
        clients.push((ws, kraken::Local::new(*other)));
    }
    same.send(&kraken::subscribe("book", &[symbol], depth)).await;
    let mut local = kraken::Local::new(depth);
    for (place, expected) in expected.iter().enumerate() {
        let book = loop {
            let text = same.text().await;
            if text.contains("\"channel\":\"book\",\"type\"") {
                break text;
            }
        };
        assert_eq!(book, *expected, "message {place}, byte for byte");
        local.take(&book);
    }
    until("the capture ends", || sim.state().ended).await;
    assert_eq!((local.failed, u64::try_from(expected.len()).unwrap()), (0, local.matched));
    let reference = super::reference(&sim, Venue::KrakenSpot, symbol);
    local.books[symbol].assert_is(&reference, depth);
    for (ws, local) in &mut clients {
        kraken::drain(ws, local, 5).await;
        assert_eq!(local.failed, 0, "depth {}", local.depth);
        assert!(local.matched > 50, "depth {}", local.depth);
        local.books[symbol].assert_is(&reference, local.depth);
    }
    // A new subscription at the end gets the book as it is now.
    let mut late = Ws::open(sim.address(), "/kraken_spot/v2").await;
    late.send(&kraken::subscribe("book", &[symbol], 10)).await;
    let mut now = kraken::Local::new(10);
    kraken::drain(&mut late, &mut now, 6).await;
    assert_eq!((now.snapshots, now.matched), (1, 1));
    now.books[symbol].assert_is(&reference, 10);
    assert_eq!(sim.state().checksums_differing, 0);
}

#[tokio::test]
async fn kraken_btcusd_ten_deep_is_passed_on_and_seen_at_other_depths() {
    kraken_capture("kraken_v2/kraken_v2_btcusd_l2.frames.jsonl.zst", "BTC/USD", 10, &[25, 1_000]).await;
}

#[tokio::test]
async fn kraken_btcusd_is_passed_on_and_seen_at_other_depths() {
    kraken_capture("kraken_v2/kraken_v2_btcusd_sample.frames.jsonl.zst", "BTC/USD", 25, &[10, 100]).await;
}

#[tokio::test]
async fn kraken_ethusd_is_passed_on_and_seen_at_other_depths() {
    kraken_capture("kraken_v2/kraken_v2_ethusd_sample.frames.jsonl.zst", "ETH/USD", 25, &[10, 500]).await;
}

/// A capture of our own.
pub(super) fn written(lines: &[Value]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(file.path(), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
    file
}

fn depth(ts_ns: u64, conn: &str, first: u64, last: u64, price: &str, quantity: &str) -> Value {
    let raw = serde_json::json!({"stream": "aaausdt@depth@100ms", "data": {
        "e": "depthUpdate", "E": 1, "s": "AAAUSDT", "U": first, "u": last, "b": [[price, quantity]], "a": []}});
    serde_json::json!({"ts_ns": ts_ns, "kind": "ws", "conn": conn, "raw": raw.to_string()})
}

fn rest(ts_ns: u64, last: u64, price: &str) -> Value {
    let raw = serde_json::json!({"lastUpdateId": last, "bids": [[price, "1.00"]], "asks": [["9.00", "1.00"]]});
    let url = "https://api.binance.com/api/v3/depth?symbol=AAAUSDT&limit=1000";
    serde_json::json!({"ts_ns": ts_ns, "kind": "http", "conn": "r", "url": url, "raw": raw.to_string()})
}

#[tokio::test]
async fn a_hole_in_a_capture_is_healed_by_its_next_snapshot() {
    let file = written(&[
        depth(1, "a", 10, 11, "5.00", "7.00"),
        rest(2, 12, "5.00"),
        depth(3, "a", 12, 14, "4.00", "2.00"),
        // 15 to 19 were lost; two updates wait.
        depth(4, "a", 20, 21, "3.00", "2.00"),
        depth(5, "a", 22, 23, "2.00", "2.00"),
        rest(6, 21, "8.00"),
        depth(7, "a", 24, 24, "1.00", "2.00"),
    ]);
    let sim = VenueSim::start(capture(file.path().to_owned(), Venue::BinanceSpot, 0)).await.unwrap();
    until("the capture ends", || sim.state().ended).await;
    let reference = super::reference(&sim, Venue::BinanceSpot, "AAAUSDT");
    let prices: Vec<&str> = reference.bids.iter().map(|(price, _)| price.as_str()).collect();
    assert_eq!((prices.as_slice(), reference.last_update_id), (&["8.00", "2.00", "1.00"][..], Some(24)));
}

#[tokio::test]
async fn one_leg_of_a_capture_can_be_served_alone_and_at_its_own_pace() {
    const MS: u64 = 1_000_000;
    let file = written(&[
        rest(0, 9, "5.00"),
        depth(MS, "a", 10, 10, "5.00", "7.00"),
        depth(2 * MS, "b", 10, 10, "5.00", "7.00"),
        depth(300 * MS, "a", 11, 11, "5.00", "8.00"),
    ]);
    let source = VenueSimSource::Captures {
        files: vec![file.path().to_owned()],
        venue: Venue::BinanceSpot,
        legs: vec!["a".to_owned()],
        speed: 2.0,
        repeat: false,
    };
    let sim =
        VenueSim::start(VenueSimOptions { wait_for_subscribers: 1, ..VenueSimOptions::new(source) }).await.unwrap();
    let begun = std::time::Instant::now();
    let mut ws = Ws::open(sim.address(), "/binance_spot/ws/aaausdt@depth").await;
    let ids = [ws.next(|_| true).await["u"].clone(), ws.next(|_| true).await["u"].clone()];
    assert_eq!(ids, [10, 11]);
    assert!(begun.elapsed() >= std::time::Duration::from_millis(140), "half of 299 ms");
    until("the capture ends", || sim.state().ended).await;
    assert_eq!(sim.state().position, 3);
}

#[tokio::test]
async fn a_repeated_capture_is_a_venue_that_restarts() {
    let file = written(&[rest(1, 9, "5.00"), depth(2, "a", 10, 10, "5.00", "7.00")]);
    let mut options = capture(file.path().to_owned(), Venue::BinanceSpot, 1);
    if let VenueSimSource::Captures { repeat, .. } = &mut options.source {
        *repeat = true;
    }
    let sim = VenueSim::start(options).await.unwrap();
    for round in 0..3 {
        let mut ws = Ws::open(sim.address(), "/binance_spot/ws/aaausdt@depth@100ms").await;
        assert_eq!(ws.next(|_| true).await["u"], 10, "round {round}");
        assert_eq!(ws.end().await, Some(1001));
        until("the next round waits", || sim.state().round == round + 1 && !sim.state().started).await;
        assert_eq!(super::reference(&sim, Venue::BinanceSpot, "AAAUSDT").last_update_id, Some(9));
    }
}

#[tokio::test]
async fn what_cannot_be_served_is_said_at_the_start() {
    let file = written(&[]);
    let empty = VenueSim::start(capture(file.path().to_owned(), Venue::BinanceSpot, 0)).await;
    assert_eq!(empty.err().unwrap().to_string(), "there is nothing to serve");
    let unspoken = VenueSim::start(capture(file.path().to_owned(), Venue::DydxV3, 0)).await;
    assert!(unspoken.err().unwrap().to_string().ends_with("the protocol of dydx_v3"));
    let missing = VenueSim::start(capture("/nowhere/at/all".into(), Venue::BinanceSpot, 0)).await;
    assert!(missing.err().unwrap().to_string().starts_with("capture /nowhere/at/all"));
    let mut beyond = super::market(0);
    beyond.address = "0.0.0.0:0".parse().unwrap();
    assert!(VenueSim::start(beyond).await.err().unwrap().to_string().contains("not loopback"));
}

#[tokio::test]
async fn a_server_that_stops_closes_its_connections() {
    let sim = VenueSim::start(super::market(0)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    let address = sim.address();
    let (_, end) = tokio::time::timeout(LONG, async { tokio::join!(sim.stop(), ws.end()) }).await.unwrap();
    assert_eq!(end, Some(1001));
    assert!(Ws::try_open(address, "/kraken_spot/v2").await.is_err());
    assert!(!matches!(ws.0.next().await, Some(Ok(Message::Text(_)))));
}
