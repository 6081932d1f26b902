//! The simulated market: what HTTP tells, and what a terminal sees.
//!
//! Never: a price that a run does not move by itself.

use crate::{
    books::{over_http, version},
    watcher::{Watcher, all_of},
};
use anyhow::{Context, Result};
use market::{Best, BestSide, Side, Venue};
use sprag_tests::process::{self, Server, until};
use std::collections::BTreeSet;
use wire::Channel;

const SMALL: [&str; 5] = ["--no-store", "--set", "sim.pairs=4", "--set", "sim.updates_per_second=400"];
const KRAKEN: &str = "kraken_spot/BTC/USDT";
const BINANCE: &str = "binance_spot/BTCUSDT";

#[test]
fn health_metrics_instruments_and_books_are_told_over_http() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &SMALL)?;
    assert_eq!(server.get("/healthz")?.body, "ok\n");
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 8)?;
    let ready = server.get("/readyz")?;
    assert_eq!((ready.status, &ready.json()?["ready"]), (200, &true.into()));
    assert!(server.metric(r#"sprag_lane_events_total{event="applied"}"#)? > 0);
    assert_eq!(server.metric(r#"sprag_terminals{what="connected"}"#)?, 0);
    for line in server.get("/metrics")?.body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').context("no value")?;
        assert!(name.starts_with("sprag_") && value.parse::<u64>().is_ok(), "{line}");
    }

    let listed = server.get("/v1/instruments")?.json()?;
    let names: BTreeSet<&str> =
        listed.as_array().unwrap().iter().filter_map(|row| row["instrument"].as_str()).collect();
    assert_eq!(names.len(), 8);
    assert!(names.contains(BINANCE) && names.contains(KRAKEN), "{names:?}");
    for name in &names {
        let book = over_http(&server, name)?;
        assert_eq!((book["instrument"].as_str(), book["state"].as_str()), (Some(*name), Some("LIVE")));
        assert!(!book["bids"].as_array().unwrap().is_empty() && !book["asks"].as_array().unwrap().is_empty());
    }
    // Kraken's slash unescaped is the same book.
    assert_eq!(server.get(&format!("/v1/books/{KRAKEN}"))?.json()?["instrument"], KRAKEN);
    for unknown in ["/v1/books/binance_spot%2FNONE", "/v1/books/nowhere", "/v2"] {
        let answer = server.get(unknown)?;
        assert_eq!(answer.status, 404, "{unknown}");
        assert!(answer.json()?["error"].is_string());
    }
    Ok(())
}

/// A book that stands still has one tag; a book that moved has another.
#[test]
fn an_etag_is_the_version_and_spares_the_body() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &["--no-store", "--set", "sim.pairs=1"])?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 2)?;
    let path = "/v1/books/binance_spot%2FBTCUSDT";
    let answer = server.get(path)?;
    let tag = answer.header("etag").context("no ETag")?.to_owned();
    assert_eq!(tag, format!("\"{}\"", version(&answer.json()?)?));
    let moved = until("another version", || {
        let answer = server.get(path)?;
        Ok((answer.header("etag") != Some(&tag)).then_some(answer))
    })?;
    assert_eq!(moved.status, 200);
    until("an unchanged book", || {
        let tag = server.get(path)?.header("etag").context("no ETag")?.to_owned();
        let again = process::get(server.address(), path, &[("If-None-Match", &tag)])?;
        let spared = again.status == 304 && again.body.is_empty() && again.header("etag") == Some(&tag);
        Ok(spared.then_some(()))
    })
}

#[tokio::test]
async fn a_terminal_sees_prices_move_and_nothing_turn_back() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &SMALL)?;
    let channels = [Channel::Book, Channel::Quote, Channel::Trades, Channel::Best];
    let mut watcher = Watcher::new(&server.stream_url(), &all_of(&channels))?;
    let moved = |watcher: &Watcher, name: &str| {
        let prices: BTreeSet<_> = watcher.prices.get(name).into_iter().flatten().collect();
        prices.len() >= 3
    };
    let enough = |watcher: &Watcher| {
        moved(watcher, BINANCE)
            && moved(watcher, KRAKEN)
            && watcher.versions.len() == 8
            && watcher.quotes > 50
            && watcher.trades > 10
            && watcher.bests > 20
    };
    watcher.until("prices that move on all channels", enough).await?;
    assert!(watcher.is_clean(), "{:?}", watcher.session().counters());
    assert_eq!(watcher.gaps, 0);
    // Everything that a frame brings is of one cut, so a quote is that of its book, and a best that of both quotes.
    let session = watcher.session();
    for name in session.instruments() {
        let (book, shown) = (session.book(name).unwrap(), session.quote(name).unwrap());
        assert!(shown.version <= book.version(), "{name}");
        assert_eq!(Side::BOTH.map(|side| book.best(side)), [shown.quote.bid, shown.quote.ask], "{name}");
    }
    let of = |venue: Venue, name: &str| {
        let shown = session.quote(name).unwrap();
        let side = |level| BestSide::of(venue, level, shown.scale);
        Best { bid: shown.quote.bid.and_then(side), ask: shown.quote.ask.and_then(side) }
    };
    let naive = of(Venue::BinanceSpot, BINANCE).merge(of(Venue::KrakenSpot, KRAKEN));
    assert_eq!(session.best("BTC/USDT"), Some(&naive));
    Ok(())
}

/// The picture on a pipe: ladders whose prices change.
#[test]
fn watch_prints_ladders_that_change() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &SMALL)?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 8)?;
    let output = process::output(["watch", BINANCE, "--url", &server.stream_url(), "--seconds", "3", "--levels", "3"])?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    assert!(text.contains("connected, simulated or replayed data"), "{text}");
    assert!(!text.contains('\u{1b}'), "no escape sequences on a pipe");
    let ladders: Vec<&str> = text.split("\n\n").filter(|part| part.contains("LIVE")).collect();
    let prices: BTreeSet<Vec<&str>> = ladders
        .iter()
        .map(|ladder| ladder.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect())
        .collect();
    assert!(prices.len() >= 3, "{text}");
    for ladder in &prices {
        let at = ladder.iter().position(|price| *price == "----").context("no middle")?;
        assert_eq!((at, ladder.len()), (3, 7), "{ladder:?}");
        let number = |price: &&str| price.replace('.', "").parse::<u64>();
        let rows: Vec<u64> = ladder.iter().filter(|price| **price != "----").map(number).collect::<Result<_, _>>()?;
        assert!(rows.windows(2).all(|pair| pair[0] > pair[1]), "highest first: {ladder:?}");
    }
    Ok(())
}
