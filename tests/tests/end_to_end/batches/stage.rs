//! A Pub/Sub server, who publishes to it, and servers of ours that take its batches.
//!
//! Never: a message that is not as the test says.

use super::{
    chain::{BEFORE, Ladders, as_text},
    watchers::Watchers,
};
use crate::books::{Book, ask, of_json, over_http};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use connectors::{
    neutron_dex::generator::GeneratedBatch,
    pubsub::{
        client::PubSubAddress,
        content,
        header::{BatchHeader, Encoding},
        publish::{PublishBounds, Publishing, publish_batch},
    },
};
use market::{FeedState, batch::BatchKind};
use pubsub_emulator::Emulator;
use serde_json::Value;
use sprag_tests::process::{self, Launch, Server};
use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

pub(super) const STREAM: &str = "neutron-1";
pub(super) const TOPIC: &str = "projects/test/topics/batches";
pub(super) const SUBSCRIPTION: &str = "projects/test/subscriptions/batches";

/// Longest wait for what needs a lease to end first.
pub(super) const LEASE_PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Stage {
    pub(super) emulator: Emulator,
    pub(super) runtime: Runtime,
    address: PubSubAddress,
    publishing: Publishing,
}

/// The metric of something that happened to the stream.
pub(super) fn event(name: &str) -> String {
    format!("sprag_batch_events_total{{event=\"{name}\"}}")
}

/// The metric of the stream's state.
pub(super) fn state(name: &str) -> String {
    format!("sprag_batch_stream{{what=\"{name}\"}}")
}

/// The header of a batch as one message.
pub(super) fn header(batch: &GeneratedBatch, encoding: Encoding) -> BatchHeader {
    BatchHeader {
        stream: STREAM.into(),
        kind: batch.name.kind,
        height: batch.name.height,
        previous: batch.name.previous,
        id: batch.name.id,
        encoding,
        block_time_ns: batch.block_time_ns,
        part: 0,
        parts: 1,
    }
}

impl Stage {
    /// With one topic and one subscription, whose leases are of 10 s.
    pub(super) fn new() -> Result<Self> {
        let runtime = Runtime::new()?;
        let emulator = Emulator::start(([127, 0, 0, 1], 0).into())?;
        emulator.create_topic(TOPIC)?;
        emulator.create_subscription(SUBSCRIPTION, TOPIC)?;
        let address = PubSubAddress::new(Some(&emulator.endpoint()), None)?;
        let publisher = runtime.block_on(address.publisher(&TOPIC.parse()?))?;
        let publishing = Publishing::new(publisher, PublishBounds::default());
        Ok(Self { emulator, runtime, address, publishing })
    }

    /// Another topic, with a subscription of its own.
    pub(super) fn topic(&self, name: &str) -> Result<(String, Publishing)> {
        let topic = format!("projects/test/topics/{name}");
        let subscription = format!("projects/test/subscriptions/{name}");
        self.emulator.create_topic(&topic)?;
        self.emulator.create_subscription(&subscription, &topic)?;
        let publisher = self.runtime.block_on(self.address.publisher(&topic.parse()?))?;
        Ok((subscription, Publishing::new(publisher, PublishBounds::default())))
    }

    /// A server of a subscription.
    pub(super) fn launch_of(&self, data_dir: &Path, port: u16, subscription: &str, stream: &str) -> Launch {
        let from = format!("pubsub.begin_after={BEFORE}");
        let launch = Launch::run(data_dir, port).with(&["--subscription", subscription, "--stream", stream]);
        // What a killed server had in hand comes again as soon as the protocol allows it.
        let launch = launch.with(&["--set", &from, "--set", "pubsub.lease_seconds=10"]);
        launch.with_variable("PUBSUB_EMULATOR_HOST", &self.emulator.address().to_string())
    }

    /// A server of the one subscription.
    pub(super) fn launch(&self, data_dir: &Path, port: u16) -> Launch {
        self.launch_of(data_dir, port, SUBSCRIPTION, STREAM).with(&["--topic", TOPIC])
    }

    /// Such a server, once it is up.
    pub(super) fn start(&self, data_dir: &Path) -> Result<Server> {
        self.launch(data_dir, 0).spawn()?.up()
    }

    /// Receivers of a server.
    pub(super) fn watch(&self, server: &Server, count: usize) -> Result<Watchers> {
        Watchers::start(&self.runtime, &server.stream_url(), count, None)
    }

    /// Publishes batches one after the other, in turn in each encoding.
    pub(super) fn publish<'a>(&self, batches: impl IntoIterator<Item = &'a GeneratedBatch>) -> Result<()> {
        for batch in batches {
            self.publish_by(&self.publishing, batch)?;
        }
        Ok(())
    }

    /// Publishes a batch to another topic.
    pub(super) fn publish_by(&self, publishing: &Publishing, batch: &GeneratedBatch) -> Result<()> {
        let encoding = match batch.name.height % 3 {
            0 => Encoding::Identity,
            1 => Encoding::Gzip,
            _ => Encoding::Zstd,
        };
        let content = Bytes::copy_from_slice(&batch.content);
        self.runtime.block_on(publish_batch(publishing, &header(batch, encoding), content))?;
        Ok(())
    }

    /// Publishes a content under a header, in as many parts as it takes.
    pub(super) fn publish_as(&self, header: &BatchHeader, content: &[u8]) -> Result<usize> {
        let sent = publish_batch(&self.publishing, header, Bytes::copy_from_slice(content));
        Ok(self.runtime.block_on(sent)?.message_ids.len())
    }

    /// Publishes a message as it is.
    pub(super) fn message(&self, attributes: &BTreeMap<String, String>, data: &[u8]) -> Result<()> {
        let attributes = attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        self.runtime.block_on(self.publishing.message(attributes, Bytes::copy_from_slice(data)))?;
        Ok(())
    }

    /// Waits until everything that was published is acknowledged.
    pub(super) fn drained(&self) -> Result<()> {
        let drained = || Ok((self.emulator.backlog(SUBSCRIPTION) == Some((0, 0))).then_some(()));
        process::until_within("everything is acknowledged", LEASE_PATIENCE, drained)
            .with_context(|| format!("{:?}", self.emulator.backlog(SUBSCRIPTION)))
    }

    /// The same of a stream on which nothing new is published: what is silent is STALE, so one batch comes again and again.
    pub(super) fn shown_hearing(
        &self,
        watchers: &Watchers,
        books: &Ladders,
        state: FeedState,
        again: &GeneratedBatch,
    ) -> Result<()> {
        let shown = self.hearing(&format!("the books {state:?}"), again, || Ok(watchers.all_show(books, state)));
        shown.with_context(|| watchers.told())
    }

    /// Waits for a condition, while a batch that is known comes again now and then: seldom enough for the stream to count
    /// as caught up between two of them, often enough not to be silent.
    pub(super) fn hearing(&self, what: &str, again: &GeneratedBatch, holds: impl Fn() -> Result<bool>) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(1_500);
        let mut published: Option<Instant> = None;
        process::until(what, || {
            if published.is_none_or(|published| published.elapsed() > EVERY) {
                self.publish([again])?;
                published = Some(Instant::now());
            }
            Ok(holds()?.then_some(()))
        })
    }

    /// Waits until all receivers show these books, in that state.
    pub(super) fn shown(&self, watchers: &Watchers, books: &Ladders, state: FeedState) -> Result<()> {
        ensure!(!books.is_empty(), "no books");
        let shown =
            process::until(&format!("the books {state:?}"), || Ok(watchers.all_show(books, state).then_some(())));
        shown.with_context(|| watchers.told())
    }
}

/// Waits until everything up to a height is in the store.
pub(super) fn durable(server: &Server, height: u64) -> Result<()> {
    let reached = server.await_metric(&state("cursor"), height).map(drop);
    reached.with_context(|| {
        let page = server.get("/metrics").map(|answer| answer.body).unwrap_or_default();
        let lines: Vec<_> =
            page.lines().filter(|line| line.starts_with("sprag_batch") || line.starts_with("sprag_store")).collect();
        format!("{}\n{}", lines.join("\n"), server.log())
    })
}

/// Waits until HTTP tells exactly these books.
pub(super) fn told(server: &Server, books: &Ladders) -> Result<()> {
    let right = as_text(books);
    let told = || -> Result<BTreeMap<String, Book>> {
        right.keys().map(|name| Ok((name.clone(), of_json(&over_http(server, name)?)?))).collect()
    };
    process::until("the books over HTTP", || Ok(told().ok().filter(|told| *told == right).map(drop)))
}

/// The feed state of an instrument over HTTP, and its age in milliseconds.
pub(super) fn feed(server: &Server, instrument: &str) -> Result<(String, u64)> {
    let body = over_http(server, instrument)?;
    Ok((body["state"].as_str().unwrap_or_default().to_owned(), body["age_ms"].as_u64().unwrap_or(0)))
}

/// One number that a query gives.
pub(super) fn number(data_dir: &Path, query: &str) -> Result<u64> {
    let rows = ask(data_dir, &format!("SELECT toString(({query})) AS number"))?;
    let text = rows.first().and_then(|row| row["number"].as_str()).with_context(|| format!("{query}: {rows:?}"))?;
    Ok(text.parse()?)
}

/// Books by name: bids and asks, each with its tick index and what rests.
type StoredBooks = BTreeMap<String, [Vec<(i64, String)>; 2]>;

/// The live books in the store.
pub(super) fn stored(data_dir: &Path) -> Result<StoredBooks> {
    let query = "SELECT symbol, asset_in = asset_1 AS bid, toString(tick_index) AS price, toString(sum(reserves)) AS quantity \
                 FROM tick_state FINAL WHERE reserves_zero = 0 GROUP BY symbol, bid, tick_index \
                 ORDER BY symbol, bid, if(bid, -tick_index, tick_index)";
    let mut books = StoredBooks::new();
    for row in ask(data_dir, query)? {
        let text = |name: &str| row[name].as_str().with_context(|| format!("no {name} in {row}"));
        let book = books.entry(format!("neutron_dex/{}", text("symbol")?)).or_default();
        let side = usize::from(row["bid"] != 1);
        book[side].push((text("price")?.parse()?, text("quantity")?.to_owned()));
    }
    Ok(books)
}

/// Waits until the store's live books are these.
pub(super) fn kept(data_dir: &Path, books: &Ladders) -> Result<()> {
    let side = |side: &Vec<(i64, market::U256)>| side.iter().map(|(price, held)| (*price, held.to_string())).collect();
    let mut right: BTreeMap<_, [Vec<_>; 2]> =
        books.iter().map(|(name, ticks)| (name.clone(), ticks.each_ref().map(side))).collect();
    right.retain(|_, sides| sides.iter().any(|side| !side.is_empty()));
    process::until("the books in the store", || Ok((stored(data_dir)? == right).then_some(()))).with_context(|| {
        let Ok(found) = stored(data_dir) else { return "no books".to_owned() };
        let lacks = |of: &BTreeMap<String, [Vec<_>; 2]>, name: &String, side: usize, level: &(i64, String)| {
            of.get(name).is_none_or(|sides| !sides[side].contains(level))
        };
        let beyond = |these: &BTreeMap<String, [Vec<(i64, String)>; 2]>, others| {
            let mut extra = Vec::new();
            for (name, sides) in these {
                for side in [0, 1] {
                    let more = sides[side].iter().filter(|level| lacks(others, name, side, level));
                    extra.extend(more.map(|level| format!("{name} {side} {level:?}")));
                }
            }
            extra
        };
        format!("missing {:?}, too much {:?}", beyond(&right, &found), beyond(&found, &right))
    })
}

/// What a command of ours answers about a store, as JSON.
pub(super) fn asks(data_dir: &Path, arguments: &[&str]) -> Result<Value> {
    let text = says(data_dir, &[arguments, &["--format", "json"]].concat())?;
    Ok(serde_json::from_str(&text)?)
}

/// What a command of ours says about a store.
pub(super) fn says(data_dir: &Path, arguments: &[&str]) -> Result<String> {
    let data_dir = data_dir.to_str().context("a data directory that is not text")?;
    let output = process::output([arguments, &["--data-dir", data_dir]].concat())?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// A block with one tick of the pair `a<>b`, told by hand.
pub(super) fn by_hand(height: u64, previous: u64, reserves: &str) -> GeneratedBatch {
    let attribute = |(key, value): (&str, &str)| format!(r#"{{"key":"{key}","value":"{value}"}}"#);
    let pairs = [
        ("module", "dex"),
        ("TokenZero", "a"),
        ("TokenOne", "b"),
        ("TokenIn", "a"),
        ("TickIndex", "7"),
        ("Fee", "1"),
        ("Reserves", reserves),
        ("mode", "EndBlock"),
    ];
    let attributes = pairs.map(attribute).join(",");
    let content = format!(
        r#"{{"height":"{height}","txs_results":null,"finalize_block_events":[{{"type":"TickUpdate","attributes":[{attributes}]}}]}}"#
    );
    let content = content.into_bytes();
    let name = market::batch::BatchName { height, previous, kind: BatchKind::Block, id: content::batch_id(&content) };
    GeneratedBatch { name, block_time_ns: 1_700_000_000_345_678_901, content }
}
