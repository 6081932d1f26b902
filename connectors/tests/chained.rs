//! The captures of OKX and Deribit: every checksum, every chain of ids, and books as a plain reconstruction has them.
//!
//! Never: a copy of the corpus in the project, or a failure because it is absent.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use connectors::{
    capture::MergedCaptures,
    decoder::Decoder,
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::{FeedCounts, listings::Listings},
};
use foldhash::{HashMap, HashMapExt};
use market::{
    Body, Decimal, Directory, Event, FeedState, Guard, Scale, Side, SymbolId, TickChange, U256, Venue, Window,
    guard::{Limits, Offer},
    quote::Exact,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

type Levels = BTreeMap<(Side, Exact), Exact>;

fn capture(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let path = std::env::var_os("SPRAG_CORPUS").map_or_else(beside, PathBuf::from).join(name);
    if !path.is_file() {
        println!("{} is absent: nothing is tested", path.display());
        return None;
    }
    Some(path)
}

/// A capture as its decoder tells it.
struct Told {
    decoder: Decoder,
    directory: Arc<Directory>,
    events: Vec<Event>,
    frames: Vec<RawFrame>,
}

fn tell(venue: Venue, path: PathBuf) -> Told {
    let directory = Arc::new(Directory::default());
    let mut decoder = Decoder::new(Arc::new(Listings::new(Arc::clone(&directory))));
    let (mut events, mut frames) = (Vec::new(), Vec::new());
    for frame in MergedCaptures::open(&[path]).unwrap() {
        let frame = frame.unwrap();
        decoder.decode(venue, &frame.frame, frame.position, &mut events).unwrap();
        frames.push(frame.frame);
    }
    Told { decoder, directory, events, frames }
}

impl Told {
    fn counts(&self) -> FeedCounts {
        self.decoder.counts().map(|(_, counts)| counts).next().unwrap()
    }

    fn symbol(&self, id: SymbolId) -> String {
        self.directory.get(id).unwrap().symbol.to_string()
    }
}

/// Applies what was told; how many levels a window cut off.
fn apply(levels: &mut Levels, ticks: &[TickChange], scale: Scale, window: Window) -> usize {
    for tick in ticks {
        let price = Exact::new(U256::from(tick.key.tick_index.unsigned_abs()), scale.price);
        let quantity = Exact::new(tick.reserves, scale.quantity);
        set(levels, tick.side, price, quantity);
    }
    let Window::Best(depth) = window else { return 0 };
    let depth = usize::try_from(depth).unwrap();
    let beyond = |side| levels.keys().filter(|(at, _)| *at == side).count().saturating_sub(depth);
    beyond(Side::Bid) + beyond(Side::Ask)
}

fn set(levels: &mut Levels, side: Side, price: Exact, quantity: Exact) {
    if quantity.steps().is_zero() {
        levels.remove(&(side, price));
    } else {
        levels.insert((side, price), quantity);
    }
}

fn exact(text: &str) -> Exact {
    let value = Decimal::parse(text).unwrap();
    Exact::new(value.digits(), value.exponent().try_into().unwrap())
}

#[derive(Deserialize)]
struct OkxMessage<'a> {
    arg: OkxArg,
    #[serde(default)]
    action: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OkxArg {
    channel: String,
    #[serde(rename = "instId")]
    instrument: String,
}

#[derive(Deserialize)]
struct OkxBook {
    bids: Vec<(String, String, String, String)>,
    asks: Vec<(String, String, String, String)>,
}

/// Every level of every connection, as plainly as can be, and the number of messages.
fn okx_books(frames: &[RawFrame]) -> (HashMap<(String, String), Levels>, u64) {
    let (mut books, mut messages) = (HashMap::<_, Levels>::new(), 0);
    for frame in frames.iter().filter(|frame| frame.kind == RawKind::Ws) {
        let RawPayload::Text(text) = &frame.raw else { panic!("text") };
        let message: OkxMessage<'_> = serde_json::from_str(text).unwrap();
        let Some(data) = message.data.filter(|_| message.arg.channel.starts_with("books")) else { continue };
        messages += 1;
        let book = books.entry((frame.conn.to_string(), message.arg.instrument)).or_default();
        if message.action == "snapshot" {
            book.clear();
        }
        for told in serde_json::from_str::<Vec<OkxBook>>(data.get()).unwrap() {
            for (side, rows) in [(Side::Bid, told.bids), (Side::Ask, told.asks)] {
                rows.iter().for_each(|(price, size, ..)| set(book, side, exact(price), exact(size)));
            }
        }
    }
    (books, messages)
}

#[test]
fn every_okx_checksum_matches_and_the_books_are_those_of_the_shown_legs() {
    for (name, legs, checksums) in
        [("okx/okx_2021-07.frames.jsonl.zst", 3, 4_372), ("okx/okx_2022-02.frames.jsonl.zst", 1, 3_679)]
    {
        let Some(path) = capture(name) else { return };
        let told = tell(Venue::Okx, path);
        let (reference, messages) = okx_books(&told.frames);
        let counts = told.counts();
        println!("{name}: {counts:?}");
        assert_eq!((messages, counts.checksums_matched), (checksums, checksums), "{name}");
        assert_eq!((counts.checksums_failed, counts.undecodable, counts.checks_put_aside), (0, 0, 0), "{name}");
        let mut books: HashMap<SymbolId, Levels> = HashMap::new();
        for event in &told.events {
            let book = books.entry(event.symbol).or_default();
            let cut = match &event.body {
                Body::Snapshot(snapshot) => {
                    book.clear();
                    apply(book, &snapshot.ticks, snapshot.scale, snapshot.window)
                }
                Body::Delta(delta) => apply(book, &delta.changes, delta.scale, delta.window),
                _ => 0,
            };
            assert_eq!(cut, 0, "{name}: the venue itself ends what leaves its window");
        }
        books.retain(|_, book| !book.is_empty());
        assert_eq!((books.len(), reference.len()), (10, 10 * legs), "{name}");
        for (id, book) in &books {
            let symbol = told.symbol(*id);
            let conn = told.decoder.active(Venue::Okx, &symbol).unwrap().to_string();
            assert_eq!(Some(book), reference.get(&(conn, symbol.clone())), "{name} {symbol}");
        }
    }
}

#[derive(Deserialize)]
struct DeribitMessage<'a> {
    #[serde(borrow, default)]
    params: Option<DeribitParams<'a>>,
}

#[derive(Deserialize)]
struct DeribitParams<'a> {
    channel: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct DeribitBook<'a> {
    instrument_name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    bids: Vec<(&'a RawValue, &'a RawValue, &'a RawValue)>,
    #[serde(borrow)]
    asks: Vec<(&'a RawValue, &'a RawValue, &'a RawValue)>,
}

/// Every level, as plainly as can be, and the number of changes.
fn deribit_books(frames: &[RawFrame]) -> (HashMap<String, Levels>, usize) {
    let (mut books, mut changes) = (HashMap::<_, Levels>::new(), 0);
    for frame in frames.iter().filter(|frame| frame.kind == RawKind::Ws) {
        let RawPayload::Text(text) = &frame.raw else { panic!("text") };
        let message: DeribitMessage<'_> = serde_json::from_str(text).unwrap();
        let Some(params) = message.params.filter(|params| params.channel.starts_with("book.")) else { continue };
        let told: DeribitBook<'_> = serde_json::from_str(params.data.get()).unwrap();
        changes += usize::from(told.kind == "change");
        let book = books.entry(told.instrument_name).or_default();
        for (side, rows) in [(Side::Bid, told.bids), (Side::Ask, told.asks)] {
            rows.iter().for_each(|(_, price, amount)| set(book, side, exact(price.get()), exact(amount.get())));
        }
    }
    (books, changes)
}

#[test]
fn every_deribit_change_joins_its_chain_and_the_books_are_right() {
    let Some(path) = capture("deribit/deribit_2021-04.frames.jsonl.zst") else { return };
    let told = tell(Venue::Deribit, path);
    let (reference, changes) = deribit_books(&told.frames);
    println!("{:?}", told.counts());
    assert_eq!((told.counts().undecodable, changes), (0, 46));
    let mut books: HashMap<SymbolId, (Guard<(), ()>, Levels)> = HashMap::new();
    let mut applied = 0;
    for event in &told.events {
        let (guard, book) =
            books.entry(event.symbol).or_insert_with(|| (Guard::new(Limits::default(), 0, 0), Levels::new()));
        let now_ns = event.received_ns;
        match &event.body {
            Body::Snapshot(snapshot) => {
                assert_eq!(guard.offer_snapshot(now_ns, snapshot.sequence, ()), Ok(None));
                // Nothing contradicts it in the time that it waits.
                assert!(guard.poll(now_ns + Limits::default().bridge_ns).is_some());
                apply(book, &snapshot.ticks, snapshot.scale, snapshot.window);
            }
            Body::Delta(delta) if delta.sequence.is_assurance() => {
                assert_eq!(
                    guard.offer(now_ns, event.leg, delta.sequence),
                    Offer::Duplicate,
                    "it stands where it is shown"
                );
            }
            Body::Delta(delta) => {
                let offer = guard.offer(now_ns, event.leg, delta.sequence);
                assert!(matches!(offer, Offer::Apply(_)), "{}: {offer:?}", told.symbol(event.symbol));
                apply(book, &delta.changes, delta.scale, delta.window);
                applied += 1;
            }
            _ => {}
        }
    }
    assert_eq!(applied, changes);
    books.retain(|_, (guard, _)| guard.version().is_some());
    assert_eq!((books.len(), reference.len()), (10, 10));
    for (id, (guard, book)) in &books {
        assert_eq!(guard.state(), FeedState::Live);
        assert_eq!(Some(book), reference.get(&told.symbol(*id)));
    }
}
