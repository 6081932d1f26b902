//! Two runs after each other on one data directory: versions rise over the restart, and the store ends at the second
//! run's book, without a level that only the first one had.
//!
//! Never: two servers on one directory at one time.

use crate::books::{asked, of_json, over_http, version};
use anyhow::{Context, Result};
use sprag_tests::{corpus, process::Server};

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
