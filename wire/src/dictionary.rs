//! The dictionary of a server generation: what instrument and pair numbers mean.
//!
//! Never: a number that changes its meaning; additions only, each list dense from its first number.

use crate::{
    bounds::{ASSET_BYTES_MAX, DICTIONARY_ENTRIES_MAX, SYMBOL_BYTES_MAX, VENUE_BYTES_MAX},
    error::{DecodeError, EncodeError},
    varint::{Reader, put_count, put_text, put_varint},
};
use market::Venue;

/// Venue, symbol, two assets and a pair number have at least a byte each.
const INSTRUMENT_BYTES_MIN: usize = 5;

/// Two assets have at least a byte each.
const PAIR_BYTES_MIN: usize = 2;

/// New entries of the dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dictionary {
    /// The generation that the numbers belong to.
    pub generation: u64,
    /// New instruments, their ids consecutive.
    pub instruments: Vec<DictionaryInstrument>,
    /// New pairs, their ids consecutive.
    pub pairs: Vec<DictionaryPair>,
}

/// One instrument of the dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryInstrument {
    /// Its number.
    pub id: u32,
    /// Where it trades; sent by name.
    pub venue: Venue,
    /// The venue's own spelling.
    pub symbol: Box<str>,
    /// Base asset, the venue's spelling.
    pub asset_0: Box<str>,
    /// Quote asset, the venue's spelling.
    pub asset_1: Box<str>,
    /// Number of its pair.
    pub pair: u32,
}

/// One pair of the dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryPair {
    /// Its number.
    pub id: u32,
    /// Base asset, aliases resolved.
    pub asset_0: Box<str>,
    /// Quote asset, aliases resolved.
    pub asset_1: Box<str>,
}

impl DictionaryInstrument {
    /// `venue/symbol`, the id that people, patterns and the receiver use.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}/{}", self.venue, self.symbol)
    }
}

impl DictionaryPair {
    /// `asset_0/asset_1`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}/{}", self.asset_0, self.asset_1)
    }
}

impl Dictionary {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        put_varint(out, self.generation);
        put_ids(out, self.instruments.iter().map(|entry| entry.id))?;
        for entry in &self.instruments {
            put_text(out, entry.venue.name(), VENUE_BYTES_MAX)?;
            put_text(out, &entry.symbol, SYMBOL_BYTES_MAX)?;
            put_text(out, &entry.asset_0, ASSET_BYTES_MAX)?;
            put_text(out, &entry.asset_1, ASSET_BYTES_MAX)?;
            put_varint(out, u64::from(entry.pair));
        }
        put_ids(out, self.pairs.iter().map(|entry| entry.id))?;
        for entry in &self.pairs {
            put_text(out, &entry.asset_0, ASSET_BYTES_MAX)?;
            put_text(out, &entry.asset_1, ASSET_BYTES_MAX)?;
        }
        Ok(())
    }

    pub(crate) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let generation = reader.varint()?;
        let instruments = list(reader, INSTRUMENT_BYTES_MIN, |reader, id| {
            Ok(DictionaryInstrument {
                id,
                venue: venue(&reader.text(VENUE_BYTES_MAX)?)?,
                symbol: reader.text(SYMBOL_BYTES_MAX)?,
                asset_0: reader.text(ASSET_BYTES_MAX)?,
                asset_1: reader.text(ASSET_BYTES_MAX)?,
                pair: reader.u32()?,
            })
        })?;
        let pairs = list(reader, PAIR_BYTES_MIN, |reader, id| {
            Ok(DictionaryPair { id, asset_0: reader.text(ASSET_BYTES_MAX)?, asset_1: reader.text(ASSET_BYTES_MAX)? })
        })?;
        Ok(Self { generation, instruments, pairs })
    }
}

/// The venue of an exact name; aliases that a person may type are not canonical here.
fn venue(name: &str) -> Result<Venue, DecodeError> {
    Venue::ALL.into_iter().find(|venue| venue.name() == name).ok_or(DecodeError::UnknownVenue)
}

fn put_ids(out: &mut Vec<u8>, ids: impl ExactSizeIterator<Item = u32> + Clone) -> Result<(), EncodeError> {
    put_count(out, ids.len(), DICTIONARY_ENTRIES_MAX)?;
    let Some(first) = ids.clone().next() else { return Ok(()) };
    put_varint(out, u64::from(first));
    let dense = ids.zip((0_u64..).map(|step| u64::from(first) + step)).all(|(id, want)| u64::from(id) == want);
    if dense { Ok(()) } else { Err(EncodeError::NotDense) }
}

fn list<T>(
    reader: &mut Reader<'_>,
    entry_bytes_min: usize,
    mut entry: impl FnMut(&mut Reader<'_>, u32) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.count(DICTIONARY_ENTRIES_MAX, entry_bytes_min)?;
    let mut entries = Vec::with_capacity(count);
    if count == 0 {
        return Ok(entries);
    }
    let first = reader.u32()?;
    for step in 0..count {
        let step = u32::try_from(step).map_err(|_| DecodeError::NumberRange)?;
        let id = first.checked_add(step).ok_or(DecodeError::NumberRange)?;
        entries.push(entry(reader, id)?);
    }
    Ok(entries)
}
