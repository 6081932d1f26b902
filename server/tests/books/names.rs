//! Instruments whose names have characters with a meaning in an address, over a real socket.
//!
//! Never: a path that a library has tidied up before it is sent.

use crate::world::{World, cut_of, whole};
use dataflow::cut::{BookCut, InstrumentCut};
use market::{Directory, FeedState, Level, Scale, U256, Venue, Version, scale::PRICE_POWERS};
use serde_json::{Value, json};
use server::http;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const SYMBOL: &str = "ibc/4A<>factory/neutron1abc/wstETH";

async fn listen(world: &World) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let head_max = Duration::from_secs(5);
    tokio::spawn(http::serve(listener, world.router.clone(), head_max, std::future::pending()));
    address
}

/// Status and body of a path, exactly as it is written here.
async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// One cut that shows a bid and two asks of the DEX.
fn dex_cut() -> InstrumentCut {
    let level = |tick_index, quantity: &str| Level { tick_index, quantity: quantity.parse().unwrap() };
    let book = BookCut::Snapshot {
        bids: vec![level(-20_912, "1500000000000000000000000000")],
        asks: vec![level(-20_911, "1"), level(559_680, &U256::MAX.to_string())],
        horizon: [None, None],
    };
    let cut = cut_of(0, Version::new(1, (7 << 30) | 3), book, FeedState::Live);
    InstrumentCut { scale: Scale { price: PRICE_POWERS, quantity: -27 }, received_ns: 0, ..cut }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_whose_names_have_slashes_and_brackets_are_found() {
    let directory = Arc::new(Directory::default());
    directory.intern(Venue::NeutronDex, SYMBOL, "ibc/4A", "factory/neutron1abc/wstETH").unwrap();
    let mut world = World::start(directory);
    world.cut(vec![dex_cut()]);
    world.get("/", &[]).await;
    let address = listen(&world).await;
    let segments = "neutron_dex/ibc/4A%3C%3Efactory/neutron1abc/wstETH";
    for name in [segments, &segments.replace('/', "%2F"), &segments.replace("%3C%3E", "%3c%3e")] {
        let (status, body) = get(address, &format!("/v1/books/{name}")).await;
        assert_eq!(status, 200, "{name}: {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["instrument"], format!("neutron_dex/{SYMBOL}"));
        assert_eq!((&body["epoch"], &body["seq"]), (&json!(1), &json!("7516192771")));
        assert_eq!((&body["price_exponent"], &body["quantity_exponent"]), (&json!(-128), &json!(-27)));
        assert_eq!(body["bids"], json!([["0.123551717304719443", "1.500000000000000000000000000", "-20912"]]));
        let greatest = "115792089237316195423570985008687907853269984665640.564039457584007913129639935";
        let first = json!(["0.123564072476449915", "0.000000000000000000000000001", "-20911"]);
        assert_eq!(body["asks"], json!([first, ["2020125331305056770000000", greatest, "559680"]]));
        let (status, body) = get(address, &format!("/v1/books/{name}/changes?since=1.7516192771")).await;
        assert_eq!((status, &serde_json::from_str::<Value>(&body).unwrap()["whole"]), (200, &json!(false)));
    }
    let (status, body) = get(address, &format!("/v1/books/{segments}?depth=1")).await;
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()["asks"].as_array().unwrap().len()), (200, 1));
    let pair = "ibc/4A/factory/neutron1abc/wstETH";
    assert_eq!(get(address, &format!("/v1/pairs/{pair}/book")).await.0, 200);
    assert_eq!(get(address, "/v1/books/neutron_dex/ibc/4A").await.0, 404);
    let (status, body) = get(address, &format!("/v1/books/neutron_dex/{SYMBOL}")).await;
    assert_eq!((status, body.as_str()), (400, ""), "no address: `<` and `>` must be encoded");
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_ends_with_changes_is_told_from_its_changes() {
    let directory = Arc::new(Directory::default());
    directory.intern(Venue::NeutronDex, "a/b", "a", "b").unwrap();
    directory.intern(Venue::NeutronDex, "a/b/changes", "a", "b/changes").unwrap();
    let mut world = World::start(directory);
    world.cut(vec![whole(0, Version::new(1, 1), &[(1, 1)], &[]), whole(1, Version::new(1, 2), &[(2, 2)], &[])]);
    let book = world.json("/v1/books/neutron_dex/a/b%2Fchanges").await;
    assert_eq!((&book["instrument"], &book["version"]), (&json!("neutron_dex/a/b/changes"), &json!("1:2")));
    let changes = world.json("/v1/books/neutron_dex/a/b/changes?since=1:1").await;
    assert_eq!((&changes["instrument"], &changes["whole"]), (&json!("neutron_dex/a/b"), &json!(false)));
    let changes = world.json("/v1/books/neutron_dex/a/b%2Fchanges/changes?since=1:2").await;
    assert_eq!((&changes["instrument"], &changes["whole"]), (&json!("neutron_dex/a/b/changes"), &json!(false)));
    world.end();
}
