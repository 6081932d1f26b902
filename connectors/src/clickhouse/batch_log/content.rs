//! The contents of logged batches, one at a time.
//!
//! A content comes as plain bytes and not as a row, because a row is looked at again with every piece that arrives.
//!
//! Never: a content whose digest is not its id.

use super::{
    BatchLog, BatchLogError, READ_MAX,
    error::{failed, ns},
    names::{kind_text, stored_id},
};
use clickhouse::{Row, query::Query};
use market::batch::{BatchId, BatchKind};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Longest uncompressed content, bytes: twice the greatest batch that venues send, and half of what the embedded engine
/// takes in one request.
pub const CONTENT_BYTES_MAX: usize = 64 << 20;

/// A batch as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedContent {
    /// The height of the one before it.
    pub previous: u64,
    /// Its id, which is the digest of the content.
    pub id: BatchId,
    /// The uncompressed content.
    pub content: Vec<u8>,
    /// The number of messages that it came in.
    pub parts: u32,
    /// The block's time by the venue's clock, Unix nanoseconds; 0 if unknown.
    pub block_time_ns: u64,
    /// When it was published, Unix nanoseconds.
    pub published_ns: u64,
    /// When it was received, Unix nanoseconds.
    pub received_ns: u64,
}

#[derive(Row, Deserialize)]
struct HeadRow {
    previous_height: u64,
    batch_id: String,
    parts: u32,
    updated_at: i64,
    published_at: i64,
    ingestion_timestamp: i64,
}

impl BatchLog {
    /// The batch at a height.
    ///
    /// # Errors
    /// [`BatchLogError`], among them that the content is damaged.
    pub async fn read(&self, height: u64, kind: BatchKind) -> Result<Option<LoggedContent>, BatchLogError> {
        let kind = kind_text(kind);
        let of = format!("FROM raw_events WHERE venue = ? AND stream = ? AND height = ? AND kind = '{kind}'");
        let sql = format!("SELECT ?fields {of} ORDER BY ingestion_timestamp, batch_id LIMIT 1");
        let mut heads = self.rows::<HeadRow>("read a batch", &sql, &[height]).await?;
        let Some(head) = heads.pop() else { return Ok(None) };
        let id = stored_id(&head.batch_id)?;
        let query = self.client.query(&format!("SELECT payload {of} AND batch_id = ? LIMIT 1"));
        let query = query.bind(self.venue.name()).bind(&*self.stream).bind(height).bind(&head.batch_id);
        let content = blob("read a batch", query, CONTENT_BYTES_MAX).await?;
        let content = content.ok_or(BatchLogError::TooLarge { height, limit: CONTENT_BYTES_MAX })?;
        if Sha256::digest(&content).as_slice() != id.0 {
            return Err(BatchLogError::Damaged { height, kind });
        }
        Ok(Some(LoggedContent {
            previous: head.previous_height,
            id,
            content,
            parts: head.parts,
            block_time_ns: ns(head.updated_at),
            published_ns: ns(head.published_at),
            received_ns: ns(head.ingestion_timestamp),
        }))
    }
}

/// The one value of a statement, byte for byte; `None` if it has more bytes than that.
pub(super) async fn blob(
    action: &'static str,
    query: Query,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, BatchLogError> {
    let reading = async {
        let mut answer = query.fetch_bytes("RawBLOB")?;
        let mut value = Vec::new();
        while let Some(piece) = answer.next().await? {
            if value.len() + piece.len() > bytes_max {
                return Ok(None);
            }
            value.extend_from_slice(&piece);
        }
        Ok(Some(value))
    };
    let read = tokio::time::timeout(READ_MAX, reading).await;
    read.map_err(|_| BatchLogError::TimedOut { action, seconds: READ_MAX.as_secs() })?.map_err(failed(action))
}
