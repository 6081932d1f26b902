//! ClickHouse's traps around FINAL, on the real engine: what this store's tables do, and what a near miss would do.
//!
//! Never: an expectation that depends on when parts merge; merges are stopped where it would.

use super::*;

async fn counted(address: &StoreAddress, query: &str) -> u64 {
    address.client().query(query).fetch_one().await.unwrap()
}

/// A tick that lives and one that died, each in parts of their own.
async fn two_ticks(address: &StoreAddress) {
    execute(address, "SYSTEM STOP MERGES tick_state").await;
    let (directory, instrument) = directory();
    for (seq, index, reserves) in [(1, 100, 5), (2, 101, 5), (3, 101, 0)] {
        let event = changes(&instrument, Version::new(1, seq), &[(Side::Bid, index, number(reserves))], false);
        write(address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    }
}

#[tokio::test]
async fn prewhere_lets_the_dead_live_and_where_does_not() {
    let address = store().await;
    two_ticks(&address).await;
    assert_eq!(counted(&address, "SELECT count() FROM tick_state FINAL WHERE reserves_zero = 0").await, 1);
    assert_eq!(counted(&address, "SELECT count() FROM tick_state FINAL PREWHERE reserves_zero = 0").await, 2);
    assert_eq!(counted(&address, "SELECT count() FROM tick_state WHERE reserves_zero = 0").await, 2);
    assert_eq!(counted(&address, "SELECT count() FROM live_ticks").await, 1);
    // The engine moves nothing to PREWHERE by itself where FINAL is.
    let moved = "SELECT getSetting('optimize_move_to_prewhere_if_final')";
    assert!(!address.client().query(moved).fetch_one::<bool>().await.unwrap());
}

/// I5: the index on `ingestion_timestamp` knows of rows that were replaced.
#[tokio::test]
async fn a_skip_index_does_not_bring_a_replaced_row_back() {
    let address = store().await;
    execute(&address, "SYSTEM STOP MERGES tick_state").await;
    let (directory, instrument) = directory();
    // Many ticks, so that there are granules to skip; each is replaced a second later.
    for (seq, second) in [(1_u64, 0_u64), (2, 1)] {
        let rows: Vec<_> = (0..4_000).map(|index| (Side::Bid, index, number(seq))).collect();
        let event = changes(&instrument, Version::new(1, seq), &rows, false);
        let event = AdmittedChanges { received_ns: RECEIVED_NS + second * 1_000_000_000, ..event };
        write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    }
    let first = format!("fromUnixTimestamp64Nano(toInt64({RECEIVED_NS}), 'UTC')");
    let old = format!("SELECT count() FROM tick_state FINAL WHERE ingestion_timestamp = {first}");
    assert_eq!(counted(&address, &old).await, 0);
    assert_eq!(
        counted(&address, &format!("SELECT count() FROM live_ticks WHERE ingestion_timestamp = {first}")).await,
        0
    );
    let new = format!("SELECT count() FROM tick_state FINAL WHERE ingestion_timestamp > {first}");
    assert_eq!(counted(&address, &new).await, 4_000);
    // With the index and without the exactness that is the default, every one of them comes back.
    let trap = format!("{old} SETTINGS use_skip_indexes_if_final = 1, use_skip_indexes_if_final_exact_mode = 0");
    assert_eq!(counted(&address, &trap).await, 4_000);
}

#[tokio::test]
async fn a_partition_outside_of_the_key_lets_the_dead_live_and_none_does_not() {
    let address = store().await;
    let query = "SELECT count() FROM system.tables WHERE database = ? AND name = 'tick_state' AND partition_key = ''";
    let unpartitioned = address.client().query(query).bind(&address.database).fetch_one::<u64>().await.unwrap();
    assert_eq!(unpartitioned, 1);
    for (name, partition) in [("inside", "key % 2"), ("outside", "toDate(day)")] {
        let create = format!(
            "CREATE TABLE {name} (key UInt8, day Date, version UInt64, dead UInt8) \
             ENGINE = ReplacingMergeTree(version, dead) PARTITION BY {partition} ORDER BY key"
        );
        execute(&address, &create).await;
        execute(&address, &format!("INSERT INTO {name} VALUES (1, '2026-01-01', 1, 0)")).await;
        execute(&address, &format!("INSERT INTO {name} VALUES (1, '2026-01-02', 2, 1)")).await;
    }
    let setting = "SETTINGS do_not_merge_across_partitions_select_final = 1";
    assert_eq!(counted(&address, &format!("SELECT count() FROM inside FINAL {setting}")).await, 0);
    assert_eq!(counted(&address, &format!("SELECT count() FROM outside FINAL {setting}")).await, 1);
    two_ticks(&address).await;
    assert_eq!(
        counted(&address, &format!("SELECT count() FROM tick_state FINAL WHERE reserves_zero = 0 {setting}")).await,
        1
    );
}
