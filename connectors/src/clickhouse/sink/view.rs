//! The sink's state as others see it: metrics, those who wait until something is durable, and those who give it more.
//!
//! Never: a lock held over work.

use crate::clickhouse::{
    trouble::StoreState,
    writer::{Counters, Through},
};
use foldhash::HashMap;
use market::{LegId, SymbolId, Version};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// See the module.
#[derive(Debug, Default)]
pub struct SinkView {
    inner: Mutex<ViewInner>,
    /// Something is in `wanted`.
    wants: AtomicBool,
    /// Messages of venues that did not even come to the sink.
    raw_refused: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct ViewInner {
    pub(super) counters: Counters,
    pub(super) durable: HashMap<SymbolId, Version>,
    pub(super) through: HashMap<LegId, Through>,
    pub(super) waits: u64,
    pub(super) wanted: Vec<SymbolId>,
    /// Inputs of the tape that the writer has.
    pub(super) taken: u64,
    pub(super) lacks_books: bool,
}

impl SinkView {
    /// The writer's counters as of its last step.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.with(|inner| inner.counters.clone());
        counters.raw_left_out += self.raw_refused.load(Relaxed);
        counters
    }

    /// Version up to which everything of an instrument is in the store, but for what `history_gaps` names.
    #[must_use]
    pub fn durable(&self, symbol: SymbolId) -> Option<Version> {
        self.with(|inner| inner.durable.get(&symbol).copied())
    }

    /// Up to where a leg's batch stream is in the store: what everything before its marks became, in their order.
    #[must_use]
    pub fn through(&self, leg: LegId) -> Through {
        self.with(|inner| inner.through.get(&leg).copied().unwrap_or_default())
    }

    /// Bytes of what batch streams became that wait for the store.
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        self.with(|inner| inner.counters.stream_bytes)
    }

    /// How the store does.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.with(|inner| inner.counters.state)
    }

    /// How often a replay's source had to wait because the writer was full; a run's never has.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.with(|inner| inner.waits)
    }

    /// Counts a message of a venue that the sink's queue did not take.
    pub fn refuse_raw(&self) {
        self.raw_refused.fetch_add(1, Relaxed);
    }

    /// Instruments whose whole books the sink wants, at the version that they are shown at, because it had to give up
    /// what was pushed of them; each is told once.
    #[must_use]
    pub fn take_wanted(&self) -> Vec<SymbolId> {
        // Asked with every step, and nearly always in vain.
        if !self.wants.swap(false, Relaxed) {
            return Vec::new();
        }
        self.with(|inner| std::mem::take(&mut inner.wanted))
    }

    /// Whether the writer has so many inputs of the tape, and lacks no whole book: nothing more can make the store's state
    /// more right.
    #[must_use]
    pub fn is_settled(&self, handed: u64) -> bool {
        self.with(|inner| inner.taken >= handed && !inner.lacks_books)
    }

    pub(super) fn want(&self, symbols: Vec<SymbolId>) {
        if !symbols.is_empty() {
            self.with(|inner| inner.wanted.extend(symbols));
            self.wants.store(true, Relaxed);
        }
    }

    pub(super) fn with<T>(&self, use_inner: impl FnOnce(&mut ViewInner) -> T) -> T {
        use_inner(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
