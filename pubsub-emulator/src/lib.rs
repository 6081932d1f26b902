//! A Pub/Sub server for tests and demonstrations: the service's protocol over gRPC (`Publisher`, `Subscriber` with
//! `StreamingPull`) and the administration of topics and subscriptions over REST, on one port, in memory.
//!
//! ```no_run
//! # fn main() -> Result<(), pubsub_emulator::EmulatorError> {
//! use pubsub_emulator::{Code, Emulator, Method};
//! let emulator = Emulator::start(([127, 0, 0, 1], 0).into())?;
//! let endpoint = emulator.endpoint(); // "http://127.0.0.1:PORT"
//! emulator.fail_next(Method::Acknowledge, Code::Unavailable, 1);
//! emulator.kill()?; // connections are cut, the address refuses; topics, subscriptions and messages stay
//! emulator.restart()?;
//! assert_eq!(emulator.counts().kills, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does as the service does
//! Leases with deadlines that can be moved (10 to 600 s), redelivery after a deadline or a nack, retry policies, dead-letter
//! policies with delivery attempts and the `CloudPubSubDeadLetter*` attributes, ordering keys, the exactly-once flag with
//! errors for stale ack ids, flow control per stream by messages and bytes, and the limits: 10,000,000 B and 1,000 messages
//! per publish, 100 attributes per message. A stream that closes leaves its leases until their deadlines. Message ids
//! begin at the clock, so they do not repeat in a later process.
//!
//! # What it does not
//! Update, Seek, snapshots, schemas, pages of lists (all come in one), labels beyond storing them, retention (a message
//! stays until it is acknowledged or its subscription is deleted), permissions. Filters, push, exports and transforms are
//! refused with UNIMPLEMENTED. Nothing outlives the process.
//!
//! # Memory
//! Messages that somebody has not acknowledged may take [`Options::backlog_bytes_max`]; a publish beyond is answered with
//! RESOURCE_EXHAUSTED, which the official libraries try again. What is acknowledged is freed.
//!
//! # Faults
//! Each is a method of [`Emulator`] and a path for another process, `POST /fault/NAME` with a JSON body. `GET /faults` has
//! [`Emulator::counts`]: how often each *fired*, which is not how often it was armed. `GET /backlog` has what is ready,
//! leased and done per subscription.
//!
//! | path | body | what happens |
//! |---|---|---|
//! | `/fault/fail_next` | `{"method":"Publish","code":"UNAVAILABLE","times":1}` | the next calls of the method fail |
//! | `/fault/reset_streams` | `{}` | every open stream ends with UNAVAILABLE |
//! | `/fault/hold_streams` | `{"on":true}` | every stream, also a new one, stays open and is silent until it is off again |
//! | `/fault/silence_streams` | `{}` | the streams that are open now stay open and are silent for good; new ones work |
//! | `/fault/duplicate_next` | `{"times":3}` | the next messages are delivered twice, one right after the other |
//! | `/fault/shuffle` | `{"seed":1}` or `{"seed":null}` | messages are delivered in the seed's order within blocks of 16 |
//! | `/fault/stall_acks` | `{"on":true}` | acks are answered and forgotten |
//! | `/fault/corrupt_next` | `{"times":3}` | the next messages with data are delivered with some bytes falsified |
//! | `/fault/outage` | `{"for_ms":1000}` | the address refuses for that long; the state stays |
//!
//! On a held or silent stream requests are lost too. A duplicate has an ack id of its own and may exceed flow control by
//! one; the message is done when either is acknowledged, and comes again when both were given up. Shuffling waits up to
//! 50 ms for a block to fill, so a stream that keeps up gets its messages out of order too; subscriptions with ordering
//! keys are left alone. The order follows from the seed and from the order of publishing alone, as long as blocks fill in
//! time.
//!
//! Never: a use in production.

mod control;
mod error;
mod faults;
mod generated;
mod grpc;
mod rest;
mod state;
mod stream;
mod subscription;
mod supervisor;
mod terms;
mod topic;

pub use error::{EmulatorError, Refused};
pub use faults::{FaultCounts, Method, UnknownMethod};
pub use state::Deliveries;
pub use tonic::Code;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use state::Shared;
use std::{
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};
use supervisor::{COMMANDS_MAX, Command, Commands, Supervisor};

/// What an emulator may do and where.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where to listen; port 0 for any free one.
    pub address: SocketAddr,
    /// Bytes of unacknowledged messages, over all subscriptions, from which on publishing is refused.
    pub backlog_bytes_max: u64,
}

impl Options {
    /// A backlog of 1 GiB: a hundred messages of the greatest size, and what a machine that runs tests can spare.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, backlog_bytes_max: 1 << 30 }
    }
}

/// A running emulator on threads of its own; it ends when dropped. Usable from any thread, inside or outside of a runtime.
#[derive(Debug)]
pub struct Emulator {
    shared: Arc<Shared>,
    commands: Commands,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Emulator {
    /// Listens on `address`, port 0 for any free one.
    ///
    /// # Errors
    /// The address cannot be listened on, or there are no threads.
    pub fn start(address: SocketAddr) -> Result<Self, EmulatorError> {
        Self::start_with(Options::new(address))
    }

    /// As [`Emulator::start`], with other bounds.
    ///
    /// # Errors
    /// The address cannot be listened on, or there are no threads.
    pub fn start_with(options: Options) -> Result<Self, EmulatorError> {
        let shared = Arc::new(Shared::new(options.backlog_bytes_max));
        let (commands, received) = sync_channel(COMMANDS_MAX);
        let supervisor = Supervisor {
            shared: Arc::clone(&shared),
            address: options.address,
            commands: commands.clone(),
            serving: None,
            served: false,
        };
        let thread = thread::Builder::new().name("pubsub-supervisor".to_owned());
        let thread = thread.spawn(move || supervisor.run(&received)).map_err(EmulatorError::Threads)?;
        let mut emulator = Self { shared, commands, address: options.address, thread: Some(thread) };
        emulator.address = emulator.ask(Command::Restart)??;
        Ok(emulator)
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T, EmulatorError> {
        let (answer, answered) = sync_channel(1);
        self.commands.send(command(answer)).map_err(|_| EmulatorError::Gone)?;
        answered.recv().map_err(|_| EmulatorError::Gone)
    }

    /// Where it listens, or did before it was killed.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://HOST:PORT`, as the official libraries want it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts every connection and leaves the address, as a crash does; topics, subscriptions, leases and messages stay, as
    /// they do at the service. Returns when the address refuses.
    ///
    /// # Errors
    /// The emulator's thread has ended.
    pub fn kill(&self) -> Result<(), EmulatorError> {
        self.ask(Command::Kill)
    }

    /// Serves again at the same address; what it serves is cut first.
    ///
    /// # Errors
    /// The address cannot be listened on any more, or the emulator's thread has ended.
    pub fn restart(&self) -> Result<(), EmulatorError> {
        self.ask(Command::Restart)?.map(|_| ())
    }

    /// Makes a topic by its whole name, `projects/PROJECT/topics/NAME`.
    ///
    /// # Errors
    /// The name is not one, or the topic is there already.
    pub fn create_topic(&self, name: &str) -> Result<(), EmulatorError> {
        let topic = pb::Topic { name: name.to_owned(), ..pb::Topic::default() };
        self.shared.create_topic(topic).map_err(Refused::from)?;
        Ok(())
    }

    /// Makes a subscription by its whole name, `projects/PROJECT/subscriptions/NAME`, with leases of 10 s and no policies.
    ///
    /// # Errors
    /// The name is not one, the topic is not there, or the subscription is.
    pub fn create_subscription(&self, name: &str, topic: &str) -> Result<(), EmulatorError> {
        let subscription =
            pb::Subscription { name: name.to_owned(), topic: topic.to_owned(), ..pb::Subscription::default() };
        self.shared.create_subscription(subscription).map_err(Refused::from)?;
        Ok(())
    }

    /// Lets the next `times` calls of `method` fail with `code`.
    pub fn fail_next(&self, method: Method, code: Code, times: u32) {
        self.shared.fail_next(method, code, times);
    }

    /// Ends every open stream with UNAVAILABLE.
    pub fn reset_streams(&self) {
        self.shared.reset_streams();
    }

    /// While on, every stream stays open and is silent, as on a path that stalls: nothing is delivered and requests are
    /// lost. Turned off, all go on.
    pub fn hold_streams(&self, on: bool) {
        self.shared.hold_streams(on);
    }

    /// Makes the streams that are open now silent for good, as half-open connections are; those opened later work.
    pub fn silence_streams(&self) {
        self.shared.silence_streams();
    }

    /// Delivers the next `times` messages twice.
    pub fn duplicate_next(&self, times: u32) {
        self.shared.duplicate_next(times);
    }

    /// Delivers in the seed's order within blocks of 16 messages, until called with `None`.
    pub fn shuffle(&self, seed: Option<u64>) {
        self.shared.shuffle(seed);
    }

    /// While on, acks are answered as good and forgotten: the messages come again when their leases end.
    pub fn stall_acks(&self, on: bool) {
        self.shared.stall_acks(on);
    }

    /// Falsifies the first, the middle and the last byte of the next `times` deliveries that have data. What is stored
    /// stays right.
    pub fn corrupt_next(&self, times: u32) {
        self.shared.corrupt_next(times);
    }

    /// How often each fault fired.
    #[must_use]
    pub fn counts(&self) -> FaultCounts {
        self.shared.lock().faults.counts.clone()
    }

    /// Messages of a subscription by its whole name, (ready or waiting for their backoff, leased); (0, 0) when all are
    /// done, `None` without such a subscription.
    #[must_use]
    pub fn backlog(&self, subscription: &str) -> Option<(usize, usize)> {
        self.shared.advance();
        self.shared.lock().subscriptions.get(subscription).map(|subscription| subscription.backlog.counts())
    }

    /// Waits until the backlog of a subscription is as `wanted` by (ready, leased). Without such a subscription it waits
    /// for ever.
    pub async fn until_backlog(&self, subscription: &str, wanted: impl Fn(usize, usize) -> bool) {
        let changed = self.shared.lock().subscriptions.get(subscription).map(|found| Arc::clone(&found.changed));
        let Some(changed) = changed else { return std::future::pending().await };
        loop {
            let mut woken = pin!(changed.notified());
            woken.as_mut().enable();
            if self.backlog(subscription).is_some_and(|(ready, leased)| wanted(ready, leased)) {
                return;
            }
            woken.await;
        }
    }

    /// Waits until every message of a subscription is acknowledged.
    pub async fn drained(&self, subscription: &str) {
        self.until_backlog(subscription, |ready, leased| ready + leased == 0).await;
    }

    /// What has happened to the messages of a subscription.
    #[must_use]
    pub fn deliveries(&self, subscription: &str) -> Option<Deliveries> {
        self.shared.lock().subscriptions.get(subscription).map(|subscription| subscription.deliveries)
    }

    /// Messages that were published to a topic, dead letters included.
    #[must_use]
    pub fn published(&self, topic: &str) -> Option<u64> {
        self.shared.lock().topics.get(topic).map(|topic| topic.published)
    }

    /// Bytes of all messages that somebody has not acknowledged, with what keeping them costs.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.shared.held_bytes()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Either the thread takes it or it has ended already.
        self.commands.send(Command::Stop).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
