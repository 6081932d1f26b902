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

/// The journal of a data directory. Processes that share the directory take turns.
#[derive(Debug)]
pub struct EpochJournal {
    path: PathBuf,
}

impl EpochJournal {
    /// Opens, or begins, the journal of a data directory.
    ///
    /// # Errors
    /// [`EpochError`]. A last line that a crash cut short is no error: its block was never used.
    pub fn open(data_dir: &Path) -> Result<Self, EpochError> {
        let journal = Self { path: data_dir.join("epochs.jsonl") };
        fs::create_dir_all(data_dir).map_err(journal.failed())?;
        journal.read()?;
        Ok(journal)
    }

    /// The first epoch of the identity's block, reserved now if it has none. The block begins at `least` or later.
    ///
    /// # Errors
    /// [`EpochError`]; nothing is reserved then.
    pub fn of_identity(&self, identity: &str, least: u64) -> Result<u64, EpochError> {
        let _turn = self.turn()?;
        let records = self.read()?;
        match records.iter().find(|record| record.identity == identity) {
            Some(record) => Ok(record.first),
            None => self.reserve(records, identity, least),
        }
    }

    /// Reserves a new block for a live run. It begins at `least` or later, and above every block before.
    ///
    /// # Errors
    /// [`EpochError`]; nothing is reserved then.
    pub fn next(&self, least: u64) -> Result<u64, EpochError> {
        let _turn = self.turn()?;
        self.reserve(self.read()?, "run", least)
    }

    fn failed(&self) -> impl Fn(io::Error) -> EpochError {
        let path = self.path.clone();
        move |source| EpochError::Io { path: path.clone(), source }
    }

    /// Waits for other processes; the turn ends with the file.
    fn turn(&self) -> Result<File, EpochError> {
        let lock = OpenOptions::new().create(true).append(true).open(self.path.with_extension("lock"));
        let lock = lock.map_err(self.failed())?;
        lock.lock().map_err(self.failed())?;
        Ok(lock)
    }

    fn read(&self) -> Result<Vec<Record>, EpochError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed()(error)),
        };
        let lines: Vec<String> = BufReader::new(file).lines().collect::<Result<_, _>>().map_err(self.failed())?;
        let mut records = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            match serde_json::from_str(line) {
                Ok(record) => records.push(record),
                Err(_) if at + 1 == lines.len() => {}
                Err(_) => return Err(EpochError::Damaged { path: self.path.clone(), line: at + 1 }),
            }
        }
        Ok(records)
    }

    fn reserve(&self, mut records: Vec<Record>, identity: &str, least: u64) -> Result<u64, EpochError> {
        let free = records.iter().map(|record| record.first.saturating_add(BLOCK)).max().unwrap_or(1);
        let first = free.max(least);
        records.push(Record { identity: identity.to_owned(), first });
        self.write(&records).map_err(self.failed())?;
        Ok(first)
    }

    /// Writes the whole journal aside and renames it; small, and never half.
    fn write(&self, records: &[Record]) -> io::Result<()> {
        let aside = self.path.with_extension("tmp");
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&aside)?;
        for record in records {
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
        let journal = EpochJournal::open(dir.path()).unwrap();
        let run = journal.next(0).unwrap();
        let capture = journal.of_identity("digest", 0).unwrap();
        let reopened = EpochJournal::open(dir.path()).unwrap();
        assert_eq!(reopened.of_identity("digest", 0).unwrap(), capture);
        let again = reopened.next(capture + 7 * BLOCK).unwrap();
        assert!(run + BLOCK <= capture && capture + 7 * BLOCK <= again);
        assert!(EpochJournal::open(dir.path()).unwrap().next(0).unwrap() >= again + BLOCK);
    }

    #[test]
    fn processes_that_share_a_directory_never_get_the_same_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let reserve = || (0..20).map(|_| EpochJournal::open(path).unwrap().next(0).unwrap()).collect::<Vec<_>>();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(reserve)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] + BLOCK <= pair[1]), "{all:?}");
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
