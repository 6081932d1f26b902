//! The store and the epoch journal as far as a kill can tell: what was admitted becomes durable in order and a while
//! later, and what is not durable when the process is killed never was.
//!
//! Never: a row without its version; half an event.

use super::setup::Market;
use market::{AdmittedChanges, Restored, RestoredTick, Scale, Side, TickChange, TickKey, U256, Version};
use server::epochs::BLOCK;
use std::collections::{BTreeMap, VecDeque};

/// What is durable of one instrument.
#[derive(Clone, Debug, Default)]
struct Rows {
    version: Option<Version>,
    scale: Scale,
    heard_ns: u64,
    ticks: BTreeMap<(Side, TickKey), (U256, Version)>,
}

/// The store.
#[derive(Clone, Debug)]
pub(super) struct Store {
    lag_ns: u64,
    waiting: VecDeque<(u64, Market, AdmittedChanges)>,
    rows: Vec<Rows>,
}

impl Store {
    pub(super) fn new(lag_ns: u64, markets: usize) -> Self {
        Self { lag_ns, waiting: VecDeque::new(), rows: vec![Rows::default(); markets] }
    }

    pub(super) fn set_lag(&mut self, lag_ns: u64) {
        self.lag_ns = lag_ns;
    }

    /// Takes what was admitted; durable after the lag, and never before what was taken earlier.
    pub(super) fn take(&mut self, now_ns: u64, market: Market, admitted: AdmittedChanges) {
        let earliest = self.waiting.back().map_or(0, |(due_ns, ..)| *due_ns);
        self.waiting.push_back((now_ns.saturating_add(self.lag_ns).max(earliest), market, admitted));
    }

    /// Makes durable what is due.
    pub(super) fn settle(&mut self, now_ns: u64) {
        while self.waiting.front().is_some_and(|(due_ns, ..)| *due_ns <= now_ns) {
            let Some((_, market, admitted)) = self.waiting.pop_front() else { return };
            if let Some(rows) = self.rows.get_mut(market) {
                rows.keep(&admitted);
            }
        }
    }

    /// The process that wrote is gone; gives how many events went with it.
    pub(super) fn crash(&mut self, now_ns: u64) -> usize {
        self.settle(now_ns);
        let lost = self.waiting.len();
        self.waiting.clear();
        lost
    }

    /// What a new process begins with, if there is anything.
    pub(super) fn restored(&self, market: Market) -> Option<Restored> {
        let rows = self.rows.get(market)?;
        let version = rows.version?;
        let ticks = rows.ticks.iter().filter(|(_, (reserves, _))| !reserves.is_zero());
        let ticks: Vec<_> = ticks
            .map(|((side, key), (reserves, version))| RestoredTick {
                tick: TickChange { side: *side, key: *key, reserves: *reserves },
                version: *version,
            })
            .collect();
        let through = version;
        Some(Restored {
            version,
            through,
            scale: rows.scale,
            ticks: Some(ticks),
            from_log: false,
            heard_ns: rows.heard_ns,
        })
    }

    /// The epoch that an instrument reached.
    pub(super) fn epoch(&self, market: Market) -> Option<u64> {
        Some(self.rows.get(market)?.version?.epoch)
    }

    /// The greatest epoch of all.
    pub(super) fn greatest_epoch(&self) -> u64 {
        self.rows.iter().filter_map(|rows| Some(rows.version?.epoch)).max().unwrap_or(0)
    }
}

impl Rows {
    /// As a ReplacingMergeTree by version does: the greater version stays, and of equal ones the later row.
    fn keep(&mut self, admitted: &AdmittedChanges) {
        let version = admitted.version;
        if admitted.changes.is_empty() {
            return;
        }
        if admitted.whole {
            let named = |key: &(Side, TickKey)| admitted.changes.iter().any(|change| (change.side, change.key) == *key);
            for (_, row) in self.ticks.iter_mut().filter(|(key, row)| !named(key) && row.1 <= version) {
                *row = (U256::ZERO, version);
            }
        }
        for change in &admitted.changes {
            let row = self.ticks.entry((change.side, change.key)).or_insert((U256::ZERO, version));
            if row.1 <= version {
                *row = (change.reserves, version);
            }
        }
        self.version = self.version.max(Some(version));
        self.scale = admitted.scale;
        self.heard_ns = admitted.received_ns;
    }
}

/// The epoch journal: durable at once, before anything of a block is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    next: u64,
}

impl Journal {
    /// Reserves a block that begins at `least` or later.
    pub(super) fn reserve(&mut self, least: u64) -> u64 {
        let first = self.next.max(least).max(1);
        self.next = first.saturating_add(BLOCK);
        first
    }
}
