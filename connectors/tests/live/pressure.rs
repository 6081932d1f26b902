//! A source that does not keep up, and messages that are too long.
//!
//! Never: a frame that is lost without its connection's end.

use super::{
    PATIENCE, Source,
    kraken_spot::{book, reply},
    live_venue,
    venue::{Listening, Socket},
};
use connectors::{live::LiveOptions, raw::RawKind};
use futures_util::{SinkExt, StreamExt};
use market::{Body, Venue};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Message;

/// Bytes of one heartbeat with padding.
const BYTES: usize = 4 << 10;

fn numbered(number: usize) -> String {
    let padding = "x".repeat(BYTES);
    format!(r#"{{"channel":"heartbeat","number":{number},"padding":"{padding}"}}"#)
}

async fn opened(sockets: &Listening) -> Socket {
    let mut socket = sockets.socket("/v2").await;
    let request = socket.hear().await;
    socket.say(&reply(&request, "BTC/USD")).await;
    socket.say(&book("snapshot", "BTC/USD")).await;
    let request = socket.hear().await;
    socket.say(&reply(&request, "BTC/USD")).await;
    socket
}

fn source(sockets: &Listening, options: LiveOptions) -> Source {
    let (ws, http) = (sockets.url("ws", "/v2"), sockets.url("http", ""));
    Source::start(live_venue(Venue::KrakenSpot, &["BTC/USD"], 1, ws, http), options)
}

async fn eventually(what: &str, there: impl Fn() -> bool) {
    let started = Instant::now();
    while !there() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_stops_the_reading_and_loses_nothing() {
    const MESSAGES: usize = 10_000;
    let sockets = Listening::start().await;
    let options = LiveOptions { queue_bytes_max: 64 << 10, held_ms_max: 600_000 };
    let mut source = source(&sockets, options);
    let mut socket = opened(&sockets).await;
    let writer = tokio::spawn(async move {
        for number in 0..MESSAGES {
            socket.say(&numbered(number)).await;
        }
        socket
    });
    eventually("the queue is full", || source.count("backpressure_waits") > 0).await;
    let read = source.count("messages");
    assert!(read <= 3 + 64 / 4 + 1, "{read} messages were read into a queue of 64 KiB");
    assert!(!writer.is_finished(), "40 MB fit into the sockets' buffers");
    source.until("every message", |source| source.texts(RawKind::Ws).len() == MESSAGES + 3);
    for (number, text) in source.texts(RawKind::Ws).iter().skip(3).enumerate() {
        assert!(text.starts_with(&format!(r#"{{"channel":"heartbeat","number":{number},"#)), "{number}");
    }
    let _socket = writer.await.unwrap();
    assert_eq!((source.count("backpressure_drops"), source.count("disconnects")), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_stays_full_ends_the_connection_and_the_books_are_built_anew() {
    let sockets = Listening::start().await;
    let options = LiveOptions { queue_bytes_max: 64 << 10, held_ms_max: 300 };
    let mut source = source(&sockets, options);
    let socket = opened(&sockets).await;
    let (mut write, mut read) = socket.stream.split();
    let writer = tokio::spawn(async move {
        for number in 0.. {
            if write.send(Message::text(numbered(number))).await.is_err() {
                return;
            }
        }
    });
    eventually("the connection is given up", || source.count("backpressure_drops") == 1).await;
    while let Some(Ok(_)) = read.next().await {}
    writer.await.unwrap();
    source.until("the end", |source| source.kinds().contains(&RawKind::Close));
    let _socket = opened(&sockets).await;
    source.until("the book", |source| source.snapshots() == 2);
    let told: Vec<_> = source
        .events
        .iter()
        .filter_map(|event| match event.body {
            Body::LegUp => Some("up"),
            Body::LegDown => Some("down"),
            Body::Snapshot(_) => Some("snapshot"),
            Body::Broken(_) => Some("broken"),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["up", "snapshot", "down", "broken", "up", "snapshot"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_long_ends_the_connection() {
    let sockets = Listening::start().await;
    let mut source = source(&sockets, LiveOptions::default());
    let mut socket = opened(&sockets).await;
    source.until("the book", |source| source.snapshots() == 1);
    let long = "x".repeat(connectors::live::socket::MESSAGE_BYTES_MAX + 1);
    let (mut write, mut read) = socket.stream.split();
    let writer = tokio::spawn(async move { drop(write.send(Message::text(long)).await) });
    while let Some(Ok(_)) = read.next().await {}
    writer.await.unwrap();
    socket = opened(&sockets).await;
    source.until("the next book", |source| source.snapshots() == 2);
    assert_eq!(source.count("disconnects"), 1);
    assert!(source.texts(RawKind::Ws).iter().all(|text| text.len() < 1_000));
    drop(source);
    assert!(socket.ended().await, "the connection ends with its source");
}
