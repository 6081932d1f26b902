//! A tape that the test feeds, behind the real router.
//!
//! Never: a cut that the test did not give.

use axum::{
    Router,
    body::{Body, to_bytes},
};
use dataflow::{
    clock::CutClock,
    cut::{BookCut, InstrumentCut, LaneCut},
    ingest::Credit,
    sink::SinkMessage,
};
use hyper::{Request, service::Service};
use hyper_util::service::TowerToHyperService;
use market::{Directory, Feed, FeedState, Flags, Level, LevelChange, Scale, Side, SymbolId, U256, Version};
use serde_json::Value;
use server::{
    config,
    fanout::{Fanout, FanoutConfig, outbox::RingBounds},
    http::{self, Reads, Shared},
    hub::{Hub, HubConfig},
    socket::Admission,
    source,
    tape::{self, LagBounds, Tape, TapeEnd, TapeHandle, TapeInput},
};
use std::{
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

pub(crate) const SCALE: Scale = Scale { price: -2, quantity: -3 };

/// An answer of the router.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: hyper::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The tag, which must be there.
    pub(crate) fn tag(&self) -> String {
        self.header("etag").unwrap_or_else(|| panic!("no tag: {self:?}")).to_owned()
    }
}

/// The server without its sockets.
pub(crate) struct World {
    pub(crate) reads: Arc<Reads>,
    pub(crate) router: Router,
    tape: TapeHandle,
    inputs: Sender<TapeInput>,
    thread: JoinHandle<TapeEnd>,
    cut: u64,
}

impl World {
    pub(crate) fn start(directory: Arc<Directory>) -> Self {
        Self::reading(directory, Arc::default())
    }

    /// One whose readers share this.
    pub(crate) fn reading(directory: Arc<Directory>, reads: Arc<Reads>) -> Self {
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
        let hub = Hub::new(HubConfig { workers: 1, clock, cuts_per_frame: 10, idle_frames: true });
        let tape = Tape {
            hub: hub.with_changes(config::Http::default().change_bounds()),
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
        let handle = TapeHandle::new(inputs.clone());
        let thread = std::thread::spawn(move || tape::run(tape, &taken));
        let router = http::router(Shared {
            tape: handle.clone(),
            directory,
            admission: Admission::new(16, RingBounds { frames: 64, bytes: 8 << 20, age_ms: 2_560 }),
            source: control,
            store: None,
            batches: None,
            upkeep: None,
            audit: None,
            reads: Arc::clone(&reads),
            checkpoints: Arc::default(),
            ready: Arc::new(AtomicBool::new(true)),
            lag_max: Duration::MAX,
            simulated: true,
        });
        Self { reads, router, tape: handle, inputs, thread, cut: 0 }
    }

    /// A cut; it is stepped over before anything that is asked later.
    pub(crate) fn cut(&mut self, instruments: Vec<InstrumentCut>) {
        let cut = LaneCut { cut: self.cut, instruments, ..LaneCut::default() };
        self.cut += 1;
        let closed = SinkMessage::Closed { worker: 0, before: self.cut };
        for message in [SinkMessage::Cut(cut), closed] {
            self.inputs.send(message.into()).unwrap();
        }
    }

    /// Asks the router; what is asked is asked when this is polled.
    pub(crate) fn ask(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> impl Future<Output = Answer> + Send + 'static + use<> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let service = TowerToHyperService::new(self.router.clone());
        async move {
            let response = service.call(request).await.unwrap();
            let (head, body) = response.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
            Answer { status: head.status.as_u16(), headers: head.headers, body }
        }
    }

    /// What a path answers once the tape has taken every cut.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        // A command may be answered before the steps of the cuts that came before it.
        let stepped = async { while self.tape.stats().await.unwrap().cuts < self.cut {} };
        tokio::time::timeout(Duration::from_secs(30), stepped).await.unwrap();
        self.ask(path, headers).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    pub(crate) fn end(self) {
        self.tape.stop();
        self.thread.join().unwrap();
    }
}

fn level(tick_index: i64, quantity: u64) -> Level {
    Level { tick_index, quantity: U256::from(quantity) }
}

/// An instrument's part of a cut.
pub(crate) fn cut_of(symbol: u32, version: Version, book: BookCut, state: FeedState) -> InstrumentCut {
    InstrumentCut {
        symbol: SymbolId(symbol),
        version: Some(version),
        received_ns: 1,
        scale: SCALE,
        book,
        quote: None,
        feed: Some(Feed { state, flags: Flags::default() }),
        trades: Vec::new(),
        admitted: Vec::new(),
        admitted_trades: Vec::new(),
    }
}

/// A whole book.
pub(crate) fn whole(symbol: u32, version: Version, bids: &[(i64, u64)], asks: &[(i64, u64)]) -> InstrumentCut {
    let [bids, asks] =
        [bids, asks].map(|levels| levels.iter().map(|(tick, quantity)| level(*tick, *quantity)).collect());
    let book = BookCut::Snapshot { bids, asks, horizon: [None; 2] };
    cut_of(symbol, version, book, FeedState::Live)
}

/// Changed levels.
pub(crate) fn delta(symbol: u32, base: Version, version: Version, changes: &[(Side, i64, u64)]) -> InstrumentCut {
    let change =
        |(side, tick, quantity): &(Side, i64, u64)| LevelChange { side: *side, level: level(*tick, *quantity) };
    let book = BookCut::Delta { base, changes: changes.iter().map(change).collect() };
    cut_of(symbol, version, book, FeedState::Live)
}
