//! Books, state, pause and resume over HTTP, and requests that are none.
//!
//! Never: a venue's rule.

use super::{
    LONG,
    client::{Ws, get, request},
    market, reference, until,
};
use connectors::simulator::VenueSim;
use hyper::Method;
use market::Venue;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[tokio::test]
async fn books_and_state_are_told_as_json() {
    let sim = VenueSim::start(market(2_000)).await.unwrap();
    let mut ws = Ws::open(sim.address(), "/binance_spot/ws/btcusdt@trade").await;
    ws.next(|_| true).await;
    let paused = request(Method::POST, sim.address(), "/sim/pause", "").await.body;
    assert_eq!((&paused["paused"], &paused["started"]), (&json!(true), &json!(true)));
    let state = get(sim.address(), "/sim/state").await.body;
    assert_eq!((state["position"].as_u64(), &state["ended"]), (Some(sim.state().position), &json!(false)));
    assert_eq!(state["connections"][0]["subscriptions"], json!(["btcusdt@trade"]));
    let books = get(sim.address(), "/sim/books").await.body;
    assert_eq!(books.as_array().unwrap().len(), 8, "four pairs at two venues");
    let expected = reference(&sim, Venue::KrakenSpot, "BTC/USD");
    let book = books.as_array().unwrap().iter().find(|book| book["symbol"] == "BTC/USD").unwrap();
    assert_eq!((&book["venue"], &book["last_update_id"]), (&json!("kraken_spot"), &json!(null)));
    assert_eq!(
        book["bids"],
        json!(expected.bids.iter().map(|(price, quantity)| [price, quantity]).collect::<Vec<_>>())
    );
    let position = sim.state().position;
    assert_eq!(request(Method::POST, sim.address(), "/sim/resume", "").await.body["paused"], json!(false));
    until("it goes on", || sim.state().position > position).await;
}

#[tokio::test]
async fn requests_that_are_none_are_answered_and_harm_nobody() {
    let sim = VenueSim::start(market(0)).await.unwrap();
    assert_eq!(get(sim.address(), "/").await.status, 200);
    assert_eq!(get(sim.address(), "/nothing").await.status, 404);
    assert_eq!(get(sim.address(), "/sim/pause").await.status, 405);
    assert_eq!(get(sim.address(), "/kraken_spot/v2").await.status, 400, "no upgrade");
    let huge = "x".repeat(100_000);
    assert_eq!(request(Method::POST, sim.address(), "/sim/faults", &huge).await.status, 413);
    let mut raw = TcpStream::connect(sim.address()).await.unwrap();
    raw.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(LONG, raw.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400"));
    let mut ws = Ws::open(sim.address(), "/kraken_spot/v2").await;
    ws.next(|value| value["channel"] == "status").await;
}
