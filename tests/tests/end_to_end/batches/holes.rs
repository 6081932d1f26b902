//! Missing batches: marked with their age, waited for in the log, healed by themselves; accepted as lost, and right again
//! once the late ones or a snapshot come.
//!
//! Never: a book shown over a hole that nobody accepted.

use super::{
    chain::{BEFORE, Chain, options},
    stage::{STREAM, SUBSCRIPTION, Stage, asks, durable, event, feed, kept, number, says, state, told},
    watchers::Watchers,
};
use anyhow::{Context, Result};
use market::FeedState;
use sprag_tests::process::{self, Launch, Server, free_port};
use std::path::Path;

const RECEIVERS: usize = 2;

/// The gaps on record: last height before it, last of it, state.
fn gaps(data_dir: &Path) -> Result<Vec<(u64, u64, String)>> {
    let listed = asks(data_dir, &["gaps", "list", "--all"])?;
    let rows = listed.as_array().context("no list")?.clone();
    let gap = |row: &serde_json::Value| {
        let height = |name: &str| row[name].as_u64().context("no height");
        Ok((height("after")?, height("through")?, row["state"].as_str().unwrap_or_default().to_owned()))
    };
    rows.iter().map(gap).collect()
}

fn await_gap(data_dir: &Path, after: u64, through: u64, state: &str) -> Result<()> {
    let wanted = (after, through, state.to_owned());
    process::until(&format!("a gap {wanted:?}"), || Ok(gaps(data_dir)?.contains(&wanted).then_some(())))
        .with_context(|| format!("{:?}", gaps(data_dir)))
}

fn accept(data_dir: &Path, after: u64, through: u64) -> Result<()> {
    let heights = [after, through].map(|height| height.to_string());
    let arguments =
        ["gaps", "accept", &heights[0], &heights[1], "--note", "the publisher lost it", "--operator", "ann"];
    says(data_dir, &arguments).map(drop)
}

#[test]
fn a_hole_is_marked_with_its_age_and_heals_by_itself() -> Result<()> {
    let chain = Chain::of(options(21), 12);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    let watchers = Watchers::start(&stage.runtime, &server.stream_url(), RECEIVERS, Some(&chain.truth))?;
    stage.publish(&chain.batches[..6])?;
    stage.shown(&watchers, &chain.after(5), FeedState::Live)?;

    stage.publish(&chain.batches[7..])?;
    stage.shown(&watchers, &chain.after(5), FeedState::Gapped)?;
    await_gap(data.path(), chain.height(5), chain.height(6), "open")?;
    // What is behind the hole is safe, and shows nothing.
    stage.drained()?;
    assert_eq!(number(data.path(), "SELECT count() FROM raw_events")?, 11);
    assert_eq!(server.metric(&state("waiting"))?, 5);
    let name = chain.after(5).keys().next().cloned().context("no instrument")?;
    let (marked, early_ms) = feed(&server, &name)?;
    assert_eq!(marked, "GAPPED");
    process::until("an age that rises", || Ok((feed(&server, &name)?.1 > early_ms + 300).then_some(())))?;
    process::until("an age on receivers", || Ok((watchers.least_age_ms() > 300).then_some(())))?;
    told(&server, &chain.after(5))?;

    stage.publish(&chain.batches[6..7])?;
    stage.shown(&watchers, &chain.after(11), FeedState::Live)?;
    await_gap(data.path(), chain.height(5), chain.height(6), "filled")?;
    kept(data.path(), &chain.after(11))?;
    assert_eq!(server.metric(&event("holes"))?, 1);
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());
    Ok(())
}

/// A server that has gone on over a loss, and is marked.
fn lossy(stage: &Stage, chain: &Chain, launch: &Launch, data: &Path) -> Result<(Server, Watchers)> {
    let server = launch.spawn()?.up()?;
    let watchers = stage.watch(&server, RECEIVERS)?;
    stage.publish(&chain.batches[..6])?;
    stage.shown(&watchers, &chain.after(5), FeedState::Live)?;
    stage.publish(&chain.batches[7..10])?;
    await_gap(data, chain.height(5), chain.height(6), "open")?;
    accept(data, chain.height(5), chain.height(6))?;
    server.await_metric(&state("position"), chain.height(9))?;
    durable(&server, chain.height(9))?;
    let name = chain.after(9).keys().next().cloned().context("no instrument")?;
    stage.hearing("it goes on, marked", &chain.batches[9], || Ok(feed(&server, &name)?.0 == "GAPPED"))?;
    assert_eq!(server.metric(&state("lossy"))?, 1);
    Ok((server, watchers))
}

/// The late batch came, and everything is right again.
fn healed(stage: &Stage, chain: &Chain, server: &Server, watchers: &Watchers, data: &Path) -> Result<()> {
    stage.shown_hearing(watchers, &chain.after(9), FeedState::Live, &chain.batches[9])?;
    told(server, &chain.after(9))?;
    await_gap(data, chain.height(5), chain.height(6), "healed")?;
    assert_eq!(server.metric(&state("lossy"))?, 0);
    kept(data, &chain.after(9))?;
    // And it goes on.
    stage.publish(&chain.batches[10..])?;
    let last = chain.batches.len() - 1;
    stage.shown(watchers, &chain.after(last), FeedState::Live)?;
    durable(server, chain.height(last))?;
    kept(data, &chain.after(last))?;
    stage.drained()
}

#[test]
fn an_accepted_loss_is_rebuilt_when_the_late_batch_comes() -> Result<()> {
    let chain = Chain::of(options(22), 12);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let (server, watchers) = lossy(&stage, &chain, &stage.launch(data.path(), 0), data.path())?;
    let before = watchers.versions();
    stage.publish(&chain.batches[6..7])?;
    stage.shown(&watchers, &chain.after(9), FeedState::Live)?;
    // Where the loss had made a difference to what is shown at that version, the right book is of a new epoch.
    let after = watchers.versions();
    let renewed = after.iter().filter(|(name, version)| before.get(*name).is_some_and(|at| at.epoch < version.epoch));
    assert!(renewed.count() > 0, "{before:?} {after:?}");
    healed(&stage, &chain, &server, &watchers, data.path())?;
    assert_eq!(server.metric(&event("rebuilds"))?, 1);
    // The history has each event once, the late one's too, and a second copy of it changes nothing.
    stage.publish(&chain.batches[6..7])?;
    stage.drained()?;
    let doubled = "SELECT count() - uniqExact(raw_id) FROM tick_updates WHERE whole = 0";
    assert_eq!(number(data.path(), doubled)?, 0);
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());
    Ok(())
}

#[test]
fn an_accepted_loss_outlives_a_kill_and_is_rebuilt_after_it() -> Result<()> {
    let chain = Chain::of(options(23), 12);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let launch = stage.launch(data.path(), free_port()?);
    let (server, watchers) = lossy(&stage, &chain, &launch, data.path())?;
    let before = watchers.books();
    server.kill()?;
    let server = launch.spawn()?.up()?;
    let name = chain.after(9).keys().next().cloned().context("no instrument")?;
    server.await_metric(&state("lossy"), 1)?;
    // Whatever else is heard, it stays marked.
    stage.shown_hearing(&watchers, &before, FeedState::Gapped, &chain.batches[5])?;
    assert_eq!(server.metric(&state("lossy"))?, 1);
    stage.publish(&chain.batches[6..7])?;
    healed(&stage, &chain, &server, &watchers, data.path())?;
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());

    // A start finds it as it is, from the store alone.
    assert!(server.terminate()?.success());
    let checkpoint = data.path().join("checkpoint.bin");
    if checkpoint.exists() {
        std::fs::remove_file(checkpoint)?;
    }
    let server = launch.spawn()?.up()?;
    told(&server, &chain.after(11))?;
    stage.hearing("it is live", &chain.batches[11], || Ok(feed(&server, &name)?.0 == "LIVE"))?;
    assert_eq!(server.metric(&state("lossy"))?, 0);
    Ok(())
}

#[test]
fn a_snapshot_of_the_source_heals_an_accepted_loss() -> Result<()> {
    let chain = Chain::of(options(24), 12);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let (server, watchers) = lossy(&stage, &chain, &stage.launch(data.path(), 0), data.path())?;
    stage.publish(&chain.snapshots[8..9])?;
    healed(&stage, &chain, &server, &watchers, data.path())?;
    // What comes after all changes nothing that is shown.
    stage.publish(&chain.batches[6..7])?;
    stage.drained()?;
    told(&server, &chain.after(11))?;
    kept(data.path(), &chain.after(11)).context("after the late batch")?;
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_stream_can_begin_with_a_snapshot() -> Result<()> {
    let chain = Chain::of(options(25), 12);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let launch = stage.launch_of(data.path(), 0, SUBSCRIPTION, STREAM).with(&["--set", "pubsub.begin_after=0"]);
    let server = launch.spawn()?.up()?;
    let watchers = Watchers::start(&stage.runtime, &server.stream_url(), RECEIVERS, Some(&chain.truth))?;
    // Without one nobody knows what was before.
    stage.publish(&chain.batches[6..8])?;
    await_gap(data.path(), 0, chain.batches[6].name.previous, "open")?;
    assert!(chain.batches[6].name.previous > BEFORE);
    stage.publish(&chain.snapshots[5..6])?;
    stage.shown(&watchers, &chain.after(7), FeedState::Live)?;
    stage.publish(&chain.batches[8..])?;
    stage.shown(&watchers, &chain.after(11), FeedState::Live)?;
    told(&server, &chain.after(11))?;
    durable(&server, chain.height(11))?;
    kept(data.path(), &chain.after(11))?;
    stage.drained()?;
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());
    Ok(())
}
