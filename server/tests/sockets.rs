//! The tape behind real sockets: what a terminal and its socket may rely on whatever the market does.
//!
//! Never: a port that is not the system's choice; a wall time asserted but for a generous upper bound.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what it expects by failing")]

use dataflow::{
    clock::CutClock,
    cut::{BookCut, InstrumentCut, LaneCut},
    ingest::Credit,
    sink::SinkMessage,
};
use futures_util::{SinkExt, StreamExt};
use market::{Directory, Feed, FeedState, Flags, Level, LevelChange, Scale, Side, SymbolId, U256, Venue, Version};
use receiver::{Notice, Terminal};
use server::{
    config::Config,
    fanout::{Fanout, FanoutConfig, outbox::RingBounds},
    http::{self, Shared},
    hub::{Hub, HubConfig},
    run::unix_ns,
    socket::Admission,
    source,
    tape::{self, LagBounds, Tape, TapeEnd, TapeHandle, TapeInput},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};
use wire::{Channel, ErrorCode, SUBPROTOCOL, Subscription, SubscriptionItem, ToServer, ToTerminal};

const CUT: Duration = Duration::from_millis(4);
const SCALE: Scale = Scale { price: -2, quantity: -2 };
const SYMBOLS: [&str; 2] = ["AUSDT", "BUSDT"];

/// A server whose lane is a loop: every cut moves a level of each instrument.
struct Server {
    url: String,
    tape: TapeHandle,
    stop: Arc<AtomicBool>,
    threads: (JoinHandle<()>, JoinHandle<TapeEnd>),
}

impl Server {
    /// The first instrument has so many asks, the second one.
    async fn start(depth: u32, message_bytes_max: usize) -> Self {
        let directory = Arc::new(Directory::default());
        for symbol in SYMBOLS {
            directory.intern(Venue::BinanceSpot, symbol, &symbol[..1], "USDT").unwrap();
        }
        let clock = CutClock { origin_ns: unix_ns(), cut_ns: u64::try_from(CUT.as_nanos()).unwrap() };
        let config = FanoutConfig {
            generation: 1,
            phases: 10,
            frame_ms: 40,
            heartbeat_ms: 1_000,
            subscriptions_max: 64,
            digest_ms: 1_000,
            message_bytes_max,
            simulated: true,
        };
        let (control, _port) = source::control();
        let (inputs, taken) = channel();
        let tape = Tape {
            hub: Hub::new(HubConfig { workers: 1, clock, cuts_per_frame: 10, idle_frames: true }),
            fanout: Fanout::new(config, Arc::clone(&directory)),
            clock,
            now_ns: Arc::new(unix_ns),
            credit: Credit::new(u64::MAX),
            directory: Arc::clone(&directory),
            store: None,
            control: control.clone(),
            checkpoints: None,
            bumps: None,
            copies: None,
            lag: LagBounds { alarm: Duration::MAX, exit: Duration::MAX },
        };
        let handle = TapeHandle::new(inputs.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let lane = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || lane(&inputs, depth, &stop)
        });
        let tape = std::thread::spawn(move || tape::run(tape, &taken));
        let shared = Shared {
            tape: handle.clone(),
            directory,
            admission: Admission::new(16, RingBounds { frames: 64, bytes: 8 << 20, age_ms: 2_560 }),
            source: control,
            store: None,
            batches: None,
            upkeep: None,
            reads: Arc::default(),
            audit: None,
            checkpoints: Arc::default(),
            ready: Arc::new(AtomicBool::new(true)),
            lag_max: Duration::MAX,
            simulated: true,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/v1/stream", listener.local_addr().unwrap());
        tokio::spawn(http::serve(listener, http::router(shared), Duration::from_secs(5), std::future::pending()));
        Self { url, tape: handle, stop, threads: (lane, tape) }
    }

    fn end(self) {
        self.stop.store(true, Relaxed);
        let (lane, tape) = self.threads;
        lane.join().unwrap();
        self.tape.stop();
        tape.join().unwrap();
    }
}

fn lane(inputs: &Sender<TapeInput>, depth: u32, stop: &AtomicBool) {
    let level = |price: u32, quantity: u64| Level { tick_index: i64::from(price), quantity: U256::from(quantity) };
    let mut cut = 0;
    while !stop.load(Relaxed) {
        let book = |at: usize| {
            let asks = (100..100 + if at == 0 { depth } else { 1 }).map(|price| level(price, 1)).collect();
            let change = LevelChange { side: Side::Bid, level: level(50, 1 + cut % 7) };
            match cut {
                0 => BookCut::Snapshot { bids: Vec::new(), asks, horizon: [None, None] },
                cut => BookCut::Delta { base: Version::new(1, cut), changes: vec![change] },
            }
        };
        let instrument = |at: usize| InstrumentCut {
            symbol: SymbolId(u32::try_from(at).unwrap()),
            version: Some(Version::new(1, cut + 1)),
            received_ns: unix_ns(),
            scale: SCALE,
            book: book(at),
            quote: None,
            feed: (cut == 0).then_some(Feed { state: FeedState::Live, flags: Flags::default() }),
            trades: Vec::new(),
            admitted: Vec::new(),
            admitted_trades: Vec::new(),
        };
        let part = LaneCut { cut, instruments: vec![instrument(0), instrument(1)], ..LaneCut::default() };
        cut += 1;
        for message in [SinkMessage::Cut(part), SinkMessage::Closed { worker: 0, before: cut }] {
            if inputs.send(message.into()).is_err() {
                return;
            }
        }
        std::thread::sleep(CUT);
    }
}

fn item(channel: Channel) -> SubscriptionItem {
    SubscriptionItem { channel, pattern: "*".into() }
}

/// For a time a terminal sends nothing but pings; each has its pong within a second, and meanwhile so many frames came.
async fn ping(url: &str, channels: &[Channel]) -> usize {
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", SUBPROTOCOL.parse().unwrap());
    let (mut socket, _) = connect_async(request).await.unwrap();
    if !channels.is_empty() {
        let items = channels.iter().copied().map(item).collect();
        let request = ToServer::Subscribe(Subscription { request: 1, items }).encode().unwrap();
        socket.send(Message::Binary(request)).await.unwrap();
    }
    let mut frames = 0;
    for round in 0..40_u8 {
        socket.send(Message::Ping(vec![round].into())).await.unwrap();
        let answered = async {
            loop {
                match socket.next().await.unwrap().unwrap() {
                    Message::Pong(payload) if payload[..] == [round] => return,
                    Message::Binary(bytes) => {
                        frames += usize::from(matches!(ToTerminal::decode(&bytes), Ok(ToTerminal::Frame(_))));
                    }
                    other => panic!("{other:?}"),
                }
            }
        };
        timeout(Duration::from_secs(1), answered).await.unwrap();
        sleep(Duration::from_millis(50)).await;
    }
    frames
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_only_pings_has_every_pong_within_a_second() {
    let server = Server::start(1, wire::bounds::MESSAGE_BYTES_MAX).await;
    let (quiet, busy) = tokio::join!(ping(&server.url, &[]), ping(&server.url, &[Channel::Book, Channel::Status]));
    assert!(quiet <= 10, "heartbeats alone, {quiet}");
    assert!(busy >= 20, "frames flowed, {busy}");
    server.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_over_the_message_limit_is_refused_alone_and_told_to_the_terminal() {
    let server = Server::start(1_000, 1_500).await;
    let mut terminal = Terminal::new(&server.url, &[item(Channel::Book), item(Channel::Digest)]).unwrap();
    let (mut refusals, mut shown) = (Vec::new(), BTreeMap::new());
    let seen = async {
        while refusals.is_empty() || shown.get("binance_spot/BUSDT").is_none_or(|count| *count < 30) {
            for notice in terminal.next().await.unwrap() {
                match notice {
                    Notice::Refused { request, code, text } => refusals.push((request, code, text)),
                    Notice::BookChanged { instrument, .. } => *shown.entry(instrument.to_string()).or_insert(0) += 1,
                    Notice::DigestMismatch { .. } | Notice::NeedsResync { .. } => panic!("{notice:?}"),
                    _ => {}
                }
            }
        }
    };
    timeout(Duration::from_secs(20), seen).await.unwrap();
    let [(None, ErrorCode::TooLarge, text)] = &refusals[..] else { panic!("{refusals:?}") };
    assert!(text.starts_with("binance_spot/AUSDT: book "), "{text}");
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["binance_spot/BUSDT"]);
    let stats = server.tape.stats().await.unwrap();
    assert_eq!((stats.fanout.unencodable, stats.fanout.refused, stats.inconsistent), (1, 1, 0));
    assert_eq!(terminal.session().counters().deltas_refused, 0);
    terminal.close().await;
    server.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digests_over_the_socket_match_what_is_shown() {
    let server = Server::start(300, wire::bounds::MESSAGE_BYTES_MAX).await;
    let items = [Channel::Book, Channel::Digest].map(item);
    let mut terminal = Terminal::new(&server.url, &items).unwrap();
    let matched = async {
        while terminal.session().counters().digests_matched < 4 {
            terminal.next().await.unwrap();
        }
    };
    timeout(Duration::from_secs(20), matched).await.unwrap();
    assert_eq!(terminal.session().counters().digests_failed, 0);
    terminal.close().await;
    server.end();
}

/// The whole server in one process, its lanes on two workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priority_and_digests_go_through_the_whole_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: folder.path().to_path_buf(), ..Config::default() };
    (config.server.port, config.server.digest_ms, config.store.enabled) = (0, 1_000, false);
    (config.sim.pairs, config.pipeline.workers) = (3, 2);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (tell, told) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(async move {
        let until = async { drop(stopped.await) };
        server::run::run(&config, until, |address| tell.send(address).unwrap()).await
    });
    let url = format!("ws://{}/v1/stream", told.await.unwrap());
    // One has both chains, another one the priority chain alone.
    let both = follow(&url, &[Channel::Book, Channel::Priority, Channel::Digest]);
    let ahead = follow(&url, &[Channel::Priority]);
    let (both, ahead) = tokio::join!(both, ahead);
    for (terminal, counters) in [(both.0, both.1), (ahead.0, ahead.1)] {
        assert_eq!((counters.deltas_refused, counters.regressions_refused, counters.digests_failed), (0, 0, 0));
        assert_eq!(terminal, 6, "instruments that moved on the screen");
    }
    assert!(both.1.digests_matched >= 6, "{:?}", both.1);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

/// Follows the market for a while; gives how many instruments moved, and what was refused.
async fn follow(url: &str, channels: &[Channel]) -> (usize, receiver::Counters) {
    let items: Vec<_> = channels.iter().copied().map(item).collect();
    let digests = channels.contains(&Channel::Digest);
    let mut terminal = Terminal::new(url, &items).unwrap();
    let mut shown: BTreeMap<String, Vec<Version>> = BTreeMap::new();
    let followed = async {
        while shown.len() < 6
            || shown.values().any(|versions| versions.len() < 50)
            || (digests && terminal.session().counters().digests_matched < 6)
        {
            for notice in terminal.next().await.unwrap() {
                if let Notice::BookChanged { instrument, version } = notice {
                    let versions = shown.entry(instrument.to_string()).or_default();
                    assert!(versions.last().is_none_or(|last| *last <= version), "{instrument} went back");
                    versions.push(version);
                }
            }
        }
    };
    timeout(Duration::from_secs(60), followed).await.unwrap();
    let counters = terminal.session().counters();
    terminal.close().await;
    (shown.len(), counters)
}
