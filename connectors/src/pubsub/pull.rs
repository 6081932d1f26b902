//! Messages of a subscription under leases: one task reads, leases are extended while a message waits, and what is silent
//! or broken is made anew.
//!
//! What the client reconnects by itself is not told; a stream on which nothing came for long is given up with its
//! connection, because the client would wait on a dead one for ever.
//!
//! Never: more messages or bytes handed out than the bounds; a message that is lost at a stop.

mod lease;
mod reader;

pub use lease::{Lease, PullCounts, PullMeter};

use super::client::{ClientError, PubSubAddress, SubscriptionName};
use bytes::Bytes;
use lease::Held;
use reader::Reader;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

/// The clock that messages are stamped by, in Unix nanoseconds.
pub type NowNs = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Shortest silence that makes a stream new: opening one takes a few of the server's answers.
const SILENT_MIN: Duration = Duration::from_secs(1);

/// How a subscription is pulled.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// Which one.
    pub subscription: SubscriptionName,
    /// Messages that may be under lease, at least one. Of a batch in parts all must have room.
    pub messages: usize,
    /// Bytes of data that may be under lease; the message that passes the bound is still taken.
    pub bytes: usize,
    /// What a lease is extended by, 10 to 600 s. It is also how long messages of a process that was killed do not come.
    pub lease_extension: Duration,
    /// How long a message's lease is extended; then it comes again.
    pub lease_max: Duration,
    /// How long nothing may come before the stream and its connection are made anew, at least 1 s.
    pub silent: Duration,
    /// How long a stop waits for messages that are in work; those that wait are nacked before.
    pub drain: Duration,
}

impl PullOptions {
    /// Those for batches: few messages, because each becomes many times its size.
    #[must_use]
    pub fn new(subscription: SubscriptionName) -> Self {
        Self {
            subscription,
            messages: 128,
            bytes: 128 << 20,
            lease_extension: Duration::from_secs(20),
            lease_max: Duration::from_secs(3_600),
            silent: Duration::from_secs(30),
            drain: Duration::from_millis(400),
        }
    }
}

/// Why nothing comes. All of them are tried again.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server refuses; the subscription is not there, or not for us.
    #[error("the Pub/Sub server refuses the subscription")]
    Refused(#[source] Box<google_cloud_pubsub::Error>),
    /// The stream ended without a reason.
    #[error("the stream of the subscription ended")]
    Ended,
    /// Nothing came for as long as [`PullOptions::silent`].
    #[error("nothing came for {} ms", .0.as_millis())]
    Silent(Duration),
}

/// What happens at a subscription.
#[derive(Debug)]
pub enum PullEvent {
    /// Messages come: told with the first one after a start or after [`PullEvent::Down`].
    Up,
    /// None come. Silence is told once, a refusal at each attempt.
    Down(PullError),
    /// One message.
    Message(Box<Pulled>),
}

/// A message under lease.
#[derive(Debug)]
pub struct Pulled {
    /// As they were published.
    pub attributes: BTreeMap<String, String>,
    /// As it was published.
    pub data: Bytes,
    /// The server's name of it. A publisher that tries again gives one message two.
    pub message_id: Box<str>,
    /// When the server had it, Unix nanoseconds by the server's clock; 0 if it does not say.
    pub published_ns: u64,
    /// When it was here, Unix nanoseconds.
    pub received_ns: u64,
    /// Which delivery it is, from 1; only of subscriptions with a dead-letter policy.
    pub attempt: Option<u32>,
    /// To be acknowledged when it is done with.
    pub lease: Lease,
}

/// The pulling of one subscription. Dropping it stops it as [`Pull::shutdown`] does, without waiting.
#[derive(Debug)]
pub struct Pull {
    // Dropped before the queue, so that the reader closes its stream.
    stop: watch::Sender<bool>,
    events: mpsc::Receiver<PullEvent>,
    reader: JoinHandle<()>,
    held: Arc<Held>,
}

impl Pull {
    /// Starts to pull, on the runtime that this is called on.
    #[must_use]
    pub fn start(address: PubSubAddress, options: PullOptions, now_ns: NowNs) -> Self {
        let (messages, bytes) = (options.messages.max(1), options.bytes.max(1));
        let options = PullOptions { messages, bytes, silent: options.silent.max(SILENT_MIN), ..options };
        // Every message that may be held, and what is told beside them.
        let (queue, events) = mpsc::channel(options.messages.saturating_add(2));
        let (stop, stopped) = watch::channel(false);
        let held = Arc::new(Held::new(options.messages, options.bytes));
        let reader = Reader::new(address, options, now_ns, queue, stopped, Arc::clone(&held));
        Self { stop, events, reader: tokio::spawn(reader.run()), held }
    }

    /// What happens next; `None` only if the task that reads has failed.
    pub async fn next(&mut self) -> Option<PullEvent> {
        self.events.recv().await
    }

    /// What can be counted, for whoever shows it.
    #[must_use]
    pub fn meter(&self) -> PullMeter {
        PullMeter::new(Arc::clone(&self.held))
    }

    /// Stops: reads what is on its way and closes the stream, so that what is nacked does not come here again; nacks what waits in the queue; waits
    /// [`PullOptions::drain`] for what was handed out, which may still be acknowledged; nacks the rest; and waits until the
    /// server has been told.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // The reader lets go of the queue once the stream is closed; until then what waits is kept.
        let mut waiting = Vec::new();
        while let Some(event) = self.events.recv().await {
            waiting.push(event);
        }
        drop(waiting);
        if self.reader.await.is_err() {
            tracing::error!("the task that pulls has failed");
        }
    }
}
