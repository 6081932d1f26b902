//! Every venue that can be connected to, on two legs, over real sockets: whatever goes wrong on the way, the books end as
//! they are at the venue, and nothing is shown that was not so.
//!
//! Never: a fault that did not fire; a book compared with anything but the venue's own.

mod faults;
mod legs;

use crate::{
    books::{Book, of_json, over_http},
    market::{Books, Market},
    watcher::{Watcher, all_of},
};
use anyhow::{Context, Result};
use serde_json::Value;
use sprag_tests::process::{self, Launch, Server};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tempfile::TempDir;
use wire::Channel;

/// How often the watching terminal looks whether it shall stop.
const TURN: Duration = Duration::from_millis(100);

/// Venues, a server without a store that is connected to them on two legs, and a terminal that watches every book.
struct Stage {
    market: Market,
    server: Server,
    watcher: Option<JoinHandle<Result<Watcher>>>,
    stop: Arc<AtomicBool>,
    _data: TempDir,
}

impl Stage {
    fn set(market: Market, venues: &[&str], legs: u32, more: &str) -> Result<Self> {
        let data = tempfile::tempdir()?;
        let config = market.configuration(data.path(), venues, legs, more)?;
        Self::with(market, &config, data)
    }

    /// Of one venue, with these words in its table beside.
    fn of_venue(market: Market, at: &Place, symbols: &[&str], legs: u32) -> Result<Self> {
        let data = tempfile::tempdir()?;
        let config = data.path().join("live.toml");
        let live = market.live(at.venue, (at.stream, at.venue), symbols, legs)?;
        std::fs::write(&config, format!("[source]\nkind = \"live\"\n{live}{}", at.more))?;
        Self::with(market, &config, data)
    }

    fn with(market: Market, config: &Path, data: TempDir) -> Result<Self> {
        let server = Launch::run(data.path(), 0).with(&["--no-store", "--config"]).with_path(config).spawn()?.up()?;
        let (url, stop) = (server.stream_url(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let watcher = thread::spawn(move || watch(&url, &stopped));
        Ok(Self { market, server, watcher: Some(watcher), stop, _data: data })
    }

    fn book(&self, instrument: &str) -> Result<Value> {
        over_http(&self.server, instrument)
    }

    fn lanes(&self, event: &str) -> Result<u64> {
        self.server.metric(&format!("sprag_lane_events_total{{event=\"{event}\"}}"))
    }

    fn states(&self, instruments: &Books) -> Result<BTreeMap<String, String>> {
        let state = |name: &String| {
            let book = self.book(name)?;
            Ok((name.clone(), book["state"].as_str().context("no state")?.to_owned()))
        };
        instruments.keys().map(state).collect()
    }

    fn await_live(&self, books: &Books) -> Result<()> {
        process::until("every book is live", || {
            let live = |name: &String| Ok(self.book(name)?["state"] == "LIVE");
            let live: Result<Vec<bool>> = books.keys().map(live).collect();
            Ok(live?.into_iter().all(|live| live).then_some(()))
        })
    }

    /// Waits until the server's books are the venue's, and all of them are live.
    fn await_books(&self, books: &Books) -> Result<()> {
        self.await_books_in(&["LIVE"], usize::MAX, books)
    }

    /// The same, in one of some states, down to a depth.
    fn await_books_in(&self, states: &[&str], depth: usize, books: &Books) -> Result<()> {
        let cut = |book: &Book| book.clone().map(|side| side.into_iter().take(depth).collect::<Vec<_>>());
        for (name, right) in books {
            let right = cut(right);
            let told = process::until(&format!("the book of {name}"), || {
                let book = self.book(name)?;
                let stands = states.iter().any(|state| book["state"] == *state);
                Ok((stands && cut(&of_json(&book)?) == right).then_some(()))
            });
            told.with_context(|| format!("{name}: {:?}", self.book(name).map(|book| book["state"].clone())))?;
        }
        Ok(())
    }

    /// Subscriptions of each open connection, by venue.
    fn subscriptions(&self) -> Result<BTreeMap<String, Vec<usize>>> {
        let state = self.market.state()?;
        let mut all: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for connection in state["connections"].as_array().context("no connections")? {
            let venue = connection["venue"].as_str().context("no venue")?;
            let count = connection["subscriptions"].as_array().map_or(0, Vec::len);
            all.entry(venue.to_owned()).or_default().push(count);
        }
        all.values_mut().for_each(|counts| counts.sort_unstable());
        Ok(all)
    }

    /// Ends the watching terminal: what it saw, if nothing was shown that may not be.
    fn watched(&mut self) -> Result<Watcher> {
        self.stop.store(true, Relaxed);
        let watcher = self.watcher.take().context("watched already")?;
        watcher.join().ok().context("the watcher panicked")?
    }
}

/// Watches every book until it shall stop.
fn watch(url: &str, stop: &AtomicBool) -> Result<Watcher> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut watcher = Watcher::new(url, &all_of(&[Channel::Book]))?;
        while !stop.load(Relaxed) {
            watcher.turn(TURN).await?;
        }
        Ok(watcher)
    })
}

/// Where a venue is connected to, in which of its protocols.
struct Place {
    venue: &'static str,
    stream: &'static str,
    /// More words of its table.
    more: &'static str,
    /// A capture of it.
    capture: &'static str,
}

/// Every venue in every protocol.
const PLACES: [Place; 8] = [
    Place {
        venue: "binance_spot",
        stream: "binance_spot/stream",
        more: "",
        capture: "binance_spot/binance_spot_2021-04.frames.jsonl.zst",
    },
    Place {
        venue: "kraken_spot",
        stream: "kraken_spot/v2",
        more: "",
        capture: "kraken_v2/kraken_v2_btcusd_sample.frames.jsonl.zst",
    },
    Place {
        venue: "binance_usdm",
        stream: "binance_usdm/stream",
        more: "",
        capture: "binance_usdm/binance_usdm_2021-07.frames.jsonl.zst",
    },
    Place {
        venue: "coinbase",
        stream: "coinbase/advanced",
        more: "",
        capture: "coinbase/coinbase_2021-04.frames.jsonl.zst",
    },
    Place {
        venue: "coinbase",
        stream: "coinbase/",
        more: "protocol = \"exchange\"\n",
        capture: "coinbase/coinbase_2021-04.frames.jsonl.zst",
    },
    Place { venue: "okx", stream: "okx/ws/v5/public", more: "", capture: "okx/okx_2022-02.frames.jsonl.zst" },
    Place {
        venue: "bitfinex",
        stream: "bitfinex/ws/2",
        more: "",
        capture: "bitfinex/bitfinex_2021-04.frames.jsonl.zst",
    },
    Place {
        venue: "deribit",
        stream: "deribit/ws/api/v2",
        more: "",
        capture: "deribit/deribit_2021-04.frames.jsonl.zst",
    },
];

/// Lines of a capture that the venue sent as messages.
fn messages(capture: &Path) -> Result<u64> {
    let mut count = 0;
    for line in connectors::capture::MergedCaptures::open(&[capture.to_owned()])? {
        count += u64::from(line?.frame.kind == connectors::raw::RawKind::Ws);
    }
    Ok(count)
}

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}
