//! Simulated venues as a process, and servers that are connected to them.
//!
//! Never: a book of the market taken from anyone but the venues themselves.

use crate::books::{Book, of_json, over_http};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sprag_tests::process::{self, Launch, Server};
use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// Per venue that can be connected to: its name, the path of its stream, the path of its REST.
pub(crate) const VENUES: [(&str, &str, &str); 7] = [
    ("binance_spot", "binance_spot/stream", "binance_spot"),
    ("kraken_spot", "kraken_spot/v2", "kraken_spot"),
    ("binance_usdm", "binance_usdm/stream", "binance_usdm"),
    ("coinbase", "coinbase/advanced", "coinbase"),
    ("okx", "okx/ws/v5/public", "okx"),
    ("bitfinex", "bitfinex/ws/2", "bitfinex"),
    ("deribit", "deribit/ws/api/v2", "deribit"),
];
/// The depth that is subscribed to at Kraken, which is as deep as its stream goes.
const KRAKEN_DEPTH: usize = 100;

/// Books by instrument.
pub(crate) type Books = BTreeMap<String, Book>;

/// Simulated venues.
pub(crate) struct Market(Server);

impl Market {
    /// Starts Binance spot and Kraken spot with that many pairs.
    pub(crate) fn start(pairs: u32, updates_per_second: u32) -> Result<Self> {
        Self::start_at(&["binance_spot", "kraken_spot"], pairs, updates_per_second)
    }

    /// Starts some venues with that many pairs.
    pub(crate) fn start_at(venues: &[&str], pairs: u32, updates_per_second: u32) -> Result<Self> {
        let (pairs, rate) = (pairs.to_string(), updates_per_second.to_string());
        let shape = ["--seed", "3", "--pairs", &pairs, "--updates-per-second", &rate, "--book-levels", "40"];
        let venues = ["--venues", &venues.join(",")];
        Ok(Self(Launch::default().with(&["venue-sim", "--port", "0"]).with(&shape).with(&venues).spawn()?.up()?))
    }

    /// Starts a venue that serves a capture at that share of its own pace, from the moment at which so many connections
    /// subscribed.
    pub(crate) fn of_capture(venue: &str, capture: &Path, speed: f64, subscribers: u32) -> Result<Self> {
        let launch = Launch::default().with(&["venue-sim", "--port", "0", "--venue", venue, "--capture"]);
        let waits = ["--wait-for-subscribers", &subscribers.to_string(), "--speed", &speed.to_string()];
        Ok(Self(launch.with_path(capture).with(&waits).spawn()?.up()?))
    }

    /// Every instrument's book as a terminal should have it.
    pub(crate) fn books(&self) -> Result<Books> {
        let answer = self.0.get("/sim/books")?;
        ensure!(answer.status == 200, "{answer:?}");
        let body: Value = answer.json()?;
        let named = |book: &Value| {
            let text = |name: &str| book[name].as_str().with_context(|| format!("no {name} in {book}"));
            let mut levels = of_json(book)?;
            if text("venue")? == "kraken_spot" {
                levels.iter_mut().for_each(|side| side.truncate(KRAKEN_DEPTH));
            }
            Ok((format!("{}/{}", text("venue")?, text("symbol")?), levels))
        };
        body.as_array().context("no books")?.iter().map(named).collect()
    }

    /// The id of the last update of a Binance symbol.
    pub(crate) fn update_id(&self, symbol: &str) -> Result<u64> {
        let body = self.0.get("/sim/books")?.json()?;
        let books = body.as_array().context("no books")?;
        let book = books.iter().find(|book| book["venue"] == "binance_spot" && book["symbol"] == symbol);
        book.and_then(|book| book["last_update_id"].as_u64()).context("no id")
    }

    /// Ends every fault.
    pub(crate) fn clear_faults(&self) -> Result<()> {
        self.0.delete("/sim/faults").map(drop)
    }

    /// The state of the venues.
    pub(crate) fn state(&self) -> Result<Value> {
        self.0.get("/sim/state")?.json()
    }

    /// Sets a fault.
    pub(crate) fn fault(&self, fault: &Value) -> Result<()> {
        self.0.post("/sim/faults", &fault.to_string()).map(drop)
    }

    /// How often a kind of fault fired.
    pub(crate) fn fired(&self, name: &str) -> Result<u64> {
        Ok(self.0.get("/sim/faults")?.json()?["fired"][name].as_u64().unwrap_or(0))
    }

    /// Waits until a kind of fault fired that often.
    pub(crate) fn await_fired(&self, name: &str, least: u64) -> Result<u64> {
        process::until(&format!("{name} fired {least} times"), || {
            Ok(Some(self.fired(name)?).filter(|fired| *fired >= least))
        })
    }

    /// Makes the market stand still; gives its books.
    pub(crate) fn pause(&self) -> Result<Books> {
        self.0.post("/sim/pause", "")?;
        process::until("the market stands still", || {
            let books = self.books()?;
            Ok((books == self.books()?).then_some(books))
        })
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) -> Result<()> {
        self.0.post("/sim/resume", "").map(drop)
    }

    /// The table that connects to one venue, of which the paths of stream and REST are given.
    pub(crate) fn live(&self, venue: &str, paths: (&str, &str), symbols: &[&str], legs: u32) -> Result<String> {
        let ((stream, rest), at) = (paths, self.0.address());
        let mut text = String::new();
        writeln!(
            text,
            "[[live]]\nvenue = \"{venue}\"\ninstruments = {symbols:?}\nlegs = {legs}\n\
             ws_url = \"ws://{at}/{stream}\"\nrest_url = \"http://{at}/{rest}\""
        )?;
        Ok(text)
    }

    /// A configuration that connects to the venues, all or one of them, with more settings of one's own.
    pub(crate) fn configuration(&self, directory: &Path, venues: &[&str], legs: u32, more: &str) -> Result<PathBuf> {
        let mut text = format!("{more}\n[source]\nkind = \"live\"\n");
        let names = self.books()?;
        for (venue, stream, rest) in VENUES.iter().filter(|(venue, ..)| venues.contains(venue)) {
            let symbols: Vec<_> = names.keys().filter_map(|name| name.strip_prefix(venue)?.strip_prefix('/')).collect();
            text.push_str(&self.live(venue, (stream, rest), &symbols, legs)?);
        }
        let path = directory.join("live.toml");
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// Waits until a server tells exactly these books.
pub(crate) fn await_books(what: &str, server: &Server, books: &Books) -> Result<()> {
    let told = || -> Result<Books> {
        books.keys().map(|name| Ok((name.clone(), of_json(&over_http(server, name)?)?))).collect()
    };
    process::until(&format!("the books of {what}"), || Ok((told()? == *books).then_some(())))
}

/// A fault by its kind, venue and symbol.
pub(crate) fn of_symbol(fault: &str, venue: &str, symbol: &str, count: u32) -> Value {
    json!({"fault": fault, "venue": venue, "symbol": symbol, "count": count})
}
