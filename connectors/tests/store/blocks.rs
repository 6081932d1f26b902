//! Blocks of batch streams in the real engine: the same rows however often, in whatever order and by whomever a block is
//! written, and a book that goes on from the cursor.
//!
//! Never: an expectation that depends on when parts merge.

use super::*;
use connectors::clickhouse::{BatchCursor, BatchStream, BatchStreams, Healed, RestoreBatches, restore};
use market::{
    LegId, TickKey,
    batch::{end_of, height_of, place_of},
    scale::PRICE_POWERS,
};

const LEG: LegId = LegId(3);
const STREAM: &str = "neutron-1";
const DEX: Scale = Scale { price: PRICE_POWERS, quantity: -27 };
/// What a block is in besides `tick_updates`.
const VIEWS: [&str; 3] = ["tick_state_fill", "instrument_version_fill", "book_snapshots_fill"];

/// A host with its own numbers of instruments and tranches.
struct Host {
    directory: Arc<Directory>,
    pairs: [Arc<Instrument>; 2],
    batches: BatchStreams,
}

impl Host {
    /// Hosts number what they meet in the order in which they meet it.
    fn new(first: usize) -> Self {
        let directory = Arc::new(Directory::default());
        let names = ["ATOM", "USDC"];
        let meet =
            |at: usize| directory.intern(Venue::NeutronDex, &format!("{}<>untrn", names[at]), names[at], "untrn");
        let (one, other) = (meet(first).unwrap(), meet(1 - first).unwrap());
        let pairs = if first == 0 { [one, other] } else { [other, one] };
        let stream = BatchStream { leg: LEG, venue: Venue::NeutronDex, stream: STREAM.into() };
        let batches = BatchStreams { streams: vec![stream], tranches: Arc::default() };
        if first == 1 {
            batches.tranches.intern("met-before").unwrap();
        }
        Self { directory, pairs, batches }
    }

    /// What a block did to a pair: ordinals, side, tick index, tranche and reserves.
    fn block(&self, pair: usize, height: u64, rows: &[(u64, Side, i64, &str, u64)]) -> AdmittedChanges {
        let mut changes = Vec::new();
        let mut places = Vec::new();
        for (ordinal, side, index, tranche, reserves) in rows {
            let mut change = TickChange::at(*side, *index, number(*reserves));
            change.key.tranche = self.batches.tranches.intern(tranche).unwrap();
            change.key.fee = if tranche.is_empty() { 5 } else { 0 };
            changes.push(change);
            places.push(place_of(height, *ordinal).unwrap());
        }
        AdmittedChanges {
            symbol: self.pairs[pair].id,
            version: Version::new(1, *places.last().unwrap()),
            received_ns: RECEIVED_NS + height,
            venue_ns: VENUE_NS + height,
            scale: DEX,
            changes,
            places,
            leg: LEG,
            whole: false,
            shown_ns: 0,
        }
    }

    /// Blocks 1 to 9: ticks that are born, changed twice in a block, die and live again.
    fn history(&self) -> Vec<(u64, Vec<SinkInput>)> {
        let block = |height: u64| {
            let alive = |every: u64| if height.is_multiple_of(every) { 0 } else { height };
            let rows = [
                (2, Side::Ask, 100, "", height),
                (3, Side::Ask, 100, "", alive(3)),
                (5, Side::Bid, i64::try_from(height % 4).unwrap() - 2, "", alive(2)),
                (8, Side::Ask, 101, "tranche-1", alive(4)),
            ];
            let other = [(1, Side::Bid, i64::try_from(height).unwrap(), "", 7), (9, Side::Ask, 5, "", alive(5))];
            let changes = [self.block(0, height, &rows), self.block(1, height, &other)];
            (height, changes.map(SinkInput::Changes).to_vec())
        };
        (1..=9).map(block).collect()
    }

    fn start(&self, address: &StoreAddress, identity: &str) -> Running {
        let (input, receiver) = mpsc::channel(64);
        let view = Arc::new(SinkView::default());
        let writer = StoreWriter::new(identity, WriterOptions::default()).with_batches(self.batches.clone());
        let options = SinkOptions { flush_max: Duration::from_secs(60) };
        let (client, directory) = (address.client(), Arc::clone(&self.directory));
        let sink = clickhouse::run_sink(client, writer, receiver, directory, Arc::clone(&view), options);
        Running { input, view, task: tokio::spawn(sink) }
    }

    /// Writes blocks in this order through a sink of their own, each with the mark of the greatest height so far.
    async fn write(
        &self,
        address: &StoreAddress,
        identity: &str,
        blocks: impl IntoIterator<Item = (u64, Vec<SinkInput>)>,
    ) -> clickhouse::SinkReport {
        let running = self.start(address, identity);
        let mut greatest = 0;
        for (height, changes) in blocks {
            for change in changes {
                running.input.send(change).await.unwrap();
            }
            greatest = height.max(greatest);
            running.input.send(mark(greatest)).await.unwrap();
        }
        running.end().await
    }
}

fn mark(height: u64) -> SinkInput {
    SinkInput::Through { leg: LEG, place: end_of(height) }
}

/// The rows that FINAL gives, but for when they were received.
async fn state(address: &StoreAddress) -> Vec<String> {
    let mut found = Vec::new();
    for (table, columns) in [
        (
            "tick_state",
            "symbol, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, version, price_exponent",
        ),
        ("instrument_version", "symbol, version, price_exponent, quantity_exponent"),
        ("book_snapshots", "symbol, version"),
    ] {
        let query = format!("SELECT toString(tuple({columns})) AS row FROM {table} FINAL ORDER BY row");
        found.extend(address.client().query(&query).fetch_all::<String>().await.unwrap());
    }
    found
}

#[tokio::test]
async fn a_block_twice_is_one_block_also_by_another_host() {
    let address = store().await;
    let host = Host::new(0);
    let all = host.history();
    let mut right = None;
    for _ in 0..2 {
        let report = host.write(&address, "run-1", all.clone()).await;
        assert_eq!((report.counters.rows_inserted, report.counters.batches_inserted), (54, 9));
        let found = (count(&address, "tick_updates").await, state(&address).await);
        assert_eq!(right.get_or_insert_with(|| found.clone()), &found);
    }
    assert_eq!(right.as_ref().map(|(rows, _)| *rows), Some(54));
    // Another process, which numbers everything otherwise, received the blocks later and got the messages in halves.
    let other = Host::new(1);
    let mut again = other.history();
    for (_, changes) in &mut again {
        changes.reverse();
        for change in changes {
            let SinkInput::Changes(changes) = change else { panic!("no changes") };
            changes.received_ns += 1_000_000;
        }
    }
    other.write(&address, "run-2", again).await;
    assert_eq!(Some((count(&address, "tick_updates").await, state(&address).await)), right);
}

#[tokio::test]
async fn a_row_of_a_block_tells_its_event() {
    let address = store().await;
    let host = Host::new(0);
    let changes = host.block(0, 7, &[(3, Side::Ask, -5, "", 1), (4, Side::Bid, 6, "t", 0)]);
    let whole = AdmittedChanges {
        whole: true,
        places: Vec::new(),
        version: Version::new(1, end_of(7)),
        ..host.block(1, 7, &[(1, Side::Ask, 9, "t", 4)])
    };
    host.write(&address, "run", [(7, vec![SinkInput::Changes(changes), SinkInput::Changes(whole)])]).await;
    let query = "SELECT raw_id, tranche_key, fee, bitAnd(version, toUInt128('18446744073709551615'))::UInt64, price \
                 FROM tick_updates ORDER BY version";
    type Found = (String, String, u32, u64, Option<String>);
    let query = query.replace("price ", "CAST(price AS Nullable(String)) ");
    let found: Vec<Found> = address.client().query(&query).fetch_all().await.unwrap();
    let row = |raw_id: &str, tranche: &str, fee, place| (raw_id.to_owned(), tranche.to_owned(), fee, place, None);
    let right = [
        row("neutron-1/7/3", "", 5, place_of(7, 3).unwrap()),
        row("neutron-1/7/4", "t", 0, place_of(7, 4).unwrap()),
        row("", "t", 0, end_of(7)),
    ];
    assert_eq!(found, right);
}

#[tokio::test]
async fn any_order_of_the_blocks_gives_the_same_state() {
    let host = Host::new(0);
    let mut right = None;
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for _ in 0..10 {
        let address = store().await;
        let mut blocks = host.history();
        for at in (1..blocks.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            blocks.swap(at, usize::try_from(random % u64::try_from(at + 1).unwrap()).unwrap());
        }
        let order: Vec<u64> = blocks.iter().map(|(height, _)| *height).collect();
        let report = host.write(&address, "run", blocks).await;
        let reached = Version::new(1, place_of(9, 8).unwrap());
        assert_eq!(report.durable.get(&host.pairs[0].id), Some(&reached), "{order:?}");
        let found = (count(&address, "tick_updates").await, state(&address).await);
        assert_eq!(right.get_or_insert_with(|| found.clone()), &found, "{order:?}");
    }
}

#[tokio::test]
async fn a_late_block_never_brings_a_dead_tick_back() {
    let address = store().await;
    let host = Host::new(0);
    let block = |height, tranche, reserves| {
        (height, vec![SinkInput::Changes(host.block(0, height, &[(1, Side::Bid, 100, tranche, reserves)]))])
    };
    for tranche in ["", "t"] {
        for (height, reserves) in [(3, 10), (5, 0), (4, 99)] {
            host.write(&address, "run", [block(height, tranche, reserves)]).await;
        }
        assert_eq!(live(&address, &host.pairs[0]).await, []);
        execute(&address, "OPTIMIZE TABLE tick_state FINAL").await;
        assert_eq!(live(&address, &host.pairs[0]).await, []);
        host.write(&address, "run", [block(2, tranche, 98)]).await;
        assert_eq!(live(&address, &host.pairs[0]).await, []);
        execute(&address, "OPTIMIZE TABLE tick_state FINAL").await;
        assert_eq!(live(&address, &host.pairs[0]).await, []);
    }
    assert_eq!(count(&address, "tick_updates").await, 8);
}

#[tokio::test]
async fn a_mark_is_confirmed_when_the_views_have_the_block_too() {
    let address = store().await;
    let host = Host::new(0);
    execute(&address, "CREATE TABLE gate (shut UInt8) ENGINE = MergeTree ORDER BY shut").await;
    execute(&address, "CREATE TABLE beyond (x UInt8) ENGINE = MergeTree ORDER BY x").await;
    execute(
        &address,
        "CREATE MATERIALIZED VIEW a_gate TO beyond AS \
         SELECT throwIf((SELECT count() FROM gate) > 0, 'shut') AS x FROM tick_updates",
    )
    .await;
    let running = host.start(&address, "run");
    let mut blocks = host.history().into_iter();
    for (height, changes) in blocks.by_ref().take(2) {
        for change in changes {
            running.input.send(change).await.unwrap();
        }
        running.input.send(mark(height)).await.unwrap();
    }
    while running.view.through(LEG).count < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    execute(&address, "INSERT INTO gate VALUES (1)").await;
    for (height, changes) in blocks {
        for change in changes {
            running.input.send(change).await.unwrap();
        }
        running.input.send(mark(height)).await.unwrap();
    }
    while running.view.counters().retries < 6 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let through = running.view.through(LEG);
    assert_eq!((through.count, height_of(through.place)), (2, 2));
    let reached = Version::new(1, place_of(2, 8).unwrap());
    assert_eq!(running.view.durable(host.pairs[0].id), Some(reached));
    execute(&address, "TRUNCATE TABLE gate").await;
    let view = Arc::clone(&running.view);
    running.end().await;
    let through = view.through(LEG);
    assert_eq!((through.count, height_of(through.place)), (9, 9));
    assert_eq!(count(&address, "tick_updates").await, 54);
    let other = store().await;
    host.write(&other, "run", host.history()).await;
    assert_eq!(state(&address).await, state(&other).await);
}

#[tokio::test]
async fn a_replayed_block_fills_what_a_crash_left_out_of_the_views() {
    let right = store().await;
    let host = Host::new(0);
    host.write(&right, "run-1", host.history()).await;
    for (lost, healed) in [(&VIEWS[..1], true), (&VIEWS[..], true), (&VIEWS[..], false)] {
        let address = store().await;
        let mut blocks = host.history();
        let last = blocks.pop().unwrap();
        // Block 8 is the one that is cut, and block 9 is in: a start finds nothing missing by the greatest version.
        let cut = blocks.pop().unwrap();
        host.write(&address, "run-1", blocks).await;
        if !healed {
            host.write(&address, "run-1", [last.clone()]).await;
        }
        for view in lost {
            execute(&address, &format!("DROP TABLE {view}")).await;
        }
        host.write(&address, "run-1", [cut.clone()]).await;
        clickhouse::schema::apply(&address).await.unwrap();
        let next = Host::new(1);
        let options = RestoreBatches { batches: next.batches.clone(), begin_after: 7 };
        let found = restore(&address.client(), &options).await.unwrap();
        assert_eq!(found.healed != Healed::default(), healed, "{lost:?}");
        let replayed = next.history().split_off(7);
        assert_eq!(replayed.iter().map(|(height, _)| *height).collect::<Vec<_>>(), [cut.0, last.0]);
        next.write(&address, "run-2", replayed).await;
        assert_eq!(state(&address).await, state(&right).await, "{lost:?}");
        assert_eq!(count(&address, "tick_updates").await, 54);
    }
}

#[tokio::test]
async fn a_log_book_goes_on_from_the_cursor_with_its_newer_ticks_and_tranches() {
    let address = store().await;
    let host = Host::new(0);
    host.write(&address, "run-1", host.history()).await;
    let other = Directory::default().intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
    let beside = changes(&other, Version::new(4, 31), &[(Side::Bid, 50, number(5))], false);
    let directory = Directory::default();
    directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
    write(&address, &Arc::new(directory), WriterOptions::default(), [SinkInput::Changes(beside)]).await;

    let next = Host::new(1);
    let options = RestoreBatches { batches: next.batches.clone(), begin_after: 2 };
    let begun = restore(&address.client(), &options).await.unwrap();
    assert_eq!(begun.cursors, []);
    for (stream, height) in [(STREAM, 5), (STREAM, 6), ("another", 3)] {
        execute(&address, &format!("INSERT INTO batch_cursors VALUES ('neutron_dex', '{stream}', {height}, {height})"))
            .await;
    }
    let state = restore(&address.client(), &options).await.unwrap();
    let cursor = |stream: &str, height| BatchCursor { venue: Venue::NeutronDex, stream: stream.into(), height };
    assert_eq!(state.cursors, [cursor("another", 3), cursor(STREAM, 6)]);
    for (state, height) in [(&begun, 2), (&state, 6)] {
        let at = |symbol| &state.instruments.iter().find(|found| &*found.symbol == symbol).unwrap().restored;
        let book = at("ATOM<>untrn");
        let (version, through) = (Version::new(1, end_of(height)), Version::new(1, place_of(9, 8).unwrap()));
        assert_eq!((book.version, book.through, book.from_log, book.scale), (version, through, true, DEX));
        let tranche = next.batches.tranches.intern("tranche-1").unwrap();
        let key = |index, fee| TickKey { fee, ..TickKey::at(index) };
        let order = TickKey { tranche, ..TickKey::at(101) };
        let kept = book.ticks.iter().flatten();
        let mut found: Vec<_> =
            kept.map(|kept| (kept.tick.side, kept.tick.key, kept.tick.reserves, height_of(kept.version.seq))).collect();
        found.sort_unstable();
        let mut right = vec![
            (Side::Bid, key(-1, 5), number(9), 9),
            (Side::Bid, key(1, 5), number(7), 7),
            (Side::Ask, order, number(9), 9),
        ];
        right.sort_unstable();
        assert_eq!(found, right);
        let venue = at("BTCUSDT");
        assert_eq!((venue.version, venue.from_log), (Version::new(4, 31), false));
    }
}
