//! Binance spot by hand: subscription, snapshots by REST, their pace.
//!
//! Never: Binance's own addresses.

use super::{
    PATIENCE, Source, live_venue,
    venue::{Listening, Socket},
};
use connectors::live::{LiveError, LiveOptions};
use market::{Body, LegId, Sequence, Venue};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::timeout;

const SNAPSHOT: &str = r#"{"lastUpdateId":100,"bids":[["1.5","2"]],"asks":[["1.6","3"]]}"#;

fn depth(symbol: &str, first: u64, last: u64) -> String {
    let lower = symbol.to_lowercase();
    format!(
        r#"{{"stream":"{lower}@depth@100ms","data":{{"e":"depthUpdate","E":1618677372122,"s":"{symbol}","U":{first},"u":{last},"b":[["1.5","2"]],"a":[]}}}}"#
    )
}

struct Binance {
    sockets: Listening,
    rest: Listening,
}

impl Binance {
    async fn start() -> Self {
        Self { sockets: Listening::start().await, rest: Listening::start().await }
    }

    fn source(&self, instruments: &[&str], legs: usize) -> Source {
        let (ws, http) = (self.sockets.url("ws", "/binance_spot/stream"), self.rest.url("http", "/binance_spot"));
        Source::start(live_venue(Venue::BinanceSpot, instruments, legs, ws, http), LiveOptions::default())
    }

    /// The next connection, with everything acknowledged.
    async fn subscribed(&self, params: &[&str]) -> Socket {
        let mut socket = self.sockets.socket("/binance_spot/stream").await;
        let request = socket.hear().await;
        assert_eq!((&request["method"], &request["params"]), (&json!("SUBSCRIBE"), &json!(params)));
        socket.say(&json!({"result": null, "id": request["id"]}).to_string()).await;
        socket
    }
}

const BTC: [&str; 2] = ["btcusdt@depth@100ms", "btcusdt@trade"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_subscribed_to_and_its_snapshot_fetched() {
    let venue = Binance::start().await;
    let mut source = venue.source(&["BTCUSDT"], 1);
    let mut socket = venue.subscribed(&BTC).await;
    socket.say(&depth("BTCUSDT", 99, 101)).await;
    let (path, answer) = venue.rest.request().await;
    assert_eq!(path, "/binance_spot/api/v3/depth?symbol=BTCUSDT&limit=1000");
    answer.ok(SNAPSHOT).await;
    source.until("the snapshot", |source| source.snapshots() == 1);
    let kinds: Vec<_> = source.events.iter().map(|event| &event.body).collect();
    assert!(matches!(kinds[0], Body::LegUp) && matches!(kinds[1], Body::LegHeard), "{kinds:?}");
    let snapshot = source.events.iter().find_map(|event| match &event.body {
        Body::Snapshot(snapshot) => Some((event.leg, snapshot)),
        _ => None,
    });
    let (leg, snapshot) = snapshot.unwrap();
    assert_eq!((leg, snapshot.sequence), (LegId(0), Sequence::Venue { first: 100, last: 100 }));
    assert_eq!(snapshot.ticks.len(), 2);
    assert_eq!((source.deltas(), source.legs_open()), (1, 1));
    assert_eq!((source.count("snapshots"), source.count("rest_requests"), source.count("connects")), (1, 1, 1));
    let frame = source.frames.first().unwrap();
    assert_eq!(&*frame.conn, "binance_spot/a");
    assert_eq!(frame.url.as_deref(), Some(&*venue.sockets.url("ws", "/binance_spot/stream")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_book_gets_its_snapshot_all_the_same() {
    let venue = Binance::start().await;
    let mut source = venue.source(&["BTCUSDT"], 1);
    let _socket = venue.subscribed(&BTC).await;
    let (_, answer) = venue.rest.request().await;
    answer.ok(SNAPSHOT).await;
    source.until("the snapshot", |source| source.snapshots() == 1);
    assert_eq!(source.deltas(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_at_a_time_and_none_before_the_venue_allows_it() {
    let venue = Binance::start().await;
    let mut source = venue.source(&["BTCUSDT"], 1);
    let mut socket = venue.subscribed(&BTC).await;
    socket.say(&depth("BTCUSDT", 99, 101)).await;
    let (_, answer) = venue.rest.request().await;
    // Ten wishes while one is under way are none.
    (0..10).for_each(|_| source.live.request(Venue::BinanceSpot, "BTCUSDT", None));
    let second = timeout(Duration::from_millis(300), venue.rest.listener.accept()).await;
    assert!(second.is_err(), "a second request is under way");
    let refused = Instant::now();
    answer.with("429 Too Many Requests", "retry-after: 2\r\n", "{}").await;
    let (_, answer) = venue.rest.request().await;
    assert!(refused.elapsed() >= Duration::from_millis(1_900), "asked again after {:?}", refused.elapsed());
    answer.ok(SNAPSHOT).await;
    source.until("the snapshot", |source| source.snapshots() == 1);
    assert_eq!((source.count("rest_limited"), source.count("rest_requests")), (1, 2));
    // Now that it is there, a wish is one; a guard repeats what it wants.
    let mut beat = tokio::time::interval(Duration::from_millis(50));
    let next = venue.rest.request();
    tokio::pin!(next);
    let (_, answer) = loop {
        tokio::select! {
            request = &mut next => break request,
            _ = beat.tick() => source.live.request(Venue::BinanceSpot, "BTCUSDT", None),
        }
    };
    answer.ok(SNAPSHOT).await;
    source.until("the next snapshot", |source| source.snapshots() == 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_first_snapshot_is_tried_again_until_it_comes() {
    let venue = Binance::start().await;
    let mut source = venue.source(&["BTCUSDT"], 1);
    let _socket = venue.subscribed(&BTC).await;
    for status in ["503 Service Unavailable", "400 Bad Request"] {
        venue.rest.request().await.1.with(status, "", "{}").await;
    }
    drop(venue.rest.request().await.1);
    venue.rest.request().await.1.ok(SNAPSHOT).await;
    source.until("the snapshot", |source| source.snapshots() == 1);
    assert_eq!((source.count("rest_failures"), source.count("subscription_failures")), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_leg_needs_no_snapshot_and_a_reconnected_venue_does() {
    let venue = Binance::start().await;
    let mut source = venue.source(&["BTCUSDT"], 2);
    let mut a = venue.subscribed(&BTC).await;
    a.say(&depth("BTCUSDT", 99, 101)).await;
    venue.rest.request().await.1.ok(SNAPSHOT).await;
    let mut b = venue.subscribed(&BTC).await;
    b.say(&depth("BTCUSDT", 102, 102)).await;
    source.until("an update of each leg", |source| source.deltas() == 2);
    let legs: Vec<_> =
        source.events.iter().filter(|event| matches!(event.body, Body::Delta(_))).map(|event| event.leg).collect();
    assert_eq!(legs[0] != legs[1], source.legs_open() == 2);
    let second = timeout(Duration::from_millis(1_300), venue.rest.listener.accept()).await;
    assert!(second.is_err(), "the second leg asks for a snapshot");
    drop((a, b));
    let mut again = venue.subscribed(&BTC).await;
    again.say(&depth("BTCUSDT", 110, 111)).await;
    venue.rest.request().await.1.ok(SNAPSHOT).await;
    source.until("the second snapshot", |source| source.snapshots() == 2);
    assert_eq!(source.bodies(|body| matches!(body, Body::LegDown)), 2);
}

#[tokio::test]
async fn the_venue_itself_tells_assets_and_steps() {
    let venue = Binance::start().await;
    let (ws, http) = (venue.sockets.url("ws", "/x"), venue.rest.url("http", "/binance_spot/"));
    let live = live_venue(Venue::BinanceSpot, &["ABCXYZ"], 1, ws, http);
    let asked = tokio::spawn(async move { live.listed(PATIENCE).await });
    let (path, answer) = venue.rest.request().await;
    assert_eq!(path, "/binance_spot/api/v3/exchangeInfo?showPermissionSets=false");
    let filters = r#"[{"filterType":"PRICE_FILTER","tickSize":"0.01000000"}]"#;
    let pair = format!(r#"{{"symbol":"ABCXYZ","baseAsset":"ABC","quoteAsset":"XYZ","filters":{filters}}}"#);
    answer.ok(&format!(r#"{{"symbols":[{pair}]}}"#)).await;
    let listed = asked.await.unwrap().unwrap();
    assert_eq!((&*listed[0].symbol, &*listed[0].asset_0, &*listed[0].asset_1), ("ABCXYZ", "ABC", "XYZ"));
    assert_eq!(listed[0].price_step.as_deref(), Some("0.01000000"));
}

#[test]
fn what_cannot_be_connected_to_is_told_before_the_start() {
    let start = |instruments: &[&str], legs, ws: &str, http: &str| {
        let venue = live_venue(Venue::BinanceSpot, instruments, legs, ws.to_owned(), http.to_owned());
        connectors::live::Live::start(&[venue], LiveOptions::default(), std::sync::Arc::new(super::unix_ns)).err()
    };
    let (ws, http) = ("ws://127.0.0.1:9/x", "http://127.0.0.1:9");
    assert!(matches!(start(&["A"], 1, "http://x", http), Some(LiveError::Address { .. })));
    assert!(matches!(start(&["A"], 1, ws, "ws://x"), Some(LiveError::Address { .. })));
    assert!(matches!(start(&["A"], 1, "ws://[", http), Some(LiveError::Address { .. })));
    assert!(matches!(start(&[], 1, ws, http), Some(LiveError::Number { what: "instruments", .. })));
    assert!(matches!(start(&["A"], 9, ws, http), Some(LiveError::Number { what: "legs", .. })));
    let twice = live_venue(Venue::BinanceSpot, &["A"], 1, ws.to_owned(), http.to_owned());
    let started = connectors::live::Live::start(
        &[twice.clone(), twice],
        LiveOptions::default(),
        std::sync::Arc::new(super::unix_ns),
    );
    assert!(matches!(started.err(), Some(LiveError::Twice { venue: Venue::BinanceSpot })));
}
