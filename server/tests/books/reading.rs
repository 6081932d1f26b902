//! Forms, tags, pairs, and what is refused.
//!
//! Never: two contents under one tag.

use crate::world::{World, cut_of, whole};
use dataflow::cut::BookCut;
use market::{Directory, FeedState, Side, Venue, Version};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};
use wire::MEDIA_TYPE;

const BOOK: &str = "/v1/books/binance_spot/BTCUSDT";
const JSON: &str = "application/json";

fn directory() -> Arc<Directory> {
    let directory = Directory::default();
    directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
    directory.intern(Venue::KrakenSpot, "XBT/USDT", "XBT", "USDT").unwrap();
    directory.intern(Venue::KrakenSpot, "ETH/USDT", "ETH", "USDT").unwrap();
    Arc::new(directory)
}

fn world() -> World {
    let mut world = World::start(directory());
    world.cut(vec![
        whole(0, Version::new(1, 9_007_199_254_740_993), &[(6_173_763, 500), (6_173_700, 1)], &[(6_173_764, 750)]),
        whole(1, Version::new(3, 7), &[(6_173_760, 2)], &[(6_173_770, 3)]),
    ]);
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_and_bytes_say_the_same() {
    let world = world();
    let text = world.json(BOOK).await;
    assert_eq!(text["version"], "1:9007199254740993");
    assert_eq!((&text["epoch"], &text["seq"]), (&json!(1), &json!("9007199254740993")));
    assert_eq!((&text["source"], &text["state"], &text["flags"]), (&json!("memory"), &json!("LIVE"), &json!([])));
    assert_eq!(text["bids"], json!([["61737.63", "0.500"], ["61737.00", "0.001"]]));
    assert_eq!((&text["asks"], &text["horizon"]), (&json!([["61737.64", "0.750"]]), &json!([null, null])));
    for (accept, name) in [(MEDIA_TYPE, MEDIA_TYPE), ("application/octet-stream", "application/octet-stream")] {
        let answer = world.get(BOOK, &[("accept", accept)]).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(name)));
        let books = receiver::books_of(&answer.body).unwrap();
        let [book] = &books[..] else { panic!("{books:?}") };
        assert_eq!((&*book.instrument, book.feed.state), ("binance_spot/BTCUSDT", FeedState::Live));
        assert_eq!(book.book.version(), Version::new(1, 9_007_199_254_740_993));
        let row = |level: market::Level| {
            let scale = book.book.scale();
            json!([scale.price_text(level.tick_index), scale.quantity_text(level.quantity)])
        };
        let rows = Side::BOTH.map(|side| book.book.levels(side).map(row).collect::<Vec<_>>());
        assert_eq!(rows.map(serde_json::Value::from), [text["bids"].clone(), text["asks"].clone()]);
    }
    // Of an instrument without a book there is an explicit empty one, in both forms.
    let none = world.json("/v1/books/kraken_spot/ETH/USDT").await;
    assert_eq!((&none["version"], &none["bids"], &none["state"]), (&json!(null), &json!([]), &json!("SYNCING")));
    let none = world.get("/v1/books/kraken_spot/ETH/USDT", &[("accept", MEDIA_TYPE)]).await;
    assert_eq!(receiver::books_of(&none.body).unwrap()[0].book.levels(Side::Bid).len(), 0);
    assert_eq!(none.header("etag"), None);
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_content_has_a_tag_of_its_own() {
    let mut world = world();
    let tag = "\"1:9007199254740993\"";
    let mut tags = BTreeSet::new();
    for path in [BOOK.to_owned(), format!("{BOOK}?depth=1"), format!("{BOOK}?depth=2")] {
        for accept in [JSON, MEDIA_TYPE, "application/octet-stream"] {
            let answer = world.get(&path, &[("accept", accept)]).await;
            assert_eq!((answer.header("vary"), answer.header("cache-control")), (Some("accept"), Some("no-cache")));
            assert!(tags.insert(answer.tag()), "{path} {accept}: {tags:?}");
        }
    }
    assert!(tags.contains(tag));
    for held in [tag, "*", "\"0:1\", W/\"1:9007199254740993\""] {
        let spared = world.get(BOOK, &[("if-none-match", held)]).await;
        assert_eq!((spared.status, &spared.body[..], spared.tag().as_str()), (304, &[][..], tag), "{held}");
        assert_eq!((spared.header("sprag-state"), spared.header("vary")), (Some("LIVE"), Some("accept")));
    }
    assert_eq!(world.get(BOOK, &[("if-none-match", tag), ("accept", MEDIA_TYPE)]).await.status, 200);
    assert_eq!(world.get(&format!("{BOOK}?depth=1"), &[("if-none-match", tag)]).await.status, 200);
    // The same version with another mark is another content: a 304 would hide a dead feed.
    world.cut(vec![cut_of(0, Version::new(1, 9_007_199_254_740_993), BookCut::Unchanged, FeedState::Stale)]);
    let stale = world.get(BOOK, &[("if-none-match", tag)]).await;
    assert_eq!((stale.status, &stale.json()["state"]), (200, &json!("STALE")));
    assert_eq!(stale.header("sprag-state"), Some("STALE"));
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_book_says_how_far_it_is_known() {
    let world = world();
    let text = world.json(&format!("{BOOK}?depth=1")).await;
    assert_eq!((&text["bids"], &text["horizon"]), (&json!([["61737.63", "0.500"]]), &json!(["61737.63", null])));
    let bytes = world.get(&format!("{BOOK}?depth=1"), &[("accept", MEDIA_TYPE)]).await;
    assert_eq!(receiver::books_of(&bytes.body).unwrap()[0].book.horizon(Side::Bid), Some(6_173_763));
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_is_all_of_its_books_each_at_its_version() {
    let world = world();
    let text = world.json("/v1/pairs/BTC/USDT/book?depth=1").await;
    let books = text["books"].as_array().unwrap();
    let versions: Vec<_> = books.iter().map(|book| [&book["instrument"], &book["version"]]).collect();
    assert_eq!(
        versions,
        [["binance_spot/BTCUSDT", "1:9007199254740993"], ["kraken_spot/XBT/USDT", "3:7"]]
            .map(|row| row.map(|text| json!(text)))
            .each_ref()
            .map(|row| row.each_ref())
    );
    assert_eq!(books[1]["bids"], json!([["61737.60", "0.002"]]));
    let bytes = world.get("/v1/pairs/BTC%2FUSDT/book", &[("accept", MEDIA_TYPE)]).await;
    let decoded = receiver::books_of(&bytes.body).unwrap();
    let names: Vec<_> = decoded.iter().map(|book| &*book.instrument).collect();
    assert_eq!(names, ["binance_spot/BTCUSDT", "kraken_spot/XBT/USDT"]);
    let tag = world.get("/v1/pairs/BTC/USDT/book", &[]).await.tag();
    assert_eq!(tag, "\"1:9007199254740993+3:7\"");
    assert_eq!(world.get("/v1/pairs/BTC/USDT/book", &[("if-none-match", &tag)]).await.status, 304);

    let told = world.json("/v1/pairs/BTC/USDT/changes?since=kraken_spot/XBT/USDT@3:7").await;
    let changes = told["changes"].as_array().unwrap();
    assert_eq!((&changes[0]["whole"], &changes[0]["reason"]), (&json!(true), &json!("no_since")));
    assert_eq!((&changes[1]["whole"], &changes[1]["from"]), (&json!(false), &json!("3:7")));
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_answered_says_why() {
    let world = world();
    for (path, accept, status, word) in [
        (BOOK.to_owned(), "text/html", 406, "application/vnd.sprag.v1"),
        (format!("{BOOK}/changes?since=1:1"), MEDIA_TYPE, 406, "application/json"),
        (format!("{BOOK}?source=store"), JSON, 404, "no store"),
        (format!("{BOOK}/changes?since=1:1&source=store"), JSON, 404, "no store"),
        ("/v1/pairs/BTC/USDT/book?source=store".to_owned(), JSON, 404, "no store"),
        (format!("{BOOK}?source=disk"), JSON, 400, "disk"),
        (format!("{BOOK}?level=5"), JSON, 400, "level"),
        (format!("{BOOK}?since=1:1"), JSON, 400, "since"),
        (format!("{BOOK}/changes"), JSON, 400, "since is missing"),
        (format!("{BOOK}/changes?since=1"), JSON, 400, "EPOCH:SEQ"),
        (format!("{BOOK}/changes?since=1:1&wait_ms=30001"), JSON, 400, "30000"),
        (format!("{BOOK}/changes?since=binance_spot/BTCUSDT@1:1"), JSON, 400, "instrument"),
        ("/v1/pairs/BTC/USDT/changes?since=nowhere/X@1:1".to_owned(), JSON, 404, "nowhere/X"),
        ("/v1/pairs/BTC/USDT/changes?since=1:1".to_owned(), JSON, 404, "INSTRUMENT@"),
        ("/v1/pairs/BTC/USDT/changes?wait_ms=1".to_owned(), JSON, 400, "wait_ms"),
        ("/v1/pairs/BTC/EUR/book".to_owned(), JSON, 404, "BTC/EUR"),
        ("/v1/pairs/BTC/USDT".to_owned(), JSON, 404, "BTC/USDT"),
        ("/v1/books/nowhere/X".to_owned(), JSON, 404, "nowhere/X"),
        ("/v1/books/%ff".to_owned(), JSON, 400, "address"),
    ] {
        let answer = world.get(&path, &[("accept", accept)]).await;
        let text = answer.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, status, "{path}: {text}");
        assert!(text.contains(word), "{path}: {text}");
    }
    let page = String::from_utf8(world.get("/metrics", &[]).await.body).unwrap();
    for line in [
        r#"sprag_http_requests_total{outcome="refused",route="book"} 7"#,
        r#"sprag_http_requests_total{outcome="refused",route="pair_changes"} 3"#,
    ] {
        assert!(page.contains(line), "{line} is missing in\n{page}");
    }
    world.end();
}
