//! `sprag replay --store`: the store ends at the reference's book, a second time changes nothing, and what another
//! capture left does not show through.
//!
//! Never: a comparison of the store with what Sprag itself says.

use crate::books::{ask, asked, of_reference};
use anyhow::{Context, Result, ensure};
use market::Venue;
use serde_json::Value;
use sprag_tests::{
    corpus, process,
    reference::{self, FinalBook},
};
use std::{collections::BTreeMap, fs, path::Path};

const BINANCE: &str = "binance_spot/binance_spot_2021-04.frames.jsonl.zst";
const KRAKEN: &str = "kraken_v2/kraken_v2_btcusd_sample.frames.jsonl.zst";
const KRAKEN_OTHER: &str = "kraken_v2/kraken_v2_btcusd_l2.frames.jsonl.zst";

fn replay(capture: &Path, venue: Venue, data_dir: &Path) -> Result<String> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path that is not text");
    let out = text(&data_dir.join("events.jsonl"))?;
    let (capture, data) = (text(capture)?, text(data_dir)?);
    let arguments = ["replay", &capture, "--venue", venue.name(), "--store", "--data-dir", &data, "--out", &out];
    let output = process::output(arguments)?;
    ensure!(output.status.success() && output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(fs::read_to_string(out)?)
}

fn books_of(capture: &Path) -> Result<BTreeMap<String, FinalBook>> {
    Ok(reference::rebuild(corpus::format_of(capture), capture)?.books)
}

fn check_books(data_dir: &Path, books: &BTreeMap<String, FinalBook>) -> Result<()> {
    ensure!(!books.is_empty(), "no book to compare with");
    let stored = asked(data_dir)?;
    assert!(stored.keys().eq(books.keys()), "{:?}", stored.keys());
    for (symbol, book) in books {
        // Not `assert_eq`: thousands of levels would bury the reason.
        assert!(stored[symbol] == of_reference(book), "{symbol}: the store differs from the reference");
    }
    Ok(())
}

/// What a second replay must leave as it is; one query, since each starts the engine.
fn content(data_dir: &Path) -> Result<Vec<Value>> {
    let query = "SELECT 'updates' AS what, toString(count()) AS row FROM tick_updates \
                 UNION ALL SELECT 'state', toString(tuple(*)) FROM tick_state FINAL \
                 UNION ALL SELECT 'trade', toString(tuple(*)) FROM trades FINAL \
                 UNION ALL SELECT 'version', toString(tuple(*)) FROM instrument_version FINAL";
    let mut rows = ask(data_dir, query)?;
    // Parts of a union come in any order.
    rows.sort_by_cached_key(Value::to_string);
    Ok(rows)
}

fn idempotent(name: &str, venue: Venue, has_trades: bool) -> Result<()> {
    let Some(capture) = corpus::file(name) else {
        println!("corpus absent: skipped {name} (set {} to its directory)", corpus::VARIABLE);
        return Ok(());
    };
    let data = tempfile::tempdir()?;
    let lines = replay(&capture, venue, data.path())?;
    check_books(data.path(), &books_of(&capture)?)?;
    let first = content(data.path())?;
    let count = |what: &str| first.iter().filter(|row| row["what"] == what).count();
    assert!(count("state") > 20 && count("version") > 0);
    assert_eq!(count("trade") > 0, has_trades);
    let again = replay(&capture, venue, data.path())?;
    assert!(lines == again, "the lines of a second replay differ");
    assert!(first == content(data.path())?, "a second replay changed the store");
    Ok(())
}

#[test]
fn a_binance_replay_is_right_and_a_second_one_changes_nothing() -> Result<()> {
    idempotent(BINANCE, Venue::BinanceSpot, true)
}

#[test]
fn a_kraken_replay_is_right_and_a_second_one_changes_nothing() -> Result<()> {
    idempotent(KRAKEN, Venue::KrakenSpot, false)
}

/// 25 levels of another day are there before ten levels of this one come.
#[test]
fn a_later_capture_of_an_instrument_leaves_nothing_of_an_earlier_one() -> Result<()> {
    let (Some(earlier), Some(later)) = (corpus::file(KRAKEN), corpus::file(KRAKEN_OTHER)) else {
        println!("corpus absent: skipped {KRAKEN} (set {} to its directory)", corpus::VARIABLE);
        return Ok(());
    };
    let data = tempfile::tempdir()?;
    replay(&earlier, Venue::KrakenSpot, data.path())?;
    check_books(data.path(), &books_of(&earlier)?)?;
    replay(&later, Venue::KrakenSpot, data.path())?;
    let books = books_of(&later)?;
    assert_eq!(books["BTC/USD"].bids.len(), 10);
    check_books(data.path(), &books)
}
