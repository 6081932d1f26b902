//! A store that takes nothing for a while, in a run: the sink goes on taking, memory is bounded, and afterwards the state is
//! right and the history says what it lacks. And a disk that is full, by the engine's own word.
//!
//! Never: an expectation about which changes are left out.

use super::*;
use connectors::clickhouse::StoreState;
use std::collections::{BTreeMap, BTreeSet};

const INSTRUMENTS: u32 = 4;
/// Rows that may wait.
const ROWS_MAX: u64 = 400;
/// Events of two rows each: ten times what may wait.
const EVENTS: u64 = 10 * ROWS_MAX;

type Truth = BTreeMap<(String, Side, i64), (U256, u64)>;

fn many() -> (Arc<Directory>, Vec<Arc<Instrument>>) {
    let directory = Directory::default();
    let instruments = (0..INSTRUMENTS).map(|number| {
        directory.intern(Venue::BinanceSpot, &format!("S{number}"), &format!("A{number}"), "USD").unwrap()
    });
    let instruments = instruments.collect();
    (Arc::new(directory), instruments)
}

fn bounded() -> WriterOptions {
    let row_bytes = u64::try_from(size_of::<connectors::clickhouse::rows::TickUpdate>()).unwrap();
    WriterOptions { pending_bytes_max: ROWS_MAX * row_bytes, batch_rows: 50, ..WriterOptions::default() }
}

/// The event of a version, applied to the truth.
fn event(instrument: &Instrument, seq: u64, truth: &mut Truth) -> AdmittedChanges {
    let index = i64::try_from(seq * 7 % 20).unwrap();
    let rows = [(Side::Bid, index, number(seq % 5)), (Side::Ask, index + 30, number(seq % 3))];
    for (side, index, reserves) in rows {
        let key = (instrument.symbol.to_string(), side, index);
        if reserves.is_zero() {
            truth.remove(&key)
        } else {
            truth.insert(key, (reserves, seq))
        };
    }
    changes(instrument, Version::new(1, seq), &rows, false)
}

/// Gives an event at once: there is room, whatever the store does.
async fn give(running: &Running, input: SinkInput) {
    tokio::time::timeout(Duration::from_secs(20), running.input.send(input)).await.unwrap().unwrap();
}

async fn state_of(address: &StoreAddress, instruments: &[Arc<Instrument>]) -> Truth {
    let mut state = Truth::new();
    for instrument in instruments {
        for (side, index, reserves, version) in live(address, instrument).await {
            state.insert((instrument.symbol.to_string(), side, index), (reserves, version));
        }
    }
    state
}

#[tokio::test]
async fn a_store_that_takes_nothing_for_a_while_costs_history_and_nothing_else() {
    let address = store().await;
    let (directory, instruments) = many();
    let running = Running::start(&address, &directory, bounded());
    let mut truth = Truth::new();
    let first: Vec<_> = instruments.iter().map(|instrument| event(instrument, 1, &mut truth)).collect();
    for changes in first {
        give(&running, SinkInput::Changes(changes)).await;
    }
    while running.view.counters().rows_inserted < 2 * u64::from(INSTRUMENTS) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    execute(&address, "RENAME TABLE tick_updates TO elsewhere").await;
    let mut most = 0;
    for seq in 2..2 + EVENTS / u64::from(INSTRUMENTS) {
        for instrument in &instruments {
            let changes = event(instrument, seq, &mut truth);
            give(&running, SinkInput::Changes(changes)).await;
        }
        most = most.max(running.view.counters().pending_bytes);
    }
    while running.view.counters().retries < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counters = running.view.counters();
    assert_eq!((counters.rows_inserted, running.view.waits()), (2 * u64::from(INSTRUMENTS), 0));
    assert!(counters.changes_left_out > EVENTS, "{counters:?}");
    assert_eq!((counters.state, counters.instruments_given_up), (StoreState::Failing, 0));
    // What is conflated, and one batch that was tried.
    assert!(most <= 2 * bounded().pending_bytes_max, "{most} bytes");

    execute(&address, "RENAME TABLE elsewhere TO tick_updates").await;
    while running.view.counters().state != StoreState::Ready {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let last: Vec<_> = instruments.iter().map(|instrument| event(instrument, 9_999, &mut truth)).collect();
    for changes in last {
        give(&running, SinkInput::Changes(changes)).await;
    }
    let report = running.end().await;
    assert_eq!(report.counters.rows_unconfirmed(), 0);
    assert_eq!(state_of(&address, &instruments).await, truth);

    let client = address.client();
    let rows: Vec<(String, u128)> = client.query("SELECT symbol, version FROM tick_updates").fetch_all().await.unwrap();
    let mut stored: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for (symbol, version) in rows {
        *stored.entry((symbol, Version::from_u128(version).seq)).or_default() += 1;
    }
    let gaps: Vec<(String, u128, u128, u64, String)> =
        client.query("SELECT symbol, after, through, changes, reason FROM history_gaps").fetch_all().await.unwrap();
    let mut missing = 0;
    for instrument in &instruments {
        for seq in (1..2 + EVENTS / u64::from(INSTRUMENTS)).chain([9_999]) {
            let rows = stored.get(&(instrument.symbol.to_string(), seq)).copied().unwrap_or(0);
            let version = Version::new(1, seq).to_u128();
            let told = gaps.iter().any(|gap| *gap.0 == *instrument.symbol && gap.1 < version && version <= gap.2);
            assert!(rows == 2 || told, "{} has {rows} rows of {seq}", instrument.text);
            missing += 2 - rows;
        }
    }
    assert_eq!(missing, report.counters.changes_left_out);
    assert_eq!(gaps.iter().map(|gap| gap.3).sum::<u64>(), missing);
    assert!(gaps.iter().all(|gap| gap.4 == "store_behind"));
    let named: BTreeSet<&str> = gaps.iter().map(|gap| gap.0.as_str()).collect();
    assert_eq!(named.len(), instruments.len());
}

#[tokio::test]
async fn a_full_disk_is_told_as_one_and_nothing_is_lost_while_there_is_room_in_memory() {
    let address = store().await;
    let (directory, instrument) = directory();
    for table in ["tick_updates", "trades"] {
        let much =
            format!("ALTER TABLE {table} MODIFY SETTING min_free_disk_bytes_to_perform_insert = 1000000000000000000");
        execute(&address, &much).await;
    }
    let running = Running::start(&address, &directory, WriterOptions::default());
    for seq in 1..=50 {
        let event = changes(&instrument, Version::new(1, seq), &[(Side::Bid, 100, number(seq))], false);
        give(&running, SinkInput::Changes(event)).await;
        give(&running, SinkInput::Trade(trade(&instrument, &seq.to_string(), seq, 100, seq))).await;
    }
    while running.view.counters().retries < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counters = running.view.counters();
    println!("the engine says: {}", counters.last_error.as_deref().unwrap_or_default());
    assert_eq!((counters.state, counters.rows_inserted), (StoreState::Full, 0));
    for table in ["tick_updates", "trades"] {
        execute(&address, &format!("ALTER TABLE {table} RESET SETTING min_free_disk_bytes_to_perform_insert")).await;
    }
    let view = Arc::clone(&running.view);
    let report = running.end().await;
    assert_eq!((view.state(), report.counters.changes_left_out), (StoreState::Ready, 0));
    assert_eq!((count(&address, "tick_updates").await, count(&address, "trades").await), (50, 50));
    assert_eq!(count(&address, "history_gaps").await, 0);
    assert_eq!(live(&address, &instrument).await, [(Side::Bid, 100, number(50), 50)]);
}

#[tokio::test]
async fn trades_beyond_their_bound_are_named_by_their_order() {
    let address = store().await;
    let (directory, instrument) = directory();
    execute(&address, "RENAME TABLE trades TO elsewhere").await;
    let running = Running::start(&address, &directory, bounded());
    for order in 1..=3_000 {
        give(&running, SinkInput::Trade(trade(&instrument, &order.to_string(), order, 100, order))).await;
    }
    while running.view.counters().retries < 1 || running.view.counters().trades_left_out == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    execute(&address, "RENAME TABLE elsewhere TO trades").await;
    let report = running.end().await;
    let client = address.client();
    let gaps: Vec<(u128, u128, u64)> = client
        .query("SELECT after, through, changes FROM history_gaps WHERE reason = 'trades_left_out'")
        .fetch_all()
        .await
        .unwrap();
    let orders: Vec<u64> = client.query("SELECT trade_order FROM trades FINAL").fetch_all().await.unwrap();
    let orders: BTreeSet<u64> = orders.into_iter().collect();
    let told = |order: u64| gaps.iter().any(|gap| gap.0 < u128::from(order) && u128::from(order) <= gap.1);
    assert!((1..=3_000).all(|order| orders.contains(&order) || told(order)));
    assert_eq!(gaps.iter().map(|gap| gap.2).sum::<u64>(), report.counters.trades_left_out);
    assert_eq!(u64::try_from(orders.len()).unwrap() + report.counters.trades_left_out, 3_000);
}
