//! Slow readers and waiting subscribers.
//!
//! Never: an assertion that depends on how fast this machine is.

use super::{
    binance::{Locals, VENUE},
    captures::capture,
    client::Ws,
    corpus, market, until,
};
use connectors::simulator::VenueSim;
use market::Venue;
use std::time::Duration;

#[tokio::test]
async fn a_reader_that_stops_is_closed_at_its_bound_and_disturbs_nobody() {
    let mut options = market(5_000);
    options.connection_bytes = 1 << 20;
    let sim = VenueSim::start(options).await.unwrap();
    let path = "/binance_spot/stream?streams=btcusdt@depth/ethusdt@depth/solusdt@depth/btcusd@depth";
    let slow = Ws::open(sim.address(), path).await;
    let mut quick = Ws::open(sim.address(), path).await;
    let mut locals = Locals::default();
    while locals.0.len() < 4 {
        let text = quick.text().await;
        locals.take(&text);
    }
    for symbol in ["BTCUSDT", "ETHUSDT", "SOLUSDT", "BTCUSD"] {
        locals.fetch(sim.address(), symbol).await;
    }
    while sim.state().slow == 0 {
        let text = quick.text().await;
        locals.take(&text);
    }
    sim.pause();
    locals.catch_up(&mut quick, &sim).await;
    locals.assert_are(&sim);
    assert!(locals.0.values().all(|local| local.gaps == 0));
    until("the slow one is gone", || sim.state().connections.len() == 1).await;
    assert_eq!((sim.state().slow, sim.state().connections[0].connection), (1, 2));
    drop(slow);
}

#[tokio::test]
async fn without_a_pace_the_tape_waits_for_readers_but_not_for_ever() {
    let Some(file) = corpus("binance_spot/binance_spot_btcusdt_2024-08-08.frames.jsonl.zst") else { return };
    let mut options = capture(file, Venue::BinanceSpot, 2);
    options.connection_bytes = 64 << 10;
    options.patience = Duration::from_secs(2);
    let sim = VenueSim::start(options).await.unwrap();
    let path = "/binance_spot/stream?streams=btcusdt@depth@100ms/btcusdt@bookTicker";
    let slow = Ws::open(sim.address(), path).await;
    let mut quick = Ws::open(sim.address(), path).await;
    let mut locals = Locals::default();
    locals.take(&quick.text().await);
    locals.fetch(sim.address(), "BTCUSDT").await;
    while !sim.state().ended {
        // Ends with the capture: what is left then is less than the bound.
        let Ok(text) = tokio::time::timeout(Duration::from_millis(500), quick.text()).await else { continue };
        locals.take(&text);
    }
    locals.catch_up(&mut quick, &sim).await;
    locals.assert_are(&sim);
    assert_eq!((locals.0["BTCUSDT"].gaps, sim.state().slow), (0, 1));
    assert_eq!(sim.state().opened, 2);
    assert_eq!(super::reference(&sim, VENUE, "BTCUSDT").last_update_id, locals.0["BTCUSDT"].last);
    drop(slow);
}

#[tokio::test]
async fn nothing_is_served_before_enough_have_subscribed() {
    let mut options = market(2_000);
    options.wait_for_subscribers = 2;
    let sim = VenueSim::start(options).await.unwrap();
    let mut first = Ws::open(sim.address(), "/binance_spot/ws/btcusdt@depth").await;
    let mut second = Ws::open(sim.address(), "/kraken_spot/v2").await;
    second.next(|value| value["channel"] == "status").await;
    until("both are open", || sim.state().opened == 2).await;
    assert_eq!((sim.state().position, sim.state().started), (0, false));
    second.send(&super::kraken::subscribe("book", &["BTC/USDT"], 10)).await;
    first.next(|value| value["e"] == "depthUpdate").await;
    assert!(sim.state().started);
}
