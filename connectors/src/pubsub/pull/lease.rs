//! Messages that were handed out, each until it is acknowledged, nacked or dropped; and the counts of all of them.
//!
//! Never: one message acknowledged and nacked.

use foldhash::{HashMap, HashMapExt};
use google_cloud_pubsub::subscriber::handler::Handler;
use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::sync::Notify;

/// The right to acknowledge a message. Dropped, it is nacked.
pub struct Lease {
    number: u64,
    held: Arc<Held>,
}

impl Lease {
    /// Done: it is not to come again. It still may, if the server does not hear of it.
    pub fn ack(self) {
        self.held.end(self.number, true);
    }

    /// Not done: it is to come again, as soon as the subscription's retry policy lets it.
    pub fn nack(self) {
        drop(self);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.held.end(self.number, false);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Lease({})", self.number)
    }
}

/// What can be counted of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullCounts {
    /// Messages that came.
    pub pulled: u64,
    /// Bytes of their data.
    pub pulled_bytes: u64,
    /// Messages that were acknowledged; whether the server heard of it is not known.
    pub acked: u64,
    /// Messages that were nacked or dropped, at a stop too.
    pub nacked: u64,
    /// Messages that were acknowledged after a stop had nacked them: they come again.
    pub late: u64,
    /// Streams that were opened, the first one included.
    pub streams: u64,
    /// Streams that the server refused or ended, and clients that could not be made.
    pub refused: u64,
    /// Streams that were given up because nothing came.
    pub silent: u64,
    /// Messages handed out and not done with.
    pub held: u64,
    /// Bytes of their data.
    pub held_bytes: u64,
}

/// Reads the counts, from any thread.
#[derive(Clone, Debug)]
pub struct PullMeter {
    held: Arc<Held>,
}

impl PullMeter {
    pub(super) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// The counts by now.
    #[must_use]
    pub fn read(&self) -> PullCounts {
        let Held { pulled, pulled_bytes, acked, nacked, late, streams, refused, silent, .. } = &*self.held;
        let (held, held_bytes) = self.held.size();
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        PullCounts {
            pulled: pulled.load(Relaxed),
            pulled_bytes: pulled_bytes.load(Relaxed),
            acked: acked.load(Relaxed),
            nacked: nacked.load(Relaxed),
            late: late.load(Relaxed),
            streams: streams.load(Relaxed),
            refused: refused.load(Relaxed),
            silent: silent.load(Relaxed),
            held: count(held),
            held_bytes: count(held_bytes),
        }
    }
}

/// Messages that were handed out, with the client's own handles of them.
#[derive(Debug)]
pub(super) struct Held {
    messages_max: usize,
    bytes_max: usize,
    table: Mutex<Table>,
    /// Something was let go.
    freed: Notify,
    pulled: AtomicU64,
    pulled_bytes: AtomicU64,
    acked: AtomicU64,
    nacked: AtomicU64,
    late: AtomicU64,
    pub(super) streams: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) silent: AtomicU64,
}

#[derive(Debug)]
struct Table {
    next: u64,
    bytes: usize,
    handlers: HashMap<u64, (Handler, usize)>,
}

impl Held {
    pub(super) fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self {
            messages_max,
            bytes_max,
            table: Mutex::new(Table { next: 0, bytes: 0, handlers: HashMap::new() }),
            freed: Notify::new(),
            pulled: AtomicU64::new(0),
            pulled_bytes: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            nacked: AtomicU64::new(0),
            late: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            silent: AtomicU64::new(0),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn size(&self) -> (usize, usize) {
        let table = self.table();
        (table.handlers.len(), table.bytes)
    }

    /// Takes a message in.
    pub(super) fn lease(self: &Arc<Self>, handler: Handler, bytes: usize) -> Lease {
        let number = {
            let mut table = self.table();
            let number = table.next;
            table.next += 1;
            table.bytes += bytes;
            table.handlers.insert(number, (handler, bytes));
            number
        };
        self.pulled.fetch_add(1, Relaxed);
        self.pulled_bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Relaxed);
        Lease { number, held: Arc::clone(self) }
    }

    fn end(&self, number: u64, acked: bool) {
        let ended = {
            let mut table = self.table();
            let ended = table.handlers.remove(&number);
            table.bytes -= ended.as_ref().map_or(0, |(_, bytes)| *bytes);
            ended
        };
        match ended {
            Some((handler, _)) if acked => {
                self.acked.fetch_add(1, Relaxed);
                handler.ack();
            }
            Some((handler, _)) => {
                self.nacked.fetch_add(1, Relaxed);
                handler.nack();
            }
            None if acked => {
                self.late.fetch_add(1, Relaxed);
            }
            // Acknowledged, and then dropped.
            None => {}
        }
        self.freed.notify_one();
    }

    /// Waits until one more message may be handed out.
    pub(super) async fn room(&self) {
        self.until(|messages, bytes| messages < self.messages_max && bytes < self.bytes_max).await;
    }

    /// Waits until every message is done with.
    pub(super) async fn empty(&self) {
        self.until(|messages, _| messages == 0).await;
    }

    /// The task that reads is the only one that waits.
    async fn until(&self, enough: impl Fn(usize, usize) -> bool) {
        loop {
            let (messages, bytes) = self.size();
            if enough(messages, bytes) {
                return;
            }
            self.freed.notified().await;
        }
    }

    /// Nacks every message; its lease is worth nothing any more.
    pub(super) fn nack_all(&self) {
        let handlers = {
            let mut table = self.table();
            table.bytes = 0;
            mem::replace(&mut table.handlers, HashMap::new())
        };
        for (handler, _) in handlers.into_values() {
            self.nacked.fetch_add(1, Relaxed);
            handler.nack();
        }
    }
}
