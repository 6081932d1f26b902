//! What the batch stream counts, for metrics and for people.
//!
//! Never: a number kept twice.

use market::batch::Hole;
use serde::Serialize;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Counts of one batch stream.
#[derive(Debug, Default)]
pub struct BatchNumbers {
    /// Messages that came.
    pub messages: AtomicU64,
    /// Batches delivered to the lanes.
    pub delivered: AtomicU64,
    /// Batches that were there already.
    pub duplicates: AtomicU64,
    /// Batches that came when the stream had gone on without them.
    pub late: AtomicU64,
    /// Snapshots that nothing needed.
    pub outdated: AtomicU64,
    /// Batches that could not be taken and were given back to be tried again.
    pub refused: AtomicU64,
    /// Batches in the dead letters.
    pub dead_letters: AtomicU64,
    /// Batches inserted into the log.
    pub logged: AtomicU64,
    /// Failures of the store, each tried again.
    pub store_failures: AtomicU64,
    /// Holes that lasted.
    pub holes: AtomicU64,
    /// Losses that an operator accepted.
    pub losses: AtomicU64,
    /// Times that the stream was rebuilt.
    pub rebuilds: AtomicU64,
    /// Subscriptions that were made anew.
    pub reconnects: AtomicU64,
    state: Mutex<BatchState>,
}

/// Where a batch stream stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchState {
    /// The stream's name.
    pub stream: String,
    /// Height up to which everything is delivered, accepted as lost, or passed by a snapshot.
    pub position: u64,
    /// Height up to which everything is durable.
    pub cursor: u64,
    /// Batches that wait in the log.
    pub waiting: usize,
    /// Bytes of batches in memory.
    pub memory_bytes: usize,
    /// What is missing: above the first height, up to the second.
    pub hole: Option<(u64, u64)>,
    /// Since when, Unix nanoseconds as text.
    pub hole_since_ns: Option<String>,
    /// A loss was accepted that nothing healed yet.
    pub lossy: bool,
    /// The subscription is up.
    pub up: bool,
    /// Nothing older than it should be is being caught up.
    pub caught_up: bool,
    /// Publication time of the batch delivered last, Unix nanoseconds as text.
    pub published_ns: String,
}

impl BatchState {
    pub(super) fn set_hole(&mut self, hole: Option<(Hole, u64)>) {
        self.hole = hole.map(|(hole, _)| (hole.after, hole.through));
        self.hole_since_ns = hole.map(|(_, since_ns)| since_ns.to_string());
    }
}

impl BatchNumbers {
    /// Every count with its name.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 13] {
        [
            ("messages", &self.messages),
            ("delivered", &self.delivered),
            ("duplicates", &self.duplicates),
            ("late", &self.late),
            ("outdated", &self.outdated),
            ("refused", &self.refused),
            ("dead_letters", &self.dead_letters),
            ("logged", &self.logged),
            ("store_failures", &self.store_failures),
            ("holes", &self.holes),
            ("losses", &self.losses),
            ("rebuilds", &self.rebuilds),
            ("reconnects", &self.reconnects),
        ]
        .map(|(name, count)| (name, count.load(Relaxed)))
    }

    /// Where the stream stands.
    #[must_use]
    pub fn state(&self) -> BatchState {
        self.with(|state| state.clone())
    }

    pub(super) fn with<T>(&self, use_state: impl FnOnce(&mut BatchState) -> T) -> T {
        use_state(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
