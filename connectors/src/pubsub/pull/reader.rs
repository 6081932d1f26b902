//! The task that reads a subscription, one stream after another.
//!
//! Never: a nack while the stream that it would come back on is open, at a stop.

use super::{
    super::client::PubSubAddress,
    NowNs, PullError, PullEvent, PullOptions, Pulled,
    lease::{Held, Lease},
};
use crate::live::backoff::Backoff;
use futures_util::FutureExt;
use google_cloud_pubsub::{
    model::Message,
    subscriber::{MessageStream, ShutdownBehavior, ShutdownToken, handler::Handler},
};
use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// Streams that ended while messages of theirs were handed out: more are not waited for at a stop.
const ENDED_MAX: usize = 16;

/// A server that sends has sent the next message within this.
const QUIET: Duration = Duration::from_millis(50);

/// How long a stop reads what is on its way; only what is large takes more than [`QUIET`].
const READ_OUT_LIMIT: Duration = Duration::from_millis(500);

/// How long a stop waits until the server has been told of the last acknowledgements: it answers in milliseconds or is
/// not there.
const TOLD_LIMIT: Duration = Duration::from_secs(5);

pub(super) struct Reader {
    address: PubSubAddress,
    options: PullOptions,
    now_ns: NowNs,
    queue: mpsc::Sender<PullEvent>,
    stop: watch::Receiver<bool>,
    held: Arc<Held>,
    /// Leases of streams that were opened, until the last message of each is done with.
    leases: Vec<ShutdownToken>,
    /// [`PullEvent::Up`] was the last that was told.
    up: bool,
    /// What a stop kept out of the queue.
    unsent: Vec<PullEvent>,
}

/// How a stream ended.
enum Ended {
    Stopped,
    Failed(PullError),
}

impl Reader {
    pub(super) fn new(
        address: PubSubAddress,
        options: PullOptions,
        now_ns: NowNs,
        queue: mpsc::Sender<PullEvent>,
        stop: watch::Receiver<bool>,
        held: Arc<Held>,
    ) -> Self {
        Self { address, options, now_ns, queue, stop, held, leases: Vec::new(), up: false, unsent: Vec::new() }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        while let Ended::Failed(error) = self.one_stream(&mut backoff).await {
            if self.failed(error, &mut backoff).await.is_none() {
                break;
            }
        }
        self.finish().await;
    }

    /// Tells why, and waits before the next attempt; `None` at a stop.
    async fn failed(&mut self, error: PullError, backoff: &mut Backoff) -> Option<()> {
        let silent = matches!(error, PullError::Silent(_));
        let count = if silent { &self.held.silent } else { &self.held.refused };
        count.fetch_add(1, Relaxed);
        // A dead connection is replaced at once; only refusals are worth a pause.
        let pause_ms = if silent { 0 } else { backoff.next_ms(rand::random()) };
        tracing::warn!(error = &error as &dyn std::error::Error, pause_ms, "subscription is read anew");
        if self.up || !silent {
            self.up = false;
            self.tell(PullEvent::Down(error)).await?;
        }
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stopped(&mut stop) => None,
            () = tokio::time::sleep(Duration::from_millis(pause_ms)) => Some(()),
        }
    }

    /// Puts an event into the queue; at a stop it is kept until the stream is closed, and the answer is `None`.
    async fn tell(&mut self, event: PullEvent) -> Option<()> {
        tokio::select! {
            biased;
            () = stopped(&mut self.stop) => {
                self.unsent.push(event);
                None
            }
            room = self.queue.reserve() => room.ok().map(|room| room.send(event)),
        }
    }

    async fn one_stream(&mut self, backoff: &mut Backoff) -> Ended {
        // A client of its own has a connection of its own: the one before may be dead without anybody knowing.
        let subscriber = match self.address.subscriber().await {
            Ok(subscriber) => subscriber,
            Err(error) => return Ended::Failed(error.into()),
        };
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let mut stream = subscriber
            .subscribe(self.options.subscription.as_str())
            .set_max_outstanding_messages(count(self.options.messages))
            .set_max_outstanding_bytes(count(self.options.bytes))
            .set_max_lease_extension(self.options.lease_extension)
            .set_max_lease(self.options.lease_max)
            // Leases outlive their stream until each message is done with; a stop nacks them itself, in its own order.
            .set_shutdown_behavior(ShutdownBehavior::WaitForProcessing)
            .build();
        self.held.streams.fetch_add(1, Relaxed);
        let leases = stream.shutdown_token();
        let ended = self.read(&mut stream, backoff).await;
        if matches!(ended, Ended::Stopped) && timeout(READ_OUT_LIMIT, self.read_out(&mut stream)).await.is_err() {
            tracing::debug!("the stream is closed while messages come");
        }
        close(stream, &leases).await;
        self.keep(leases);
        ended
    }

    async fn read(&mut self, stream: &mut MessageStream, backoff: &mut Backoff) -> Ended {
        let mut stop = self.stop.clone();
        loop {
            let read = tokio::select! {
                biased;
                () = stopped(&mut stop) => return Ended::Stopped,
                // While there is no room the stream may be as silent as it likes.
                read = async {
                    self.held.room().await;
                    timeout(self.options.silent, stream.next()).await
                } => read,
            };
            let (message, handler) = match read {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return Ended::Failed(PullError::Refused(Box::new(error))),
                Ok(None) => return Ended::Failed(PullError::Ended),
                Err(_) => return Ended::Failed(PullError::Silent(self.options.silent)),
            };
            let pulled = self.pulled(message, handler);
            if !self.up {
                self.up = true;
                backoff.reset();
                if self.tell(PullEvent::Up).await.is_none() {
                    return Ended::Stopped;
                }
            }
            if self.tell(PullEvent::Message(Box::new(pulled))).await.is_none() {
                return Ended::Stopped;
            }
        }
    }

    /// Reads what the server sent before it hears of the stop: it would stay leased to the closed stream. Nothing is nacked
    /// meanwhile, so the server's own bounds end it.
    async fn read_out(&mut self, stream: &mut MessageStream) {
        while self.unsent.len() <= self.options.messages
            && let Ok(Some(Ok((message, handler)))) = timeout(QUIET, stream.next()).await
        {
            let pulled = self.pulled(message, handler);
            self.unsent.push(PullEvent::Message(Box::new(pulled)));
        }
    }

    fn pulled(&self, message: Message, handler: Handler) -> Pulled {
        let attempt = handler.delivery_attempt().and_then(|attempt| u32::try_from(attempt).ok());
        let published_ns = message.publish_time.map_or(0, |time| {
            let nanos = i128::from(time.seconds()) * 1_000_000_000 + i128::from(time.nanos());
            u64::try_from(nanos).unwrap_or(0)
        });
        let lease: Lease = self.held.lease(handler, message.data.len());
        Pulled {
            attributes: message.attributes.into_iter().collect(),
            data: message.data,
            message_id: message.message_id.into(),
            published_ns,
            received_ns: (self.now_ns)(),
            attempt,
            lease,
        }
    }

    /// Keeps what a stop must wait for.
    fn keep(&mut self, leases: ShutdownToken) {
        self.leases.retain(|leases| leases.shutdown().now_or_never().is_none());
        if self.leases.len() >= ENDED_MAX {
            self.leases.remove(0);
        }
        self.leases.push(leases);
    }

    /// The stream is closed: lets go of the queue, which is nacked, and of what is not done with in time.
    async fn finish(self) {
        let Self { queue, held, leases, options, unsent, .. } = self;
        drop((queue, unsent));
        if timeout(options.drain, held.empty()).await.is_err() {
            held.nack_all();
        }
        let told = async {
            for leases in &leases {
                leases.shutdown().await;
            }
        };
        if timeout(TOLD_LIMIT, told).await.is_err() {
            tracing::warn!("the Pub/Sub server was not told of all messages; they come again when their leases end");
        }
    }
}

/// Waits for a stop; that nobody is left to ask for one is the same.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    while !*stop.borrow_and_update() && stop.changed().await.is_ok() {}
}

/// Closes a stream at the server, and only the stream: messages that were handed out keep their leases.
async fn close(mut stream: MessageStream, leases: &ShutdownToken) {
    // Polled first, it tells the stream to close; `next` is what does it.
    let mut told = pin!(leases.shutdown());
    let closed = async { while stream.next().await.is_some() {} };
    tokio::select! {
        biased;
        () = &mut told => {}
        () = closed => {}
    }
}
