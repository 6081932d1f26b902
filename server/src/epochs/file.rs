//! The journal's file: one JSON line per block, `epochs.jsonl` in the data directory.
//!
//! Never: a line changed or lost; half a file.

use super::EpochError;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

/// A block that was reserved here, or noted as someone else's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) identity: String,
    pub(super) first: u64,
}

/// The file; small, so it is read and written whole.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
}

impl JournalFile {
    pub(super) fn open(data_dir: &Path) -> Result<Self, EpochError> {
        let journal = Self { path: data_dir.join(super::FILE) };
        fs::create_dir_all(data_dir).map_err(journal.failed())?;
        journal.read()?;
        Ok(journal)
    }

    fn failed(&self) -> impl Fn(io::Error) -> EpochError + use<> {
        let path = self.path.clone();
        move |source| EpochError::Io { path: path.clone(), source }
    }

    /// Waits for other processes and tasks; the turn ends with the file. The wait may last as long as another's talk
    /// with the store, so it is not made on a thread of the runtime.
    pub(super) async fn turn(&self) -> Result<File, EpochError> {
        let (path, failed) = (self.path.with_extension("lock"), self.failed());
        let waiting = move || {
            let lock = OpenOptions::new().create(true).append(true).open(path).map_err(&failed)?;
            lock.lock().map_err(&failed)?;
            Ok(lock)
        };
        tokio::task::spawn_blocking(waiting).await.map_err(EpochError::Turn)?
    }

    pub(super) fn read(&self) -> Result<Vec<Record>, EpochError> {
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

    /// Adds a record; durable when it returns.
    pub(super) fn note(&self, records: &mut Vec<Record>, identity: &str, first: u64) -> Result<(), EpochError> {
        records.push(Record { identity: identity.to_owned(), first });
        self.write(records).map_err(self.failed())
    }

    /// Writes the whole journal aside and renames it.
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
