//! Two runs after each other on one data directory: versions rise over the restart, and the store ends at the second
//! run's book, without a level that only the first one had.
//!
//! Never: two servers on one directory at one time.

use crate::{
    books::{asked, of_json, over_http, version},
    market::Market,
};
use anyhow::{Context, Result};
use connectors::halt;
use serde_json::json;
use sprag_tests::{
    corpus,
    process::{self, Launch, Server},
};

const NAME: &str = "kraken_spot/BTC/USD";
const SYMBOL: &str = "BTC/USD";
const APPLIED: &str = r#"sprag_lane_events_total{event="applied"}"#;

#[test]
fn a_second_run_goes_on_above_the_first_and_leaves_nothing_of_it() -> Result<()> {
    let data = tempfile::tempdir()?;
    let mut seen = Vec::new();
    // Windows of 25 levels, then of 10: what only the wider one had must die.
    for (capture, applied) in [("btcusd_sample", 2_051), ("btcusd_l2", 296)] {
        let Some(file) = corpus::file(&format!("kraken_v2/kraken_v2_{capture}.frames.jsonl.zst")) else {
            println!("corpus absent: skipped {capture} (set {} to its directory)", corpus::VARIABLE);
            return Ok(());
        };
        let file = file.to_str().context("a path that is not text")?;
        let arguments = ["--capture", file, "--venue", "kraken_spot", "--speed", "0"];
        let server = Server::start(data.path(), &arguments)?;
        server.await_metric(APPLIED, applied)?;
        // Nothing changes any longer; the frame that holds the last change is complete once a book is asked for.
        let body = over_http(&server, NAME)?;
        seen.push((version(&body)?, of_json(&body)?));
        assert!(server.terminate()?.success(), "an orderly end");
        let stored = asked(data.path())?;
        assert_eq!(stored.get(SYMBOL), seen.last().map(|(_, book)| book), "{capture}");
    }
    let [(first, _), (second, _)] = seen.as_slice() else { unreachable!("two runs") };
    println!("{first}, then {second}");
    assert!(first < second, "{first}, then {second}");
    Ok(())
}

/// A new epoch was shown, and the process died before store or checkpoint had it: the next start must not fall back
/// below what was shown, nor wait until the venue's ids give it away a second time.
#[test]
fn an_epoch_that_was_shown_but_not_kept_is_never_undercut() -> Result<()> {
    const BINANCE: &str = "binance_spot/BTCUSDT";
    let market = Market::start(3, 200)?;
    let data = tempfile::tempdir()?;
    let config = market.configuration(data.path(), &["binance_spot"], 1, "[pipeline]\ncheckpoint_ms = 0")?;
    let launch = Launch::run(data.path(), 0).with(&["--config"]).with_path(&config);
    let live = r#"sprag_instruments{state="LIVE"}"#;
    let first = launch.spawn()?.up()?;
    first.await_metric(live, 3)?;
    first.await_metric(APPLIED, 50)?;
    assert!(first.terminate()?.success());

    // Nothing becomes durable after the first insert.
    let second = launch.clone().with_variable(halt::VARIABLE, "inserted-tick_updates").spawn()?.up()?;
    second.await_metric(live, 3)?;
    market.fault(&json!({"fault": "reset_ids", "symbol": "BTCUSDT", "next_id": 624_086}))?;
    let shown = process::until("a new epoch", || {
        let book = over_http(&second, BINANCE)?;
        Ok((book["epoch"].as_u64() > Some(0) && book["state"] == "LIVE").then_some(version(&book)?))
    })?;
    second.kill()?;

    let third = launch.spawn()?.up()?;
    third.await_metric(live, 3)?;
    let after = version(&over_http(&third, BINANCE)?)?;
    assert!(after > shown, "{after} after {shown}");
    assert_eq!(third.metric(r#"sprag_lane_events_total{event="resets"}"#)?, 0, "known, not found out anew");
    let other = version(&over_http(&third, "binance_spot/ETHUSDT")?)?;
    assert_eq!(other.epoch, 0, "an instrument that was not bumped goes on in its epoch");
    Ok(())
}
