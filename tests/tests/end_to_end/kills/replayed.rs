//! A replay into a store, killed again and again and begun anew each time.
//!
//! Never: a comparison with anything but a replay that nobody killed.

use super::{Moment, Seed, dies};
use crate::books::ask;
use anyhow::{Context, Result};
use serde_json::Value;
use sprag_tests::{
    corpus,
    process::{self, Launch},
};
use std::path::Path;

const CAPTURE: &str = "binance_spot/binance_spot_2021-04.frames.jsonl.zst";
const SEED: u64 = 20_210_416;

fn replay(capture: &Path, data_dir: &Path) -> Launch {
    // Small batches, so that there is something between any two moments.
    let settings = ["--set", "store.batch_rows=150", "--set", "store.raw_venue_messages=true"];
    let launch = Launch::default().with(&["replay", "--venue", "binance_spot", "--store"]).with(&settings);
    launch.with(&["--data-dir"]).with_path(data_dir).with(&["--out", "/dev/null"]).with_path(capture)
}

/// Everything that the store holds.
fn content(data_dir: &Path) -> Result<Vec<Value>> {
    let query = "SELECT 'updates' AS what, toString(tuple(*)) AS row FROM tick_updates \
                 UNION ALL SELECT 'state', toString(tuple(*)) FROM tick_state FINAL \
                 UNION ALL SELECT 'trade', toString(tuple(*)) FROM trades FINAL \
                 UNION ALL SELECT 'raw', toString(tuple(*)) FROM raw_events \
                 UNION ALL SELECT 'whole', toString(tuple(*)) FROM book_snapshots FINAL \
                 UNION ALL SELECT 'version', toString(tuple(*)) FROM instrument_version FINAL";
    let mut rows = ask(data_dir, query)?;
    // Parts of a union come in any order.
    rows.sort_by_cached_key(Value::to_string);
    Ok(rows)
}

#[test]
fn a_replay_killed_at_seeded_moments_ends_with_the_store_of_one_that_was_not() -> Result<()> {
    let Some(capture) = corpus::file(CAPTURE) else {
        println!("corpus absent: skipped {CAPTURE} (set {} to its directory)", corpus::VARIABLE);
        return Ok(());
    };
    let (steady, broken) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let finish = |data_dir: &Path| -> Result<()> {
        let mut started = replay(&capture, data_dir).spawn()?;
        let log = started.log();
        let status = started.ended_within(process::PATIENCE)?.with_context(|| format!("no end: {log}"))?;
        anyhow::ensure!(status.success(), "{status}: {}", started.log());
        Ok(())
    };
    finish(steady.path())?;
    let mut seed = Seed::named(SEED);
    let mut moments = vec![
        Moment::At("epoch-reserved"),
        Moment::At("inserted-raw_events:2"),
        Moment::At("inserted-tick_updates"),
        Moment::At("inserted-tick_updates:5"),
        Moment::At("inserted-trades"),
        Moment::View,
    ];
    moments.extend((0..3).map(|_| Moment::Engine(seed.millis(0, 400))));
    moments.extend((0..20).map(|_| Moment::After(seed.millis(50, 900))));
    let mut kills = 0;
    // A capture reserves its epochs once, so that moment comes only in the first replay.
    let first = std::iter::once(Moment::At("epoch-written"));
    for moment in first.chain(seed.shuffled(moments)) {
        let killed = dies(&replay(&capture, broken.path()), broken.path(), moment)?;
        kills += u32::from(killed);
    }
    finish(broken.path())?;
    println!("{kills} kills");
    assert!(kills >= 20, "only {kills} of the moments found the process alive");
    let (left, right) = (content(steady.path())?, content(broken.path())?);
    for kind in ["updates", "state", "trade", "raw", "whole", "version"] {
        let of = |rows: &[Value]| rows.iter().filter(|row| row["what"] == kind).cloned().collect::<Vec<_>>();
        let (left, right) = (of(&left), of(&right));
        assert!(!left.is_empty(), "no rows of {kind}");
        let differs = left.iter().zip(&right).find(|(left, right)| left != right);
        assert!(
            left.len() == right.len() && differs.is_none(),
            "{kind}: {} and {}, {differs:?}",
            left.len(),
            right.len()
        );
    }
    Ok(())
}
