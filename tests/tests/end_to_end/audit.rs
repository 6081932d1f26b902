//! The audit of a running server: what is done to its store behind its back is found, counted, explained and put right, and
//! a long run with faults and kills gives nothing to find.
//!
//! Never: a table changed by anything but the engine's own interface.

use crate::{
    kills::{Seed, sql},
    market::Market,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sprag_tests::process::{self, Launch, Server, until};
use std::{path::Path, thread};

const AUDITS: &str = r#"sprag_audit_events_total{event="audits"}"#;
const FAILURES: &str = r#"sprag_audit_events_total{event="failures"}"#;
const WRONG: &str = r#"sprag_audit_divergent_ticks_total{verdict="store_wrong"}"#;
const DOUBTED: &str = r#"sprag_audit_divergent_ticks_total{verdict="live_in_doubt"}"#;
const LIVE: &str = r#"sprag_instruments{state="LIVE"}"#;
const SYMBOL: &str = "BTCUSDT";
const OF_SYMBOL: &str = "venue = 'binance_spot' AND symbol = 'BTCUSDT'";

/// What lives in `tick_state`, as one number.
const CONTENT: &str = "SELECT count(), sum(cityHash64(venue, symbol, asset_in, tick_index, reserves)) \
                       FROM tick_state FINAL WHERE reserves_zero = 0";

/// What a query of the store gives, as one text.
fn ask(data_dir: &Path, query: &str) -> Result<String> {
    let data_dir = data_dir.to_str().context("a data directory that is not text")?;
    let output = process::output(["sql", "--data-dir", data_dir, query, "--format", "TabSeparated"])?;
    ensure!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Waits for two more audits: the first may have begun before now.
fn two_more(server: &Server) -> Result<u64> {
    server.await_metric(AUDITS, server.metric(AUDITS)? + 2)
}

/// A tick of the middle of a side that lives, by its index.
fn some_tick(data_dir: &Path, asset_in: &str, at: u32) -> Result<String> {
    let query = format!(
        "SELECT tick_index FROM tick_state FINAL WHERE {OF_SYMBOL} AND reserves_zero = 0 AND asset_in = '{asset_in}' \
         ORDER BY tick_index LIMIT 1 OFFSET {at}"
    );
    ask(data_dir, &query)
}

#[test]
fn what_is_done_behind_its_back_is_found_counted_explained_and_put_right() -> Result<()> {
    let market = Market::start(2, 100)?;
    let data = tempfile::tempdir()?;
    let config = market.configuration(data.path(), &["binance_spot"], 1, "[audit]\nevery_s = 2")?;
    let server = Launch::run(data.path(), 0).with(&["--config"]).with_path(&config).spawn()?.up()?;
    server.await_metric(LIVE, 2)?;
    // A market that stands still, so that every tick is compared.
    market.pause()?;
    two_more(&server)?;
    assert_eq!(
        (server.metric(WRONG)?, server.metric(DOUBTED)?, server.metric(FAILURES)?),
        (0, 0, 0),
        "{}",
        server.log()
    );
    assert!(server.metric(r#"sprag_audit{what="compared_ticks"}"#)? > 50);

    let [changed, deleted] = [some_tick(data.path(), "USDT", 3)?, some_tick(data.path(), "USDT", 5)?];
    let of = |tick: &str| format!("{OF_SYMBOL} AND asset_in = 'USDT' AND tick_index = {tick}");
    let before = ask(data.path(), CONTENT)?;
    let sync = "SETTINGS mutations_sync = 1";
    sql(data.path(), &format!("ALTER TABLE tick_state UPDATE reserves = reserves + 1 WHERE {} {sync}", of(&changed)))?;
    sql(data.path(), &format!("ALTER TABLE tick_state DELETE WHERE {} {sync}", of(&deleted)))?;
    let phantom = "INSERT INTO tick_state (venue, symbol, asset_0, asset_1, asset_in, tick_index, reserves, version, \
                   price_exponent, quantity_exponent) SELECT venue, symbol, asset_0, asset_1, asset_in, 1, 77, version, \
                   price_exponent, quantity_exponent FROM tick_state FINAL";
    sql(data.path(), &format!("{phantom} WHERE {OF_SYMBOL} AND asset_in = 'USDT' LIMIT 1"))?;
    until("three findings", || Ok((server.metric(WRONG)? >= 3).then_some(())))?;
    let corrected = r#"sprag_audit_ticks_total{what="corrected"}"#;
    server.await_metric(corrected, 3)?;
    // An audit that begins before the corrections are in the store finds the same once more.
    two_more(&server)?;
    let found = server.metric(WRONG)?;
    two_more(&server)?;
    assert_eq!((server.metric(WRONG)?, server.metric(DOUBTED)?), (found, 0), "{}", server.log());
    let after = ask(data.path(), CONTENT)?;
    assert_eq!(after, before, "as it was");

    let evidence =
        ask(data.path(), "SELECT DISTINCT kind, verdict, action, tick_index FROM audit_evidence ORDER BY kind")?;
    let right = [("changed", &*changed), ("missing", &*deleted), ("phantom", "1")];
    let right = right.map(|(kind, tick)| format!("{kind}\tstore_wrong\trewritten\t{tick}"));
    assert_eq!(evidence, right.join("\n"));
    let told = server.get("/v1/audit")?.json()?;
    let kinds: Vec<_> =
        told["findings"].as_array().context("no findings")?.iter().map(|found| &found["kind"]).collect();
    assert!(kinds.len() >= 3, "{told}");
    assert_eq!(told["last"]["divergent_ticks"], 0, "{told}");
    let explained = told["findings"].to_string();
    assert!(explained.contains("was changed behind our back") && explained.contains(SYMBOL), "{explained}");

    // What comes through the history puts the live book in doubt; its venue settles it.
    let through =
        phantom.replace("INTO tick_state (", "INTO tick_updates (").replace("asset_in, 1, 77", "asset_in, 2, 78");
    sql(data.path(), &format!("{through} WHERE {OF_SYMBOL} AND asset_in = 'USDT' LIMIT 1"))?;
    server.await_metric(DOUBTED, 1)?;
    until("the phantom of the history is dead", || {
        let lives =
            format!("SELECT count() FROM tick_state FINAL WHERE {OF_SYMBOL} AND reserves_zero = 0 AND tick_index = 2");
        Ok((ask(data.path(), &lives)? == "0").then_some(()))
    })?;
    let directory = data.path().to_str().context("a data directory that is not text")?;
    until("evidence of both", || {
        let cli: Value =
            serde_json::from_slice(&process::output(["audit", "--format", "json", "--data-dir", directory])?.stdout)?;
        let findings = cli["findings"].as_array().context("no findings")?;
        let of = |action: &str| findings.iter().any(|found| found["tick_index"] == "2" && found["action"] == action);
        Ok((of("resynced") && of("rewritten")).then_some(()))
    })?;
    assert_eq!(server.metric(FAILURES)?, 0, "{}", server.log());
    market.resume()?;
    server.await_metric(LIVE, 2)?;
    assert!(server.terminate()?.success());
    Ok(())
}

/// How long the parts of the long run last, in audits.
const AUDITS_EACH: u64 = 5;

#[test]
fn a_long_run_with_faults_and_kills_gives_nothing_to_find() -> Result<()> {
    let market = Market::start(6, 600)?;
    let data = tempfile::tempdir()?;
    let venues = ["binance_spot", "kraken_spot"];
    let config =
        market.configuration(data.path(), &venues, 2, "[audit]\nevery_s = 1\n[pipeline]\ncheckpoint_ms = 1000")?;
    let launch = Launch::run(data.path(), 0).with(&["--config"]).with_path(&config);
    let mut seed = Seed::named(5);
    for round in 0..4 {
        let server = launch.spawn()?.up()?;
        server.await_metric(LIVE, 8)?;
        for fault in [
            json!({"fault": "drop_depth", "venue": "binance_spot", "symbol": SYMBOL, "count": 5}),
            json!({"fault": "disconnect", "venue": "kraken_spot"}),
            json!({"fault": "corrupt_checksum", "symbol": "ETH/USDT"}),
            json!({"fault": "reset_ids", "symbol": "ETHUSDT", "next_id": 1_000 + round}),
        ] {
            market.fault(&fault)?;
        }
        server.await_metric(AUDITS, AUDITS_EACH)?;
        assert_eq!((server.metric(WRONG)?, server.metric(DOUBTED)?), (0, 0), "round {round}: {}", server.log());
        assert_eq!(server.metric(FAILURES)?, 0, "round {round}: {}", server.log());
        assert!(server.metric(r#"sprag_audit_ticks_total{what="compared"}"#)? > 1_000, "round {round}");
        if round == 3 {
            // At rest every tick of every instrument is compared.
            market.clear_faults()?;
            server.await_metric(LIVE, 12)?;
            market.pause()?;
            two_more(&server)?;
            assert_eq!((server.metric(WRONG)?, server.metric(DOUBTED)?), (0, 0), "at rest: {}", server.log());
            assert_eq!(server.metric(r#"sprag_audit{what="instruments"}"#)?, 12);
            assert!(server.terminate()?.success());
        } else {
            thread::sleep(seed.millis(0, 400));
            server.kill()?;
        }
    }
    let divergent = "SELECT count(), sum(divergent_ticks), sum(compared_ticks) > 0 FROM audits";
    let sums = ask(data.path(), divergent)?;
    let [audits, divergent, compared] = sums.split('\t').collect::<Vec<_>>()[..] else { unreachable!("three columns") };
    println!("{audits} audits");
    assert!(audits.parse::<u64>()? >= 4 * AUDITS_EACH, "{sums}");
    assert_eq!((divergent, compared), ("0", "1"));
    assert_eq!(ask(data.path(), "SELECT count() FROM audit_evidence")?, "0");
    Ok(())
}

/// Without a store or a period there is no audit, and nothing pretends that there is.
#[test]
fn without_audits_there_are_no_numbers_of_them() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &["--no-store", "--set", "sim.pairs=1"])?;
    assert_eq!(server.get("/v1/audit")?.status, 404);
    assert!(!server.get("/metrics")?.body.contains("sprag_audit"));
    server.terminate()?;
    Ok(())
}
