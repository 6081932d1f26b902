//! Each fault fires, is counted, and touches nothing else.
//!
//! Never: a fault that is only set.

use super::{
    binance::{Local, VENUE},
    client::{Ws, get, request},
    kraken, market, reference, until,
};
use connectors::simulator::{Ending, Fault, FaultError, VenueSim};
use futures_util::StreamExt;
use hyper::Method;
use market::Venue;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::{Error, Message};

fn fired(sim: &VenueSim, name: &str) -> u64 {
    sim.faults().fired.get(name).copied().unwrap_or(0)
}

const DEPTHS: &str = "/binance_spot/stream?streams=btcusdt@depth@100ms/ethusdt@depth@100ms";

#[tokio::test]
async fn connections_are_ended_one_or_all_with_or_without_a_word() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    let mut binance = [Ws::open(sim.address(), DEPTHS).await, Ws::open(sim.address(), DEPTHS).await];
    let mut kraken = Ws::open(sim.address(), "/kraken_spot/v2").await;
    until("all are open", || sim.state().opened == 3).await;
    let disconnect = |connection, ending| Fault::Disconnect { venue: VENUE, connection, ending };
    sim.set_fault(disconnect(Some(2), Ending::Abort)).unwrap();
    assert_eq!(binance[1].end().await, None);
    until("it is gone", || sim.state().connections.len() == 2).await;
    binance[1] = Ws::open(sim.address(), DEPTHS).await;
    until("it is back, as the third", || sim.state().connections.iter().any(|open| open.connection == 3)).await;
    sim.set_fault(disconnect(Some(3), Ending::Normal)).unwrap();
    assert_eq!(binance[1].end().await, Some(1000));
    sim.set_fault(disconnect(None, Ending::GoingAway)).unwrap();
    assert_eq!(binance[0].end().await, Some(1001));
    kraken.send(&json!({"method": "ping", "req_id": 1})).await;
    kraken.next(|value| value["method"] == "pong").await;
    assert!(fired(&sim, "disconnect") >= 3);
}

#[tokio::test]
async fn new_connections_are_refused_for_a_while() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    let mut open = Ws::open(sim.address(), "/kraken_spot/v2").await;
    sim.set_fault(Fault::RefuseConnections { venue: Venue::KrakenSpot, for_ms: 60_000 }).unwrap();
    match Ws::try_open(sim.address(), "/kraken_spot/v2").await {
        Err(Error::Http(response)) => assert_eq!(response.status(), 503),
        other => panic!("{:?}", other.map(|_| "open")),
    }
    drop(Ws::open(sim.address(), DEPTHS).await);
    open.send(&json!({"method": "ping"})).await;
    open.next(|value| value["method"] == "pong").await;
    assert_eq!(fired(&sim, "refuse_connections"), 1);
    sim.clear_faults();
    drop(Ws::open(sim.address(), "/kraken_spot/v2").await);
}

/// The last id of the next depth event of Bitcoin.
async fn id(ws: &mut Ws) -> u64 {
    ws.next(|value| value["data"]["s"] == "BTCUSDT").await["data"]["u"].as_u64().unwrap()
}

/// Reads depth events of Bitcoin until their chain breaks; gives the ids around the hole. Ether's never breaks.
async fn broken(ws: &mut Ws, mut last: u64) -> (u64, u64) {
    let mut other = None;
    loop {
        let data = ws.next(|value| value["data"]["e"] == "depthUpdate").await["data"].clone();
        let (first, final_id) = (data["U"].as_u64().unwrap(), data["u"].as_u64().unwrap());
        if data["s"] == "BTCUSDT" {
            if first != last + 1 {
                return (last, first);
            }
            last = final_id;
        } else {
            assert!(other.is_none_or(|other: u64| first == other + 1), "the other symbol has no hole");
            other = Some(final_id);
        }
    }
}

#[tokio::test]
async fn dropped_depth_is_a_hole_of_one_symbol_and_one_connection() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let (mut first, mut second) = (Ws::open(sim.address(), DEPTHS).await, Ws::open(sim.address(), DEPTHS).await);
    let ids = (id(&mut first).await, id(&mut second).await);
    let drop = |connection, count| Fault::DropDepth { venue: VENUE, symbol: "BTCUSDT".to_owned(), count, connection };
    sim.set_fault(drop(None, 2)).unwrap();
    let holes = tokio::join!(broken(&mut first, ids.0), broken(&mut second, ids.1));
    assert_eq!(holes.0.1, holes.1.1, "the same for both");
    until("two updates are dropped", || fired(&sim, "drop_depth") == 2).await;
    let ids = (id(&mut first).await, id(&mut second).await);
    sim.set_fault(drop(Some(2), 1)).unwrap();
    let (_, after) = broken(&mut second, ids.1).await;
    assert_eq!(fired(&sim, "drop_depth"), 3);
    // The first connection passes the same place without a hole.
    let mut last = ids.0;
    while last < after {
        let data = first.next(|value| value["data"]["s"] == "BTCUSDT").await["data"].clone();
        assert_eq!(data["U"], last + 1);
        last = data["u"].as_u64().unwrap();
    }
    assert!(sim.faults().faults.iter().all(|fault| !fault.active));
}

#[tokio::test]
async fn a_corrupt_checksum_is_seen_by_its_symbol_alone() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    ws.send(&kraken::subscribe("book", &["BTC/USDT", "ETH/USDT"], 25)).await;
    let mut local = kraken::Local::new(25);
    sim.set_fault(Fault::CorruptChecksum {
        venue: Venue::KrakenSpot,
        symbol: "BTC/USDT".to_owned(),
        count: 2,
        connection: None,
    })
    .unwrap();
    while local.failed < 2 || local.matched < 100 {
        local.take(&ws.text().await);
    }
    assert_eq!((local.failed, fired(&sim, "corrupt_checksum")), (2, 2));
    // A subscription on the same socket heals it.
    ws.send(&json!({"method": "unsubscribe", "params": {"channel": "book", "symbol": ["BTC/USDT"], "depth": 25}}))
        .await;
    ws.send(&kraken::subscribe("book", &["BTC/USDT"], 25)).await;
    while local.snapshots < 3 {
        local.take(&ws.text().await);
    }
    sim.pause();
    kraken::drain(&mut ws, &mut local, 9).await;
    assert_eq!(local.failed, 2);
    for (symbol, book) in &local.books {
        book.assert_is(&reference(&sim, Venue::KrakenSpot, symbol), 25);
    }
}

#[tokio::test]
async fn a_dropped_kraken_update_is_found_by_the_checksum() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    ws.send(&kraken::subscribe("book", &["BTC/USDT"], 10)).await;
    let mut local = kraken::Local::new(10);
    local.take(&ws.text().await);
    sim.set_fault(Fault::DropDepth {
        venue: Venue::KrakenSpot,
        symbol: "BTC/USDT".to_owned(),
        count: 5,
        connection: Some(1),
    })
    .unwrap();
    while local.failed == 0 {
        local.take(&ws.text().await);
    }
    assert_eq!(fired(&sim, "drop_depth"), 5);
}

async fn depth_id(sim: &VenueSim) -> (u64, Value) {
    let body = get(sim.address(), "/binance_spot/api/v3/depth?symbol=BTCUSDT&limit=5000").await.body;
    (body["lastUpdateId"].as_u64().unwrap(), body)
}

#[tokio::test]
async fn old_snapshots_are_of_the_faults_moment_or_of_some_updates_ago() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), DEPTHS).await;
    let mut ids = Vec::new();
    let stale =
        |count, updates_ago| Fault::StaleSnapshots { venue: VENUE, symbol: "BTCUSDT".to_owned(), count, updates_ago };
    sim.set_fault(stale(2, None)).unwrap();
    let then = reference(&sim, VENUE, "BTCUSDT").last_update_id.unwrap();
    while ids.len() < 40 || ids.last() <= Some(&then) {
        ids.push(id(&mut ws).await);
    }
    sim.pause();
    let now = reference(&sim, VENUE, "BTCUSDT");
    while ids.last() < now.last_update_id.as_ref() {
        ids.push(id(&mut ws).await);
    }
    let (first, second) = (depth_id(&sim).await, depth_id(&sim).await);
    assert!(first.0 <= then && Some(first.0) < now.last_update_id, "{} {then}", first.0);
    assert_eq!(first, second, "it stays the same");
    assert_eq!(Some(depth_id(&sim).await.0), now.last_update_id, "two were asked for");

    sim.set_fault(stale(1, Some(20))).unwrap();
    let (ago, body) = depth_id(&sim).await;
    assert_eq!(ago, ids[ids.len() - 21], "twenty updates before the last");
    assert_eq!(fired(&sim, "stale_snapshots"), 3);
    assert_eq!(sim.set_fault(stale(1, Some(65))), Err(FaultError::OutOfRange("updates_ago")));

    // It is the book of that moment: with the updates since, it becomes the present one.
    let mut local = Local::default();
    local.snapshot(&body);
    sim.resume();
    let mut again = Ws::open(sim.address(), DEPTHS).await;
    let event = again.next(|value| value["data"]["s"] == "BTCUSDT").await["data"].clone();
    local.event(&event);
    assert_eq!(local.gaps, 1, "the stream is ahead of an old snapshot");
}

#[tokio::test]
async fn rest_fails_as_often_as_it_was_told_to() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    let fail = |venue, status, retry_after_s| Fault::FailRest { venue, count: 1, status, retry_after_s };
    sim.set_fault(fail(VENUE, 429, Some(3))).unwrap();
    sim.set_fault(fail(VENUE, 500, None)).unwrap();
    sim.set_fault(fail(Venue::KrakenSpot, 503, None)).unwrap();
    let path = "/binance_spot/api/v3/depth?symbol=BTCUSDT";
    let answers = [get(sim.address(), path).await, get(sim.address(), path).await, get(sim.address(), path).await];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [429, 500, 200]);
    assert_eq!(
        (&answers[0].headers["retry-after"], answers[0].body["code"].as_i64()),
        (&"3".parse().unwrap(), Some(-1003))
    );
    let status = async || get(sim.address(), "/kraken_spot/0/public/SystemStatus").await.status;
    assert_eq!((status().await, status().await), (503, 200));
    assert_eq!(fired(&sim, "fail_rest"), 3);
}

#[tokio::test]
async fn restarted_ids_go_on_from_the_low_number_and_rest_follows() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), &format!("{DEPTHS}/btcusdt@bookTicker")).await;
    let before = ws.next(|value| value["data"]["s"] == "BTCUSDT").await["data"]["u"].as_u64().unwrap();
    sim.set_fault(Fault::ResetIds { venue: VENUE, symbol: "BTCUSDT".to_owned(), next_id: 624_086 }).unwrap();
    let is_depth = |value: &Value| value["data"]["e"] == "depthUpdate" && value["data"]["s"] == "BTCUSDT";
    let first = loop {
        let data = ws.next(is_depth).await["data"].clone();
        if data["u"].as_u64().unwrap() < before {
            break data;
        }
    };
    assert_eq!(first["U"], 624_086);
    let mut local = Local::default();
    local.event(&first);
    let (last, body) = depth_id(&sim).await;
    assert!((624_085..before).contains(&last), "{last}");
    local.snapshot(&body);
    while local.applied < 50 {
        let data = ws.next(|value| value["data"]["s"] == "BTCUSDT").await["data"].clone();
        if data["e"] == "depthUpdate" {
            local.event(&data);
        } else {
            assert!(data["u"].as_u64().unwrap() < before, "the ticker has the new ids, too");
        }
    }
    sim.pause();
    let now = reference(&sim, VENUE, "BTCUSDT");
    while local.last < now.last_update_id {
        local.event(&ws.next(is_depth).await["data"].clone());
    }
    assert_eq!(local.gaps, 0);
    local.book.assert_is(&now, usize::MAX);
    assert_eq!(fired(&sim, "reset_ids"), 1);
}

#[tokio::test]
async fn a_silent_symbol_and_a_silent_connection_still_answer_pings() {
    let mut options = market(2_000);
    options.heartbeat_interval = Duration::from_millis(20);
    let sim = VenueSim::start(options).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    let mut local = kraken::Local::new(10);
    ws.send(&kraken::subscribe("book", &["BTC/USDT", "ETH/USDT"], 10)).await;
    while local.snapshots < 2 {
        local.take(&ws.text().await);
    }
    let silence = |connection, symbol: Option<&str>| Fault::Silence {
        venue: Venue::KrakenSpot,
        connection,
        symbol: symbol.map(str::to_owned),
        for_ms: None,
    };
    sim.set_fault(silence(None, Some("BTC/USDT"))).unwrap();
    kraken::drain(&mut ws, &mut local, 1).await;
    let book = local.books["BTC/USDT"].clone();
    let (seen, beats) = (local.matched, local.heartbeats);
    while local.matched < seen + 50 || local.heartbeats == beats {
        local.take(&ws.text().await);
    }
    assert_eq!(local.books["BTC/USDT"], book, "nothing more of it");
    assert!(fired(&sim, "silence") > 0);

    let mut second = Ws::open(sim.address(), "/kraken_spot/v2").await;
    second.next(|value| value["channel"] == "status").await;
    sim.set_fault(silence(Some(1), None)).unwrap();
    kraken::drain(&mut ws, &mut local, 2).await;
    ws.send(&kraken::subscribe("trade", &["BTC/USDT"], 0)).await;
    ws.send(&json!({"method": "ping", "req_id": 3})).await;
    let only: Value = serde_json::from_str(&ws.text().await).unwrap();
    assert_eq!((&only["method"], &only["req_id"]), (&json!("pong"), &json!(3)), "no reply, no heartbeat, no data");
    second.send(&kraken::subscribe("book", &["ETH/USDT"], 10)).await;
    second.next(|value| value["type"] == "update").await;
}

#[tokio::test]
async fn a_flood_of_pings_is_all_that_comes_for_a_while() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), DEPTHS).await;
    ws.next(|_| true).await;
    let (begun, mut pings, mut texts) = (Instant::now(), 0_u64, 0_u64);
    sim.set_fault(Fault::PingFlood { venue: VENUE, connection: None, every_ms: 2, for_ms: 300 }).unwrap();
    loop {
        match ws.0.next().await.unwrap().unwrap() {
            Message::Ping(_) => pings += 1,
            Message::Text(_) if pings == 0 => {}
            Message::Text(_) => {
                texts += 1;
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(begun.elapsed() >= Duration::from_millis(300), "texts come again afterwards");
    assert_eq!((texts, fired(&sim, "ping_flood")), (1, pings));
    assert!(pings >= 5, "{pings}");
    until("each is answered", || sim.state().connections.iter().any(|open| open.pongs == pings)).await;
}

#[tokio::test]
async fn faults_are_set_from_another_process_and_refused_with_a_reason() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    let post = async |body: &str| request(Method::POST, sim.address(), "/sim/faults", body).await;
    let set = post("{\"fault\":\"drop_depth\",\"venue\":\"binance\",\"symbol\":\"BTCUSDT\"}").await;
    assert_eq!((set.status, set.body), (200, json!({"id": 1})));
    let report = get(sim.address(), "/sim/faults").await.body;
    assert_eq!(
        report["faults"][0],
        json!({"id": 1, "fault": "drop_depth", "venue": "binance_spot", "symbol": "BTCUSDT", "count": 1,
            "connection": null, "fired": 0, "active": true})
    );
    for (body, words) in [
        ("{\"fault\":\"drop_depth\",\"venue\":\"binance\",\"symbol\":\"NOPE\"}", "lists no such symbol"),
        ("{\"fault\":\"fail_rest\",\"venue\":\"binance\",\"status\":404}", "status is out of its range"),
        ("{\"fault\":\"ping_flood\",\"venue\":\"kraken\",\"every_ms\":0,\"for_ms\":1}", "every_ms is out of its range"),
        ("{\"fault\":\"nothing\"}", "unknown variant"),
        ("{\"fault\":\"disconnect\",\"venue\":\"kraken\",\"who\":1}", "unknown field"),
        ("", "EOF"),
    ] {
        let refused = post(body).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.body["error"].as_str().unwrap().contains(words), "{}", refused.body);
    }
    assert_eq!(request(Method::DELETE, sim.address(), "/sim/faults", "").await.status, 200);
    assert!(sim.faults().faults.iter().all(|fault| !fault.active));
}
