//! Bitfinex's rules: channels of a connection, numbers over all of them, windows, checksums; captures.
//!
//! Never: a frame whose number is not looked at, where numbers were asked for.

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
use serde_json::{Value, json, value::RawValue};
use std::{collections::BTreeMap, fmt::Write, time::Duration};

const VENUE: Venue = Venue::Bitfinex;
const PATH: &str = "/bitfinex/ws/2";
const SEQ_ALL: u64 = 65_536;
const CHECKSUMS: u64 = 131_072;

/// One channel.
#[derive(Debug, Default)]
struct Channel {
    kind: String,
    symbol: String,
    length: usize,
    book: Book,
    snapshots: u64,
    updates: u64,
    matched: u64,
    failed: u64,
    beats: u64,
    /// Verbs and ids of trades.
    trades: Vec<(String, String)>,
    /// Payloads of the book as they came.
    rows: Vec<String>,
}

/// One connection.
#[derive(Default)]
struct Local {
    channels: BTreeMap<u64, Channel>,
    events: Vec<Value>,
    last: u64,
    holes: Vec<u64>,
    repeated: u64,
}

fn row(book: &mut Book, row: &str) {
    let [price, count, amount]: [&RawValue; 3] = serde_json::from_str(row).unwrap();
    let (bid, amount) = match amount.get().strip_prefix('-') {
        Some(amount) => (false, amount),
        None => (true, amount.get()),
    };
    book.set(bid, price.get(), if count.get() == "0" { "0" } else { amount });
}

fn checksum(book: &Book) -> i32 {
    let (bids, asks) = (book.bids(), book.asks());
    let mut text = String::new();
    for rank in 0..25 {
        if let Some((price, amount)) = bids.get(rank) {
            write!(text, "{price}:{amount}:").unwrap();
        }
        if let Some((price, amount)) = asks.get(rank) {
            write!(text, "{price}:-{amount}:").unwrap();
        }
    }
    crc32fast::hash(text.trim_end_matches(':').as_bytes()).cast_signed()
}

impl Channel {
    fn book(&mut self, payload: &str) {
        self.rows.push(payload.to_owned());
        if payload.starts_with("[[") {
            self.book = Book::default();
            self.snapshots += 1;
            let rows: Vec<&RawValue> = serde_json::from_str(payload).unwrap();
            rows.iter().for_each(|level| row(&mut self.book, level.get()));
        } else {
            self.updates += 1;
            row(&mut self.book, payload);
        }
    }
}

impl Local {
    fn take(&mut self, text: &str) {
        if text.starts_with('{') {
            let event: Value = serde_json::from_str(text).unwrap();
            if event["event"] == "subscribed" {
                let named = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                let length = named("len").parse().unwrap_or(0);
                let channel = Channel { kind: named("channel"), symbol: named("symbol"), length, ..Channel::default() };
                self.channels.insert(event["chanId"].as_u64().unwrap(), channel);
            }
            self.events.push(event);
            return;
        }
        let frame: Vec<&RawValue> = serde_json::from_str(text).unwrap();
        let number: u64 = frame.last().unwrap().get().parse().unwrap();
        if number == self.last {
            self.repeated += 1;
        } else {
            self.holes.extend(self.last + 1..number);
            self.last = number;
        }
        let channel = self.channels.get_mut(&frame[0].get().parse().unwrap()).unwrap();
        match (channel.kind.as_str(), frame[1].get()) {
            (_, "\"hb\"") => channel.beats += 1,
            (_, "\"cs\"") if frame[2].get().parse() == Ok(checksum(&channel.book)) => {
                channel.matched += 1;
                assert!(channel.book.bids().len() <= channel.length && channel.book.asks().len() <= channel.length);
            }
            (_, "\"cs\"") => channel.failed += 1,
            ("book", payload) => channel.book(payload),
            ("trades", verb @ ("\"te\"" | "\"tu\"")) => {
                let [id, ..]: [&RawValue; 4] = serde_json::from_str(frame[2].get()).unwrap();
                channel.trades.push((verb.to_owned(), id.get().to_owned()));
            }
            ("trades", _) => channel.snapshots += 1,
            (other, _) => assert_eq!(other, "ticker"),
        }
    }

    async fn until(&mut self, ws: &mut Ws, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            self.take(&ws.text().await);
        }
    }

    /// The channel that was asked for.
    fn of(&self, kind: &str, symbol: &str, length: usize) -> &Channel {
        self.channels
            .values()
            .find(|channel| channel.kind == kind && channel.symbol == symbol && channel.length == length)
            .unwrap()
    }

    /// Reads everything that was queued up to now.
    async fn drain(&mut self, ws: &mut Ws, cid: u64) {
        ws.send(&json!({"event": "ping", "cid": cid})).await;
        self.until(ws, |local| local.events.iter().any(|event| event["event"] == "pong" && event["cid"] == cid)).await;
    }
}

fn book(symbol: &str, length: usize) -> Value {
    json!({"event": "subscribe", "channel": "book", "symbol": symbol, "prec": "P0", "freq": "F0", "len": length.to_string()})
}

fn trades(symbol: &str) -> Value {
    json!({"event": "subscribe", "channel": "trades", "symbol": symbol})
}

async fn open(sim: &VenueSim, flags: u64) -> (Ws, Local) {
    let mut ws = Ws::open(sim.address(), PATH).await;
    let info = ws.next(|_| true).await;
    assert_eq!((&info["event"], &info["platform"]["status"]), (&json!("info"), &json!(1)));
    ws.send(&json!({"event": "conf", "flags": flags})).await;
    assert_eq!(ws.next(|_| true).await, json!({"event": "conf", "status": "OK", "flags": flags}));
    (ws, Local::default())
}

#[tokio::test]
async fn every_window_is_the_best_of_the_venues_book() {
    let mut options = market_of(&[VENUE], 2_000);
    options.heartbeat_interval = Duration::from_millis(40);
    let sim = VenueSim::start(options).await.unwrap();
    let (mut ws, mut local) = open(&sim, SEQ_ALL | CHECKSUMS).await;
    let wanted = [("tBTCUST", 1), ("tBTCUST", 25), ("tBTCUST", 250), ("tETHUST", 100)];
    for (symbol, length) in wanted {
        ws.send(&book(symbol, length)).await;
    }
    ws.send(&trades("tBTCUST")).await;
    let enough = |local: &Local| {
        local.channels.len() == 5
            && local.channels.values().all(|channel| channel.updates >= 30 || channel.trades.len() >= 10)
            && local.channels.values().all(|channel| channel.beats >= 2)
    };
    local.until(&mut ws, enough).await;
    sim.pause();
    local.drain(&mut ws, 7).await;
    for (symbol, length) in wanted {
        let channel = local.of("book", symbol, length);
        channel.book.assert_is(&reference(&sim, VENUE, symbol), length);
        assert_eq!(channel.book.bids().len(), reference(&sim, VENUE, symbol).bids.len().min(length));
        assert_eq!((channel.snapshots, channel.failed), (1, 0), "{symbol} {length}");
    }
    assert!(local.of("book", "tBTCUST", 250).matched > 30 && local.of("book", "tETHUST", 100).matched > 20);
    let told = &local.of("trades", "tBTCUST", 0).trades;
    for pair in told.chunks_exact(2) {
        assert_eq!((pair[0].0.as_str(), pair[1].0.as_str(), &pair[0].1), ("\"te\"", "\"tu\"", &pair[1].1));
    }
    assert_eq!((local.holes.len(), local.repeated), (0, 0));
}

#[tokio::test]
async fn channels_belong_to_their_connection_and_are_limited() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    let (mut ws, _) = open(&sim, 0).await;
    let (mut other, _) = open(&sim, 0).await;
    ws.send(&book("tBTCUST", 25)).await;
    let first = ws.next(|_| true).await;
    assert_eq!((&first["event"], &first["pair"]), (&json!("subscribed"), &json!("BTCUST")));
    assert_eq!((&first["prec"], &first["freq"], &first["len"]), (&json!("P0"), &json!("F0"), &json!("25")));
    let snapshot = ws.next(|value| value.is_array()).await;
    assert_eq!((&snapshot[0], snapshot.as_array().unwrap().len()), (&first["chanId"], 2), "no number was asked for");
    other.send(&book("tBTCUST", 25)).await;
    assert_ne!(other.next(|_| true).await["chanId"], first["chanId"]);
    for (request, code) in [
        (book("tNONE", 25), 10_300),
        (book("tBTCUST", 7), 10_300),
        (book("tBTCUST", 25), 10_301),
        (json!({"event": "subscribe", "channel": "nothing", "symbol": "tBTCUST"}), 10_302),
        (json!({"event": "unsubscribe", "chanId": 1}), 10_400),
        (json!({"event": "nothing"}), 10_000),
    ] {
        ws.send(&request).await;
        let error = ws.next(|_| true).await;
        assert_eq!((&error["event"], &error["code"]), (&json!("error"), &json!(code)), "{request}");
    }
    ws.send(&json!({"event": "unsubscribe", "chanId": first["chanId"]})).await;
    let gone = ws.next(|_| true).await;
    assert_eq!(gone, json!({"event": "unsubscribed", "status": "OK", "chanId": first["chanId"]}));
    assert_eq!(sim.state().connections[0].subscriptions.len(), 0);

    let pairs = get(sim.address(), "/bitfinex/v2/conf/pub:list:pair:exchange").await.body;
    assert_eq!(pairs, json!([["BTCUST", "ETHUST", "SOLUST", "BTCUSD"]]));
    sim.set_fault(Fault::FailRest { venue: VENUE, count: 1, status: 500, retry_after_s: None }).unwrap();
    assert_eq!(get(sim.address(), "/bitfinex/v2/conf/pub:list:pair:exchange").await.status, 500);
}

#[tokio::test]
async fn no_connection_has_more_than_thirty_channels() {
    let sim = VenueSim::start(market_of(&[VENUE], 0)).await.unwrap();
    let (mut ws, _) = open(&sim, 0).await;
    let mut codes = Vec::new();
    for symbol in ["tBTCUST", "tETHUST", "tSOLUST", "tBTCUSD"] {
        let books = [1, 25, 100, 250].map(|length| book(symbol, length));
        let others = ["trades", "ticker"].map(|name| json!({"event": "subscribe", "channel": name, "symbol": symbol}));
        for request in books.into_iter().chain(others) {
            ws.send(&request).await;
            codes.push(ws.next(|value| value.is_object()).await["code"].clone());
        }
    }
    // Twenty-four are all that four pairs have.
    assert!(codes.len() == 24 && codes.iter().all(Value::is_null));
    let mut options = market_of(&[VENUE], 0);
    if let connectors::simulator::VenueSimSource::Market(config) = &mut options.source {
        config.pairs = 31;
    }
    let sim = VenueSim::start(options).await.unwrap();
    let pairs = get(sim.address(), "/bitfinex/v2/conf/pub:list:pair:exchange").await.body;
    let (mut ws, _) = open(&sim, 0).await;
    for (place, pair) in pairs[0].as_array().unwrap().iter().enumerate() {
        ws.send(&trades(&format!("t{}", pair.as_str().unwrap()))).await;
        let code = ws.next(|value| value.is_object()).await["code"].clone();
        assert_eq!(code, if place < 30 { Value::Null } else { json!(10_305) });
    }
}

#[tokio::test]
async fn faults_show_in_numbers_and_checksums() {
    let sim = VenueSim::start(market_of(&[VENUE], 2_000)).await.unwrap();
    let (mut ws, mut local) = open(&sim, SEQ_ALL | CHECKSUMS).await;
    ws.send(&book("tBTCUST", 25)).await;
    ws.send(&book("tETHUST", 25)).await;
    local.until(&mut ws, |local| local.channels.values().filter(|channel| channel.updates >= 10).count() == 2).await;
    let symbol = "tBTCUST".to_owned();
    let falsified = Fault::CorruptChecksum { venue: VENUE, symbol: symbol.clone(), count: 2, connection: None };
    sim.set_fault(falsified).unwrap();
    local.until(&mut ws, |local| local.of("book", "tBTCUST", 25).failed == 2).await;
    assert_eq!((sim.faults().fired["corrupt_checksum"], local.holes.len()), (2, 0));
    let duplicate = Fault::Duplicate { venue: VENUE, symbol: Some(symbol.clone()), count: 1, connection: None };
    sim.set_fault(duplicate).unwrap();
    local.until(&mut ws, |local| local.repeated == 1).await;
    sim.set_fault(Fault::DropDepth { venue: VENUE, symbol, count: 1, connection: None }).unwrap();
    local.until(&mut ws, |local| !local.holes.is_empty()).await;
    until("one update was withheld", || sim.faults().fired["drop_depth"] == 1).await;
    let hole = local.holes.len();
    // Other channels have no part in it, and a new subscription heals it.
    let handle = *local.channels.iter().find(|(_, channel)| channel.symbol == "tBTCUST").unwrap().0;
    ws.send(&json!({"event": "unsubscribe", "chanId": handle})).await;
    local.until(&mut ws, |local| local.events.iter().any(|event| event["event"] == "unsubscribed")).await;
    local.channels.remove(&handle);
    ws.send(&book("tBTCUST", 25)).await;
    local.until(&mut ws, |local| local.channels.values().all(|channel| channel.updates >= 30)).await;
    sim.pause();
    local.drain(&mut ws, 9).await;
    for channel in local.channels.values() {
        channel.book.assert_is(&reference(&sim, VENUE, &channel.symbol), 25);
        assert_eq!(channel.failed, 0, "{}", channel.symbol);
    }
    assert_eq!((local.holes.len(), local.repeated), (hole, 1));
}

/// The payload of a recorded frame of a channel.
fn payload(text: &str) -> &str {
    text.split_once(',').unwrap().1.rsplit_once(',').unwrap().0
}

#[tokio::test]
async fn the_capture_is_passed_on_under_other_channels_and_numbers() {
    let Some(file) = corpus("bitfinex/bitfinex_2021-04.frames.jsonl.zst") else { return };
    let frames = frames(&file);
    let texts: Vec<&str> = frames.iter().filter(|frame| frame.kind == RawKind::Ws).map(text).collect();
    let symbols = ["tIOTETH", "tDOGUSD", "tTESTBTC:TESTUSD"];
    let recorded = |symbol: &str| -> Vec<String> {
        let acks = texts.iter().filter(|text| text.starts_with('{'));
        let ack = acks
            .map(|text| serde_json::from_str::<Value>(text).unwrap())
            .find(|event| event["channel"] == "book" && event["symbol"] == symbol)
            .unwrap();
        let head = format!("[{},[", ack["chanId"]);
        texts.iter().filter(|text| text.starts_with(&head)).map(|text| payload(text).to_owned()).collect()
    };
    let expected: Vec<Vec<String>> = symbols.iter().map(|symbol| recorded(symbol)).collect();
    let sim = VenueSim::start(capture(file, VENUE, 1)).await.unwrap();
    let (mut ws, mut local) = open(&sim, SEQ_ALL | CHECKSUMS).await;
    // The tape begins when everything is subscribed to.
    sim.pause();
    for symbol in symbols {
        for length in [100, 25] {
            ws.send(&book(symbol, length)).await;
        }
        ws.send(&trades(symbol)).await;
    }
    local.until(&mut ws, |local| local.channels.len() == 9).await;
    sim.resume();
    until("the capture ends", || sim.state().ended).await;
    local.drain(&mut ws, 1).await;
    for (symbol, expected) in symbols.iter().zip(&expected) {
        let (whole, part) = (local.of("book", symbol, 100), local.of("book", symbol, 25));
        assert_eq!(whole.rows, *expected, "{symbol}, byte for byte");
        let reference = reference(&sim, VENUE, symbol);
        whole.book.assert_is(&reference, usize::MAX);
        part.book.assert_is(&reference, 25);
        assert_eq!((whole.failed, part.failed), (0, 0), "{symbol}");
        assert!(whole.matched >= u64::try_from(expected.len()).unwrap(), "{symbol}");
        assert_eq!(local.of("trades", symbol, 0).snapshots, 1, "the recorded one");
    }
    assert!(expected[0].len() > 300, "{}", expected[0].len());
    assert_eq!((local.holes.len(), local.repeated, sim.state().unread), (0, 0, 0));
}

#[tokio::test]
async fn recorded_trades_are_passed_on_in_both_of_their_messages() {
    let line = |ts_ns: u64, raw: &str| json!({"ts_ns": ts_ns, "kind": "ws", "conn": "a", "raw": raw});
    let ack =
        "{\"event\":\"subscribed\",\"channel\":\"trades\",\"chanId\":5,\"symbol\":\"tBTCUSD\",\"pair\":\"BTCUSD\"}";
    let file = written(&[
        // A heartbeat comes before its channel is acknowledged.
        line(1, "[5,\"hb\",1]"),
        line(2, ack),
        line(3, "[5,[[8,1618665870435,1.50,60000]],2]"),
        line(4, "[5,\"te\",[9,1618665870436,-0.50,60001.0],3]"),
        line(5, "[5,\"tu\",[9,1618665870436,-0.50,60001.0],4]"),
    ]);
    let sim = VenueSim::start(capture(file.path().to_owned(), VENUE, 1)).await.unwrap();
    let (mut ws, _) = open(&sim, SEQ_ALL).await;
    ws.send(&trades("tBTCUSD")).await;
    let handle = ws.next(|_| true).await["chanId"].clone();
    for expected in [
        format!("[{handle},[[8,1618665870435,1.50,60000]],1]"),
        format!("[{handle},\"te\",[9,1618665870436,-0.50,60001.0],2]"),
        format!("[{handle},\"tu\",[9,1618665870436,-0.50,60001.0],3]"),
    ] {
        assert_eq!(ws.text().await, expected);
    }
    // Who comes later gets what was told.
    let (mut late, _) = open(&sim, 0).await;
    late.send(&trades("tBTCUSD")).await;
    let handle = late.next(|_| true).await["chanId"].clone();
    assert!(late.text().await.starts_with(&format!("[{handle},[[9,")));
    assert_eq!(sim.state().unread, 0);
}
