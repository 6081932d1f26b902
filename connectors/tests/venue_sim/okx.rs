//! OKX's rules: the chain of `seqId`, keepalives, checksums of old captures, its instrument list.
//!
//! Never: a book message whose chain or checksum is not looked at.

use super::{
    captures::{capture, frames, text, written},
    client::{Book, Ws, get},
    corpus, market_of, reference, until,
};
use connectors::{
    raw::RawKind,
    simulator::{Fault, VenueSim},
};
use market::Venue;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write, time::Duration};

pub(super) const VENUE: Venue = Venue::Okx;
pub(super) const PATH: &str = "/okx/ws/v5/public";

pub(super) fn request(op: &str, channel: &str, symbols: &[&str]) -> Value {
    let args: Vec<Value> = symbols.iter().map(|symbol| json!({"channel": channel, "instId": symbol})).collect();
    json!({"id": "7", "op": op, "args": args})
}

/// One book.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) book: Book,
    pub(super) last: i64,
    pub(super) snapshots: u64,
    pub(super) updates: u64,
    pub(super) gaps: u64,
    pub(super) keepalives: u64,
    pub(super) matched: u64,
    pub(super) failed: u64,
}

impl Local {
    pub(super) fn take(&mut self, message: &Value) {
        let data = &message["data"][0];
        if message["action"] == "snapshot" {
            self.book = Book::default();
            self.snapshots += 1;
            assert!(data["prevSeqId"].is_null() || data["prevSeqId"] == -1);
        } else {
            self.updates += 1;
            if let Some(previous) = data["prevSeqId"].as_i64() {
                self.gaps += u64::from(previous != self.last);
                self.keepalives += u64::from(data["seqId"] == previous);
            }
        }
        self.last = data["seqId"].as_i64().unwrap_or(0);
        for (bid, side) in [(true, &data["bids"]), (false, &data["asks"])] {
            for level in side.as_array().unwrap() {
                self.book.set(bid, level[0].as_str().unwrap(), level[1].as_str().unwrap());
            }
        }
        match data["checksum"].as_i64().unwrap() {
            0 => {}
            sum if sum == self.checksum() => self.matched += 1,
            _ => self.failed += 1,
        }
    }

    fn checksum(&self) -> i64 {
        let (bids, asks) = (self.book.bids(), self.book.asks());
        let mut text = String::new();
        for rank in 0..25 {
            for (price, quantity) in [bids.get(rank), asks.get(rank)].into_iter().flatten() {
                write!(text, "{price}:{quantity}:").unwrap();
            }
        }
        i64::from(crc32fast::hash(text.trim_end_matches(':').as_bytes()).cast_signed())
    }
}

/// The books of a connection.
#[derive(Default)]
pub(super) struct Locals(pub(super) BTreeMap<String, Local>);

impl Locals {
    pub(super) fn take(&mut self, text: &str) {
        let message: Value = serde_json::from_str(text).unwrap();
        if message["action"].is_string() {
            self.0.entry(message["arg"]["instId"].as_str().unwrap().to_owned()).or_default().take(&message);
        }
    }

    /// Reads until every book is where the paused server's is.
    pub(super) async fn catch_up(&mut self, ws: &mut Ws, sim: &VenueSim) {
        let behind = |locals: &Self| {
            locals
                .0
                .iter()
                .any(|(symbol, local)| u64::try_from(local.last).ok() < reference(sim, VENUE, symbol).last_update_id)
        };
        while behind(self) {
            self.take(&ws.text().await);
        }
    }
}

#[tokio::test]
async fn the_chain_leads_to_the_venues_book() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send(&request("subscribe", "books", &["BTC-USDT", "NO-NE", "ETH-USDT"])).await;
    ws.send(&request("subscribe", "trades", &["BTC-USDT"])).await;
    let ack = ws.next(|value| value["event"] == "subscribe").await;
    assert_eq!((&ack["id"], &ack["arg"]), (&json!("7"), &json!({"channel": "books", "instId": "BTC-USDT"})));
    let mut locals = Locals::default();
    let (mut errors, mut trades) = (Vec::new(), Vec::new());
    while locals.0.len() < 2 || locals.0.values().any(|local| local.updates < 150) || trades.len() < 5 {
        let text = ws.text().await;
        let value: Value = serde_json::from_str(&text).unwrap();
        if value["event"] == "error" {
            errors.push(value);
        } else if value["arg"]["channel"] == "trades" && value["data"].is_array() {
            trades.push(value["data"][0]["tradeId"].as_str().unwrap().parse::<u64>().unwrap());
        } else {
            locals.take(&text);
        }
    }
    assert_eq!(errors.iter().map(|error| &error["code"]).collect::<Vec<_>>(), ["60018"]);
    assert!(trades.windows(2).all(|pair| pair[1] == pair[0] + 1), "{trades:?}");
    sim.pause();
    locals.catch_up(&mut ws, &sim).await;
    for (symbol, local) in &locals.0 {
        local.book.assert_is(&reference(&sim, VENUE, symbol), usize::MAX);
        assert_eq!((local.snapshots, local.gaps, local.keepalives, local.matched + local.failed), (1, 0, 0, 0));
    }
    assert_eq!(
        sim.state().connections[0].subscriptions,
        ["books:BTC-USDT", "trades:BTC-USDT", "books:ETH-USDT"],
        "exactly these"
    );
    ws.send(&request("unsubscribe", "books", &["BTC-USDT"])).await;
    ws.next(|value| value["event"] == "unsubscribe").await;
    assert_eq!(sim.state().connections[0].subscriptions.len(), 2);
}

#[tokio::test]
async fn pings_bad_requests_and_the_instrument_list_are_answered() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send_text("ping").await;
    assert_eq!(ws.text().await, "pong");
    ws.send_text("{").await;
    assert_eq!(ws.next(|_| true).await["code"], "60012");
    let list = async |query: &str| get(sim.address(), &format!("/okx/api/v5/public/instruments{query}")).await;
    let spot = list("?instType=SPOT").await.body;
    assert_eq!((&spot["code"], spot["data"].as_array().unwrap().len()), (&json!("0"), 4));
    let bitcoin = &spot["data"][0];
    assert_eq!((&bitcoin["baseCcy"], &bitcoin["quoteCcy"]), (&json!("BTC"), &json!("USDT")));
    assert_eq!((&bitcoin["instId"], &bitcoin["tickSz"]), (&json!("BTC-USDT"), &json!("0.01")));
    assert_eq!(list("?instType=SWAP").await.body["data"], json!([]));
    let without = list("").await;
    assert_eq!((without.status, &without.body["code"]), (400, &json!("50014")));
    sim.set_fault(Fault::FailRest { venue: VENUE, count: 1, status: 429, retry_after_s: Some(2) }).unwrap();
    let failed = list("?instType=SPOT").await;
    assert_eq!((failed.status, &failed.headers["retry-after"]), (429, &"2".parse().unwrap()));
    assert_eq!(list("?instType=SPOT").await.status, 200);
}

#[tokio::test]
async fn a_book_that_stands_still_is_kept_alive() {
    let mut options = market_of(&[VENUE], 0);
    options.idle_interval = Duration::from_millis(60);
    let sim = VenueSim::start(options).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send(&request("subscribe", "books", &["BTC-USDT"])).await;
    let mut locals = Locals::default();
    while locals.0.get("BTC-USDT").is_none_or(|local| local.keepalives < 3) {
        locals.take(&ws.text().await);
    }
    assert_eq!(locals.0["BTC-USDT"].gaps, 0);
    locals.0["BTC-USDT"].book.assert_is(&reference(&sim, VENUE, "BTC-USDT"), usize::MAX);
}

#[tokio::test]
async fn ids_that_are_reset_go_back_and_still_chain() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send(&request("subscribe", "books", &["BTC-USDT"])).await;
    let mut locals = Locals::default();
    locals.take(&ws.text().await);
    sim.set_fault(Fault::ResetIds { venue: VENUE, symbol: "BTC-USDT".to_owned(), next_id: 1_000 }).unwrap();
    while locals.0.get("BTC-USDT").is_none_or(|local| local.last != 1_000) {
        locals.take(&ws.text().await);
    }
    let before = locals.0["BTC-USDT"].updates;
    while locals.0["BTC-USDT"].updates < before + 20 {
        locals.take(&ws.text().await);
    }
    assert_eq!(locals.0["BTC-USDT"].gaps, 0);
    assert!((1_000..1_000_000).contains(&locals.0["BTC-USDT"].last));
    sim.pause();
    locals.catch_up(&mut ws, &sim).await;
    locals.0["BTC-USDT"].book.assert_is(&reference(&sim, VENUE, "BTC-USDT"), usize::MAX);
    assert_eq!(sim.faults().fired["reset_ids"], 1);
}

#[tokio::test]
async fn an_old_snapshot_does_not_fit_the_stream() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let symbol = "BTC-USDT".to_owned();
    let mut ids = Vec::new();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send(&request("subscribe", "books", &["BTC-USDT"])).await;
    while ids.len() < 40 {
        let message = ws.next(|value| value["action"].is_string()).await;
        ids.push(message["data"][0]["seqId"].as_u64().unwrap());
    }
    sim.pause();
    let now = reference(&sim, VENUE, "BTC-USDT").last_update_id.unwrap();
    while *ids.last().unwrap() < now {
        let message = ws.next(|value| value["action"].is_string()).await;
        ids.push(message["data"][0]["seqId"].as_u64().unwrap());
    }
    sim.set_fault(Fault::StaleSnapshots { venue: VENUE, symbol, count: 1, updates_ago: Some(20) }).unwrap();
    let mut late = Ws::open(sim.address(), PATH).await;
    let mut locals = Locals::default();
    late.send(&request("subscribe", "books", &["BTC-USDT"])).await;
    while locals.0.is_empty() {
        locals.take(&late.text().await);
    }
    let expected = i64::try_from(ids[ids.len() - 21]).unwrap();
    assert_eq!(locals.0["BTC-USDT"].last, expected, "twenty updates before the last");
    sim.resume();
    while locals.0["BTC-USDT"].updates < 5 {
        locals.take(&late.text().await);
    }
    assert_eq!((locals.0["BTC-USDT"].gaps, sim.faults().fired["stale_snapshots"]), (1, 1));
    // Another subscription heals it.
    late.send(&request("subscribe", "books", &["BTC-USDT"])).await;
    while locals.0["BTC-USDT"].snapshots < 2 {
        locals.take(&late.text().await);
    }
    sim.pause();
    locals.catch_up(&mut late, &sim).await;
    locals.0["BTC-USDT"].book.assert_is(&reference(&sim, VENUE, "BTC-USDT"), usize::MAX);
}

/// A capture is passed on as it is, also to those who name the channel otherwise.
async fn okx_capture(rel: &str, leg: &str, symbols: &[&str]) {
    let Some(file) = corpus(rel) else { return };
    let recorded: Vec<String> = frames(&file)
        .iter()
        .filter(|frame| frame.kind == RawKind::Ws && &*frame.conn == leg && text(frame).contains("\"action\""))
        .map(text)
        .filter(|text| symbols.iter().any(|symbol| text.contains(&format!("\"instId\":\"{symbol}\"}}"))))
        .map(str::to_owned)
        .collect();
    assert!(recorded.len() > 100, "{}", recorded.len());
    let mut options = capture(file, VENUE, 2);
    if let connectors::simulator::VenueSimSource::Captures { legs, .. } = &mut options.source {
        legs.push(leg.to_owned());
    }
    let sim = VenueSim::start(options).await.unwrap();
    let [mut same, mut other] = [Ws::open(sim.address(), PATH).await, Ws::open(sim.address(), PATH).await];
    other.send(&request("subscribe", "books", symbols)).await;
    same.send(&request("subscribe", "books-l2-tbt", symbols)).await;
    let symbol = symbols[0].to_owned();
    sim.set_fault(Fault::CorruptChecksum { venue: VENUE, symbol, count: 3, connection: Some(2) }).unwrap();
    let (mut locals, mut renamed) = (Locals::default(), Locals::default());
    for (ws, locals, channel) in [(&mut same, &mut locals, "books-l2-tbt"), (&mut other, &mut renamed, "books")] {
        for (place, recorded) in recorded.iter().enumerate() {
            let message = loop {
                let text = ws.text().await;
                if text.contains("\"action\"") {
                    break text;
                }
            };
            locals.take(&message);
            let expected = recorded.replacen("books-l2-tbt", channel, 1);
            let sum = |text: &str| text.split("\"checksum\":").nth(1).unwrap().len();
            assert!(message == expected || message.len().abs_diff(expected.len()) < 2 + sum(&expected), "{place}");
        }
    }
    until("the capture ends", || sim.state().ended).await;
    let failed = |locals: &Locals| locals.0.values().map(|local| local.failed).sum::<u64>();
    let corrupted = sim.faults().fired.get("corrupt_checksum").copied().unwrap_or(0);
    assert_eq!((failed(&locals) + failed(&renamed), corrupted), (3, 3));
    for local in [&locals, &renamed] {
        for symbol in symbols {
            local.0[*symbol].book.assert_is(&reference(&sim, VENUE, symbol), usize::MAX);
        }
    }
    assert_eq!((sim.state().unread, sim.state().checksums_differing), (0, 0));
    assert!(sim.state().checksums_confirmed > 1_000, "{}", sim.state().checksums_confirmed);
    // A new subscription at the end gets the book in the form of its time.
    let mut late = Ws::open(sim.address(), PATH).await;
    let mut now = Locals::default();
    late.send(&request("subscribe", "books", symbols)).await;
    while now.0.len() < symbols.len() {
        now.take(&late.text().await);
    }
    assert!(now.0.values().all(|local| (local.matched, local.failed, local.snapshots) == (1, 0, 1)));
}

#[tokio::test]
async fn okx_2022_02_is_passed_on_with_its_second_snapshots() {
    okx_capture("okx/okx_2022-02.frames.jsonl.zst", "ws1", &["UNI-USD-SWAP", "ELON-USDT", "ZEN-USDT"]).await;
}

#[tokio::test]
async fn one_leg_of_okx_2021_07_is_passed_on() {
    okx_capture("okx/okx_2021-07.frames.jsonl.zst", "ws2", &["XMR-USDT-SWAP", "ONT-USDT"]).await;
}

#[tokio::test]
async fn a_hole_in_a_capture_is_passed_on_and_leaves_no_book() {
    let line = |ts_ns: u64, action: &str, id: u64, previous: i64| {
        let data = json!({"asks": [["2", "1", "0", "1"]], "bids": [["1", "1", "0", "1"]], "ts": "1", "checksum": 0,
            "seqId": id, "prevSeqId": previous});
        let arg = json!({"channel": "books", "instId": "A-B"});
        let raw = json!({"arg": arg, "action": action, "data": [data]}).to_string();
        json!({"ts_ns": ts_ns, "kind": "ws", "conn": "a", "raw": raw})
    };
    let lines = [line(1, "snapshot", 10, -1), line(2, "update", 12, 10), line(3, "update", 16, 15)];
    let file = written(&lines);
    let sim = VenueSim::start(capture(file.path().to_owned(), VENUE, 1)).await.unwrap();
    let mut ws = Ws::open(sim.address(), PATH).await;
    ws.send(&request("subscribe", "books", &["A-B"])).await;
    ws.next(|value| value["event"] == "subscribe").await;
    for line in &lines {
        assert_eq!(ws.text().await, line["raw"].as_str().unwrap());
    }
    until("the capture ends", || sim.state().ended).await;
    assert!(sim.books().is_empty(), "unknown until the next snapshot");
    let mut late = Ws::open(sim.address(), PATH).await;
    late.send(&request("subscribe", "books", &["A-B"])).await;
    late.send_text("ping").await;
    assert!(late.text().await.contains("\"event\":\"subscribe\""));
    assert_eq!(late.text().await, "pong", "a snapshot is owed");
}
