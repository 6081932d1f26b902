//! Binance's rules for a local order book, its requests and its REST.
//!
//! Never: a skipped check of the chain.

use super::{
    client::{Answer, Book, Ws, get},
    market, reference, until,
};
use connectors::simulator::VenueSim;
use futures_util::{SinkExt, StreamExt};
use market::Venue;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::Message;

pub(super) const VENUE: Venue = Venue::BinanceSpot;

/// One symbol's book by the venue's rules.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) book: Book,
    pub(super) last: Option<u64>,
    buffered: Vec<Value>,
    pub(super) gaps: u64,
    pub(super) applied: u64,
}

fn id(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap()
}

impl Local {
    /// Rules 3 to 6: the snapshot, then what was buffered.
    pub(super) fn snapshot(&mut self, depth: &Value) {
        let last = id(depth, "lastUpdateId");
        self.book = Book::default();
        self.set(&depth["bids"], &depth["asks"]);
        self.last = Some(last);
        for event in std::mem::take(&mut self.buffered) {
            self.event(&event);
        }
    }

    fn set(&mut self, bids: &Value, asks: &Value) {
        for (bid, side) in [(true, bids), (false, asks)] {
            for level in side.as_array().unwrap() {
                self.book.set(bid, level[0].as_str().unwrap(), level[1].as_str().unwrap());
            }
        }
    }

    /// A depth event: before the snapshot it is buffered; an old one is dropped; a hole is counted.
    pub(super) fn event(&mut self, event: &Value) {
        let Some(last) = self.last else {
            self.buffered.push(event.clone());
            return;
        };
        let (first, final_id) = (id(event, "U"), id(event, "u"));
        assert!(first <= final_id);
        if final_id <= last {
            return;
        }
        if first > last + 1 {
            self.gaps += 1;
        } else if self.applied > 0 && first != last + 1 {
            panic!("the chain overlaps: {first} after {last}");
        }
        self.set(&event["b"], &event["a"]);
        self.last = Some(final_id);
        self.applied += 1;
    }
}

/// Reads a connection into the books of some symbols.
#[derive(Default)]
pub(super) struct Locals(pub(super) BTreeMap<String, Local>);

impl Locals {
    pub(super) fn take(&mut self, text: &str) {
        let value: Value = serde_json::from_str(text).unwrap();
        let data = if value["data"].is_null() { &value } else { &value["data"] };
        if data["e"] == "depthUpdate" {
            self.0.entry(data["s"].as_str().unwrap().to_owned()).or_default().event(data);
        }
    }

    pub(super) async fn fetch(&mut self, address: SocketAddr, symbol: &str) {
        let answer = get(address, &format!("/binance_spot/api/v3/depth?symbol={symbol}&limit=5000")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.0.entry(symbol.to_owned()).or_default().snapshot(&answer.body);
    }

    /// Reads until every book is where the paused server's is.
    pub(super) async fn catch_up(&mut self, ws: &mut Ws, sim: &VenueSim) {
        let behind = |locals: &Self| {
            locals.0.iter().any(|(symbol, local)| local.last < reference(sim, VENUE, symbol).last_update_id)
        };
        while behind(self) {
            let text = ws.text().await;
            self.take(&text);
        }
    }

    pub(super) fn assert_are(&self, sim: &VenueSim) {
        for (symbol, local) in &self.0 {
            let reference = reference(sim, VENUE, symbol);
            assert_eq!(local.last, reference.last_update_id, "{symbol}");
            local.book.assert_is(&reference, usize::MAX);
        }
    }
}

const STREAMS: [&str; 2] = ["btcusdt@depth@100ms", "ethusdt@depth@100ms"];

/// A client that follows the rules over a connection of its own.
async fn follow(sim: &VenueSim, mut ws: Ws) -> (Ws, Locals) {
    let mut locals = Locals::default();
    while locals.0.len() < STREAMS.len() {
        let text = ws.text().await;
        locals.take(&text);
    }
    for symbol in ["BTCUSDT", "ETHUSDT"] {
        locals.fetch(sim.address(), symbol).await;
    }
    while locals.0.values().any(|local| local.applied < 100) {
        let text = ws.text().await;
        locals.take(&text);
    }
    (ws, locals)
}

#[tokio::test]
async fn the_rules_lead_to_the_venues_book_on_every_kind_of_connection() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let streams = STREAMS.join("/");
    let combined = Ws::open(sim.address(), &format!("/binance_spot/stream?streams={streams}/btcusdt@trade")).await;
    let raw = Ws::open(sim.address(), &format!("/binance_spot/ws/{streams}")).await;
    let mut asked = Ws::open(sim.address(), "/binance_spot/stream").await;
    asked.send(&json!({"method": "SUBSCRIBE", "params": ["btcusdt@depth", "ethusdt@depth"], "id": 1})).await;
    assert_eq!(asked.text().await, "{\"result\":null,\"id\":1}");

    let (combined, raw, asked) = tokio::join!(follow(&sim, combined), follow(&sim, raw), follow(&sim, asked));
    sim.pause();
    let position = sim.state().position;
    for (mut ws, mut locals) in [combined, raw, asked] {
        locals.catch_up(&mut ws, &sim).await;
        locals.assert_are(&sim);
        assert!(locals.0.values().all(|local| local.gaps == 0));
    }
    assert_eq!(sim.state().position, position, "paused");
    sim.resume();
    until("it goes on", || sim.state().position > position).await;
    sim.stop().await;
}

#[tokio::test]
async fn envelopes_and_subscriptions_are_as_the_venue_has_them() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/binance_spot/ws").await;
    ws.send(&json!({"method": "LIST_SUBSCRIPTIONS", "id": "a-1"})).await;
    assert_eq!(ws.text().await, "{\"result\":[],\"id\":\"a-1\"}");
    ws.send(&json!({"method": "SUBSCRIBE", "params": ["btcusdt@trade", "btcusdt@depth"], "id": 2})).await;
    ws.next(|value| value["id"] == 2 && value["result"].is_null()).await;
    let bare = ws.next(|value| value["e"] == "depthUpdate").await;
    assert_eq!((bare["s"].as_str(), bare["stream"].as_str()), (Some("BTCUSDT"), None));
    ws.send(&json!({"method": "SET_PROPERTY", "params": ["combined", true], "id": 3})).await;
    ws.next(|value| value["id"] == 3).await;
    let wrapped = ws.next(|value| value["stream"] == "btcusdt@depth").await;
    assert_eq!(wrapped["data"]["e"], "depthUpdate", "under the name that was asked for");
    ws.send(&json!({"method": "UNSUBSCRIBE", "params": ["btcusdt@depth"], "id": 4})).await;
    ws.next(|value| value["id"] == 4).await;
    let trade = ws.next(|value| value["id"].is_null()).await;
    assert_eq!(trade["stream"], "btcusdt@trade");
    assert_eq!(sim.state().connections[0].subscriptions, ["btcusdt@trade"]);
}

#[tokio::test]
async fn bad_requests_get_the_venues_errors_and_too_many_end_the_connection() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/binance_spot/ws").await;
    for (request, code, words) in [
        ("{\"method\":\"SUBSCRIBE\",\"params\":[\"not asdfads\"],\"id\":1}", 2, "Invalid request: invalid stream"),
        ("{\"method\":\"NOTHING\",\"id\":1}", 2, "Invalid request: unknown variant `NOTHING`"),
        ("{\"id\":1}", 2, "Invalid request: missing field `method`"),
        ("{\"method\":\"GET_PROPERTY\",\"params\":[\"other\"],\"id\":1}", 0, "Unknown property"),
        ("{", 3, "Invalid JSON"),
    ] {
        ws.0.send(Message::text(request)).await.unwrap();
        let error = ws.next(|_| true).await["error"].clone();
        assert_eq!(error["code"], code, "{request}");
        assert!(error["msg"].as_str().unwrap().starts_with(words), "{error}");
    }
    ws.0.send(Message::text("{\"method\":\"LIST_SUBSCRIPTIONS\",\"id\":1}")).await.unwrap();
    assert_eq!(ws.end().await, Some(1008), "the sixth within a second");
}

#[tokio::test]
async fn pings_come_with_their_time_and_an_unanswered_one_ends_the_connection() {
    let mut options = market(0);
    options.ping_interval = Duration::from_millis(20);
    options.pong_max = Duration::from_secs(2);
    let sim = VenueSim::start(options).await.unwrap();
    // A socket that reads, and answers nothing.
    let mut silent = TcpStream::connect(sim.address()).await.unwrap();
    let upgrade = "GET /binance_spot/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    silent.write_all(upgrade.as_bytes()).await.unwrap();
    until("it is the first", || sim.state().opened == 1).await;
    let mut ws = Ws::open(sim.address(), "/binance_spot/ws").await;
    for _ in 0..5 {
        let Message::Ping(payload) = ws.any().await.unwrap().unwrap() else { panic!("only pings are sent") };
        assert!(std::str::from_utf8(&payload).unwrap().parse::<u64>().unwrap() > 1_700_000_000_000);
    }
    let answered = || sim.state().connections.iter().any(|open| open.connection == 2 && open.pongs >= 4);
    // Reading is what answers.
    let reading = async { while ws.0.next().await.is_some() {} };
    tokio::select! {
        () = reading => panic!("it answers, so it stays"),
        () = until("pongs are counted", answered) => {}
    }
    until("the silent one is closed", || sim.state().connections.iter().all(|open| open.connection != 1)).await;
    let mut bytes = Vec::new();
    silent.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("HTTP/1.1 101") && text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{text}");
    let reason = b"Pong timeout";
    let close = [&[0x88, 2 + 12, 0x03, 0xf0], reason.as_slice()].concat();
    assert!(bytes.ends_with(&close), "a close frame with 1008 is the last of it");
}

fn error(answer: &Answer) -> (u16, i64) {
    (answer.status, answer.body["code"].as_i64().unwrap())
}

#[tokio::test]
async fn rest_honours_limits_and_weights_and_words_its_errors() {
    let mut options = market(0);
    options.request_weight = 400;
    let sim = VenueSim::start(options).await.unwrap();
    let depth = async |query: &str| get(sim.address(), &format!("/binance_spot/api/v3/depth{query}")).await;
    let levels = |answer: &Answer| {
        (answer.body["bids"].as_array().unwrap().len(), answer.body["asks"].as_array().unwrap().len())
    };

    let full = reference(&sim, VENUE, "BTCUSDT");
    assert!(full.bids.len() > 100);
    assert_eq!(levels(&depth("?symbol=BTCUSDT").await), (100, 100));
    assert_eq!(levels(&depth("?symbol=BTCUSDT&limit=7").await), (7, 7));
    let whole = depth("?symbol=BTCUSDT&limit=99999").await;
    assert_eq!(levels(&whole), (full.bids.len(), full.asks.len()));
    assert_eq!(whole.body["lastUpdateId"].as_u64(), full.last_update_id);
    assert_eq!(whole.headers["x-mbx-used-weight-1m"], "260");

    assert_eq!(error(&depth("?symbol=NOPE").await), (400, -1121));
    assert_eq!(error(&depth("?symbol=btcusdt").await), (400, -1100));
    assert_eq!(error(&depth("").await), (400, -1102));
    assert_eq!(error(&depth("?symbol=BTCUSDT&limit=x").await), (400, -1100));

    let info = get(sim.address(), "/binance_spot/api/v3/exchangeInfo?symbol=BTCUSDT").await.body;
    let listed = &info["symbols"][0];
    assert_eq!((listed["baseAsset"].as_str(), listed["quoteAsset"].as_str()), (Some("BTC"), Some("USDT")));
    assert_eq!(listed["filters"][0]["tickSize"], "0.01000000");
    assert_eq!(listed["filters"][1]["stepSize"], "0.00001000");
    let all = get(sim.address(), "/binance_spot/api/v3/exchangeInfo").await.body;
    assert_eq!(all["symbols"].as_array().unwrap().len(), 4);
    assert_eq!(get(sim.address(), "/binance_spot/api/v3/ping").await.body, json!({}));
    assert!(get(sim.address(), "/binance_spot/api/v3/time").await.body["serverTime"].is_u64());
    assert_eq!(get(sim.address(), "/binance_spot/api/v3/nothing").await.status, 404);

    let throttled = depth("?symbol=BTCUSDT&limit=5000").await;
    assert_eq!(error(&throttled), (429, -1003));
    assert!(throttled.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() <= 60);
}
