//! The store against the real engine: one engine for this test process, a database per test. `CLICKHOUSE_URL` makes
//! them run against a server instead, the tests of the engine's own process excepted.
//!
//! Never: a test that needs another to have run.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "store/analysts.rs"]
mod analysts;
#[path = "store/audit.rs"]
mod audit;
#[path = "store/batch_log.rs"]
mod batch_log;
#[path = "store/batch_records.rs"]
mod batch_records;
#[path = "store/batch_state.rs"]
mod batch_state;
#[path = "store/blocks.rs"]
mod blocks;
#[path = "store/child.rs"]
mod child;
#[path = "store/engine.rs"]
mod engine;
#[path = "store/listener.rs"]
mod listener;
#[path = "store/overload.rs"]
mod overload;
#[path = "store/raw.rs"]
mod raw;
#[path = "store/restore.rs"]
mod restore;
#[path = "store/schema.rs"]
mod schema;
#[path = "store/state.rs"]
mod state;
#[path = "store/sweep.rs"]
mod sweep;
#[path = "store/tables.rs"]
mod tables;
#[path = "store/traps.rs"]
mod traps;
#[path = "store/worked.rs"]
mod worked;

use connectors::clickhouse::{
    self, AnalystOptions, InProcess, SinkInput, SinkOptions, SinkView, StoreAddress, StoreWriter, WriterOptions,
};
use market::{
    AdmittedChanges, AdmittedTrade, Directory, Instrument, Scale, Side, TickChange, Trade, U256, Venue, Version,
};
use std::{
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinHandle};

/// An update id of a venue beyond 2^53, and one beyond what a float tells apart from its neighbour.
const LARGE_IDS: [u64; 2] = [8_389_765_929_445_198_309, 9_007_199_254_740_993];
const SCALE: Scale = Scale { price: -2, quantity: -8 };
/// `2023-11-14 22:13:20.345678901` by the venue's clock.
const VENUE_NS: u64 = 1_700_000_000_345_678_901;
const SHOWN_NS: u64 = 1_700_000_000_360_000_000;
const RECEIVED_NS: u64 = 1_700_000_000_400_000_007;

/// A directory for this process; those of processes that ended are removed, as statics are never dropped.
fn scratch(name: &str) -> PathBuf {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("store");
    std::fs::create_dir_all(&base).unwrap();
    for entry in std::fs::read_dir(&base).unwrap().flatten() {
        let owner = entry.file_name().to_string_lossy().split('-').next().unwrap_or_default().to_owned();
        if !Path::new("/proc").join(owner).exists() && std::fs::remove_dir_all(entry.path()).is_err() {
            eprintln!("another test process removes {}", entry.path().display());
        }
    }
    base.join(format!("{}-{name}", std::process::id()))
}

fn library() -> PathBuf {
    clickhouse::locate(None).unwrap()
}

/// The engine of this process with how many tests use it. It closes with the last: a process that ends with open
/// engine threads may crash on its way out.
static ENGINE: Mutex<(usize, Option<InProcess>)> = Mutex::new((0, None));

/// One test's use of the engine.
struct InUse;

impl InUse {
    /// Address of the analysts' listener.
    fn analysts_url(&self) -> String {
        let engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        engine.1.as_ref().unwrap().analysts_url().to_owned()
    }

    fn take() -> (Self, String) {
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            // A database that is there before any test makes one.
            let analysts = AnalystOptions { database: "default".to_owned(), ..AnalystOptions::default() };
            let (library, directory) = (library(), scratch("engine"));
            runtime.block_on(clickhouse::serve_in_process_with(&library, &directory, analysts)).unwrap()
        };
        let url = engine.1.get_or_insert_with(|| std::thread::spawn(start).join().unwrap()).url().to_owned();
        engine.0 += 1;
        (Self, url)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        engine.0 -= 1;
        if engine.0 == 0 {
            engine.1 = None;
        }
    }
}

/// A database of a test's own.
struct Store {
    address: StoreAddress,
    _engine: Option<InUse>,
}

impl Deref for Store {
    type Target = StoreAddress;

    fn deref(&self) -> &StoreAddress {
        &self.address
    }
}

/// A database without tables, not created yet.
fn empty_store() -> Store {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let database = format!("test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let (engine, url) = match std::env::var("CLICKHOUSE_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let (engine, url) = InUse::take();
            (Some(engine), url)
        }
    };
    Store { address: StoreAddress { database, ..StoreAddress::at(&url) }, _engine: engine }
}

async fn store() -> Store {
    let store = empty_store();
    clickhouse::schema::apply(&store).await.unwrap();
    store
}

fn directory() -> (Arc<Directory>, Arc<Instrument>) {
    let directory = Directory::default();
    let instrument = directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
    (Arc::new(directory), instrument)
}

fn changes(instrument: &Instrument, version: Version, rows: &[(Side, i64, U256)], whole: bool) -> AdmittedChanges {
    let change = |(side, index, reserves): &(Side, i64, U256)| TickChange::at(*side, *index, *reserves);
    AdmittedChanges {
        symbol: instrument.id,
        version,
        received_ns: RECEIVED_NS,
        venue_ns: VENUE_NS,
        scale: SCALE,
        changes: rows.iter().map(change).collect(),
        whole,
        places: Vec::new(),
        leg: market::LegId(0),
        shown_ns: SHOWN_NS,
    }
}

fn trade(instrument: &Instrument, id: &str, order: u64, price: i64, second: u64) -> AdmittedTrade {
    let quantity = U256::from(150_000_000_u64);
    let venue_ns = 1_700_000_000_000_000_000 + second * 1_000_000_000;
    let trade = Trade { id: id.into(), order, tick_index: price, quantity, taker: Side::Bid, venue_ns };
    AdmittedTrade { symbol: instrument.id, received_ns: venue_ns + 5, scale: SCALE, trade }
}

fn number(value: u64) -> U256 {
    U256::from(value)
}

/// A sink that is running.
struct Running {
    input: mpsc::Sender<SinkInput>,
    view: Arc<SinkView>,
    task: JoinHandle<Result<clickhouse::SinkReport, clickhouse::SinkError>>,
}

impl Running {
    fn start(address: &StoreAddress, directory: &Arc<Directory>, options: WriterOptions) -> Self {
        let (input, receiver) = mpsc::channel(64);
        let view = Arc::new(SinkView::default());
        let writer = StoreWriter::new("test", options);
        let options = SinkOptions { flush_max: Duration::from_secs(30) };
        let (client, directory) = (address.client(), Arc::clone(directory));
        let sink = clickhouse::run_sink(client, writer, receiver, directory, Arc::clone(&view), options);
        Self { input, view, task: tokio::spawn(sink) }
    }

    async fn end(self) -> clickhouse::SinkReport {
        drop(self.input);
        self.task.await.unwrap().unwrap()
    }
}

/// Writes events through a sink of their own.
async fn write(
    address: &StoreAddress,
    directory: &Arc<Directory>,
    options: WriterOptions,
    events: impl IntoIterator<Item = SinkInput>,
) -> clickhouse::SinkReport {
    let running = Running::start(address, directory, options);
    for event in events {
        running.input.send(event).await.unwrap();
    }
    running.end().await
}

/// The live ticks of an instrument, short.
async fn live(address: &StoreAddress, instrument: &Instrument) -> Vec<(Side, i64, U256, u64)> {
    let ticks = clickhouse::book(&address.client(), instrument).await.unwrap();
    ticks.into_iter().map(|tick| (tick.side, tick.key.tick_index, tick.reserves, tick.version.seq)).collect()
}

async fn count(address: &StoreAddress, table: &str) -> u64 {
    address.client().query(&format!("SELECT count() FROM {table}")).fetch_one().await.unwrap()
}

async fn execute(address: &StoreAddress, sql: &str) {
    address.client().query_raw(sql).execute().await.unwrap();
}
