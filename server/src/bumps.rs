//! The journal of bumps: a new epoch of a stream that has ids of its venue's is noted here, durably, before anybody is
//! shown it. Such a stream goes on in its epoch over a start, so a start must know of an epoch that neither store nor
//! checkpoint had yet when the process died.
//!
//! Streams without ids are not noted: each start opens them in an epoch above all.
//!
//! Never: an epoch shown that is not on disk; a line for a stream in epoch 0, where all begin.

use foldhash::{HashMap, HashMapExt};
use market::{Directory, SymbolId};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    sync::Arc,
};

/// The file in the data directory.
const FILE: &str = "bumps.jsonl";

#[derive(Serialize, Deserialize)]
struct Line {
    instrument: Box<str>,
    epoch: u64,
}

/// The journal, open for more.
#[derive(Debug)]
pub struct Bumps {
    file: File,
    directory: Arc<Directory>,
    noted: HashMap<SymbolId, u64>,
}

impl Bumps {
    /// Opens, or begins, the journal of a data directory; gives the greatest noted epoch of each instrument, by
    /// `venue/symbol`. One line for each is left in the file, which is written aside, made durable and renamed.
    ///
    /// # Errors
    /// When it cannot be read or written. A last line that a crash cut short was never shown; any other is an error.
    pub fn open(data_dir: &Path, directory: Arc<Directory>) -> io::Result<(Self, HashMap<Box<str>, u64>)> {
        let path = data_dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut greatest: HashMap<Box<str>, u64> = HashMap::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            match serde_json::from_str::<Line>(line) {
                Ok(Line { instrument, epoch }) => {
                    let noted = greatest.entry(instrument).or_default();
                    *noted = epoch.max(*noted);
                }
                Err(_) if lines.peek().is_none() && !text.ends_with('\n') => {}
                Err(error) => return Err(error.into()),
            }
        }
        let aside = data_dir.join(format!("{FILE}.new"));
        let mut file = File::create(&aside)?;
        let mut names: Vec<_> = greatest.iter().collect();
        names.sort_unstable();
        for (instrument, epoch) in names {
            write(&mut file, instrument, *epoch)?;
        }
        file.sync_all()?;
        fs::rename(&aside, &path)?;
        File::open(data_dir)?.sync_all()?;
        Ok((Self { file, directory, noted: HashMap::new() }, greatest))
    }

    /// Notes where streams stand now, those that have moved since; returns when that is durable.
    ///
    /// # Errors
    /// When it is not: then nobody may be shown it.
    pub fn note(&mut self, shown: impl Iterator<Item = (SymbolId, u64)>) -> io::Result<()> {
        let mut written = false;
        for (symbol, epoch) in shown.filter(|(_, epoch)| *epoch > 0) {
            if self.noted.get(&symbol).is_some_and(|noted| *noted >= epoch) {
                continue;
            }
            self.noted.insert(symbol, epoch);
            let instrument = self.directory.get(symbol).filter(|instrument| instrument.venue.numbers_updates());
            if let Some(instrument) = instrument {
                write(&mut self.file, &instrument.text, epoch)?;
                written = true;
            }
        }
        if written { self.file.sync_data() } else { Ok(()) }
    }
}

/// Makes the journal of a restored data directory: each instrument, by `venue/symbol`, was shown in `epoch` for all that
/// anybody knows, so that its stream opens one above it.
///
/// # Errors
/// When it cannot be written.
pub fn write_anew(data_dir: &Path, instruments: impl Iterator<Item = Box<str>>, epoch: u64) -> io::Result<()> {
    let mut file = File::create(data_dir.join(FILE))?;
    for instrument in instruments {
        write(&mut file, &instrument, epoch)?;
    }
    file.sync_all()
}

fn write(file: &mut File, instrument: &str, epoch: u64) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Line { instrument: instrument.into(), epoch })?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::Venue;

    #[test]
    fn the_greatest_epoch_of_each_numbered_stream_outlives_the_process() {
        let data = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::default());
        let numbered = directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap().id;
        let other = directory.intern(Venue::KrakenSpot, "BTC/USDT", "BTC", "USDT").unwrap().id;
        let (mut bumps, before) = Bumps::open(data.path(), Arc::clone(&directory)).unwrap();
        assert!(before.is_empty());
        for epoch in [0, 7, 7, 9] {
            bumps.note([(numbered, epoch), (other, epoch)].into_iter()).unwrap();
        }
        drop(bumps);
        let read = || fs::read_to_string(data.path().join(FILE)).unwrap();
        assert_eq!(read().lines().count(), 2, "{}", read());
        let torn = format!("{}{{\"instrument\":\"bin", read());
        fs::write(data.path().join(FILE), torn).unwrap();
        let (_, after) = Bumps::open(data.path(), Arc::clone(&directory)).unwrap();
        assert_eq!(after.into_iter().collect::<Vec<_>>(), [("binance_spot/BTCUSDT".into(), 9)]);
        assert_eq!(read().lines().count(), 1);
        fs::write(data.path().join(FILE), "{}\n").unwrap();
        assert!(Bumps::open(data.path(), directory).is_err(), "a damaged line is no lost one");
    }
}
