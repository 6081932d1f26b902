//! A store that stands still, and a disk that is full: terminals are served as if nothing were, and afterwards the store has
//! the state, and says what its history lacks.
//!
//! Never: a process stopped that is not our own engine; a file system filled that is not our own.

use crate::{
    books::{Book, ask, of_json, over_http, store_of, stored},
    market::{Books, Market, await_books},
    watcher::{Watcher, all_of},
};
use anyhow::{Context, Result, ensure};
use market::Venue;
use sprag_tests::process::{self, Launch, Server};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use wire::Channel;

const VENUES: [&str; 2] = ["binance_spot", "kraken_spot"];
const INSTRUMENTS: u64 = 6;
/// Cuts of 4 ms for which the market goes on while the store stands still: ten seconds.
const CUTS: u64 = 2_500;
/// Longest time without anything for a terminal; a market of thousands of changes a second, on a machine that may be busy.
const PAUSE_MAX: Duration = Duration::from_secs(5);

const CUTS_TOTAL: &str = r#"sprag_tape_events_total{event="cuts"}"#;
const CREDIT_WAITS: &str = r#"sprag_tape_events_total{event="credit_waits"}"#;
const SOURCE_WAITS: &str = r#"sprag_store_events_total{event="source_waits"}"#;
const DROPS: [&str; 2] = [
    r#"sprag_venue_events_total{event="backpressure_waits",venue="binance_spot"}"#,
    r#"sprag_venue_events_total{event="backpressure_drops",venue="binance_spot"}"#,
];
const INSERTED: &str = r#"sprag_store_events_total{event="rows_inserted"}"#;
const LEFT_OUT: &str = r#"sprag_store_events_total{event="changes_left_out"}"#;
const GIVEN_UP: &str = r#"sprag_store_events_total{event="instruments_given_up"}"#;
const FULL: &str = "sprag_store_full";
const READY: &str = r#"sprag_store_state{state="ready"}"#;

/// A market, and a server with a store that is connected to it.
struct Stage {
    server: Server,
    market: Market,
    data: PathBuf,
}

impl Stage {
    fn set(data: &Path, pending_bytes: u64) -> Result<Self> {
        let market = Market::start(3, 3_000)?;
        let more = format!(
            "[store]\npending_bytes = {pending_bytes}\nbatch_bytes = 65536\nbatch_age_ms = 50\n\
             [pipeline]\nin_flight_bytes = 4194304\n"
        );
        let config = market.configuration(data, &VENUES, 1, &more)?;
        let server = Launch::run(data, 0).with(&["--config"]).with_path(&config).spawn()?.up()?;
        server.await_metric(r#"sprag_instruments{state="LIVE"}"#, INSTRUMENTS)?;
        server.await_metric(INSERTED, 1_000)?;
        Ok(Self { server, market, data: data.to_owned() })
    }

    fn waits(&self) -> Result<[u64; 4]> {
        let metric = |name: &str| self.server.metric(name);
        Ok([metric(CREDIT_WAITS)?, metric(SOURCE_WAITS)?, metric(DROPS[0])?, metric(DROPS[1])?])
    }

    /// Follows the books for that many cuts: none is late by more than the bound.
    async fn follow(&self, watcher: &mut Watcher, cuts: u64) -> Result<()> {
        let goal = self.server.metric(CUTS_TOTAL)? + cuts;
        let seen = |watcher: &Watcher| watcher.versions.values().map(Vec::len).sum::<usize>();
        while self.server.metric(CUTS_TOTAL)? < goal {
            let (before, since) = (seen(watcher), Instant::now());
            watcher.until("more versions", |watcher| seen(watcher) > before + 50).await?;
            ensure!(since.elapsed() < PAUSE_MAX, "a terminal waited {:?}", since.elapsed());
        }
        Ok(())
    }

    /// The market stands still; the store takes everything, and has the books that the server has.
    async fn ends_right(&self) -> Result<()> {
        let books = self.market.pause()?;
        await_books("the server", &self.server, &books)?;
        process::until("the store takes everything", || {
            let pending = self.server.metric(r#"sprag_store{what="pending_bytes"}"#)?;
            let ready = self.server.metric(READY)?;
            Ok((pending == 0 && ready == 1).then_some(()))
        })?;
        let listed = self.server.get("/v1/instruments")?.json()?;
        let address = store_of(&self.data)?;
        let mut in_store = Books::new();
        let mut shown: BTreeMap<String, Book> = BTreeMap::new();
        for instrument in listed.as_array().context("no list")? {
            let name = instrument["instrument"].as_str().context("no name")?.to_owned();
            let venue: Venue = instrument["venue"].as_str().context("no venue")?.parse()?;
            in_store.insert(name.clone(), stored(&address, venue, instrument).await?);
            shown.insert(name.clone(), of_json(&over_http(&self.server, &name)?)?);
        }
        ensure!(in_store == shown, "the store differs from what is shown");
        Ok(())
    }
}

/// The embedded engine of a server, stopped until this goes.
struct StoppedEngine(String);

impl StoppedEngine {
    fn of(data_dir: &Path) -> Result<Self> {
        let text = fs::read_to_string(data_dir.join("clickhouse.url"))?;
        let pid: u32 = text.lines().nth(1).context("no process number")?.trim().parse()?;
        signal("-STOP", &pid.to_string())?;
        Ok(Self(pid.to_string()))
    }
}

impl Drop for StoppedEngine {
    fn drop(&mut self) {
        // It may be gone with its server.
        drop(signal("-CONT", &self.0));
    }
}

fn signal(which: &str, pid: &str) -> Result<()> {
    let status = Command::new("kill").args([which, pid]).status()?;
    ensure!(status.success(), "kill {which}: {status}");
    Ok(())
}

/// What the history lacks is on record: versions that were shown and are not in it.
fn gaps_tell(stage: &Stage, watcher: &Watcher) -> Result<()> {
    let rows = |query: &str| ask(&stage.data, query);
    let gaps = rows(
        "SELECT concat(venue, '/', symbol) AS name, toString(after) AS after, toString(through) AS through \
         FROM history_gaps WHERE reason = 'store_behind'",
    )?;
    ensure!(!gaps.is_empty(), "no gap is on record");
    let number = |value: &serde_json::Value| -> Result<u128> { Ok(value.as_str().context("no text")?.parse()?) };
    let updates =
        rows("SELECT DISTINCT concat(venue, '/', symbol) AS name, toString(version) AS version FROM tick_updates")?;
    let mut stored: BTreeMap<String, Vec<u128>> = BTreeMap::new();
    for row in &updates {
        stored.entry(row["name"].as_str().context("no name")?.to_owned()).or_default().push(number(&row["version"])?);
    }
    let (mut missing, mut of_all) = (0, 0);
    for (name, versions) in &watcher.versions {
        let known = stored.get(name).context("an instrument without rows")?;
        let first = known.iter().min().copied().unwrap_or_default();
        for version in versions.iter().map(|version| version.to_u128()).filter(|version| *version > first) {
            of_all += 1;
            if known.contains(&version) {
                continue;
            }
            missing += 1;
            let told = gaps.iter().filter(|gap| gap["name"] == **name).try_fold(false, |told, gap| {
                anyhow::Ok(told || (number(&gap["after"])? < version && version <= number(&gap["through"])?))
            })?;
            ensure!(told, "{name}: {version} was shown, is not stored, and no gap says so");
        }
    }
    println!("{missing} of {of_all} versions shown are not in the history, told in {} gaps", gaps.len());
    ensure!(missing > 0, "nothing is missing");
    Ok(())
}

/// The engine stands still for ten seconds under a load of many times what may wait.
async fn stands_still(pending_bytes: u64, gives_up: bool) -> Result<()> {
    let data = tempfile::tempdir()?;
    let stage = Stage::set(data.path(), pending_bytes)?;
    let mut watcher = Watcher::new(&stage.server.stream_url(), &all_of(&[Channel::Book]))?;
    watcher.until("all books", |watcher| watcher.versions.len() == 6).await?;
    let (before, waits) = (stage.server.resident_kb()?, stage.waits()?);
    // With a small bound it may be behind already.
    let left_out_before = stage.server.metric(LEFT_OUT)?;
    let stopped = StoppedEngine::of(&stage.data)?;
    stage.follow(&mut watcher, CUTS).await?;
    let (left_out, given_up) = (stage.server.metric(LEFT_OUT)? - left_out_before, stage.server.metric(GIVEN_UP)?);
    println!(
        "{left_out} changes left out, {given_up} instruments given up, {before} kB resident, then {} kB",
        stage.server.resident_kb()?
    );
    ensure!(left_out > 5_000 && (given_up > 0) == gives_up, "{left_out} left out, {given_up} given up");
    assert_eq!(stage.waits()?, waits, "something waited");
    assert_eq!(stage.server.get("/readyz")?.status, 200);
    drop(stopped);
    stage.follow(&mut watcher, 250).await?;
    stage.ends_right().await?;
    gaps_tell(&stage, &watcher)?;
    assert!(watcher.is_clean() && watcher.gaps == 0, "the terminal was disturbed");
    Ok(())
}

#[tokio::test]
async fn an_engine_that_stands_still_costs_history_and_no_terminal_anything() -> Result<()> {
    stands_still(2 << 20, false).await
}

#[tokio::test]
async fn an_instrument_that_is_given_up_is_written_whole_afterwards() -> Result<()> {
    stands_still(64 << 10, true).await
}

/// How a disk is full.
enum Disk {
    /// By the engine's own setting: it wants more free space than there is.
    Setting,
    /// A file system of our own with a file that takes all of it.
    Filled(PathBuf),
}

impl Disk {
    async fn fill(&self, data_dir: &Path) -> Result<()> {
        match self {
            Self::Setting => {
                self.every_table(data_dir, "MODIFY SETTING min_free_disk_bytes_to_perform_insert = 1000000000000000000")
                    .await
            }
            Self::Filled(directory) => {
                let mut file = File::create(directory.join("filler"))?;
                // To the last byte, however much that is.
                while file.write_all(&[1; 4096]).is_ok() {}
                Ok(())
            }
        }
    }

    async fn free(&self, data_dir: &Path) -> Result<()> {
        match self {
            Self::Setting => self.every_table(data_dir, "RESET SETTING min_free_disk_bytes_to_perform_insert").await,
            Self::Filled(directory) => Ok(fs::remove_file(directory.join("filler"))?),
        }
    }

    async fn every_table(&self, data_dir: &Path, change: &str) -> Result<()> {
        let client = store_of(data_dir)?.client();
        for table in ["tick_updates", "trades"] {
            client.query_raw(&format!("ALTER TABLE {table} {change}")).execute().await?;
        }
        Ok(())
    }
}

async fn is_full(disk: &Disk, data: &Path) -> Result<()> {
    let stage = Stage::set(data, 32 << 20)?;
    let mut watcher = Watcher::new(&stage.server.stream_url(), &all_of(&[Channel::Book]))?;
    watcher.until("all books", |watcher| watcher.versions.len() == 6).await?;
    let waits = stage.waits()?;
    disk.fill(&stage.data).await?;
    stage.server.await_metric(FULL, 1)?;
    stage.follow(&mut watcher, 500).await?;
    assert_eq!(stage.waits()?, waits, "something waited");
    let ready = stage.server.get("/readyz")?;
    assert_eq!(ready.status, 200, "{ready:?}");
    let told = process::until("both say it", || {
        let health = stage.server.get("/healthz")?;
        let state = stage.server.get("/readyz")?.json()?["store_state"].clone();
        Ok((health.body == "ok, the store is full\n" && state == "full").then_some(()))
    });
    told.with_context(|| stage.server.log())?;
    ensure!(stage.server.log().contains("the store's disk is full"), "{}", stage.server.log());
    disk.free(&stage.data).await?;
    stage.server.await_metric(READY, 1)?;
    assert_eq!(stage.server.metric(FULL)?, 0);
    stage.ends_right().await?;
    assert!(watcher.is_clean() && watcher.gaps == 0, "the terminal was disturbed");
    ensure!(stage.server.terminate()?.success(), "no orderly end");
    Ok(())
}

#[tokio::test]
async fn a_store_that_says_its_disk_is_full_is_told_and_terminals_are_served() -> Result<()> {
    let data = tempfile::tempdir()?;
    is_full(&Disk::Setting, data.path()).await
}

/// A small file system of our own, unmounted when this goes.
struct Mounted(PathBuf);

impl Mounted {
    /// None where it is not allowed.
    fn at(directory: &Path) -> Result<Option<Self>> {
        fs::create_dir_all(directory)?;
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(directory).output();
        Ok(mount.is_ok_and(|mount| mount.status.success()).then(|| Self(directory.to_owned())))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open in it is about to end.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[tokio::test]
async fn a_disk_that_is_full_is_told_and_terminals_are_served() -> Result<()> {
    let data = tempfile::tempdir()?;
    let directory = data.path().join("clickhouse");
    let Some(mounted) = Mounted::at(&directory)? else {
        println!("no file system may be mounted here: skipped; the same by the engine's setting is another test");
        return Ok(());
    };
    let disk = Disk::Filled(mounted.0.clone());
    is_full(&disk, data.path()).await?;
    drop(mounted);
    Ok(())
}
