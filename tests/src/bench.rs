//! The lane measured: the same events through the timely graph and through a loop written by hand, turn by turn in one
//! run, so that both see the same machine.
//!
//! Never: a judgement of wall times; only results are compared, and they must be the same.

pub mod batch;
mod by_hand;
pub mod checkpoint;
mod graph;
mod hub;
mod market;
mod marks;
mod memory;
mod report;
pub mod store;
mod ticks;

pub use hub::Standing;
pub use memory::memory;
pub use report::Report;

use ::market::{Event, SymbolId, guard::Limits};
use anyhow::{Context, Result, ensure};
use dataflow::{
    clock::CutClock,
    ingest::{BATCH_BYTES_MAX, Batch, Ended},
    lane::LaneConfig,
    sink::SinkMessage,
};
use hub::Hub;
use market::Market;
use marks::Marks;
use std::{
    sync::{Arc, mpsc::channel},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Length of a cut, nanoseconds: the default of a live run.
const CUT_NS: u64 = 4_000_000;

/// Longer than any run, nanoseconds: nothing here beats, and no bound in time may make two rounds differ.
const NEVER_NS: u64 = 3_600_000_000_000;

/// A run that does not get on for so long has failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// Updates before the measured ones at the most: buffers grow and caches fill.
const WARM_UP_MAX: u64 = 200_000;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Measured updates of a round.
    pub updates: u64,
    /// Rounds of each side.
    pub rounds: usize,
    /// Workers of the graph, lanes of the loop.
    pub workers: usize,
    /// Instruments.
    pub instruments: u32,
    /// Live ticks of each.
    pub ticks: u32,
    /// Admitted changes are handed on, as for a store.
    pub store: bool,
    /// The consolidated best is kept as well: by differential dataflow, and by hand.
    pub best: bool,
}

/// One of the two ways through the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Ingest, exchange, lane, best and sink on timely and differential dataflow.
    Graph,
    /// The same lane in a loop without them.
    ByHand,
}

/// What a round showed.
#[derive(Clone, Debug)]
pub struct Round {
    /// Which way it went.
    pub way: Way,
    /// Processor time of the worker threads for the measured updates.
    pub cpu: Duration,
    /// Time from the first measured update sent to the last one handed over by the lane.
    pub wall: Duration,
    /// Cuts that carried something, all lanes together.
    pub cuts: u64,
    /// Level changes published.
    pub rows: u64,
    /// What stands at the end.
    pub standing: Standing,
}

/// Takes batches for one worker.
type Feed = Box<dyn Fn(Batch) -> Result<(), Ended>>;

/// A way under load: where its events go, and how it ends.
struct Running {
    feeds: Vec<Feed>,
    /// The feed of an instrument, modulo the number of feeds.
    place: fn(SymbolId) -> u64,
    join: Box<dyn FnOnce() -> Result<()>>,
}

/// Runs both ways in turn.
///
/// # Errors
/// A way that ends early or does not get on.
pub fn run(options: &Options, mut seen: impl FnMut(&Round)) -> Result<Report> {
    ensure!(options.workers > 0 && options.rounds > 0 && options.instruments > 0, "nothing to measure");
    let mut rounds = Vec::new();
    for turn in 0..options.rounds.saturating_mul(2) {
        let way = if turn % 2 == 0 { Way::ByHand } else { Way::Graph };
        let round = round(options, way)?;
        seen(&round);
        rounds.push(round);
    }
    Ok(Report::new(*options, rounds))
}

fn round(options: &Options, way: Way) -> Result<Round> {
    let config = LaneConfig {
        clock: CutClock { origin_ns: unix_ns(), cut_ns: CUT_NS },
        limits: Limits { bridge_ns: NEVER_NS, ..Limits::default() },
        silent_ns: NEVER_NS,
        silent_intervals: ::market::feed::SILENT_INTERVALS,
        admitted: options.store,
    };
    let marks = Arc::new(Marks::default());
    let (to_hub, from_lanes) = channel::<SinkMessage>();
    let (credit, running) = match way {
        Way::Graph => graph::start(config, options.best, options.workers, &marks, to_hub)?,
        Way::ByHand => by_hand::start(config, options.best, options.workers, &marks, to_hub)?,
    };
    let warm_up = (options.updates / 10).min(WARM_UP_MAX);
    let loaded = u64::from(options.instruments).saturating_add(warm_up);
    let (tell, told) = channel();
    let mut hub = Hub::new(credit, vec![loaded, loaded.saturating_add(options.updates)], tell);
    let hub = thread::Builder::new().name("hub".to_owned()).spawn(move || hub.drain(&from_lanes))?;

    let mut market = Market::new(options.instruments, options.ticks);
    let mut source = Source::new(&running);
    market.load(|event| source.give(event))?;
    market.updates(warm_up, |event| source.give(event))?;
    source.flush()?;
    told.recv_timeout(PATIENCE).context("the load did not come through")?;
    marks.set(1, options.workers, PATIENCE)?;
    let begin = Instant::now();
    market.updates(options.updates, |event| source.give(event))?;
    source.flush()?;
    let end = told.recv_timeout(PATIENCE).context("the updates did not come through")?;
    marks.set(2, options.workers, PATIENCE)?;
    market.finish(|event| source.give(event))?;
    source.flush()?;

    let Running { feeds, join, .. } = running;
    drop(feeds);
    join()?;
    let hub = hub.join().map_err(|_| anyhow::anyhow!("the hub broke"))?;
    let cpu = marks.between(1, 2)?;
    let (cuts, rows) = (hub.cuts, hub.rows);
    Ok(Round { way, cpu, wall: end.saturating_duration_since(begin), cuts, rows, standing: hub.standing() })
}

/// Gathers events into batches, one open batch per feed.
struct Source<'a> {
    running: &'a Running,
    open: Vec<(Vec<Event>, u64)>,
    capacity: usize,
}

impl<'a> Source<'a> {
    fn new(running: &'a Running) -> Self {
        let open = running.feeds.iter().map(|_| (Vec::new(), 0)).collect();
        Self { running, open, capacity: 0 }
    }

    fn give(&mut self, event: Event) -> Result<()> {
        let feeds = u64::try_from(self.open.len())?;
        let at = usize::try_from((self.running.place)(event.symbol) % feeds)?;
        let (events, bytes) = self.open.get_mut(at).context("no such feed")?;
        *bytes = bytes.saturating_add(event.bytes());
        events.push(event);
        if *bytes >= BATCH_BYTES_MAX { self.send(at) } else { Ok(()) }
    }

    fn send(&mut self, at: usize) -> Result<()> {
        let capacity = self.capacity;
        let Some((events, bytes)) = self.open.get_mut(at).filter(|(events, _)| !events.is_empty()) else {
            return Ok(());
        };
        *bytes = 0;
        self.capacity = capacity.max(events.len());
        let events = std::mem::replace(events, Vec::with_capacity(self.capacity));
        let feed = self.running.feeds.get(at).context("no such feed")?;
        feed(Batch { cut: 0, events }).context("a lane ended early")
    }

    fn flush(&mut self) -> Result<()> {
        (0..self.open.len()).try_for_each(|at| self.send(at))
    }
}

/// Unix nanoseconds.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
