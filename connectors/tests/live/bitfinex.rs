//! Bitfinex by hand: channels, one book anew, a hole in a connection's numbers.
//!
//! Never: Bitfinex' own addresses.

use super::{
    Source, live_venue,
    venue::{Listening, Socket},
};
use connectors::{live::LiveOptions, raw::RawKind};
use market::{Body, Venue, guard::BreakReason};
use serde_json::{Value, json};

const SYMBOLS: [&str; 2] = ["tBTCUSD", "tDUSK:USD"];

/// A connection with its numbers and its channels.
struct Numbered {
    socket: Socket,
    number: u64,
    channel: u64,
}

impl Numbered {
    /// The next request that is no ping; pings are answered.
    async fn hear(&mut self) -> Value {
        loop {
            let request = self.socket.hear().await;
            if request["event"] != "ping" {
                return request;
            }
            self.socket.say(&json!({ "event": "pong", "cid": request["cid"] }).to_string()).await;
        }
    }

    async fn array(&mut self, channel: u64, rest: &str) {
        self.number += 1;
        let text = format!("[{channel},{rest},{}]", self.number);
        self.socket.say(&text).await;
    }

    /// Serves one subscription; the channel's id.
    async fn serve(&mut self, request: &Value) -> u64 {
        self.channel += 1;
        let (channel, symbol, id) = (&request["channel"], &request["symbol"], self.channel);
        let named = json!({ "event": "subscribed", "channel": channel, "chanId": id, "symbol": symbol });
        self.socket.say(&named.to_string()).await;
        if channel == "book" {
            self.array(id, "[[100,1,0.5],[101,1,-0.5]]").await;
        }
        id
    }

    /// The next connection, with everything subscribed to, and the books' channels.
    async fn subscribed(venue: &Listening, first: u64) -> (Self, Vec<u64>) {
        let mut numbered = Self { socket: venue.socket("/bitfinex/ws/2").await, number: 0, channel: first };
        let info = json!({ "event": "info", "version": 2, "platform": { "status": 1 } });
        numbered.socket.say(&info.to_string()).await;
        assert_eq!(numbered.hear().await, json!({ "event": "conf", "flags": 196_608 }));
        let mut books = Vec::new();
        for symbol in SYMBOLS {
            for channel in ["book", "trades"] {
                let request = numbered.hear().await;
                assert_eq!((&request["event"], &request["channel"]), (&json!("subscribe"), &json!(channel)));
                assert_eq!(request["symbol"], symbol);
                let id = numbered.serve(&request).await;
                books.extend((channel == "book").then_some(id));
            }
        }
        (numbered, books)
    }
}

fn source(venue: &Listening) -> Source {
    let (ws, http) = (venue.url("ws", "/bitfinex/ws/2"), venue.url("http", "/bitfinex"));
    Source::start(live_venue(Venue::Bitfinex, &SYMBOLS, 1, ws, http), LiveOptions::default())
}

fn broken(source: &Source, reason: BreakReason) -> usize {
    source.bodies(|body| *body == Body::Broken(reason))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_checksum_brings_that_book_alone_on_another_channel() {
    let venue = Listening::start().await;
    let mut source = source(&venue);
    let (mut socket, books) = Numbered::subscribed(&venue, 10).await;
    source.until("the snapshots", |source| source.snapshots() == 2);
    socket.array(books[1], r#""cs",1"#).await;
    source.until("the break", |source| broken(source, BreakReason::Checksum) == 1);
    assert_eq!(socket.hear().await, json!({ "event": "unsubscribe", "chanId": books[1] }));
    let ended = json!({ "event": "unsubscribed", "status": "OK", "chanId": books[1] });
    socket.socket.say(&ended.to_string()).await;
    let request = socket.hear().await;
    assert_eq!((&request["channel"], &request["symbol"]), (&json!("book"), &json!("tDUSK:USD")));
    let id = socket.serve(&request).await;
    assert!(!books.contains(&id));
    let right = crc32fast::hash(b"100:0.5:101:-0.5").cast_signed();
    socket.array(id, &format!(r#""cs",{right}"#)).await;
    socket.array(id, "[100,1,0.6]").await;
    socket.array(books[0], "[100,1,0.7]").await;
    source.until("updates of both", |source| source.deltas() == 2);
    assert_eq!((source.snapshots(), source.count("resubscribes"), source.count("disconnects")), (3, 1, 0));
    let matched: u64 = source.decoder.counts().map(|(_, counts)| counts.checksums_matched).sum();
    assert_eq!(matched, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hole_in_the_numbers_makes_the_connection_anew() {
    let venue = Listening::start().await;
    let mut source = source(&venue);
    let (mut socket, books) = Numbered::subscribed(&venue, 10).await;
    source.until("the snapshots", |source| source.snapshots() == 2);
    socket.number += 1;
    socket.array(books[0], "[100,1,0.7]").await;
    source.until("the loss", |source| broken(source, BreakReason::Missing) == 2);
    assert!(socket.socket.ended().await, "it is given up");
    let (mut socket, books) = Numbered::subscribed(&venue, 20).await;
    source.until("the snapshots again", |source| source.snapshots() == 4);
    socket.array(books[0], "[100,1,0.7]").await;
    source.until("an update", |source| source.deltas() == 1);
    assert_eq!((source.count("connects"), source.count("resubscribes")), (2, 0));
    let asked = source.texts(RawKind::Send).iter().filter(|text| !text.contains("ping")).count();
    assert_eq!(asked, 10, "each request once per connection");
}
