//! The log of a batch stream: every batch once, whoever sends it and however often, in order, to the byte.
//!
//! Never: a row counted that was not read back.

use super::*;
use connectors::clickhouse::batch_log::{
    BatchLog, BatchLogError, CONTENT_BYTES_MAX, Logged, LoggedBatch, batch_id_text, parse_batch_id,
};
use market::batch::{BatchId, BatchKind, BatchName};
use sha2::{Digest, Sha256};

pub(super) const STREAM: &str = "neutron-1";

pub(super) fn log(address: &StoreAddress) -> BatchLog {
    BatchLog::new(address.client(), Venue::NeutronDex, STREAM)
}

pub(super) fn batch(height: u64, kind: BatchKind, content: &[u8]) -> LoggedBatch {
    let id = BatchId(Sha256::digest(content).into());
    let previous = if kind == BatchKind::Block { height - 1 } else { height };
    LoggedBatch {
        name: BatchName { height, previous, kind, id },
        content: content.to_vec().into(),
        parts: 3,
        message_id: "m-1".into(),
        block_time_ns: VENUE_NS,
        published_ns: RECEIVED_NS - 3,
        received_ns: RECEIVED_NS,
    }
}

pub(super) fn block(height: u64) -> LoggedBatch {
    batch(height, BatchKind::Block, format!("block {height}\n\n'\0").as_bytes())
}

async fn heights(log: &BatchLog, after: u64) -> Vec<(u64, BatchKind)> {
    log.names_above(after).await.unwrap().into_iter().map(|name| (name.height, name.kind)).collect()
}

#[tokio::test]
async fn the_same_batch_again_is_the_same_row_also_from_another_client_and_two_seconds_later() {
    let address = store().await;
    let first = log(&address);
    let one = block(7);
    assert_eq!(first.id_at(7, BatchKind::Block).await.unwrap(), None);
    assert_eq!(first.insert(&one).await.unwrap(), Logged::New);
    let again = LoggedBatch { received_ns: RECEIVED_NS + 2_000_000_000, message_id: "m-2".into(), ..one.clone() };
    for log in [&first, &log(&address)] {
        assert_eq!(log.insert(&again).await.unwrap(), Logged::Known);
    }
    assert_eq!(count(&address, "raw_events").await, 1);
    assert_eq!(first.id_at(7, BatchKind::Block).await.unwrap(), Some(one.name.id));
    assert_eq!(first.id_at(7, BatchKind::Snapshot).await.unwrap(), None);
}

#[tokio::test]
async fn a_batch_is_one_row_after_a_restart_of_the_engine_too() {
    let data_dir = scratch("batches");
    let child = child::start(&data_dir).await.unwrap();
    let address = StoreAddress::at(child.url());
    clickhouse::schema::apply(&address).await.unwrap();
    for received_ns in [RECEIVED_NS, RECEIVED_NS + 2_000_000_000] {
        log(&address).insert(&LoggedBatch { received_ns, ..block(7) }).await.unwrap();
    }
    child.stop().await.unwrap();
    let child = child::start(&data_dir).await.unwrap();
    let address = StoreAddress::at(child.url());
    assert_eq!(log(&address).insert(&block(7)).await.unwrap(), Logged::Known);
    assert_eq!(count(&address, "raw_events").await, 1);
    // What the server remembers over a restart is no obstacle to a batch that was deleted.
    execute(&address, "ALTER TABLE raw_events DELETE WHERE height = 7 SETTINGS mutations_sync = 2").await;
    assert_eq!(log(&address).insert(&block(7)).await.unwrap(), Logged::New);
    assert_eq!(count(&address, "raw_events").await, 1);
    child.stop().await.unwrap();
}

#[tokio::test]
async fn inserts_at_one_time_leave_each_batch_once_and_in_order() {
    let address = store().await;
    let mut tasks = tokio::task::JoinSet::new();
    for height in [9, 3, 5, 3, 9, 3, 1, 5, 3, 9, 1, 3] {
        let log = log(&address);
        tasks.spawn(async move { log.insert(&block(height)).await.unwrap() });
    }
    let done = tasks.join_all().await;
    assert!(done.iter().all(|logged| matches!(logged, Logged::New | Logged::Known)), "{done:?}");
    assert_eq!(count(&address, "raw_events").await, 4);
    let log = log(&address);
    assert_eq!(heights(&log, 0).await, [1, 3, 5, 9].map(|height| (height, BatchKind::Block)));
    assert_eq!(heights(&log, 3).await, [5, 9].map(|height| (height, BatchKind::Block)));
    let within = log.names_within(1, 5).await.unwrap();
    assert_eq!(within, [block(3).name, block(5).name]);
}

#[tokio::test]
async fn a_batch_comes_back_to_the_byte_and_its_times_to_the_nanosecond() {
    let address = store().await;
    let log = log(&address);
    let bytes: Vec<u8> = (0..=u8::MAX).rev().chain(*b"\n\n\xff\0'\\").collect();
    let one = batch(5, BatchKind::Block, &bytes);
    let empty = LoggedBatch { block_time_ns: 0, ..batch(6, BatchKind::Block, b"") };
    let snapshot = batch(5, BatchKind::Snapshot, b"{}");
    for batch in [&one, &empty, &snapshot] {
        assert_eq!(log.insert(batch).await.unwrap(), Logged::New);
    }
    for batch in [&one, &empty, &snapshot] {
        let found = log.read(batch.name.height, batch.name.kind).await.unwrap().unwrap();
        assert_eq!((found.content, found.id), (batch.content.to_vec(), batch.name.id));
        assert_eq!((found.previous, found.parts), (batch.name.previous, 3));
        let times = (found.block_time_ns, found.published_ns, found.received_ns);
        assert_eq!(times, (batch.block_time_ns, batch.published_ns, batch.received_ns));
    }
    assert_eq!(log.read(6, BatchKind::Snapshot).await.unwrap(), None);
    let order = [(5, BatchKind::Block), (5, BatchKind::Snapshot), (6, BatchKind::Block)];
    assert_eq!(heights(&log, 4).await, order);
    let query = "SELECT kind, batch_id, concat(toString(part), ' of ', toString(parts)), toString(updated_at) \
                 FROM raw_events WHERE height = 5 AND kind = 'block'";
    let row: (String, String, String, String) = address.client().query(query).fetch_one().await.unwrap();
    assert_eq!((row.0.as_str(), row.2.as_str()), ("block", "0 of 3"));
    assert_eq!(row.3, "2023-11-14 22:13:20.345678901", "the part below the second is kept");
    assert_eq!(parse_batch_id(&row.1), Some(one.name.id));
}

#[tokio::test]
async fn a_batch_of_25_mb_comes_back_whole_and_a_larger_one_than_the_bound_is_refused() {
    let address = store().await;
    let log = log(&address);
    let mut state = 1_u32;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24).to_le_bytes()[0]
    })
    .take(25_000_000)
    .collect();
    let large = batch(8, BatchKind::Block, &content);
    assert_eq!(log.insert(&large).await.unwrap(), Logged::New);
    assert!(log.read(8, BatchKind::Block).await.unwrap().unwrap().content == content);
    let beyond = LoggedBatch { content: vec![0; CONTENT_BYTES_MAX + 1].into(), ..block(9) };
    let error = log.insert(&beyond).await.unwrap_err();
    assert!(matches!(error, BatchLogError::TooLarge { height: 9, .. }), "{error}");
    assert_eq!(count(&address, "raw_events").await, 1);
}

#[tokio::test]
async fn a_batch_whose_rows_an_operator_removed_can_be_logged_again() {
    let address = store().await;
    let log = log(&address);
    assert_eq!(log.insert(&block(7)).await.unwrap(), Logged::New);
    assert_eq!(log.insert(&block(8)).await.unwrap(), Logged::New);
    let removals = [
        "ALTER TABLE raw_events DELETE WHERE height = 7 SETTINGS mutations_sync = 2",
        "ALTER TABLE raw_events DROP PARTITION tuple()",
        "DELETE FROM raw_events WHERE height = 7",
        "ALTER TABLE raw_events DELETE WHERE 1 SETTINGS mutations_sync = 2",
        "TRUNCATE TABLE raw_events",
    ];
    for removal in removals {
        execute(&address, removal).await;
        assert_eq!(log.id_at(7, BatchKind::Block).await.unwrap(), None, "{removal}");
        assert_eq!(log.insert(&block(7)).await.unwrap(), Logged::New, "{removal}");
        assert_eq!(log.insert(&block(7)).await.unwrap(), Logged::Known, "{removal}");
        log.insert(&block(8)).await.unwrap();
        let blocks = [(7, BatchKind::Block), (8, BatchKind::Block)];
        assert_eq!(heights(&log, 0).await, blocks, "{removal}");
        assert_eq!(count(&address, "raw_events").await, 2, "{removal}");
        assert!(log.read(7, BatchKind::Block).await.unwrap().is_some(), "{removal}");
    }
}

#[tokio::test]
async fn another_batch_at_a_height_is_told_and_not_taken() {
    let address = store().await;
    let log = log(&address);
    assert_eq!(log.insert(&block(7)).await.unwrap(), Logged::New);
    let other = batch(7, BatchKind::Block, b"other");
    let known = block(7).name.id;
    assert_eq!(log.insert(&other).await.unwrap(), Logged::Contradicts { known });
    assert_eq!(count(&address, "raw_events").await, 1);
    let elsewhere = BatchLog::new(address.client(), Venue::NeutronDex, "another");
    assert_eq!(elsewhere.insert(&other).await.unwrap(), Logged::New);
    assert_eq!((heights(&elsewhere, 0).await.len(), heights(&log, 0).await.len()), (1, 1));
}

#[tokio::test]
async fn names_come_in_order_over_all_pages_and_one_a_height() {
    let address = store().await;
    let columns = "(venue, stream, height, previous_height, part, parts, kind, batch_id, ingestion_timestamp)";
    let fill = format!(
        "INSERT INTO raw_events {columns} SELECT 'neutron_dex', '{STREAM}', 200000 - number, 199999 - number, 0, 1, \
         'block', lower(hex(SHA256(toString(200000 - number)))), toDateTime64(100, 9, 'UTC') FROM numbers(140000)"
    );
    execute(&address, &fill).await;
    let late = batch_id_text(BatchId([1; 32]));
    for height in [60_001, 200_000] {
        let row =
            format!("('neutron_dex', '{STREAM}', {height}, 0, 0, 1, 'block', '{late}', toDateTime64(101, 9, 'UTC'))");
        execute(&address, &format!("INSERT INTO raw_events {columns} VALUES {row}")).await;
    }
    let log = log(&address);
    let names = log.names_above(60_000).await.unwrap();
    assert!(names.iter().map(|name| name.height).eq(60_001..=200_000));
    let right = |name: &BatchName| name.previous + 1 == name.height && name.id != BatchId([1; 32]);
    assert!(names.iter().all(right), "of several at a height the first that was received counts");
    assert_eq!(log.names_above(200_000).await.unwrap(), []);
}

#[tokio::test]
async fn what_the_log_should_not_hold_is_told() {
    let address = store().await;
    let log = log(&address);
    let insert = |height: u64, kind: &str, id: &str| {
        let columns = "(venue, stream, height, previous_height, part, parts, kind, batch_id, payload)";
        let row = format!("('neutron_dex', '{STREAM}', {height}, 0, 0, 1, '{kind}', '{id}', 'x')");
        format!("INSERT INTO raw_events {columns} VALUES {row}")
    };
    execute(&address, &insert(1, "block", &batch_id_text(BatchId([1; 32])))).await;
    let error = log.read(1, BatchKind::Block).await.unwrap_err();
    assert!(matches!(error, BatchLogError::Damaged { height: 1, kind: "block" }), "{error}");
    execute(&address, &insert(2, "block", "beef")).await;
    let error = log.names_above(1).await.unwrap_err();
    assert!(matches!(error, BatchLogError::UnknownText { column: "raw_events.batch_id", .. }), "{error}");
    execute(&address, &insert(3, "rumour", &batch_id_text(BatchId([1; 32])))).await;
    let error = log.names_above(2).await.unwrap_err();
    assert_eq!(error.to_string(), "the store has raw_events.kind \"rumour\", which is not known here");
}

#[tokio::test]
async fn the_cursor_only_moves_up() {
    let address = store().await;
    let log = log(&address);
    assert_eq!(log.cursor().await.unwrap(), None);
    for (height, stands) in [(5, 5), (9, 9), (7, 9), (9, 9)] {
        log.move_cursor(height, RECEIVED_NS).await.unwrap();
        assert_eq!(log.cursor().await.unwrap(), Some(stands));
    }
    execute(&address, "OPTIMIZE TABLE batch_cursors FINAL").await;
    assert_eq!((log.cursor().await.unwrap(), count(&address, "batch_cursors").await), (Some(9), 1));
    let elsewhere = BatchLog::new(address.client(), Venue::NeutronDex, "another");
    assert_eq!(elsewhere.cursor().await.unwrap(), None);
    // A cursor that an operator took back comes again at the same height.
    execute(&address, "TRUNCATE TABLE batch_cursors").await;
    log.move_cursor(9, RECEIVED_NS).await.unwrap();
    assert_eq!(log.cursor().await.unwrap(), Some(9));
}
