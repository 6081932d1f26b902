//! The audit of a run: its channel from the tape, its task, its end.
//!
//! Never: a task that outlives what it asks.

use super::{Clock, StorePart};
use crate::{
    audit::{Audit, AuditEnds, AuditNumbers, AuditOptions, COPIES_MAX},
    config::Config,
    epochs::host_name,
};
use connectors::venue_feed::listings::Listings;
use dataflow::{copy::BookCopy, ingest::FeedSender};
use std::sync::Arc;
use tokio::{sync::mpsc, task::JoinHandle};

/// Wishes for books of the batch stream that wait; one that finds no room is wished again at the next audit.
const REBUILDS_MAX: usize = 64;

/// The audit before it is started: the ends of its channels that others get.
pub(super) struct AuditPort {
    /// Answers of the lanes, from the tape.
    pub(super) answers: mpsc::Sender<BookCopy>,
    /// Wishes for books of the batch stream, to it.
    pub(super) wishes: Option<mpsc::Receiver<Box<str>>>,
    copies: mpsc::Receiver<BookCopy>,
    rebuilds: mpsc::Sender<Box<str>>,
}

/// The audit at work.
pub(super) struct AuditPart {
    /// What it counts.
    pub(super) numbers: Arc<AuditNumbers>,
    task: JoinHandle<()>,
}

/// Channels for an audit, if there shall be one.
pub(super) fn port(config: &Config, part: &StorePart) -> Option<AuditPort> {
    config.audit.every().filter(|_| part.store.is_some())?;
    let (answers, copies) = mpsc::channel(COPIES_MAX);
    let (rebuilds, wishes) = mpsc::channel(REBUILDS_MAX);
    Some(AuditPort { answers, wishes: Some(wishes), copies, rebuilds })
}

/// Starts the audit.
pub(super) fn start(
    config: &Config,
    part: &StorePart,
    port: Option<AuditPort>,
    (listings, feed, now_ns, block): (&Arc<Listings>, Option<&FeedSender>, &Clock, u64),
) -> Option<AuditPart> {
    let AuditPort { copies, rebuilds, .. } = port?;
    let (every, store, feed) = (config.audit.every()?, part.store.as_ref()?, feed?.clone());
    let (queue, view) = (part.queue.clone()?, Arc::clone(part.view.as_ref()?));
    let numbers = Arc::new(AuditNumbers::since(now_ns()));
    let options = AuditOptions {
        every,
        per_second: config.audit.instruments_per_second,
        evidence_max: config.audit.evidence_rows,
        host: host_name().into(),
        block,
    };
    let ends = AuditEnds {
        store: store.address().clone(),
        directory: Arc::clone(listings.directory()),
        tranches: Arc::clone(listings.tranches()),
        feed,
        copies,
        queue,
        view,
        rebuilds: config.pubsub.is_wanted().then_some(rebuilds),
        now_ns: Arc::clone(now_ns),
        numbers: Arc::clone(&numbers),
    };
    let task = tokio::spawn(Audit::new(options, ends).run());
    Some(AuditPart { numbers, task })
}

impl AuditPart {
    /// Ends it and waits for that: it holds a feed of the workers and the store's queue open.
    pub(super) async fn stop(self) {
        self.task.abort();
        // It was cancelled, or had ended before.
        drop(self.task.await);
    }
}
