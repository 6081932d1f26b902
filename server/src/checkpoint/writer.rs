//! Writes checkpoint files on a thread of its own: aside, durable, then in the place of the one before.
//!
//! Levels go to the file as they come, so that no second copy of the books is held; instruments, names and the header
//! follow at the end.
//!
//! Never: a file under the checkpoint's name that is not whole; a file without any book in the place of one with books.

use super::{
    CheckpointView, FILE, FILE_BYTES_MAX,
    codec::{self, BYTE_ORDER, FORMAT, Header, LAYOUT, LevelRecord, MAGIC, Record},
    part::{Part, Place},
    taker::empty_part,
};
use std::{
    fs::{self, File},
    io::{self, Seek, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

/// Name of the file while it is being written.
const ASIDE: &str = "checkpoint.tmp";

/// A checkpoint could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file.
    #[error("the checkpoint's file cannot be written")]
    Io(#[from] io::Error),
    /// There are more levels than a file may hold.
    #[error("the checkpoint would be larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
}

/// What goes round between taker and writer, and the writer's end.
type Started = (SyncSender<Part>, Receiver<Part>, JoinHandle<Result<(), WriteError>>);

/// Starts the thread; it ends with the pieces' sender and gives the outcome of its last file.
pub(super) fn start(data_dir: &Path, block: u64, view: Arc<CheckpointView>, parts: usize) -> io::Result<Started> {
    let (to_writer, taken) = sync_channel::<Part>(parts);
    let (back, free) = sync_channel(parts);
    for _ in 0..parts {
        back.try_send(empty_part()).map_err(io::Error::other)?;
    }
    let mut writer = Writer::new(data_dir, block, view);
    let body = move || {
        for part in taken {
            writer.take(&part);
            if back.try_send(part).is_err() {
                break;
            }
        }
        writer.last
    };
    let thread = thread::Builder::new().name("checkpoint".to_owned()).spawn(body)?;
    Ok((to_writer, free, thread))
}

/// The state of the writing.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    aside: PathBuf,
    block: u64,
    view: Arc<CheckpointView>,
    open: Option<Open>,
    /// The present piece's bytes.
    bytes: Vec<u8>,
    /// How the last file came out.
    last: Result<(), WriteError>,
}

/// A file under way.
#[derive(Debug)]
struct Open {
    file: File,
    begun: Instant,
    levels: u64,
    levels_crc: crc32fast::Hasher,
    instruments: Vec<u8>,
    count: u32,
    names: Vec<u8>,
    greatest_epoch: u64,
}

/// A file that is whole and durable, but still aside.
#[derive(Debug)]
pub(super) struct Whole {
    begun: Instant,
    bytes: u64,
    instruments: u32,
    written_ns: u64,
}

impl Writer {
    pub(super) fn new(data_dir: &Path, block: u64, view: Arc<CheckpointView>) -> Self {
        let (path, aside) = (data_dir.join(FILE), data_dir.join(ASIDE));
        Self { path, aside, block, view, open: None, bytes: Vec::new(), last: Ok(()) }
    }

    /// Takes the next piece; after the last one of a round the file is in its place, or it is known why not.
    pub(super) fn take(&mut self, part: &Part) {
        let Some(place) = part.place else { return };
        let outcome = self.add(part, place).and_then(|()| if place.last { self.finish(place) } else { Ok(()) });
        if let Err(error) = outcome {
            tracing::error!(%error, path = %self.path.display(), "a checkpoint failed; the one before stays");
            self.view.failures.fetch_add(1, Relaxed);
            self.open = None;
            if fs::remove_file(&self.aside).is_err() {
                tracing::debug!("nothing aside to remove");
            }
            self.last = Err(error);
        }
        if place.last {
            self.view.writing.store(false, Relaxed);
        }
    }

    /// Writes a piece aside. Pieces of a round that has failed are passed over.
    pub(super) fn add(&mut self, part: &Part, place: Place) -> Result<(), WriteError> {
        if place.first {
            self.last = Ok(());
            self.open = Some(Open::create(&self.aside)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        open.add(part, &mut self.bytes)
    }

    fn finish(&mut self, place: Place) -> Result<(), WriteError> {
        match self.complete(place)? {
            Some(whole) => self.publish(&whole),
            None => Ok(()),
        }
    }

    /// Makes the file whole and durable, still aside; none if there is no book to be kept.
    pub(super) fn complete(&mut self, place: Place) -> Result<Option<Whole>, WriteError> {
        let Some(open) = self.open.take() else { return Ok(None) };
        if open.count == 0 {
            fs::remove_file(&self.aside)?;
            return Ok(None);
        }
        open.complete(self.block, place.now_ns).map(Some)
    }

    /// Puts the file in its place.
    fn publish(&mut self, whole: &Whole) -> Result<(), WriteError> {
        fs::rename(&self.aside, &self.path)?;
        if let Some(directory) = self.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        let duration_ms = u64::try_from(whole.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(bytes = whole.bytes, instruments = whole.instruments, duration_ms, "a checkpoint was written");
        let view = &self.view;
        view.bytes.store(whole.bytes, Relaxed);
        view.instruments.store(u64::from(whole.instruments), Relaxed);
        view.duration_ms.store(duration_ms, Relaxed);
        view.written_ns.store(whole.written_ns, Relaxed);
        view.written.fetch_add(1, Relaxed);
        Ok(())
    }
}

impl Open {
    /// Begins a file, with room for its header.
    fn create(aside: &Path) -> io::Result<Self> {
        let mut file = File::options().create(true).write(true).truncate(true).open(aside)?;
        file.write_all(&[0; Header::BYTES])?;
        Ok(Self {
            file,
            begun: Instant::now(),
            levels: 0,
            levels_crc: crc32fast::Hasher::new(),
            instruments: Vec::new(),
            count: 0,
            names: Vec::new(),
            greatest_epoch: 0,
        })
    }

    fn add(&mut self, part: &Part, bytes: &mut Vec<u8>) -> Result<(), WriteError> {
        let greatest = part.instruments.iter().map(|record| record.epoch).max().unwrap_or(0);
        self.greatest_epoch = self.greatest_epoch.max(greatest);
        self.levels = self.levels.saturating_add(u64::try_from(part.levels.len()).unwrap_or(u64::MAX));
        self.count = self.count.saturating_add(u32::try_from(part.instruments.len()).unwrap_or(u32::MAX));
        codec::encode(&part.instruments, &mut self.instruments)?;
        self.names.extend_from_slice(&part.names);
        if self.bytes() > FILE_BYTES_MAX {
            return Err(WriteError::TooLarge);
        }
        bytes.clear();
        codec::encode(&part.levels, bytes)?;
        self.levels_crc.update(bytes);
        self.file.write_all(bytes)?;
        Ok(())
    }

    /// Size of the file once it is whole.
    fn bytes(&self) -> u64 {
        let size = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let rest = size(Header::BYTES + self.instruments.len() + self.names.len());
        self.levels.saturating_mul(size(LevelRecord::BYTES)).saturating_add(rest)
    }

    fn complete(mut self, block: u64, written_ns: u64) -> Result<Whole, WriteError> {
        let bytes = self.bytes();
        let header = Header {
            magic: MAGIC,
            byte_order: BYTE_ORDER,
            layout: LAYOUT,
            format: FORMAT,
            instruments: self.count,
            levels: self.levels,
            name_bytes: u64::try_from(self.names.len()).unwrap_or(u64::MAX),
            block,
            greatest_epoch: self.greatest_epoch,
            written_ns,
            levels_crc: self.levels_crc.finalize(),
            instruments_crc: crc32fast::hash(&self.instruments),
            names_crc: crc32fast::hash(&self.names),
            header_crc: 0,
        };
        self.file.write_all(&self.instruments)?;
        self.file.write_all(&self.names)?;
        self.file.rewind()?;
        self.file.write_all(&sealed(header)?)?;
        self.file.sync_all()?;
        Ok(Whole { begun: self.begun, bytes, instruments: self.count, written_ns })
    }
}

/// A header's bytes with their checksum.
pub(super) fn sealed(header: Header) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    codec::encode(&[header], &mut bytes)?;
    let crc = crc32fast::hash(bytes.split_last_chunk::<4>().map_or(&[], |(before, _)| before));
    bytes.clear();
    codec::encode(&[Header { header_crc: crc, ..header }], &mut bytes)?;
    Ok(bytes)
}
