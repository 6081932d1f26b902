//! Readers that follow a book from memory, and those that wait.
//!
//! Never: a verdict about how long something took.

use crate::world::{World, cut_of, delta, whole};
use dataflow::cut::BookCut;
use market::{Directory, FeedState, Side, Venue, Version};
use serde_json::{Value, json};
use server::{config, http::Reads};
use std::{sync::Arc, time::Duration};

const CHANGES: &str = "/v1/books/binance_spot/BTCUSDT/changes";

fn v(seq: u64) -> Version {
    Version::new(1, seq)
}

fn world(waiting_max: usize) -> World {
    let directory = Directory::default();
    directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
    let reads = Reads::new(&config::Http { waiting_max, ..config::Http::default() }, None);
    let mut world = World::reading(Arc::new(directory), Arc::new(reads));
    world.cut(vec![whole(0, v(10), &[(100, 1), (99, 2)], &[(101, 3)])]);
    world
}

async fn until(what: impl Fn() -> bool) {
    let waiting = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_name_the_dead_and_the_versions_between_which_they_lie() {
    let mut world = world(1);
    world.cut(vec![delta(0, v(10), v(12), &[(Side::Bid, 100, 0), (Side::Ask, 101, 5)])]);
    world.cut(vec![delta(0, v(12), v(15), &[(Side::Bid, 98, 4), (Side::Ask, 101, 3)])]);
    let told = world.json(&format!("{CHANGES}?since=1:10")).await;
    let expected = json!({
        "instrument": "binance_spot/BTCUSDT", "source": "memory", "version": "1:15", "epoch": 1, "seq": "15",
        "state": "LIVE", "flags": [], "age_ms": 11, "whole": false, "reason": null, "from": "1:10",
        "price_exponent": -2, "quantity_exponent": -3, "bids": [["0.98", "0.004"], ["1.00", "0"]], "asks": [],
        "horizon": [null, null],
    });
    assert_eq!(told, expected);
    let answer = world.get(&format!("{CHANGES}?since=1.15"), &[]).await;
    assert_eq!((answer.header("cache-control"), &answer.json()["bids"]), (Some("no-store"), &json!([])));
    for (since, reason) in [("1:9", "too_old"), ("1:13", "unknown_version"), ("1:16", "ahead"), ("2:1", "other_epoch")]
    {
        let told = world.json(&format!("{CHANGES}?since={since}")).await;
        assert_eq!((&told["whole"], &told["reason"], &told["from"]), (&json!(true), &json!(reason), &json!(null)));
        assert_eq!(told["bids"], json!([["0.99", "0.002"], ["0.98", "0.004"]]), "{since}");
    }
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_is_told_when_the_book_moves_or_its_mark_changes() {
    let mut world = world(1);
    let path = format!("{CHANGES}?since=1:10&wait_ms=30000");
    world.get("/", &[]).await;
    let waiting = tokio::spawn(world.ask(&path, &[]));
    until(|| world.reads.waiting() == 1).await;
    // One place: the next one is sent away, and one that need not wait takes none.
    let busy = world.get(&path, &[]).await;
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
    assert_eq!(world.get(&format!("{CHANGES}?since=1:10&wait_ms=0"), &[]).await.status, 200);
    assert!(!waiting.is_finished());
    world.cut(vec![delta(0, v(10), v(11), &[(Side::Bid, 100, 9)])]);
    let told: Value = waiting.await.unwrap().json();
    assert_eq!((&told["version"], &told["bids"]), (&json!("1:11"), &json!([["1.00", "0.009"]])));

    let waiting = tokio::spawn(world.ask(&path.replace("1:10", "1:11"), &[]));
    until(|| world.reads.waiting() == 1).await;
    world.get("/", &[]).await;
    world.cut(vec![cut_of(0, v(11), BookCut::Unchanged, FeedState::Gapped)]);
    let told: Value = waiting.await.unwrap().json();
    assert_eq!((&told["version"], &told["state"], &told["bids"]), (&json!("1:11"), &json!("GAPPED"), &json!([])));
    assert_eq!(world.reads.waiting(), 0);
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_ends_with_nothing_when_its_time_is_over_and_with_503_when_the_server_ends() {
    let world = world(1);
    let told = world.json(&format!("{CHANGES}?since=1:10&wait_ms=5")).await;
    assert_eq!((&told["whole"], &told["version"], &told["bids"]), (&json!(false), &json!("1:10"), &json!([])));
    let reads = Arc::clone(&world.reads);
    let waiting = tokio::spawn(world.ask(&format!("{CHANGES}?since=1:10&wait_ms=30000"), &[]));
    until(|| reads.waiting() == 1).await;
    world.end();
    assert_eq!(waiting.await.unwrap().status, 503);
}
