//! Dead ticks: never visible again, whatever came late, was merged, and was removed.
//!
//! Never: a wait for hours; a sweep is told the time and its horizon.

use super::*;
use connectors::clickhouse::upkeep::{Retention, Sweep, SweepStep, Swept, keep, sweep};

/// The test's present: hours after everything that was received.
const NOW_NS: u64 = RECEIVED_NS + 100 * HOUR_NS;
const HOUR_NS: u64 = 3_600_000_000_000;

fn at(now_ns: u64) -> Sweep<'static> {
    Sweep { now_ns, horizon: Duration::from_hours(6), keys_min: 1, batch_venues: &["neutron_dex"] }
}

fn tick(index: i64, reserves: u64) -> (Side, i64, U256) {
    (Side::Bid, index, number(reserves))
}

type Tick = (Side, i64, U256);

async fn push(address: &StoreAddress, events: &[(u64, &[Tick])]) {
    let (directory, instrument) = directory();
    for (seq, rows) in events {
        let event = changes(&instrument, Version::new(1, *seq), rows, false);
        write(address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    }
}

/// The live prices of the pair, as an analyst asks for them.
async fn visible(address: &StoreAddress) -> Vec<(i64, String)> {
    let query = "SELECT tick_index, toString(reserves) FROM tick_state FINAL \
                 WHERE asset_0 = 'BTC' AND asset_1 = 'USDT' AND reserves_zero = 0 ORDER BY tick_index";
    address.client().query(query).fetch_all().await.unwrap()
}

async fn optimize(address: &StoreAddress) {
    execute(address, "OPTIMIZE TABLE tick_state FINAL").await;
}

/// I1: versions 3 and 4, a death, are merged and swept; what comes late never lives again.
#[tokio::test]
async fn a_swept_tick_never_lives_again() {
    let address = store().await;
    push(&address, &[(3, &[tick(100, 3)]), (4, &[tick(100, 0)]), (5, &[tick(101, 1)])]).await;
    let right = [(101, "1".to_owned())];
    let late = (2, [tick(100, 2)]);
    optimize(&address).await;
    push(&address, &[(late.0, &late.1)]).await;
    assert_eq!(visible(&address).await, right);
    optimize(&address).await;
    assert_eq!(visible(&address).await, right);

    // A tombstone that is younger than the horizon stays, as often as one sweeps.
    let client = address.client();
    let young = RECEIVED_NS + HOUR_NS;
    for hour in 0..5 {
        assert_eq!(sweep(&client, &at(young + hour * HOUR_NS)).await.unwrap(), Swept::default());
    }
    assert_eq!(count(&address, "tick_state WHERE tick_index = 100").await, 1);
    // The floor is set, and has to stand for the horizon.
    assert_eq!(sweep(&client, &at(NOW_NS)).await.unwrap(), Swept { floors: 1, ..Swept::default() });
    assert_eq!(sweep(&client, &at(NOW_NS + 5 * HOUR_NS)).await.unwrap(), Swept { floors: 1, ..Swept::default() });
    assert_eq!(count(&address, "tick_state WHERE tick_index = 100").await, 1);
    let swept = sweep(&client, &at(NOW_NS + 6 * HOUR_NS)).await.unwrap();
    assert_eq!((swept.ticks, swept.rows), (1, 1));
    assert_eq!(count(&address, "tick_state WHERE tick_index = 100").await, 0);
    assert_eq!(count(&address, "swept_rows").await, 0);

    // Days later: still not. It is in the history, and a newer one lives.
    push(&address, &[(1, &[tick(100, 9)]), (3, &[tick(100, 4)])]).await;
    optimize(&address).await;
    assert_eq!(visible(&address).await, right);
    assert_eq!(count(&address, "tick_updates WHERE tick_index = 100").await, 5);
    push(&address, &[(6, &[tick(100, 6)])]).await;
    assert_eq!(visible(&address).await, [(100, "6".to_owned()), (101, "1".to_owned())]);
    // A death below the floor is taken all the same.
    push(&address, &[(7, &[tick(100, 0)])]).await;
    assert_eq!(visible(&address).await, right);
}

/// The engine's own way, for comparison: this is why it is not used.
#[tokio::test]
async fn a_merge_with_cleanup_would_let_it_live_again() {
    let address = store().await;
    execute(&address, "ALTER TABLE tick_state MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 1")
        .await;
    push(&address, &[(3, &[tick(100, 3)]), (4, &[tick(100, 0)])]).await;
    execute(&address, "OPTIMIZE TABLE tick_state FINAL CLEANUP").await;
    push(&address, &[(2, &[tick(100, 2)])]).await;
    assert_eq!(visible(&address).await, [(100, "2".to_owned())]);
}

/// A sweep that is cut off after any step, with rows in many parts and more of them coming in between, changes nothing
/// that is visible, and the next one goes on.
#[tokio::test]
async fn a_sweep_that_is_cut_off_anywhere_changes_nothing_that_is_visible() {
    let steps = [
        SweepStep::List,
        SweepStep::RemoveReplaced,
        SweepStep::RemoveTombstones,
        SweepStep::Clear,
        SweepStep::SetFloors,
    ];
    for cut in [1, 2, 3] {
        let address = store().await;
        let merges = "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1";
        execute(&address, &format!("ALTER TABLE tick_state MODIFY SETTING {merges}")).await;
        let mut model = std::collections::BTreeMap::new();
        for seq in 1..=16_u64 {
            let index = i64::try_from(seq * 3 % 5).unwrap();
            let reserves = if seq % 3 == 0 { 0 } else { seq };
            push(&address, &[(seq, &[tick(index, reserves)])]).await;
            model.insert(index, reserves);
        }
        let right: Vec<_> = model
            .iter()
            .filter(|(_, reserves)| **reserves > 0)
            .map(|(index, reserves)| (*index, reserves.to_string()))
            .collect();
        let dead = model.values().filter(|reserves| **reserves == 0).count();
        assert_eq!(visible(&address).await, right);
        let client = address.client();
        sweep(&client, &at(NOW_NS)).await.unwrap();
        let now = at(NOW_NS + 7 * HOUR_NS);
        for step in &steps[..cut] {
            now.perform(&client, *step).await.unwrap();
            assert_eq!(visible(&address).await, right, "after {step:?}");
            // Late rows that lived below the floor, each in a part of its own.
            push(&address, &[(1, &[tick(1, 77), tick(2, 77), tick(4, 5)])]).await;
            assert_eq!(visible(&address).await, right, "late after {step:?}");
        }
        sweep(&client, &at(NOW_NS + 8 * HOUR_NS)).await.unwrap();
        sweep(&client, &at(NOW_NS + 15 * HOUR_NS)).await.unwrap();
        assert_eq!(visible(&address).await, right);
        let merges = "max_bytes_to_merge_at_max_space_in_pool, max_bytes_to_merge_at_min_space_in_pool";
        execute(&address, &format!("ALTER TABLE tick_state RESET SETTING {merges}")).await;
        optimize(&address).await;
        assert_eq!(visible(&address).await, right);
        let left = count(&address, "tick_state").await;
        assert_eq!(left, u64::try_from(right.len()).unwrap(), "{dead} ticks are dead");
    }
}

/// The floor of a batch stream's instrument stays at its cursor, above which the log may be replayed.
#[tokio::test]
async fn a_batch_stream_is_swept_up_to_its_cursor() {
    let address = store().await;
    let row = |index: i64, height: u64, zero: u8| {
        let version = (1_u128 << 64) | (u128::from(height) << 30);
        format!(
            "('neutron_dex', 'A<>B', 'A', 'B', 'A', {index}, 5, '', {}, {zero}, {version}, 0, -128, -27, 5, 6, '')",
            1 - zero
        )
    };
    let rows = [row(1, 10, 1), row(2, 20, 1), row(3, 30, 0)].join(", ");
    let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, version, \
                   whole, price_exponent, quantity_exponent, updated_at, ingestion_timestamp, raw_id";
    execute(&address, &format!("INSERT INTO tick_updates ({columns}) VALUES {rows}")).await;
    let client = address.client();
    assert_eq!(sweep(&client, &at(NOW_NS)).await.unwrap().floors, 0);
    execute(&address, "INSERT INTO batch_cursors VALUES ('neutron_dex', 's', 15, 0)").await;
    assert_eq!(sweep(&client, &at(NOW_NS)).await.unwrap().floors, 1);
    assert_eq!(sweep(&client, &at(NOW_NS + 7 * HOUR_NS)).await.unwrap().ticks, 1);
    assert_eq!(count(&address, "tick_state WHERE tick_index = 1").await, 0);
    assert_eq!(count(&address, "tick_state").await, 2);
}

/// An instrument whose last event was a death: what is written again at its version, by an audit or as a whole book, comes in.
#[tokio::test]
async fn what_is_written_again_at_the_instruments_own_version_comes_in() {
    let address = store().await;
    push(&address, &[(3, &[tick(100, 3), tick(90, 1)]), (4, &[tick(100, 0)])]).await;
    let client = address.client();
    for hours in [0, 7, 14] {
        sweep(&client, &at(NOW_NS + hours * HOUR_NS)).await.unwrap();
    }
    optimize(&address).await;
    assert_eq!(count(&address, "tick_state WHERE tick_index = 100").await, 1, "its tombstone stays");
    push(&address, &[(3, &[tick(100, 9)]), (4, &[tick(90, 7)])]).await;
    assert_eq!(visible(&address).await, [(90, "7".to_owned())]);
    // It moves on.
    push(&address, &[(5, &[tick(90, 8)])]).await;
    for hours in [21, 28] {
        sweep(&client, &at(NOW_NS + hours * HOUR_NS)).await.unwrap();
    }
    assert_eq!(count(&address, "tick_state WHERE tick_index = 100").await, 0);
    push(&address, &[(2, &[tick(100, 9)])]).await;
    assert_eq!(visible(&address).await, [(90, "8".to_owned())]);
}

/// A tombstone that is ahead of its instrument was written by nobody of us, and bars nobody.
#[tokio::test]
async fn a_tombstone_ahead_of_its_instrument_makes_no_floor() {
    let address = store().await;
    push(&address, &[(3, &[tick(90, 1)])]).await;
    let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, reserves_zero, version";
    let row = "('binance_spot', 'BTCUSDT', 'BTC', 'USDT', 'USDT', 77, 1, 1267650600228229401496703205376)";
    execute(&address, &format!("INSERT INTO tick_state ({columns}) VALUES {row}")).await;
    assert_eq!(sweep(&address.client(), &at(NOW_NS)).await.unwrap().floors, 0);
    push(&address, &[(4, &[tick(90, 2)])]).await;
    assert_eq!(visible(&address).await, [(90, "2".to_owned())]);
}

/// A start finds nothing missing where a sweep removed rows.
#[tokio::test]
async fn what_was_swept_is_not_healed() {
    let address = store().await;
    push(&address, &[(3, &[tick(100, 3), tick(90, 1)]), (4, &[tick(100, 0)]), (5, &[tick(90, 2)])]).await;
    let client = address.client();
    for hours in [0, 7] {
        sweep(&client, &at(NOW_NS + hours * HOUR_NS)).await.unwrap();
    }
    assert_eq!(count(&address, "tick_state WHERE tick_index = 100").await, 0);
    let healed = clickhouse::heal(&client).await.unwrap();
    assert_eq!(healed, clickhouse::Healed::default());
    assert_eq!(count(&address, "tick_state WHERE tick_index = 100").await, 0);
}

#[tokio::test]
async fn tables_keep_their_rows_as_long_as_they_are_told() {
    let address = store().await;
    let (client, retention) =
        (address.client(), Retention { history_days: 30, trades_days: 60, messages_days: 2, audits_days: 9 });
    let columns = "(venue, stream, height, kind, ingestion_timestamp)";
    let rows = "('v', 's', 1, 'message', 0), ('v', 's', 2, 'block', 0), ('v', 's', 3, 'message', now64(9))";
    execute(&address, &format!("INSERT INTO raw_events {columns} VALUES {rows}")).await;
    for _ in 0..2 {
        keep(&client, &retention).await.unwrap();
    }
    keep(&client, &Retention { history_days: 31, ..Retention::default() }).await.unwrap();
    execute(&address, "OPTIMIZE TABLE raw_events FINAL").await;
    assert_eq!(count(&address, "raw_events").await, 2);
    assert_eq!(count(&address, "raw_events WHERE kind = 'block'").await, 1);
    let query = "SELECT countIf(engine_full LIKE '%toIntervalDay(31)%'), countIf(engine_full LIKE '% TTL %') FROM system.tables \
                 WHERE database = currentDatabase()";
    let (changed, all): (u64, u64) = client.query(query).fetch_one().await.unwrap();
    assert_eq!((changed, all), (2, 6));
    clickhouse::schema::apply(&address).await.unwrap();
}
