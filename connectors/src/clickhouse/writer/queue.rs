//! The batches of one table: one that is filled, those that wait, and the one under way.
//!
//! Never: a batch that overtakes another of its table; rows of a batch that change after it got its token.

use super::{WriterOptions, options::backoff_ns};
use crate::clickhouse::rows::{Rows, Table, TickUpdate};
use foldhash::HashMap;
use market::{SymbolId, Version};
use std::{collections::VecDeque, sync::Arc};

/// Rows for one insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The table.
    pub table: Table,
    /// The deduplication token.
    pub token: Box<str>,
    /// The rows, in order.
    pub rows: Rows,
}

/// What rows of a batch bring their instruments to, once it is confirmed.
pub(super) type Marks = HashMap<SymbolId, Version>;

/// Notes a version of an instrument unless a greater one is noted.
pub(super) fn raise(marks: &mut Marks, symbol: SymbolId, version: Version) {
    let last = marks.entry(symbol).or_insert(version);
    *last = version.max(*last);
}

#[derive(Debug)]
struct Closed {
    batch: Arc<Batch>,
    bytes: u64,
    opened_ns: u64,
    marks: Marks,
    /// It is the last of the batches that were filled together.
    completes: bool,
}

#[derive(Debug)]
pub(super) struct TableQueue {
    table: Table,
    stream: Box<str>,
    open: Rows,
    /// Tombstones that go into a batch of their own behind the open one.
    apart: Vec<TickUpdate>,
    open_bytes: u64,
    opened_ns: Option<u64>,
    marks: Marks,
    /// Number of the batch that is being filled.
    number: u64,
    /// How many filled batches were confirmed.
    done: u64,
    closed: VecDeque<Closed>,
    closed_bytes: u64,
    /// The first closed batch is under way.
    under_way: bool,
    failures: u32,
    retry_at_ns: u64,
}

impl TableQueue {
    pub(super) fn new(table: Table, stream: &str) -> Self {
        Self {
            table,
            stream: stream.into(),
            open: Rows::none(table),
            apart: Vec::new(),
            open_bytes: 0,
            opened_ns: None,
            marks: Marks::default(),
            number: 0,
            done: 0,
            closed: VecDeque::new(),
            closed_bytes: 0,
            under_way: false,
            failures: 0,
            retry_at_ns: 0,
        }
    }

    pub(super) fn open_number(&self) -> u64 {
        self.number
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// How many batches must be confirmed for all that was added so far.
    pub(super) fn needed(&self) -> u64 {
        self.number + u64::from(self.opened_ns.is_some())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.open_bytes + self.closed_bytes
    }

    pub(super) fn is_idle(&self) -> bool {
        self.opened_ns.is_none() && self.closed.is_empty()
    }

    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.closed.front().map(|closed| closed.opened_ns).or(self.opened_ns)
    }

    /// Adds rows, perhaps none, and the version that they bring an instrument to.
    pub(super) fn append(&mut self, now_ns: u64, rows: Rows, bytes: u64, mark: Option<(SymbolId, Version)>) {
        self.opened_ns.get_or_insert(now_ns);
        match (&mut self.open, rows) {
            (Rows::Raw(open), Rows::Raw(rows)) => open.extend(rows),
            (Rows::Ticks(open), Rows::Ticks(rows)) => open.extend(rows),
            (Rows::Trades(open), Rows::Trades(rows)) => open.extend(rows),
            // Each table's rows come from one place that knows their kind.
            (Rows::Raw(_) | Rows::Ticks(_) | Rows::Trades(_), _) => debug_assert!(false),
        }
        self.open_bytes += bytes;
        if let Some((symbol, version)) = mark {
            raise(&mut self.marks, symbol, version);
        }
    }

    /// Adds tombstones for the batch behind the open one; the rows that they belong to must follow.
    pub(super) fn append_apart(&mut self, rows: Vec<TickUpdate>, bytes: u64) {
        self.apart.extend(rows);
        self.open_bytes += bytes;
    }

    /// Closes the open batch, if anything is in it.
    pub(super) fn close(&mut self) {
        let Some(opened_ns) = self.opened_ns.take() else { return };
        let rows = std::mem::replace(&mut self.open, Rows::none(self.table));
        let apart = std::mem::take(&mut self.apart);
        let mut bytes = std::mem::take(&mut self.open_bytes);
        let mut marks = std::mem::take(&mut self.marks);
        self.number += 1;
        self.closed_bytes += bytes;
        if !apart.is_empty() {
            self.push(rows, std::mem::take(&mut bytes), opened_ns, Marks::default(), false);
            self.push(Rows::Ticks(apart), 0, opened_ns, std::mem::take(&mut marks), true);
            return;
        }
        self.push(rows, bytes, opened_ns, marks, true);
    }

    fn push(&mut self, rows: Rows, bytes: u64, opened_ns: u64, marks: Marks, completes: bool) {
        let token = rows.token(self.table, &self.stream);
        let batch = Arc::new(Batch { table: self.table, token, rows });
        self.closed.push_back(Closed { batch, bytes, opened_ns, marks, completes });
    }

    pub(super) fn close_if_large(&mut self, options: &WriterOptions) {
        if self.open.len() >= options.batch_rows || self.open_bytes >= options.batch_bytes {
            self.close();
        }
    }

    pub(super) fn close_if_old(&mut self, now_ns: u64, options: &WriterOptions) {
        if self.age_deadline_ns(options).is_some_and(|deadline| deadline <= now_ns) {
            self.close();
        }
    }

    fn age_deadline_ns(&self, options: &WriterOptions) -> Option<u64> {
        Some(self.opened_ns?.saturating_add(options.batch_age_ns?))
    }

    pub(super) fn deadline_ns(&self, options: &WriterOptions) -> Option<u64> {
        let retry = (self.failures > 0 && !self.under_way && !self.closed.is_empty()).then_some(self.retry_at_ns);
        self.age_deadline_ns(options).into_iter().chain(retry).min()
    }

    /// Batches without rows, from events that changed nothing, are confirmed by their predecessors; whether there were
    /// any.
    pub(super) fn finish_empty(&mut self, durable: &mut HashMap<SymbolId, Version>) -> bool {
        let mut any = false;
        while !self.under_way && self.closed.front().is_some_and(|closed| closed.batch.rows.is_empty()) {
            any |= self.complete(durable).is_some();
        }
        any
    }

    /// The next batch to insert, if none is under way and its time has come.
    pub(super) fn start(&mut self, now_ns: u64) -> Option<Arc<Batch>> {
        if self.under_way || now_ns < self.retry_at_ns {
            return None;
        }
        let batch = Arc::clone(&self.closed.front()?.batch);
        self.under_way = true;
        Some(batch)
    }

    fn is_under_way(&self, token: &str) -> bool {
        self.under_way && self.closed.front().is_some_and(|closed| *closed.batch.token == *token)
    }

    /// Confirms the batch under way; gives how many rows it had. Any other token is not this table's.
    pub(super) fn finish(&mut self, token: &str, durable: &mut HashMap<SymbolId, Version>) -> Option<usize> {
        if !self.is_under_way(token) {
            return None;
        }
        self.under_way = false;
        self.failures = 0;
        self.retry_at_ns = 0;
        self.complete(durable)
    }

    fn complete(&mut self, durable: &mut HashMap<SymbolId, Version>) -> Option<usize> {
        let closed = self.closed.pop_front()?;
        self.closed_bytes = self.closed_bytes.saturating_sub(closed.bytes);
        self.done += u64::from(closed.completes);
        for (symbol, version) in closed.marks {
            raise(durable, symbol, version);
        }
        Some(closed.batch.rows.len())
    }

    pub(super) fn retry(&mut self, now_ns: u64, token: &str) {
        if self.is_under_way(token) {
            self.under_way = false;
            self.retry_at_ns = now_ns.saturating_add(backoff_ns(self.failures));
            self.failures = self.failures.saturating_add(1);
        }
    }
}
