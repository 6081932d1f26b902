//! A cold start's read: what a crash left out is filled in, what a whole book replaced is dead, and the rest is the book
//! as it was.
//!
//! Never: an expectation that depends on when parts merge.

use super::*;
use connectors::clickhouse::{
    Healed, RestoreBatches, RestoreError, RestoredInstrument, RestoredState, restore,
    restore::{PAGE_ROWS, restore_at_most},
};
use market::SymbolId;
use std::collections::BTreeMap;

const VIEWS: [&str; 3] = ["tick_state_fill", "instrument_version_fill", "book_snapshots_fill"];

fn two() -> (Arc<Directory>, Arc<Instrument>, Arc<Instrument>) {
    let (directory, instrument) = directory();
    let other = directory.intern(Venue::KrakenSpot, "BTC/USD", "BTC", "USD").unwrap();
    (directory, instrument, other)
}

fn version(seq: u64) -> Version {
    Version::new(1, seq)
}

/// An instrument's restored ticks, short.
fn ticks(restored: &RestoredInstrument) -> Vec<(Side, i64, U256, u64)> {
    let ticks = restored.restored.ticks.iter().flatten();
    ticks.map(|kept| (kept.tick.side, kept.tick.key.tick_index, kept.tick.reserves, kept.version.seq)).collect()
}

async fn restored(address: &StoreAddress) -> RestoredState {
    restore(&address.client(), &RestoreBatches::default()).await.unwrap()
}

/// The batch that a crash cuts, of two instruments and with a whole book.
fn cut_off(one: &Instrument, other: &Instrument) -> [SinkInput; 3] {
    let whole = changes(one, version(20), &[(Side::Bid, 100, number(7)), (Side::Ask, 102, number(8))], true);
    let next = changes(one, version(21), &[(Side::Ask, 102, number(0)), (Side::Ask, 103, number(9))], false);
    let beside = changes(other, version(31), &[(Side::Bid, 50, number(5))], false);
    [whole, next, beside].map(SinkInput::Changes)
}

#[tokio::test]
async fn what_a_crash_between_the_views_left_out_is_filled_in() {
    let before = |one: &Instrument, other: &Instrument| {
        let one = changes(one, version(10), &[(Side::Bid, 100, number(1)), (Side::Bid, 99, number(2))], false);
        let other = changes(other, version(30), &[(Side::Bid, 50, number(1)), (Side::Ask, 51, number(2))], true);
        [one, other].map(SinkInput::Changes)
    };
    let mut right = None;
    for lost in [&[][..], &VIEWS[..1], &VIEWS[1..2], &VIEWS[2..], &VIEWS[..2], &VIEWS[1..], &VIEWS] {
        let address = store().await;
        let (directory, one, other) = two();
        write(&address, &directory, WriterOptions::default(), before(&one, &other)).await;
        for view in lost {
            execute(&address, &format!("DROP TABLE {view}")).await;
        }
        // In one batch: the live keys are known before it, as in a process that goes on.
        write(&address, &directory, WriterOptions::default(), cut_off(&one, &other)).await;
        clickhouse::schema::apply(&address).await.unwrap();

        let first = restored(&address).await;
        let rows = |view: usize, rows| if lost.contains(&VIEWS[view]) { rows } else { 0 };
        let expected = Healed { tick_state: rows(0, 6), instrument_version: rows(1, 6), book_snapshots: rows(2, 3) };
        assert_eq!(first.healed, expected, "{lost:?}");
        assert_eq!(first.buried, 0);
        let again = restored(&address).await;
        assert_eq!((again.healed, &again.instruments), (Healed::default(), &first.instruments), "{lost:?}");
        let tables = ["tick_updates", "tick_state FINAL", "instrument_version FINAL", "book_snapshots FINAL"];
        let mut counts = Vec::new();
        for table in tables {
            counts.push(count(&address, table).await);
        }
        let found = (first.instruments, counts);
        assert_eq!(right.get_or_insert_with(|| found.clone()), &found, "{lost:?}");
    }
    let (instruments, _) = right.unwrap();
    let books: Vec<_> =
        instruments.iter().map(|found| (&*found.symbol, found.restored.version.seq, ticks(found))).collect();
    let one = vec![(Side::Ask, 103, number(9), 21), (Side::Bid, 100, number(7), 20)];
    let other = vec![(Side::Ask, 51, number(2), 30), (Side::Bid, 50, number(5), 31)];
    assert_eq!(books, [("BTCUSDT", 21, one), ("BTC/USD", 31, other)]);
}

#[tokio::test]
async fn the_very_first_batch_of_an_instrument_may_be_the_one_that_is_cut() {
    let address = store().await;
    let (directory, one, other) = two();
    let known = changes(&other, version(30), &[(Side::Bid, 50, number(1))], false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(known)]).await;
    for view in VIEWS {
        execute(&address, &format!("DROP TABLE {view}")).await;
    }
    write(&address, &directory, WriterOptions::default(), cut_off(&one, &other)).await;
    clickhouse::schema::apply(&address).await.unwrap();
    let state = restored(&address).await;
    assert_eq!(state.healed, Healed { tick_state: 5, instrument_version: 5, book_snapshots: 2 });
    let one = state.instruments.iter().find(|found| &*found.symbol == "BTCUSDT").unwrap();
    assert_eq!((one.restored.version, one.restored.through), (version(21), version(21)));
    assert_eq!(ticks(one), [(Side::Ask, 103, number(9), 21), (Side::Bid, 100, number(7), 20)]);
    assert_eq!(one.restored.heard_ns, RECEIVED_NS);
}

#[tokio::test]
async fn what_a_whole_book_replaced_is_left_out_and_buried() {
    let address = store().await;
    let (directory, one, other) = two();
    // A replay that is killed between a whole book and its tombstones leaves this: older ticks that still live.
    let whole = changes(&one, version(20), &[(Side::Bid, 100, number(7))], true);
    let next = changes(&one, version(21), &[(Side::Ask, 102, number(8))], false);
    let leftover = changes(&one, version(10), &[(Side::Bid, 99, number(2)), (Side::Ask, 101, number(3))], false);
    let beside = changes(&other, version(5), &[(Side::Bid, 50, number(5))], false);
    for events in [vec![whole, next, beside], vec![leftover]] {
        write(&address, &directory, WriterOptions::default(), events.into_iter().map(SinkInput::Changes)).await;
    }
    assert_eq!(live(&address, &one).await.len(), 4);

    let right = [(Side::Ask, 102, number(8), 21), (Side::Bid, 100, number(7), 20)];
    let state = restored(&address).await;
    assert_eq!((ticks(&state.instruments[0]), state.buried), (right.to_vec(), 2));
    assert_eq!(live(&address, &one).await, right);
    assert_eq!(live(&address, &other).await.len(), 1);
    let again = restored(&address).await;
    assert_eq!((again.instruments, again.buried, again.healed), (state.instruments, 0, Healed::default()));
    let tombstones = "tick_updates WHERE whole = 1 AND reserves_zero = 1 AND bitAnd(version, 255) = 20";
    assert_eq!(count(&address, tombstones).await, 2);
}

#[tokio::test]
async fn a_whole_book_that_another_host_is_writing_is_not_buried() {
    let address = store().await;
    let (directory, one, _) = two();
    // The other host's insert is in `tick_updates` and `book_snapshots`, and of `tick_state` it has filled a part.
    execute(&address, "DROP TABLE tick_state_fill").await;
    let rows = [(Side::Bid, 100, number(7)), (Side::Bid, 98, number(0)), (Side::Ask, 102, number(8))];
    let whole = [changes(&one, version(20), &rows, true)].map(SinkInput::Changes);
    write(&address, &directory, WriterOptions::default(), whole).await;
    clickhouse::schema::apply(&address).await.unwrap();
    let fill = |side: &str| {
        let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, \
                       version, price_exponent, quantity_exponent, updated_at, ingestion_timestamp";
        format!(
            "INSERT INTO tick_state ({columns}) SELECT {columns} FROM tick_updates WHERE whole = 1 AND asset_in = '{side}'"
        )
    };
    execute(&address, &fill("BTC")).await;
    let old = changes(&one, version(10), &[(Side::Bid, 99, number(2)), (Side::Bid, 100, number(3))], false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(old)]).await;
    assert_eq!(live(&address, &one).await.len(), 3);

    let state = restored(&address).await;
    assert_eq!((state.healed, state.buried), (Healed::default(), 1));
    let tombstones = "tick_updates WHERE whole = 1 AND reserves_zero = 1 AND tick_index >= 99";
    assert_eq!(count(&address, tombstones).await, 1);
    execute(&address, &fill("USDT")).await;
    let right = [(Side::Ask, 102, number(8), 20), (Side::Bid, 100, number(7), 20)];
    assert_eq!(live(&address, &one).await, right);
    assert_eq!(restored(&address).await.buried, 0);
}

#[tokio::test]
async fn a_replay_that_was_killed_before_its_tombstones_writes_them_when_it_is_repeated() {
    let address = store().await;
    let (directory, one, _) = two();
    let whole = changes(&one, version(20), &[(Side::Bid, 100, number(7))], true);
    let next = changes(&one, version(21), &[(Side::Ask, 102, number(8))], false);
    let replay = [whole, next].map(SinkInput::Changes);
    let leftover = changes(&one, version(10), &[(Side::Bid, 99, number(2)), (Side::Ask, 101, number(3))], false);
    // The batch of the killed attempt is in, beyond the whole book already; its tombstones are not.
    write(&address, &directory, WriterOptions::replay(), replay.clone()).await;
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(leftover)]).await;
    assert_eq!(live(&address, &one).await.len(), 4);
    let report = write(&address, &directory, WriterOptions::replay(), replay.clone()).await;
    assert_eq!(report.counters.tombstones, 2);
    let right = [(Side::Ask, 102, number(8), 21), (Side::Bid, 100, number(7), 20)];
    assert_eq!(live(&address, &one).await, right);
    assert_eq!(count(&address, "tick_updates").await, 6, "the batch itself was taken once");
    assert_eq!(write(&address, &directory, WriterOptions::replay(), replay).await.counters.tombstones, 0);
}

#[tokio::test]
async fn a_restored_state_is_the_state_that_was_written() {
    let address = store().await;
    let (directory, one, other) = two();
    let mut model: BTreeMap<(SymbolId, Side, i64), (U256, u64)> = BTreeMap::new();
    let mut events = Vec::new();
    for seq in 1..=600_u64 {
        let of = if seq % 3 == 0 { &other } else { &one };
        let index = |spread: u64| i64::try_from(seq * 7_919 % spread).unwrap();
        let rows = [(Side::Bid, index(23), number(seq % 4)), (Side::Ask, 100 + index(31), number(seq % 3))];
        let whole = seq % 97 == 0;
        if whole {
            model.retain(|(symbol, ..), _| *symbol != of.id);
        }
        for (side, index, reserves) in rows {
            model.remove(&(of.id, side, index));
            if !reserves.is_zero() {
                model.insert((of.id, side, index), (reserves, seq));
            }
        }
        events.push(SinkInput::Changes(changes(of, version(seq), &rows, whole)));
    }
    // Each sink is a process of its own that knows nothing of the ones before; the last book of each is whole only once.
    for part in events.chunks(97) {
        write(&address, &directory, WriterOptions { batch_rows: 50, ..WriterOptions::default() }, part.to_vec()).await;
    }
    let state = restored(&address).await;
    assert_eq!((state.healed, state.buried), (Healed::default(), 0));
    let mut found = BTreeMap::new();
    for instrument in &state.instruments {
        let id = directory.find(&format!("{}/{}", instrument.venue, instrument.symbol)).unwrap().id;
        for (side, index, reserves, seq) in ticks(instrument) {
            assert_eq!(found.insert((id, side, index), (reserves, seq)), None);
        }
    }
    assert_eq!(found, model);
    assert_eq!(state.instruments[0].restored.version, version(599));
}

#[tokio::test]
async fn large_states_come_in_pages_and_within_their_bound() {
    let address = store().await;
    let rows = PAGE_ROWS + 50_000;
    let statement = format!(
        "INSERT INTO tick_updates (* EXCEPT shown_at) SELECT 'binance_spot', concat('A', toString(number % 30), 'USDT'), \
         concat('A', toString(number % 30)), 'USDT', 'USDT', intDiv(number, 30), 0, '', number + 1, 0, \
         bitShiftLeft(toUInt128(3), 64) + number, 0, -2, -8, 0, fromUnixTimestamp64Nano(toInt64(number), 'UTC'), '' FROM numbers({rows})"
    );
    execute(&address, &statement).await;
    let state = restored(&address).await;
    assert_eq!(state.instruments.len(), 30);
    for instrument in &state.instruments {
        let number_in: u64 = instrument.asset_0[1..].parse().unwrap();
        let ticks = ticks(instrument);
        assert_eq!(ticks.len(), 10_000);
        let right = |(index, tick): (u64, &(Side, i64, U256, u64))| {
            let row = index * 30 + number_in;
            *tick == (Side::Bid, i64::try_from(index).unwrap(), number(row + 1), row)
        };
        assert!((0..).zip(&ticks).all(right));
        let last = rows - 30 + number_in;
        assert_eq!((instrument.restored.version, instrument.restored.heard_ns), (Version::new(3, last), last));
    }
    let bound = usize::try_from(rows).unwrap() - 1;
    let refused = restore_at_most(&address.client(), &RestoreBatches::default(), bound).await;
    assert!(matches!(refused, Err(RestoreError::TooManyTicks { limit }) if limit == bound), "{refused:?}");
    assert!(restore_at_most(&address.client(), &RestoreBatches::default(), bound + 1).await.is_ok());
}

#[tokio::test]
async fn unusable_instruments_keep_their_version_or_are_passed_over() {
    let address = store().await;
    let (directory, one, other) = two();
    let fine = changes(&one, version(2), &[(Side::Bid, 5, number(1))], false);
    let fine = AdmittedChanges { scale: Scale { price: -18, quantity: -8 }, ..fine };
    let coarse = changes(&one, version(1), &[(Side::Bid, i64::MAX, number(1))], false);
    let good = changes(&other, version(1), &[(Side::Bid, 5, number(1))], false);
    write(&address, &directory, WriterOptions::default(), [coarse, fine, good].map(SinkInput::Changes)).await;
    execute(&address, "INSERT INTO instrument_version SELECT * REPLACE ('nowhere' AS venue) FROM instrument_version")
        .await;
    let state = restored(&address).await;
    let found: Vec<_> =
        state.instruments.iter().map(|found| (&*found.symbol, found.restored.version, ticks(found).len())).collect();
    assert_eq!(found, [("BTCUSDT", version(2), 0), ("BTC/USD", version(1), 1)]);
    assert_eq!(state.instruments[0].restored.ticks, None);
    let empty = store().await;
    assert_eq!(restored(&empty).await, RestoredState::default(), "an empty store");
}

#[tokio::test]
async fn a_whole_book_with_its_tombstones_is_one_part_of_each_table() {
    let address = store().await;
    let (directory, instrument) = directory();
    let all = 60_000_i64;
    let old: Vec<_> = (0..all).map(|index| (Side::Bid, index, number(1))).collect();
    let event = changes(&instrument, version(10), &old, false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    let tables = ["tick_updates", "tick_state", "instrument_version", "book_snapshots"];
    let blocks = |table: &'static str| {
        let (client, database) = (address.client(), address.database.clone());
        async move {
            let query =
                "SELECT ifNull(max(max_block_number), 0) FROM system.parts WHERE active AND database = ? AND table = ?";
            client.query(query).bind(database).bind(table).fetch_one::<i64>().await.unwrap()
        }
    };
    let mut before = Vec::new();
    for table in tables {
        before.push(blocks(table).await);
    }
    let whole: Vec<_> = (0..all).map(|index| (Side::Ask, index, number(1))).collect();
    let (input, receiver) = mpsc::channel(4);
    // What a server's profile may hold: the insert overrides it.
    let client = address.client().with_setting("max_insert_block_size", "1000");
    let client = client.with_setting("min_insert_block_size_rows", "1000");
    let writer = StoreWriter::new("test", WriterOptions::default());
    let view = Arc::new(SinkView::default());
    let sink = tokio::spawn(clickhouse::run_sink(client, writer, receiver, directory, view, SinkOptions::default()));
    input.send(SinkInput::Changes(changes(&instrument, version(20), &whole, true))).await.unwrap();
    drop(input);
    assert_eq!(sink.await.unwrap().unwrap().counters.tombstones, u64::try_from(all).unwrap());
    for (table, before) in tables.into_iter().zip(before) {
        assert_eq!(blocks(table).await - before, 1, "{table}");
    }
    assert_eq!(count(&address, "tick_state FINAL").await, u64::try_from(all).unwrap());
}

#[tokio::test]
async fn a_whole_book_at_the_stored_version_heals_what_is_as_old_or_older() {
    let address = store().await;
    let (directory, instrument) = directory();
    let stored = [(Side::Bid, 98, 15), (Side::Bid, 99, 20), (Side::Bid, 100, 20), (Side::Bid, 101, 21)];
    for (side, index, seq) in stored {
        let event = changes(&instrument, version(seq), &[(side, index, number(seq))], false);
        write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    }
    let whole = changes(&instrument, version(20), &[(Side::Bid, 100, number(7))], true);
    let report = write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(whole)]).await;
    assert_eq!(report.counters.tombstones, 2);
    assert_eq!(live(&address, &instrument).await, [(Side::Bid, 100, number(7), 20), (Side::Bid, 101, number(21), 21)]);
}
