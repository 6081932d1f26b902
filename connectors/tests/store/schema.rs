//! The schema over releases: migrations, whatever cut them off, and what of an operator's own settings is refused.
//!
//! Never: a fix that is told and does not mend.

use super::*;
use connectors::clickhouse::{SchemaError, schema};

/// The tables as the release before numbers made them.
const SCHEMA_3: &str = include_str!("schema_3.sql");
/// What brings them to 4.
const TO_4: &str = include_str!("../../src/clickhouse/migrations/0004_current_state.sql");

/// The statements of a script without semicolons in quotes.
fn statements(script: &str) -> Vec<String> {
    let lines = script.lines().filter(|line| !line.trim_start().starts_with("--"));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.split(";\n")
        .chain([""])
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .map(|one| one.trim_end_matches(';').to_owned())
        .collect()
}

async fn create_database(address: &StoreAddress) {
    let server = address.server_client();
    server.query_raw(&format!("CREATE DATABASE {}", address.database)).execute().await.unwrap();
}

/// A database of schema 3 with a tick that lives, one that died, and what the views made of them.
async fn schema_3() -> Store {
    let store = empty_store();
    create_database(&store).await;
    for statement in statements(SCHEMA_3) {
        execute(&store, &statement).await;
    }
    let row = |index: i64, reserves: u64, version: u64| {
        format!(
            "('binance_spot', 'BTCUSDT', 'BTC', 'USDT', 'USDT', {index}, 0, '', {reserves}, {}, {version}, 1, -2, -8, 5, 6, '')",
            u8::from(reserves == 0)
        )
    };
    let rows = [row(100, 7, 1), row(101, 8, 1), row(101, 0, 2)].join(", ");
    let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, version, \
                   whole, price_exponent, quantity_exponent, updated_at, ingestion_timestamp, raw_id";
    execute(&store, &format!("INSERT INTO tick_updates ({columns}) VALUES {rows}")).await;
    store
}

/// Everything of a database that a schema makes, by name.
async fn made(address: &StoreAddress) -> Vec<String> {
    let settings =
        "arrayStringConcat(arraySort(splitByString(', ', splitByString(' SETTINGS ', engine_full)[2])), ', ')";
    let tables = &format!(
        "SELECT concat(name, ' ', splitByString(' SETTINGS ', engine_full)[1], {settings}, ' ', sorting_key, ' ', as_select) FROM system.tables \
                  WHERE database = ? ORDER BY name"
    );
    let columns = "SELECT concat(table, ' ', toString(position), ' ', name, ' ', type, ' ', default_expression, ' ', \
                   compression_codec) FROM system.columns WHERE database = ? ORDER BY table, position";
    let indices = "SELECT concat(table, ' ', name, ' ', type, ' ', expr) FROM system.data_skipping_indices \
                   WHERE database = ? ORDER BY table, name";
    let mut made = Vec::new();
    for query in [tables, columns, indices] {
        let rows: Vec<String> = address.server_client().query(query).bind(&address.database).fetch_all().await.unwrap();
        made.extend(rows.into_iter().map(|row| row.replace(&address.database, "db")));
    }
    made
}

async fn number(address: &StoreAddress) -> u32 {
    address.client().query("SELECT max(number) FROM schema_migrations").fetch_one().await.unwrap()
}

#[tokio::test]
async fn a_database_of_schema_3_becomes_one_of_this_release_wherever_the_way_was_cut_off() {
    let fresh = made(&*store().await).await;
    let steps: Vec<String> = statements(TO_4).into_iter().chain(statements(schema::SCHEMA_SQL)).collect();
    for cut in [0, 1, 2, 3, 6, steps.len() - 1] {
        let address = schema_3().await;
        for step in &steps[..cut] {
            execute(&address, step).await;
        }
        schema::apply(&address).await.unwrap();
        assert_eq!(made(&address).await, fresh, "cut off after {cut}");
        assert_eq!(number(&address).await, schema::SCHEMA_NUMBER);
        let (_, instrument) = directory();
        assert_eq!(live(&address, &instrument).await, [(Side::Bid, 100, number_of(7), 1)]);
        assert_eq!(count(&address, "tick_updates").await, 3);
        // Again, and nothing is done twice.
        schema::apply(&address).await.unwrap();
        assert_eq!(count(&address, "schema_migrations").await, 1);
        // What comes in now goes through the new view.
        let (directory, instrument) = directory();
        let event = changes(&instrument, Version::new(0, 9), &[(Side::Bid, 102, number_of(9))], false);
        write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
        assert_eq!(live(&address, &instrument).await.len(), 2);
        let shown: i64 = address
            .client()
            .query("SELECT toInt64(toUnixTimestamp64Nano(max(shown_at))) FROM tick_updates")
            .fetch_one()
            .await
            .unwrap();
        assert_eq!(shown, i64::try_from(SHOWN_NS).unwrap());
    }
}

fn number_of(value: u64) -> U256 {
    super::number(value)
}

#[tokio::test]
async fn a_database_of_a_later_release_is_refused_and_left_alone() {
    let address = store().await;
    execute(&address, "INSERT INTO schema_migrations VALUES (99, 'later', 'x', 0)").await;
    let before = made(&address).await;
    let error = schema::apply(&address).await.unwrap_err();
    assert!(matches!(error, SchemaError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("Run the release that made it"), "{error}");
    assert_eq!(made(&address).await, before);
}

#[tokio::test]
async fn settings_under_which_rows_are_lost_or_come_back_are_refused_with_what_mends_them() {
    let cases = [
        ("ALTER TABLE tick_updates MODIFY SETTING non_replicated_deduplication_window = 0", "adds its rows again"),
        ("ALTER TABLE tick_state RESET SETTING non_replicated_deduplication_window", "is not set"),
        (
            "ALTER TABLE tick_state MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 1",
            "what they replaced lives again",
        ),
        (
            "ALTER TABLE tick_state MODIFY SETTING enable_replacing_merge_with_cleanup_for_min_age_to_force_merge = 1",
            "what they replaced lives again",
        ),
        (
            "ALTER TABLE tick_state MODIFY TTL toDateTime(ingestion_timestamp) + INTERVAL 7 DAY DELETE WHERE reserves_zero = 1",
            "it has a TTL",
        ),
        ("ALTER TABLE instrument_version MODIFY TTL toDateTime(updated_at) + INTERVAL 7 DAY", "it has a TTL"),
        ("ALTER TABLE tick_updates DROP COLUMN raw_id", "column raw_id is missing"),
        ("ALTER TABLE tick_updates ADD COLUMN mine UInt8", "column mine is not expected"),
        ("ALTER TABLE tick_updates MODIFY COLUMN raw_id LowCardinality(String)", "column raw_id is LowCardinality"),
    ];
    let address = store().await;
    for (change, words) in cases {
        execute(&address, change).await;
        let error = schema::apply(&address).await.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("Nothing was written"), "{error}");
        let fix = error.split("To mend it: ").nth(1).unwrap().split(". Or configure").next().unwrap();
        let fix = fix.rsplit("or ALTER").next().map_or(fix.to_owned(), |tail| {
            if fix.contains("or ALTER") { format!("ALTER{tail}") } else { fix.to_owned() }
        });
        let fix = fix.split("; a column of the key").next().unwrap();
        execute(&address, fix).await;
        schema::apply(&address).await.unwrap();
    }
}

#[tokio::test]
async fn tables_whose_partitions_tear_rows_apart_are_refused() {
    let script = statements(schema::SCHEMA_SQL);
    let cases = [
        ("tick_state", "PARTITION BY toYYYYMM(ingestion_timestamp)", Some("ingestion_timestamp")),
        ("tick_state", "PARTITION BY tick_index % 8", Some("tick_index")),
        ("tick_updates", "PARTITION BY toDate(updated_at)", Some("updated_at")),
        ("tick_state", "PARTITION BY (venue, asset_0)", None),
        ("tick_updates", "PARTITION BY venue", None),
    ];
    for (table, partition, column) in cases {
        let address = empty_store();
        create_database(&address).await;
        let head = format!("CREATE TABLE IF NOT EXISTS {table}\n");
        let statement = script.iter().find(|statement| statement.starts_with(&head)).unwrap();
        execute(&address, &statement.replace("\nORDER BY", &format!("\n{partition}\nORDER BY"))).await;
        match (schema::apply(&address).await, column) {
            (Ok(()), None) => {}
            (Err(error), Some(column)) => {
                let words = format!("its partition key uses column {column}");
                assert!(error.to_string().contains(&words), "{error}");
                assert!(error.to_string().contains("RENAME TABLE"), "{error}");
            }
            (other, _) => panic!("{table} {partition}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_view_that_makes_other_rows_is_refused() {
    let address = store().await;
    let select = "SELECT venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, version, \
                  price_exponent, quantity_exponent, updated_at, ingestion_timestamp FROM tick_updates";
    execute(&address, &format!("ALTER TABLE tick_state_fill MODIFY QUERY {select}")).await;
    let error = schema::apply(&address).await.unwrap_err().to_string();
    assert!(error.contains("tick_state_fill differs: it selects") && error.contains("DROP VIEW"), "{error}");
    execute(&address, "DROP VIEW tick_state_fill").await;
    schema::apply(&address).await.unwrap();
}
