//! Reads a checkpoint file: checks the header, then every section's checksum, then what the records say.
//!
//! Never: a panic, a partial result, or an allocation that the file's real length does not cover.

use super::{
    FILE_BYTES_MAX,
    codec::{self, BYTE_ORDER, FORMAT, Header, InstrumentRecord, LAYOUT, LevelRecord, MAGIC, Record, Records},
    is_kept,
};
use crate::{epochs::BLOCK, restore::RestoredInstrument};
use foldhash::{HashSet, HashSetExt};
use market::{Restored, RestoredTick, Scale, Side, TickChange, U256, Venue, Version, scale::STEP_EXPONENT_LIMIT};
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// What a checkpoint file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Instruments with their books.
    pub instruments: Vec<RestoredInstrument>,
    /// First epoch of the block of the run that wrote it.
    pub block: u64,
    /// The greatest epoch of all instruments.
    pub greatest_epoch: u64,
    /// When it was written, Unix nanoseconds.
    pub written_ns: u64,
}

impl Checkpoint {
    /// The least epoch that a new block may begin at: above every epoch in the file, and above the block of the run
    /// that wrote it, which may have shown more of its block afterwards.
    #[must_use]
    pub fn epoch_least(&self) -> u64 {
        self.greatest_epoch.saturating_add(1).max(self.block.saturating_add(BLOCK))
    }
}

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The header.
    Header,
    /// The levels.
    Levels,
    /// The instruments.
    Instruments,
    /// Their names.
    Names,
}

/// What is wrong with records although their checksums match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A venue that is not known or not kept.
    Venue,
    /// A name that is no text.
    Name,
    /// An instrument that is there twice.
    Twice,
    /// A step out of range.
    Scale,
    /// A side that is not ordered from best to worst.
    Order,
    /// A level without quantity.
    Quantity,
    /// An epoch above the greatest.
    Epoch,
    /// Counts that do not add up.
    Counts,
    /// A byte that is to be zero.
    Reserved,
}

/// Why a checkpoint file is not used.
#[derive(Debug, thiserror::Error)]
pub enum Ignored {
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// It is larger than any that is written.
    #[error("it has {bytes} bytes, more than {FILE_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// It is shorter or longer than its header says, or than a header.
    #[error("it has {bytes} bytes, not as many as it should")]
    Length {
        /// Its size.
        bytes: u64,
    },
    /// It is no checkpoint.
    #[error("it does not begin as a checkpoint")]
    Magic,
    /// It is from a machine of the other byte order.
    #[error("it was written by a machine of another byte order")]
    ByteOrder,
    /// It is of another format.
    #[error("it has format {found}, this build reads {FORMAT}")]
    Format {
        /// Its format.
        found: u32,
    },
    /// Its records have another layout.
    #[error("its records are laid out differently")]
    Layout,
    /// A checksum does not match.
    #[error("a checksum does not match: {section:?}")]
    Checksum {
        /// Of this part.
        section: Section,
    },
    /// Its records make no sense.
    #[error("its records make no sense: {0:?}")]
    Content(Flaw),
}

impl Ignored {
    /// The reason as one word, for metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Io(_) => "io",
            Self::TooLarge { .. } => "too_large",
            Self::Length { .. } => "length",
            Self::Magic => "magic",
            Self::ByteOrder => "byte_order",
            Self::Format { .. } => "format",
            Self::Layout => "layout",
            Self::Checksum { .. } => "checksum",
            Self::Content(_) => "content",
        }
    }
}

/// Reads a file; none if there is none.
///
/// # Errors
/// [`Ignored`].
pub fn read(path: &Path) -> Result<Option<Checkpoint>, Ignored> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let bytes = file.metadata()?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(Ignored::TooLarge { bytes });
    }
    let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    file.take(FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut content)?;
    parse(&mut content).map(Some)
}

/// The checkpoint that a file's bytes hold.
///
/// # Errors
/// [`Ignored`].
pub fn parse(content: &mut [u8]) -> Result<Checkpoint, Ignored> {
    let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if bytes > FILE_BYTES_MAX {
        return Err(Ignored::TooLarge { bytes });
    }
    let (head, body) = content.split_at_mut_checked(Header::BYTES).ok_or(Ignored::Length { bytes })?;
    let header = header(head)?;
    let lengths = [
        header.levels.checked_mul(record_bytes::<LevelRecord>()),
        u64::from(header.instruments).checked_mul(record_bytes::<InstrumentRecord>()),
        Some(header.name_bytes),
    ];
    let total = lengths.iter().try_fold(record_bytes::<Header>(), |sum, part| sum.checked_add((*part)?));
    if total != Some(bytes) {
        return Err(Ignored::Length { bytes });
    }
    // Every part is now known to be no longer than what is there.
    let [levels, instruments, _] = lengths.map(|length| usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX));
    let (levels, body) = body.split_at_mut_checked(levels).ok_or(Ignored::Length { bytes })?;
    let (instruments, names) = body.split_at_mut_checked(instruments).ok_or(Ignored::Length { bytes })?;
    check(levels, header.levels_crc, Section::Levels)?;
    check(instruments, header.instruments_crc, Section::Instruments)?;
    check(names, header.names_crc, Section::Names)?;
    let mut cursor = Cursor { levels: codec::decode(levels), names, greatest_epoch: header.greatest_epoch };
    let instruments = cursor.instruments(codec::decode(instruments)).map_err(Ignored::Content)?;
    let Header { block, greatest_epoch, written_ns, .. } = header;
    Ok(Checkpoint { instruments, block, greatest_epoch, written_ns })
}

fn record_bytes<R: Record>() -> u64 {
    u64::try_from(R::BYTES).unwrap_or(u64::MAX)
}

fn check(bytes: &[u8], crc: u32, section: Section) -> Result<(), Ignored> {
    if crc32fast::hash(bytes) == crc { Ok(()) } else { Err(Ignored::Checksum { section }) }
}

/// The header, once what says how to read it is known to be ours.
fn header(bytes: &mut [u8]) -> Result<Header, Ignored> {
    let crc = crc32fast::hash(bytes.split_last_chunk::<4>().map_or(&[], |(before, _)| before));
    let Some(header) = codec::decode::<Header>(bytes).next() else { return Err(Ignored::Magic) };
    if header.magic != MAGIC {
        return Err(Ignored::Magic);
    }
    if header.byte_order == BYTE_ORDER.swap_bytes() {
        return Err(Ignored::ByteOrder);
    }
    // Magic and format stand at the same place in every format.
    if header.format != FORMAT {
        return Err(Ignored::Format { found: header.format });
    }
    if header.header_crc != crc {
        return Err(Ignored::Checksum { section: Section::Header });
    }
    if header.byte_order != BYTE_ORDER || header.layout != LAYOUT {
        return Err(Ignored::Layout);
    }
    Ok(header)
}

/// Where levels and names are read.
struct Cursor<'a> {
    levels: Records<'a, LevelRecord>,
    names: &'a [u8],
    greatest_epoch: u64,
}

impl Cursor<'_> {
    fn instruments(&mut self, records: Records<'_, InstrumentRecord>) -> Result<Vec<RestoredInstrument>, Flaw> {
        let mut known = HashSet::new();
        let mut instruments = Vec::new();
        for record in records {
            let instrument = self.instrument(&record)?;
            if !known.insert((instrument.venue, instrument.symbol.clone())) {
                return Err(Flaw::Twice);
            }
            instruments.push(instrument);
        }
        let all_used = self.names.is_empty() && self.levels.next().is_none();
        if all_used { Ok(instruments) } else { Err(Flaw::Counts) }
    }

    fn instrument(&mut self, record: &InstrumentRecord) -> Result<RestoredInstrument, Flaw> {
        let venue = Venue::ALL.get(usize::from(record.venue)).copied().filter(|venue| is_kept(*venue));
        let venue = venue.ok_or(Flaw::Venue)?;
        if record.reserved != [0; 7] {
            return Err(Flaw::Reserved);
        }
        if record.epoch > self.greatest_epoch {
            return Err(Flaw::Epoch);
        }
        let scale = Scale { price: record.price, quantity: record.quantity };
        let steps = -STEP_EXPONENT_LIMIT..=STEP_EXPONENT_LIMIT;
        if !steps.contains(&scale.price) || !steps.contains(&scale.quantity) {
            return Err(Flaw::Scale);
        }
        let version = Version::new(record.epoch, record.seq);
        let wanted = usize::try_from(u64::from(record.bids) + u64::from(record.asks)).unwrap_or(usize::MAX);
        let mut ticks = Vec::with_capacity(wanted.min(self.levels.size_hint().0));
        self.side(Side::Bid, record.bids, version, &mut ticks)?;
        self.side(Side::Ask, record.asks, version, &mut ticks)?;
        let heard_ns = record.heard_ns;
        Ok(RestoredInstrument {
            venue,
            symbol: self.name(record.symbol_bytes)?,
            asset_0: self.name(record.asset_0_bytes)?,
            asset_1: self.name(record.asset_1_bytes)?,
            restored: Restored { version, through: version, scale, ticks: Some(ticks), from_log: false, heard_ns },
        })
    }

    fn side(&mut self, side: Side, count: u32, version: Version, into: &mut Vec<RestoredTick>) -> Result<(), Flaw> {
        let mut before = None;
        for _ in 0..count {
            let level = self.levels.next().ok_or(Flaw::Counts)?;
            let (rank, quantity) = (side.rank(level.tick_index), U256::from_limbs(level.quantity));
            if before.replace(rank).is_some_and(|before| before <= rank) {
                return Err(Flaw::Order);
            }
            if quantity.is_zero() {
                return Err(Flaw::Quantity);
            }
            into.push(RestoredTick { tick: TickChange::at(side, level.tick_index, quantity), version });
        }
        Ok(())
    }

    fn name(&mut self, bytes: u16) -> Result<Box<str>, Flaw> {
        let (name, rest) = self.names.split_at_checked(usize::from(bytes)).ok_or(Flaw::Counts)?;
        self.names = rest;
        std::str::from_utf8(name).map(Box::from).map_err(|_| Flaw::Name)
    }
}
