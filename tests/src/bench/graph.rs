//! The way through timely: the graph of a live run, unchanged.
//!
//! Never: anything between its feeds and its sink that a live run has not.

use super::{Feed, Running, marks::Marks, unix_ns};
use anyhow::{Context, Result, anyhow};
use dataflow::{
    graph::GraphConfig,
    ingest::{Credit, FeedSender, IngestConfig, Pace, feed},
    lane::LaneConfig,
    sink::SinkMessage,
};
use std::sync::{Arc, mpsc::Sender};

/// Bytes under way: the default of a live run.
const CREDIT_BYTES: u64 = 256 << 20;

pub(super) fn start(
    config: LaneConfig,
    best: bool,
    workers: usize,
    marks: &Arc<Marks>,
    hub: Sender<SinkMessage>,
) -> Result<(Option<Arc<Credit>>, Running)> {
    let credit = Credit::new(CREDIT_BYTES);
    let marks = Arc::clone(marks);
    // Ingest reads the clock on the worker's own thread, which is where its processor time can be read.
    let pace = Pace::Clock(Arc::new(move || {
        marks.look();
        unix_ns()
    }));
    let ingest = IngestConfig { clock: config.clock, pace, credit: Arc::clone(&credit) };
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| feed()).unzip();
    let guards = dataflow::graph::start(
        GraphConfig { lane: config, ingest, best, views: Arc::default(), priority: Arc::default() },
        receivers,
        hub,
    )
    .context("the graph does not start")?;
    let running = Running {
        feeds: senders.into_iter().map(boxed).collect(),
        place: |symbol| u64::from(symbol.0),
        join: Box::new(move || {
            guards.join().into_iter().try_for_each(|end| end.map_err(|reason| anyhow!("a worker broke: {reason}")))
        }),
    };
    Ok((Some(credit), running))
}

fn boxed(sender: FeedSender) -> Feed {
    Box::new(move |batch| sender.send(batch))
}
