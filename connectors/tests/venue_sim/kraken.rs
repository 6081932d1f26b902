//! Kraken's rules: snapshots, truncation, checksums, subscriptions.
//!
//! Never: a book message whose checksum is not compared.

use super::{
    client::{Book, Ws, get},
    market, reference,
};
use connectors::simulator::VenueSim;
use market::Venue;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::collections::BTreeMap;

pub(super) const VENUE: Venue = Venue::KrakenSpot;

#[derive(Deserialize)]
struct Envelope<'a> {
    channel: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow, default)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
    #[serde(borrow)]
    qty: &'a RawValue,
}

#[derive(Deserialize)]
struct Data<'a> {
    symbol: String,
    #[serde(borrow)]
    bids: Vec<Level<'a>>,
    #[serde(borrow)]
    asks: Vec<Level<'a>>,
    checksum: u32,
}

/// The venue's rule, from text: points and leading zeros go.
pub(super) fn checksum(book: &Book) -> u32 {
    let strip = |text: &str| text.replace('.', "").trim_start_matches('0').to_owned();
    let best = |side: Vec<(String, String)>| side.into_iter().take(10);
    let levels = best(book.asks()).chain(best(book.bids()));
    let text: String = levels.map(|(price, quantity)| strip(&price) + &strip(&quantity)).collect();
    crc32fast::hash(text.as_bytes())
}

/// The books of one connection at one depth.
pub(super) struct Local {
    pub(super) depth: usize,
    pub(super) books: BTreeMap<String, Book>,
    pub(super) snapshots: u64,
    pub(super) matched: u64,
    pub(super) failed: u64,
    pub(super) heartbeats: u64,
    pub(super) others: Vec<Value>,
}

impl Local {
    pub(super) const fn new(depth: usize) -> Self {
        let books = BTreeMap::new();
        Self { depth, books, snapshots: 0, matched: 0, failed: 0, heartbeats: 0, others: Vec::new() }
    }

    pub(super) fn take(&mut self, text: &str) {
        let envelope: Envelope<'_> = serde_json::from_str(text).unwrap();
        match envelope.channel.as_deref() {
            Some("book") => {}
            Some("heartbeat") => {
                self.heartbeats += 1;
                return;
            }
            _ => {
                self.others.push(serde_json::from_str(text).unwrap());
                return;
            }
        }
        let [data] = envelope.data.as_slice() else { panic!("{text}") };
        let data: Data<'_> = serde_json::from_str(data.get()).unwrap();
        let book = self.books.entry(data.symbol.clone()).or_default();
        if envelope.kind.as_deref() == Some("snapshot") {
            *book = Book::default();
            self.snapshots += 1;
            assert!(data.bids.len() <= self.depth && data.asks.len() <= self.depth, "{text}");
        }
        for (bid, side) in [(true, &data.bids), (false, &data.asks)] {
            for level in side {
                book.set(bid, level.price.get(), level.qty.get());
            }
        }
        book.truncate(self.depth);
        if checksum(book) == data.checksum {
            self.matched += 1;
        } else {
            self.failed += 1;
        }
    }
}

pub(super) fn subscribe(channel: &str, symbols: &[&str], depth: usize) -> Value {
    let params = if channel == "book" {
        json!({"channel": channel, "symbol": symbols, "depth": depth, "snapshot": true})
    } else {
        json!({"channel": channel, "symbol": symbols, "snapshot": true})
    };
    json!({"method": "subscribe", "params": params, "req_id": depth})
}

/// Asks for a pong and reads up to it: everything that was queued before is then known.
pub(super) async fn drain(ws: &mut Ws, local: &mut Local, req_id: u64) {
    ws.send(&json!({"method": "ping", "req_id": req_id})).await;
    while !local.others.iter().any(|value| value["method"] == "pong" && value["req_id"] == req_id) {
        let text = ws.text().await;
        local.take(&text);
    }
}

const SYMBOLS: [&str; 2] = ["BTC/USDT", "ETH/USDT"];

/// Reads until enough checksums were compared.
async fn read(ws: &mut Ws, local: &mut Local, checksums: u64) {
    let enough = local.matched + local.failed + checksums;
    while local.matched + local.failed < enough {
        let text = ws.text().await;
        local.take(&text);
    }
}

#[tokio::test]
async fn every_depth_holds_the_best_part_of_the_book_and_every_checksum_matches() {
    let sim = VenueSim::start(market(3_000)).await.unwrap();
    let mut clients = Vec::new();
    for depth in [10, 25, 100, 500, 1_000, 25] {
        let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
        ws.send(&subscribe("book", &SYMBOLS, depth)).await;
        clients.push((ws, Local::new(depth)));
    }
    for round in 1..=3 {
        for (ws, local) in &mut clients {
            read(ws, local, 60).await;
        }
        // Again, on the same socket and in the middle of everything.
        for (ws, local) in &mut clients {
            ws.send(&json!({"method": "unsubscribe", "params": {"channel": "book", "symbol": SYMBOLS, "depth": local.depth}}))
                .await;
            ws.send(&subscribe("book", &SYMBOLS, local.depth)).await;
        }
        assert_eq!(sim.state().round, 0, "round {round} is the clients'");
    }
    for (ws, local) in &mut clients {
        read(ws, local, 60).await;
    }
    sim.pause();
    for (ws, local) in &mut clients {
        drain(ws, local, 99).await;
        assert_eq!(local.failed, 0, "depth {}", local.depth);
        assert_eq!(local.snapshots, 8, "two pairs, four subscriptions");
        for (symbol, book) in &local.books {
            book.assert_is(&reference(&sim, VENUE, symbol), local.depth);
        }
    }
    let state = sim.state();
    assert!(state.checksums_confirmed > 300);
    assert_eq!((state.checksums_differing, state.unread), (0, 0));
    sim.stop().await;
}

#[tokio::test]
async fn a_subscription_is_acknowledged_symbol_by_symbol_and_then_answered() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    let status: Value = serde_json::from_str(&ws.text().await).unwrap();
    assert_eq!((&status["channel"], &status["data"][0]["system"]), (&json!("status"), &json!("online")));
    assert!(status["data"][0]["connection_id"].as_u64().unwrap() > 1 << 53);
    ws.send(&subscribe("book", &SYMBOLS, 10)).await;
    for symbol in SYMBOLS {
        let ack: Value = serde_json::from_str(&ws.text().await).unwrap();
        let result = json!({"channel": "book", "depth": 10, "snapshot": true, "symbol": symbol});
        assert_eq!(
            (&ack["method"], &ack["result"], &ack["success"], &ack["req_id"]),
            (&json!("subscribe"), &result, &json!(true), &json!(10))
        );
        assert!(ack["time_in"].as_str() < ack["time_out"].as_str());
    }
    let mut local = Local::new(10);
    for _ in SYMBOLS {
        local.take(&ws.text().await);
    }
    assert_eq!((local.snapshots, local.matched, local.failed), (2, 2, 0));

    for (request, error, symbol) in [
        (subscribe("book", &["XBT/USD"], 10), "Currency pair not supported XBT/USD", Some("XBT/USD")),
        (subscribe("book", &["BTC/USDT"], 10), "Already subscribed", Some("BTC/USDT")),
        (subscribe("book", &["BTC/USD"], 27), "Subscription depth not supported", None),
        (subscribe("nothing", &["BTC/USD"], 10), "Subscription name invalid", None),
        (
            json!({"method": "unsubscribe", "params": {"channel": "trade", "symbol": ["BTC/USD"]}}),
            "Subscription Not Found",
            Some("BTC/USD"),
        ),
        (json!({"method": "subscribe"}), "Malformed request", None),
        (json!([1, 2]), "Malformed request", None),
    ] {
        ws.send(&request).await;
        let answer = ws.next(|value| value["channel"] != "heartbeat").await;
        assert_eq!(answer["error"], error, "{request}");
        assert_eq!((answer["success"].as_bool(), answer["symbol"].as_str()), (Some(false), symbol), "{answer}");
    }
    ws.send(&json!({"method": "ping", "req_id": 101})).await;
    let pong = ws.next(|value| value["channel"] != "heartbeat").await;
    assert_eq!((&pong["method"], &pong["req_id"]), (&json!("pong"), &json!(101)));
    ws.next(|value| value["channel"] == "heartbeat").await;
}

#[tokio::test]
async fn trades_come_with_or_without_their_history() {
    let sim = VenueSim::start(market(3_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    ws.send(&json!({"method": "subscribe", "params": {"channel": "trade", "symbol": ["BTC/USDT"]}})).await;
    let ack = ws.next(|value| value["method"] == "subscribe").await;
    assert_eq!(ack["result"], json!({"channel": "trade", "snapshot": false, "symbol": "BTC/USDT"}));
    let mut ids = Vec::new();
    while ids.len() < 5 {
        let trade = ws.next(|value| value["channel"] == "trade").await;
        assert_eq!((&trade["type"], &trade["data"][0]["symbol"]), (&json!("update"), &json!("BTC/USDT")));
        ids.push(trade["data"][0]["trade_id"].as_u64().unwrap());
    }
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ids:?}");
    let mut late = Ws::open(sim.address(), "/kraken_spot/v2").await;
    late.send(&subscribe("trade", &["BTC/USDT"], 0)).await;
    let history = late.next(|value| value["channel"] == "trade").await;
    assert_eq!(history["type"], "snapshot");
    let known: Vec<u64> =
        history["data"].as_array().unwrap().iter().map(|trade| trade["trade_id"].as_u64().unwrap()).collect();
    assert!(ids.iter().all(|id| known.contains(id)) && known.len() <= 50);
    assert_eq!(late.next(|value| value["channel"] == "trade").await["data"][0]["trade_id"], known[known.len() - 1] + 1);
}

#[tokio::test]
async fn rest_has_the_venues_older_names() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    let status = get(sim.address(), "/kraken_spot/0/public/SystemStatus").await.body;
    assert_eq!((&status["error"], &status["result"]["status"]), (&json!([]), &json!("online")));
    let pairs = get(sim.address(), "/kraken_spot/0/public/AssetPairs").await.body;
    assert_eq!(pairs["result"].as_object().unwrap().len(), 4);
    let pair = &pairs["result"]["XXBTZUSD"];
    assert_eq!(
        (&pair["wsname"], &pair["altname"], &pair["base"], &pair["quote"]),
        (&json!("XBT/USD"), &json!("XBTUSD"), &json!("XXBT"), &json!("ZUSD"))
    );
    assert_eq!(
        (&pair["pair_decimals"], &pair["lot_decimals"], &pair["tick_size"]),
        (&json!(1), &json!(8), &json!("0.1"))
    );
    let one = get(sim.address(), "/kraken_spot/0/public/AssetPairs?pair=XBTUSDT").await.body;
    assert_eq!(one["result"]["XBTUSDT"]["wsname"], "XBT/USDT");
    let none = get(sim.address(), "/kraken_spot/0/public/AssetPairs?pair=NOPE").await.body;
    assert_eq!(none["error"], json!(["EQuery:Unknown asset pair"]));
}
