//! Books from the store, on the real engine: what they are, and that a crowd asks it once. `CLICKHOUSE_URL` makes these run
//! against a server instead.
//!
//! Never: a wait for time in place of a condition.

use crate::world::{Answer, World, whole};
use connectors::clickhouse::{
    self, InProcess, SinkInput, SinkOptions, SinkView, StoreAddress, StoreWriter, WriterOptions,
};
use market::{
    AdmittedChanges, Directory, FeedState, Instrument, LegId, Scale, Side, TickChange, U256, Venue, Version,
    batch::end_of,
};
use serde_json::{Value, json};
use server::{config, http::Reads};
use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};
use wire::MEDIA_TYPE;

const BOOK: &str = "/v1/books/binance_spot/BTCUSDT?source=store";
const CHANGES: &str = "/v1/books/binance_spot/BTCUSDT/changes?source=store";
const SCALE: Scale = Scale { price: -2, quantity: -3 };

/// The engine of this process with how many tests use it; it closes with the last.
static ENGINE: Mutex<(usize, Option<InProcess>)> = Mutex::new((0, None));

struct InUse;

impl InUse {
    fn take() -> (Self, String) {
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || {
            let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("books-{}", std::process::id()));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let library = clickhouse::locate(None).unwrap();
            runtime.block_on(clickhouse::serve_in_process(&library, &scratch)).unwrap()
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
            let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("books-{}", std::process::id()));
            drop(std::fs::remove_dir_all(scratch));
        }
    }
}

/// A database of a test's own, and readers of it.
struct Store {
    address: StoreAddress,
    directory: Arc<Directory>,
    _engine: Option<InUse>,
}

impl Store {
    async fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let database = format!("books_{}_{}", std::process::id(), NUMBER.fetch_add(1, SeqCst));
        let (engine, url) = match std::env::var("CLICKHOUSE_URL") {
            Ok(url) => (None, url),
            Err(_) => {
                let (engine, url) = InUse::take();
                (Some(engine), url)
            }
        };
        let address = StoreAddress { database, ..StoreAddress::at(&url) };
        clickhouse::schema::apply(&address).await.unwrap();
        let directory = Directory::default();
        directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
        directory.intern(Venue::NeutronDex, "a<>b", "a", "b").unwrap();
        Self { address, directory: Arc::new(directory), _engine: engine }
    }

    fn instrument(&self, name: &str) -> Arc<Instrument> {
        self.directory.find(name).unwrap()
    }

    /// Writes events through a sink of their own, each its own insert.
    async fn write(&self, events: impl IntoIterator<Item = AdmittedChanges>) {
        for event in events {
            let (input, receiver) = mpsc::channel(64);
            let writer = StoreWriter::new("test", WriterOptions::default());
            let view = Arc::new(SinkView::default());
            let options = SinkOptions { flush_max: Duration::from_secs(30) };
            let directory = Arc::clone(&self.directory);
            let sink = clickhouse::run_sink(self.address.client(), writer, receiver, directory, view, options);
            let sink = tokio::spawn(sink);
            input.send(SinkInput::Changes(event)).await.unwrap();
            drop(input);
            sink.await.unwrap().unwrap();
        }
    }

    async fn execute(&self, sql: &str) {
        self.address.client().query_raw(sql).execute().await.unwrap();
    }

    /// A server whose readers ask the store at that address.
    fn world(&self, url: &str, config: &config::Http) -> World {
        let address = StoreAddress { url: url.to_owned(), ..self.address.clone() };
        World::reading(Arc::clone(&self.directory), Arc::new(Reads::new(config, Some(address.client()))))
    }

    fn own_world(&self) -> World {
        self.world(&self.address.url, &config::Http::default())
    }
}

fn changes(instrument: &Instrument, version: Version, rows: &[(Side, i64, u64)], whole: bool) -> AdmittedChanges {
    let change = |(side, index, reserves): &(Side, i64, u64)| TickChange::at(*side, *index, U256::from(*reserves));
    AdmittedChanges {
        symbol: instrument.id,
        version,
        received_ns: 1_700_000_000_000_000_000,
        venue_ns: 0,
        scale: SCALE,
        changes: rows.iter().map(change).collect(),
        places: Vec::new(),
        leg: LegId(0),
        whole,
        shown_ns: 0,
    }
}

fn v(seq: u64) -> Version {
    Version::new(1, seq)
}

/// Side, tick, quantity and version of each tick of an answer.
fn ticks(body: &Value) -> Vec<(String, String, String, String)> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let rows = body["ticks"].as_array().unwrap();
    rows.iter()
        .map(|row| (text(row, "side"), text(row, "price"), text(row, "quantity"), text(row, "version")))
        .collect()
}

fn row(side: &str, price: &str, quantity: &str, version: &str) -> (String, String, String, String) {
    (side.to_owned(), price.to_owned(), quantity.to_owned(), version.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_book_has_its_version_and_says_that_it_is_stored() {
    let store = Store::new().await;
    let btc = store.instrument("binance_spot/BTCUSDT");
    let mut world = store.own_world();
    let none = world.json(BOOK).await;
    assert_eq!((&none["version"], &none["bids"], &none["state"]), (&json!(null), &json!([]), &json!("stored")));
    let book = [(Side::Bid, 100, 1), (Side::Bid, 99, 2), (Side::Ask, 101, 3)];
    // The last change is a death, so the greatest version is a dead tick's.
    let events = [changes(&btc, v(10), &book, true), changes(&btc, v(12), &[(Side::Bid, 100, 0)], false)];
    store.write(events).await;
    for merged in [false, true] {
        if merged {
            store.execute("OPTIMIZE TABLE tick_state FINAL").await;
        }
        let text = world.json(BOOK).await;
        assert_eq!(
            (&text["version"], &text["source"], &text["state"]),
            (&json!("1:12"), &json!("store"), &json!("stored"))
        );
        assert_eq!((&text["bids"], &text["asks"]), (&json!([["0.99", "0.002"]]), &json!([["1.01", "0.003"]])));
        assert_eq!((&text["newer_ticks"], text["age_ms"].as_u64().unwrap() > 0), (&json!(0), true));
    }
    let answer = world.get(BOOK, &[]).await;
    assert_eq!((answer.tag().as_str(), answer.header("sprag-state")), ("\"1:12.store\"", Some("stored")));
    assert_eq!(world.get(BOOK, &[("if-none-match", "\"1:12.store\"")]).await.status, 304);
    let bytes = world.get(BOOK, &[("accept", MEDIA_TYPE)]).await;
    let books = receiver::books_of(&bytes.body).unwrap();
    assert_eq!((books[0].book.version(), books[0].feed.state), (v(12), FeedState::Stale));
    // What is shown has a version of its own, and another tag.
    world.cut(vec![whole(0, v(12), &[(99, 2)], &[(101, 3)])]);
    let live = world.get("/v1/books/binance_spot/BTCUSDT", &[]).await;
    assert_eq!((live.tag().as_str(), &live.json()["bids"]), ("\"1:12\"", &json!([["0.99", "0.002"]])));
    let pair = world.json("/v1/pairs/BTC/USDT/book?source=store").await;
    assert_eq!(pair["books"][0]["version"], "1:12");
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_changes_name_the_dead_each_tick_with_its_version() {
    let store = Store::new().await;
    let btc = store.instrument("binance_spot/BTCUSDT");
    let book = [(Side::Bid, 100, 1), (Side::Bid, 99, 2), (Side::Ask, 101, 3)];
    let events = [
        changes(&btc, v(10), &book, true),
        changes(&btc, v(12), &[(Side::Bid, 100, 0), (Side::Ask, 102, 4)], false),
        changes(&btc, v(15), &[(Side::Ask, 102, 5)], false),
    ];
    store.write(events).await;
    let world = store.own_world();
    let told = world.json(&format!("{CHANGES}&since=1:10")).await;
    assert_eq!((&told["whole"], &told["from"], &told["version"]), (&json!(false), &json!("1:10"), &json!("1:15")));
    assert_eq!(ticks(&told), [row("ask", "1.02", "0.005", "1:15"), row("bid", "1.00", "0", "1:12")]);
    // Of the store every version is known, shown or not, for it has what each event did.
    let told = world.json(&format!("{CHANGES}&since=1:13")).await;
    assert_eq!((&told["whole"], ticks(&told)), (&json!(false), vec![row("ask", "1.02", "0.005", "1:15")]));
    let told = world.json(&format!("{CHANGES}&since=1:15")).await;
    assert_eq!((&told["whole"], &told["version"], ticks(&told)), (&json!(false), &json!("1:15"), Vec::new()));
    let live =
        [row("ask", "1.01", "0.003", "1:10"), row("ask", "1.02", "0.005", "1:15"), row("bid", "0.99", "0.002", "1:10")];
    for (since, reason) in [("1:9", "replaced"), ("1:16", "ahead"), ("2:1", "other_epoch"), ("0:5", "other_epoch")] {
        let told = world.json(&format!("{CHANGES}&since={since}")).await;
        assert_eq!((&told["whole"], &told["reason"]), (&json!(true), &json!(reason)), "{since}");
        assert_eq!(ticks(&told), live, "{since}");
    }
    // Once rows of the dead may be gone, what was before is not told as a difference.
    store
        .execute(
            "INSERT INTO tick_floors (venue, symbol, asset_0, asset_1, version, set_at) \
             SELECT 'binance_spot', 'BTCUSDT', 'BTC', 'USDT', bitOr(bitShiftLeft(toUInt128(1), 64), toUInt128(12)), now()",
        )
        .await;
    assert_eq!(world.json(&format!("{CHANGES}&since=1:11")).await["reason"], "too_old");
    assert_eq!(world.json(&format!("{CHANGES}&since=1:12")).await["whole"], false);
    world.end();
}

/// Blocks are inserted side by side, so a later one may be there before an earlier one: the cursor says what is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_batch_stream_the_cursor_is_the_version() {
    let store = Store::new().await;
    let dex = store.instrument("neutron_dex/a<>b");
    let path = "/v1/books/neutron_dex/a%3C%3Eb?source=store";
    let at = |height| Version::new(2, end_of(height));
    let events =
        [changes(&dex, at(5), &[(Side::Bid, 100, 1)], true), changes(&dex, at(7), &[(Side::Bid, 99, 2)], false)];
    store.write(events).await;
    let world = store.own_world();
    let without = world.json(path).await;
    assert_eq!((&without["version"], &without["newer_ticks"]), (&json!("2:0"), &json!(2)));
    let cursor = "INSERT INTO batch_cursors (venue, stream, height, moved_at) VALUES ('neutron_dex', 's', ";
    store.execute(&format!("{cursor}5, now())")).await;
    let behind = world.json(path).await;
    assert_eq!((&behind["version"], &behind["newer_ticks"]), (&json!(at(5).to_string()), &json!(1)));
    store.execute(&format!("{cursor}9, now())")).await;
    let whole = world.json(path).await;
    assert_eq!((&whole["version"], &whole["newer_ticks"]), (&json!(at(7).to_string()), &json!(0)));
    world.end();
}

/// What stands between the readers and the store: it sees every statement, holds each connection until it may go on, and
/// breaks as many as it is told to.
struct Proxy {
    url: String,
    seen: Arc<Mutex<Vec<u8>>>,
    gate: Arc<Semaphore>,
    breaks: Arc<AtomicUsize>,
}

impl Proxy {
    async fn before(store: &StoreAddress, breaks: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = Self {
            url,
            seen: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
            breaks: Arc::new(AtomicUsize::new(breaks)),
        };
        let upstream = store.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let (seen, gate, breaks) = (Arc::clone(&proxy.seen), Arc::clone(&proxy.gate), Arc::clone(&proxy.breaks));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (seen, gate, breaks) = (Arc::clone(&seen), Arc::clone(&gate), Arc::clone(&breaks));
                tokio::spawn(carry(client, upstream.clone(), seen, gate, breaks));
            }
        });
        proxy
    }

    fn statements(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        String::from_utf8_lossy(&seen).matches("FROM tick_state").count()
    }
}

async fn carry(
    client: TcpStream,
    upstream: String,
    seen: Arc<Mutex<Vec<u8>>>,
    gate: Arc<Semaphore>,
    breaks: Arc<AtomicUsize>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let mut to_store = None;
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
        seen.lock().unwrap().extend_from_slice(&buffer[..count]);
        if to_store.is_none() {
            gate.acquire().await.unwrap().forget();
            if breaks.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                return;
            }
            let (mut from_store, writer) = TcpStream::connect(&upstream).await.unwrap().into_split();
            to_store = Some(writer);
            let mut back = std::mem::replace(&mut to_client, unused_half().await);
            tokio::spawn(async move { drop(tokio::io::copy(&mut from_store, &mut back).await) });
        }
        if let Some(writer) = &mut to_store {
            writer.write_all(&buffer[..count]).await.unwrap();
        }
    }
}

/// A half of a connection that nobody uses.
async fn unused_half() -> tokio::net::tcp::OwnedWriteHalf {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    TcpStream::connect(listener.local_addr().unwrap()).await.unwrap().into_split().1
}

async fn until(what: impl Fn() -> bool) {
    let waiting = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

/// Many callers that wait for one book behind a proxy, the first of whom asked alone.
async fn crowd(world: &World, proxy: &Proxy, count: usize) -> Vec<tokio::task::JoinHandle<Answer>> {
    let numbers = || world.reads.store().unwrap().numbers().waiting();
    let mut callers = vec![tokio::spawn(world.ask(BOOK, &[]))];
    until(|| numbers() == 1 && proxy.statements() == 1).await;
    callers.extend((1..count).map(|_| tokio::spawn(world.ask(BOOK, &[]))));
    until(|| numbers() == count).await;
    callers
}

async fn stocked() -> Store {
    let store = Store::new().await;
    let btc = store.instrument("binance_spot/BTCUSDT");
    store.write([changes(&btc, v(10), &[(Side::Bid, 100, 1)], true)]).await;
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_callers_are_one_statement_and_499_are_answered_when_the_first_goes() {
    let store = stocked().await;
    let proxy = Proxy::before(&store.address, 0).await;
    let config = config::Http { store_timeout_ms: 60_000, ..config::Http::default() };
    let world = store.world(&proxy.url, &config);
    let mut callers = crowd(&world, &proxy, 500).await;
    let first = callers.remove(0);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    proxy.gate.add_permits(1_000);
    let mut answered = 0;
    for caller in callers {
        let answer = caller.await.unwrap();
        assert_eq!((answer.status, &answer.json()["version"]), (200, &json!("1:10")));
        answered += 1;
    }
    assert_eq!((answered, proxy.statements()), (499, 1));
    // Whoever comes later asks anew, and sees what was written meanwhile.
    let btc = store.instrument("binance_spot/BTCUSDT");
    store.write([changes(&btc, v(11), &[(Side::Bid, 100, 7)], false)]).await;
    assert_eq!(world.json(BOOK).await["bids"], json!([["1.00", "0.007"]]));
    assert_eq!(proxy.statements(), 2);
    let page = String::from_utf8(world.get("/metrics", &[]).await.body).unwrap();
    for line in [
        r#"sprag_store_reads_total{event="callers"} 501"#,
        r#"sprag_store_reads_total{event="joined"} 499"#,
        r#"sprag_store_reads_total{event="attempts"} 2"#,
    ] {
        assert!(page.contains(line), "{line} is missing in\n{page}");
    }
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_breaks_is_replaced_once() {
    let store = stocked().await;
    for (breaks, status) in [(1, 200), (2, 502)] {
        let proxy = Proxy::before(&store.address, breaks).await;
        let world = store.world(&proxy.url, &config::Http { store_timeout_ms: 60_000, ..config::Http::default() });
        let callers = crowd(&world, &proxy, 20).await;
        proxy.gate.add_permits(1_000);
        for caller in callers {
            assert_eq!(caller.await.unwrap().status, status);
        }
        assert_eq!(proxy.statements(), 2);
        world.end();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_says_nothing_and_too_many_questions_have_their_answers() {
    let store = stocked().await;
    let proxy = Proxy::before(&store.address, 0).await;
    let config = config::Http { store_timeout_ms: 100, ..config::Http::default() };
    let world = store.world(&proxy.url, &config);
    let answer = world.get(BOOK, &[]).await;
    assert_eq!((answer.status, proxy.statements()), (504, 2), "{answer:?}");
    world.end();

    let config = config::Http { store_questions_max: 1, store_timeout_ms: 60_000, ..config::Http::default() };
    let world = store.world(&proxy.url, &config);
    let seen = proxy.statements();
    let first = tokio::spawn(world.ask(BOOK, &[]));
    until(|| proxy.statements() == seen + 1).await;
    let busy = world.get("/v1/books/neutron_dex/a%3C%3Eb?source=store", &[]).await;
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
    proxy.gate.add_permits(1_000);
    assert_eq!(first.await.unwrap().status, 200);
    world.end();
}
