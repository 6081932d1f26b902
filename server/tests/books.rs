//! `/v1/books` over a real socket, of instruments whose names have characters with a meaning in an address.
//!
//! Never: a port that is not the system's choice.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use dataflow::{
    clock::CutClock,
    cut::{BookCut, InstrumentCut, LaneCut},
    ingest::Credit,
    sink::SinkMessage,
};
use market::{Directory, Feed, FeedState, Flags, Level, Scale, SymbolId, U256, Venue, Version, scale::PRICE_POWERS};
use serde_json::{Value, json};
use server::{
    fanout::{Fanout, FanoutConfig, outbox::RingBounds},
    http::{self, Shared},
    hub::{Hub, HubConfig},
    socket::Admission,
    source,
    tape::{self, LagBounds, Tape, TapeEnd, TapeHandle},
};
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool, mpsc::channel},
    thread::JoinHandle,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const SYMBOL: &str = "ibc/4A<>factory/neutron1abc/wstETH";

/// A tape with one book of the DEX behind the real router.
struct Server {
    address: SocketAddr,
    tape: TapeHandle,
    thread: JoinHandle<TapeEnd>,
}

impl Server {
    async fn start() -> Self {
        let directory = Arc::new(Directory::default());
        directory.intern(Venue::NeutronDex, SYMBOL, "ibc/4A", "factory/neutron1abc/wstETH").unwrap();
        let clock = CutClock { origin_ns: 0, cut_ns: 4_000_000 };
        let config = FanoutConfig {
            generation: 1,
            phases: 10,
            frame_ms: 40,
            heartbeat_ms: 1_000,
            subscriptions_max: 64,
            digest_ms: 1_000,
            message_bytes_max: wire::bounds::MESSAGE_BYTES_MAX,
            simulated: true,
        };
        let (control, _port) = source::control();
        let (inputs, taken) = channel();
        for message in [SinkMessage::Cut(cut()), SinkMessage::Closed { worker: 0, before: 1 }] {
            inputs.send(message.into()).unwrap();
        }
        let tape = Tape {
            hub: Hub::new(HubConfig { workers: 1, clock, cuts_per_frame: 10, idle_frames: true }),
            fanout: Fanout::new(config, Arc::clone(&directory)),
            clock,
            now_ns: Arc::new(|| 12_000_000),
            credit: Credit::new(u64::MAX),
            directory: Arc::clone(&directory),
            store: None,
            control: control.clone(),
            checkpoints: None,
            bumps: None,
            copies: None,
            lag: LagBounds { alarm: Duration::MAX, exit: Duration::MAX },
        };
        let handle = TapeHandle::new(inputs);
        let thread = std::thread::spawn(move || tape::run(tape, &taken));
        let shared = Shared {
            tape: handle.clone(),
            directory,
            admission: Admission::new(16, RingBounds { frames: 64, bytes: 8 << 20, age_ms: 2_560 }),
            source: control,
            store: None,
            batches: None,
            audit: None,
            checkpoints: Arc::default(),
            ready: Arc::new(AtomicBool::new(true)),
            lag_max: Duration::MAX,
            simulated: true,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(http::serve(listener, http::router(shared), Duration::from_secs(5), std::future::pending()));
        Self { address, tape: handle, thread }
    }

    /// Status and body of a path, exactly as it is written here.
    async fn get(&self, path: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    fn end(self) {
        self.tape.stop();
        self.thread.join().unwrap();
    }
}

/// One cut that shows a bid and two asks.
fn cut() -> LaneCut {
    let level = |tick_index, quantity: &str| Level { tick_index, quantity: quantity.parse().unwrap() };
    let instrument = InstrumentCut {
        symbol: SymbolId(0),
        version: Some(Version::new(1, (7 << 30) | 3)),
        received_ns: 0,
        scale: Scale { price: PRICE_POWERS, quantity: -27 },
        book: BookCut::Snapshot {
            bids: vec![level(-20_912, "1500000000000000000000000000")],
            asks: vec![level(-20_911, "1"), level(559_680, &U256::MAX.to_string())],
            horizon: [None, None],
        },
        quote: None,
        feed: Some(Feed { state: FeedState::Live, flags: Flags::default() }),
        trades: Vec::new(),
        admitted: Vec::new(),
        admitted_trades: Vec::new(),
    };
    LaneCut { cut: 0, instruments: vec![instrument], ..LaneCut::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_whose_names_have_slashes_and_brackets_are_found() {
    let server = Server::start().await;
    let segments = "neutron_dex/ibc/4A%3C%3Efactory/neutron1abc/wstETH";
    for name in [segments, &segments.replace('/', "%2F"), &segments.replace("%3C%3E", "%3c%3e")] {
        let (status, body) = server.get(&format!("/v1/books/{name}")).await;
        assert_eq!(status, 200, "{name}: {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["instrument"], format!("neutron_dex/{SYMBOL}"));
        assert_eq!((&body["epoch"], &body["seq"]), (&json!(1), &json!("7516192771")));
        assert_eq!(body["bids"], json!([["0.123551717304719443", "1.500000000000000000000000000", "-20912"]]));
        let greatest = "115792089237316195423570985008687907853269984665640.564039457584007913129639935";
        let first = json!(["0.123564072476449915", "0.000000000000000000000000001", "-20911"]);
        assert_eq!(body["asks"], json!([first, ["2020125331305056770000000", greatest, "559680"]]));
    }
    let (status, body) = server.get(&format!("/v1/books/{segments}?depth=1")).await;
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()["asks"].as_array().unwrap().len()), (200, 1));
    assert_eq!(server.get("/v1/books/neutron_dex/ibc/4A").await.0, 404);
    let (status, body) = server.get(&format!("/v1/books/neutron_dex/{SYMBOL}")).await;
    assert_eq!((status, body.as_str()), (400, ""), "no address: `<` and `>` must be encoded");
    server.end();
}
