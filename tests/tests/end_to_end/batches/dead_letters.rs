//! Batches that cannot be taken: kept with their reason, and tried again when an operator says so.
//!
//! Never: a letter that holds up what is good.

use super::{
    chain::{Chain, options},
    stage::{STREAM, SUBSCRIPTION, Stage, asks, durable, event, header, kept, says, state, told},
};
use anyhow::{Context, Result};
use connectors::pubsub::header::Encoding;
use market::FeedState;
use serde_json::Value;
use sprag_tests::process;
use std::{collections::BTreeMap, path::Path};

fn letters(data_dir: &Path) -> Result<Vec<Value>> {
    Ok(asks(data_dir, &["dlq", "list"])?.as_array().context("no list")?.clone())
}

fn await_letters(data_dir: &Path, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
    let found = process::until(what, || Ok(Some(letters(data_dir)?).filter(|letters| wanted(letters))));
    found.with_context(|| format!("{:?}", letters(data_dir)))
}

#[test]
fn a_poisoned_batch_leaves_a_hole_that_the_right_one_fills() -> Result<()> {
    let chain = Chain::of(options(31), 8);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    let watchers = stage.watch(&server, 1)?;
    stage.publish(&chain.batches[..3])?;
    stage.shown(&watchers, &chain.after(2), FeedState::Live)?;

    let bad: BTreeMap<_, _> = header(&chain.batches[3], Encoding::Identity).attributes().into_iter().collect();
    stage.message(&bad, br#"{"height":"1","txs_results":null}"#)?;
    stage.publish(&chain.batches[4..])?;
    stage.shown(&watchers, &chain.after(2), FeedState::Gapped)?;
    let found = await_letters(data.path(), "a dead letter", |letters| letters.len() == 1)?;
    let (letter, id) = (&found[0], found[0]["id"].as_str().context("no id")?);
    assert_eq!(
        (&letter["state"], &letter["height"], &letter["attempts"]),
        (&"dead".into(), &chain.height(3).into(), &3.into())
    );
    let reason = letter["reason"].as_str().context("no reason")?;
    assert!(reason.contains("digest"), "{reason}");
    let shown = says(data.path(), &["dlq", "show", id.get(..12).context("a short id")?])?;
    assert!(shown.contains(reason) && shown.contains(r#"{"height":"1","t"#), "{shown}");
    assert_eq!(says(data.path(), &["dlq", "show", id, "--payload", "-"])?, r#"{"height":"1","txs_results":null}"#);

    stage.publish(&chain.batches[3..4])?;
    stage.shown(&watchers, &chain.after(7), FeedState::Live)?;
    stage.drained()?;
    assert_eq!(letters(data.path())?.len(), 1, "the letter stays on record");
    Ok(())
}

#[test]
fn a_letter_that_is_still_bad_stays_dead_with_one_more_attempt() -> Result<()> {
    let chain = Chain::of(options(32), 4);
    let other = Chain::of(options(33), 4);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    stage.publish(&chain.batches)?;
    durable(&server, chain.height(3))?;
    // Another batch at a height that is taken; the first heights of both chains are the same.
    assert_eq!(chain.height(0), other.height(0));
    stage.publish(&other.batches[..1])?;
    let found = await_letters(data.path(), "a dead letter", |letters| letters.len() == 1)?;
    assert!(found[0]["reason"].as_str().is_some_and(|reason| reason.contains("another batch is known")), "{found:?}");
    assert_eq!(found[0]["attempts"], 3);
    stage.drained()?;
    for attempts in [4, 5] {
        says(data.path(), &["dlq", "replay", found[0]["id"].as_str().context("no id")?])?;
        let again = |letters: &[Value]| letters[0]["attempts"] == attempts && letters[0]["state"] == "dead";
        assert_eq!(await_letters(data.path(), "another attempt", again)?.len(), 1);
    }
    told(&server, &chain.after(3))?;
    assert_eq!(server.metric(&state("position"))?, chain.height(3));
    Ok(())
}

/// The server was told a wrong name of the stream; what it buried meanwhile is good.
#[test]
fn letters_that_have_become_good_are_taken_when_they_are_replayed() -> Result<()> {
    let chain = Chain::of(options(34), 8);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    stage.publish(&chain.batches[..2])?;
    durable(&server, chain.height(1))?;
    assert!(server.terminate()?.success());

    let server = stage.launch_of(data.path(), 0, SUBSCRIPTION, "neutron-2").spawn()?.up()?;
    stage.publish(&chain.batches[2..5])?;
    let found = await_letters(data.path(), "dead letters", |letters| letters.len() == 3)?;
    assert!(found.iter().all(|letter| letter["reason"].as_str().is_some_and(|reason| reason.contains("stream"))));
    stage.drained()?;
    assert!(server.terminate()?.success());

    let server = stage.launch_of(data.path(), 0, SUBSCRIPTION, STREAM).spawn()?.up()?;
    let watchers = stage.watch(&server, 1)?;
    stage.publish(&chain.batches[5..])?;
    stage.shown_hearing(&watchers, &chain.after(1), FeedState::Gapped, &chain.batches[7])?;
    let told_of = says(data.path(), &["dlq", "replay", "--all"])?;
    assert_eq!(told_of.lines().count(), 3, "{told_of}");
    stage.shown_hearing(&watchers, &chain.after(7), FeedState::Live, &chain.batches[7])?;
    let replayed = |letters: &[Value]| letters.iter().all(|letter| letter["state"] == "replayed");
    assert_eq!(await_letters(data.path(), "all are replayed", replayed)?.len(), 3);
    assert_eq!(server.metric(&event("dead_letters"))?, 0);
    kept(data.path(), &chain.after(7))?;
    Ok(())
}
