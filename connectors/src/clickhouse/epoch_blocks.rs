//! The epoch journal that all hosts share: one row per reserved block in `epoch_blocks`.
//!
//! A claim carries a deduplication token that names its block, so of several claims the server takes the first and drops
//! the others, and reading the block back tells whose it is.
//!
//! Never: a decision which block to claim, or what to do without one; those are the journal's.

use super::sink::{CONFIRM_MAX, SEND_MAX};
use clickhouse::{Client, Row};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest wait for an answer about blocks; the table has one row per start.
const READ_MAX: Duration = Duration::from_secs(30);

/// A block of epochs as one host claims it.
#[derive(Clone, Debug, PartialEq, Eq, Row, Serialize, Deserialize)]
pub struct EpochBlock {
    /// Its first epoch.
    pub first: u64,
    /// What it is for: a run, or the digest of a replayed capture.
    pub identity: String,
    /// The host's name, for people.
    pub host: String,
    /// Random, one for each reservation.
    pub owner: String,
    /// When it was claimed, Unix nanoseconds.
    pub reserved_at: i64,
}

/// The shared journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpochBlocksError {
    /// The store did not answer as it should.
    #[error("cannot {action} in the store")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The client's error.
        #[source]
        source: clickhouse::error::Error,
    },
    /// The store did not answer.
    #[error("the store did not {action} within {} s", READ_MAX.as_secs())]
    TimedOut {
        /// What was tried.
        action: &'static str,
    },
}

/// The blocks in the store.
#[derive(Clone)]
pub struct EpochBlocks {
    client: Client,
}

impl std::fmt::Debug for EpochBlocks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("EpochBlocks")
    }
}

impl EpochBlocks {
    /// The blocks behind a client of [`super::StoreAddress::client`]; the schema must have been applied.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The first epoch of the greatest block that anyone claimed.
    ///
    /// # Errors
    /// [`EpochBlocksError`].
    pub async fn greatest(&self) -> Result<Option<u64>, EpochBlocksError> {
        let query = self.client.query("SELECT count(), max(first) FROM epoch_blocks").fetch_one::<(u64, u64)>();
        let (rows, greatest) = in_time("read the epoch blocks", query).await?;
        Ok((rows > 0).then_some(greatest))
    }

    /// The first epoch of the block that an identity has to itself; of several the least.
    ///
    /// # Errors
    /// [`EpochBlocksError`].
    pub async fn of_identity(&self, identity: &str) -> Result<Option<u64>, EpochBlocksError> {
        let query = "SELECT first FROM epoch_blocks GROUP BY first \
                     HAVING uniqExact(identity) = 1 AND any(identity) = ? ORDER BY first LIMIT 1";
        in_time("read the epoch blocks", self.client.query(query).bind(identity).fetch_optional()).await
    }

    /// Claims a block, and gives all claims of it that the server took: none if one was lost, more than one if the table
    /// does not deduplicate.
    ///
    /// # Errors
    /// [`EpochBlocksError`]; the outcome is unknown then.
    pub async fn claim(&self, block: &EpochBlock) -> Result<Vec<EpochBlock>, EpochBlocksError> {
        let action = "claim an epoch block";
        let claiming = async {
            let mut insert = self.client.insert::<EpochBlock>("epoch_blocks").await?;
            insert = insert.with_timeouts(Some(SEND_MAX), Some(CONFIRM_MAX)).with_setting("insert_deduplicate", "1");
            insert = insert.with_setting("insert_deduplication_token", format!("epoch-block-{}", block.first));
            insert.write(block).await?;
            insert.end().await
        };
        claiming.await.map_err(|source| EpochBlocksError::Store { action, source })?;
        let query = self.client.query("SELECT ?fields FROM epoch_blocks WHERE first = ?").bind(block.first);
        in_time("read the epoch blocks", query.fetch_all()).await
    }
}

async fn in_time<T>(
    action: &'static str,
    answer: impl Future<Output = Result<T, clickhouse::error::Error>>,
) -> Result<T, EpochBlocksError> {
    let answer = tokio::time::timeout(READ_MAX, answer).await.map_err(|_| EpochBlocksError::TimedOut { action })?;
    answer.map_err(|source| EpochBlocksError::Store { action, source })
}
