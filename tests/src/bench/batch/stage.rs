//! What takes part in a measurement: a Pub/Sub server, who publishes to it, the real binary with its engine, a receiver's
//! screen, and a bare subscriber beside them.
//!
//! Never: a server or a directory that outlives the measurement.

use super::{PATIENCE, chain::Prepared, report::Peaks, usage};
use crate::{
    bench::memory::memory_of,
    process::{self, Launch, Server},
};
use anyhow::{Context, Result};
use connectors::{
    clickhouse::StoreAddress,
    pubsub::{
        client::PubSubAddress,
        publish::{PublishBounds, Publishing, publish_batch},
        pull::{Pull, PullEvent, PullOptions},
    },
};
use pubsub_emulator::Emulator;
use receiver::{Notice, Terminal};
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    runtime::Runtime,
    sync::{mpsc, watch},
    task::spawn_blocking,
    time::{sleep, timeout},
};
use wire::{Channel, SubscriptionItem};

/// Name of the stream, which every row's source begins with.
pub(super) const STREAM: &str = "bench";

const TOPIC: &str = "projects/bench/topics/blocks";
const SUBSCRIPTION: &str = "projects/bench/subscriptions/blocks";
const HOP_TOPIC: &str = "projects/bench/topics/hop";
const HOP_SUBSCRIPTION: &str = "projects/bench/subscriptions/hop";

/// Messages that the bare subscriber has told and nobody has taken: those of one batch.
const HOPS_MAX: usize = 64;

/// How often the cursor is looked at: asking is not for nothing, and more often would be felt.
const CURSOR_EVERY: Duration = Duration::from_millis(20);

/// What a block took. Times are from when the Pub/Sub server had accepted all of it, milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Bytes of all its messages.
    pub(super) packed_bytes: usize,
    /// Packing, sending, being accepted.
    pub(super) publish_ms: f64,
    /// Until all its messages were acknowledged: it is in the log.
    pub(super) logged_ms: f64,
    /// Until the receiver showed all its instruments at their last version.
    pub(super) shown_ms: f64,
    /// Until the cursor said that all its rows are in the store.
    pub(super) durable_ms: f64,
    /// Processor time of the server and of its engine, from before it was published until the cursor.
    pub(super) cpu: [Duration; 2],
}

/// What the receiver shows.
#[derive(Default)]
struct Shown {
    /// The place that each book is shown at.
    places: BTreeMap<Arc<str>, u64>,
    /// When the last of them changed.
    at: Option<Instant>,
}

/// All that takes part; dropped in this order.
pub(super) struct Stage {
    server: Server,
    store: StoreAddress,
    engine: u32,
    publishing: Publishing,
    hop: Publishing,
    hops: mpsc::Receiver<Instant>,
    shown: watch::Receiver<Shown>,
    emulator: Emulator,
    _data: TempDir,
}

impl Stage {
    /// Starts everything; the stream begins behind that height.
    pub(super) fn start(runtime: &Runtime, sprag: &Path, height: u64) -> Result<Self> {
        let emulator = Emulator::start(([127, 0, 0, 1], 0).into())?;
        // What is published before its subscription is there would be lost.
        for (topic, subscription) in [(TOPIC, SUBSCRIPTION), (HOP_TOPIC, HOP_SUBSCRIPTION)] {
            emulator.create_topic(topic)?;
            emulator.create_subscription(subscription, topic)?;
        }
        let data = tempfile::tempdir()?;
        let begin = format!("pubsub.begin_after={height}");
        let launch = Launch::run(data.path(), 0).with_binary(sprag);
        let launch =
            launch.with(&["--subscription", SUBSCRIPTION, "--topic", TOPIC, "--stream", STREAM, "--set", &begin]);
        let launch = launch.with_variable("PUBSUB_EMULATOR_HOST", &emulator.address().to_string());
        let server = launch.spawn()?.up()?;
        let (url, engine) = engine_of(data.path())?;

        let address = PubSubAddress::new(Some(&emulator.endpoint()), None)?;
        let publishing = |topic: &str| -> Result<Publishing> {
            let publisher = runtime.block_on(address.publisher(&topic.parse()?))?;
            Ok(Publishing::new(publisher, PublishBounds::default()))
        };
        let (publishing, hop) = (publishing(TOPIC)?, publishing(HOP_TOPIC)?);
        let _entered = runtime.enter();
        let hops = bare_subscriber(address, PullOptions::new(HOP_SUBSCRIPTION.parse()?));
        let shown = screen(&server.stream_url())?;
        let store = StoreAddress::at(&url);
        Ok(Self { server, store, engine, publishing, hop, hops, shown, emulator, _data: data })
    }

    /// The server's store.
    pub(super) fn store(&self) -> &StoreAddress {
        &self.store
    }

    /// Process number of the server's engine.
    pub(super) fn engine(&self) -> u32 {
        self.engine
    }

    /// The most memory that the server and its engine ever had.
    pub(super) fn peaks(&self) -> Result<Peaks> {
        Ok(Peaks { server: memory_of(self.server.pid())?.peak, engine: memory_of(self.engine)?.peak })
    }

    fn cpu(&self) -> Result<[Duration; 2]> {
        Ok([usage::cpu(self.server.pid())?, usage::cpu(self.engine)?])
    }

    /// Publishes a block and waits until all of it is everywhere.
    pub(super) async fn take(&self, block: &Prepared) -> Result<Costs> {
        let [server, engine] = self.cpu()?;
        let begin = Instant::now();
        let published = publish_batch(&self.publishing, &block.header, block.content.clone()).await?;
        let accepted = Instant::now();
        let arrived =
            async { tokio::try_join!(self.logged(), self.on_screen(block), self.durable(block.header.height)) };
        let (logged, shown, durable) =
            arrived.await.with_context(|| format!("the server said:\n{}", self.server.log()))?;
        let [server_after, engine_after] = self.cpu()?;
        Ok(Costs {
            packed_bytes: published.bytes,
            publish_ms: ms_between(begin, accepted),
            logged_ms: ms_between(accepted, logged),
            shown_ms: ms_between(accepted, shown),
            durable_ms: ms_between(accepted, durable),
            cpu: [server_after.saturating_sub(server), engine_after.saturating_sub(engine)],
        })
    }

    async fn logged(&self) -> Result<Instant> {
        timeout(PATIENCE, self.emulator.drained(SUBSCRIPTION)).await.context("the block is not acknowledged")?;
        Ok(Instant::now())
    }

    async fn on_screen(&self, block: &Prepared) -> Result<Instant> {
        let mut screen = self.shown.clone();
        let there = |shown: &Shown| {
            let at = |name: &Arc<str>| shown.places.get(name).copied().unwrap_or(0);
            block.shown.iter().all(|(name, place)| at(name) >= *place)
        };
        let shown = timeout(PATIENCE, screen.wait_for(there)).await.context("the block is not shown")?;
        shown.context("the receiver lost its connection")?.at.context("nothing was ever shown")
    }

    async fn durable(&self, height: u64) -> Result<Instant> {
        let reached = async {
            while cursor(self.server.address()).await? < height {
                sleep(CURSOR_EVERY).await;
            }
            Ok(Instant::now())
        };
        timeout(PATIENCE, reached).await.context("the cursor does not move")?
    }

    /// From when the same messages were accepted on another topic until a bare subscriber had them, milliseconds.
    pub(super) async fn hop(&mut self, block: &Prepared) -> Result<f64> {
        let published = publish_batch(&self.hop, &block.header, block.content.clone()).await?;
        let accepted = Instant::now();
        let mut came = accepted;
        for _ in published.message_ids {
            let next = timeout(PATIENCE, self.hops.recv()).await.context("nothing comes to the bare subscriber")?;
            came = next.context("the bare subscriber has ended")?;
        }
        Ok(ms_between(accepted, came))
    }
}

/// Takes messages, tells when each came, and does nothing with them.
fn bare_subscriber(address: PubSubAddress, options: PullOptions) -> mpsc::Receiver<Instant> {
    let (tell, told) = mpsc::channel(HOPS_MAX);
    tokio::spawn(async move {
        let mut pull = Pull::start(address, options, Arc::new(|| 0));
        while let Some(event) = pull.next().await {
            let PullEvent::Message(pulled) = event else { continue };
            let at = Instant::now();
            pulled.lease.ack();
            if tell.send(at).await.is_err() {
                break;
            }
        }
    });
    told
}

/// A receiver of all books; it ends with its connection.
fn screen(url: &str) -> Result<watch::Receiver<Shown>> {
    let all = SubscriptionItem { channel: Channel::Book, pattern: "*".into() };
    let mut terminal = Terminal::new(url, &[all])?;
    let (tell, told) = watch::channel(Shown::default());
    tokio::spawn(async move {
        while let Ok(notices) = terminal.next().await {
            let at = Instant::now();
            tell.send_modify(|shown| shown.take(notices, at));
        }
    });
    Ok(told)
}

impl Shown {
    fn take(&mut self, notices: Vec<Notice>, at: Instant) {
        for notice in notices {
            if let Notice::BookChanged { instrument, version } = notice {
                self.places.insert(instrument, version.seq);
                self.at = Some(at);
            }
        }
    }
}

/// The height up to which everything is in the store, as the server tells it.
async fn cursor(server: SocketAddr) -> Result<u64> {
    let answer = spawn_blocking(move || process::get(server, "/v1/batches", &[])).await??;
    answer.json()?["state"]["cursor"].as_u64().with_context(|| format!("no cursor in {answer:?}"))
}

/// Address and process number of the engine on a data directory.
fn engine_of(data_dir: &Path) -> Result<(String, u32)> {
    let text = fs::read_to_string(data_dir.join("clickhouse.url")).context("no engine on the data directory")?;
    let (url, pid) = text.trim().split_once('\n').context("an address without a process")?;
    Ok((url.to_owned(), pid.trim().parse()?))
}

/// Milliseconds from one to another; negative if the other was first.
fn ms_between(from: Instant, to: Instant) -> f64 {
    let (after, before) = (to.saturating_duration_since(from), from.saturating_duration_since(to));
    (after.as_secs_f64() - before.as_secs_f64()) * 1e3
}
