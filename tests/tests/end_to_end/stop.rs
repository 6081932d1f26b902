//! SIGTERM in the middle of a load that the store cannot keep up with: at an orderly end all that was shown is in the store,
//! or the store says that it is not.
//!
//! Never: a look at counters of a process that is gone; the store itself is counted.

use crate::{
    books::{ask, frames},
    watcher::{Watcher, all_of},
};
use anyhow::{Context, Result};
use receiver::ReceiverError;
use sprag_tests::{corpus, process::Server};
use std::collections::BTreeSet;
use wire::Channel;

const CAPTURE: &str = "binance_spot/binance_spot_btcusdt_2024-08-08.frames.jsonl.zst";
/// Changes that the history lacks already when the signal comes.
const LEFT_OUT_MIN: u64 = 1_000;
const NAME: &str = "binance_spot/BTCUSDT";

/// Ids of the depth events with a change, by the capture's text alone.
fn changing_ids(frames: &[(u64, String)]) -> Result<BTreeSet<u64>> {
    let mut ids = BTreeSet::new();
    for (_, text) in frames.iter().filter(|(_, text)| text.contains(r#""depthUpdate""#)) {
        let event: serde_json::Value = serde_json::from_str(text)?;
        let data = &event["data"];
        let empty = |side: &str| data[side].as_array().is_none_or(Vec::is_empty);
        if !(empty("b") && empty("a")) {
            ids.insert(data["u"].as_u64().context("no id")?);
        }
    }
    Ok(ids)
}

#[tokio::test]
async fn sigterm_under_load_leaves_all_that_was_shown_in_the_store_or_on_record() -> Result<()> {
    let Some(capture) = corpus::file(CAPTURE) else {
        println!("corpus absent: skipped {CAPTURE} (set {} to its directory)", corpus::VARIABLE);
        return Ok(());
    };
    let ids = changing_ids(&frames(&capture)?)?;
    let data = tempfile::tempdir()?;
    let file = capture.to_str().context("a path that is not text")?;
    let arguments = ["--capture", file, "--venue", "binance_spot", "--speed", "0"];
    // A store that takes little at once, so that it is behind when the signal comes; little under way, so that it ends
    // soon.
    let slow = [
        "store.batch_rows=2000",
        "store.batch_bytes=262144",
        "store.pending_bytes=262144",
        "pipeline.in_flight_bytes=4194304",
        "server.drain_ms=250",
    ];
    let slow: Vec<&str> = slow.into_iter().flat_map(|setting| ["--set", setting]).collect();
    let server = Server::start(data.path(), &[&arguments[..], &slow].concat())?;
    let mut watcher = Watcher::new(&server.stream_url(), &all_of(&[Channel::Book]))?;
    watcher.until("a book", |watcher| watcher.shown(NAME).is_some()).await?;
    let ended = tokio::task::spawn_blocking(move || {
        server.await_metric(r#"sprag_store_events_total{event="changes_left_out"}"#, LEFT_OUT_MIN)?;
        assert_eq!(server.metric(r#"sprag_store_events_total{event="source_waits"}"#)?, 0);
        server.terminate()
    });
    let broke = watcher.follow().await?;
    assert!(ended.await??.success(), "an orderly end");
    assert!(matches!(broke, ReceiverError::Busy { .. }), "told when to come back: {broke}");

    let shown = watcher.shown(NAME).context("nothing shown")?;
    let rows = ask(data.path(), "SELECT DISTINCT toString(version) AS version FROM tick_updates ORDER BY version")?;
    let stored: BTreeSet<u128> =
        rows.iter().map(|row| row["version"].as_str().unwrap().parse()).collect::<Result<_, _>>()?;
    let last = *stored.last().context("nothing stored")?;
    let first = *stored.first().context("nothing stored")?;
    println!("{} versions stored, shown up to {shown}", stored.len());
    assert!(last >= shown.to_u128(), "shown: {shown}, stored: {last}");
    let gaps = ask(
        data.path(),
        "SELECT toString(after) AS after, toString(through) AS through FROM history_gaps WHERE reason = 'store_behind'",
    )?;
    let number = |value: &serde_json::Value| -> Result<u128> { Ok(value.as_str().context("no text")?.parse()?) };
    let gaps = gaps.iter().map(|gap| Ok((number(&gap["after"])?, number(&gap["through"])?)));
    let gaps = gaps.collect::<Result<Vec<_>>>()?;
    let told = |id: u128| gaps.iter().any(|(after, through)| *after < id && id <= *through);
    let missing = ids.iter().map(|id| u128::from(*id)).filter(|id| first < *id && *id <= last && !stored.contains(id));
    let (told, untold): (Vec<_>, Vec<_>) = missing.partition(|id| told(*id));
    println!("{} versions left out in {} gaps", told.len(), gaps.len());
    assert_eq!(untold, [], "a hole in the store that nothing tells of");
    Ok(())
}
