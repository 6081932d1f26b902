//! Which batches the log has: their names, in order of height, read in pages.
//!
//! Never: a content; two names of one kind at one height: of several, the one that was received first counts, here and
//! where a content is read.

use super::{BatchLog, BatchLogError};
use crate::clickhouse::fetch::hex;
use clickhouse::Row;
use market::batch::{BatchId, BatchKind, BatchName, WAITING_MAX};
use serde::Deserialize;

/// Names that one read gives at most: as many as the guard of a stream holds.
pub const NAMES_MAX: usize = WAITING_MAX;

/// Names that one statement reads, about: the embedded engine builds an answer in memory, and this is some 8 MB.
const PAGE_NAMES: usize = 65_536;

/// A name as stored.
#[derive(Row, Deserialize)]
struct NameRow {
    height: u64,
    previous_height: u64,
    kind: String,
    batch_id: String,
    ingestion_timestamp: i64,
}

/// The column's text.
pub(super) const fn kind_text(kind: BatchKind) -> &'static str {
    match kind {
        BatchKind::Block => "block",
        BatchKind::Snapshot => "snapshot",
    }
}

/// An id as 64 lower-case hexadecimal digits.
#[must_use]
pub fn batch_id_text(id: BatchId) -> String {
    hex(&id.0)
}

/// The id of a text of 64 lower-case hexadecimal digits.
#[must_use]
pub fn parse_batch_id(text: &str) -> Option<BatchId> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut id = [0; 32];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != id.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in id.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(BatchId(id))
}

pub(super) fn stored_id(text: &str) -> Result<BatchId, BatchLogError> {
    parse_batch_id(text).ok_or_else(|| BatchLogError::UnknownText { column: "raw_events.batch_id", text: text.into() })
}

impl NameRow {
    fn order(&self) -> (u64, &str, i64, &str) {
        (self.height, &self.kind, self.ingestion_timestamp, &self.batch_id)
    }

    fn name(&self) -> Result<BatchName, BatchLogError> {
        let kind = [BatchKind::Block, BatchKind::Snapshot].into_iter().find(|kind| kind_text(*kind) == self.kind);
        let unknown = || BatchLogError::UnknownText { column: "raw_events.kind", text: self.kind.as_str().into() };
        Ok(BatchName {
            height: self.height,
            previous: self.previous_height,
            kind: kind.ok_or_else(unknown)?,
            id: stored_id(&self.batch_id)?,
        })
    }
}

impl BatchLog {
    /// The batches above a height, by height, a block before a snapshot: all of them, or the lowest [`NAMES_MAX`] and
    /// those at the height of the last. Asked again above that height, it gives the next.
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn names_above(&self, height: u64) -> Result<Vec<BatchName>, BatchLogError> {
        self.names_within(height, u64::MAX).await
    }

    /// The batches above `after` and up to `through`, as [`BatchLog::names_above`].
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn names_within(&self, after: u64, through: u64) -> Result<Vec<BatchName>, BatchLogError> {
        self.names_in_pages(after, through, PAGE_NAMES, NAMES_MAX).await
    }

    async fn names_in_pages(
        &self,
        after: u64,
        through: u64,
        page: usize,
        most: usize,
    ) -> Result<Vec<BatchName>, BatchLogError> {
        // A page holds all rows of its last height.
        let sql = format!(
            "SELECT ?fields FROM raw_events WHERE venue = ? AND stream = ? AND height > ? AND height <= ? \
             AND kind != 'message' ORDER BY height LIMIT {page} WITH TIES"
        );
        let mut names: Vec<BatchName> = Vec::new();
        let mut above = after;
        while names.len() < most {
            let mut rows = self.rows::<NameRow>("read the names of batches", &sql, &[above, through]).await?;
            let Some(last) = rows.last() else { break };
            let full = rows.len() >= page;
            above = last.height;
            rows.sort_unstable_by(|one, other| one.order().cmp(&other.order()));
            rows.dedup_by(|later, first| (later.height, &later.kind) == (first.height, &first.kind));
            for row in &rows {
                names.push(row.name()?);
            }
            if !full {
                break;
            }
        }
        Ok(names)
    }

    /// The id of the batch at a height.
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn id_at(&self, height: u64, kind: BatchKind) -> Result<Option<BatchId>, BatchLogError> {
        let sql = format!(
            "SELECT batch_id FROM raw_events WHERE venue = ? AND stream = ? AND height = ? AND kind = '{}' \
             ORDER BY ingestion_timestamp, batch_id LIMIT 1",
            kind_text(kind)
        );
        let found = self.rows::<String>("look up a batch", &sql, &[height]).await?;
        found.first().map(|text| stored_id(text)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_64_digits_and_nothing_else() {
        let id = BatchId(std::array::from_fn(|at| u8::try_from(at * 7).unwrap()));
        let text = batch_id_text(id);
        assert_eq!(parse_batch_id(&text), Some(id));
        for wrong in [&text[..63], &text[..62], &text.to_uppercase(), "", &format!("{text}0"), &format!("{text}00")] {
            assert_eq!(parse_batch_id(wrong), None, "{wrong}");
        }
    }
}
