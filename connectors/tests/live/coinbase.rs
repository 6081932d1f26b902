//! Coinbase by hand, in both protocols: subscriptions, one product anew, a hole in a connection's numbers.
//!
//! Never: Coinbase's own addresses.

use super::{
    Source, live_venue,
    venue::{Listening, Socket},
};
use connectors::{
    live::{LiveOptions, dialect::Dialect},
    raw::RawKind,
};
use futures_util::SinkExt;
use market::{Body, Venue, guard::BreakReason};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

const SYMBOLS: [&str; 4] = ["BTC-USD", "ETH-USD", "LTC-USD", "SOL-USD"];

/// A connection of Advanced Trade with its numbers.
struct Numbered {
    socket: Socket,
    number: u64,
}

impl Numbered {
    async fn say(&mut self, channel: &str, events: Value) {
        let (number, timestamp) = (self.number, "2026-01-01T00:00:00Z");
        self.number += 1;
        let message = json!({ "channel": channel, "client_id": "", "timestamp": timestamp, "sequence_num": number, "events": events });
        self.socket.say(&message.to_string()).await;
    }

    async fn book(&mut self, kind: &str, symbol: &str, quantity: &str) {
        let row = json!({ "side": "offer", "event_time": "1970-01-01T00:00:00Z", "price_level": "100.10", "new_quantity": quantity });
        self.say("l2_data", json!([{ "type": kind, "product_id": symbol, "updates": [row] }])).await;
    }

    async fn stands(&mut self, books: &[&str], trades: &[&str]) {
        let all = json!({ "heartbeats": ["heartbeats"], "level2": books, "market_trades": trades });
        self.say("subscriptions", json!([{ "subscriptions": all }])).await;
    }

    /// The next connection, with everything subscribed to and the snapshots sent.
    async fn subscribed(venue: &Listening, symbols: &[&str]) -> Self {
        let mut numbered = Self { socket: venue.socket("/coinbase/advanced").await, number: 0 };
        assert_eq!(numbered.socket.hear().await, json!({ "type": "subscribe", "channel": "heartbeats" }));
        numbered.say("subscriptions", json!([{ "subscriptions": { "heartbeats": ["heartbeats"] } }])).await;
        for channel in ["level2", "market_trades"] {
            let request = numbered.socket.hear().await;
            assert_eq!(request, json!({ "type": "subscribe", "channel": channel, "product_ids": symbols }));
        }
        for symbol in symbols {
            numbered.book("snapshot", symbol, "1").await;
        }
        numbered.stands(symbols, &[]).await;
        numbered.stands(symbols, symbols).await;
        numbered
    }
}

fn advanced(venue: &Listening, legs: usize) -> Source {
    let (ws, http) = (venue.url("ws", "/coinbase/advanced"), venue.url("http", "/coinbase"));
    Source::start(live_venue(Venue::Coinbase, &SYMBOLS, legs, ws, http), LiveOptions::default())
}

fn broken(source: &Source, reason: BreakReason) -> usize {
    source.bodies(|body| *body == Body::Broken(reason))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hole_in_the_numbers_makes_the_connection_anew() {
    let venue = Listening::start().await;
    let mut source = advanced(&venue, 1);
    let mut socket = Numbered::subscribed(&venue, &SYMBOLS).await;
    source.until("the snapshots", |source| source.snapshots() == 4);
    socket.book("update", "BTC-USD", "2").await;
    source.until("an update", |source| source.deltas() == 1);
    socket.number += 1;
    socket.book("update", "BTC-USD", "3").await;
    source.until("the loss", |source| broken(source, BreakReason::Missing) == 4);
    assert!(socket.socket.ended().await, "it is given up");
    let mut socket = Numbered::subscribed(&venue, &SYMBOLS).await;
    source.until("the snapshots again", |source| source.snapshots() == 8);
    socket.book("update", "BTC-USD", "4").await;
    source.until("an update again", |source| source.deltas() == 2);
    assert_eq!((source.count("connects"), source.count("disconnects"), source.count("resubscribes")), (2, 1, 0));
    assert_eq!(source.texts(RawKind::Send).len(), 6, "each request once per connection");
    let missing: u64 = source.decoder.counts().map(|(_, counts)| counts.missing).sum();
    assert_eq!(missing, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_product_is_subscribed_to_anew_alone() {
    let venue = Listening::start().await;
    let mut source = advanced(&venue, 1);
    let mut socket = Numbered::subscribed(&venue, &SYMBOLS).await;
    source.until("the snapshots", |source| source.snapshots() == 4);
    socket.book("update", "ETH-USD", "many").await;
    source.undecodable_expected = true;
    source.until("the break", |source| broken(source, BreakReason::Undecodable) == 1);
    let left = socket.socket.hear().await;
    assert_eq!(left, json!({ "type": "unsubscribe", "channel": "level2", "product_ids": ["ETH-USD"] }));
    socket.stands(&["BTC-USD", "LTC-USD", "SOL-USD"], &SYMBOLS).await;
    let joined = socket.socket.hear().await;
    assert_eq!(joined, json!({ "type": "subscribe", "channel": "level2", "product_ids": ["ETH-USD"] }));
    socket.book("snapshot", "ETH-USD", "5").await;
    socket.stands(&SYMBOLS, &SYMBOLS).await;
    socket.book("update", "BTC-USD", "6").await;
    source.until("the other's update", |source| source.deltas() == 1);
    assert_eq!((source.snapshots(), source.count("resubscribes"), source.count("disconnects")), (5, 1, 0));
    assert_eq!(broken(&source, BreakReason::Undecodable), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_normal_close_is_followed_by_the_whole_set_once() {
    let venue = Listening::start().await;
    let mut source = advanced(&venue, 1);
    for round in 1..=3 {
        let mut socket = Numbered::subscribed(&venue, &SYMBOLS).await;
        source.until("all snapshots", |source| source.snapshots() == 4 * round);
        assert_eq!(source.texts(RawKind::Send).len(), 3 * round);
        let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        socket.socket.stream.send(Message::Close(Some(close))).await.unwrap();
    }
    source.until("the end of all books each time", |source| broken(source, BreakReason::Unsubscribed) == 12);
    assert_eq!(source.count("disconnects"), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exchange_feed_is_spoken_if_it_is_chosen() {
    let venue = Listening::start().await;
    let (ws, http) = (venue.url("ws", "/coinbase/"), venue.url("http", "/coinbase"));
    let mut wanted = live_venue(Venue::Coinbase, &["BTC-USD"], 1, ws, http);
    wanted.dialect = Some(Dialect::Exchange);
    let mut source = Source::start(wanted, LiveOptions::default());
    let mut socket = venue.socket("/coinbase/").await;
    for channels in [json!(["level2_batch"]), json!(["matches", "heartbeat"])] {
        let request = socket.hear().await;
        assert_eq!(request, json!({ "type": "subscribe", "channels": channels, "product_ids": ["BTC-USD"] }));
    }
    socket.say(r#"{"type":"snapshot","product_id":"BTC-USD","bids":[["1.0","2"]],"asks":[]}"#).await;
    let book = json!({ "name": "level2_batch", "product_ids": ["BTC-USD"] });
    let matches = json!({ "name": "matches", "product_ids": ["BTC-USD"] });
    for channels in [json!([book]), json!([book, matches])] {
        socket.say(&json!({ "type": "subscriptions", "channels": channels }).to_string()).await;
    }
    socket
        .say(
            r#"{"type":"l2update","product_id":"BTC-USD","changes":[["buy","1.1","1"]],"time":"2026-01-01T00:00:00Z"}"#,
        )
        .await;
    source.until("the update", |source| source.deltas() == 1);
    assert_eq!((source.snapshots(), source.count("subscription_failures")), (1, 0));
}
