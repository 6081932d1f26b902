//! Faults of venues over real sockets: each marks what it hits and nothing else, and the books are right again without
//! anybody's help.
//!
//! Never: a fault that did not fire.

use crate::{
    books::{of_json, over_http},
    market::{Market, await_books, of_symbol},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use sprag_tests::process::{self, Launch, Server};
use tempfile::TempDir;

const BINANCE: &str = "binance_spot/BTCUSDT";
const SYMBOL: &str = "BTCUSDT";

/// Venues, and a server without a store that is connected to them.
struct Stage {
    market: Market,
    server: Server,
    venues: Vec<String>,
    _data: TempDir,
}

fn lanes(event: &str) -> String {
    format!("sprag_lane_events_total{{event=\"{event}\"}}")
}

const LIVE: &str = r#"sprag_instruments{state="LIVE"}"#;

impl Stage {
    /// Both with everything live.
    fn set(venues: &[&str], legs: u32, more: &str) -> Result<Self> {
        let market = Market::start(3, 300)?;
        let stage = Self::with(market, venues, legs, more)?;
        stage.await_live()?;
        Ok(stage)
    }

    fn with(market: Market, venues: &[&str], legs: u32, more: &str) -> Result<Self> {
        let data = tempfile::tempdir()?;
        let config = market.configuration(data.path(), venues, legs, more)?;
        let launch = Launch::run(data.path(), 0).with(&["--no-store", "--config"]).with_path(&config);
        let venues = venues.iter().map(|venue| (*venue).to_owned()).collect();
        Ok(Self { market, server: launch.spawn()?.up()?, venues, _data: data })
    }

    /// Waits until everything that is configured is live.
    fn await_live(&self) -> Result<()> {
        let books = self.market.books()?;
        let all = books.keys().filter(|name| self.venues.iter().any(|venue| name.starts_with(venue))).count();
        self.server.await_metric(LIVE, u64::try_from(all)?).map(drop)
    }

    fn count(&self, event: &str) -> Result<u64> {
        self.server.metric(&lanes(event))
    }

    fn await_count(&self, event: &str, least: u64) -> Result<u64> {
        self.server.await_metric(&lanes(event), least)
    }

    fn book(&self, instrument: &str) -> Result<Value> {
        over_http(&self.server, instrument)
    }

    fn await_state(&self, instrument: &str, state: &str) -> Result<Value> {
        process::until(&format!("{instrument} is {state}"), || {
            Ok(Some(self.book(instrument)?).filter(|book| book["state"] == state))
        })
    }

    /// The market stands still, and everything is what it is there.
    fn ends_right(&self) -> Result<()> {
        let mut books = self.market.pause()?;
        let listed: Vec<String> = self.instruments()?;
        books.retain(|name, _| listed.contains(name));
        assert!(books.len() >= 3);
        await_books("the server", &self.server, &books)?;
        for name in &listed {
            self.await_state(name, "LIVE")?;
        }
        Ok(())
    }

    fn instruments(&self) -> Result<Vec<String>> {
        let list = self.server.get("/v1/instruments")?.json()?;
        let list = list.as_array().context("no list")?;
        let name = |instrument: &Value| {
            let text = |name: &str| instrument[name].as_str().context("no name");
            Ok(format!("{}/{}", text("venue")?, text("symbol")?))
        };
        list.iter().map(name).collect()
    }
}

#[test]
fn ids_that_restart_open_a_new_epoch_of_that_instrument_alone() -> Result<()> {
    let stage = Stage::set(&["binance_spot"], 1, "")?;
    assert_eq!(stage.book(BINANCE)?["epoch"], 0);
    stage.market.fault(&json!({"fault": "reset_ids", "symbol": SYMBOL, "next_id": 624_086}))?;
    stage.await_count("resets", 1)?;
    let book = process::until("a new epoch", || {
        Ok(Some(stage.book(BINANCE)?).filter(|book| book["epoch"].as_u64() > Some(0) && book["state"] == "LIVE"))
    })?;
    let seq: u64 = book["seq"].as_str().context("no seq")?.parse()?;
    assert!((624_086..26_941_144).contains(&seq), "{seq}");
    stage.ends_right()?;
    assert_eq!(stage.count("resets")?, 1);
    for name in stage.instruments()?.iter().filter(|name| *name != BINANCE) {
        assert_eq!(stage.book(name)?["epoch"], 0, "{name}");
    }
    Ok(())
}

#[test]
fn a_hole_is_declared_by_time_and_resynced_alone() -> Result<()> {
    let stage = Stage::set(&["binance_spot"], 1, "")?;
    let held = stage.count("held")?;
    stage.market.fault(&of_symbol("drop_depth", "binance_spot", SYMBOL, 1))?;
    stage.market.await_fired("drop_depth", 1)?;
    // One more update, then silence: nothing but time declares the hole.
    stage.await_count("held", held + 1)?;
    let books = stage.market.pause()?;
    stage.await_count("gaps", 1)?;
    stage.await_count("resyncs", 1)?;
    for name in books.keys().filter(|name| name.starts_with("binance_spot")) {
        process::until("the books", || Ok((of_json(&stage.book(name)?)? == books[name]).then_some(())))?;
    }
    stage.market.resume()?;
    stage.ends_right()?;
    assert_eq!((stage.count("gaps")?, stage.count("resyncs")?), (1, 1), "one instrument, once");
    Ok(())
}

#[test]
fn the_other_leg_fills_what_one_lost() -> Result<()> {
    let stage = Stage::set(&["binance_spot"], 2, "")?;
    let before = stage.count("duplicates")?;
    stage.await_count("duplicates", before + 10)?;
    let fault = json!({"fault": "drop_depth", "venue": "binance_spot", "symbol": SYMBOL, "count": 5, "connection": 1});
    stage.market.fault(&fault)?;
    stage.market.await_fired("drop_depth", 5)?;
    stage.ends_right()?;
    assert_eq!(stage.count("gaps")?, 0);
    Ok(())
}

/// The venue goes on answering with a snapshot older than the first update that is held.
#[test]
fn snapshots_that_stay_old_are_asked_for_ever_more_slowly_and_the_buffer_is_bounded() -> Result<()> {
    let market = Market::start(3, 600)?;
    let stale = json!({"fault": "stale_snapshots", "symbol": SYMBOL, "count": 5});
    market.fault(&stale)?;
    let kept = market.update_id(SYMBOL)?;
    process::until("updates since the old snapshot", || Ok((market.update_id(SYMBOL)? > kept + 10).then_some(())))?;
    // So small that it overflows several times before the venue comes to itself.
    let stage = Stage::with(market, &["binance_spot"], 1, "[pipeline]\nheld_bytes = 65536")?;
    stage.market.await_fired("stale_snapshots", 3)?;
    assert_ne!(stage.book(BINANCE)?["state"], "LIVE", "an old snapshot heals nothing");
    stage.market.await_fired("stale_snapshots", 5)?;
    stage.await_state(BINANCE, "LIVE")?;
    stage.ends_right()?;
    assert!(stage.count("overflows")? > 0, "the buffer was never full");
    let requests = stage.count("requests")?;
    assert!(requests <= 20, "{requests} requests: no back-off");
    Ok(())
}

/// The venue wants fewer requests while thousands of updates pile up behind the snapshot that is missing.
#[test]
fn snapshots_are_asked_for_as_told_while_updates_pile_up() -> Result<()> {
    let market = Market::start(3, 3_000)?;
    let limited =
        json!({"fault": "fail_rest", "venue": "binance_spot", "count": 1_000, "status": 429, "retry_after_s": 2});
    market.fault(&limited)?;
    let stage = Stage::with(market, &["binance_spot"], 2, "")?;
    stage.await_count("held", 3_000)?;
    let refused = stage.market.fired("fail_rest")?;
    // At most four are under way when a pause begins, and the list of instruments is asked for once.
    assert!((2..=4 * 8).contains(&refused), "{refused} requests were refused");
    assert_eq!(stage.count("overflows")?, 0, "the buffer holds them all");
    assert_ne!(stage.book(BINANCE)?["state"], "LIVE");
    stage.market.clear_faults()?;
    stage.await_state(BINANCE, "LIVE")?;
    stage.ends_right()?;
    assert_eq!(stage.count("overflows")?, 0);
    Ok(())
}

#[test]
fn disconnected_is_stale_with_its_age_from_the_first_moment() -> Result<()> {
    let stage = Stage::set(&["binance_spot"], 1, "")?;
    stage.market.fault(&json!({"fault": "refuse_connections", "venue": "binance_spot", "for_ms": 4_000}))?;
    stage.market.fault(&json!({"fault": "disconnect", "venue": "binance_spot", "ending": "abort"}))?;
    let age = |book: &Value| book["age_ms"].as_u64().with_context(|| format!("no age in {book}"));
    let first = stage.await_state(BINANCE, "STALE")?;
    let early = age(&first)?;
    let late = process::until("an age that rises", || {
        let book = stage.book(BINANCE)?;
        Ok((book["state"] != "STALE" || age(&book)? > early + 1_000).then_some(book))
    })?;
    assert_eq!(late["state"], "STALE");
    assert_eq!((&late["bids"], &late["seq"]), (&first["bids"], &first["seq"]), "readable all the while");
    assert!(stage.market.await_fired("refuse_connections", 1)? >= 1);
    stage.await_state(BINANCE, "LIVE")?;
    stage.ends_right()?;
    assert_eq!(stage.count("resets")?, 0);
    Ok(())
}

/// The subscriptions are state: after each reconnect there are as many as before, and data prove them.
#[test]
fn subscriptions_come_back_with_each_connection_and_are_proven_by_data() -> Result<()> {
    let stage = Stage::set(&["binance_spot", "kraken_spot"], 1, "")?;
    let subscribed = || -> Result<Vec<usize>> {
        let state = stage.market.state()?;
        let connections = state["connections"].as_array().context("no connections")?;
        let mut counts: Vec<_> =
            connections.iter().map(|connection| connection["subscriptions"].as_array().map_or(0, Vec::len)).collect();
        counts.sort_unstable();
        Ok(counts)
    };
    let before = subscribed()?;
    assert!(before.iter().all(|count| *count >= 3), "{before:?}");
    for round in 1..=3 {
        for venue in ["binance_spot", "kraken_spot"] {
            stage.market.fault(&json!({"fault": "disconnect", "venue": venue}))?;
        }
        let applied = stage.count("applied")?;
        stage.await_count("applied", applied + 50)?;
        process::until(&format!("all live after disconnect {round}"), || {
            let live = stage.server.metric(LIVE)?;
            Ok((live == u64::try_from(stage.instruments()?.len())? && subscribed()? == before).then_some(()))
        })?;
    }
    stage.ends_right()
}

#[test]
fn a_failed_checksum_resyncs_that_instrument_alone() -> Result<()> {
    let stage = Stage::set(&["kraken_spot"], 1, "")?;
    let symbol = "BTC/USDT";
    stage.market.fault(&json!({"fault": "corrupt_checksum", "symbol": symbol}))?;
    stage.market.await_fired("corrupt_checksum", 1)?;
    stage.await_count("resyncs", 1)?;
    stage.await_state(&format!("kraken_spot/{symbol}"), "LIVE")?;
    stage.ends_right()?;
    assert_eq!((stage.count("gaps")?, stage.count("resyncs")?), (1, 1));
    Ok(())
}

/// Without ids one leg is active; when it goes, another one's checked book takes over at once.
#[test]
fn a_standby_leg_takes_over_a_stream_without_ids() -> Result<()> {
    let stage = Stage::set(&["kraken_spot"], 2, "")?;
    let connections =
        || -> Result<usize> { Ok(stage.market.state()?["connections"].as_array().context("no connections")?.len()) };
    process::until("both legs", || Ok((connections()? == 2).then_some(())))?;
    let epoch = || stage.book("kraken_spot/BTC/USDT")?["epoch"].as_u64().context("no epoch");
    let before = epoch()?;
    // One of them is the active one.
    for connection in [1, 2] {
        stage.market.fault(&json!({"fault": "disconnect", "venue": "kraken_spot", "connection": connection}))?;
        stage.market.await_fired("disconnect", connection)?;
        let matched = "sprag_source_events_total{event=\"checksums_matched\"}";
        let checked = stage.server.metric(matched)?;
        process::until("the leg is back", || Ok((connections()? == 2).then_some(())))?;
        // Long enough for the leg that is back to have checked its books.
        stage.server.await_metric(matched, checked + 300)?;
    }
    process::until("the other leg's epoch", || Ok((epoch()? > before).then_some(())))?;
    stage.ends_right()?;
    assert_eq!(stage.count("gaps")?, 0, "a takeover is no gap");
    Ok(())
}
