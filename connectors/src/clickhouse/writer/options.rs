//! How the writer batches, waits and counts.
//!
//! Never: a bound without its reason.

use crate::clickhouse::trouble::StoreState;
use market::Venue;

/// Rows of one batch: one part on disk for 50,000 rows keeps merges cheap, and its insert takes well under a second.
pub const BATCH_ROWS: usize = 50_000;
/// Bytes of one batch in memory, about twice what goes over the wire.
pub const BATCH_BYTES: u64 = 16 << 20;
/// Age of a batch: what an analyst waits at most for a row, and five parts a second and table at the least load.
pub const BATCH_AGE_NS: u64 = 200_000_000;
/// Bytes that may wait for the store: at 100 bytes a row some minutes of a busy market during an outage.
pub const PENDING_BYTES_MAX: u64 = 256 << 20;
/// What conflated changes may occupy in all, in times of `pending_bytes_max`: conflation begins at the bound itself, and a
/// row in a table of them takes up to half as much again, so that nothing is given up that conflation would have kept.
pub const CONFLATED_TIMES: u64 = 2;
/// Conflation ends when a batch was confirmed and no more than this part of `pending_bytes_max` waits: half, so that it
/// does not begin again with the next event.
pub(super) const RECOVERED_PART: u64 = 2;
/// The part of `pending_bytes_max` that trades may occupy: they are a tenth of the changes where there are many.
pub const TRADES_PART: u64 = 8;
/// The part of `pending_bytes_max` that messages of venues may occupy: worth less than what was made of them.
pub const RAW_PART: u64 = 4;
/// Batches of trades and messages have a part of their bound, so that what is left out is a part as well.
pub(super) const BATCHES_MIN: u64 = 4;
/// Loads of live keys that are asked for at one time, so that a start with many instruments leaves the store room.
pub const LOADS_MAX: usize = 4;
/// Blocks whose inserts are under way at one time: a replay of many small ones is not bound by the answer time of each.
pub const BLOCK_INSERTS_MAX: usize = 4;
/// Wait after the first failure; doubled with each further one.
pub const BACKOFF_FIRST_NS: u64 = 100_000_000;
/// Longest wait between attempts, so that the store is used soon after it is back.
pub const BACKOFF_MAX_NS: u64 = 10_000_000_000;

/// How the writer batches, and how much it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// A batch closes with this many rows.
    pub batch_rows: usize,
    /// A batch closes with this many bytes.
    pub batch_bytes: u64,
    /// A batch closes at this age; `None` for replays, whose batches must not depend on the clock.
    pub batch_age_ns: Option<u64>,
    /// In a replay the writer is full with this many bytes waiting. In a run changes of venues are conflated beyond it.
    pub pending_bytes_max: u64,
    /// Venues whose history is kept by frames.
    pub frames: Option<FrameHistory>,
    /// Same input, same batches, same tokens: the source waits while live keys are loaded or too much waits, and
    /// tombstones for keys of the store travel in a batch of their own, because they depend on what the store held before.
    pub replay: bool,
}

/// History by frames: of each tick the last change of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHistory {
    /// The venues.
    pub venues: Vec<Venue>,
    /// Nanoseconds of a frame; frames are counted from the beginning of Unix time by when a change was shown.
    pub frame_ns: u64,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch_rows: BATCH_ROWS,
            batch_bytes: BATCH_BYTES,
            batch_age_ns: Some(BATCH_AGE_NS),
            pending_bytes_max: PENDING_BYTES_MAX,
            frames: None,
            replay: false,
        }
    }
}

impl WriterOptions {
    /// Bytes that trades may occupy.
    #[must_use]
    pub fn trades_bytes_max(&self) -> u64 {
        self.pending_bytes_max / TRADES_PART
    }

    /// Bytes that messages of venues may occupy.
    #[must_use]
    pub fn raw_bytes_max(&self) -> u64 {
        self.pending_bytes_max / RAW_PART
    }

    /// Bytes that changes of venues may occupy, conflated.
    #[must_use]
    pub fn conflated_bytes_max(&self) -> u64 {
        self.pending_bytes_max.saturating_mul(CONFLATED_TIMES)
    }

    /// The same options with batches that are a part of a bound.
    pub(super) fn within(&self, bytes_max: u64) -> Self {
        let batch_bytes = if self.replay { self.batch_bytes } else { self.batch_bytes.min(bytes_max / BATCHES_MIN) };
        Self { batch_bytes, frames: None, ..*self }
    }

    /// For replays: batches depend on the input alone.
    #[must_use]
    pub fn replay() -> Self {
        Self { batch_age_ns: None, replay: true, ..Self::default() }
    }
}

/// What the writer did, and what waits; all counts since its construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows taken in.
    pub rows_pushed: u64,
    /// Rows that the store confirmed.
    pub rows_inserted: u64,
    /// Batches that the store confirmed.
    pub batches_inserted: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Loads of live keys that were answered.
    pub loads: u64,
    /// Tombstones written for keys that only the store had.
    pub tombstones: u64,
    /// Rows and held changes that wait, in bytes.
    pub pending_bytes: u64,
    /// Of these, what batch streams became.
    pub stream_bytes: u64,
    /// How the store does.
    pub state: StoreState,
    /// How often changes began to be conflated because too much waited.
    pub overloads: u64,
    /// Changes that were left out because of it.
    pub changes_left_out: u64,
    /// How often an instrument's waiting changes were given up, and its whole book asked for.
    pub instruments_given_up: u64,
    /// Trades that were left out.
    pub trades_left_out: u64,
    /// Messages of venues that were left out.
    pub raw_left_out: u64,
    /// Changes that are no rows because a later one of the same frame is, where history is kept by frames.
    pub frame_conflated: u64,
    /// Gaps of the history that were noted.
    pub gaps_noted: u64,
    /// Instruments whose changes are held until their live keys are loaded.
    pub instruments_held: usize,
    /// Blocks that wait for their inserts, those under way included.
    pub blocks_waiting: usize,
    /// Rows that were left to the log at the end, because their blocks had not ended.
    pub rows_left: u64,
    /// Age of the oldest row that the store has not confirmed; 0 if none waits.
    pub lag_ns: u64,
    /// The last failure's text, as the store or the network gave it.
    pub last_error: Option<Box<str>>,
    /// Its age.
    pub last_error_age_ns: Option<u64>,
}

impl Counters {
    /// Rows that were taken in and are neither confirmed nor left out.
    #[must_use]
    pub fn rows_unconfirmed(&self) -> u64 {
        let left_out = self.changes_left_out + self.trades_left_out + self.raw_left_out + self.frame_conflated;
        self.rows_pushed.saturating_sub(self.rows_inserted).saturating_sub(left_out)
    }
}

/// The wait after so many failures before.
pub(super) fn backoff_ns(failures: u32) -> u64 {
    BACKOFF_FIRST_NS.saturating_mul(1_u64.checked_shl(failures.min(32)).unwrap_or(u64::MAX)).min(BACKOFF_MAX_NS)
}
