//! The checkpoint: the hub's books in one file beside the store, so that a restart shows at once what was shown last.
//!
//! ```text
//! checkpoint.bin    header | levels | instruments | names
//! ```
//!
//! * Each instrument's entry is its version and its whole book at one cut. Different instruments may be of different
//!   cuts: streams are independent, a version orders one stream only, and after a start each goes on from its own. A
//!   consistent cut over all of them would buy nothing, and cost a pause of the tape or a second copy of every book.
//! * Levels are kept, as the hub keeps them, so only venues whose ticks are levels are written ([`is_kept`]).
//! * The file is written aside, made durable and renamed; a crash leaves the one before.
//! * [`taker`] copies pieces of bounded size on the tape's thread, [`writer`] turns them into the file on its own,
//!   [`read`] checks every byte before one of them becomes a book. What a record is, is in [`codec`].
//!
//! Never: a byte used whose checksum was not compared; a wait of the tape, but at the end; an instrument that is
//! restored from a log.

pub mod codec;
mod part;
pub mod read;
pub mod taker;
mod writer;

#[cfg(test)]
mod tests;

pub use read::{Checkpoint, Flaw, Ignored, Section};
pub use taker::{CheckpointTaker, FinishError, TakerConfig};
pub use writer::WriteError;

use market::Venue;
use std::{
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// The file's name in the data directory.
pub const FILE: &str = "checkpoint.bin";

/// Largest file that is written or read: 26 million levels, ten times what one process is sized for.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Whether a venue's instruments are kept. Two things make a venue unfit, and a new one must be judged here: ticks with
/// a fee or a tranche, which levels forget, and a stream that is restored from a log, for which a book without its
/// position in the log is worth nothing.
#[must_use]
pub const fn is_kept(venue: Venue) -> bool {
    match venue {
        // Order books: every tick is a level, and every book is rebuilt from a snapshot of the venue.
        Venue::BinanceSpot
        | Venue::KrakenSpot
        | Venue::BinanceUsdm
        | Venue::Coinbase
        | Venue::Okx
        | Venue::Bitfinex
        | Venue::Deribit
        | Venue::KrakenFutures
        | Venue::Kucoin
        | Venue::Bitstamp
        | Venue::Gemini
        | Venue::Bitmex
        | Venue::Bitget
        | Venue::DydxV3 => true,
        // It goes on from the store and its log: only there its position in the log is known.
        Venue::NeutronDex => false,
    }
}

/// Where the checkpoint of a data directory is.
#[must_use]
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Reads the checkpoint of a data directory. None if there is none, or if it is not usable: then it is logged and noted
/// why, the file is left where it is until the next one replaces it, and the start is a cold one.
#[must_use]
pub fn load(data_dir: &Path, view: &CheckpointView) -> Option<Checkpoint> {
    let path = path(data_dir);
    match read::read(&path) {
        Ok(Some(checkpoint)) => {
            let (instruments, written_ns) = (checkpoint.instruments.len(), checkpoint.written_ns);
            tracing::info!(instruments, written_ns, "the checkpoint was read");
            Some(checkpoint)
        }
        Ok(None) => None,
        Err(ignored) => {
            tracing::warn!(path = %path.display(), reason = %ignored, "the checkpoint is ignored");
            view.ignored.set(ignored.name()).ok();
            None
        }
    }
}

/// What is known of the checkpoints of a run; for metrics.
#[derive(Debug, Default)]
pub struct CheckpointView {
    writing: AtomicBool,
    written: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    instruments: AtomicU64,
    duration_ms: AtomicU64,
    written_ns: AtomicU64,
    ignored: OnceLock<&'static str>,
}

impl CheckpointView {
    /// Checkpoints written and checkpoints that failed.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        [("written", self.written.load(Relaxed)), ("failures", self.failures.load(Relaxed))]
    }

    /// What is known of the last one that was written; zeros before the first.
    #[must_use]
    pub fn last(&self, now_ns: u64) -> [(&'static str, u64); 4] {
        [
            ("age_ms", self.age_ms(now_ns).unwrap_or(0)),
            ("bytes", self.bytes.load(Relaxed)),
            ("instruments", self.instruments.load(Relaxed)),
            ("duration_ms", self.duration_ms.load(Relaxed)),
        ]
    }

    /// Milliseconds since the last one was written; none before the first of this run.
    #[must_use]
    pub fn age_ms(&self, now_ns: u64) -> Option<u64> {
        let written_ns = self.written_ns.load(Relaxed);
        (written_ns > 0).then(|| now_ns.saturating_sub(written_ns) / 1_000_000)
    }

    /// Why the file that was there at the start was ignored, if it was.
    #[must_use]
    pub fn ignored(&self) -> Option<&'static str> {
        self.ignored.get().copied()
    }
}
