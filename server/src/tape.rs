//! The tape: the thread that owns hub and fan-out. Takes what the workers publish and what terminals ask for, in one
//! order, and hands admitted changes to the store.
//!
//! Flow control: input bytes are given back to the credit with the step that they were part of. A store that falls behind
//! holds nothing back; what waits for it is bounded where it waits ([`store_port`]).
//!
//! Never: a wait for a terminal or for the store.

mod store_port;
mod waiting;

pub use store_port::StorePort;

use crate::{
    bumps::Bumps,
    checkpoint::CheckpointTaker,
    fanout::{ConnectionId, Fanout, FanoutCounts, outbox::Outbox},
    hub::{BookView, HeldView, Hub, HubInstrument, Look},
    legs::{LegRow, LegSums},
    source::SourceControl,
    views::ViewTable,
};
use connectors::clickhouse::child::PARENT_FLUSH_MAX;
use dataflow::{clock::CutClock, copy::BookCopy, cut::LaneCounts, ingest::Credit, sink::SinkMessage};
use hdrhistogram::Histogram;
use market::{Directory, PairId, SymbolId, ViewId, ViewKey};
use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use waiting::Waiting;
use wire::{ErrorCode, ToServer};

/// Commands under way from all terminals and HTTP requests together; more wait at their own end.
const COMMANDS_MAX: usize = 1_024;

/// How often the frontier's lag is looked at when nothing arrives.
const WATCH_EVERY: Duration = Duration::from_millis(20);

/// Terminals that are sent away come back spread over this time, milliseconds.
const RECONNECT_MS_MIN: u32 = 500;
/// See [`RECONNECT_MS_MIN`].
const RECONNECT_MS_MAX: u32 = 5_000;

/// How often the groups are held against what the terminals want.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// How long the store may take, at the end, for what waits in front of its queue.
const HAND_OVER_MAX: Duration = PARENT_FLUSH_MAX;

/// Longest wait at the end for a store that is behind to want the books that it lacks.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// How often the store's queue is tried then.
const HAND_OVER_EVERY: Duration = Duration::from_millis(1);

/// Inputs taken before steps are done again.
const TAKE_MAX: usize = 1_024;

/// What the tape's thread takes.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every message is a cut; a box would be one more allocation for each"
)]
pub enum TapeInput {
    /// From the workers.
    Sink(SinkMessage),
    /// From terminals and HTTP.
    Command(Command, OwnedSemaphorePermit),
    /// End at once.
    Stop,
}

impl From<SinkMessage> for TapeInput {
    fn from(message: SinkMessage) -> Self {
        Self::Sink(message)
    }
}

/// A terminal's or an HTTP request's wish.
pub enum Command {
    /// A terminal is here.
    Connect(ConnectionId, Arc<Outbox>),
    /// It asks for something.
    Request(ConnectionId, ToServer),
    /// It sent something that is no request.
    Malformed(ConnectionId),
    /// It is gone.
    Disconnect(ConnectionId),
    /// One instrument's state at the last cut, with the time of that cut.
    Book(SymbolId, oneshot::Sender<Option<(HubInstrument, u64)>>),
    /// The standing views.
    Views(oneshot::Sender<Arc<ViewTable>>),
    /// A standing view of one pair or all, with the time of the last cut.
    ViewValues(ViewId, Option<PairId>, oneshot::Sender<ViewValues>),
    /// What readers are told of instruments, all at the last cut.
    Look(Vec<Look>, oneshot::Sender<Vec<BookView>>),
    /// The same of one instrument, once it has moved on from the reader's version or changed its mark.
    Wait(Look, oneshot::Sender<BookView>),
    /// The tape's numbers.
    Stats(oneshot::Sender<TapeStats>),
    /// Send away this share of the terminals that are here now, in percent; how many are left.
    Drain(u8, oneshot::Sender<usize>),
}

/// A standing view of pairs, and the end of the last cut in Unix nanoseconds.
pub type ViewValues = (Vec<(PairId, HeldView)>, u64);

/// The tape's numbers.
#[derive(Clone, Debug, Default)]
pub struct TapeStats {
    /// Sums over the lanes.
    pub lanes: LaneCounts,
    /// The connections to venues.
    pub legs: Vec<LegRow>,
    /// Sums over the fan-out.
    pub fanout: FanoutCounts,
    /// Connected terminals.
    pub terminals: usize,
    /// Groups of terminals.
    pub groups: usize,
    /// Sum of the terminals' subscriptions.
    pub subscriptions: usize,
    /// Cuts stepped over.
    pub cuts: u64,
    /// Time from a cut's end to its step: quantile and microseconds.
    pub close_lag_us: Vec<(f64, u64)>,
    /// How far the frontier is behind the clock, milliseconds.
    pub frontier_lag_ms: u64,
    /// Bytes under way.
    pub in_flight_bytes: u64,
    /// Times that ingest found its credit used up.
    pub credit_waits: u64,
    /// Events that wait for the store's queue.
    pub store_backlog: usize,
    /// Times that the groups did not hold what the terminals want.
    pub inconsistent: u64,
    /// Instruments by feed state, in the order of [`market::FeedState::ALL`].
    pub states: [u64; 4],
}

/// How others reach the tape.
#[derive(Clone)]
pub struct TapeHandle {
    inputs: Sender<TapeInput>,
    permits: Arc<Semaphore>,
}

/// The tape has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tape has ended")]
pub struct TapeEnded;

impl TapeHandle {
    /// A handle over the tape's input.
    #[must_use]
    pub fn new(inputs: Sender<TapeInput>) -> Self {
        Self { inputs, permits: Arc::new(Semaphore::new(COMMANDS_MAX)) }
    }

    /// Gives a command, waiting while too many are under way.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn give(&self, command: Command) -> Result<(), TapeEnded> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| TapeEnded)?;
        self.inputs.send(TapeInput::Command(command, permit)).map_err(|_| TapeEnded)
    }

    /// Asks for one instrument's state.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn book(&self, symbol: SymbolId) -> Result<Option<(HubInstrument, u64)>, TapeEnded> {
        let (reply, answer) = oneshot::channel();
        self.give(Command::Book(symbol, reply)).await?;
        answer.await.map_err(|_| TapeEnded)
    }

    /// Asks for the standing views.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn views(&self) -> Result<Arc<ViewTable>, TapeEnded> {
        let (reply, answer) = oneshot::channel();
        self.give(Command::Views(reply)).await?;
        answer.await.map_err(|_| TapeEnded)
    }

    /// Asks for a standing view of one pair, or of every pair that ever had a value.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn view_values(&self, view: ViewId, pair: Option<PairId>) -> Result<ViewValues, TapeEnded> {
        let (reply, answer) = oneshot::channel();
        self.give(Command::ViewValues(view, pair, reply)).await?;
        answer.await.map_err(|_| TapeEnded)
    }

    /// Asks what readers are told of instruments, in the order of the questions and all at one cut.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn look(&self, looks: Vec<Look>) -> Result<Vec<BookView>, TapeEnded> {
        let (reply, answer) = oneshot::channel();
        self.give(Command::Look(looks, reply)).await?;
        answer.await.map_err(|_| TapeEnded)
    }

    /// Asks for it once the instrument has moved on from the reader's version, or changed its mark. Whoever waits no
    /// longer drops the future; the bound on how many wait is the caller's.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn wait(&self, look: Look) -> Result<BookView, TapeEnded> {
        let (reply, answer) = oneshot::channel();
        self.give(Command::Wait(look, reply)).await?;
        answer.await.map_err(|_| TapeEnded)
    }

    /// Asks for the tape's numbers.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn stats(&self) -> Result<TapeStats, TapeEnded> {
        let (reply, answer) = oneshot::channel();
        self.give(Command::Stats(reply)).await?;
        answer.await.map_err(|_| TapeEnded)
    }

    /// Sends a share of the terminals away; gives how many are left.
    ///
    /// # Errors
    /// [`TapeEnded`].
    pub async fn drain(&self, percent: u8) -> Result<usize, TapeEnded> {
        let (reply, answer) = oneshot::channel();
        self.give(Command::Drain(percent, reply)).await?;
        answer.await.map_err(|_| TapeEnded)
    }

    /// Ends the tape's thread.
    pub fn stop(&self) {
        if self.inputs.send(TapeInput::Stop).is_err() {
            tracing::debug!("the tape had ended already");
        }
    }
}

/// How far the frontier may lag.
#[derive(Clone, Copy, Debug)]
pub struct LagBounds {
    /// An alarm is logged.
    pub alarm: Duration,
    /// The tape ends, for the supervisor to restart the process.
    pub exit: Duration,
}

/// How the tape ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapeEnd {
    /// It was told to, or every worker ended.
    Stopped,
    /// The frontier stood still for longer than its bound.
    Stalled,
    /// A new epoch could not be noted, so it must not be shown.
    Unnoted,
    /// Not everything reached the store's queue: it was told to end at once, or the store did not take the rest in time.
    Unfinished,
}

/// What the tape's thread owns.
pub struct Tape {
    /// State of all instruments.
    pub hub: Hub,
    /// All terminals.
    pub fanout: Fanout,
    /// The grid of cuts.
    pub clock: CutClock,
    /// Unix nanoseconds.
    pub now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Bytes under way.
    pub credit: Arc<Credit>,
    /// Instruments.
    pub directory: Arc<Directory>,
    /// The hand-over to the store, if there is a store.
    pub store: Option<StorePort>,
    /// The source, for snapshots that are wanted.
    pub control: SourceControl,
    /// Takes checkpoints, if there shall be any.
    pub checkpoints: Option<CheckpointTaker>,
    /// Where new epochs are noted before they are shown; none where nothing outlives the process.
    pub bumps: Option<Bumps>,
    /// Where the answers to an audit go, if there are audits.
    pub copies: Option<mpsc::Sender<BookCopy>>,
    /// How far the frontier may lag.
    pub lag: LagBounds,
}

struct Running {
    tape: Tape,
    port: Option<StorePort>,
    lanes: LaneCounts,
    legs: LegSums,
    cuts: u64,
    close_lag: Option<Histogram<u64>>,
    listed: usize,
    alarmed: bool,
    checked: Instant,
    inconsistent: u64,
    waiting: Waiting,
    /// A new epoch could not be noted.
    unnoted: bool,
}

/// Whether the epochs may be shown: they are noted, or nothing keeps them.
fn noted(bumps: &mut Option<Bumps>, epochs: impl Iterator<Item = (SymbolId, u64)>) -> bool {
    let Some(Err(error)) = bumps.as_mut().map(|bumps| bumps.note(epochs)) else { return true };
    tracing::error!(%error, "a new epoch cannot be noted, so it is not shown");
    false
}

/// Runs the tape until it is stopped; to be called on a thread of its own.
#[must_use]
pub fn run(mut tape: Tape, inputs: &Receiver<TapeInput>) -> TapeEnd {
    let port = tape.store.take();
    // 1 us to 60 s with 3 significant figures, as all latencies here.
    let close_lag = Histogram::new_with_bounds(1, 60_000_000, 3).ok();
    let mut running = Running {
        tape,
        port,
        lanes: LaneCounts::default(),
        legs: LegSums::default(),
        cuts: 0,
        close_lag,
        listed: 0,
        alarmed: false,
        checked: Instant::now(),
        inconsistent: 0,
        waiting: Waiting::default(),
        unnoted: false,
    };
    let end = running.follow(inputs);
    running.last_checkpoint(end);
    if running.hand_over() { end } else { TapeEnd::Unfinished }
}

impl Running {
    fn follow(&mut self, inputs: &Receiver<TapeInput>) -> TapeEnd {
        loop {
            match inputs.recv_timeout(WATCH_EVERY) {
                Ok(input) => {
                    let more = std::iter::from_fn(|| inputs.try_recv().ok()).take(TAKE_MAX);
                    for input in std::iter::once(input).chain(more) {
                        if !self.take(input) {
                            return if self.port.is_some() { TapeEnd::Unfinished } else { TapeEnd::Stopped };
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return TapeEnd::Stopped,
            }
            if self.unnoted || !self.steps() {
                return TapeEnd::Unnoted;
            }
            self.waiting.answer(&self.tape.hub);
            let now_ms = (self.tape.now_ns)() / 1_000_000;
            self.tape.fanout.tend(now_ms, &mut self.tape.hub);
            self.check();
            if self.tape.hub.ended() {
                return TapeEnd::Stopped;
            }
            if self.stalled() {
                return TapeEnd::Stalled;
            }
        }
    }

    /// Takes a checkpoint of the end; after a stall there may be no time for one.
    fn last_checkpoint(&mut self, end: TapeEnd) {
        let taker = self.tape.checkpoints.take().filter(|_| !matches!(end, TapeEnd::Stalled | TapeEnd::Unnoted));
        if let Some(Err(error)) = taker.map(|taker| taker.finish(&self.tape.hub)) {
            tracing::error!(%error, "there is no last checkpoint; the one before stays");
        }
    }

    /// Hands what waits for the store over before the end, at the store's pace, and the whole books that it lacks because
    /// it was behind; whether nothing is left. A store that stays behind has it on record what it lacks.
    fn hand_over(&mut self) -> bool {
        let Some(port) = &mut self.port else { return true };
        let (until, settled_until) = (Instant::now() + HAND_OVER_MAX, Instant::now() + SETTLE_MAX);
        loop {
            port.give_wanted(&self.tape.hub);
            port.drain();
            if port.is_settled() || port.is_empty() && Instant::now() >= settled_until {
                return true;
            }
            if Instant::now() >= until {
                tracing::error!(events = port.waiting(), "the store did not take the rest in time");
                return false;
            }
            std::thread::sleep(HAND_OVER_EVERY);
        }
    }

    fn take(&mut self, input: TapeInput) -> bool {
        match input {
            TapeInput::Sink(SinkMessage::Priority(updates)) => {
                let epochs = updates.iter().map(|update| (update.symbol, update.version.epoch));
                if !noted(&mut self.tape.bumps, epochs) {
                    self.unnoted = true;
                    return true;
                }
                let now_ms = (self.tape.now_ns)() / 1_000_000;
                self.tape.fanout.priority(&updates, now_ms);
            }
            TapeInput::Sink(message) => self.tape.hub.take(message),
            TapeInput::Command(command, _permit) => self.command(command),
            TapeInput::Stop => return false,
        }
        true
    }

    fn command(&mut self, command: Command) {
        let (hub, fanout) = (&mut self.tape.hub, &mut self.tape.fanout);
        match command {
            Command::Connect(id, outbox) => fanout.connect(id, outbox, hub.now_ns() / 1_000_000),
            Command::Request(id, request) => fanout.request(id, request, hub),
            Command::Malformed(id) => fanout.refuse(id, None, ErrorCode::Malformed),
            Command::Disconnect(id) => fanout.teardown(id, hub),
            Command::Book(symbol, reply) => {
                let now_ns = hub.now_ns();
                answer(reply, hub.instrument(symbol).map(|instrument| (instrument.clone(), now_ns)));
            }
            Command::Views(reply) => answer(reply, Arc::clone(fanout.views())),
            Command::ViewValues(view, pair, reply) => {
                let values = match pair {
                    Some(pair) => hub.view(ViewKey { view, pair }).map(|held| (pair, held)).into_iter().collect(),
                    None => hub.views(view).collect(),
                };
                answer(reply, (values, hub.now_ns()));
            }
            Command::Look(looks, reply) => answer(reply, looks.iter().map(|look| hub.look(look)).collect()),
            Command::Wait(look, reply) => self.waiting.push(look, reply, hub),
            Command::Stats(reply) => answer(reply, self.stats()),
            Command::Drain(percent, reply) => {
                let (terminals, ..) = fanout.sizes();
                let count = (terminals * usize::from(percent)).div_ceil(100);
                let spread = || rand::random_range(RECONNECT_MS_MIN..=RECONNECT_MS_MAX);
                answer(reply, fanout.drain(count, spread));
            }
        }
    }

    /// Does all steps that can be done; false if a new epoch could not be noted.
    fn steps(&mut self) -> bool {
        while let Some(mut step) = self.tape.hub.step() {
            if !noted(&mut self.tape.bumps, step.epochs.drain(..)) {
                return false;
            }
            self.cuts += 1;
            self.lanes.add(&step.counts);
            self.legs.add(&step.legs);
            self.note_lag(step.cut);
            self.tape.control.request(&step.requests);
            self.answer_audit(&mut step.copies);
            self.tape.credit.release(step.input_bytes);
            if let Some(port) = &mut self.port {
                port.take(&mut step, &self.tape.hub);
            }
            if self.tape.directory.len() != self.listed {
                self.listed = self.tape.directory.len();
                self.tape.fanout.grow(&mut self.tape.hub);
            }
            if let Some(phase) = step.closing {
                let frame = self.tape.hub.close(phase);
                self.tape.fanout.close(&frame, phase, &self.tape.hub);
            }
        }
        if let Some(port) = &mut self.port {
            port.drain();
        }
        if let Some(taker) = &mut self.tape.checkpoints {
            taker.step(&self.tape.hub);
        }
        true
    }

    /// An audit waits for every answer and asks for no more than its channel holds; one that has given up misses nothing.
    fn answer_audit(&self, copies: &mut Vec<BookCopy>) {
        let Some(audit) = self.tape.copies.as_ref().filter(|_| !copies.is_empty()) else { return };
        for copy in copies.drain(..) {
            if audit.try_send(copy).is_err() {
                tracing::debug!("an audit does not wait for an answer any longer");
            }
        }
    }

    /// The sum of the groups' subscriptions is the sum of the terminals'.
    fn check(&mut self) {
        if self.checked.elapsed() < CHECK_EVERY {
            return;
        }
        self.checked = Instant::now();
        if !self.tape.fanout.is_consistent() {
            self.inconsistent += 1;
            tracing::error!("the groups do not hold what the terminals want");
        }
    }

    fn note_lag(&mut self, cut: u64) {
        let lag_ns = (self.tape.now_ns)().saturating_sub(self.tape.clock.end_ns(cut));
        if let Some(histogram) = &mut self.close_lag {
            histogram.saturating_record((lag_ns / 1_000).max(1));
        }
    }

    fn frontier_lag(&self) -> Duration {
        let closed_ns = self.tape.clock.end_ns(self.tape.hub.frontier().saturating_sub(1));
        Duration::from_nanos((self.tape.now_ns)().saturating_sub(closed_ns))
    }

    fn stalled(&mut self) -> bool {
        let lag = self.frontier_lag();
        if lag > self.tape.lag.alarm && !self.alarmed {
            tracing::error!(lag_ms = lag.as_millis(), "the frontier lags behind the clock");
        }
        self.alarmed = lag > self.tape.lag.alarm;
        lag > self.tape.lag.exit
    }

    fn stats(&self) -> TapeStats {
        let (terminals, groups, subscriptions) = self.tape.fanout.sizes();
        let mut states = [0; 4];
        for instrument in self.tape.hub.instruments() {
            let state = instrument.feed().state;
            let at = market::FeedState::ALL.iter().position(|known| *known == state);
            if let Some(count) = at.and_then(|at| states.get_mut(at)) {
                *count += 1;
            }
        }
        let quantile = |histogram: &Histogram<u64>| {
            [0.5, 0.99, 0.999].map(|quantile| (quantile, histogram.value_at_quantile(quantile))).to_vec()
        };
        TapeStats {
            lanes: self.lanes,
            legs: self.legs.rows(&self.tape.control.numbers().view().legs),
            fanout: self.tape.fanout.counts(),
            terminals,
            groups,
            subscriptions,
            cuts: self.cuts,
            close_lag_us: self.close_lag.as_ref().map(quantile).unwrap_or_default(),
            frontier_lag_ms: u64::try_from(self.frontier_lag().as_millis()).unwrap_or(u64::MAX),
            in_flight_bytes: self.tape.credit.in_flight(),
            credit_waits: self.tape.credit.waits(),
            store_backlog: self.port.as_ref().map_or(0, StorePort::waiting),
            inconsistent: self.inconsistent,
            states,
        }
    }
}

/// Whoever asked may be gone by now.
fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::trace!("nobody waits for the answer any longer");
    }
}
