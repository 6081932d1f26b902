//! The audit against the real engine: what is done behind our back is found, judged and put right, and what only changed
//! meanwhile is none of it.
//!
//! Never: an expectation that depends on when parts merge.

use super::*;
use connectors::clickhouse::{
    BatchStream, BatchStreams, CorrectedTick, Correction, StoredKey,
    audit::{
        self, Action, AuditRecord, Evidence, Facts, Finding, Kind, LiveTicks, Memory, Ruling, TickName, Verdict,
        Witness,
    },
};
use market::{FeedState, TickKey, Tranches};
use std::collections::BTreeMap;

const VERSION: Version = Version::new(1, 100);

fn version(seq: u64) -> Version {
    Version::new(1, seq)
}

fn bid(tick_index: i64) -> TickName {
    TickName { side: Side::Bid, key: StoredKey::at(tick_index) }
}

fn live(ticks: &[(TickName, u64)]) -> LiveTicks {
    let ticks = ticks.iter().map(|(name, reserves)| (name.clone(), number(*reserves))).collect();
    LiveTicks { version: VERSION, scale: SCALE, ticks }
}

/// A store with a book at version 10 that changed at 20, and the live book that goes with it.
async fn right() -> (Store, Arc<Directory>, Arc<Instrument>, LiveTicks) {
    let address = store().await;
    let (directory, instrument) = directory();
    let book: Vec<_> = (100..105).map(|price| (Side::Bid, price, number(5))).collect();
    let events = [
        changes(&instrument, version(10), &book, true),
        changes(&instrument, version(20), &[(Side::Bid, 100, number(7)), (Side::Bid, 104, U256::ZERO)], false),
        changes(&instrument, VERSION, &[], false),
    ];
    write(&address, &directory, WriterOptions::default(), events.map(SinkInput::Changes)).await;
    let live = live(&[(bid(100), 7), (bid(101), 5), (bid(102), 5), (bid(103), 5)]);
    (address, directory, instrument, live)
}

const CONDITION: &str = "asset_0 = 'BTC' AND venue = 'binance_spot'";

/// A row that nobody of us wrote.
async fn insert(address: &StoreAddress, table: &str, price: i64, reserves: u64, version: Version) {
    let (whole, of_whole) = if table == "tick_updates" { ("whole, ", "0, ") } else { ("", "") };
    let sql = format!(
        "INSERT INTO {table} (venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, \
         reserves_zero, version, {whole}price_exponent, quantity_exponent, updated_at, ingestion_timestamp) VALUES \
         ('binance_spot', 'BTCUSDT', 'BTC', 'USDT', 'USDT', {price}, 0, '', {reserves}, {}, {}, {of_whole}-2, -8, 0, 0)",
        u8::from(reserves == 0),
        version.to_u128()
    );
    execute(address, &sql).await;
}

struct Auditor<'a> {
    address: &'a StoreAddress,
    directory: &'a Arc<Directory>,
    instrument: &'a Arc<Instrument>,
    memory: Memory,
    rebuilds: u64,
}

impl<'a> Auditor<'a> {
    fn new(address: &'a StoreAddress, directory: &'a Arc<Directory>, instrument: &'a Arc<Instrument>) -> Self {
        Self { address, directory, instrument, memory: Memory::default(), rebuilds: 1 }
    }

    /// One audit, with everything that follows from it; what was compared, skipped, and found.
    async fn audit(&mut self, live: &LiveTicks, seen: Version) -> (u64, u64, Vec<Finding>) {
        let client = self.address.client();
        let states = audit::states(&client, &[(Arc::clone(self.instrument), live.version)]).await.unwrap();
        let comparison = audit::compare(live, &states[&self.instrument.id], Some(seen));
        let names: Vec<_> = comparison.suspects.iter().map(|suspect| suspect.name.clone()).collect();
        let witnesses = audit::witnesses(&client, self.instrument, live.version, &names).await.unwrap();
        let before = self.memory.recall(self.instrument.id);
        let facts = Facts {
            symbol: self.instrument.id,
            scale: live.scale,
            states: [FeedState::Live; 2],
            rebuilds: self.rebuilds,
            others_from: None,
        };
        let mut findings = Vec::new();
        for mut suspect in comparison.suspects {
            let Witness { state, history } = witnesses[&suspect.name].clone();
            if matches!(suspect.kind, Kind::Missing | Kind::Ahead) {
                suspect.state = state.or(suspect.state);
            }
            let ruling = audit::rule(&suspect, &history, &facts, &before, &mut self.memory);
            findings.push(Finding { suspect, version: live.version, scale: live.scale, history, ruling });
        }
        self.act(live, &findings).await;
        (comparison.compared, comparison.skipped, findings)
    }

    async fn act(&self, live: &LiveTicks, findings: &[Finding]) {
        let mut ticks = Vec::new();
        for finding in findings {
            let suspect = &finding.suspect;
            if finding.ruling == Ruling::Remove {
                let row = suspect.state.unwrap();
                let (client, has_row) = (self.address.client(), finding.history.has_row);
                audit::remove(&client, self.instrument, &suspect.name, row.version, has_row).await.unwrap();
            }
            if matches!(Action::of(finding.ruling), Action::Removed | Action::Rewritten) {
                let scale = suspect.state.filter(|_| suspect.live.is_zero()).map_or(live.scale, |row| row.scale);
                let TickName { side, key } = suspect.name.clone();
                ticks.push(CorrectedTick { side, key, reserves: suspect.live, scale });
            }
        }
        let found_ns = RECEIVED_NS + u64::from(FOUND.fetch_add(1, Ordering::Relaxed));
        let correction = Correction { symbol: self.instrument.id, version: live.version, found_ns, ticks };
        let input = [SinkInput::Correction(correction)];
        write(self.address, self.directory, WriterOptions::default(), input).await;
    }
}

/// Each correction is found at a time of its own.
static FOUND: AtomicU32 = AtomicU32::new(1);

/// Findings, short.
fn short(findings: &[Finding]) -> Vec<(i64, Kind, Ruling)> {
    let one = |finding: &Finding| (finding.suspect.name.key.tick_index, finding.suspect.kind, finding.ruling);
    findings.iter().map(one).collect()
}

/// The store says what the live book says, as analysts read it, before and after all parts are merged.
async fn agrees(auditor: &mut Auditor<'_>, book: &LiveTicks, seen: Version) {
    for merged in [false, true] {
        if merged {
            execute(auditor.address, "OPTIMIZE TABLE tick_state FINAL").await;
        }
        let stored: BTreeMap<_, _> = super::live(auditor.address, auditor.instrument)
            .await
            .into_iter()
            .map(|(side, price, reserves, _)| ((side, price), reserves))
            .collect();
        let right: BTreeMap<_, _> =
            book.ticks.iter().map(|(name, reserves)| ((name.side, name.key.tick_index), *reserves)).collect();
        assert_eq!(stored, right, "merged: {merged}");
        let (compared, skipped, findings) = auditor.audit(book, seen).await;
        let all = u64::try_from(book.ticks.len()).unwrap();
        assert_eq!((compared, skipped, short(&findings)), (all, 0, vec![]), "merged: {merged}");
    }
}

#[tokio::test]
async fn a_right_store_has_nothing_and_what_changed_since_the_copy_is_left_out() {
    let (address, directory, instrument, book) = right().await;
    let mut auditor = Auditor::new(&address, &directory, &instrument);
    agrees(&mut auditor, &book, VERSION).await;
    let late = [(Side::Bid, 100, number(9)), (Side::Bid, 101, U256::ZERO), (Side::Bid, 200, number(1))];
    let event = changes(&instrument, version(105), &late, false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    let (compared, skipped, findings) = auditor.audit(&book, version(105)).await;
    assert_eq!((compared, skipped, short(&findings)), (2, 3, vec![]));
}

#[tokio::test]
async fn a_row_changed_and_one_deleted_and_a_phantom_are_found_and_put_right() {
    let (address, directory, instrument, book) = right().await;
    let mut auditor = Auditor::new(&address, &directory, &instrument);
    execute(
        &address,
        &format!("ALTER TABLE tick_state UPDATE reserves = 99 WHERE {CONDITION} AND tick_index = 101 SETTINGS mutations_sync = 1"),
    )
    .await;
    execute(
        &address,
        &format!("ALTER TABLE tick_state DELETE WHERE {CONDITION} AND tick_index = 102 SETTINGS mutations_sync = 1"),
    )
    .await;
    // A row at the very version of the copy, which only the last insert decides.
    insert(&address, "tick_state", 103, 66, VERSION).await;
    insert(&address, "tick_state", 555, 77, version(50)).await;
    let (compared, skipped, findings) = auditor.audit(&book, VERSION).await;
    let right = [
        (101, Kind::Changed, Ruling::Rewrite),
        (102, Kind::Missing, Ruling::Rewrite),
        (103, Kind::Changed, Ruling::Rewrite),
        (555, Kind::Phantom, Ruling::Rewrite),
    ];
    assert_eq!((compared, skipped, short(&findings)), (5, 0, right.to_vec()));
    agrees(&mut auditor, &book, VERSION).await;

    // The same once more: a correction that is repeated is not dropped as a repetition.
    execute(
        &address,
        &format!("ALTER TABLE tick_state UPDATE reserves = 99 WHERE {CONDITION} AND tick_index = 101 SETTINGS mutations_sync = 1"),
    )
    .await;
    let (_, _, findings) = auditor.audit(&book, VERSION).await;
    assert_eq!(short(&findings), [(101, Kind::Changed, Ruling::Rewrite)]);
    agrees(&mut auditor, &book, VERSION).await;
    let corrections = "SELECT count() FROM tick_updates WHERE raw_id = 'audit'";
    assert_eq!(address.client().query(corrections).fetch_one::<u64>().await.unwrap(), 5);

    // Evidence is kept with its sentence, and read back.
    let evidence: Vec<_> = findings
        .into_iter()
        .map(|finding| Evidence {
            audit: 7,
            host: "here".into(),
            found_ns: RECEIVED_NS,
            instrument: Arc::clone(&instrument),
            finding,
        })
        .collect();
    let client = address.client();
    audit::keep_evidence(&client, &evidence).await.unwrap();
    let record = AuditRecord { audit: 7, host: "here".into(), compared_ticks: 5, ..AuditRecord::default() };
    audit::keep_audit(&client, &record).await.unwrap();
    assert_eq!(audit::audits(&client, 5).await.unwrap(), [record]);
    let stored = audit::evidence(&client, 5).await.unwrap();
    let [stored] = &stored[..] else { panic!("{stored:?}") };
    assert_eq!((&*stored.kind, &*stored.verdict, &*stored.action), ("changed", "store_wrong", "rewritten"));
    let said = stored.said.map(|(version, reserves)| (version.seq, reserves));
    assert_eq!(said, [(100, number(5)), (said[1].0, number(99)), (said[2].0, number(5))]);
    assert!(stored.explanation.contains("was changed behind our back"), "{}", stored.explanation);
}

#[tokio::test]
async fn a_whole_table_that_is_gone_comes_back() {
    let (address, directory, instrument, book) = right().await;
    let mut auditor = Auditor::new(&address, &directory, &instrument);
    execute(&address, "TRUNCATE TABLE tick_state").await;
    let (compared, _, findings) = auditor.audit(&book, VERSION).await;
    assert_eq!((compared, findings.len()), (4, 4));
    assert!(findings.iter().all(|finding| (finding.suspect.kind, finding.ruling) == (Kind::Missing, Ruling::Rewrite)));
    agrees(&mut auditor, &book, VERSION).await;
}

#[tokio::test]
async fn what_came_through_the_history_puts_the_live_book_in_doubt_until_its_source_has_spoken() {
    let (address, directory, instrument, book) = right().await;
    let mut auditor = Auditor::new(&address, &directory, &instrument);
    insert(&address, "tick_updates", 555, 77, version(50)).await;
    insert(&address, "tick_updates", 101, 88, version(50)).await;
    let (_, _, findings) = auditor.audit(&book, VERSION).await;
    let doubted = |ruling| vec![(101, Kind::Changed, ruling), (555, Kind::Phantom, ruling)];
    assert_eq!(short(&findings), doubted(Ruling::Resync));
    assert!(findings.iter().all(|finding| finding.ruling.verdict() == Verdict::LiveInDoubt));
    assert_eq!(short(&auditor.audit(&book, VERSION).await.2), doubted(Ruling::Awaits));
    // A fresh snapshot at the same version, of a quiet market, which names what it has.
    auditor.rebuilds += 1;
    assert_eq!(short(&auditor.audit(&book, VERSION).await.2), doubted(Ruling::Confirmed));
    agrees(&mut auditor, &book, VERSION).await;
}

#[tokio::test]
async fn what_a_later_whole_book_does_not_name_is_dead_in_the_history_too() {
    let (address, directory, instrument, _) = right().await;
    let mut auditor = Auditor::new(&address, &directory, &instrument);
    insert(&address, "tick_updates", 555, 77, version(50)).await;
    // As a running process writes its second whole book: without the tombstone of what it never had.
    execute(
        &address,
        "INSERT INTO tick_updates (venue, symbol, asset_0, asset_1, asset_in, tick_index, reserves, reserves_zero, version, \
         whole, price_exponent, quantity_exponent) SELECT 'binance_spot', 'BTCUSDT', 'BTC', 'USDT', 'USDT', \
         100 + number, if(number = 1, 6, 0), number != 1, bitOr(bitShiftLeft(toUInt128(1), 64), toUInt128(60)), 1, -2, -8 \
         FROM numbers(4)",
    )
    .await;
    let (compared, _, findings) = auditor.audit(&live(&[(bid(101), 6)]), VERSION).await;
    assert_eq!((compared, short(&findings)), (2, vec![(555, Kind::Phantom, Ruling::Rewrite)]));
    assert_eq!(findings[0].history.last, None, "dead by the whole book");
    agrees(&mut auditor, &live(&[(bid(101), 6)]), VERSION).await;
}

#[tokio::test]
async fn a_row_far_ahead_is_watched_and_then_removed_with_all_that_it_filled() {
    for table in ["tick_state", "tick_updates"] {
        let (address, directory, instrument, book) = right().await;
        let mut auditor = Auditor::new(&address, &directory, &instrument);
        let ahead = Version::new(9, 9);
        insert(&address, table, 101, 88, ahead).await;
        insert(&address, table, 102, 0, ahead).await;
        insert(&address, table, 556, 77, ahead).await;
        let found = |ruling| [101, 102, 556].map(|price| (price, Kind::Ahead, ruling)).to_vec();
        let (compared, skipped, findings) = auditor.audit(&book, version(101)).await;
        assert_eq!((compared, skipped, short(&findings)), (5, 0, found(Ruling::Watch)), "{table}");
        let (_, _, findings) = auditor.audit(&book, version(102)).await;
        assert_eq!(short(&findings), found(Ruling::Remove), "{table}");
        assert_eq!(findings[0].suspect.state.unwrap().reserves, number(88));
        agrees(&mut auditor, &book, version(103)).await;
        let versions = clickhouse::instrument_versions(&address.client()).await.unwrap();
        assert_eq!(versions.iter().map(|stored| stored.version()).collect::<Vec<_>>(), [VERSION], "{table}");
        // Nothing of it is left for the next start to fill in again.
        let left = format!("SELECT count() FROM tick_updates WHERE version = {}", ahead.to_u128());
        assert_eq!(address.client().query(&left).fetch_one::<u64>().await.unwrap(), 0, "{table}");
    }
}

#[tokio::test]
async fn a_tick_of_old_steps_and_one_in_other_steps_are_found() {
    let (address, directory, instrument, _) = right().await;
    let mut auditor = Auditor::new(&address, &directory, &instrument);
    let finer = Scale { price: -3, ..SCALE };
    let mut event =
        changes(&instrument, version(60), &[(Side::Bid, 1_010, number(5)), (Side::Bid, 1_020, number(6))], true);
    event.scale = finer;
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    let book = LiveTicks { scale: finer, ..live(&[(bid(1_010), 5), (bid(1_020), 6)]) };
    agrees(&mut auditor, &book, VERSION).await;
    // Its tombstone is lost, and another tick's row says the same number in coarser steps.
    insert(&address, "tick_state", 103, 5, version(70)).await;
    insert(&address, "tick_state", 1_020, 6, version(70)).await;
    let (_, _, findings) = auditor.audit(&book, VERSION).await;
    assert_eq!(short(&findings), [(103, Kind::Phantom, Ruling::Rewrite), (1_020, Kind::Changed, Ruling::Rewrite)]);
    agrees(&mut auditor, &book, VERSION).await;
}

#[tokio::test]
async fn pools_and_orders_of_one_price_are_ticks_of_their_own_and_corrections_end_no_block() {
    let address = store().await;
    let (directory, tranches) = (Directory::default(), Arc::new(Tranches::default()));
    let instrument = directory.intern(Venue::NeutronDex, "A<>B", "A", "B").unwrap();
    let tranche = tranches.intern("order").unwrap();
    let key = |fee, tranche| TickKey { tick_index: 7, fee, tranche };
    let tick = |key, reserves| TickChange { side: Side::Ask, key, reserves: number(reserves) };
    let mut event = changes(&instrument, version(10), &[], true);
    event.changes = vec![tick(key(5, market::TrancheId(0)), 1), tick(key(0, tranche), 2)];
    let directory = Arc::new(directory);
    write_named(&address, &directory, &tranches, SinkInput::Changes(event)).await;

    let name = |fee, tranche: Option<&str>| TickName {
        side: Side::Ask,
        key: StoredKey { tick_index: 7, fee, tranche: tranche.map(Into::into) },
    };
    let book = live(&[(name(5, None), 1), (name(0, Some("order")), 2)]);
    let mut auditor = Auditor::new(&address, &directory, &instrument);
    assert_eq!(short(&auditor.audit(&book, VERSION).await.2), []);
    execute(
        &address,
        "ALTER TABLE tick_state UPDATE reserves = 9 WHERE tranche_key = 'order' SETTINGS mutations_sync = 1",
    )
    .await;
    execute(&address, "ALTER TABLE tick_state DELETE WHERE fee = 5 SETTINGS mutations_sync = 1").await;
    let (compared, _, findings) = auditor.audit(&book, VERSION).await;
    assert_eq!(
        (compared, short(&findings)),
        (2, vec![(7, Kind::Changed, Ruling::Rewrite), (7, Kind::Missing, Ruling::Rewrite)])
    );
    let (compared, _, findings) = auditor.audit(&book, VERSION).await;
    assert_eq!((compared, short(&findings)), (2, vec![]));
}

/// Writes one event of a batch stream's instrument, whose tranches have names.
async fn write_named(address: &StoreAddress, directory: &Arc<Directory>, tranches: &Arc<Tranches>, event: SinkInput) {
    let (input, receiver) = mpsc::channel(4);
    let streams = vec![BatchStream { leg: market::LegId(0), venue: Venue::NeutronDex, stream: "s".into() }];
    let batches = BatchStreams { streams, tranches: Arc::clone(tranches) };
    let writer = StoreWriter::new("named", WriterOptions::default()).with_batches(batches);
    let options = SinkOptions { flush_max: Duration::from_secs(30) };
    let sink = clickhouse::run_sink(address.client(), writer, receiver, Arc::clone(directory), Arc::default(), options);
    let sink = tokio::spawn(sink);
    input.send(event).await.unwrap();
    drop(input);
    sink.await.unwrap().unwrap();
}
