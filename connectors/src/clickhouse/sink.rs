//! The driver of the writer: takes admitted changes from a bounded channel and performs the inserts and reads. In a run it
//! takes them at once, whatever the store does; inserts and reads are tasks beside it.
//!
//! Never: a decision; those are the writer's.

mod alarm;
mod view;

pub use alarm::AGAIN_EVERY;
pub use view::SinkView;

use super::{
    address::ONE_BLOCK,
    read,
    rows::{HistoryGapRow, LeftOut, RawEvent, RawEventRow, Rows, TickUpdateRow, TradeRow},
    writer::{Action, Batch, Correction, Counters, LiveKey, PushError, StoreWriter},
};
use crate::halt;
use alarm::Alarm;
use clickhouse::{Client, RowWrite};
use foldhash::HashMap;
use market::{AdmittedChanges, AdmittedTrade, Directory, Instrument, LegId, SymbolId, Version};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

/// Longest wait for the store to take a piece of an insert; after it the attempt has failed and is repeated.
pub(super) const SEND_MAX: Duration = Duration::from_secs(30);
/// Longest wait for the store to confirm an insert with all that its views write.
pub(super) const CONFIRM_MAX: Duration = Duration::from_secs(120);
/// Longest wait for the live keys of an instrument.
const READ_MAX: Duration = Duration::from_secs(60);
/// Events taken from the channel in one go.
const TAKE_MAX: usize = 256;

/// What the sink takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkInput {
    /// Admitted changes of a book.
    Changes(AdmittedChanges),
    /// An admitted trade.
    Trade(AdmittedTrade),
    /// A message of a venue, where these are kept.
    Raw(RawEvent),
    /// Ticks that an audit found wrong in the store.
    Correction(Correction),
    /// A mark: everything of a leg's batch stream up to this place was given before.
    Through {
        /// The leg.
        leg: LegId,
        /// The place, the last one of its height.
        place: u64,
    },
    /// Changes of an instrument that whoever gives them had to leave out: the sink asks for its whole book.
    LeftOut {
        /// The instrument.
        symbol: SymbolId,
        /// Which, by version.
        left_out: LeftOut,
    },
    /// The same of trades, by their order; nothing is asked for.
    TradesLeftOut {
        /// The instrument.
        symbol: SymbolId,
        /// Which.
        left_out: LeftOut,
    },
}

impl SinkInput {
    /// Bytes that it occupies while it waits, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let own = u64::try_from(size_of::<Self>()).unwrap_or(u64::MAX);
        match self {
            Self::Changes(changes) => own.saturating_add(changes.bytes()),
            Self::Raw(event) => own.saturating_add(event.bytes()),
            Self::Correction(correction) => own.saturating_add(correction.bytes()),
            Self::Trade(_) | Self::Through { .. } | Self::LeftOut { .. } | Self::TradesLeftOut { .. } => own,
        }
    }
}

/// How the sink ends.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// Longest flush after the channel closed; beyond it the sink fails and names what is lost.
    pub flush_max: Duration,
}

impl Default for SinkOptions {
    /// Ten attempts at the longest back-off, with room.
    fn default() -> Self {
        Self { flush_max: Duration::from_secs(120) }
    }
}

/// What the sink did, at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkReport {
    /// The writer's counters.
    pub counters: Counters,
    /// Durable versions of all instruments written to.
    pub durable: HashMap<SymbolId, Version>,
}

/// Why the sink ended before its input.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The directory does not know the instrument.
    #[error("an admitted change names instrument {}, which the directory does not know", symbol.0)]
    UnknownInstrument {
        /// Its number.
        symbol: SymbolId,
    },
    /// A change or a mark cannot be stored.
    #[error(transparent)]
    Push(#[from] PushError),
    /// A task of the sink panicked.
    #[error("a task of the store sink failed")]
    Task(#[source] tokio::task::JoinError),
    /// The store did not take the rest in time.
    #[error("{rows} rows are not in the store after {seconds} s of trying; last error: {text}")]
    FlushTimedOut {
        /// Rows that are lost unless they are replayed.
        rows: u64,
        /// The bound.
        seconds: u64,
        /// The store's or the network's last words.
        text: Box<str>,
    },
}

/// Writes everything that comes through the channel; ends when the channel closed and everything is in the store.
/// `client` is that of [`super::StoreAddress::client`]; the schema must have been applied.
///
/// # Errors
/// [`SinkError`]. A store that fails is no error: it is tried again; a replay's source waits, a run's does not.
pub async fn run_sink(
    client: Client,
    writer: StoreWriter,
    mut input: mpsc::Receiver<SinkInput>,
    directory: Arc<Directory>,
    view: Arc<SinkView>,
    options: SinkOptions,
) -> Result<SinkReport, SinkError> {
    let mut sink = Sink {
        client,
        writer,
        directory,
        view,
        tasks: JoinSet::new(),
        waiting: VecDeque::new(),
        started: Instant::now(),
        shown: 0,
        taken: 0,
        alarm: Alarm::default(),
    };
    let mut taken = Vec::with_capacity(TAKE_MAX);
    let mut flush_until: Option<Instant> = None;
    loop {
        sink.advance()?;
        if flush_until.is_some() && sink.is_idle() {
            return Ok(sink.report());
        }
        let listening = flush_until.is_none() && sink.waiting.is_empty();
        let wake = sink.wake_at(flush_until);
        tokio::select! {
            count = input.recv_many(&mut taken, TAKE_MAX), if listening => {
                sink.waiting.extend(taken.drain(..));
                if count == 0 {
                    flush_until = Some(Instant::now() + options.flush_max);
                }
            }
            Some(done) = sink.tasks.join_next(), if !sink.tasks.is_empty() => {
                sink.finish(done.map_err(SinkError::Task)?);
            }
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
        if let Some(until) = flush_until {
            sink.flush_if_taken();
            if Instant::now() >= until && !sink.is_idle() {
                return Err(sink.timed_out(&options));
            }
        }
    }
}

/// Outcome of an action.
enum Done {
    Insert { token: Box<str>, outcome: Result<(), clickhouse::error::Error> },
    Load { symbol: SymbolId, outcome: Result<Vec<LiveKey>, LoadError> },
}

#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error(transparent)]
    Read(#[from] read::ReadError),
    #[error("no answer within {} s", READ_MAX.as_secs())]
    TimedOut,
    #[error("the directory does not know the instrument")]
    Unknown,
}

struct Sink {
    client: Client,
    writer: StoreWriter,
    directory: Arc<Directory>,
    view: Arc<SinkView>,
    tasks: JoinSet<Done>,
    /// Taken from the channel, not yet pushed.
    waiting: VecDeque<SinkInput>,
    started: Instant,
    /// The writer's step that the view shows.
    shown: u64,
    /// Inputs of the tape that were pushed.
    taken: u64,
    alarm: Alarm,
}

impl Sink {
    /// The writer's time: it only needs to be steady.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Pushes what the writer takes and starts what it wants.
    fn advance(&mut self) -> Result<(), SinkError> {
        let now_ns = self.now_ns();
        while !self.writer.is_full() {
            let Some(input) = self.waiting.pop_front() else { break };
            self.taken += u64::from(!matches!(input, SinkInput::Raw(_) | SinkInput::Correction(_)));
            self.push(now_ns, input)?;
        }
        while let Some(action) = self.writer.poll(now_ns) {
            match action {
                Action::Insert(batch) => self.tasks.spawn(insert(self.client.clone(), batch)),
                Action::LoadLiveKeys(symbol) => {
                    self.tasks.spawn(load(self.client.clone(), Arc::clone(&self.directory), symbol))
                }
            };
        }
        let counters = self.writer.counters(now_ns);
        self.alarm.look(Instant::now(), &counters);
        self.view.want(self.writer.take_wanted());
        let waits = u64::from(!self.waiting.is_empty());
        let (taken, lacks_books) = (self.taken, self.writer.lacks_books());
        self.view.with(|view| {
            view.taken = taken;
            view.lacks_books = lacks_books;
            view.counters = counters;
            view.waits += waits;
        });
        self.show();
        Ok(())
    }

    /// Shows what is durable, if it may have changed.
    fn show(&mut self) {
        let steps = self.writer.steps();
        if std::mem::replace(&mut self.shown, steps) != steps {
            let writer = &self.writer;
            self.view.with(|view| {
                view.durable.clone_from(writer.durable_versions());
                view.through = writer.all_through().collect();
            });
        }
    }

    fn push(&mut self, now_ns: u64, input: SinkInput) -> Result<(), SinkError> {
        match input {
            SinkInput::Changes(changes) => {
                let instrument = self.instrument(changes.symbol)?;
                self.writer.push_changes(now_ns, &changes, &instrument)?;
            }
            SinkInput::Trade(trade) => {
                let instrument = self.instrument(trade.symbol)?;
                self.writer.push_trade(now_ns, trade, &instrument);
            }
            SinkInput::Correction(correction) => {
                let instrument = self.instrument(correction.symbol)?;
                self.writer.push_correction(now_ns, correction, &instrument);
            }
            SinkInput::Raw(event) => self.writer.push_raw(now_ns, event),
            SinkInput::Through { leg, place } => self.writer.push_through(leg, place)?,
            SinkInput::LeftOut { symbol, left_out } => {
                let instrument = self.instrument(symbol)?;
                self.writer.push_left_out(symbol, &instrument, left_out);
            }
            SinkInput::TradesLeftOut { symbol, left_out } => {
                let instrument = self.instrument(symbol)?;
                self.writer.push_trades_left_out(symbol, &instrument, left_out);
            }
        }
        Ok(())
    }

    fn instrument(&self, symbol: SymbolId) -> Result<Arc<Instrument>, SinkError> {
        self.directory.get(symbol).ok_or(SinkError::UnknownInstrument { symbol })
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.writer.is_idle()
    }

    fn flush_if_taken(&mut self) {
        if self.waiting.is_empty() {
            self.writer.flush();
        }
    }

    fn wake_at(&self, flush_until: Option<Instant>) -> Option<Instant> {
        let deadline = self.writer.next_deadline_ns(self.now_ns()).map(|ns| self.started + Duration::from_nanos(ns));
        deadline.into_iter().chain(flush_until).min()
    }

    fn finish(&mut self, done: Done) {
        let now_ns = self.now_ns();
        match done {
            Done::Insert { token, outcome: Ok(()) } => self.writer.inserted(&token),
            Done::Insert { token, outcome: Err(error) } => {
                // The alarm tells of it at once, and of its words every minute.
                tracing::debug!(%error, token, "an insert failed and is repeated");
                self.writer.failed(now_ns, &token, &error.to_string());
            }
            Done::Load { symbol, outcome: Ok(keys) } => self.writer.live_keys(now_ns, symbol, &keys),
            Done::Load { symbol, outcome: Err(error) } => {
                tracing::warn!(%error, symbol = symbol.0, "the live keys were not read and are asked for again");
                self.writer.load_failed(now_ns, symbol, &error.to_string());
            }
        }
    }

    fn report(&mut self) -> SinkReport {
        self.show();
        let durable = self.writer.durable_versions().clone();
        SinkReport { counters: self.writer.counters(self.now_ns()), durable }
    }

    fn timed_out(&self, options: &SinkOptions) -> SinkError {
        let counters = self.writer.counters(self.now_ns());
        let waiting = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
        SinkError::FlushTimedOut {
            rows: counters.rows_unconfirmed().saturating_add(waiting),
            seconds: options.flush_max.as_secs(),
            text: counters.last_error.unwrap_or_default(),
        }
    }
}

async fn insert(client: Client, batch: Arc<Batch>) -> Done {
    let outcome = match &batch.rows {
        Rows::Raw(rows) => send::<RawEventRow<'_>>(&client, &batch, rows.iter().map(Into::into)).await,
        Rows::Ticks(rows) => send::<TickUpdateRow<'_>>(&client, &batch, rows.iter().map(Into::into)).await,
        Rows::Trades(rows) => send::<TradeRow<'_>>(&client, &batch, rows.iter().map(Into::into)).await,
        Rows::Gaps(rows) => send::<HistoryGapRow<'_>>(&client, &batch, rows.iter().map(Into::into)).await,
    };
    if outcome.is_ok() {
        halt::point(&format!("inserted-{}", batch.table.name()));
    }
    Done::Insert { token: batch.token.clone(), outcome }
}

/// Sends a batch as one block under its token.
async fn send<'a, R: RowWrite>(
    client: &Client,
    batch: &Batch,
    rows: impl Iterator<Item = R::Value<'a>>,
) -> Result<(), clickhouse::error::Error> {
    let mut insert = client.insert::<R>(batch.table.name()).await?.with_timeouts(Some(SEND_MAX), Some(CONFIRM_MAX));
    for (name, value) in ONE_BLOCK {
        insert = insert.with_setting(name, value);
    }
    insert = insert.with_setting("insert_deduplication_token", batch.token.clone());
    for row in rows {
        insert.write(&row).await?;
    }
    insert.end().await
}

async fn load(client: Client, directory: Arc<Directory>, symbol: SymbolId) -> Done {
    let loading = async {
        let instrument = directory.get(symbol).ok_or(LoadError::Unknown)?;
        let live = tokio::time::timeout(READ_MAX, read::live_keys(&client, &instrument)).await;
        Ok(live.map_err(|_| LoadError::TimedOut)??)
    };
    Done::Load { symbol, outcome: loading.await }
}
