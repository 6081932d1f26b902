//! A backup taken beside a running server, restored into a new data directory, and a server on that: books and FINAL are
//! right, and every stream goes on above what the backup knew. And `sprag sql`, by way of the listener that only reads.
//!
//! Never: two servers on one directory at one time.

use crate::{
    books::{ask, asked, of_json, over_http, version},
    market::{Market, await_books},
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sprag_tests::process::{self, Launch};
use std::{collections::BTreeMap, fs, path::Path};

const BINANCE: &str = "binance_spot/BTCUSDT";
const LIVE: &str = r#"sprag_instruments{state="LIVE"}"#;
const APPLIED: &str = r#"sprag_lane_events_total{event="applied"}"#;

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not text")
}

/// Runs a command; its exit code, its answer, and what it said on standard error.
fn run(arguments: &[&str]) -> Result<(Option<i32>, Vec<u8>, String)> {
    let output = process::output(arguments)?;
    Ok((output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The greatest epoch of every instrument.
fn epochs(data_dir: &Path) -> Result<BTreeMap<String, u64>> {
    let query = "SELECT toString(symbol) AS symbol, toString(max(bitShiftRight(version, 64))) AS epoch \
                 FROM instrument_version GROUP BY symbol";
    let of = |row: Value| {
        let field = |name: &str| row[name].as_str().map(ToOwned::to_owned).context("a text");
        Ok((field("symbol")?, field("epoch")?.parse()?))
    };
    ask(data_dir, query)?.into_iter().map(of).collect()
}

#[test]
fn a_backup_beside_a_running_server_is_a_store_to_go_on_from() -> Result<()> {
    let market = Market::start(3, 200)?;
    let place = tempfile::tempdir()?;
    let (data, copy, again) = (place.path().join("data"), place.path().join("copy"), place.path().join("again"));
    fs::create_dir(&data)?;
    let config = market.configuration(&data, &["binance_spot"], 1, "")?;
    let launch = Launch::run(&data, 0).with(&["--config"]).with_path(&config);
    let first = launch.spawn()?.up()?;
    first.await_metric(LIVE, 3)?;
    first.await_metric(APPLIED, 100)?;
    process::until("rows in the store", || {
        let found = ask(&data, "SELECT toUInt32(count()) AS c FROM tick_updates")?;
        Ok((found[0]["c"] != 0).then_some(()))
    })?;
    let (code, answer, said) = run(&["backup", "--data-dir", text(&data)?, text(&copy)?])?;
    ensure!(code == Some(0), "{said}");
    ensure!(String::from_utf8_lossy(&answer).contains("tables and views"), "{answer:?}");
    // It goes on meanwhile and after.
    let now = first.metric(APPLIED)?;
    first.await_metric(APPLIED, now + 50)?;
    assert!(first.terminate()?.success());
    let before = epochs(&data)?;

    // What is there is never written to.
    for arguments in [
        ["backup", "--data-dir", text(&data)?, text(&copy)?],
        ["restore", "--data-dir", text(&data)?, text(&copy)?],
        ["backup", "--set", "store.url=http://localhost:1", text(&again)?],
    ] {
        let (code, _, said) = run(&arguments)?;
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
    let (code, _, said) = run(&["restore", "--data-dir", text(&again)?, text(place.path())?])?;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("no whole backup") && !again.exists(), "{said}");

    let (code, _, said) = run(&["restore", "--data-dir", text(&again)?, text(&copy)?])?;
    ensure!(code == Some(0), "{said}");
    let manifest: Value = serde_json::from_slice(&fs::read(copy.join("manifest.json"))?)?;
    let updates =
        manifest["groups"].as_array().into_iter().flatten().flat_map(|group| group["tables"].as_array()).flatten();
    let updates =
        updates.clone().find(|table| table["name"] == "tick_updates").context("tick_updates in the manifest")?;
    let found = ask(&again, "SELECT toUInt32(count()) AS c FROM tick_updates")?;
    assert!(found[0]["c"] == updates["rows"] && updates["rows"].as_u64() > Some(0), "{found:?} {updates}");

    let config = market.configuration(&again, &["binance_spot"], 1, "")?;
    let second = Launch::run(&again, 0).with(&["--config"]).with_path(&config).spawn()?.up()?;
    second.await_metric(LIVE, 3)?;
    second.await_metric(APPLIED, 50)?;
    let shown = version(&over_http(&second, BINANCE)?)?;
    assert!(shown.epoch > before["BTCUSDT"], "{shown} after {before:?}");
    let mut books = market.pause()?;
    books.retain(|name, _| name.starts_with("binance_spot/"));
    await_books("a restored server", &second, &books)?;
    let right = of_json(&over_http(&second, BINANCE)?)?;
    assert!(second.terminate()?.success());
    let after = epochs(&again)?;
    assert!(before.iter().all(|(symbol, epoch)| after[symbol] > *epoch), "{after:?} after {before:?}");
    // The state as FINAL has it is the venue's book, and the one that the whole history gives.
    let books = asked(&again)?;
    assert_eq!((books.len(), books.get("BTCUSDT")), (3, Some(&right)));
    let wrong = "SELECT count() AS c FROM (SELECT asset_in, tick_index, toString(reserves) FROM tick_state FINAL \
                 WHERE symbol = 'BTCUSDT' AND reserves_zero = 0) AS state FULL JOIN \
                 (SELECT asset_in, tick_index, toString(reserves) FROM (SELECT *, if(side = 'ask', asset_0, asset_1) AS asset_in \
                 FROM book_as_of(asset_0 = 'BTC', asset_1 = 'USDT', at = '2100-01-01 00:00:00')) WHERE symbol = 'BTCUSDT') AS history \
                 ON state.asset_in = history.asset_in AND state.tick_index = history.tick_index \
                 WHERE state.asset_in = '' OR history.asset_in = ''";
    assert_eq!(ask(&again, wrong)?[0]["c"].to_string().trim_matches('"'), "0");
    Ok(())
}

#[test]
fn sql_reads_by_default_and_writes_whole_files() -> Result<()> {
    let place = tempfile::tempdir()?;
    let data = text(place.path())?.to_owned();
    let sql = |more: &[&str]| run(&[&["sql", "--data-dir", &data, "--set", "store.database=default"], more].concat());
    let (code, answer, said) = sql(&["--param", "x=41", "--format", "csv", "SELECT {x:UInt8} + 1 AS y"])?;
    assert_eq!((code, String::from_utf8(answer)?.as_str()), (Some(0), "\"y\"\n42\n"), "{said}");
    let (code, _, said) = sql(&["CREATE DATABASE never"])?;
    assert!(code == Some(2) && said.contains("READONLY"), "{code:?} {said}");
    let (code, _, said) = sql(&["SELECT file('/etc/passwd')"])?;
    assert!(code == Some(2) && said.contains("497"), "{code:?} {said}");
    let (code, _, said) = sql(&["--write", "CREATE DATABASE meant"])?;
    assert_eq!(code, Some(0), "{said}");

    let (query, table) = (place.path().join("query.sql"), place.path().join("table.parquet"));
    fs::write(&query, "SELECT number, toString(number) AS text FROM numbers(1000)")?;
    let (code, answer, said) = sql(&["--file", text(&query)?, "--format", "parquet", "--output", text(&table)?])?;
    assert_eq!((code, answer.len()), (Some(0), 0), "{said}");
    let written = fs::read(&table)?;
    assert!(written.starts_with(b"PAR1") && written.ends_with(b"PAR1"));
    // A query that fails leaves what was there.
    let (code, ..) = sql(&["--format", "parquet", "--output", text(&table)?, "SELECT nothing"])?;
    assert!(code == Some(2) && fs::read(&table)? == written);
    assert_eq!(sql(&["--file", "/nowhere/query.sql"])?.0, Some(3));
    let (code, answer, _) = run(&["sql", "--print-account"])?;
    assert!(code == Some(0) && String::from_utf8(answer)?.contains("CREATE QUOTA"));
    Ok(())
}
