//! Changes of an instrument that wait until the store's live keys of it are known: a first whole book, or one in other
//! steps, and what came after it.
//!
//! Never: an order other than that of the events.

use super::{
    conflated::{Conflated, bytes_of_events},
    made::Made,
    options::backoff_ns,
};
use crate::clickhouse::rows::LeftOut;
use market::LegId;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(super) struct Hold {
    /// The whole book that needs the keys, then all that came after it.
    pub(super) events: VecDeque<Made>,
    /// What came after that, conflated, since too much waited.
    pub(super) later: Option<Conflated>,
    /// What was left out of the instrument's changes before the book.
    pub(super) left_out: Option<LeftOut>,
    pub(super) leg: LegId,
    /// Tick batches that must be confirmed before the store can be asked: they hold rows of this instrument.
    pub(super) after_batches: u64,
    /// Likewise the buckets of blocks with numbers below this.
    pub(super) after_blocks: u64,
    pub(super) since_ns: u64,
    pub(super) asked: bool,
    pub(super) failures: u32,
    pub(super) retry_at_ns: u64,
}

impl Hold {
    /// Bytes that it occupies.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of_events(&self.events).saturating_add(self.later.as_ref().map_or(0, Conflated::bytes))
    }

    /// Whether its book makes good a loss.
    pub(super) fn makes_good(&self) -> bool {
        self.events.front().is_some_and(|whole| whole.after_loss)
    }

    /// Takes a further event; conflated if it shall be, or if one before it was. Gives how many changes are left out.
    pub(super) fn take(&mut self, now_ns: u64, made: Made, conflate: bool) -> u64 {
        match &mut self.later {
            Some(later) => later.take(now_ns, made),
            None if conflate => {
                self.later = Some(Conflated::new(now_ns, made));
                0
            }
            None => {
                self.events.push_back(made);
                0
            }
        }
    }

    /// Conflates what came after the whole book; gives how many changes are left out.
    pub(super) fn conflate(&mut self) -> u64 {
        let since_ns = self.since_ns;
        let later = self.events.split_off(1.min(self.events.len()));
        later.into_iter().map(|made| self.take(since_ns, made, true)).sum()
    }

    /// The keys could not be read.
    pub(super) fn failed(&mut self, now_ns: u64) {
        self.asked = false;
        self.retry_at_ns = now_ns.saturating_add(backoff_ns(self.failures));
        self.failures = self.failures.saturating_add(1);
    }
}
