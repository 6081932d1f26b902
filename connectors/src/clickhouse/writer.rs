//! The writer: admitted changes, trades and raw messages in, batches with deterministic tokens out, in order.
//! A state machine that is told the time and the outcome of what it asked for. In a replay nothing is lost, and the source
//! waits; in a run it takes whatever comes, and what it leaves out for that is on record ([`overload`]).
//!
//! Never: input or output, a clock, a row left out without a word; a second insert of one queue while one is under way.

mod blocks;
mod conflated;
mod correction;
mod frames;
mod hold;
mod made;
mod options;
mod overload;
mod queue;
#[cfg(test)]
mod tests;

pub use blocks::{BatchStream, BatchStreams, Through};
pub use correction::{CorrectedTick, Correction};
pub use made::LiveKey;
pub use options::{
    BACKOFF_FIRST_NS, BACKOFF_MAX_NS, BATCH_AGE_NS, BATCH_BYTES, BATCH_ROWS, BLOCK_INSERTS_MAX, CONFLATED_TIMES,
    Counters, FrameHistory, LOADS_MAX, PENDING_BYTES_MAX, RAW_PART, TRADES_PART, WriterOptions,
};
pub use queue::Batch;

use super::{
    rows::{GapReason, LeftOut, RawEvent, Rows, Table, TickUpdate, TradeRecord},
    trouble::StoreState,
};
use blocks::Blocks;
use conflated::Waiting;
use foldhash::HashMap;
use frames::Frames;
use hold::Hold;
use made::{Made, bytes_of};
use market::{AdmittedChanges, AdmittedTrade, Instrument, LegId, Scale, SymbolId, Tranches, Version};
use overload::Overload;
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

/// What is known of an instrument that was written to.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The leg that brought it.
    leg: LegId,
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
    /// Changes of venues.
    ticks: TableQueue,
    trades: TableQueue,
    gaps: TableQueue,
    blocks: Blocks,
    /// Whole books of batch streams: they are never conflated.
    wholes: TableQueue,
    tranches: Arc<Tranches>,
    /// Ordered, so that the same input asks in the same order.
    holds: BTreeMap<SymbolId, Hold>,
    /// Bytes of holds of venues.
    held_bytes: u64,
    /// Bytes of holds of batch streams.
    held_stream_bytes: u64,
    /// Changes of venues, conflated since too much waited.
    waiting: Waiting,
    frames: Frames,
    overload: Overload,
    known: HashMap<SymbolId, Known>,
    durable: HashMap<SymbolId, Version>,
    /// How often that, or what is confirmed of batch streams, changed.
    steps: u64,
    counters: Counters,
    last_error_ns: u64,
    /// The last time that was told.
    now_ns: u64,
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
            gaps: TableQueue::new(Table::HistoryGaps, stream),
            blocks: Blocks::default(),
            wholes: TableQueue::new(Table::TickUpdates, stream),
            tranches: Arc::default(),
            frames: Frames::new(options.frames.clone()),
            options,
            holds: BTreeMap::new(),
            held_bytes: 0,
            held_stream_bytes: 0,
            waiting: Waiting::default(),
            overload: Overload::default(),
            known: HashMap::default(),
            durable: HashMap::default(),
            steps: 0,
            counters: Counters::default(),
            last_error_ns: 0,
            now_ns: 0,
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
        if !of_stream {
            self.of_venue(now_ns, made);
        } else if made.whole {
            self.whole_of_stream(now_ns, made);
        } else {
            self.block(now_ns, made);
        }
        Ok(())
    }

    fn of_venue(&mut self, now_ns: u64, made: Made) {
        if !self.frames.takes(made.instrument.venue) {
            return self.take(now_ns, made);
        }
        if self.frames.begins(made.shown_ns) {
            self.end_frame(now_ns);
        }
        self.counters.frame_conflated += self.frames.take(now_ns, made);
    }

    /// Stores what the frame came to.
    fn end_frame(&mut self, now_ns: u64) {
        while let Some(conflated) = self.frames.pop() {
            for made in conflated.into_events().0 {
                self.take(now_ns, made);
            }
        }
    }

    fn whole_of_stream(&mut self, now_ns: u64, made: Made) {
        self.blocks.whole(made.leg, made.symbol, made.version);
        if let Some(hold) = self.holds.get_mut(&made.symbol) {
            self.held_stream_bytes += made.bytes();
            hold.events.push_back(made);
        } else {
            self.store(now_ns, VecDeque::from([made]));
        }
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
        self.trades.close_if_large(&self.options.within(self.options.trades_bytes_max()));
        self.shorten_trades();
    }

    /// Takes one message of a venue. It is inserted ahead of what was made of it, as far as both wait, but nothing waits
    /// for it.
    pub fn push_raw(&mut self, now_ns: u64, event: RawEvent) {
        self.counters.rows_pushed += 1;
        let bytes = event.bytes();
        self.raw.append(now_ns, Rows::Raw(vec![event]), bytes, None);
        self.raw.close_if_large(&self.options.within(self.options.raw_bytes_max()));
        self.shorten_raw();
    }

    /// The first whole book of an instrument in this process, one in other steps, or one after a loss: only the store knows which of
    /// its ticks the book lacks.
    fn needs_live_keys(&self, made: &Made) -> bool {
        let whole = self.known.get(&made.symbol).and_then(|known| known.whole);
        made.whole && (made.after_loss || whole.map(|(scale, _)| scale) != Some(made.scale))
    }

    /// The queue that events of a leg which are no blocks go to.
    fn queue_of(&mut self, leg: LegId) -> &mut TableQueue {
        if self.blocks.name(leg).is_some() { &mut self.wholes } else { &mut self.ticks }
    }

    fn held_bytes_of(&mut self, leg: LegId) -> &mut u64 {
        if self.blocks.name(leg).is_some() { &mut self.held_stream_bytes } else { &mut self.held_bytes }
    }

    fn hold(&mut self, now_ns: u64, events: VecDeque<Made>) {
        let Some(first) = events.front() else { return };
        let (symbol, leg) = (first.symbol, first.leg);
        let last_batch = self.known.get(&symbol).and_then(|known| known.last_batch);
        let queue = self.queue_of(leg);
        if last_batch == Some(queue.open_number()) {
            queue.close();
        }
        let hold = Hold {
            events,
            later: None,
            left_out: None,
            leg,
            after_batches: last_batch.map_or(0, |number| number + 1),
            after_blocks: self.blocks.next_number(),
            since_ns: now_ns,
            asked: false,
            failures: 0,
            retry_at_ns: 0,
        };
        *self.held_bytes_of(leg) += hold.bytes();
        self.holds.insert(symbol, hold);
    }

    fn append(&mut self, now_ns: u64, made: Made, tombstones: Vec<TickUpdate>) {
        let Made { symbol, version, leg, whole, scale, mut rows, .. } = made;
        // Of a batch stream the marks tell what is durable.
        let of_stream = self.blocks.name(leg).is_some();
        let queue = if of_stream { &mut self.wholes } else { &mut self.ticks };
        if self.options.replay && !tombstones.is_empty() {
            let bytes = bytes_of(&tombstones);
            queue.append_apart(tombstones, bytes);
        } else {
            rows.extend(tombstones);
        }
        let bytes = bytes_of(&rows);
        queue.append(now_ns, Rows::Ticks(rows), bytes, (!of_stream).then_some((symbol, version)));
        if of_stream {
            self.blocks.appended(leg, queue.needed());
        }
        let known = self.known.entry(symbol).or_insert(Known { leg, whole: None, last_batch: None });
        known.leg = leg;
        known.last_batch = Some(queue.open_number());
        if whole {
            known.whole = Some((scale, version));
        }
        queue.close_if_large(&self.options);
    }

    /// What to do next; to be asked until it has nothing, after every push and every report.
    pub fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.now_ns = now_ns;
        let frame_until = self.frame_deadline_ns();
        if self.flushing || frame_until.is_some_and(|until| until <= now_ns) {
            self.end_frame(now_ns);
        }
        self.hand_over(now_ns);
        if self.flushing {
            self.note_all(now_ns);
        }
        self.gaps.close();
        let gaps_done = self.gaps.done();
        let queues = [&mut self.gaps, &mut self.raw, &mut self.wholes, &mut self.ticks, &mut self.trades];
        for queue in queues {
            queue.close_if_old(now_ns, &self.options);
            if self.flushing && self.holds.is_empty() {
                queue.close();
            }
            self.steps += u64::from(queue.finish_empty(&mut self.durable));
            if let Some(batch) = queue.start(now_ns, gaps_done) {
                return Some(Action::Insert(batch));
            }
        }
        self.steps += u64::from(self.blocks.settle(self.wholes.done(), &mut self.durable));
        if let Some(batch) = self.blocks.start(now_ns) {
            return Some(Action::Insert(batch));
        }
        if self.flushing && self.is_idle() {
            self.flushing = false;
        }
        if self.holds.values().filter(|hold| hold.asked).count() >= LOADS_MAX {
            return None;
        }
        let (of_venue, of_stream) = (self.ticks.done(), self.wholes.done());
        let blocks = &self.blocks;
        let ready = |(symbol, hold): &(&SymbolId, &mut Hold)| {
            !hold.asked
                && hold.after_batches <= if blocks.name(hold.leg).is_some() { of_stream } else { of_venue }
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
        let queues = self.queues().into_iter().filter_map(|queue| queue.deadline_ns(&self.options));
        let queues = queues.chain(self.frame_deadline_ns());
        // What is due already waits for something else, and that will be reported.
        loads.chain(queues).chain(self.blocks.deadline_ns()).filter(|deadline| *deadline > now_ns).min()
    }

    /// When the frame that is being filled ends at the latest.
    fn frame_deadline_ns(&self) -> Option<u64> {
        Some(self.frames.oldest_ns()?.saturating_add(self.options.batch_age_ns.unwrap_or_default()))
    }

    fn queues(&self) -> [&TableQueue; 5] {
        [&self.gaps, &self.raw, &self.wholes, &self.ticks, &self.trades]
    }

    fn queues_mut(&mut self) -> [&mut TableQueue; 5] {
        [&mut self.gaps, &mut self.raw, &mut self.wholes, &mut self.ticks, &mut self.trades]
    }

    /// The store confirmed the batch with this token.
    pub fn inserted(&mut self, token: &str) {
        let now_ns = self.now_ns;
        let mut durable = std::mem::take(&mut self.durable);
        let queued =
            self.queues_mut().into_iter().find_map(|queue| Some((queue.table(), queue.finish(token, &mut durable)?)));
        self.durable = durable;
        let rows = queued.map(|(_, rows)| rows).or_else(|| self.blocks.finish(token));
        let Some(rows) = rows else { return };
        self.counters.rows_inserted += count(rows);
        self.counters.batches_inserted += 1;
        self.steps += 1;
        match queued {
            Some((Table::TickUpdates, _)) => self.recover(now_ns),
            Some((Table::Trades, _)) => self.note_trades(now_ns),
            _ => {}
        }
    }

    /// The insert of the batch with this token failed, or its outcome is unknown; it is tried again with the same
    /// token, which makes a second success harmless.
    pub fn failed(&mut self, now_ns: u64, token: &str, error: &str) {
        self.now_ns = now_ns;
        self.note_error(now_ns, error);
        let trouble = StoreState::of_error(error);
        for queue in self.queues_mut() {
            queue.retry(now_ns, token, trouble);
        }
        self.blocks.retry(now_ns, token, trouble);
    }

    /// The store's live keys of an instrument, each with the version of its last change.
    pub fn live_keys(&mut self, now_ns: u64, symbol: SymbolId, keys: &[LiveKey]) {
        let Some(hold) = self.holds.remove(&symbol) else { return };
        self.counters.loads += 1;
        let bytes = hold.bytes();
        let Hold { mut events, later, mut left_out, leg, .. } = hold;
        let held_bytes = self.held_bytes_of(leg);
        *held_bytes = held_bytes.saturating_sub(bytes);
        let Some(whole) = events.pop_front() else { return };
        if let Some(later) = later {
            let (later, more) = later.into_events();
            events.extend(later);
            more.into_iter().for_each(|more| LeftOut::add(&mut left_out, more));
        }
        self.note_gap(now_ns, &Arc::clone(&whole.instrument), GapReason::StoreBehind, left_out);
        // A gap of it may have been noted when it began to wait.
        self.ticks.wait_for_gaps(self.gaps.needed());
        let tombstones = whole.tombstones(keys);
        self.counters.tombstones += count(tombstones.len());
        self.counters.rows_pushed += count(tombstones.len());
        self.append(now_ns, whole, tombstones);
        self.store(now_ns, events);
        if !self.holds.contains_key(&symbol) {
            self.blocks.released(leg, symbol, self.wholes.needed());
        }
    }

    /// The live keys could not be read; they are asked for again.
    pub fn load_failed(&mut self, now_ns: u64, symbol: SymbolId, error: &str) {
        self.note_error(now_ns, error);
        if let Some(hold) = self.holds.get_mut(&symbol) {
            hold.failed(now_ns);
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
            && self.waiting.is_empty()
            && self.frames.is_empty()
            && self.queues().into_iter().all(TableQueue::is_idle)
            && self.blocks.is_idle()
    }

    /// A replay's source has to wait: the memory bound is reached, or live keys are being read. What is pushed all the
    /// same is taken. Where all that waits waits for the mark that ends a block, it must not: the mark comes from it. A
    /// block is bounded by what its message may hold. A run's source never waits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let queued = !self.queues().into_iter().all(TableQueue::is_idle);
        let loads = || self.holds.iter().any(|(symbol, hold)| !self.blocks.waiting(*symbol, hold.after_blocks).1);
        let moves = || queued || self.blocks.closed() > 0 || loads();
        self.options.replay && ((self.pending_bytes() >= self.options.pending_bytes_max && moves()) || loads())
    }

    /// Bytes that wait for the store.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.venue_bytes() + self.raw.bytes() + self.trades.bytes() + self.gaps.bytes() + self.stream_bytes()
    }

    /// Of these, bytes of what batch streams became. Nothing of it is ever left out here, so whoever reads the log
    /// goes on only while there is room.
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        self.held_stream_bytes + self.wholes.bytes() + self.blocks.bytes()
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
        let queued = self.queues().into_iter().filter_map(TableQueue::oldest_ns);
        let conflated = self.waiting.oldest_ns().into_iter().chain(self.frames.oldest_ns());
        let failed = self.counters.last_error.is_some();
        Counters {
            pending_bytes: self.pending_bytes(),
            stream_bytes: self.stream_bytes(),
            state: self.state(),
            instruments_held: self.holds.len(),
            blocks_waiting: self.blocks.closed(),
            lag_ns: held
                .chain(queued)
                .chain(conflated)
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
