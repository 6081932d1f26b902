//! The batch stream of a run, as configured.
//!
//! Never: a batch fed before the books that were kept.

use super::{Clock, RunError, origin::BATCH_LEG};
use crate::{
    batches::{BatchNumbers, BatchOptions, BatchSource, BatchStart},
    config::Config,
    store::Store,
};
use connectors::{
    clickhouse::SinkView,
    pubsub::{
        client::{PubSubAddress, SubscriptionName, TopicName},
        parts::Outstanding,
        pull::PullOptions,
    },
    venue_feed::listings::Listings,
};
use dataflow::ingest::FeedSender;
use market::{Body, Event};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Parts of a whole batch fit, with what is counted beside their data.
const PARTS_BESIDE: usize = 1 << 20;

/// What the stream begins with.
pub(super) struct BatchBegin {
    /// The durable cursor, if anything of the stream was ever taken.
    pub(super) cursor: Option<u64>,
    /// The books that were kept, as events.
    pub(super) restored: Vec<Event>,
    pub(super) numbers: Arc<BatchNumbers>,
}

/// What the stream is given of the run.
pub(super) struct BatchEnds {
    pub(super) listings: Arc<Listings>,
    pub(super) feed: FeedSender,
    pub(super) view: Arc<SinkView>,
    pub(super) now_ns: Clock,
    /// Instruments whose books are wanted anew, by their own spelling.
    pub(super) wishes: Option<mpsc::Receiver<Box<str>>>,
}

/// Starts the stream.
pub(super) fn start(
    config: &Config,
    store: &Store,
    begin: BatchBegin,
    ends: BatchEnds,
) -> Result<BatchSource, RunError> {
    let settings = &config.pubsub;
    let BatchBegin { cursor, restored, numbers } = begin;
    let BatchEnds { listings, feed, view, now_ns, wishes } = ends;
    let tranches = Arc::clone(listings.tranches());
    let directory = listings.directory();
    let listed = restored.iter().filter(|event| matches!(event.body, Body::Listing(_)));
    let known = listed.filter_map(|event| directory.get(event.symbol)).collect();
    let silent = Duration::from_millis(settings.silent_ms);
    let subscription: SubscriptionName = settings.subscription.parse()?;
    let (messages, bytes) = (settings.outstanding_messages, settings.outstanding_bytes);
    let lease_extension = Duration::from_secs(settings.lease_seconds);
    let pull = PullOptions { messages, bytes, silent, lease_extension, ..PullOptions::new(subscription) };
    let topic = Some(&settings.topic).filter(|topic| !topic.is_empty());
    let topic = topic.map(|topic| topic.parse::<TopicName>()).transpose()?;
    let start = BatchStart {
        options: options(config),
        address: PubSubAddress::from_env(Some(&*settings.endpoint).filter(|endpoint| !endpoint.is_empty()))?,
        pull,
        topic,
        log: store.batch_log(&settings.stream),
        cursor,
        listings,
        tranches,
        leg: BATCH_LEG,
        feed,
        view,
        restored,
        known,
        now_ns,
        numbers,
        wishes,
    };
    BatchSource::start(start).map_err(RunError::Thread)
}

fn options(config: &Config) -> BatchOptions {
    let settings = &config.pubsub;
    BatchOptions {
        stream: settings.stream.as_str().into(),
        begin_after: settings.begin_after,
        attempts_max: settings.attempts,
        hole: Duration::from_millis(settings.hole_ms),
        behind: Duration::from_millis(settings.behind_ms),
        memory_bytes: settings.memory_bytes,
        content_bytes_max: settings.batch_bytes,
        parts_bytes: settings.batch_bytes.saturating_add(PARTS_BESIDE),
        outstanding: Outstanding { messages: settings.outstanding_messages, bytes: settings.outstanding_bytes },
    }
}
