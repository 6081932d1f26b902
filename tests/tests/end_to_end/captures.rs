//! Captures served live at twenty times their pace: receiver, HTTP, store and `sprag sql` end at the reference's book.
//!
//! Never: a comparison while the capture still runs.

use crate::{
    books::{
        self, asked, frames, of_json, of_receiver, of_reference, over_http, store_of, stored, stored_versions, version,
    },
    watcher::{Watcher, all_of},
};
use anyhow::{Context, Result, ensure};
use connectors::clickhouse::StoreAddress;
use market::{Venue, Version};
use sprag_tests::{
    corpus,
    process::{PATIENCE, Server, until},
    reference::{self, Reconstruction},
};
use std::{path::Path, sync::Arc, time::Instant};
use wire::Channel;

const SPEED: &str = "20";

/// What a capture comes to by the reference, and by counting its lines.
struct Expected {
    frames: u64,
    /// The line of the last book message, which is the sequence where a venue has none.
    last_book: u64,
    reference: Reconstruction,
}

fn expected(capture: &Path) -> Result<Expected> {
    let frames = frames(capture)?;
    let last_book = frames.iter().rev().find(|(_, text)| text.contains(r#""channel":"book""#));
    let reference = reference::rebuild(corpus::format_of(capture), capture)?;
    Ok(Expected { frames: frames.len().try_into()?, last_book: last_book.map_or(0, |(line, _)| *line), reference })
}

fn lane(server: &Server, event: &str) -> Result<u64> {
    server.metric(&format!("sprag_lane_events_total{{event=\"{event}\"}}"))
}

async fn everything_agrees(name: &str, venue: Venue) -> Result<()> {
    let Some(capture) = corpus::file(name) else {
        println!("corpus absent: skipped {name} (set {} to its directory)", corpus::VARIABLE);
        return Ok(());
    };
    let expected = Arc::new(expected(&capture)?);
    let data = tempfile::tempdir()?;
    let file = capture.to_str().context("a path that is not text")?;
    let arguments = ["--capture", file, "--venue", venue.name(), "--speed", SPEED];
    let server = Arc::new(Server::start(data.path(), &arguments)?);
    let mut watcher = Watcher::new(&server.stream_url(), &all_of(&[Channel::Book]))?;
    let served = tokio::task::spawn_blocking({
        let (server, expected) = (Arc::clone(&server), Arc::clone(&expected));
        move || ended(&server, &expected, venue)
    });
    let finals: Vec<(String, Version)> = tokio::select! {
        ended = watcher.follow() => anyhow::bail!("the connection ended: {:?}", ended?),
        finals = served => finals??,
    };
    let reached = |watcher: &Watcher| finals.iter().all(|(name, version)| watcher.shown(name) == Some(*version));
    watcher.until("the last versions", reached).await?;
    assert!(watcher.is_clean(), "{:?}", watcher.session().counters());
    assert_eq!(watcher.gaps, 0);
    for refused in ["regressions", "duplicates", "gaps", "resets", "overflows", "unrepresentable"] {
        assert_eq!(lane(&server, refused)?, 0, "{refused}");
    }
    let steps: usize = watcher.versions.values().map(Vec::len).sum();
    println!("{name}: {} instruments, {steps} steps shown", finals.len());
    assert!(steps > 2 * finals.len(), "the capture was over before the terminal was there");
    same_everywhere(&server, data.path(), &watcher, &expected, venue, &finals).await
}

/// Waits until the capture is served and its books stand; their names and versions.
fn ended(server: &Server, expected: &Expected, venue: Venue) -> Result<Vec<(String, Version)>> {
    let stands = || -> Result<Option<Vec<(String, Version)>>> {
        if server.metric(r#"sprag_source_events_total{event="frames"}"#)? < expected.frames {
            return Ok(None);
        }
        let mut finals = Vec::new();
        for (symbol, book) in &expected.reference.books {
            let name = format!("{venue}/{symbol}");
            let last = book.last_update_id.as_deref().map_or(Ok(expected.last_book), str::parse)?;
            let body = over_http(server, &name)?;
            if body["seq"].as_str().and_then(|seq| seq.parse().ok()) != Some(last) {
                return Ok(None);
            }
            finals.push((name, version(&body)?));
        }
        Ok(Some(finals))
    };
    until("the end of the capture", stands)
}

async fn same_everywhere(
    server: &Server,
    data_dir: &Path,
    watcher: &Watcher,
    expected: &Expected,
    venue: Venue,
    finals: &[(String, Version)],
) -> Result<()> {
    let listed = server.get("/v1/instruments")?.json()?;
    let address = store_of(data_dir)?;
    reach_the_store(&address, finals).await?;
    every_row_is_counted(server, data_dir)?;
    for (name, version) in finals {
        let symbol = name.split_once('/').context("no venue")?.1;
        let right = of_reference(&expected.reference.books[symbol]);
        let told = of_json(&over_http(server, name)?)?;
        assert!(told == right, "{name}: HTTP differs from the reference");
        let shown = watcher.session().book(name).context("no book shown")?;
        assert_eq!(shown.version(), *version);
        assert!(of_receiver(shown) == right, "{name}: the terminal differs from the reference");

        let row = listed.as_array().unwrap().iter().find(|row| row["instrument"] == **name).context("not listed")?;
        assert!(stored(&address, venue, row).await? == right, "{name}: the store differs from the reference");
    }
    let asked = asked(data_dir)?;
    for (symbol, book) in &expected.reference.books {
        assert!(asked[symbol] == of_reference(book), "{symbol}: `sprag sql` differs from the reference");
    }
    Ok(())
}

/// Waits until the store has exactly these versions.
async fn reach_the_store(address: &StoreAddress, finals: &[(String, Version)]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for (name, version) in finals {
        let symbol = name.split_once('/').context("no venue")?.1;
        loop {
            let stored = stored_versions(address).await?.get(symbol).copied();
            if stored >= Some(*version) {
                assert_eq!(stored, Some(*version), "{name}");
                break;
            }
            ensure!(Instant::now() < deadline, "{name}: {version} is not stored, only {stored:?}");
        }
    }
    Ok(())
}

/// With the market at rest, what was pushed is what was inserted is what is there.
fn every_row_is_counted(server: &Server, data_dir: &Path) -> Result<()> {
    let count = |event: &str| server.metric(&format!("sprag_store_events_total{{event=\"{event}\"}}"));
    let rows = until("everything inserted", || {
        let (pushed, inserted) = (count("rows_pushed")?, count("rows_inserted")?);
        Ok((pushed == inserted).then_some(inserted))
    })?;
    let query = "SELECT toString((SELECT count() FROM tick_updates) + (SELECT count() FROM trades)) AS rows";
    let there = books::ask(data_dir, query)?;
    assert!(rows > 0);
    assert_eq!(there[0]["rows"], rows.to_string());
    Ok(())
}

#[tokio::test]
async fn binance_of_october_2021_ends_the_same_everywhere() -> Result<()> {
    everything_agrees("binance_spot/binance_spot_2021-10.frames.jsonl.zst", Venue::BinanceSpot).await
}

#[tokio::test]
async fn binance_of_april_2021_ends_the_same_everywhere() -> Result<()> {
    everything_agrees("binance_spot/binance_spot_2021-04.frames.jsonl.zst", Venue::BinanceSpot).await
}

#[tokio::test]
async fn kraken_ends_the_same_everywhere() -> Result<()> {
    everything_agrees("kraken_v2/kraken_v2_btcusd_sample.frames.jsonl.zst", Venue::KrakenSpot).await
}
