//! What is on record beside the log of a batch stream: gaps and dead letters; and that the tables of it all are checked.
//!
//! Never: a record that an older one replaces.

use super::{
    batch_log::{STREAM, log},
    *,
};
use connectors::clickhouse::{
    SchemaError,
    batch_log::{
        BatchLog, BatchLogError, DeadFilter, DeadHead, DeadLetter, DeadState, Gap, GapState, all_gaps, dead_letter_id,
    },
};
use market::batch::Hole;
use std::collections::BTreeMap;

const HOLE: Hole = Hole { after: 10, through: 12 };

fn gap(hole: Hole, state: GapState, changed_ns: u64) -> Gap {
    let Hole { after, through } = hole;
    Gap { after, through, state, operator: "".into(), note: "".into(), since_ns: RECEIVED_NS, changed_ns }
}

#[tokio::test]
async fn the_last_state_of_a_gap_counts_whatever_the_clocks_say() {
    let address = store().await;
    let log = log(&address);
    let opened = log.open_gap(HOLE, RECEIVED_NS).await.unwrap();
    assert_eq!(opened, gap(HOLE, GapState::Open, RECEIVED_NS));
    assert_eq!(log.gaps().await.unwrap(), [opened]);
    // The operator's clock is an hour behind.
    let accepted =
        log.accept_gap(HOLE, "ann", "chain halt, 'confirmed'", RECEIVED_NS - 3_600_000_000_000).await.unwrap();
    assert_eq!((accepted.state, &*accepted.operator, accepted.since_ns), (GapState::Accepted, "ann", RECEIVED_NS));
    assert_eq!(log.gaps().await.unwrap(), std::slice::from_ref(&accepted));
    let started = log.open_gap(HOLE, RECEIVED_NS + 9).await.unwrap();
    assert_eq!(started, accepted, "a start takes nothing back");
    for state in [GapState::Healed, GapState::Open, GapState::Filled] {
        log.note_gap(&gap(HOLE, state, 5)).await.unwrap();
        execute(&address, "OPTIMIZE TABLE batch_gaps FINAL").await;
        assert_eq!(log.gap(HOLE).await.unwrap().map(|gap| gap.state), Some(state));
    }
    assert_eq!(count(&address, "batch_gaps").await, 1);
    let again = log.open_gap(HOLE, RECEIVED_NS + 70).await.unwrap();
    assert_eq!((again.state, again.since_ns), (GapState::Open, RECEIVED_NS + 70), "a filled one opens anew");
}

#[tokio::test]
async fn only_an_open_gap_can_be_accepted() {
    let address = store().await;
    let log = log(&address);
    let error = log.accept_gap(HOLE, "ann", "x", RECEIVED_NS).await.unwrap_err();
    assert!(matches!(error, BatchLogError::NotOpen { state: None, .. }), "{error}");
    log.open_gap(HOLE, RECEIVED_NS).await.unwrap();
    let other = Hole { after: 10, through: 13 };
    assert!(log.accept_gap(other, "ann", "x", RECEIVED_NS).await.is_err());
    log.accept_gap(HOLE, "ann", "x", RECEIVED_NS).await.unwrap();
    let error = log.accept_gap(HOLE, "bob", "y", RECEIVED_NS).await.unwrap_err();
    assert_eq!(error.to_string(), "no gap after 10 through 12 is open in neutron-1: it is accepted");
    execute(
        &address,
        "INSERT INTO batch_gaps (venue, stream, after, state) VALUES ('neutron_dex', 'neutron-1', 1, 'lost')",
    )
    .await;
    let error = log.gaps().await.unwrap_err();
    assert!(matches!(error, BatchLogError::UnknownText { column: "batch_gaps.state", .. }), "{error}");
}

#[tokio::test]
async fn gaps_of_all_streams_are_listed_those_that_are_over_on_demand() {
    let address = store().await;
    let other = BatchLog::new(address.client(), Venue::NeutronDex, "a-testnet");
    for (log, hole, state) in [
        (&log(&address), HOLE, GapState::Open),
        (&log(&address), Hole { after: 2, through: 3 }, GapState::Filled),
        (&log(&address), Hole { after: 4, through: 5 }, GapState::Accepted),
        (&other, HOLE, GapState::Healed),
        (&other, Hole { after: 20, through: 21 }, GapState::Open),
    ] {
        log.note_gap(&gap(hole, state, RECEIVED_NS)).await.unwrap();
    }
    let listed = async |over_too| {
        let gaps = all_gaps(&address.client(), over_too).await.unwrap();
        gaps.into_iter().map(|found| (found.stream.into_string(), found.gap.after, found.gap.state)).collect::<Vec<_>>()
    };
    let row = |stream: &str, after, state| (stream.to_owned(), after, state);
    let open =
        [row("a-testnet", 20, GapState::Open), row(STREAM, 4, GapState::Accepted), row(STREAM, 10, GapState::Open)];
    assert_eq!(listed(false).await, open);
    assert_eq!(listed(true).await.len(), 5);
    assert_eq!(other.gaps().await.unwrap().len(), 2);
}

fn letter(payload: &[u8], extra: &[(&str, &str)]) -> DeadLetter {
    let attributes = [("height", "7"), ("kind", "block"), ("note", "it's\n\n\"x\"")].iter().chain(extra);
    let attributes: BTreeMap<String, String> =
        attributes.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let head = DeadHead {
        id: dead_letter_id(Venue::NeutronDex, STREAM, &attributes, payload),
        venue: Venue::NeutronDex.name().into(),
        stream: STREAM.into(),
        height: 7,
        message_id: "m-1".into(),
        attributes,
        reason: "digest: the content is another".into(),
        attempts: 3,
        state: DeadState::Dead,
        published_ns: RECEIVED_NS - 1,
        received_ns: RECEIVED_NS,
        changed_ns: RECEIVED_NS + 1,
    };
    DeadLetter { head, payload: payload.to_vec() }
}

#[tokio::test]
async fn a_letter_that_is_buried_twice_is_one_and_comes_back_to_the_byte() {
    let address = store().await;
    let log = log(&address);
    let bytes: Vec<u8> = (0..=u8::MAX).chain(*b"\n\n\0").collect();
    let first = letter(&bytes, &[("googclient_traceparent", "00-a")]);
    let again = letter(&bytes, &[("googclient_traceparent", "00-b")]);
    assert_eq!(first.head.id, again.head.id);
    log.bury(&first).await.unwrap();
    assert_eq!(log.dead_letter(&first.head.id).await.unwrap(), Some(first.clone()));
    let later = DeadLetter { head: DeadHead { attempts: 6, changed_ns: 1, ..again.head.clone() }, ..again };
    log.bury(&later).await.unwrap();
    let found = log.dead_letter(&first.head.id).await.unwrap().unwrap();
    assert_eq!((found.head.attempts, &found.payload), (6, &bytes), "the last one counts, whatever its clock");
    assert_eq!(log.dead(None).await.unwrap(), [found.head]);
    let rows: u64 = address.client().query("SELECT count() FROM dead_letters FINAL").fetch_one().await.unwrap();
    assert_eq!(rows, 1);
    assert_eq!(log.dead_letter("0").await.unwrap(), None);
}

#[tokio::test]
async fn a_letters_state_changes_and_its_bytes_stay() {
    let address = store().await;
    let log = log(&address);
    let (one, other) = (letter(b"one\n\n", &[]), letter(b"other", &[]));
    for letter in [&one, &other] {
        log.bury(letter).await.unwrap();
    }
    let id = &one.head.id;
    assert!(log.set_dead_state(id, DeadState::Replay, None, None, 1).await.unwrap());
    let found = log.dead_letter(id).await.unwrap().unwrap();
    let head = DeadHead { state: DeadState::Replay, changed_ns: RECEIVED_NS + 2, ..one.head.clone() };
    assert_eq!(found, DeadLetter { head, payload: one.payload.clone() });
    let wanted = log.dead(Some(DeadState::Replay)).await.unwrap();
    assert_eq!(wanted.iter().map(|head| &head.id).collect::<Vec<_>>(), [id]);
    assert_eq!(log.dead(Some(DeadState::Dead)).await.unwrap(), std::slice::from_ref(&other.head));
    let now_ns = RECEIVED_NS + 50;
    assert!(log.set_dead_state(id, DeadState::Replayed, Some("it's \\ taken"), Some(9), now_ns).await.unwrap());
    execute(&address, "OPTIMIZE TABLE dead_letters FINAL").await;
    let found = log.dead_letter(id).await.unwrap().unwrap();
    assert_eq!((found.head.state, found.head.attempts, &*found.head.reason), (DeadState::Replayed, 9, "it's \\ taken"));
    assert_eq!((found.head.changed_ns, &found.payload), (now_ns, &one.payload));
    assert!(!log.set_dead_state("none", DeadState::Replay, None, None, now_ns).await.unwrap());
    let letters = log.dead_letters();
    let list = async |filter| letters.list(filter).await.unwrap().len();
    assert_eq!(list(DeadFilter { prefix: &id[..10], ..DeadFilter::default() }).await, 1);
    assert_eq!(list(DeadFilter { limit: Some(1), ..DeadFilter::default() }).await, 1);
    assert_eq!(list(DeadFilter { stream: Some((Venue::NeutronDex, "x")), ..DeadFilter::default() }).await, 0);
    execute(&address, "INSERT INTO dead_letters (id, state) VALUES ('x', 'undead')").await;
    let error = letters.list(DeadFilter::default()).await.unwrap_err();
    assert!(matches!(error, BatchLogError::UnknownText { column: "dead_letters.state", .. }), "{error}");
}

#[tokio::test]
async fn the_tables_of_batch_streams_are_refused_where_one_column_differs() {
    let script = clickhouse::schema::SCHEMA_SQL;
    let cases = [
        ("raw_events", "batch_id String", "batch_id FixedString(64)", "column batch_id is FixedString(64)"),
        ("raw_events", "    kind LowCardinality(String),\n", "", "column kind is missing"),
        ("tick_updates", "raw_id String,", "raw_id String, more UInt8,", "column more is not expected"),
        ("batch_cursors", "height UInt64", "height Int64", "column height is Int64"),
        ("batch_cursors", "ReplacingMergeTree(height)", "ReplacingMergeTree", "engine ReplacingMergeTree,"),
        ("batch_gaps", "    note String,\n", "", "column note is missing"),
        ("dead_letters", "attempts UInt32", "attempts UInt64", "column attempts is UInt64"),
        ("dead_letters", "ORDER BY id", "ORDER BY (id, height)", "sorting key (id, height)"),
    ];
    for (table, is, other, words) in cases {
        let begin = script.find(&format!("CREATE TABLE IF NOT EXISTS {table}\n")).unwrap();
        let statement = &script[begin..];
        let statement = &statement[..statement.find(";\n").unwrap()];
        assert!(statement.contains(is), "{table}: {is}");
        let address = empty_store();
        let server = address.server_client();
        server.query_raw(&format!("CREATE DATABASE {}", address.database)).execute().await.unwrap();
        execute(&address, &statement.replace(is, other)).await;
        let error = clickhouse::schema::apply(&address).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(matches!(error, SchemaError::Differs { table: found, .. } if found == table));
    }
}
