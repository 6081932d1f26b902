//! A batch stream whose subscriber is killed again and again, beside one that took everything in order and once.
//!
//! What must be equal in the store is everything but `ingestion_timestamp`, which is our own clock, and the upper half of
//! `version`, which counts how often an instrument was begun anew.
//!
//! Never: an end that depends on when the kills were.

use super::{
    chain::{Chain, options},
    stage::{STREAM, Stage, by_hand, durable, event, header, kept, number, told},
    watchers::Watchers,
};
use crate::{
    books::ask,
    kills::{Moment, Seed, dies, sql},
};
use anyhow::{Context, Result, ensure};
use connectors::{
    clickhouse::batch_log::dead_letter_id, neutron_dex::generator::GeneratedBatch, pubsub::header::Encoding,
};
use market::{FeedState, Venue};
use serde_json::Value;
use sprag_tests::process::{Server, free_port};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const SEED: u64 = 5;
const BLOCKS: usize = 200;
/// Batches that are new at each start, and starts before for which they are published again.
const WINDOW: usize = 12;
const AGAIN: usize = 4;
const RECEIVERS: usize = 6;
/// Starts that end with a kill.
const STARTS: usize = 15;

/// Lets every insert into the log fail, for as long as it is there.
const LOG_FAILING: &str = "CREATE MATERIALIZED VIEW IF NOT EXISTS failing_log ENGINE = Null AS \
                           SELECT throwIf(height > 0) AS never FROM raw_events";
const LOG_MENDED: &str = "DROP VIEW IF EXISTS failing_log";
/// The same of the rows.
const ROWS_FAILING: &str = "CREATE MATERIALIZED VIEW IF NOT EXISTS failing_rows ENGINE = Null AS \
                            SELECT throwIf(version > 0) AS never FROM tick_updates";
const ROWS_MENDED: &str = "DROP VIEW IF EXISTS failing_rows";

fn moments(seed: &mut Seed) -> Vec<Moment> {
    let mut moments = vec![
        Moment::At("batch-logged:7"),
        Moment::At("batch-delivered:4"),
        Moment::At("cursor-moved"),
        Moment::At("inserted-tick_updates"),
        Moment::At("inserted-tick_updates:3"),
        Moment::At("restored"),
        Moment::View,
        Moment::Engine(seed.millis(300, 1_200)),
    ];
    moments.extend((0..5).map(|_| Moment::After(seed.millis(200, 2_000))));
    let mut moments = seed.shuffled(moments);
    // The first one leaves tables behind, which a view needs; the last comes when there are poisoned batches.
    moments.insert(0, Moment::At("batch-logged"));
    moments.push(Moment::At("batch-buried"));
    moments
}

/// Messages that can never be taken: their attributes and data.
fn poisoned(chain: &Chain) -> Vec<(BTreeMap<String, String>, Vec<u8>)> {
    let good = &chain.batches[20];
    let (height, previous) = (good.name.height, good.name.previous);
    let attributes = |batch: &GeneratedBatch| header(batch, Encoding::Identity).attributes().into_iter().collect();
    let with = |change: &dyn Fn(&mut BTreeMap<String, String>)| {
        let mut attributes: BTreeMap<String, String> = attributes(good);
        change(&mut attributes);
        (attributes, good.content.clone())
    };
    // 2^256 units, and one digit more than any number has.
    let beyond = ["115792089237316195423570985008687907853269984665640564039457584007913129639936", &"9".repeat(100)];
    let mut poisoned = vec![
        with(&|attributes| drop(attributes.insert("batch_id".to_owned(), "0".repeat(64)))),
        with(&|attributes| drop(attributes.remove("batch_id"))),
        with(&|attributes| drop(attributes.insert("stream".to_owned(), "another".to_owned()))),
        with(&|attributes| drop(attributes.insert("encoding".to_owned(), "zstd".to_owned()))),
        with(&|attributes| drop(attributes.insert("height".to_owned(), (height + 100_000).to_string()))),
    ];
    poisoned.extend(beyond.map(|reserves| {
        let batch = by_hand(height, previous, reserves);
        (attributes(&batch), batch.content)
    }));
    poisoned
}

/// What a store holds of a stream, and in which table: each row as text.
fn rows(data_dir: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let seq = "bitAnd(version, 18446744073709551615) AS seq";
    let tick = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero";
    let steps = "price_exponent, quantity_exponent, updated_at";
    let raw = "venue, stream, height, previous_height, kind, batch_id, payload, updated_at";
    let query = format!(
        "SELECT 'tick_state' AS what, toString(tuple({tick}, {steps}, {seq})) AS row FROM tick_state FINAL \
         UNION ALL SELECT 'tick_updates', toString(tuple({tick}, {steps}, {seq}, whole, raw_id)) FROM tick_updates \
         UNION ALL SELECT 'versions', toString(tuple(symbol, {seq})) FROM instrument_version FINAL \
         UNION ALL SELECT 'raw_events', hex(SHA256(toString(tuple({raw})))) FROM raw_events"
    );
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in ask(data_dir, &query)? {
        let text = |name: &str| row[name].as_str().map(ToOwned::to_owned).context("no text");
        tables.entry(text("what")?).or_default().push(text("row")?);
    }
    tables.values_mut().for_each(|rows| rows.sort_unstable());
    Ok(tables)
}

/// A run that takes everything in order and once.
fn clean(chain: &Chain, data_dir: &Path) -> Result<(Stage, Server)> {
    let stage = Stage::new()?;
    let server = stage.start(data_dir)?;
    stage.publish(&chain.batches)?;
    stage.drained()?;
    durable(&server, chain.height(BLOCKS - 1))?;
    Ok((stage, server))
}

/// Kills servers, each with some more batches before it; gives how many were killed.
fn kill_all(stage: &Stage, chain: &Chain, seed: &mut Seed, data_dir: &Path, port: u16) -> Result<u32> {
    let mut kills = 0;
    let mut poisoned = poisoned(chain);
    let moments = moments(seed);
    ensure!(moments.len() == STARTS, "{} moments", moments.len());
    for (at, moment) in moments.into_iter().enumerate() {
        let (from, through) = (at.saturating_sub(AGAIN) * WINDOW, (at + 1) * WINDOW);
        stage.publish(seed.shuffled(chain.batches[from..through].iter().collect()))?;
        let poison =
            if at == STARTS - 1 { std::mem::take(&mut poisoned) } else { poisoned.pop().into_iter().collect() };
        poison.iter().try_for_each(|(attributes, data)| stage.message(attributes, data))?;
        stage.emulator.shuffle((at % 2 == 1).then_some(u64::try_from(at)?));
        match at % 4 {
            0 => stage.emulator.duplicate_next(9),
            1 => stage.emulator.corrupt_next(2),
            2 => stage.emulator.fail_next(pubsub_emulator::Method::Acknowledge, pubsub_emulator::Code::Unavailable, 2),
            _ => stage.emulator.reset_streams(),
        }
        let killed = dies(&stage.launch(data_dir, port), data_dir, moment).with_context(|| format!("{moment:?}"))?;
        println!("{at}: {moment:?} {killed}, backlog {:?}", stage.emulator.backlog(super::stage::SUBSCRIPTION));
        kills += u32::from(killed);
    }
    Ok(kills)
}

const RETRIES: &str = "sprag_store_events_total{event=\"retries\"}";

/// Lets the store refuse inserts while batches come; nothing is acknowledged meanwhile that is not logged.
fn refused_for_a_while(stage: &Stage, server: &Server, data_dir: &Path, batches: &[GeneratedBatch]) -> Result<()> {
    let (log, rows) = batches.split_at(batches.len() / 2);
    sql(data_dir, LOG_FAILING)?;
    let failures = server.metric(&event("store_failures"))?;
    stage.publish(log)?;
    server.await_metric(&event("store_failures"), failures + 2)?;
    sql(data_dir, LOG_MENDED)?;
    sql(data_dir, ROWS_FAILING)?;
    let retries = server.metric(RETRIES)?;
    stage.publish(rows)?;
    server.await_metric(RETRIES, retries + 1)?;
    sql(data_dir, ROWS_MENDED)
}

fn letters(data_dir: &Path) -> Result<BTreeSet<String>> {
    let rows = ask(data_dir, "SELECT id FROM dead_letters FINAL")?;
    Ok(rows.iter().filter_map(|row| row["id"].as_str().map(ToOwned::to_owned)).collect())
}

/// Both stores hold the same, and each thing once.
fn compare(clean: &Path, broken: &Path) -> Result<()> {
    let (left, right) = (rows(clean)?, rows(broken)?);
    for (table, left) in &left {
        let right = right.get(table).map(Vec::as_slice).unwrap_or_default();
        let differs = left.iter().zip(right).find(|(left, right)| left != right);
        ensure!(
            left.len() == right.len() && differs.is_none(),
            "{table}: {} rows and {}, {differs:?}",
            left.len(),
            right.len()
        );
    }
    ensure!(left.len() == 4 && left["raw_events"].len() == BLOCKS, "{:?}", left.keys());
    for (what, query) in [
        (
            "a doubled row",
            "SELECT count() - uniqExact(symbol, asset_in, tick_index, fee, tranche_key, version, whole) FROM tick_updates",
        ),
        ("a doubled batch", "SELECT count() - uniqExact(height) FROM raw_events"),
    ] {
        ensure!(number(broken, query)? == 0, "{what}");
    }
    Ok(())
}

#[test]
fn a_subscriber_killed_at_seeded_moments_ends_like_one_that_was_not() -> Result<()> {
    let mut seed = Seed::named(SEED);
    let chain = Chain::of(options(seed.below(1 << 32)), BLOCKS);
    let (clean_data, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let port = free_port()?;
    let stage = Stage::new()?;
    let url = format!("ws://127.0.0.1:{port}/v1/stream");
    let watchers = Watchers::start(&stage.runtime, &url, RECEIVERS, Some(&chain.truth))?;
    let kills = kill_all(&stage, &chain, &mut seed, data.path(), port)?;

    stage.emulator.shuffle(None);
    let server = stage.launch(data.path(), port).spawn()?.up()?;
    let rest = &chain.batches[STARTS * WINDOW..];
    let (refused, rest) = rest.split_at(rest.len() / 2);
    refused_for_a_while(&stage, &server, data.path(), refused)?;
    stage.publish(rest)?;
    // The server ends before what it talks to.
    let (_clean_stage, clean_server) = clean(&chain, clean_data.path())?;
    stage.drained().with_context(|| server.log())?;
    durable(&server, chain.height(BLOCKS - 1))?;

    let right = chain.after(BLOCKS - 1);
    stage.shown_hearing(&watchers, &right, FeedState::Live, &chain.batches[BLOCKS - 1])?;
    told(&server, &right)?;
    told(&clean_server, &right)?;
    kept(data.path(), &right)?;
    kept(clean_data.path(), &right)?;
    compare(clean_data.path(), data.path())?;
    let dead: BTreeSet<_> = poisoned(&chain)
        .iter()
        .map(|(attributes, data)| {
            let stream = attributes.get("stream").map_or(STREAM, String::as_str);
            dead_letter_id(Venue::NeutronDex, stream, attributes, data).to_string()
        })
        .collect();
    let reasons: Vec<Value> = ask(data.path(), "SELECT height, reason FROM dead_letters FINAL")?;
    assert_eq!(letters(data.path())?, dead, "{reasons:?}");
    assert_eq!(letters(clean_data.path())?, BTreeSet::new());

    let seen = watchers.end(&stage.runtime);
    let (counts, faults) = (stage.emulator.deliveries(super::stage::SUBSCRIPTION).unwrap(), stage.emulator.counts());
    println!("{kills} kills, {} books shown, {} reconnects; {counts:?} {faults:?}", seen.shown, seen.reconnects);
    assert!(kills >= 10, "only {kills} of the moments found the process alive");
    assert!(counts.expired > 0 && counts.nacked > 0, "{counts:?}");
    assert_eq!(seen.broken, Vec::<String>::new());
    Ok(())
}
