//! Ingest: how events enter a worker, at which cut, and how much of them may be under way.
//!
//! Time advances by the clock in a live run, so a silent connector stalls no cut; in a replay by the capture's own
//! times. Bytes that are injected and not yet behind the frontier are bounded by a credit: beyond it ingest stops
//! reading, the sender waits, and the wait is counted.
//!
//! Never: a blocking call on a worker's thread.

use crate::clock::CutClock;
use market::{Body, Event, LegId};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel},
    },
    time::Duration,
};
use timely::{
    container::CapacityContainerBuilder,
    dataflow::{Scope, StreamVec, operators::generic::source},
    scheduling::{Activator, SyncActivator},
};

/// Bytes of events in one batch at the most, single larger events excepted.
pub const BATCH_BYTES_MAX: u64 = 256 << 10;

/// Batches waiting for one worker; with [`BATCH_BYTES_MAX`] a bound of 16 MiB.
const BATCHES_QUEUED_MAX: usize = 64;

/// How soon ingest looks again when it is out of credit; the lanes wake nobody when they give some back.
const CREDIT_RETRY: Duration = Duration::from_micros(500);

/// Events of one cut.
#[derive(Debug)]
pub struct Batch {
    /// The cut that they belong to in a replay; a live run stamps them with the open one.
    pub cut: u64,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// How time advances.
#[derive(Clone)]
pub enum Pace {
    /// With the batches' own cuts.
    Replay,
    /// With a clock that gives Unix nanoseconds.
    Clock(Arc<dyn Fn() -> u64 + Send + Sync>),
}

/// Bytes under way in the whole process.
#[derive(Debug)]
pub struct Credit {
    in_flight: AtomicU64,
    limit: u64,
    waits: AtomicU64,
}

impl Credit {
    /// A credit of that many bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { in_flight: AtomicU64::new(0), limit, waits: AtomicU64::new(0) })
    }

    /// Gives bytes back, once what became of them has left the computation.
    pub fn release(&self, bytes: u64) {
        self.in_flight.fetch_sub(bytes, SeqCst);
    }

    /// Bytes under way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(SeqCst)
    }

    /// Times that ingest found the credit used up.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits.load(SeqCst)
    }

    fn exhausted(&self) -> bool {
        self.in_flight() >= self.limit
    }
}

/// The sending end of one worker's feed.
#[derive(Clone)]
pub struct FeedSender {
    batches: SyncSender<Batch>,
    wake: Arc<Wake>,
}

/// The receiving end, given to the worker's ingest.
pub struct FeedReceiver {
    batches: Receiver<Batch>,
    wake: Arc<Wake>,
}

/// Coalesced wake-ups: only the first batch after a drain pays for one.
#[derive(Default)]
struct Wake {
    armed: AtomicBool,
    activator: OnceLock<SyncActivator>,
}

/// The workers have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the computation has ended")]
pub struct Ended;

/// A feed for one worker.
#[must_use]
pub fn feed() -> (FeedSender, FeedReceiver) {
    let (sender, receiver) = sync_channel(BATCHES_QUEUED_MAX);
    let wake = Arc::new(Wake::default());
    (FeedSender { batches: sender, wake: Arc::clone(&wake) }, FeedReceiver { batches: receiver, wake })
}

impl FeedSender {
    /// Hands over a batch, waiting while the feed is full: the source is slowed, nothing is lost.
    ///
    /// # Errors
    /// [`Ended`] when the worker no longer takes any.
    pub fn send(&self, batch: Batch) -> Result<(), Ended> {
        match self.batches.try_send(batch) {
            Ok(()) => {}
            Err(TrySendError::Full(batch)) => {
                self.wake();
                self.batches.send(batch).map_err(|_| Ended)?;
            }
            Err(TrySendError::Disconnected(_)) => return Err(Ended),
        }
        self.wake();
        Ok(())
    }

    /// Hands over a batch if the feed has room for it now; gives it back if not.
    ///
    /// # Errors
    /// [`Ended`] when the worker no longer takes any.
    pub fn offer(&self, batch: Batch) -> Result<Option<Batch>, Ended> {
        let full = match self.batches.try_send(batch) {
            Ok(()) => None,
            Err(TrySendError::Full(batch)) => Some(batch),
            Err(TrySendError::Disconnected(_)) => return Err(Ended),
        };
        self.wake();
        Ok(full)
    }

    fn wake(&self) {
        if self.wake.armed.swap(true, SeqCst) {
            return;
        }
        match self.wake.activator.get() {
            // A failure means that the worker is gone, which the next send tells.
            Some(activator) => drop(activator.activate()),
            None => self.wake.armed.store(false, SeqCst),
        }
    }
}

impl Drop for FeedSender {
    fn drop(&mut self) {
        // The worker must look once more to see that nobody sends any longer.
        self.wake.armed.store(false, SeqCst);
        self.wake();
    }
}

/// What ingest needs to know.
#[derive(Clone)]
pub struct IngestConfig {
    /// The grid of cuts.
    pub clock: CutClock,
    /// How time advances.
    pub pace: Pace,
    /// Bytes under way.
    pub credit: Arc<Credit>,
}

/// How long a replay's ingest sleeps when its feed is empty and nobody woke it, in case the wake-up came before it
/// could be received.
const IDLE_RETRY: Duration = Duration::from_millis(5);

struct Ingest {
    config: IngestConfig,
    feed: FeedReceiver,
    activator: Activator,
    peers: u64,
    /// Bytes injected for the open cut.
    open_bytes: u64,
    waiting: Option<Batch>,
}

enum Taken {
    Batch(Batch),
    Nothing,
    OutOfCredit(u64),
    Ended,
}

impl Ingest {
    /// The next batch that may be injected while `cut` is open.
    fn take(&mut self, cut: u64) -> Taken {
        let batch = match self.waiting.take() {
            Some(batch) => batch,
            None => match self.feed.batches.try_recv() {
                Ok(batch) => batch,
                Err(TryRecvError::Empty) => return Taken::Nothing,
                Err(TryRecvError::Disconnected) => return Taken::Ended,
            },
        };
        // A cut larger than the whole credit must still pass: nothing else can give its bytes back.
        let alone = self.config.credit.in_flight() <= self.open_bytes;
        let same = matches!(self.config.pace, Pace::Clock(_)) || batch.cut <= cut;
        if self.config.credit.exhausted() && !(alone && same) {
            self.config.credit.waits.fetch_add(1, SeqCst);
            let next = batch.cut;
            self.waiting = Some(batch);
            return Taken::OutOfCredit(next);
        }
        Taken::Batch(batch)
    }

    fn charge(&mut self, events: &[Event]) {
        let bytes: u64 = events.iter().map(|event| self.copies(event).saturating_mul(event.bytes())).sum();
        self.config.credit.in_flight.fetch_add(bytes, SeqCst);
        self.open_bytes = self.open_bytes.saturating_add(bytes);
    }

    /// Events of a leg go to every lane.
    fn copies(&self, event: &Event) -> u64 {
        if is_of_leg(event) { self.peers } else { 1 }
    }
}

/// The events with a copy of each leg's for every lane, in their order.
fn for_every_lane(events: Vec<Event>, peers: u64) -> Vec<Event> {
    let mut all = Vec::with_capacity(events.len().saturating_add(8));
    for event in events {
        if is_of_leg(&event) {
            all.extend((0..peers).map(|route| Event { route, ..event.clone() }));
        } else {
            all.push(event);
        }
    }
    all
}

fn is_of_leg(event: &Event) -> bool {
    matches!(
        event.body,
        Body::LegHeard
            | Body::LegUp
            | Body::LegDown
            | Body::Halted
            | Body::Resumed
            | Body::Hole
            | Body::Filled
            | Body::Through(_)
            | Body::End
    )
}

/// Batches injected per activation: at most 1 MiB, so that the lane finds it in its cache and a cut stays short.
const BATCHES_PER_TURN: usize = 4;

/// The ingest operator of this worker. Without a feed it lets time go at once in a replay, and advances it by the
/// clock in a live run.
pub(crate) fn ingest<'scope>(
    scope: Scope<'scope, u64>,
    config: IngestConfig,
    feed: FeedReceiver,
) -> StreamVec<'scope, u64, Event> {
    source::<u64, CapacityContainerBuilder<Vec<Event>>, _, _>(scope, "Ingest", |capability, info| {
        let activator = scope.activator_for(info.address.clone());
        // A feed has one worker, so nobody set this before.
        drop(feed.wake.activator.set(scope.worker().sync_activator_for(info.address.to_vec())));
        let peers = u64::try_from(scope.peers()).unwrap_or(u64::MAX);
        let mut ingest = Ingest { config, feed, activator, peers, open_bytes: 0, waiting: None };
        let mut capability = Some(capability);
        move |output| {
            // Disarm before draining: a batch that comes in between wakes us again.
            ingest.feed.wake.armed.store(false, SeqCst);
            for _ in 0..BATCHES_PER_TURN {
                let Some(held) = capability.as_mut() else { return };
                if let Pace::Clock(now_ns) = &ingest.config.pace {
                    let cut = ingest.config.clock.cut_at(now_ns());
                    ingest.advance(held, cut);
                }
                match ingest.take(*held.time()) {
                    Taken::Batch(mut batch) => {
                        if matches!(ingest.config.pace, Pace::Replay) {
                            ingest.advance(held, batch.cut);
                        }
                        ingest.charge(&batch.events);
                        let mut session = output.session(&*held);
                        if batch.events.iter().any(is_of_leg) {
                            batch.events = for_every_lane(batch.events, peers);
                        }
                        // The whole batch as one container: it is handed on, not copied event by event.
                        session.give_container(&mut batch.events);
                    }
                    Taken::Nothing => return ingest.sleep(),
                    Taken::OutOfCredit(next) => {
                        if matches!(ingest.config.pace, Pace::Replay) {
                            ingest.advance(held, next);
                        }
                        return ingest.activator.activate_after(CREDIT_RETRY);
                    }
                    Taken::Ended => {
                        let end = Event::of_leg(0, LegId(0), 0, Body::End);
                        ingest.charge(std::slice::from_ref(&end));
                        let routed = (0..peers).map(|route| Event { route, ..end.clone() });
                        output.session(&*held).give_iterator(routed);
                        capability = None;
                    }
                }
            }
            ingest.activator.activate();
        }
    })
}

impl Ingest {
    fn advance(&mut self, capability: &mut timely::dataflow::operators::Capability<u64>, cut: u64) {
        if cut > *capability.time() {
            capability.downgrade(&cut);
            self.open_bytes = 0;
        }
    }

    fn sleep(&self) {
        match &self.config.pace {
            Pace::Clock(now_ns) => {
                let now_ns = now_ns();
                let cut = self.config.clock.cut_at(now_ns);
                let rest = self.config.clock.end_ns(cut).saturating_sub(now_ns);
                self.activator.activate_after(Duration::from_nanos(rest));
            }
            Pace::Replay => self.activator.activate_after(IDLE_RETRY),
        }
    }
}
