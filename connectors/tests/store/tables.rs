//! The tables themselves: creation, checks, exact numbers, candles.
//!
//! Never: a table that another test uses.

use super::*;
use connectors::clickhouse::{SchemaError, schema::Difference};

#[tokio::test]
async fn the_schema_is_applied_twice_without_effect() {
    let address = store().await;
    let (directory, instrument) = directory();
    let event = changes(&instrument, Version::new(1, 1), &[(Side::Bid, 1, number(1))], false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    clickhouse::schema::apply(&address).await.unwrap();
    assert_eq!(count(&address, "tick_state").await, 1);
}

#[tokio::test]
async fn a_table_that_differs_is_refused_before_anything_is_created() {
    let key = "ORDER BY (asset_0, asset_1, venue, symbol)";
    let columns = "venue LowCardinality(String), symbol LowCardinality(String), asset_0 LowCardinality(String), \
                   asset_1 LowCardinality(String), price_exponent Int8, quantity_exponent Int8, \
                   updated_at DateTime64(9, 'UTC'), ingestion_timestamp DateTime64(9, 'UTC')";
    let cases = [
        (format!("({columns}, version UInt64) ENGINE = ReplacingMergeTree(version) {key}"), "column version is UInt64"),
        (format!("({columns}, version UInt128) ENGINE = ReplacingMergeTree {key}"), "engine ReplacingMergeTree,"),
        (
            format!("({columns}, version UInt128) ENGINE = ReplacingMergeTree(version) ORDER BY symbol"),
            "sorting key (symbol)",
        ),
        (
            format!("({columns}, version UInt128, extra UInt8) ENGINE = ReplacingMergeTree(version) {key}"),
            "column extra is not expected",
        ),
        (
            format!(
                "({}, version UInt128) ENGINE = ReplacingMergeTree(version) {key}",
                columns.replace("ingestion_", "")
            ),
            "column ingestion_timestamp is missing",
        ),
    ];
    for (definition, words) in cases {
        let address = empty_store();
        let server = address.server_client();
        server.query_raw(&format!("CREATE DATABASE {}", address.database)).execute().await.unwrap();
        execute(&address, &format!("CREATE TABLE instrument_version {definition}")).await;
        let error = clickhouse::schema::apply(&address).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains("To mend it: "), "{error}");
        assert!(matches!(error, SchemaError::Differs { table: "instrument_version", .. }));
        let tables: u64 = server
            .query("SELECT count() FROM system.tables WHERE database = ?")
            .bind(&address.database)
            .fetch_one()
            .await
            .unwrap();
        assert_eq!(tables, 1, "{words}");
    }
}

#[tokio::test]
async fn a_missing_view_is_made_again() {
    let address = store().await;
    execute(&address, "DROP TABLE tick_state_fill").await;
    clickhouse::schema::apply(&address).await.unwrap();
    assert_eq!(count(&address, "tick_state_fill").await, 0);
    assert_eq!(Difference::Missing.to_string(), "it is missing");
}

#[tokio::test]
async fn extreme_numbers_and_nanoseconds_survive() {
    let address = store().await;
    let (directory, instrument) = directory();
    let events = LARGE_IDS.iter().zip([-7, i64::MAX]).map(|(id, index)| {
        SinkInput::Changes(changes(&instrument, Version::new(3, *id), &[(Side::Ask, index, U256::MAX)], false))
    });
    let trades = LARGE_IDS.map(|id| SinkInput::Trade(trade(&instrument, &id.to_string(), id, 5, 0)));
    let wide = SinkInput::Trade(trade(&instrument, "184467440737095516151", 1, 5, 0));
    write(&address, &directory, WriterOptions::default(), events.chain(trades).chain([wide])).await;

    let ticks = clickhouse::book(&address.client(), &instrument).await.unwrap();
    let found: Vec<_> = ticks.iter().map(|tick| (tick.key.tick_index, tick.reserves, tick.version)).collect();
    let version = |id| Version::new(3, id);
    assert_eq!(found, [(-7, U256::MAX, version(LARGE_IDS[0])), (i64::MAX, U256::MAX, version(LARGE_IDS[1]))]);
    let times = ticks.iter().map(|tick| (tick.updated_ns, tick.received_ns)).next().unwrap();
    assert_eq!(times, (i64::try_from(VENUE_NS).unwrap(), i64::try_from(RECEIVED_NS).unwrap()));

    let client = address.client();
    let text: String = client.query("SELECT toString(any(updated_at)) FROM tick_state").fetch_one().await.unwrap();
    assert_eq!(text, "2023-11-14 22:13:20.345678901");
    let ids: Vec<(String, u64)> =
        client.query("SELECT trade_id, trade_order FROM trades FINAL ORDER BY trade_id").fetch_all().await.unwrap();
    let right =
        [("184467440737095516151", 1), ("8389765929445198309", LARGE_IDS[0]), ("9007199254740993", LARGE_IDS[1])];
    assert_eq!(ids, right.map(|(id, order)| (id.to_owned(), order)));
    let versions = clickhouse::instrument_versions(&client).await.unwrap();
    assert_eq!(versions.iter().map(clickhouse::StoredVersion::version).collect::<Vec<_>>(), [version(LARGE_IDS[0])]);
}

#[tokio::test]
async fn prices_are_exact_decimals_or_null_at_any_step() {
    let address = store().await;
    let (directory, instrument) = directory();
    let cases: [(i64, i8, Option<&str>); 10] = [
        (6_173_763, -2, Some("61737.63")),
        (1, -38, Some("0.00000000000000000000000000000000000001")),
        (i64::MAX, -38, Some("0.00000000000000000009223372036854775807")),
        (-105, -2, Some("-1.05")),
        (7, 2, Some("700")),
        (0, 38, Some("0")),
        (1, 37, Some("10000000000000000000000000000000000000")),
        (1, 38, None),
        (i64::MAX, 38, None),
        (-5, market::scale::PRICE_POWERS, None),
    ];
    let events: Vec<_> = (1..)
        .zip(cases)
        .map(|(seq, (index, exponent, _))| {
            let scale = Scale { price: exponent, quantity: exponent };
            let event = changes(&instrument, Version::new(1, seq), &[(Side::Bid, index, number(25))], false);
            SinkInput::Changes(AdmittedChanges { scale, ..event })
        })
        .collect();
    write(&address, &directory, WriterOptions::default(), events).await;
    let query = "SELECT toString(price) FROM tick_updates ORDER BY version";
    let found: Vec<Option<String>> = address.client().query(query).fetch_all().await.unwrap();
    assert_eq!(found, cases.map(|(.., text)| text.map(ToOwned::to_owned)));
    let query = "SELECT assumeNotNull(toString(quantity)) FROM tick_updates WHERE price = toDecimal256('61737.63', 38)";
    let quantity: String = address.client().query(query).fetch_one().await.unwrap();
    assert_eq!(quantity, "0.25");
}

#[tokio::test]
async fn quantities_are_exact_decimals_or_null_up_to_the_greatest() {
    let address = store().await;
    let (directory, instrument) = directory();
    let power = |exponent: u64| number(10).checked_pow(number(exponent)).unwrap();
    let mut events = Vec::new();
    let mut right = Vec::new();
    for exponent in [-38, -18, -8, 0, 18, 38] {
        for steps in
            [number(1), number(u64::MAX), power(38), power(75), power(76), power(77), U256::MAX, U256::MAX >> 3]
        {
            let scale = Scale { price: 0, quantity: exponent };
            let seq = u64::try_from(events.len()).unwrap();
            let event = changes(&instrument, Version::new(1, seq), &[(Side::Bid, 1, steps)], false);
            events.push(SinkInput::Changes(AdmittedChanges { scale, ..event }));
            // The column holds what is below 10^38; all digits that an exponent of at least -38 leaves are in it.
            let fits = scale.quantity_text(steps).split('.').next().is_some_and(|whole| whole.len() <= 38);
            let text = scale.quantity_text(steps);
            let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            right.push(fits.then(|| short.to_owned()));
        }
    }
    write(&address, &directory, WriterOptions::default(), events).await;
    let query = "SELECT toString(quantity) FROM tick_updates ORDER BY version";
    let found: Vec<Option<String>> = address.client().query(query).fetch_all().await.unwrap();
    assert_eq!(found, right);
}

#[tokio::test]
async fn candles_follow_the_venues_trade_order() {
    let address = store().await;
    let (directory, instrument) = directory();
    let trades = [("c", 3, 90, 20), ("a", 1, 100, 20), ("b", 2, 120, 59), ("b", 2, 120, 59), ("d", 4, 70, 80)];
    let events =
        trades.map(|(id, order, price, second)| SinkInput::Trade(trade(&instrument, id, order, price, second)));
    write(&address, &directory, WriterOptions::default(), events).await;
    let text = |column| format!("assumeNotNull(toString({column}))");
    let columns = ["minute", "open", "high", "low", "close", "volume"].map(text).join(", ");
    let query = format!("SELECT {columns}, trade_count FROM candles ORDER BY minute");
    type Candle = (String, String, String, String, String, String, u64);
    let candles: Vec<Candle> = address.client().query(&query).fetch_all().await.unwrap();
    let candle = |minute: &str, prices: [&str; 4], volume: &str, trades| {
        let [open, high, low, close] = prices.map(ToOwned::to_owned);
        (format!("2023-11-14 22:{minute}:00"), open, high, low, close, volume.to_owned(), trades)
    };
    let right = [candle("13", ["1", "1", "0.9", "0.9"], "3", 2), candle("14", ["1.2", "1.2", "0.7", "0.7"], "3", 2)];
    assert_eq!(candles, right);
}

#[tokio::test]
async fn the_time_index_shows_no_replaced_row() {
    let address = store().await;
    let (directory, instrument) = directory();
    for (seq, received_ns) in [(1, RECEIVED_NS), (2, RECEIVED_NS + 1)] {
        let event = changes(&instrument, Version::new(1, seq), &[(Side::Bid, 100, number(seq))], false);
        let event = AdmittedChanges { received_ns, ..event };
        write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    }
    let query = "SELECT count() FROM tick_state FINAL WHERE toUnixTimestamp64Nano(ingestion_timestamp) = ?";
    let at_time = "SELECT count() FROM tick_state FINAL WHERE ingestion_timestamp = fromUnixTimestamp64Nano(?, 'UTC')";
    for (received_ns, rows) in [(RECEIVED_NS, 0), (RECEIVED_NS + 1, 1)] {
        for query in [query, at_time] {
            let received_ns = i64::try_from(received_ns).unwrap();
            let found: u64 = address.client().query(query).bind(received_ns).fetch_one().await.unwrap();
            assert_eq!(found, rows, "{query}");
        }
    }
}

#[tokio::test]
async fn the_documented_queries_run() {
    let address = store().await;
    let (_, sql) = include_str!("../../../docs/STORE.md").split_once("```sql\n").unwrap();
    let (sql, _) = sql.split_once("```").unwrap();
    let queries: Vec<_> = sql.split(';').filter(|query| !query.trim().is_empty()).collect();
    assert_eq!(queries.len(), 3);
    for query in queries {
        execute(&address, query).await;
    }
}
