//! The writer: admitted changes, trades and raw messages in, batches with deterministic tokens out, in order, with nothing lost.
//! A state machine that is told the time and the outcome of what it asked for.
//!
//! Never: input or output, a clock, a dropped row; a second insert into a table while one is under way.

mod blocks;
mod correction;
mod made;
mod options;
mod queue;
#[cfg(test)]
mod tests;

pub use blocks::{BatchStream, BatchStreams, Through};
pub use correction::{CorrectedTick, Correction};
pub use made::LiveKey;
pub use options::{
    BACKOFF_FIRST_NS, BACKOFF_MAX_NS, BATCH_AGE_NS, BATCH_BYTES, BATCH_ROWS, BLOCK_INSERTS_MAX, Counters, LOADS_MAX,
    PENDING_BYTES_MAX, WriterOptions,
};
pub use queue::Batch;

use super::rows::{RawEvent, Rows, Table, TickUpdate, TradeRecord};
use blocks::Blocks;
use foldhash::HashMap;
use made::{Made, bytes_of};
use market::{AdmittedChanges, AdmittedTrade, Instrument, LegId, Scale, SymbolId, Tranches, Version};
use options::backoff_ns;
use queue::TableQueue;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// What the writer wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Insert these rows under their token, then report [`StoreWriter::inserted`] or [`StoreWriter::failed`].
    Insert(Arc<Batch>),
    /// Read the instrument's live keys, then report [`StoreWriter::live_keys`] or
    /// [`StoreWriter::load_failed`].
    LoadLiveKeys(SymbolId),
}

/// Why something cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Tranches are numbered per process; without a name that outlives it the store's key would be wrong.
    #[error("{instrument} has a tick of tranche {tranche}, which has no name in the store")]
    UnnamedTranche {
        /// The instrument.
        instrument: Arc<str>,
        /// The tranche's number in this process.
        tranche: u32,
    },
    /// A mark of a leg that brings no batch stream that is known here.
    #[error("leg {} brings no batch stream whose blocks could be marked", leg.0)]
    UnknownStream {
        /// The leg.
        leg: LegId,
    },
}

/// Changes of one instrument that wait until the store's live keys are known.
#[derive(Debug)]
struct Hold {
    /// The whole book that needs them, then all that came after it.
    events: VecDeque<Made>,
    leg: LegId,
    /// Tick batches that must be confirmed before the store can be asked: they hold rows of this instrument.
    after_batches: u64,
    /// Likewise the buckets of blocks with numbers below this.
    after_blocks: u64,
    since_ns: u64,
    asked: bool,
    failures: u32,
    retry_at_ns: u64,
}

/// What is known of an instrument that was written to.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Scale and version of the last whole book.
    whole: Option<(Scale, Version)>,
    /// Number of the last batch with rows of it.
    last_batch: Option<u64>,
}

/// The writer; see the module.
#[derive(Debug)]
pub struct StoreWriter {
    options: WriterOptions,
    raw: TableQueue,
    ticks: TableQueue,
    trades: TableQueue,
    blocks: Blocks,
    tranches: Arc<Tranches>,
    /// Ordered, so that the same input asks in the same order.
    holds: BTreeMap<SymbolId, Hold>,
    held_bytes: u64,
    known: HashMap<SymbolId, Known>,
    durable: HashMap<SymbolId, Version>,
    /// How often that, or what is confirmed of batch streams, changed.
    steps: u64,
    counters: Counters,
    last_error_ns: u64,
    flushing: bool,
}

impl StoreWriter {
    /// A writer for a stream of input. The identity is part of every token but those of blocks: two inputs whose equal
    /// rows must both be kept need two identities, and a repeated replay needs the same.
    #[must_use]
    pub fn new(stream: &str, options: WriterOptions) -> Self {
        Self {
            raw: TableQueue::new(Table::RawEvents, stream),
            ticks: TableQueue::new(Table::TickUpdates, stream),
            trades: TableQueue::new(Table::Trades, stream),
            blocks: Blocks::default(),
            tranches: Arc::default(),
            options,
            holds: BTreeMap::new(),
            held_bytes: 0,
            known: HashMap::default(),
            durable: HashMap::default(),
            steps: 0,
            counters: Counters::default(),
            last_error_ns: 0,
            flushing: false,
        }
    }

    /// The same writer, which takes the blocks of these streams, and names tranches.
    #[must_use]
    pub fn with_batches(mut self, batches: BatchStreams) -> Self {
        self.blocks = Blocks::new(batches.streams);
        self.tranches = batches.tranches;
        self
    }

    /// Takes one admitted event. All its rows travel in one batch, those of a block with all others of the block.
    ///
    /// # Errors
    /// [`PushError`]; nothing of the event was taken.
    pub fn push_changes(
        &mut self,
        now_ns: u64,
        changes: &AdmittedChanges,
        instrument: &Arc<Instrument>,
    ) -> Result<(), PushError> {
        let stream = self.blocks.name(changes.leg);
        let made = Made::of(changes, instrument, stream, &self.tranches)?;
        let of_stream = stream.is_some();
        self.counters.rows_pushed += count(made.rows.len());
        if of_stream && !made.whole {
            self.block(now_ns, made);
            return Ok(());
        }
        if of_stream {
            self.blocks.whole(made.leg, made.symbol, made.version);
        }
        if let Some(hold) = self.holds.get_mut(&made.symbol) {
            self.held_bytes += made.bytes();
            hold.events.push_back(made);
        } else if self.needs_live_keys(&made) {
            self.held_bytes += made.bytes();
            self.hold(now_ns, VecDeque::from([made]));
        } else {
            self.append(now_ns, made, Vec::new());
        }
        Ok(())
    }

    /// Takes what a block did to an instrument. It waits for no live keys: those that it touches after a whole book have
    /// greater versions, and live keys are not read before what was pushed earlier is confirmed.
    fn block(&mut self, now_ns: u64, made: Made) {
        // What a late block brings may be dead by a whole book already: the next one asks the store again.
        if let Some(known) = self.known.get_mut(&made.symbol) {
            let first = made.rows.first().map_or(made.version, |row| row.version);
            known.whole = known.whole.filter(|(_, whole)| *whole < first);
        }
        self.blocks.push(now_ns, made);
    }

    /// Takes the word that everything of a leg's batch stream up to a place was pushed. The blocks up to it are whole.
    ///
    /// # Errors
    /// [`PushError::UnknownStream`].
    pub fn push_through(&mut self, leg: LegId, place: u64) -> Result<(), PushError> {
        let holds = self.holds.iter().filter(|(_, hold)| hold.leg == leg).map(|(symbol, _)| *symbol).collect();
        if self.blocks.through(leg, place, holds) { Ok(()) } else { Err(PushError::UnknownStream { leg }) }
    }

    /// Takes one trade.
    pub fn push_trade(&mut self, now_ns: u64, admitted: AdmittedTrade, instrument: &Arc<Instrument>) {
        self.counters.rows_pushed += 1;
        let bytes = count(size_of::<TradeRecord>() + admitted.trade.id.len());
        let record = TradeRecord { instrument: Arc::clone(instrument), admitted };
        self.trades.append(now_ns, Rows::Trades(vec![record]), bytes, None);
        self.trades.close_if_large(&self.options);
    }

    /// Takes one message of a venue. It is inserted ahead of what was made of it, as far as both wait, but nothing waits
    /// for it.
    pub fn push_raw(&mut self, now_ns: u64, event: RawEvent) {
        self.counters.rows_pushed += 1;
        let bytes = event.bytes();
        self.raw.append(now_ns, Rows::Raw(vec![event]), bytes, None);
        self.raw.close_if_large(&self.options);
    }

    /// The first whole book of an instrument in this process, or one in other steps: only the store knows which of
    /// its ticks the book lacks.
    fn needs_live_keys(&self, made: &Made) -> bool {
        let whole = self.known.get(&made.symbol).and_then(|known| known.whole);
        made.whole && whole.map(|(scale, _)| scale) != Some(made.scale)
    }

    fn hold(&mut self, now_ns: u64, events: VecDeque<Made>) {
        let Some(first) = events.front() else { return };
        let (symbol, leg) = (first.symbol, first.leg);
        let last_batch = self.known.get(&symbol).and_then(|known| known.last_batch);
        if last_batch == Some(self.ticks.open_number()) {
            self.ticks.close();
        }
        let hold = Hold {
            events,
            leg,
            after_batches: last_batch.map_or(0, |number| number + 1),
            after_blocks: self.blocks.next_number(),
            since_ns: now_ns,
            asked: false,
            failures: 0,
            retry_at_ns: 0,
        };
        self.holds.insert(symbol, hold);
    }

    fn append(&mut self, now_ns: u64, made: Made, tombstones: Vec<TickUpdate>) {
        let Made { symbol, version, leg, whole, scale, mut rows, .. } = made;
        if self.options.replay && !tombstones.is_empty() {
            let bytes = bytes_of(&tombstones);
            self.ticks.append_apart(tombstones, bytes);
        } else {
            rows.extend(tombstones);
        }
        let bytes = bytes_of(&rows);
        // Of a batch stream the marks tell what is durable.
        let of_stream = self.blocks.name(leg).is_some();
        self.ticks.append(now_ns, Rows::Ticks(rows), bytes, (!of_stream).then_some((symbol, version)));
        self.blocks.appended(leg, self.ticks.needed());
        let known = self.known.entry(symbol).or_default();
        known.last_batch = Some(self.ticks.open_number());
        if whole {
            known.whole = Some((scale, version));
        }
        self.ticks.close_if_large(&self.options);
    }

    /// What to do next; to be asked until it has nothing, after every push and every report.
    pub fn poll(&mut self, now_ns: u64) -> Option<Action> {
        for queue in [&mut self.raw, &mut self.ticks, &mut self.trades] {
            queue.close_if_old(now_ns, &self.options);
            if self.flushing && self.holds.is_empty() {
                queue.close();
            }
            self.steps += u64::from(queue.finish_empty(&mut self.durable));
            if let Some(batch) = queue.start(now_ns) {
                return Some(Action::Insert(batch));
            }
        }
        self.steps += u64::from(self.blocks.settle(self.ticks.done(), &mut self.durable));
        if let Some(batch) = self.blocks.start(now_ns) {
            return Some(Action::Insert(batch));
        }
        if self.flushing && self.is_idle() {
            self.flushing = false;
        }
        if self.holds.values().filter(|hold| hold.asked).count() >= LOADS_MAX {
            return None;
        }
        let done = self.ticks.done();
        let blocks = &self.blocks;
        let ready = |(symbol, hold): &(&SymbolId, &mut Hold)| {
            !hold.asked
                && hold.after_batches <= done
                && hold.retry_at_ns <= now_ns
                && !blocks.waiting(**symbol, hold.after_blocks).0
        };
        let (symbol, hold) = self.holds.iter_mut().find(ready)?;
        hold.asked = true;
        Some(Action::LoadLiveKeys(*symbol))
    }

    /// When [`StoreWriter::poll`] may have something although nothing was pushed or reported.
    #[must_use]
    pub fn next_deadline_ns(&self, now_ns: u64) -> Option<u64> {
        let loads = self.holds.values().filter(|hold| !hold.asked && hold.failures > 0).map(|hold| hold.retry_at_ns);
        let queues =
            [&self.raw, &self.ticks, &self.trades].into_iter().filter_map(|queue| queue.deadline_ns(&self.options));
        // What is due already waits for something else, and that will be reported.
        loads.chain(queues).chain(self.blocks.deadline_ns()).filter(|deadline| *deadline > now_ns).min()
    }

    /// The store confirmed the batch with this token.
    pub fn inserted(&mut self, token: &str) {
        let mut queues = [&mut self.raw, &mut self.ticks, &mut self.trades].into_iter();
        let queued = queues.find_map(|queue| queue.finish(token, &mut self.durable));
        if let Some(rows) = queued.or_else(|| self.blocks.finish(token)) {
            self.counters.rows_inserted += count(rows);
            self.counters.batches_inserted += 1;
            self.steps += 1;
        }
    }

    /// The insert of the batch with this token failed, or its outcome is unknown; it is tried again with the same
    /// token, which makes a second success harmless.
    pub fn failed(&mut self, now_ns: u64, token: &str, error: &str) {
        self.note_error(now_ns, error);
        for queue in [&mut self.raw, &mut self.ticks, &mut self.trades] {
            queue.retry(now_ns, token);
        }
        self.blocks.retry(now_ns, token);
    }

    /// The store's live keys of an instrument, each with the version of its last change.
    pub fn live_keys(&mut self, now_ns: u64, symbol: SymbolId, keys: &[LiveKey]) {
        let Some(hold) = self.holds.remove(&symbol) else { return };
        self.counters.loads += 1;
        let Hold { mut events, leg, .. } = hold;
        let Some(whole) = events.pop_front() else { return };
        self.held_bytes = self.held_bytes.saturating_sub(whole.bytes());
        let tombstones = whole.tombstones(keys);
        self.counters.tombstones += count(tombstones.len());
        self.counters.rows_pushed += count(tombstones.len());
        self.append(now_ns, whole, tombstones);
        while let Some(next) = events.pop_front() {
            if self.needs_live_keys(&next) {
                events.push_front(next);
                return self.hold(now_ns, events);
            }
            self.held_bytes = self.held_bytes.saturating_sub(next.bytes());
            self.append(now_ns, next, Vec::new());
        }
        self.blocks.released(leg, symbol, self.ticks.needed());
    }

    /// The live keys could not be read; they are asked for again.
    pub fn load_failed(&mut self, now_ns: u64, symbol: SymbolId, error: &str) {
        self.note_error(now_ns, error);
        if let Some(hold) = self.holds.get_mut(&symbol) {
            hold.asked = false;
            hold.retry_at_ns = now_ns.saturating_add(backoff_ns(hold.failures));
            hold.failures = hold.failures.saturating_add(1);
        }
    }

    fn note_error(&mut self, now_ns: u64, error: &str) {
        self.counters.retries += 1;
        self.counters.last_error = Some(error.into());
        self.last_error_ns = now_ns;
    }

    /// Lets no batch wait for more rows until all that was pushed is confirmed. A block that has not ended is left to
    /// its log, so that there is never a part of one in the store.
    pub fn flush(&mut self) {
        self.flushing = true;
        let left = count(self.blocks.leave_open());
        self.counters.rows_left += left;
        self.counters.rows_pushed = self.counters.rows_pushed.saturating_sub(left);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.holds.is_empty()
            && self.raw.is_idle()
            && self.ticks.is_idle()
            && self.trades.is_idle()
            && self.blocks.is_idle()
    }

    /// The source has to wait: the memory bound is reached, or a replay waits for live keys. What is pushed all the
    /// same is taken. Where all that waits waits for the mark that ends a block, it must not: the mark comes from it. A
    /// block is bounded by what its message may hold.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let queued = !(self.raw.is_idle() && self.ticks.is_idle() && self.trades.is_idle());
        let loads = || self.holds.iter().any(|(symbol, hold)| !self.blocks.waiting(*symbol, hold.after_blocks).1);
        let moves = || queued || self.blocks.closed() > 0 || loads();
        (self.pending_bytes() >= self.options.pending_bytes_max && moves()) || (self.options.replay && loads())
    }

    /// Bytes that wait for the store.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.held_bytes + self.raw.bytes() + self.ticks.bytes() + self.trades.bytes() + self.blocks.bytes()
    }

    /// Up to where a leg's batch stream is in the store; `None` if it brings none.
    #[must_use]
    pub fn through(&self, leg: LegId) -> Option<Through> {
        self.blocks.confirmed(leg)
    }

    /// The same of all batch streams.
    pub fn all_through(&self) -> impl Iterator<Item = (LegId, Through)> {
        self.blocks.all_confirmed()
    }

    /// How often the durable versions or [`StoreWriter::through`] may have changed.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Version up to which everything pushed of the instrument is in the store.
    #[must_use]
    pub fn durable(&self, symbol: SymbolId) -> Option<Version> {
        self.durable.get(&symbol).copied()
    }

    /// All durable versions.
    #[must_use]
    pub fn durable_versions(&self) -> &HashMap<SymbolId, Version> {
        &self.durable
    }

    /// The counters as of now.
    #[must_use]
    pub fn counters(&self, now_ns: u64) -> Counters {
        let held = self.holds.values().map(|hold| hold.since_ns);
        let queued = [&self.raw, &self.ticks, &self.trades].into_iter().filter_map(TableQueue::oldest_ns);
        let failed = self.counters.last_error.is_some();
        Counters {
            pending_bytes: self.pending_bytes(),
            instruments_held: self.holds.len(),
            blocks_waiting: self.blocks.closed(),
            lag_ns: held
                .chain(queued)
                .chain(self.blocks.oldest_ns())
                .min()
                .map_or(0, |oldest| now_ns.saturating_sub(oldest)),
            last_error_age_ns: failed.then(|| now_ns.saturating_sub(self.last_error_ns)),
            ..self.counters.clone()
        }
    }
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
