//! One form for a book, whoever tells it: the reference, HTTP, a receiver, the store.
//!
//! Never: a number that is not text.

use anyhow::{Context, Result, ensure};
use connectors::{
    capture::CaptureReader,
    clickhouse::{StoreAddress, StoredTick, read},
    raw::RawPayload,
};
use market::{Directory, Scale, Side, Venue, Version};
use serde_json::Value;
use sprag_tests::{
    process::{self, Server},
    reference::FinalBook,
};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

/// Price and quantity of each level of a side, best first, canonical decimals.
pub(crate) type Levels = Vec<(String, String)>;

/// Bids and asks.
pub(crate) type Book = [Levels; 2];

/// A decimal without trailing zeros, which is how the reference spells them.
pub(crate) fn canonical(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
}

pub(crate) fn of_reference(book: &FinalBook) -> Book {
    [book.bids.clone(), book.asks.clone()]
}

/// The book of a `/v1/books` body or of a row with `bids` and `asks`.
pub(crate) fn of_json(body: &Value) -> Result<Book> {
    let side = |name: &str| {
        let rows = body[name].as_array().with_context(|| format!("no {name} in {body}"))?;
        let text = |value: &Value| value.as_str().map(canonical).context("a number that is no text");
        rows.iter().map(|row| Ok((text(&row[0])?, text(&row[1])?))).collect::<Result<Levels>>()
    };
    Ok([side("bids")?, side("asks")?])
}

pub(crate) fn of_receiver(book: &receiver::Book) -> Book {
    let scale = book.scale();
    Side::BOTH.map(|side| {
        let level = |level: market::Level| {
            (canonical(&scale.price_text(level.tick_index)), canonical(&scale.quantity_text(level.quantity)))
        };
        book.levels(side).map(level).collect()
    })
}

pub(crate) fn of_store(mut ticks: Vec<StoredTick>) -> Book {
    ticks.sort_by_key(|tick| tick.side.rank(tick.key.tick_index));
    Side::BOTH.map(|side| {
        let level = |tick: &StoredTick| {
            let scale: Scale = tick.scale;
            (canonical(&scale.price_text(tick.key.tick_index)), canonical(&scale.quantity_text(tick.reserves)))
        };
        ticks.iter().rev().filter(|tick| tick.side == side).map(level).collect()
    })
}

/// `/v1/books` of an instrument, its name percent-encoded as one segment.
pub(crate) fn over_http(server: &Server, instrument: &str) -> Result<Value> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let answer = server.get(&format!("/v1/books/{}", instrument.bytes().map(encode).collect::<String>()))?;
    ensure!(answer.status == 200, "{answer:?}");
    answer.json()
}

/// Epoch and sequence of a `/v1/books` body.
pub(crate) fn version(body: &Value) -> Result<Version> {
    let seq = body["seq"].as_str().context("a book without version")?;
    Ok(Version::new(body["epoch"].as_u64().context("no epoch")?, seq.parse()?))
}

/// The engine of a running server.
pub(crate) fn store_of(data_dir: &Path) -> Result<StoreAddress> {
    let text = fs::read_to_string(data_dir.join("clickhouse.url"))?;
    let url = text.lines().next().context("an empty address file")?.to_owned();
    Ok(StoreAddress { url, database: "sprag".to_owned(), user: None, password: None })
}

/// The greatest version of each symbol in the store.
pub(crate) async fn stored_versions(address: &StoreAddress) -> Result<BTreeMap<String, Version>> {
    let versions = read::instrument_versions(&address.client()).await?;
    Ok(versions.into_iter().map(|stored| (stored.symbol.clone(), stored.version())).collect())
}

/// The live book of an instrument in the store.
pub(crate) async fn stored(address: &StoreAddress, venue: Venue, listed: &Value) -> Result<Book> {
    let text = |name: &str| listed[name].as_str().with_context(|| format!("no {name} in {listed}"));
    let instrument: Arc<market::Instrument> =
        Directory::default().intern(venue, text("symbol")?, text("asset_0")?, text("asset_1")?)?;
    Ok(of_store(read::book(&address.client(), &instrument).await?))
}

/// Rows of `sprag sql`, one JSON object each.
pub(crate) fn ask(data_dir: &Path, query: &str) -> Result<Vec<Value>> {
    let data_dir = data_dir.to_str().context("a data directory that is not text")?;
    let output = process::output(["sql", "--data-dir", data_dir, "--format", "JSONEachRow", query])?;
    ensure!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The live books by symbol, as an analyst's own query tells them.
pub(crate) fn asked(data_dir: &Path) -> Result<BTreeMap<String, Book>> {
    let query = "SELECT symbol, asset_in = asset_1 AS bid, toString(price) AS price, toString(quantity) AS quantity \
                 FROM tick_state FINAL WHERE reserves_zero = 0 ORDER BY if(bid, -tick_index, tick_index)";
    let mut books: BTreeMap<String, Book> = BTreeMap::new();
    for row in ask(data_dir, query)? {
        let text = |name: &str| row[name].as_str().with_context(|| format!("no {name} in {row}"));
        let book = books.entry(text("symbol")?.to_owned()).or_default();
        let side = if row["bid"] == 1 { &mut book[0] } else { &mut book[1] };
        side.push((canonical(text("price")?), canonical(text("quantity")?)));
    }
    Ok(books)
}

/// Frames of a capture as text with their positions, from 1.
pub(crate) fn frames(capture: &Path) -> Result<Vec<(u64, String)>> {
    let mut frames = Vec::new();
    for frame in CaptureReader::open(capture, 0)? {
        let frame = frame?;
        let text = match frame.frame.raw {
            RawPayload::Text(text) => text,
            RawPayload::Binary(_) => String::new(),
        };
        frames.push((frame.line, text));
    }
    Ok(frames)
}
