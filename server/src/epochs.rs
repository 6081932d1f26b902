//! The epoch journal: no epoch is shown that was not reserved durably before, so that none is ever used twice.
//!
//! Epochs are reserved in blocks, one block per start of a live run and one per identity of a replayed capture; within
//! its block a stream counts on by itself. A capture keeps its block, so that a replay of it is idempotent.
//!
//! Never: an epoch handed out before its block is on disk.

use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

/// Epochs of one block: a stream that restarts every second uses that many in twelve days.
pub const BLOCK: u64 = 1 << 20;

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
        source: io::Error,
    },
    /// A line, not the last one, is no record.
    #[error("epoch journal {path}, line {line}: no record; restore the file, or remove it together with the store")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    identity: String,
    first: u64,
}

/// The journal of a data directory.
#[derive(Debug)]
pub struct EpochJournal {
    path: PathBuf,
    records: Vec<Record>,
}

impl EpochJournal {
    /// Opens, or begins, the journal of a data directory.
    ///
    /// # Errors
    /// [`EpochError`]. A last line that a crash cut short is no error: its block was never used.
    pub fn open(data_dir: &Path) -> Result<Self, EpochError> {
        let path = data_dir.join("epochs.jsonl");
        let failed = |source| EpochError::Io { path: path.clone(), source };
        fs::create_dir_all(data_dir).map_err(failed)?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { path, records: Vec::new() }),
            Err(error) => return Err(failed(error)),
        };
        let lines: Vec<String> = BufReader::new(file).lines().collect::<Result<_, _>>().map_err(failed)?;
        let mut records = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            match serde_json::from_str(line) {
                Ok(record) => records.push(record),
                Err(_) if at + 1 == lines.len() => {}
                Err(_) => return Err(EpochError::Damaged { path, line: at + 1 }),
            }
        }
        Ok(Self { path, records })
    }

    /// The first epoch of the identity's block, reserved now if it has none. The block begins at `least` or later.
    ///
    /// # Errors
    /// [`EpochError::Io`]; nothing is reserved then.
    pub fn of_identity(&mut self, identity: &str, least: u64) -> Result<u64, EpochError> {
        match self.records.iter().find(|record| record.identity == identity) {
            Some(record) => Ok(record.first),
            None => self.reserve(identity, least),
        }
    }

    /// Reserves a new block for a live run. It begins at `least` or later, and above every block before.
    ///
    /// # Errors
    /// [`EpochError::Io`]; nothing is reserved then.
    pub fn next(&mut self, least: u64) -> Result<u64, EpochError> {
        self.reserve("run", least)
    }

    fn reserve(&mut self, identity: &str, least: u64) -> Result<u64, EpochError> {
        let free = self.records.iter().map(|record| record.first.saturating_add(BLOCK)).max().unwrap_or(1);
        let record = Record { identity: identity.to_owned(), first: free.max(least) };
        let first = record.first;
        self.records.push(record);
        match self.write() {
            Ok(()) => Ok(first),
            Err(source) => {
                self.records.pop();
                Err(EpochError::Io { path: self.path.clone(), source })
            }
        }
    }

    /// Writes the whole journal aside and renames it; small, and never half.
    fn write(&self) -> io::Result<()> {
        let aside = self.path.with_extension("tmp");
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&aside)?;
        for record in &self.records {
            serde_json::to_writer(&mut file, record)?;
            file.write_all(b"\n")?;
        }
        file.sync_all()?;
        fs::rename(&aside, &self.path)?;
        match self.path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_overlap_and_a_capture_keeps_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = EpochJournal::open(dir.path()).unwrap();
        let run = journal.next(0).unwrap();
        let capture = journal.of_identity("digest", 0).unwrap();
        let mut reopened = EpochJournal::open(dir.path()).unwrap();
        assert_eq!(reopened.of_identity("digest", 0).unwrap(), capture);
        let again = reopened.next(capture + 7 * BLOCK).unwrap();
        assert!(run + BLOCK <= capture && capture + 7 * BLOCK <= again);
        assert!(EpochJournal::open(dir.path()).unwrap().next(0).unwrap() >= again + BLOCK);
    }

    #[test]
    fn a_line_cut_short_was_never_used_but_a_damaged_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        EpochJournal::open(dir.path()).unwrap().next(0).unwrap();
        let path = dir.path().join("epochs.jsonl");
        let good = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{good}{{\"identi")).unwrap();
        assert!(EpochJournal::open(dir.path()).unwrap().next(0).unwrap() > BLOCK);
        fs::write(&path, format!("{{\"identi\n{good}")).unwrap();
        assert!(matches!(EpochJournal::open(dir.path()), Err(EpochError::Damaged { line: 1, .. })));
    }
}
