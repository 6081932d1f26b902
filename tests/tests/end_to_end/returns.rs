//! A start while the venue is away: what was kept is there at once, with its mark and its age, and goes on in its epoch
//! when the venue is back. What was never kept is listed all the same.
//!
//! Never: a kept book called LIVE.

use crate::{
    books::{of_json, over_http, version},
    market::{Market, await_books},
};
use anyhow::{Context, Result};
use serde_json::json;
use sprag_tests::process::{self, Launch};
use std::fs;

const NAME: &str = "binance_spot/BTCUSDT";
const SYNCING: &str = r#"sprag_instruments{state="SYNCING"}"#;
const LIVE: &str = r#"sprag_instruments{state="LIVE"}"#;

/// Stops a server, starts it anew while its venue refuses connections, and lets the venue back in.
fn comes_back(flags: &[&str], checkpoint: bool) -> Result<()> {
    let market = Market::start(3, 200)?;
    let data = tempfile::tempdir()?;
    let config = market.configuration(data.path(), &["binance_spot"], 1, "")?;
    let launch = Launch::run(data.path(), 0).with(flags).with(&["--config"]).with_path(&config);
    let first = launch.spawn()?.up()?;
    first.await_metric(LIVE, 3)?;
    let mut books = market.pause()?;
    books.retain(|name, _| name.starts_with("binance_spot"));
    await_books("the first server", &first, &books)?;
    let shown = version(&over_http(&first, NAME)?)?;
    assert!(first.terminate()?.success());
    let file = data.path().join("checkpoint.bin");
    assert!(file.exists(), "an orderly end leaves a checkpoint");
    if !checkpoint {
        fs::remove_file(file)?;
    }

    market.fault(&json!({"fault": "refuse_connections", "venue": "binance_spot", "for_ms": 3_000}))?;
    market.resume()?;
    let second = launch.spawn()?.up()?;
    let kept = process::until("the kept book", || {
        let answer = second.get("/v1/books/binance_spot%2FBTCUSDT")?;
        Ok(if answer.status == 200 { Some(answer.json()?) } else { None }.filter(|book| book["seq"].is_string()))
    })?;
    assert_eq!(kept["state"], "SYNCING");
    assert!(of_json(&kept)? == books[NAME], "the book as it was");
    let now = version(&kept)?;
    assert!(now <= shown && now.epoch == shown.epoch, "{now} after {shown}");
    assert!(kept["age_ms"].as_u64().context("no age")? > 0);

    second.await_metric(LIVE, 3)?;
    let later = version(&over_http(&second, NAME)?)?;
    assert!(later > shown && later.epoch == shown.epoch, "{later} after {shown}: our own restart opens no epoch");
    let mut books = market.pause()?;
    books.retain(|name, _| name.starts_with("binance_spot"));
    await_books("the second server", &second, &books)?;
    assert!(second.terminate()?.success());
    Ok(())
}

#[test]
fn a_cold_start_shows_the_stored_book_until_the_venue_is_back() -> Result<()> {
    comes_back(&[], false)
}

#[test]
fn a_warm_start_shows_the_checkpoint_until_the_venue_is_back() -> Result<()> {
    comes_back(&["--no-store"], true)
}

#[test]
fn a_first_start_lists_what_it_connects_to_before_the_venues_answer() -> Result<()> {
    let data = tempfile::tempdir()?;
    let config = data.path().join("away.toml");
    // Nobody listens there.
    let urls = "ws_url = 'ws://127.0.0.1:1'\nrest_url = 'http://127.0.0.1:1'";
    let live = |venue, instruments| format!("[[live]]\nvenue = '{venue}'\ninstruments = [{instruments}]\n{urls}\n");
    let venues = [live("binance_spot", "'BTCUSDT', 'WHAT'"), live("kraken_spot", "'BTC/USD'")].concat();
    fs::write(&config, format!("[source]\nkind = 'live'\n{venues}"))?;
    let server = Launch::run(data.path(), 0).with(&["--no-store", "--config"]).with_path(&config).spawn()?.up()?;

    let listed = server.get("/v1/instruments")?.json()?;
    let named = listed.as_array().context("no list")?.iter().map(|one| one["instrument"].as_str());
    assert_eq!(named.collect::<Vec<_>>(), [Some(NAME), Some("kraken_spot/BTC/USD")], "what no rule splits comes later");
    server.await_metric(SYNCING, 2)?;
    for name in [NAME, "kraken_spot/BTC/USD"] {
        let book = over_http(&server, name)?;
        let shown = [&book["state"], &book["seq"], &book["bids"], &book["asks"]];
        assert_eq!(shown, [&json!("SYNCING"), &json!(null), &json!([]), &json!([])], "{book}");
    }
    assert!(server.terminate()?.success());
    Ok(())
}
