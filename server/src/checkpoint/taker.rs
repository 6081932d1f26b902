//! Takes checkpoints off the hub: every now and then a round over all instruments, a piece of bounded size per call.
//!
//! The pieces are few and go round: tape, writer, back. While the writer has all of them the round waits, the tape does
//! not. So a slow disk makes a checkpoint older, and nothing else.
//!
//! Never: a wait in [`CheckpointTaker::step`]; a second checkpoint while one is being written.

use super::{
    CheckpointView,
    codec::{LevelRecord, Record},
    is_kept,
    part::{Part, Place},
    writer::{self, WriteError},
};
use crate::hub::Hub;
use market::{Directory, SymbolId};
use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Bytes copied in one call, but at least one instrument, whose book must be of one cut. Measured (docs/BENCH.md): about
/// 90 us of the tape's 4 ms, and 2,400 books of 400 levels within 1.1 s.
const COPY_BYTES: usize = 128 << 10;

/// Instruments looked at in one call: as many as fill a piece if their books are empty.
const LOOKS_MAX: usize = 2_048;

/// Pieces in the round: one being filled, one being written, and two so that neither side waits for a moment's delay of
/// the other.
const PARTS: usize = 4;

/// How long the last checkpoint may take at the end: a gigabyte at the pace of a slow disk.
const FINISH_MAX: Duration = Duration::from_secs(30);

/// What a taker needs.
#[derive(Clone, Debug)]
pub struct TakerConfig<'a> {
    /// Where the file is kept.
    pub data_dir: &'a Path,
    /// Names of the instruments.
    pub directory: Arc<Directory>,
    /// Time from the begin of a round to the begin of the next, in the hub's time.
    pub every: Duration,
    /// First epoch of this run's block.
    pub block: u64,
    /// Instruments whose books were restored at the start.
    pub restored: usize,
    /// What becomes known of the checkpoints.
    pub view: Arc<CheckpointView>,
}

/// The last checkpoint of a run is not there.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// It could not be written.
    #[error("the last checkpoint cannot be written")]
    Write(#[from] WriteError),
    /// It took too long.
    #[error("the last checkpoint was not written within {} s", FINISH_MAX.as_secs())]
    Late,
    /// The writer's thread broke.
    #[error("the writer of checkpoints ended early")]
    Ended,
}

/// Takes checkpoints; to be called on the thread that owns the hub.
#[derive(Debug)]
pub struct CheckpointTaker {
    directory: Arc<Directory>,
    every_ns: u64,
    restored: usize,
    view: Arc<CheckpointView>,
    parts: SyncSender<Part>,
    free: Receiver<Part>,
    thread: JoinHandle<Result<(), WriteError>>,
    /// When the next round begins; none before the first call.
    due_ns: Option<u64>,
    /// The number that the round under way goes on from.
    round: Option<u32>,
    /// The end of the cut that a piece was copied at last.
    copied_ns: Option<u64>,
}

impl CheckpointTaker {
    /// Starts the writer's thread. The first round begins after the time between two.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(config: TakerConfig<'_>) -> io::Result<Self> {
        let TakerConfig { data_dir, directory, every, block, restored, view } = config;
        let (parts, free, thread) = writer::start(data_dir, block, Arc::clone(&view), PARTS)?;
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            directory,
            every_ns,
            restored,
            view,
            parts,
            free,
            thread,
            due_ns: None,
            round: None,
            copied_ns: None,
        })
    }

    /// Copies a piece if a round is due or under way and the writer has one free; whether it did. At most one piece per
    /// cut, however often it is called. To be called after the hub was stepped, once for all cuts that were ready, so
    /// that a tape that catches up is not held up for each of them.
    pub fn step(&mut self, hub: &Hub) -> bool {
        let now_ns = hub.now_ns();
        if self.copied_ns == Some(now_ns) {
            return false;
        }
        let from = match self.round {
            Some(from) => from,
            None => {
                let due_ns = *self.due_ns.get_or_insert(now_ns.saturating_add(self.every_ns));
                if now_ns < due_ns || self.view.writing.load(Relaxed) {
                    return false;
                }
                0
            }
        };
        let Ok(part) = self.free.try_recv() else { return false };
        if from == 0 {
            self.view.writing.store(true, Relaxed);
            self.due_ns = Some(now_ns.saturating_add(self.every_ns));
        }
        self.round = self.give(part, hub, from);
        self.copied_ns = Some(now_ns);
        true
    }

    /// Takes a last, complete checkpoint and waits until it is durable; what was under way is given up. The file is left
    /// as it is if the hub has no book, or fewer than were restored: then the start was not over yet.
    ///
    /// # Errors
    /// [`FinishError`]; the file that was there is still there.
    pub fn finish(mut self, hub: &Hub) -> Result<(), FinishError> {
        let books = hub.instruments().filter(|held| held.version().is_some()).count();
        if books < self.restored {
            tracing::warn!(books, restored = self.restored, "ended before the start was over: no last checkpoint");
            return Ok(());
        }
        let until = Instant::now() + FINISH_MAX;
        let mut next = Some(0);
        while let Some(from) = next {
            let part = self.wait(until)?.ok_or(FinishError::Ended)?;
            next = self.give(part, hub, from);
        }
        let Self { parts, free, thread, .. } = self;
        drop(parts);
        while next_free(&free, until)?.is_some() {}
        thread.join().map_err(|_| FinishError::Ended)?.map_err(FinishError::from)
    }

    fn wait(&self, until: Instant) -> Result<Option<Part>, FinishError> {
        next_free(&self.free, until)
    }

    /// Fills a piece with the instruments from the given number on and hands it over; where to go on, if there are more.
    fn give(&mut self, mut part: Part, hub: &Hub, from: u32) -> Option<u32> {
        part.clear();
        let numbers = hub.numbers();
        let mut next = from;
        for _ in 0..LOOKS_MAX {
            if next >= numbers || part.bytes() >= COPY_BYTES {
                break;
            }
            let held = hub.instrument(SymbolId(next)).filter(|held| held.version().is_some());
            let named = held.and_then(|held| Some((held, self.directory.get(held.symbol())?)));
            if let Some((held, instrument)) = named.filter(|(_, instrument)| is_kept(instrument.venue)) {
                part.copy(held, &instrument);
            }
            next = next.saturating_add(1);
        }
        let last = next >= numbers;
        part.place = Some(Place { first: from == 0, last, now_ns: hub.now_ns() });
        // There is room for every piece, and a writer that is gone is noticed at the end.
        self.parts.try_send(part).ok();
        (!last).then_some(next)
    }
}

/// The next free piece; none once the writer has ended.
fn next_free(free: &Receiver<Part>, until: Instant) -> Result<Option<Part>, FinishError> {
    match free.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(part) => Ok(Some(part)),
        Err(RecvTimeoutError::Timeout) => Err(FinishError::Late),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
    }
}

/// A piece with room for what is copied in one call, so that the tape's thread seldom waits for memory.
pub(super) fn empty_part() -> Part {
    Part { levels: Vec::with_capacity(COPY_BYTES / LevelRecord::BYTES), ..Part::default() }
}

#[cfg(test)]
impl CheckpointTaker {
    pub(super) fn is_idle(&self) -> bool {
        self.round.is_none() && !self.view.writing.load(Relaxed)
    }

    pub(super) fn progress(&self) -> Option<u32> {
        self.round
    }

    /// Takes every free piece, as a slow writer does.
    pub(super) fn withhold(&mut self) -> Vec<Part> {
        let until = Instant::now() + FINISH_MAX;
        (0..PARTS).map(|_| next_free(&self.free, until).unwrap().unwrap()).collect()
    }

    /// Lets the writer give them back.
    pub(super) fn give_back(&mut self, parts: Vec<Part>) {
        parts.into_iter().for_each(|part| self.parts.try_send(Part { place: None, ..part }).unwrap());
    }
}
