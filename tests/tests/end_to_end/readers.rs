//! Readers over HTTP: one that follows a book by its changes has the book, from memory and from the store; bytes say what text
//! says.
//!
//! Never: two books compared that are not at one version.

use crate::books::{canonical, version};
use anyhow::{Context, Result, ensure};
use market::{FeedState, Version};
use serde_json::Value;
use sprag_tests::process::{self, Server, until};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

const BOOK: &str = "/v1/books/binance_spot/BTCUSDT";
/// Slow enough that a reader and a question sometimes meet at one version, fast enough that all of it happens.
const MARKET: [&str; 4] = ["--set", "sim.pairs=2", "--set", "sim.updates_per_second=80"];
/// So long a reader follows at least.
const FOLLOW: Duration = Duration::from_secs(5);

/// Quantity by side and price, canonical.
type Levels = BTreeMap<(&'static str, String), String>;

fn rows(body: &Value) -> Result<Vec<((&'static str, String), String)>> {
    let mut found = Vec::new();
    for side in ["bids", "asks"] {
        for row in body[side].as_array().with_context(|| format!("no {side} in {body}"))? {
            let text = |at: usize| row[at].as_str().map(canonical).context("a number that is no text");
            found.push(((side, text(0)?), text(1)?));
        }
    }
    Ok(found)
}

fn levels(body: &Value) -> Result<Levels> {
    Ok(rows(body)?.into_iter().collect())
}

fn json(server: &Server, path: &str) -> Result<Value> {
    let answer = server.get(path)?;
    ensure!(answer.status == 200, "{path}: {answer:?}");
    answer.json()
}

/// A reader as the document tells one to be.
struct Follower {
    version: Version,
    levels: Levels,
    wholes: usize,
    changes: usize,
    /// What it held at each version.
    held: BTreeMap<Version, Levels>,
}

impl Follower {
    fn begin(server: &Server) -> Result<Self> {
        let book = json(server, BOOK)?;
        let (version, levels) = (version(&book)?, levels(&book)?);
        Ok(Self { version, levels, wholes: 0, changes: 0, held: BTreeMap::new() })
    }

    fn step(&mut self, server: &Server, wait_ms: u64) -> Result<()> {
        let told = json(server, &format!("{BOOK}/changes?since={}&wait_ms={wait_ms}", self.version))?;
        let now = version(&told)?;
        ensure!(now >= self.version, "{now} after {}", self.version);
        if told["whole"] == true {
            self.wholes += 1;
            self.levels = levels(&told)?;
        } else {
            ensure!(told["from"] == self.version.to_string(), "{told}");
            self.changes += 1;
            for (place, quantity) in rows(&told)? {
                if quantity == "0" {
                    self.levels.remove(&place);
                } else {
                    self.levels.insert(place, quantity);
                }
            }
        }
        self.version = now;
        self.held.insert(now, self.levels.clone());
        Ok(())
    }
}

#[test]
fn a_reader_that_follows_changes_has_the_book_and_the_store_has_it_too() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &MARKET)?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 4)?;
    let mut follower = Follower::begin(&server)?;
    let since = Instant::now();
    while since.elapsed() < FOLLOW {
        follower.step(&server, 200)?;
    }
    assert!(follower.changes > 20 && follower.changes > 10 * follower.wholes, "{}", follower.changes);
    until("a book at the reader's version", || {
        follower.step(&server, 0)?;
        let book = json(&server, BOOK)?;
        let same = version(&book)? == follower.version;
        ensure!(!same || levels(&book)? == follower.levels, "the reader has another book at {}", follower.version);
        Ok(same.then_some(()))
    })?;
    until("a stored book at a version that the reader held", || {
        follower.step(&server, 100)?;
        let book = json(&server, &format!("{BOOK}?source=store"))?;
        assert_eq!(
            (&book["state"], &book["source"], &book["newer_ticks"]),
            (&"stored".into(), &"store".into(), &0.into())
        );
        let Some(held) = follower.held.get(&version(&book)?) else { return Ok(None) };
        ensure!(levels(&book)? == *held, "the store has another book at {}", version(&book)?);
        Ok(Some(()))
    })?;
    assert_eq!(server.metric(r#"sprag_http_waiting{what="change"}"#)?, 0);
    assert!(server.terminate()?.success());
    Ok(())
}

#[test]
fn a_reader_that_follows_the_store_has_what_is_stored() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &MARKET)?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 4)?;
    let stored = |server: &Server| json(server, &format!("{BOOK}?source=store"));
    let book = until("a stored book", || Ok(Some(stored(&server)?).filter(|book| book["version"].is_string())))?;
    let (mut held, mut ticks) = (version(&book)?, levels(&book)?);
    let mut followed = 0;
    until("a stored book at the reader's version", || {
        let told = json(&server, &format!("{BOOK}/changes?source=store&since={held}"))?;
        if told["whole"] == true {
            ticks.clear();
        }
        for tick in told["ticks"].as_array().context("no ticks")? {
            let text = |name: &str| tick[name].as_str().map(canonical).context("a number that is no text");
            let side = if tick["side"] == "bid" { "bids" } else { "asks" };
            let (place, quantity) = ((side, text("price")?), text("quantity")?);
            if quantity == "0" {
                ticks.remove(&place)
            } else {
                ticks.insert(place, quantity)
            };
        }
        let now = version(&told)?;
        ensure!(now >= held, "{now} after {held}");
        followed += usize::from(now > held && told["whole"] == false);
        held = now;
        let book = stored(&server)?;
        let same = version(&book)? == held;
        ensure!(!same || levels(&book)? == ticks, "the reader has another book at {held}");
        Ok((same && followed >= 5).then_some(()))
    })?;
    assert!(server.terminate()?.success());
    Ok(())
}

/// Head and body of an answer, whatever its bytes are.
fn raw(server: &Server, path: &str, headers: &str) -> Result<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(process::PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{headers}\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").context("no end of the head")?;
    let body = answer.split_off(at + 4);
    Ok((String::from_utf8(answer)?.to_ascii_lowercase(), body))
}

#[test]
fn bytes_text_and_headers_agree() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &["--no-store", "--set", "sim.pairs=1"])?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 2)?;
    until("text and bytes at one version", || {
        let text = json(&server, BOOK)?;
        let (head, body) = raw(&server, BOOK, "Accept: application/vnd.sprag.v1\r\n")?;
        for line in ["http/1.1 200", "content-type: application/vnd.sprag.v1", "vary: accept", "sprag-state: live"] {
            assert!(head.contains(line), "{line} is missing in {head}");
        }
        let books = receiver::books_of(&body)?;
        let [found] = &books[..] else { panic!("{books:?}") };
        assert_eq!((&*found.instrument, found.feed.state), ("binance_spot/BTCUSDT", FeedState::Live));
        assert!(head.contains(&format!("etag: \"{}.v1\"", found.book.version())), "{head}");
        if version(&text)? != found.book.version() {
            return Ok(None);
        }
        assert_eq!(crate::books::of_receiver(&found.book), crate::books::of_json(&text)?);
        Ok(Some(()))
    })?;
    let (head, _) = raw(&server, BOOK, "Accept: text/html\r\n")?;
    assert!(head.starts_with("http/1.1 406"), "{head}");
    let pair = json(&server, "/v1/pairs/BTC/USDT/book?depth=1")?;
    assert_eq!(pair["books"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.get(&format!("{BOOK}?source=store"))?.status, 404);
    Ok(())
}
