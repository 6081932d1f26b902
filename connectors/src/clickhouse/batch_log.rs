//! The log of a batch stream in `raw_events`, and what is kept beside it: the cursor, the gaps, the dead letters, and the
//! ticks as they were at a height.
//!
//! A batch is one row, whatever the number of messages that it came in, and it is there once. The server drops an insert
//! whose deduplication token it remembers, and it remembers tokens longer than rows that an operator deletes. So what is
//! in the log is asked before and after every insert, and where the row is not there in spite of a confirmed insert, the
//! next attempt has a token of its own.
//!
//! Never: a batch twice; two contents at one height, as far as readers see; more than one content in memory.

mod content;
mod dead;
mod error;
mod gaps;
mod names;
mod state;

pub use content::{CONTENT_BYTES_MAX, LoggedContent};
pub use dead::{DEAD_LETTERS_MAX, DeadFilter, DeadHead, DeadLetter, DeadLetters, DeadState, dead_letter_id};
pub use error::BatchLogError;
pub use gaps::{GAPS_MAX, Gap, GapState, StreamGap, all_gaps};
pub use names::{NAMES_MAX, batch_id_text, parse_batch_id};
pub use state::{STATE_TICKS_MAX, TickAt};

use super::{
    address::ONE_BLOCK,
    fetch::hex,
    rows::{Payload, put_text, time},
    sink::{CONFIRM_MAX, SEND_MAX},
};
use crate::halt;
use bytes::Bytes;
use clickhouse::{Client, Row, RowOwned, RowRead, RowWrite};
use error::{failed, in_time};
use market::{
    Venue,
    batch::{BatchId, BatchName},
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Longest wait for a read of the log: the greatest content from a busy store.
const READ_MAX: Duration = Duration::from_secs(60);

/// Attempts of one insert, each under its own token: as many times may one batch be deleted from the log and come again
/// while the server remembers its tokens.
pub const INSERT_ATTEMPTS_MAX: u32 = 16;

/// A batch for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBatch {
    /// Its name.
    pub name: BatchName,
    /// The uncompressed content, whose SHA-256 is the name's id; at most [`CONTENT_BYTES_MAX`].
    pub content: Bytes,
    /// The number of messages that it came in.
    pub parts: u32,
    /// Id of the first of them.
    pub message_id: Box<str>,
    /// The block's time by the venue's clock, Unix nanoseconds; 0 if unknown.
    pub block_time_ns: u64,
    /// When the last of its messages was published, Unix nanoseconds.
    pub published_ns: u64,
    /// When the last of its messages was received, Unix nanoseconds.
    pub received_ns: u64,
}

/// What became of a batch that was to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// It is in the log now.
    New,
    /// It was there already.
    Known,
    /// Another batch is there at its height, and this one is not taken.
    Contradicts {
        /// The id of the one that is there.
        known: BatchId,
    },
}

/// The log of one batch stream.
#[derive(Clone)]
pub struct BatchLog {
    client: Client,
    venue: Venue,
    stream: Box<str>,
}

impl std::fmt::Debug for BatchLog {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "BatchLog({}/{})", self.venue, self.stream)
    }
}

/// A row of `raw_events` on its way.
#[derive(Row, Serialize)]
struct BatchRow<'a> {
    venue: &'a str,
    stream: &'a str,
    height: u64,
    previous_height: u64,
    part: u32,
    parts: u32,
    message_id: &'a str,
    kind: &'a str,
    batch_id: String,
    payload: Payload<'a>,
    updated_at: i64,
    published_at: i64,
    ingestion_timestamp: i64,
}

/// A row of `batch_cursors` on its way.
#[derive(Row, Serialize)]
struct CursorRow<'a> {
    venue: &'a str,
    stream: &'a str,
    height: u64,
    moved_at: i64,
}

impl BatchLog {
    /// The log of a stream behind a client of [`super::StoreAddress::client`]; the schema must have been applied.
    #[must_use]
    pub fn new(client: Client, venue: Venue, stream: &str) -> Self {
        Self { client, venue, stream: stream.into() }
    }

    /// Whose stream it is.
    #[must_use]
    pub fn venue(&self) -> Venue {
        self.venue
    }

    /// The stream's name.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Puts a batch into the log, once; when this returns, it is there. It may be called for several batches, and for the
    /// same one, at one time.
    ///
    /// # Errors
    /// [`BatchLogError`]; the outcome is unknown then, and the same call again is right.
    pub async fn insert(&self, batch: &LoggedBatch) -> Result<Logged, BatchLogError> {
        let BatchName { height, kind, id, .. } = batch.name;
        if batch.content.len() > CONTENT_BYTES_MAX {
            return Err(BatchLogError::TooLarge { height, limit: CONTENT_BYTES_MAX });
        }
        if let Some(known) = self.id_at(height, kind).await? {
            return Ok(if known == id { Logged::Known } else { Logged::Contradicts { known } });
        }
        for attempt in 0..INSERT_ATTEMPTS_MAX {
            let row = self.row(batch);
            let token = self.token(&batch.name, attempt);
            let sent = send::<BatchRow<'_>>(&self.client, "raw_events", &row, Some(&token)).await;
            sent.map_err(failed("log a batch"))?;
            halt::point("inserted-raw_events");
            match self.id_at(height, kind).await? {
                Some(known) if known == id => return Ok(Logged::New),
                Some(known) => return Ok(Logged::Contradicts { known }),
                None => {
                    tracing::warn!(log = ?self, height, attempt, "the log lacks a batch that was inserted before; once more");
                }
            }
        }
        Err(BatchLogError::Swallowed { height, attempts: INSERT_ATTEMPTS_MAX })
    }

    fn row<'a>(&'a self, batch: &'a LoggedBatch) -> BatchRow<'a> {
        BatchRow {
            venue: self.venue.name(),
            stream: &self.stream,
            height: batch.name.height,
            previous_height: batch.name.previous,
            part: 0,
            parts: batch.parts,
            message_id: &batch.message_id,
            kind: names::kind_text(batch.name.kind),
            batch_id: batch_id_text(batch.name.id),
            payload: Payload(&batch.content),
            updated_at: time(batch.block_time_ns),
            published_at: time(batch.published_ns),
            ingestion_timestamp: time(batch.received_ns),
        }
    }

    /// The deduplication token of one logical attempt: the first is that of the batch itself.
    fn token(&self, name: &BatchName, attempt: u32) -> String {
        let mut hash = Sha256::new();
        for text in ["batch", self.venue.name(), &self.stream] {
            put_text(&mut hash, text);
        }
        hash.update(name.height.to_le_bytes());
        put_text(&mut hash, names::kind_text(name.kind));
        hash.update(name.id.0);
        if attempt > 0 {
            hash.update(attempt.to_le_bytes());
        }
        hex(&hash.finalize())
    }

    /// Up to which height everything that was made of the log is in the other tables.
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn cursor(&self) -> Result<Option<u64>, BatchLogError> {
        let query = "SELECT count(), max(height) FROM batch_cursors WHERE venue = ? AND stream = ?";
        let query = self.client.query(query).bind(self.venue.name()).bind(&*self.stream);
        let (rows, height) = in_time("read the cursor", READ_MAX, query.fetch_one::<(u64, u64)>()).await?;
        Ok((rows > 0).then_some(height))
    }

    /// Moves the cursor up; one that is lower than the stored one changes nothing.
    ///
    /// # Errors
    /// [`BatchLogError`]; the outcome is unknown then.
    pub async fn move_cursor(&self, height: u64, now_ns: u64) -> Result<(), BatchLogError> {
        let row = CursorRow { venue: self.venue.name(), stream: &self.stream, height, moved_at: time(now_ns) };
        let sent = send::<CursorRow<'_>>(&self.client, "batch_cursors", &row, None).await;
        sent.map_err(failed("move the cursor"))
    }

    /// Reads all rows of a statement about this stream; its first two binds are the venue and the stream.
    async fn rows<T>(&self, action: &'static str, sql: &str, binds: &[u64]) -> Result<Vec<T>, BatchLogError>
    where
        T: RowOwned + RowRead,
    {
        let mut query = self.client.query(sql).bind(self.venue.name()).bind(&*self.stream);
        for bind in binds {
            query = query.bind(*bind);
        }
        in_time(action, READ_MAX, query.fetch_all::<T>()).await
    }

    /// The dead letters of all streams of this store.
    #[must_use]
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::new(self.client.clone())
    }
}

/// Sends one row as one block, under a token, or without deduplication where the table replaces by itself.
async fn send<R: RowWrite>(
    client: &Client,
    table: &str,
    row: &R::Value<'_>,
    token: Option<&str>,
) -> Result<(), clickhouse::error::Error> {
    let mut insert = client.insert::<R>(table).await?.with_timeouts(Some(SEND_MAX), Some(CONFIRM_MAX));
    for (name, value) in ONE_BLOCK {
        insert = insert.with_setting(name, value);
    }
    insert = insert.with_setting("async_insert", "0");
    insert = match token {
        Some(token) => insert.with_setting("insert_deduplicate", "1").with_setting("insert_deduplication_token", token),
        None => insert.with_setting("insert_deduplicate", "0"),
    };
    insert.write(row).await?;
    insert.end().await
}
