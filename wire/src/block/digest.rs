//! Digests: what both sides compute from a book's levels, to find out whether they hold the same.
//!
//! Never: a byte of the digest that a snapshot of the same book would not carry.

use super::{
    Cursor, DigestBlock,
    book::{Course, put_levels},
    get_version, put_scale, put_version,
};
use crate::{
    bounds::LEVELS_MAX,
    error::{DecodeError, EncodeError},
    varint::{Reader, put_count, put_varint},
};
use market::{Level, Scale, Side};

/// Levels that are written before they are hashed, so that a deep book needs no buffer of its size.
const LEVELS_A_TURN: usize = 64;

/// CRC-32 (IEEE) over a book's levels as a snapshot block writes them: the scale, the number of bids, the number of
/// asks, the bids, the asks, all best first. Version, feed, age and horizon are not in it.
///
/// # Errors
/// [`EncodeError`] if no snapshot could carry the levels: too many, or not best first.
pub fn digest_of(
    scale: Scale,
    bids: impl ExactSizeIterator<Item = Level>,
    asks: impl ExactSizeIterator<Item = Level>,
) -> Result<u32, EncodeError> {
    let mut hasher = crc32fast::Hasher::new();
    let mut written = Vec::new();
    put_scale(&mut written, scale);
    put_count(&mut written, bids.len(), LEVELS_MAX)?;
    put_count(&mut written, asks.len(), LEVELS_MAX)?;
    let mut cursor = Cursor::default();
    add_side(&mut hasher, &mut written, &mut cursor, Course::of(Side::Bid), bids)?;
    add_side(&mut hasher, &mut written, &mut cursor, Course::of(Side::Ask), asks)?;
    hasher.update(&written);
    Ok(hasher.finalize())
}

fn add_side(
    hasher: &mut crc32fast::Hasher,
    written: &mut Vec<u8>,
    cursor: &mut Cursor,
    course: Course,
    levels: impl Iterator<Item = Level>,
) -> Result<(), EncodeError> {
    let mut levels = levels.peekable();
    let mut first = true;
    while levels.peek().is_some() {
        put_levels(written, cursor, course, first, levels.by_ref().take(LEVELS_A_TURN))?;
        first = false;
        hasher.update(written);
        written.clear();
    }
    Ok(())
}

impl DigestBlock {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id));
        put_version(out, self.version);
        put_varint(out, u64::from(self.crc));
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { id: reader.u32()?, version: get_version(reader)?, crc: reader.u32()? })
    }
}
