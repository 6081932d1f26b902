//! The epoch journal: no epoch is shown that was not reserved durably before, so that none is ever used twice.
//!
//! Epochs are reserved in blocks, one block per start of a live run and one per identity of a replayed capture; within
//! its block a stream counts on by itself. A capture keeps its block, so that a replay of it is idempotent.
//!
//! A block is reserved in two places: first in a file of the data directory, then, where there is a store, in its table
//! of blocks, which all hosts share. Each of them alone keeps blocks apart: the file when the table was lost, the table
//! when the directory was.
//!
//! Never: an epoch handed out before its block is in both; two hosts on one block, but for the replay of one capture.

mod file;
#[cfg(test)]
mod tests;

use crate::exit::Exit;
use connectors::{
    clickhouse::{EpochBlock, EpochBlocks, EpochBlocksError},
    halt,
};
use file::{JournalFile, Record};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Epochs of one block: a stream that restarts every second uses that many in twelve days.
pub const BLOCK: u64 = 1 << 20;

/// The journal's file in a data directory.
pub const FILE: &str = "epochs.jsonl";

/// Where the first block of all begins.
pub const FIRST_BLOCK: u64 = 1;

/// Blocks that are tried in one reservation. Each one lost means that another host got it in the same moment, so more
/// than there are hosts are not needed.
const ATTEMPTS_MAX: usize = 256;

/// Identity of the blocks of live runs, no two of which share one.
const RUN: &str = "run";

/// The journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// The file cannot be read or written durably.
    #[error("epoch journal {path}: cannot be kept")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line, not the last one, is no record.
    #[error("epoch journal {path}, line {line}: no record; restore the file, or remove it together with the store")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// The store's table of blocks.
    #[error("the epochs that hosts share cannot be reserved")]
    Shared(#[from] EpochBlocksError),
    /// Every block that was tried went to another host.
    #[error("{ATTEMPTS_MAX} blocks of epochs went to other hosts, one after the other; start again")]
    Contended,
    /// There are no epochs above what was used.
    #[error("no block of epochs is left above {least}; the store or the journal holds an absurd epoch")]
    Exhausted {
        /// Where the block would have to begin.
        least: u64,
    },
    /// The wait for other processes was broken off.
    #[error("the wait for the epoch journal was broken off")]
    Turn(#[source] tokio::task::JoinError),
}

impl EpochError {
    /// What the process ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Io { .. } | Self::Damaged { .. } => Exit::Input,
            Self::Shared(_) | Self::Contended | Self::Exhausted { .. } => Exit::Store,
            Self::Turn(_) => Exit::Internal,
        }
    }
}

/// The journal of a data directory and, where there is a store, of all hosts. Processes that share the directory take
/// turns.
#[derive(Debug)]
pub struct EpochJournal {
    file: JournalFile,
    shared: Option<EpochBlocks>,
}

impl EpochJournal {
    /// Opens, or begins, the journal of a data directory.
    ///
    /// # Errors
    /// [`EpochError`]. A last line that a crash cut short is no error: its block was never used.
    pub fn open(data_dir: &Path) -> Result<Self, EpochError> {
        Ok(Self { file: JournalFile::open(data_dir)?, shared: None })
    }

    /// The last epoch of the last block that is noted; nothing in an empty journal.
    ///
    /// # Errors
    /// [`EpochError`].
    pub fn last_epoch(&self) -> Result<Option<u64>, EpochError> {
        let first = self.file.read()?.into_iter().map(|record| record.first).max();
        Ok(first.map(|first| first.saturating_add(BLOCK - 1)))
    }

    /// The same journal, shared with all hosts that write to a store.
    #[must_use]
    pub fn shared(self, blocks: EpochBlocks) -> Self {
        Self { shared: Some(blocks), ..self }
    }

    /// Reserves a new block for a live run and gives its first epoch. It is `least` or later, and above every block
    /// before: `least` is one more than the greatest epoch of the store and of the checkpoint.
    ///
    /// # Errors
    /// [`EpochError`]; what was reserved by then is never handed out.
    pub async fn next(&self, least: u64) -> Result<u64, EpochError> {
        let _turn = self.file.turn().await?;
        self.reserve(&mut self.file.read()?, RUN, least).await
    }

    /// The first epoch of the identity's block, reserved now, at `least` or later, if no host has one for it.
    ///
    /// # Errors
    /// [`EpochError`]; what was reserved by then is handed out for this identity only.
    pub async fn of_identity(&self, identity: &str, least: u64) -> Result<u64, EpochError> {
        let _turn = self.file.turn().await?;
        let mut records = self.file.read()?;
        // The last one: blocks before it went to another host.
        let noted = records.iter().rev().find(|record| record.identity == identity).map(|record| record.first);
        if let Some(first) = self.agreed(&mut records, identity, noted).await? {
            return Ok(first);
        }
        if let Some(first) = noted
            && self.claim(first, identity).await?
        {
            return Ok(first);
        }
        let first = self.reserve(&mut records, identity, least).await?;
        // Another host may have reserved one for it meanwhile; the lesser is everyone's from now on.
        Ok(self.agreed(&mut records, identity, Some(first)).await?.unwrap_or(first))
    }

    /// The block that the hosts have for an identity, noted here too.
    async fn agreed(
        &self,
        records: &mut Vec<Record>,
        identity: &str,
        noted: Option<u64>,
    ) -> Result<Option<u64>, EpochError> {
        let Some(blocks) = &self.shared else { return Ok(None) };
        let agreed = blocks.of_identity(identity).await?;
        if let Some(first) = agreed.filter(|first| noted != Some(*first)) {
            self.file.note(records, identity, first)?;
        }
        Ok(agreed)
    }

    /// Takes the next free block: the file first, then the table. A block that another host got in the same moment
    /// stays noted, and the next one is tried.
    async fn reserve(&self, records: &mut Vec<Record>, identity: &str, least: u64) -> Result<u64, EpochError> {
        for _ in 0..ATTEMPTS_MAX {
            let greatest = match &self.shared {
                Some(blocks) => blocks.greatest().await?,
                None => None,
            };
            let first = free_block(records, greatest, least)?;
            self.file.note(records, identity, first)?;
            halt::point("epoch-written");
            if self.claim(first, identity).await? {
                return Ok(first);
            }
            tracing::info!(first, "another host has this block of epochs; the next one is tried");
        }
        Err(EpochError::Contended)
    }

    /// Claims a block in the table; whether it is ours. Whoever finds another's claim beside his own goes on, even if
    /// that one came later: nobody can know whether the other has read the table already and gone to work.
    async fn claim(&self, first: u64, identity: &str) -> Result<bool, EpochError> {
        let Some(blocks) = &self.shared else { return Ok(true) };
        let owner = format!("{:032x}", rand::random::<u128>());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let block = EpochBlock {
            first,
            identity: identity.to_owned(),
            host: host_name(),
            owner,
            reserved_at: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        };
        let claims = blocks.claim(&block).await?;
        let ours = |claim: &EpochBlock| match identity {
            RUN => claim.owner == block.owner,
            capture => claim.identity == capture,
        };
        Ok(!claims.is_empty() && claims.iter().all(ours))
    }
}

/// The first epoch of a free block. Blocks begin at 1 and then every [`BLOCK`], on all hosts alike, so that two of them
/// are the same or apart.
fn free_block(records: &[Record], greatest: Option<u64>, least: u64) -> Result<u64, EpochError> {
    let used = records.iter().map(|record| record.first).chain(greatest).max();
    let above = used.map_or(1, |first| first.saturating_add(BLOCK)).max(least);
    let blocks = above.saturating_sub(1).div_ceil(BLOCK);
    let first = blocks.checked_mul(BLOCK).and_then(|epochs| epochs.checked_add(1));
    let first = first.filter(|first| first.checked_add(BLOCK).is_some());
    first.ok_or(EpochError::Exhausted { least: above })
}

/// This host's name, for whoever reads the table; empty where the system does not tell.
pub(crate) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
