//! Book snapshots and deltas: levels as distances from the level before.
//!
//! Never: two levels at one price; a list out of its order.

use super::{Cursor, get_feed, get_scale, get_version, put_feed, put_scale, put_version};
use crate::{
    block::{BookDelta, BookSnapshot},
    bounds::{CHANGES_MAX, LEVELS_MAX},
    error::{DecodeError, EncodeError},
    varint::{Reader, put_count, put_u256, put_varint},
};
use market::{Level, LevelChange, Side, Version};

/// A price distance and a quantity's length have at least a byte each.
const LEVEL_BYTES_MIN: usize = 2;

/// Which way the prices of a list go.
#[derive(Clone, Copy)]
pub(super) enum Course {
    Rising,
    Falling,
}

impl Course {
    /// Best first.
    pub(super) const fn of(side: Side) -> Self {
        match side {
            Side::Bid => Self::Falling,
            Side::Ask => Self::Rising,
        }
    }

    fn distance(self, from: i64, to: i64) -> Option<u64> {
        let onward = match self {
            Self::Rising => to > from,
            Self::Falling => to < from,
        };
        onward.then(|| from.abs_diff(to))
    }

    fn step(self, from: i64, distance: u64) -> Option<i64> {
        if distance == 0 {
            return None;
        }
        match self {
            Self::Rising => from.checked_add_unsigned(distance),
            Self::Falling => from.checked_sub_unsigned(distance),
        }
    }
}

/// Writes levels; the first price is against the cursor alone if they begin their list.
pub(super) fn put_levels(
    out: &mut Vec<u8>,
    cursor: &mut Cursor,
    course: Course,
    mut first: bool,
    levels: impl Iterator<Item = Level>,
) -> Result<(), EncodeError> {
    for level in levels {
        if first {
            cursor.put(out, level.tick_index);
            first = false;
        } else {
            put_varint(out, course.distance(cursor.0, level.tick_index).ok_or(EncodeError::OutOfOrder)?);
            cursor.0 = level.tick_index;
        }
        put_u256(out, level.quantity);
    }
    Ok(())
}

fn get_levels(
    reader: &mut Reader<'_>,
    cursor: &mut Cursor,
    course: Course,
    count: usize,
    mut take: impl FnMut(Level) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for at in 0..count {
        let tick_index = if at == 0 {
            cursor.get(reader)?
        } else {
            cursor.0 = course.step(cursor.0, reader.varint()?).ok_or(DecodeError::OutOfOrder)?;
            cursor.0
        };
        take(Level { tick_index, quantity: reader.u256()? })?;
    }
    Ok(())
}

impl BookSnapshot {
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.bids.iter().chain(&self.asks).any(|level| level.quantity.is_zero()) {
            return Err(EncodeError::ZeroQuantity);
        }
        put_varint(out, u64::from(self.id));
        put_version(out, self.version);
        put_scale(out, self.scale);
        put_feed(out, self.feed);
        put_varint(out, self.age_ms);
        let [bid_horizon, ask_horizon] = self.horizon;
        out.push(u8::from(bid_horizon.is_some()) | (u8::from(ask_horizon.is_some()) << 1));
        put_count(out, self.bids.len(), LEVELS_MAX)?;
        put_count(out, self.asks.len(), LEVELS_MAX)?;
        let mut cursor = Cursor::default();
        put_levels(out, &mut cursor, Course::of(Side::Bid), true, self.bids.iter().copied())?;
        put_levels(out, &mut cursor, Course::of(Side::Ask), true, self.asks.iter().copied())?;
        for horizon in self.horizon.into_iter().flatten() {
            cursor.put(out, horizon);
        }
        Ok(())
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = reader.u32()?;
        let version = get_version(reader)?;
        let scale = get_scale(reader)?;
        let feed = get_feed(reader)?;
        let age_ms = reader.varint()?;
        let marks = reader.bits("horizon presence", 2)?;
        let bid_count = reader.count(LEVELS_MAX, LEVEL_BYTES_MIN)?;
        let ask_count = reader.count(LEVELS_MAX, LEVEL_BYTES_MIN)?;
        let mut cursor = Cursor::default();
        let mut side = |side, count| {
            let mut levels = Vec::with_capacity(count);
            get_levels(reader, &mut cursor, Course::of(side), count, |level| {
                if level.quantity.is_zero() {
                    return Err(DecodeError::ZeroQuantity);
                }
                levels.push(level);
                Ok(())
            })?;
            Ok(levels)
        };
        let bids = side(Side::Bid, bid_count)?;
        let asks = side(Side::Ask, ask_count)?;
        let mut horizon = |mark| if marks & mark == 0 { Ok(None) } else { cursor.get(reader).map(Some) };
        let horizon = [horizon(1)?, horizon(2)?];
        Ok(Self { id, version, scale, feed, age_ms, horizon, bids, asks })
    }
}

impl BookDelta {
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        put_varint(out, u64::from(self.id));
        put_version(out, self.base);
        put_step(out, self.base, self.version)?;
        put_feed(out, self.feed);
        let bids = self.changes.partition_point(|change| change.side == Side::Bid);
        let (bids, asks) = self.changes.split_at_checked(bids).ok_or(EncodeError::OutOfOrder)?;
        if asks.iter().any(|change| change.side == Side::Bid) {
            return Err(EncodeError::OutOfOrder);
        }
        put_count(out, bids.len(), CHANGES_MAX)?;
        put_count(out, asks.len(), CHANGES_MAX)?;
        let mut cursor = Cursor::default();
        for side in [bids, asks] {
            put_levels(out, &mut cursor, Course::Rising, true, side.iter().map(|change| change.level))?;
        }
        Ok(())
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = reader.u32()?;
        let base = get_version(reader)?;
        let version = get_step(reader, base)?;
        let feed = get_feed(reader)?;
        let bids = reader.count(CHANGES_MAX, LEVEL_BYTES_MIN)?;
        let asks = reader.count(CHANGES_MAX, LEVEL_BYTES_MIN)?;
        // Each count alone fits into what is left, so their sum is at most twice that.
        let mut changes = Vec::with_capacity(bids.saturating_add(asks));
        let mut cursor = Cursor::default();
        for (side, count) in [(Side::Bid, bids), (Side::Ask, asks)] {
            get_levels(reader, &mut cursor, Course::Rising, count, |level| {
                changes.push(LevelChange { side, level });
                Ok(())
            })?;
        }
        Ok(Self { id, base, version, feed, changes })
    }
}

/// The way from the base: epochs onward, then the sequence, as a distance where the epoch stays.
fn put_step(out: &mut Vec<u8>, base: Version, version: Version) -> Result<(), EncodeError> {
    let epochs = version.epoch.checked_sub(base.epoch).ok_or(EncodeError::NotAfterBase)?;
    put_varint(out, epochs);
    if epochs > 0 {
        put_varint(out, version.seq);
        return Ok(());
    }
    match version.seq.checked_sub(base.seq) {
        None | Some(0) => Err(EncodeError::NotAfterBase),
        Some(distance) => {
            put_varint(out, distance);
            Ok(())
        }
    }
}

fn get_step(reader: &mut Reader<'_>, base: Version) -> Result<Version, DecodeError> {
    let epochs = reader.varint()?;
    let epoch = base.epoch.checked_add(epochs).ok_or(DecodeError::NumberRange)?;
    let seq = reader.varint()?;
    if epochs > 0 {
        return Ok(Version { epoch, seq });
    }
    if seq == 0 {
        return Err(DecodeError::NotAfterBase);
    }
    let seq = base.seq.checked_add(seq).ok_or(DecodeError::NumberRange)?;
    Ok(Version { epoch, seq })
}
