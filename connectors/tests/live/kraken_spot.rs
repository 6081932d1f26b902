//! Kraken spot by hand: subscriptions, their replay, one instrument anew, pings.
//!
//! Never: Kraken's own addresses.

use super::{
    PATIENCE, Source, live_venue,
    venue::{Listening, Socket},
};
use connectors::{live::LiveOptions, raw::RawKind};
use futures_util::SinkExt;
use market::{Body, Venue};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::tungstenite::{
    Message,
    handshake::derive_accept_key,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

/// The checksum of one bid of 0.50 at 100.0.
fn checksum() -> u32 {
    crc32fast::hash(b"100050")
}

pub(super) fn book(kind: &str, symbol: &str) -> String {
    let data =
        format!(r#"{{"symbol":"{symbol}","bids":[{{"price":100.0,"qty":0.50}}],"asks":[],"checksum":{}}}"#, checksum());
    format!(r#"{{"channel":"book","type":"{kind}","data":[{data}]}}"#)
}

pub(super) fn reply(request: &Value, symbol: &str) -> String {
    let params = &request["params"];
    let result = json!({"channel": params["channel"], "symbol": symbol, "depth": 100});
    json!({"method": request["method"], "req_id": request["req_id"], "result": result, "success": true}).to_string()
}

struct Kraken {
    sockets: Listening,
}

impl Kraken {
    async fn start() -> Self {
        Self { sockets: Listening::start().await }
    }

    fn source(&self, instruments: &[&str], options: LiveOptions) -> Source {
        let (ws, http) = (self.sockets.url("ws", "/kraken_spot/v2"), self.sockets.url("http", "/kraken_spot"));
        Source::start(live_venue(Venue::KrakenSpot, instruments, 1, ws, http), options)
    }

    /// The next connection, with everything acknowledged and the snapshots sent.
    async fn subscribed(&self, symbols: &[&str]) -> Socket {
        let mut socket = self.sockets.socket("/kraken_spot/v2").await;
        for channel in ["book", "trade"] {
            let request = socket.hear().await;
            assert_eq!(request["method"], "subscribe");
            assert_eq!(
                (&request["params"]["channel"], &request["params"]["symbol"]),
                (&json!(channel), &json!(symbols))
            );
            for symbol in symbols {
                socket.say(&reply(&request, symbol)).await;
                if channel == "book" {
                    socket.say(&book("snapshot", symbol)).await;
                }
            }
        }
        socket
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscription_brings_the_snapshot_and_updates_follow() {
    let venue = Kraken::start().await;
    let mut source = venue.source(&["BTC/USD", "ETH/USD"], LiveOptions::default());
    let mut socket = venue.subscribed(&["BTC/USD", "ETH/USD"]).await;
    socket.say(&book("update", "ETH/USD")).await;
    source.until("an update", |source| source.deltas() == 1);
    assert_eq!(source.snapshots(), 2);
    assert_eq!(source.kinds()[0], RawKind::Open);
    assert_eq!(source.texts(RawKind::Send).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_gets_the_whole_set_once_under_the_leg_s_name() {
    let venue = Kraken::start().await;
    let symbols = ["BTC/USD", "ETH/USD", "SOL/USD", "XRP/USD"];
    let mut source = venue.source(&symbols, LiveOptions::default());
    for round in 1..=3 {
        let mut socket = venue.subscribed(&symbols).await;
        source.until("all snapshots", |source| source.snapshots() == 4 * round);
        if round < 3 {
            let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            socket.stream.send(Message::Close(Some(close))).await.unwrap();
        }
        if round == 3 {
            assert_eq!(source.texts(RawKind::Send).len(), 6, "each request once per connection");
            let told = |body: &Body| matches!(body, Body::LegUp | Body::LegDown);
            let legs: Vec<_> =
                source.events.iter().filter(|event| told(&event.body)).map(|event| event.leg.0).collect();
            assert_eq!(legs, [0; 5], "one leg for all connections");
            let broken = source.bodies(|body| matches!(body, Body::Broken(_)));
            assert_eq!(broken, 8, "each end breaks the four books");
            assert_eq!((source.count("connects"), source.count("disconnects")), (3, 2));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_instrument_is_subscribed_to_anew_alone() {
    let venue = Kraken::start().await;
    let mut source = venue.source(&["BTC/USD", "ETH/USD"], LiveOptions::default());
    let mut socket = venue.subscribed(&["BTC/USD", "ETH/USD"]).await;
    source.until("the snapshots", |source| source.snapshots() == 2);
    // A checksum that fails: the decoder wants this one book anew, and so does the guard.
    socket.say(&book("update", "ETH/USD").replace(&checksum().to_string(), "1")).await;
    source.until("the break", |source| source.bodies(|body| matches!(body, Body::Broken(_))) == 1);
    source.live.request(Venue::KrakenSpot, "ETH/USD", Some("kraken_spot/a"));
    let left = socket.hear().await;
    assert_eq!((&left["method"], &left["params"]["symbol"]), (&json!("unsubscribe"), &json!(["ETH/USD"])));
    assert_eq!(left["params"]["channel"], "book");
    socket.say(&reply(&left, "ETH/USD")).await;
    let joined = socket.hear().await;
    assert_eq!((&joined["method"], &joined["params"]["symbol"]), (&json!("subscribe"), &json!(["ETH/USD"])));
    socket.say(&reply(&joined, "ETH/USD")).await;
    socket.say(&book("snapshot", "ETH/USD")).await;
    socket.say(&book("update", "BTC/USD")).await;
    source.until("the other instrument's update", |source| source.deltas() == 1);
    assert_eq!((source.snapshots(), source.count("resubscribes")), (3, 1));
    assert_eq!(source.decoder.active(Venue::KrakenSpot, "ETH/USD").map(|conn| &**conn), Some("kraken_spot/a"));
    source.live.request(Venue::KrakenSpot, "ETH/USD", Some("no such connection"));
    assert_eq!(socket.hear().await["method"], "unsubscribe", "any open connection serves");
    assert_eq!(source.count("requests_dropped"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_without_a_connection_is_dropped_and_counted() {
    let venue = Kraken::start().await;
    let source = venue.source(&["BTC/USD"], LiveOptions::default());
    source.live.request(Venue::KrakenSpot, "BTC/USD", None);
    assert_eq!(source.count("requests_dropped"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upgrade_is_retried_when_the_venue_says() {
    let venue = Kraken::start().await;
    let mut source = venue.source(&["BTC/USD"], LiveOptions::default());
    let (_, answer) = upgrade(&venue.sockets).await;
    let refused = Instant::now();
    answer.with("503 Service Unavailable", "retry-after: 1\r\n", "").await;
    let _socket = venue.subscribed(&["BTC/USD"]).await;
    assert!(refused.elapsed() >= Duration::from_millis(950), "back after {:?}", refused.elapsed());
    source.until("the snapshot", |source| source.snapshots() == 1);
    assert_eq!((source.count("connect_failures"), source.count("connects")), (1, 1));
}

/// The next upgrade as raw HTTP.
async fn upgrade(sockets: &Listening) -> (String, RawAnswer) {
    let mut stream = sockets.tcp().await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.expect("a whole request").unwrap());
    }
    (String::from_utf8(head).unwrap(), RawAnswer { stream })
}

struct RawAnswer {
    stream: tokio::net::TcpStream,
}

impl RawAnswer {
    async fn with(mut self, status: &str, headers: &str, body: &str) {
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len());
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }
}

/// Only pings, on a socket without a WebSocket library on the venue's side, and a source that takes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pong_is_on_the_wire_at_once_though_nothing_but_pings_comes_and_nobody_takes_frames() {
    let venue = Kraken::start().await;
    let options = LiveOptions { queue_bytes_max: 1, ..LiveOptions::default() };
    let mut source = venue.source(&["BTC/USD"], options);
    let (head, answer) = upgrade(&venue.sockets).await;
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap().trim();
    let mut stream = answer.stream;
    let accept = derive_accept_key(key.as_bytes());
    let upgraded = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    stream.write_all(upgraded.as_bytes()).await.unwrap();
    let mut beat = interval(Duration::from_millis(100));
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut pongs, mut longest) = (0, Duration::ZERO);
    for number in 0..30_u8 {
        beat.tick().await;
        stream.write_all(&[0x89, 1, number]).await.unwrap();
        let sent = Instant::now();
        loop {
            let (opcode, payload) = timeout(PATIENCE, raw_frame(&mut stream)).await.expect("a frame");
            if opcode == 0x0A {
                assert_eq!(payload, [number]);
                break;
            }
            assert_eq!(opcode, 0x01, "a request");
        }
        pongs += 1;
        longest = longest.max(sent.elapsed());
    }
    assert!(pongs == 30 && longest < Duration::from_secs(1), "the longest took {longest:?}");
    source.until("signs of life", |source| source.bodies(|body| *body == Body::LegHeard) >= 5);
    assert_eq!(source.legs_open(), 1);
}

/// One masked frame of at most 64 KiB.
async fn raw_frame(stream: &mut tokio::net::TcpStream) -> (u8, Vec<u8>) {
    let first = stream.read_u8().await.unwrap();
    let length = match stream.read_u8().await.unwrap() & 0x7F {
        126 => usize::from(stream.read_u16().await.unwrap()),
        short => usize::from(short),
    };
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await.unwrap();
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    (first & 0x0F, payload)
}

#[tokio::test]
async fn the_venue_itself_names_the_assets() {
    let rest = Listening::start().await;
    let live = live_venue(Venue::KrakenSpot, &["BTC/USD"], 1, rest.url("ws", "/x"), rest.url("http", "/kraken_spot"));
    let asked = tokio::spawn(async move { live.listed(PATIENCE).await });
    let (path, answer) = rest.request().await;
    assert_eq!(path, "/kraken_spot/0/public/AssetPairs");
    answer.ok(r#"{"error":[],"result":{"XXBTZUSD":{"wsname":"XBT/USD"}}}"#).await;
    let listed = asked.await.unwrap().unwrap();
    assert_eq!((&*listed[0].symbol, &*listed[0].asset_0), ("BTC/USD", "BTC"));
}
