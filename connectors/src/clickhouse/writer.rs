//! The writer: admitted changes, trades and raw messages in, batches with deterministic tokens out, in order, with nothing lost.
//! A state machine that is told the time and the outcome of what it asked for.
//!
//! Never: input or output, a clock, a dropped row; a second insert into a table while one is under way.

mod options;
mod queue;
#[cfg(test)]
mod tests;

pub use options::{
    BACKOFF_FIRST_NS, BACKOFF_MAX_NS, BATCH_AGE_NS, BATCH_BYTES, BATCH_ROWS, Counters, LOADS_MAX, PENDING_BYTES_MAX,
    WriterOptions,
};
pub use queue::Batch;

use super::rows::{RawEvent, Rows, Table, TickUpdate, TradeRecord, tranche_key};
use foldhash::{HashMap, HashSet};
use market::{AdmittedChanges, AdmittedTrade, Instrument, Scale, Side, SymbolId, TickChange, TickKey, U256, Version};
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

/// Why a change cannot be stored.
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
}

/// A tick that lives in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveKey {
    /// Its side.
    pub side: Side,
    /// Its key within the side.
    pub key: TickKey,
    /// The version of its last change.
    pub version: Version,
}

/// An admitted event with its instrument.
type Held = (AdmittedChanges, Arc<Instrument>);

/// Changes of one instrument that wait until the store's live keys are known.
#[derive(Debug)]
struct Hold {
    /// The whole book that needs them, then all that came after it.
    changes: VecDeque<Held>,
    /// Tick batches that must be confirmed before the store can be asked: they hold rows of this instrument.
    after_batches: u64,
    since_ns: u64,
    asked: bool,
    failures: u32,
    retry_at_ns: u64,
}

/// What is known of an instrument that was written to.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Scale of the last whole book.
    whole: Option<Scale>,
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
    /// Ordered, so that the same input asks in the same order.
    holds: BTreeMap<SymbolId, Hold>,
    held_bytes: u64,
    known: HashMap<SymbolId, Known>,
    durable: HashMap<SymbolId, Version>,
    counters: Counters,
    last_error_ns: u64,
    flushing: bool,
}

impl StoreWriter {
    /// A writer for a stream of input. The identity is part of every token: two inputs whose equal rows must both be
    /// kept need two identities, and a repeated replay needs the same.
    #[must_use]
    pub fn new(stream: &str, options: WriterOptions) -> Self {
        Self {
            raw: TableQueue::new(Table::RawEvents, stream),
            ticks: TableQueue::new(Table::TickUpdates, stream),
            trades: TableQueue::new(Table::Trades, stream),
            options,
            holds: BTreeMap::new(),
            held_bytes: 0,
            known: HashMap::default(),
            durable: HashMap::default(),
            counters: Counters::default(),
            last_error_ns: 0,
            flushing: false,
        }
    }

    /// Takes one admitted event. All its rows travel in one batch.
    ///
    /// # Errors
    /// [`PushError`]; nothing of the event was taken.
    pub fn push_changes(
        &mut self,
        now_ns: u64,
        changes: AdmittedChanges,
        instrument: &Arc<Instrument>,
    ) -> Result<(), PushError> {
        if let Some(change) = changes.changes.iter().find(|change| tranche_key(change.key.tranche).is_none()) {
            let tranche = change.key.tranche.0;
            return Err(PushError::UnnamedTranche { instrument: Arc::clone(&instrument.text), tranche });
        }
        self.counters.rows_pushed += count(changes.changes.len());
        if let Some(hold) = self.holds.get_mut(&changes.symbol) {
            self.held_bytes += changes.bytes();
            hold.changes.push_back((changes, Arc::clone(instrument)));
        } else if self.needs_live_keys(&changes) {
            self.held_bytes += changes.bytes();
            self.hold(now_ns, changes.symbol, VecDeque::from([(changes, Arc::clone(instrument))]));
        } else {
            self.append(now_ns, &changes, instrument, &[]);
        }
        Ok(())
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
    fn needs_live_keys(&self, changes: &AdmittedChanges) -> bool {
        changes.whole && self.known.get(&changes.symbol).and_then(|known| known.whole) != Some(changes.scale)
    }

    fn hold(&mut self, now_ns: u64, symbol: SymbolId, changes: VecDeque<Held>) {
        let last_batch = self.known.get(&symbol).and_then(|known| known.last_batch);
        if last_batch == Some(self.ticks.open_number()) {
            self.ticks.close();
        }
        let after_batches = last_batch.map_or(0, |number| number + 1);
        let hold = Hold { changes, after_batches, since_ns: now_ns, asked: false, failures: 0, retry_at_ns: 0 };
        self.holds.insert(symbol, hold);
    }

    fn append(
        &mut self,
        now_ns: u64,
        changes: &AdmittedChanges,
        instrument: &Arc<Instrument>,
        tombstones: &[TickChange],
    ) {
        let row = |change: &TickChange| TickUpdate {
            instrument: Arc::clone(instrument),
            change: *change,
            version: changes.version,
            whole: changes.whole,
            scale: changes.scale,
            venue_ns: changes.venue_ns,
            received_ns: changes.received_ns,
        };
        let bytes = |rows: usize| count(rows * size_of::<TickUpdate>());
        let mark = Some((changes.symbol, changes.version));
        let mut rows: Vec<TickUpdate> = changes.changes.iter().map(row).collect();
        let tombstones: Vec<TickUpdate> = tombstones.iter().map(row).collect();
        if self.options.replay && !tombstones.is_empty() {
            let tombstone_bytes = bytes(tombstones.len());
            self.ticks.append_apart(tombstones, tombstone_bytes);
        } else {
            rows.extend(tombstones);
        }
        let row_bytes = bytes(rows.len());
        self.ticks.append(now_ns, Rows::Ticks(rows), row_bytes, mark);
        let known = self.known.entry(changes.symbol).or_default();
        known.last_batch = Some(self.ticks.open_number());
        if changes.whole {
            known.whole = Some(changes.scale);
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
            queue.finish_empty(&mut self.durable);
            if let Some(batch) = queue.start(now_ns) {
                return Some(Action::Insert(batch));
            }
        }
        if self.flushing && self.is_idle() {
            self.flushing = false;
        }
        if self.holds.values().filter(|hold| hold.asked).count() >= LOADS_MAX {
            return None;
        }
        let done = self.ticks.done();
        let ready = |hold: &&mut Hold| !hold.asked && hold.after_batches <= done && hold.retry_at_ns <= now_ns;
        let (symbol, hold) =
            self.holds.iter_mut().map(|(symbol, hold)| (*symbol, hold)).find(|(_, hold)| ready(hold))?;
        hold.asked = true;
        Some(Action::LoadLiveKeys(symbol))
    }

    /// When [`StoreWriter::poll`] may have something although nothing was pushed or reported.
    #[must_use]
    pub fn next_deadline_ns(&self, now_ns: u64) -> Option<u64> {
        let loads = self.holds.values().filter(|hold| !hold.asked && hold.failures > 0).map(|hold| hold.retry_at_ns);
        let queues =
            [&self.raw, &self.ticks, &self.trades].into_iter().filter_map(|queue| queue.deadline_ns(&self.options));
        // What is due already waits for something else, and that will be reported.
        loads.chain(queues).filter(|deadline| *deadline > now_ns).min()
    }

    /// The store confirmed the batch with this token.
    pub fn inserted(&mut self, token: &str) {
        for queue in [&mut self.raw, &mut self.ticks, &mut self.trades] {
            if let Some(rows) = queue.finish(token, &mut self.durable) {
                self.counters.rows_inserted += count(rows);
                self.counters.batches_inserted += 1;
            }
        }
    }

    /// The insert of the batch with this token failed, or its outcome is unknown; it is tried again with the same
    /// token, which makes a second success harmless.
    pub fn failed(&mut self, now_ns: u64, token: &str, error: &str) {
        self.note_error(now_ns, error);
        for queue in [&mut self.raw, &mut self.ticks, &mut self.trades] {
            queue.retry(now_ns, token);
        }
    }

    /// The store's live keys of an instrument, each with the version of its last change.
    pub fn live_keys(&mut self, now_ns: u64, symbol: SymbolId, keys: &[LiveKey]) {
        let Some(hold) = self.holds.remove(&symbol) else { return };
        self.counters.loads += 1;
        let mut changes = hold.changes;
        let Some((whole, instrument)) = changes.pop_front() else { return };
        self.held_bytes = self.held_bytes.saturating_sub(whole.bytes());
        let tombstones = missing(keys, &whole);
        self.counters.tombstones += count(tombstones.len());
        self.counters.rows_pushed += count(tombstones.len());
        self.append(now_ns, &whole, &instrument, &tombstones);
        while let Some((next, instrument)) = changes.pop_front() {
            if self.needs_live_keys(&next) {
                changes.push_front((next, instrument));
                return self.hold(now_ns, symbol, changes);
            }
            self.held_bytes = self.held_bytes.saturating_sub(next.bytes());
            self.append(now_ns, &next, &instrument, &[]);
        }
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

    /// Lets no batch wait for more rows until all that was pushed is confirmed.
    pub fn flush(&mut self) {
        self.flushing = true;
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.raw.is_idle() && self.ticks.is_idle() && self.trades.is_idle()
    }

    /// The source has to wait: the memory bound is reached, or a replay waits for live keys. What is pushed all the
    /// same is taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.pending_bytes() >= self.options.pending_bytes_max || (self.options.replay && !self.holds.is_empty())
    }

    /// Bytes that wait for the store.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.held_bytes + self.raw.bytes() + self.ticks.bytes() + self.trades.bytes()
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
            lag_ns: held.chain(queued).min().map_or(0, |oldest| now_ns.saturating_sub(oldest)),
            last_error_age_ns: failed.then(|| now_ns.saturating_sub(self.last_error_ns)),
            ..self.counters.clone()
        }
    }
}

/// Tombstones for the keys that a whole book does not name at all, neither living nor dead. What changed after the book
/// is left alone: a replay from an earlier place comes to it later.
fn missing(keys: &[LiveKey], whole: &AdmittedChanges) -> Vec<TickChange> {
    let named: HashSet<(Side, TickKey)> = whole.changes.iter().map(|change| (change.side, change.key)).collect();
    let lacking = keys.iter().filter(|live| live.version <= whole.version && !named.contains(&(live.side, live.key)));
    lacking.map(|live| TickChange { side: live.side, key: live.key, reserves: U256::ZERO }).collect()
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
