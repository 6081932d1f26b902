//! Standing views on their way out: HTTP and a real receiver over real sockets, and a terminal that does not read.
//!
//! Never: a port that is not the system's choice; a wall time asserted but for a generous upper bound.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what it expects by failing")]

use dataflow::{clock::CutClock, cut::ViewChange, ingest::Credit, sink::SinkMessage};
use market::{
    Directory, PairId, U256, Venue, ViewId, ViewKey, ViewValue,
    quote::Exact,
    view::{Imbalance, SignedExact, ViewNumber},
};
use receiver::{Notice, Session, Terminal};
use serde_json::{Value, json};
use server::{
    config::{View, ViewKind},
    fanout::{
        ConnectionId, Fanout, FanoutConfig,
        outbox::{Next, Outbox, RingBounds},
    },
    http::{self, Shared},
    hub::{Hub, HubConfig},
    socket::Admission,
    source,
    tape::{self, LagBounds, Tape, TapeEnd, TapeHandle, TapeInput},
    views::ViewTable,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use wire::{Block, Channel, Resync, SubscriptionItem, ToServer, ToTerminal, ViewBlock};

const CUT_NS: u64 = 4_000_000;
const CLOCK: CutClock = CutClock { origin_ns: 0, cut_ns: CUT_NS };
const DEX: &str = "ibc/4A/untrn";

fn table() -> Arc<ViewTable> {
    let view = |name: &str, kind, percent: &str, pairs: &[&str]| View {
        name: name.to_owned(),
        kind,
        percent: percent.to_owned(),
        pairs: pairs.iter().map(|pattern| (*pattern).to_owned()).collect(),
    };
    Arc::new(ViewTable::of(&[
        view("depth1", ViewKind::ReservesWithin, "1.0", &["BTC/*", "ibc/*"]),
        view("tilt", ViewKind::ImbalanceWithin, "0.5", &["*"]),
        view("spread", ViewKind::Spread, "", &["BTC/USDT"]),
    ]))
}

fn directory() -> Arc<Directory> {
    let directory = Arc::new(Directory::default());
    directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
    directory.intern(Venue::KrakenSpot, "XBT/USDT", "XBT", "USDT").unwrap();
    directory.intern(Venue::NeutronDex, "ibc/4A<>untrn", "ibc/4A", "untrn").unwrap();
    directory
}

fn config() -> FanoutConfig {
    FanoutConfig {
        generation: 1,
        phases: 10,
        frame_ms: 40,
        heartbeat_ms: 1_000,
        subscriptions_max: 64,
        digest_ms: 1_000,
        message_bytes_max: wire::bounds::MESSAGE_BYTES_MAX,
        simulated: true,
    }
}

fn key(view: usize, pair: u32) -> ViewKey {
    ViewKey { view: ViewId::new(view).unwrap(), pair: PairId(pair) }
}

fn value(number: ViewNumber, partial: bool, instruments: u32) -> Option<ViewValue> {
    Some(ViewValue { number, partial, instruments })
}

fn exact(steps: u64, exponent: i8) -> Exact {
    Exact::new(U256::from(steps), exponent)
}

fn reserves(bids: u64) -> Option<ViewValue> {
    value(ViewNumber::Reserves { bids: exact(bids, -1), asks: exact(30, -1) }, true, 2)
}

fn changes(cut: u64, changes: &[(ViewKey, Option<ViewValue>)]) -> SinkMessage {
    SinkMessage::Views(changes.iter().map(|(key, value)| ViewChange { cut, key: *key, value: *value }).collect())
}

/// A server behind the real router, whose cuts the test closes.
struct Server {
    address: SocketAddr,
    inputs: Sender<TapeInput>,
    now_ns: Arc<AtomicU64>,
    tape: TapeHandle,
    thread: JoinHandle<TapeEnd>,
}

impl Server {
    async fn start() -> Self {
        let (directory, now_ns) = (directory(), Arc::new(AtomicU64::new(0)));
        let (control, _port) = source::control();
        let (inputs, taken) = channel();
        let clock = Arc::clone(&now_ns);
        let tape = Tape {
            hub: Hub::new(HubConfig { workers: 1, clock: CLOCK, cuts_per_frame: 10, idle_frames: true }),
            fanout: Fanout::new(config(), Arc::clone(&directory)).with_views(table()),
            clock: CLOCK,
            now_ns: Arc::new(move || clock.load(Relaxed)),
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
        let thread = std::thread::spawn(move || tape::run(tape, &taken));
        let shared = Shared {
            tape: handle.clone(),
            directory,
            admission: Admission::new(16, RingBounds { frames: 64, bytes: 8 << 20, age_ms: 2_560 }),
            source: control,
            store: None,
            batches: None,
            upkeep: None,
            audit: None,
            reads: Arc::default(),
            checkpoints: Arc::default(),
            ready: Arc::new(AtomicBool::new(true)),
            lag_max: Duration::MAX,
            simulated: true,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(http::serve(listener, http::router(shared), Duration::from_secs(5), std::future::pending()));
        Self { address, inputs, now_ns, tape: handle, thread }
    }

    fn say(&self, message: SinkMessage) {
        self.inputs.send(message.into()).unwrap();
    }

    /// Every cut before this one is closed.
    fn close(&self, before: u64) {
        self.now_ns.store(before * CUT_NS, Relaxed);
        self.say(SinkMessage::Closed { worker: 0, before });
    }

    /// Closes every cut before this one, and waits until what is read is of its end.
    async fn close_and_settle(&self, before: u64) {
        self.close(before);
        let settled = async {
            // A command that comes with the cuts is answered before they are stepped over.
            while self.get("/v1/views/spread/BTC/USDT").await.1["now_ms"] != before * CUT_NS / 1_000_000 {}
        };
        timeout(Duration::from_secs(20), settled).await.unwrap();
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
    }

    fn end(self) {
        self.tape.stop();
        self.thread.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_tells_what_is_declared_and_what_holds_since_which_cut() {
    let server = Server::start().await;
    let (_, declared) = server.get("/v1/views").await;
    assert_eq!(
        declared,
        json!([
            {"view": "depth1", "kind": "reserves_within", "percent": "1", "pairs": ["BTC/*", "ibc/*"]},
            {"view": "tilt", "kind": "imbalance_within", "percent": "0.5", "pairs": ["*"]},
            {"view": "spread", "kind": "spread", "percent": null, "pairs": ["BTC/USDT"]},
        ])
    );
    let most = ViewNumber::Reserves { bids: Exact::new(U256::MAX, -27), asks: exact(0, 0) };
    let imbalance = ViewNumber::Imbalance(Imbalance::of_ppm(-250_000).unwrap());
    let spread = ViewNumber::Spread(SignedExact::new(true, exact(5, -1)));
    let first = [(key(0, 0), reserves(125)), (key(0, 1), value(most, false, 1)), (key(2, 0), value(spread, false, 2))];
    server.say(changes(3, &first));
    server
        .say(changes(7, &[(key(1, 0), value(imbalance, false, 2)), (key(1, 1), value(ViewNumber::Overflow, true, 1))]));
    server.close_and_settle(10).await;
    let base = |view: &str, pair: &str, instruments: u32| {
        let (asset_0, asset_1) = pair.rsplit_once('/').unwrap();
        let value = json!({"view": view, "pair": pair, "asset_0": asset_0, "asset_1": asset_1, "partial": false,
            "overflow": false, "instruments": instruments, "cut": 3, "at_ms": 16, "now_ms": 40});
        value.as_object().unwrap().clone()
    };
    let with = |mut value: serde_json::Map<String, Value>, more: Value| {
        value.extend(more.as_object().unwrap().clone());
        Value::Object(value)
    };
    let depth = with(base("depth1", "BTC/USDT", 2), json!({"bids": "12.5", "asks": "3", "partial": true}));
    let greatest = "115792089237316195423570985008687907853269984665640.564039457584007913129639935";
    let dex = with(base("depth1", DEX, 1), json!({"bids": greatest, "asks": "0"}));
    assert_eq!(server.get("/v1/views/depth1/BTC/USDT").await, (200, depth.clone()));
    for name in [DEX.to_owned(), DEX.replace('/', "%2F")] {
        assert_eq!(server.get(&format!("/v1/views/depth1/{name}")).await, (200, dex.clone()));
    }
    assert_eq!(server.get("/v1/views/depth1").await, (200, json!([depth, dex])));
    let late = json!({"cut": 7, "at_ms": 32});
    let tilt = with(
        with(base("tilt", "BTC/USDT", 2), late.clone()).as_object().unwrap().clone(),
        json!({"imbalance": "-0.250000"}),
    );
    assert_eq!(server.get("/v1/views/tilt/BTC/USDT").await.1, tilt);
    let over = json!({"imbalance": null, "overflow": true, "partial": true});
    let over = with(with(base("tilt", DEX, 1), late).as_object().unwrap().clone(), over);
    assert_eq!(server.get(&format!("/v1/views/tilt/{DEX}")).await.1, over);
    assert_eq!(
        server.get("/v1/views/spread/BTC/USDT").await.1,
        with(base("spread", "BTC/USDT", 2), json!({"spread": "-0.5"}))
    );

    // The last book leaves.
    server.say(changes(20, &[(key(2, 0), None)]));
    server.close_and_settle(21).await;
    let gone = json!({"spread": null, "cut": 20, "at_ms": 84, "now_ms": 84});
    assert_eq!(server.get("/v1/views/spread/BTC/USDT").await.1, with(base("spread", "BTC/USDT", 0), gone));
    for path in ["none", "none/BTC/USDT", "depth1/ETH/USDT", &format!("spread/{DEX}"), "depth1/BTC"] {
        let (status, body) = server.get(&format!("/v1/views/{path}")).await;
        assert!(status == 404 && body["error"].is_string(), "{path}: {body}");
    }
    server.end();
}

fn item(channel: Channel, pattern: &str) -> SubscriptionItem {
    SubscriptionItem { channel, pattern: pattern.into() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_is_told_the_views_that_it_asks_for() {
    let server = Server::start().await;
    server.say(changes(0, &[(key(0, 0), reserves(125)), (key(0, 1), reserves(70))]));
    server.close(1);
    let url = format!("ws://{}/v1/stream", server.address);
    let items = [item(Channel::View, "depth1/BTC/*"), item(Channel::View, "spread/*")];
    let mut terminal = Terminal::new(&url, &items).unwrap();
    let bids = |terminal: &Terminal| {
        let value = terminal.session().standing_view("depth1/BTC/USDT")?.value?;
        if let ViewNumber::Reserves { bids, .. } = value.number { Some(bids) } else { None }
    };
    let (mut cut, mut matched) = (1, None);
    let seen = async {
        // The terminal joins at a frame; then the value moves, twice within a frame.
        for (next, wanted) in [(None, 125), (Some([126, 127]), 127)] {
            for (at, bids) in (0..).zip(next.into_iter().flatten()) {
                server.say(changes(cut + at, &[(key(0, 0), reserves(bids))]));
            }
            while bids(&terminal) != Some(exact(wanted, -1)) {
                cut += 10;
                server.close(cut);
                if let Ok(notices) = timeout(Duration::from_millis(20), terminal.next()).await {
                    for notice in notices.unwrap() {
                        if let Notice::Answered { matched: count, .. } = notice {
                            matched = Some(count);
                        }
                    }
                }
            }
        }
    };
    timeout(Duration::from_secs(20), seen).await.unwrap();
    let session = terminal.session();
    assert_eq!(matched, Some(2), "of one pair the depth, and its spread");
    assert_eq!(
        session.declared_views().unwrap().iter().map(|view| &*view.name).collect::<Vec<_>>(),
        ["depth1", "tilt", "spread"]
    );
    let spread = session.standing_view("spread/BTC/USDT").unwrap();
    assert_eq!(spread.value, None, "told as a value that is not there");
    assert_eq!(session.standing_views().len(), 2, "nothing that was not asked for");
    assert_eq!(session.counters().unknown_ids, 0);
    terminal.close().await;
    server.end();
}

#[test]
fn a_view_that_is_asked_for_again_is_told_again() {
    let mut stage = Stage::new();
    let wide = RingBounds { frames: 64, bytes: 1 << 20, age_ms: 10_000 };
    let (mut session, outbox) = stage.connect(0, wide, &[Channel::View]);
    for _ in 0..3 {
        stage.frame(&[(key(0, 0), reserves(1))]);
        stage.read(0, &mut session, &outbox);
    }
    stage.frame(&[]);
    assert_eq!(stage.read(0, &mut session, &outbox), [], "nothing moved");
    let again = ToServer::Resync(Resync { items: vec![(Channel::View, key(0, 0).number())] });
    stage.fanout.request(ConnectionId(0), again, &mut stage.hub);
    stage.frame(&[]);
    let [ToTerminal::Frame(frame)] = &stage.read(0, &mut session, &outbox)[..] else { panic!("no frame") };
    assert_eq!(frame.blocks, [Block::View(ViewBlock { id: key(0, 0).number(), value: reserves(1) })]);
}

/// Hub and fan-out without a tape.
struct Stage {
    hub: Hub,
    fanout: Fanout,
    cut: u64,
}

impl Stage {
    fn new() -> Self {
        let hub = Hub::new(HubConfig { workers: 1, clock: CLOCK, cuts_per_frame: 10, idle_frames: true });
        Self { hub, fanout: Fanout::new(config(), directory()).with_views(table()), cut: 0 }
    }

    /// A frame's worth of cuts, with a change in the first.
    fn frame(&mut self, change: &[(ViewKey, Option<ViewValue>)]) {
        self.hub.take(changes(self.cut, change));
        self.cut += 10;
        self.hub.take(SinkMessage::Closed { worker: 0, before: self.cut });
        while let Some(step) = self.hub.step() {
            self.fanout.grow(&mut self.hub);
            if let Some(phase) = step.closing {
                let frame = self.hub.close(phase);
                self.fanout.close(&frame, phase, &self.hub);
            }
        }
    }

    fn connect(&mut self, id: u64, bounds: RingBounds, channels: &[Channel]) -> (Session, Arc<Outbox>) {
        let (mut session, outbox) = (Session::new(), Arc::new(Outbox::new(bounds)));
        session.connected(0);
        self.fanout.connect(ConnectionId(id), Arc::clone(&outbox), 0);
        let items: Vec<_> = channels.iter().map(|channel| item(*channel, "*")).collect();
        session.subscribe(&items).unwrap();
        (session, outbox)
    }

    /// Reads all there is, and asks for what is wanted; gives the messages.
    fn read(&mut self, id: u64, session: &mut Session, outbox: &Outbox) -> Vec<ToTerminal> {
        let mut messages = Vec::new();
        while let Next::Send(bytes) = outbox.next() {
            let message = ToTerminal::decode(&bytes).unwrap();
            session.receive(message.clone(), 0).unwrap();
            messages.push(message);
        }
        while let Some(request) = session.next_outgoing() {
            self.fanout.request(ConnectionId(id), request, &mut self.hub);
        }
        messages
    }
}

#[test]
fn who_does_not_ask_for_the_channel_sees_nothing_of_views() {
    let mut stage = Stage::new();
    let others: Vec<_> = Channel::ALL.into_iter().filter(|channel| *channel != Channel::View).collect();
    let wide = RingBounds { frames: 64, bytes: 1 << 20, age_ms: 10_000 };
    let (mut old, old_outbox) = stage.connect(0, wide, &others);
    let (mut new, new_outbox) = stage.connect(1, wide, &[Channel::View]);
    let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
    for round in 0..4 {
        stage.frame(&[(key(0, 0), reserves(round + 1))]);
        of_old.extend(stage.read(0, &mut old, &old_outbox));
        of_new.extend(stage.read(1, &mut new, &new_outbox));
    }
    let is_list = |message: &&ToTerminal| matches!(message, ToTerminal::Views(_));
    let is_block = |message: &&ToTerminal| matches!(message, ToTerminal::Frame(frame) if frame.blocks.iter().any(|block| matches!(block, Block::View(_))));
    assert_eq!((of_old.iter().filter(is_list).count(), of_old.iter().filter(is_block).count()), (0, 0));
    assert_eq!(of_new.iter().filter(is_list).count(), 1, "{of_new:?}");
    assert!(of_new.iter().filter(is_block).count() >= 2);
    let list = of_new.iter().position(|message| matches!(message, ToTerminal::Views(_)));
    let answer = of_new.iter().position(|message| matches!(message, ToTerminal::Answer(_)));
    assert!(list < answer, "{of_new:?}");
    assert!(stage.fanout.is_consistent());
}

#[test]
fn a_terminal_that_lost_frames_is_told_of_the_gap_and_gets_the_value_anew() {
    let mut stage = Stage::new();
    let narrow = RingBounds { frames: 3, bytes: 1 << 20, age_ms: 10_000 };
    let (mut session, outbox) = stage.connect(0, narrow, &[Channel::View]);
    for _ in 0..3 {
        stage.frame(&[(key(0, 0), reserves(1))]);
        stage.read(0, &mut session, &outbox);
    }
    let shown = |session: &Session| session.standing_view("depth1/BTC/USDT").unwrap().value;
    assert_eq!(shown(&session), reserves(1));
    let encodes = stage.fanout.counts().encodes;
    stage.frame(&[(key(0, 0), reserves(2))]);
    assert_eq!(stage.fanout.counts().encodes, encodes + 1);
    let Next::Send(on_its_way) = outbox.next() else { panic!("nothing to send") };
    for bids in 3..20 {
        stage.frame(&[(key(0, 0), reserves(bids))]);
    }
    assert_eq!(stage.fanout.counts().gaps, 1);
    session.receive(ToTerminal::decode(&on_its_way).unwrap(), 0).unwrap();
    let mut messages = stage.read(0, &mut session, &outbox);
    for _ in 0..3 {
        stage.frame(&[]);
        messages.extend(stage.read(0, &mut session, &outbox));
    }
    let gaps: Vec<_> = messages
        .iter()
        .filter_map(|message| if let ToTerminal::Gap(gap) = message { Some(gap) } else { None })
        .collect();
    assert_eq!(gaps.len(), 1);
    assert!(gaps[0].entries.contains(&(Channel::View, key(0, 0).number())), "{gaps:?}");
    assert_eq!(shown(&session), reserves(19));
    assert_eq!(session.counters().unknown_ids, 0);
}
