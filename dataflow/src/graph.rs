//! The graph, and the workers that run it.
//!
//! Never: built differently on different workers, or conditionally.

use crate::{
    best::best,
    ingest::{FeedReceiver, IngestConfig, ingest},
    lane::LaneConfig,
    operator::{LaneStreams, lane},
    priority::PriorityBoard,
    sink::{SinkMessage, SinkStreams, sink},
    views::{ViewRules, views},
};
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    time::Duration,
};
use timely::{WorkerConfig, communication::WorkerGuards, dataflow::operators::vec::Filter, worker::Worker};

/// A worker parks at most this long, in case something else on its thread took its wake-up.
const PARK_MAX: Duration = Duration::from_millis(100);

/// How long a worker polls before it parks; short, since cores are shared with the fan-out.
const IDLE_SPIN: Duration = Duration::from_micros(10);

/// The workers could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the workers cannot be started: {reason}")]
pub struct StartError {
    /// What timely says.
    pub reason: Box<str>,
}

/// What the graph needs on every worker.
#[derive(Clone)]
pub struct GraphConfig {
    /// The lanes.
    pub lane: LaneConfig,
    /// Ingest.
    pub ingest: IngestConfig,
    /// Whether the consolidated best is kept; the same on every worker.
    pub best: bool,
    /// The standing views; the same on every worker.
    pub views: ViewRules,
    /// Who is wanted ahead of its cut.
    pub priority: Arc<PriorityBoard>,
}

/// Builds the graph on a worker.
pub fn build<M: From<SinkMessage> + 'static>(
    worker: &mut Worker,
    config: &GraphConfig,
    feed: FeedReceiver,
    hub: Sender<M>,
) {
    worker.dataflow_named::<u64, _, _>("tape", |scope| {
        let events = ingest(scope, config.ingest.clone(), feed);
        let (priority, rules) = (Arc::clone(&config.priority), Arc::clone(&config.views));
        let LaneStreams { cuts, quotes, parts, ahead } = lane(events, config.lane, priority, rules);
        // Without the view its stream is there all the same, and empty.
        let quotes = if config.best { best(quotes) } else { quotes.filter(|_| false) };
        let views = views(parts, &config.views);
        sink(SinkStreams { cuts, quotes, views, ahead }, hub);
    });
}

/// Starts one worker per feed and returns; they end when every feed's senders are gone.
///
/// # Errors
/// [`StartError`] if timely cannot start its threads.
pub fn start<M: From<SinkMessage> + Send + 'static>(
    config: GraphConfig,
    feeds: Vec<FeedReceiver>,
    hub: Sender<M>,
) -> Result<WorkerGuards<()>, StartError> {
    let workers = feeds.len();
    let places: Vec<_> = feeds.into_iter().map(|feed| Mutex::new(Some((feed, hub.clone())))).collect();
    drop(hub);
    let mut timely = timely::Config::process(workers);
    timely.worker = WorkerConfig::default().idle_spin(IDLE_SPIN);
    timely::execute(timely, move |worker| {
        let place = places.get(worker.index());
        let taken = place.and_then(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take());
        // One worker per place, so it is there exactly once.
        if let Some((feed, hub)) = taken {
            build(worker, &config, feed, hub);
        }
        while worker.has_dataflows() {
            worker.step_or_park(Some(PARK_MAX));
        }
    })
    .map_err(|reason| StartError { reason: reason.into() })
}
