//! A subscriber that goes: nothing of what it had in hand is lost, and another one has it at once. What comes again
//! changes nothing.
//!
//! Never: a measure of the machine's speed.

use super::{
    chain::{Chain, options},
    stage::{SUBSCRIPTION, Stage, durable, event, kept, number, told},
    watchers::Watchers,
};
use crate::kills::sql;
use anyhow::Result;
use market::FeedState;
use sprag_tests::process::free_port;

const LOG_FAILING: &str = "CREATE MATERIALIZED VIEW IF NOT EXISTS failing_log ENGINE = Null AS \
                           SELECT throwIf(height > 0) AS never FROM raw_events";
const LOG_MENDED: &str = "DROP VIEW IF EXISTS failing_log";

/// Batches are leased while the log refuses them; an orderly end gives all of them back before the process is gone.
#[test]
fn what_is_leased_at_an_orderly_end_is_free_when_the_process_is_gone() -> Result<()> {
    const LEASED: usize = 300;
    let chain = Chain::of(options(41), LEASED + 2);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let launch = stage.launch(data.path(), 0).with(&["--set", "pubsub.outstanding_messages=5000"]);
    let server = launch.spawn()?.up()?;
    stage.publish(&chain.batches[..2])?;
    durable(&server, chain.height(1))?;
    stage.drained()?;
    sql(data.path(), LOG_FAILING)?;
    stage.publish(&chain.batches[2..])?;
    server.await_metric(&event("messages"), u64::try_from(LEASED + 2)?)?;
    let before = stage.emulator.deliveries(SUBSCRIPTION).unwrap();
    assert!(server.terminate()?.success());
    // Whoever asks next has them at once: no lease has to end first. A failing view may leave the batch itself in the log;
    // those and no others are acknowledged.
    let (free, leased) = stage.emulator.backlog(SUBSCRIPTION).unwrap();
    let logged = number(data.path(), "SELECT uniqExact(height) FROM raw_events")?;
    println!("{free} free, {leased} leased, {logged} in the log");
    assert_eq!(leased, 0);
    assert!(free > 0 && u64::try_from(LEASED + 2 - free)? <= logged, "{free} free, {logged} in the log");
    let gone = stage.emulator.deliveries(SUBSCRIPTION).unwrap();
    assert_eq!(gone.expired, before.expired, "{gone:?}");
    assert!(gone.delivered - before.delivered <= u64::try_from(LEASED)?, "each comes once more at the most: {gone:?}");
    sql(data.path(), LOG_MENDED)?;

    let server = launch.spawn()?.up()?;
    let last = LEASED + 1;
    durable(&server, chain.height(last))?;
    stage.drained()?;
    told(&server, &chain.after(last))?;
    kept(data.path(), &chain.after(last))?;
    let after = stage.emulator.deliveries(SUBSCRIPTION).unwrap();
    assert!(after.delivered - gone.delivered <= u64::try_from(LEASED)?, "{after:?}");
    Ok(())
}

#[test]
fn the_same_batch_again_changes_nothing_also_after_a_restart() -> Result<()> {
    let chain = Chain::of(options(42), 6);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let launch = stage.launch(data.path(), free_port()?);
    let server = launch.spawn()?.up()?;
    let watchers = Watchers::start(&stage.runtime, &server.stream_url(), 2, Some(&chain.truth))?;
    stage.publish(&chain.batches)?;
    stage.shown(&watchers, &chain.after(5), FeedState::Live)?;
    durable(&server, chain.height(5))?;
    stage.drained()?;
    let rows = |data: &std::path::Path| -> Result<[u64; 2]> {
        Ok([number(data, "SELECT count() FROM tick_updates")?, number(data, "SELECT count() FROM raw_events")?])
    };
    let (kept_rows, shown) = (rows(data.path())?, watchers.shown());

    stage.publish(&chain.batches)?;
    server.await_metric(&event("duplicates"), 6)?;
    stage.drained()?;
    assert_eq!(rows(data.path())?, kept_rows);
    server.kill()?;

    let server = launch.spawn()?.up()?;
    told(&server, &chain.after(5))?;
    stage.publish(&chain.batches)?;
    server.await_metric(&event("duplicates"), 6)?;
    stage.shown_hearing(&watchers, &chain.after(5), FeedState::Live, &chain.batches[5])?;
    stage.drained()?;
    assert_eq!(rows(data.path())?, kept_rows);
    // A restart shows each book anew at the cursor's version, once to each receiver; the copies show nothing.
    let more = watchers.shown() - shown;
    assert!(more <= 2 * 3, "{more} books more, {:?}", watchers.versions());
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());
    Ok(())
}

/// The block's time comes to the store and back to the last nanosecond.
#[test]
fn the_time_of_a_block_is_kept_to_the_nanosecond() -> Result<()> {
    let mut chain = Chain::of(options(43), 3);
    for (batch, nanoseconds) in chain.batches.iter_mut().zip([345_678_901, 1, 999_999_999]) {
        batch.block_time_ns = batch.block_time_ns / 1_000_000_000 * 1_000_000_000 + nanoseconds;
    }
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    stage.publish(&chain.batches)?;
    durable(&server, chain.height(2))?;
    for batch in &chain.batches {
        let height = batch.name.height;
        for query in [
            format!(
                "SELECT any(toUnixTimestamp64Nano(updated_at)) FROM tick_updates WHERE raw_id LIKE '%/{height}/%' \
                 HAVING uniqExact(updated_at) = 1"
            ),
            format!("SELECT toUnixTimestamp64Nano(updated_at) FROM raw_events WHERE height = {height}"),
        ] {
            assert_eq!(number(data.path(), &query)?, batch.block_time_ns, "{query}");
        }
    }
    Ok(())
}
