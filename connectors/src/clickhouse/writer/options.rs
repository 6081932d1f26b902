//! How the writer batches, waits and counts.
//!
//! Never: a bound without its reason.

/// Rows of one batch: one part on disk for 50,000 rows keeps merges cheap, and its insert takes well under a second.
pub const BATCH_ROWS: usize = 50_000;
/// Bytes of one batch in memory, about twice what goes over the wire.
pub const BATCH_BYTES: u64 = 16 << 20;
/// Age of a batch: what an analyst waits at most for a row, and five parts a second and table at the least load.
pub const BATCH_AGE_NS: u64 = 200_000_000;
/// Bytes that may wait for the store: at 100 bytes a row some minutes of a busy market during an outage.
pub const PENDING_BYTES_MAX: u64 = 256 << 20;
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
    /// The writer is full with this many bytes waiting.
    pub pending_bytes_max: u64,
    /// Same input, same batches, same tokens: the source waits while live keys are loaded, and tombstones for keys
    /// of the store travel in a batch of their own, because they depend on what the store held before.
    pub replay: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            batch_rows: BATCH_ROWS,
            batch_bytes: BATCH_BYTES,
            batch_age_ns: Some(BATCH_AGE_NS),
            pending_bytes_max: PENDING_BYTES_MAX,
            replay: false,
        }
    }
}

impl WriterOptions {
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

/// The wait after so many failures before.
pub(super) fn backoff_ns(failures: u32) -> u64 {
    BACKOFF_FIRST_NS.saturating_mul(1_u64.checked_shl(failures.min(32)).unwrap_or(u64::MAX)).min(BACKOFF_MAX_NS)
}
