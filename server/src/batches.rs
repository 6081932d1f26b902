//! The batch stream: from the subscription through the log to the lanes, nothing lost and nothing doubled.
//!
//! ```text
//! pull ─▶ parts ─▶ decode ─▶ guard ─┬─▶ raw_events ─▶ ack
//!                                   └─▶ lanes ─▶ tick_updates ─▶ cursor
//! ```
//!
//! The lanes do not wait for the log. A batch is acknowledged once it is in the log, so it comes again if the process dies
//! before; one that comes again changes nothing. What is behind a hole waits in the log.
//!
//! Never: a batch acknowledged that is neither in the log nor in the dead letters; a batch shown over a hole that nobody
//! accepted.

mod arrivals;
mod cursor;
mod driver;
mod held;
mod marks;
mod numbers;
mod order;
mod rebuild;
mod tasks;
mod wished;

pub use numbers::{BatchNumbers, BatchState};

use connectors::{
    clickhouse::{SinkView, batch_log::BatchLog},
    neutron_dex::message::BlockError,
    pubsub::{
        client::{EnsureError, PubSubAddress, SubscriptionName, SubscriptionOptions, TopicName},
        content::ContentError,
        header::{HeaderError, hex},
        parts::{Outstanding, PartConflict},
        pull::{Pull, PullOptions},
    },
    venue_feed::{Undecodable, listings::Listings},
};
use dataflow::ingest::{Ended, FeedSender};
use market::{Event, Instrument, LegId, Tranches, batch::BatchId};
use std::{io, sync::Arc, thread, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};

/// Why a batch cannot be taken. It goes to the dead letters with this reason, once it has been tried often enough.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Its attributes.
    #[error("its attributes cannot be used")]
    Header(#[from] HeaderError),
    /// It is of another stream.
    #[error("it is of stream {found:?}, not of {wanted:?}")]
    Stream {
        /// Its stream.
        found: Box<str>,
        /// The stream that is taken.
        wanted: Box<str>,
    },
    /// A part contradicts the ones before it.
    #[error("part {part} of height {height} contradicts another one")]
    Parts {
        /// The height.
        height: u64,
        /// The part.
        part: u32,
        /// In what.
        #[source]
        source: PartConflict,
    },
    /// One message of several.
    #[error("it is part {part} of {parts}, which cannot be tried alone: publish the batch again")]
    Lone {
        /// Which one, from 0.
        part: u32,
        /// Of how many.
        parts: u32,
    },
    /// It cannot be unpacked.
    #[error("it cannot be unpacked")]
    Content(#[from] ContentError),
    /// Its content is not what its attributes name.
    #[error("its content has SHA-256 {}, its attributes say {}", hex(*found), hex(*named))]
    Digest {
        /// As the attributes name it.
        named: BatchId,
        /// As it is.
        found: BatchId,
    },
    /// Its content is of another height than its attributes.
    #[error("its content is of height {found}, its attributes say {named}")]
    Height {
        /// As the attributes name it.
        named: u64,
        /// As it is.
        found: u64,
    },
    /// Its content.
    #[error("its content cannot be decoded")]
    Block(#[from] BlockError),
    /// Another batch is known at its height.
    #[error("another batch is known at height {height}, with SHA-256 {}", hex(*known))]
    Conflict {
        /// The height.
        height: u64,
        /// The known one.
        known: BatchId,
    },
    /// The batches that were delivered leave no place for it.
    #[error("no batch belongs at height {height}: the one behind it names another one as the one before it")]
    Contradicts {
        /// The height.
        height: u64,
    },
    /// The lanes cannot take it.
    #[error("it cannot be made into events")]
    Events(#[from] Undecodable),
}

/// How the stream behaves.
#[derive(Clone, Debug)]
pub struct BatchOptions {
    /// The stream's name; batches of any other are dead letters.
    pub stream: Box<str>,
    /// The height behind which the stream begins, if nothing of it was taken yet.
    pub begin_after: u64,
    /// Times that a batch which cannot be taken comes before it is a dead letter.
    pub attempts_max: u32,
    /// How long a hole may last before it shows.
    pub hole: Duration,
    /// A batch published longer ago is being caught up.
    pub behind: Duration,
    /// Bytes of batches in memory.
    pub memory_bytes: usize,
    /// Bytes of one batch, unpacked.
    pub content_bytes_max: usize,
    /// Bytes of parts that wait for others.
    pub parts_bytes: usize,
    /// What may be outstanding.
    pub outstanding: Outstanding,
}

/// What the stream is given.
pub struct BatchStart {
    /// How it behaves.
    pub options: BatchOptions,
    /// Where the subscription is.
    pub address: PubSubAddress,
    /// How it is pulled.
    pub pull: PullOptions,
    /// The topic, if it and the subscription are to be made where they are missing.
    pub topic: Option<TopicName>,
    /// The log.
    pub log: BatchLog,
    /// The durable cursor; none if nothing of the stream was ever taken.
    pub cursor: Option<u64>,
    /// Instruments.
    pub listings: Arc<Listings>,
    /// Names of tranches.
    pub tranches: Arc<Tranches>,
    /// The stream's leg.
    pub leg: LegId,
    /// The lanes.
    pub feed: FeedSender,
    /// What of it is durable.
    pub view: Arc<SinkView>,
    /// The books that were kept, as events.
    pub restored: Vec<Event>,
    /// Their instruments.
    pub known: Vec<Arc<Instrument>>,
    /// Unix nanoseconds.
    pub now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// What is counted.
    pub numbers: Arc<BatchNumbers>,
    /// Instruments whose books are in doubt, by their own spelling: they are wanted anew from the log.
    pub wishes: Option<mpsc::Receiver<Box<str>>>,
}

/// The stream's thread.
pub struct BatchSource {
    stop: watch::Sender<bool>,
    thread: thread::JoinHandle<()>,
    /// How it ended, if the lanes ended first.
    pub end: oneshot::Receiver<Result<(), Ended>>,
}

impl BatchSource {
    /// Starts it.
    ///
    /// # Errors
    /// A thread or its runtime cannot be made.
    pub fn start(start: BatchStart) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("batches")
            .enable_all()
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let (tell, end) = oneshot::channel();
        let thread = thread::Builder::new().name("batches".to_owned()).spawn(move || {
            let ended = runtime.block_on(follow(start, stopped));
            // What still waits for the store is given up here; its batches come again.
            runtime.shutdown_timeout(RUNTIME_END_MAX);
            if tell.send(ended).is_err() {
                tracing::debug!("the batch stream ended after the run");
            }
        })?;
        Ok(Self { stop, thread, end })
    }

    /// Ends it: what is not safe yet is given back to the subscription. Gives the thread to be joined.
    #[must_use]
    pub fn stop(self) -> thread::JoinHandle<()> {
        if self.stop.send(true).is_err() {
            tracing::debug!("the batch stream had ended already");
        }
        self.thread
    }
}

/// Threads of its runtime: one for the subscription, one for the store; decoding has threads of its own.
const RUNTIME_THREADS: usize = 2;

/// How long blocking work may go on after the end.
const RUNTIME_END_MAX: Duration = Duration::from_secs(2);

async fn follow(start: BatchStart, stopped: watch::Receiver<bool>) -> Result<(), Ended> {
    let (address, options) = (start.address.clone(), start.pull.clone());
    if let Some(topic) = start.topic.clone() {
        tokio::spawn(make(address.clone(), topic, options.subscription.clone()));
    }
    let pull = Pull::start(address, options, Arc::clone(&start.now_ns));
    driver::Driver::begin(start, pull, stopped).await
}

/// How long after a failure topic and subscription are tried to be made again.
const MAKE_EVERY: Duration = Duration::from_secs(5);

/// Makes topic and subscription where they are missing; the subscription is pulled meanwhile, and found once it is there.
async fn make(address: PubSubAddress, topic: TopicName, subscription: SubscriptionName) {
    while let Err(error) = address.ensure(&topic, &subscription, &SubscriptionOptions::default()).await {
        tell(&error);
        tokio::time::sleep(MAKE_EVERY).await;
    }
}

fn tell(error: &EnsureError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "topic and subscription cannot be made, and are tried again");
}
