//! The current state: nothing old shows, nothing is written twice, nothing is lost by a failure.
//!
//! Never: an expectation that depends on when parts merge.

use super::*;

#[tokio::test]
async fn a_late_older_update_never_shows_behind_a_tombstone() {
    let address = store().await;
    let (directory, instrument) = directory();
    let version = |seq| Version::new(1, seq);
    for (seq, reserves) in [(3, 10), (4, 0), (2, 99)] {
        let event = changes(&instrument, version(seq), &[(Side::Bid, 100, number(reserves))], false);
        write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    }
    assert_eq!(live(&address, &instrument).await, []);
    execute(&address, "OPTIMIZE TABLE tick_state FINAL").await;
    let event = changes(&instrument, version(1), &[(Side::Bid, 100, number(98))], false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    assert_eq!(live(&address, &instrument).await, []);
    let versions = clickhouse::instrument_versions(&address.client()).await.unwrap();
    assert_eq!(versions.iter().map(|stored| stored.version().seq).collect::<Vec<_>>(), [4]);
}

#[tokio::test]
async fn one_batch_twice_is_one_batch() {
    let address = store().await;
    let (directory, instrument) = directory();
    let event =
        changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1)), (Side::Ask, 101, number(2))], false);
    let events = [SinkInput::Changes(event), SinkInput::Trade(trade(&instrument, "t", 1, 100, 0))];
    for _ in 0..3 {
        let report = write(&address, &directory, WriterOptions::default(), events.clone()).await;
        assert_eq!(report.counters.rows_inserted, 3);
    }
    for (table, rows) in [("tick_updates", 2), ("tick_state", 2), ("instrument_version", 1), ("trades", 1)] {
        assert_eq!(count(&address, table).await, rows, "{table}");
    }
}

#[tokio::test]
async fn a_batch_comes_again_after_the_table_was_emptied() {
    let address = store().await;
    let (directory, instrument) = directory();
    let event = changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1))], false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event.clone())]).await;
    for table in ["tick_updates", "tick_state", "instrument_version"] {
        execute(&address, &format!("TRUNCATE TABLE {table}")).await;
    }
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    assert_eq!(live(&address, &instrument).await, [(Side::Bid, 100, number(1), 1)]);
}

#[tokio::test]
async fn a_view_that_fails_is_filled_by_the_repetition() {
    let address = store().await;
    let (directory, instrument) = directory();
    execute(&address, "CREATE TABLE gate (shut UInt8) ENGINE = MergeTree ORDER BY shut").await;
    execute(&address, "CREATE TABLE beyond (x UInt8) ENGINE = MergeTree ORDER BY x").await;
    execute(
        &address,
        "CREATE MATERIALIZED VIEW a_gate TO beyond AS \
         SELECT throwIf((SELECT count() FROM gate) > 0, 'shut') AS x FROM tick_updates",
    )
    .await;
    execute(&address, "INSERT INTO gate VALUES (1)").await;

    let running = Running::start(&address, &directory, WriterOptions::default());
    let event =
        changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1)), (Side::Ask, 101, number(2))], false);
    running.input.send(SinkInput::Changes(event)).await.unwrap();
    while running.view.counters().retries < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counters = running.view.counters();
    assert!(counters.last_error.is_some_and(|text| text.contains("shut")));
    assert_eq!((counters.rows_inserted, running.view.durable(instrument.id)), (0, None));
    execute(&address, "TRUNCATE TABLE gate").await;
    let report = running.end().await;
    assert_eq!(report.durable.get(&instrument.id), Some(&Version::new(1, 1)));
    for (table, rows) in [("tick_updates", 2), ("tick_state", 2), ("instrument_version", 1)] {
        assert_eq!(count(&address, table).await, rows, "{table}");
    }
}

#[tokio::test]
async fn the_first_whole_book_buries_what_only_the_store_had() {
    let address = store().await;
    let (directory, instrument) = directory();
    let old = [(Side::Bid, 100, number(1)), (Side::Bid, 99, number(2)), (Side::Ask, 101, number(3))];
    let event = changes(&instrument, Version::new(1, 10), &old, false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;

    let book = changes(&instrument, Version::new(1, 20), &[(Side::Bid, 100, number(7))], true);
    let next = changes(&instrument, Version::new(1, 21), &[(Side::Ask, 102, number(8))], false);
    let events = [SinkInput::Changes(book.clone()), SinkInput::Changes(next)];
    let report = write(&address, &directory, WriterOptions::default(), events).await;
    assert_eq!(report.counters.tombstones, 2);
    let right = [(Side::Ask, 102, number(8), 21), (Side::Bid, 100, number(7), 20)];
    assert_eq!(live(&address, &instrument).await, right);

    // An older whole book, as a restart from an earlier position gives, takes nothing away.
    let report = write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(book)]).await;
    assert_eq!(report.counters.tombstones, 0);
    assert_eq!(live(&address, &instrument).await, right);
}

#[tokio::test]
async fn finer_steps_leave_no_tick_of_the_old_ones() {
    let address = store().await;
    let (directory, instrument) = directory();
    let first =
        changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1)), (Side::Ask, 1_010, number(1))], true);
    let finer =
        changes(&instrument, Version::new(1, 2), &[(Side::Bid, 1_000, number(1)), (Side::Ask, 1_010, number(5))], true);
    let finer = AdmittedChanges { scale: Scale { price: -3, ..SCALE }, ..finer };
    let events = [SinkInput::Changes(first), SinkInput::Changes(finer)];
    write(&address, &directory, WriterOptions::default(), events).await;
    let right = [(Side::Ask, 1_010, number(5), 2), (Side::Bid, 1_000, number(1), 2)];
    assert_eq!(live(&address, &instrument).await, right);
}

#[tokio::test]
async fn a_repeated_replay_changes_nothing() {
    let address = store().await;
    let (directory, instrument) = directory();
    let other = directory.intern(Venue::KrakenSpot, "BTC/USD", "BTC", "USD").unwrap();
    let mut events = Vec::new();
    for seq in 1..=400_u64 {
        let of = if seq % 3 == 0 { &other } else { &instrument };
        let index = i64::try_from(seq * 7 % 40).unwrap();
        let rows = [(Side::Bid, index, number(seq % 5)), (Side::Ask, index + 50, number(seq % 4))];
        events.push(SinkInput::Changes(changes(of, Version::new(1, seq), &rows, seq <= 3 || seq % 100 == 0)));
        events.push(SinkInput::Trade(trade(of, &seq.to_string(), seq, index, seq)));
    }
    let content = |table: &'static str| {
        let client = address.client();
        async move {
            let query = format!("SELECT count(), sum(cityHash64(*)), groupBitXor(cityHash64(*)) FROM {table}");
            client.query(&query).fetch_one::<(u64, u64, u64)>().await.unwrap()
        }
    };
    let options = WriterOptions { batch_rows: 90, ..WriterOptions::replay() };
    let tables = ["tick_updates", "tick_state FINAL", "instrument_version FINAL", "trades FINAL", "trades"];
    let mut first = Vec::new();
    write(&address, &directory, options.clone(), events.clone()).await;
    for table in tables {
        first.push(content(table).await);
    }
    assert!(first[0].0 >= 800);
    write(&address, &directory, options, events).await;
    for (table, right) in tables.into_iter().zip(first) {
        assert_eq!(content(table).await, right, "{table}");
    }
}

#[tokio::test]
async fn the_store_may_go_away_and_come_back_at_the_flush() {
    let address = store().await;
    let (directory, instrument) = directory();
    execute(&address, "RENAME TABLE tick_updates TO elsewhere").await;
    let running = Running::start(&address, &directory, WriterOptions::default());
    let event = changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1))], false);
    running.input.send(SinkInput::Changes(event)).await.unwrap();
    let view = Arc::clone(&running.view);
    let ending = tokio::spawn(running.end());
    while view.counters().retries < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    execute(&address, "RENAME TABLE elsewhere TO tick_updates").await;
    assert_eq!(ending.await.unwrap().counters.rows_inserted, 1);
    assert_eq!(count(&address, "tick_updates").await, 1);
}

#[tokio::test]
async fn a_store_that_stays_away_is_named_with_what_is_lost() {
    let (directory, instrument) = directory();
    let (input, receiver) = mpsc::channel(1);
    let client = StoreAddress::at("http://127.0.0.1:9").client();
    let writer = StoreWriter::new("test", WriterOptions::default());
    let options = SinkOptions { flush_max: Duration::from_millis(500) };
    let view = Arc::new(SinkView::default());
    let sink = tokio::spawn(clickhouse::run_sink(client, writer, receiver, directory, view, options));
    let event = changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1))], false);
    input.send(SinkInput::Changes(event)).await.unwrap();
    drop(input);
    let error = sink.await.unwrap().unwrap_err();
    assert!(matches!(error, clickhouse::SinkError::FlushTimedOut { rows: 1, .. }), "{error}");
}
