//! The batches of one table: one that is filled, those that wait, and the one under way.
//!
//! A batch that was never tried can be taken back; one that was tried may be in the store, and stays as it is.
//!
//! Never: a batch that overtakes another of its queue; rows of a batch that change after it was first tried.

use super::{WriterOptions, options::backoff_ns};
use crate::clickhouse::{
    rows::{Rows, Table, TickUpdate},
    trouble::StoreState,
};
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
    /// Number of the batch; those that were filled together have one.
    number: u64,
    /// Batches of gaps that must be confirmed before it is tried.
    after_gaps: u64,
    tried: bool,
}

/// What was taken back of a batch that was never tried.
#[derive(Debug)]
pub(super) struct TakenBack {
    pub(super) rows: Rows,
    pub(super) marks: Marks,
    pub(super) opened_ns: u64,
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
    /// See [`Closed::after_gaps`], of the open batch.
    after_gaps: u64,
    closed: VecDeque<Closed>,
    closed_bytes: u64,
    /// The first closed batch is under way.
    under_way: bool,
    failures: u32,
    retry_at_ns: u64,
    /// What the last failure says.
    trouble: StoreState,
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
            after_gaps: 0,
            closed: VecDeque::new(),
            closed_bytes: 0,
            under_way: false,
            failures: 0,
            retry_at_ns: 0,
            trouble: StoreState::Ready,
        }
    }

    pub(super) fn table(&self) -> Table {
        self.table
    }

    pub(super) fn open_number(&self) -> u64 {
        self.number
    }

    /// Batches with numbers below this are confirmed, or were taken back.
    pub(super) fn done(&self) -> u64 {
        self.closed.front().map_or(self.number, |closed| closed.number)
    }

    /// What [`TableQueue::done`] must reach for all that was added so far.
    pub(super) fn needed(&self) -> u64 {
        self.number + u64::from(self.opened_ns.is_some())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.open_bytes + self.closed_bytes
    }

    pub(super) fn is_idle(&self) -> bool {
        self.opened_ns.is_none() && self.closed.is_empty()
    }

    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
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
            (Rows::Gaps(open), Rows::Gaps(rows)) => open.extend(rows),
            // Each table's rows come from one place that knows their kind.
            (Rows::Raw(_) | Rows::Ticks(_) | Rows::Trades(_) | Rows::Gaps(_), _) => debug_assert!(false),
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
        self.closed_bytes += bytes;
        if apart.is_empty() {
            self.push(rows, bytes, opened_ns, marks);
        } else {
            self.push(rows, std::mem::take(&mut bytes), opened_ns, Marks::default());
            self.push(Rows::Ticks(apart), 0, opened_ns, std::mem::take(&mut marks));
        }
        self.number += 1;
        self.after_gaps = 0;
    }

    fn push(&mut self, rows: Rows, bytes: u64, opened_ns: u64, marks: Marks) {
        let token = rows.token(self.table, &self.stream);
        let batch = Arc::new(Batch { table: self.table, token, rows });
        let (number, after_gaps) = (self.number, self.after_gaps);
        self.closed.push_back(Closed { batch, bytes, opened_ns, marks, number, after_gaps, tried: false });
    }

    /// Lets the open batch wait until `done` of the gaps has reached this.
    pub(super) fn wait_for_gaps(&mut self, needed: u64) {
        self.after_gaps = self.after_gaps.max(needed);
    }

    /// Takes back the oldest batch that was never tried, or all of what is open if there is none.
    fn take_back(&mut self) -> Option<TakenBack> {
        // What was tried stands first.
        let at = usize::from(self.closed.front().is_some_and(|closed| closed.tried));
        if let Some(closed) = self.closed.remove(at) {
            self.closed_bytes = self.closed_bytes.saturating_sub(closed.bytes);
            let rows = Arc::try_unwrap(closed.batch).map_or_else(|shared| shared.rows.clone(), |batch| batch.rows);
            return Some(TakenBack { rows, marks: closed.marks, opened_ns: closed.opened_ns });
        }
        let opened_ns = self.opened_ns.take()?;
        let rows = std::mem::replace(&mut self.open, Rows::none(self.table));
        self.open_bytes = 0;
        self.after_gaps = 0;
        // Whoever waits for this number must see it pass.
        self.number += 1;
        Some(TakenBack { rows, marks: std::mem::take(&mut self.marks), opened_ns })
    }

    /// Takes back all that was never tried, the oldest first.
    pub(super) fn take_all_back(&mut self) -> Vec<TakenBack> {
        std::iter::from_fn(|| self.take_back()).collect()
    }

    /// Takes back what is oldest and was never tried until no more than so many bytes wait, or nothing more can be taken.
    pub(super) fn shorten(&mut self, bytes_max: u64) -> Vec<TakenBack> {
        std::iter::from_fn(|| if self.bytes() > bytes_max { self.take_back() } else { None }).collect()
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

    /// The next batch to insert, if none is under way, its time has come, and the gaps that it waits for are confirmed.
    pub(super) fn start(&mut self, now_ns: u64, gaps_done: u64) -> Option<Arc<Batch>> {
        if self.under_way || now_ns < self.retry_at_ns {
            return None;
        }
        let next = self.closed.front_mut().filter(|closed| closed.after_gaps <= gaps_done)?;
        next.tried = true;
        self.under_way = true;
        Some(Arc::clone(&next.batch))
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
        self.trouble = StoreState::Ready;
        self.complete(durable)
    }

    fn complete(&mut self, durable: &mut HashMap<SymbolId, Version>) -> Option<usize> {
        let closed = self.closed.pop_front()?;
        self.closed_bytes = self.closed_bytes.saturating_sub(closed.bytes);
        for (symbol, version) in closed.marks {
            raise(durable, symbol, version);
        }
        Some(closed.batch.rows.len())
    }

    /// What the last attempt says of the store; `Ready` if it was confirmed.
    pub(super) fn trouble(&self) -> StoreState {
        self.trouble
    }

    pub(super) fn retry(&mut self, now_ns: u64, token: &str, trouble: StoreState) {
        if self.is_under_way(token) {
            self.under_way = false;
            self.trouble = trouble;
            self.retry_at_ns = now_ns.saturating_add(backoff_ns(self.failures));
            self.failures = self.failures.saturating_add(1);
        }
    }
}
