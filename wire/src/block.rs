//! Blocks: what a frame says about one instrument or pair. Each is complete in itself, so that it is encoded once
//! and shared by every frame that carries it.
//!
//! Never: a reference to another block; a delta without the full version of its base.

mod book;
mod digest;
mod market_data;
mod view;

pub use digest::digest_of;

use crate::{
    bounds::BLOCK_BYTES_MAX,
    error::{DecodeError, EncodeError},
    varint::{Reader, put_signed, put_u256, put_varint},
};
use market::{Best, Feed, FeedState, Flags, Level, LevelChange, Quote, Scale, Side, Trade, Version, ViewValue};

const BOOK_SNAPSHOT: u8 = 0x01;
const BOOK_DELTA: u8 = 0x02;
const QUOTE: u8 = 0x03;
const TRADES: u8 = 0x04;
const BEST: u8 = 0x05;
const STATUS: u8 = 0x06;
const DIGEST: u8 = 0x07;
const VIEW: u8 = 0x08;

/// A block of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The whole book of an instrument; begins a chain anew.
    BookSnapshot(BookSnapshot),
    /// Net changes of a book from one version to another.
    BookDelta(BookDelta),
    /// Best bid and ask of an instrument.
    Quote(QuoteBlock),
    /// Trades of an instrument.
    Trades(TradesBlock),
    /// The best of a pair across venues.
    Best(BestBlock),
    /// Feed state and age of an instrument.
    Status(StatusBlock),
    /// What an instrument's book at a version must hash to.
    Digest(DigestBlock),
    /// A standing view of a pair.
    View(ViewBlock),
}

/// The whole book of an instrument at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookSnapshot {
    /// The instrument's number.
    pub id: u32,
    /// The version of the book.
    pub version: Version,
    /// The steps that its prices and quantities are in, and those of the deltas that follow.
    pub scale: Scale,
    /// Feed state and shape.
    pub feed: Feed,
    /// Time since the venue was last heard about it, in milliseconds.
    pub age_ms: u64,
    /// Of the bids and of the asks: the worst price that is known, if the venue has more beyond it.
    pub horizon: [Option<i64>; 2],
    /// Bids, best first; no quantity is zero.
    pub bids: Vec<Level>,
    /// Asks, best first; no quantity is zero.
    pub asks: Vec<Level>,
}

/// Net changes of a book, in the scale of the chain's snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookDelta {
    /// The instrument's number.
    pub id: u32,
    /// The version that the changes start from; they fit no other.
    pub base: Version,
    /// The version that they lead to, greater than the base.
    pub version: Version,
    /// Feed state and shape at that version.
    pub feed: Feed,
    /// The changed levels in the order of [`sort_changes`], each price once; quantity zero removes.
    pub changes: Vec<LevelChange>,
}

/// Best bid and ask of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuoteBlock {
    /// The instrument's number.
    pub id: u32,
    /// The version of the book that it was taken from.
    pub version: Version,
    /// The steps that its numbers are in.
    pub scale: Scale,
    /// The best levels; no quantity is zero.
    pub quote: Quote,
    /// Feed state and shape.
    pub feed: Feed,
    /// Time since the venue was last heard about it, in milliseconds.
    pub age_ms: u64,
}

/// Trades of an instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TradesBlock {
    /// The instrument's number.
    pub id: u32,
    /// The steps that their numbers are in.
    pub scale: Scale,
    /// The trades.
    pub trades: Vec<Trade>,
}

/// The best of a pair across venues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestBlock {
    /// The pair's number.
    pub pair: u32,
    /// The best.
    pub best: Best,
}

/// Feed state and age of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusBlock {
    /// The instrument's number.
    pub id: u32,
    /// The version of its book, if it has one.
    pub version: Option<Version>,
    /// Feed state and shape.
    pub feed: Feed,
    /// Time since the venue was last heard about it, in milliseconds.
    pub age_ms: u64,
}

/// What an instrument's book at a version must hash to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestBlock {
    /// The instrument's number.
    pub id: u32,
    /// The version of the book.
    pub version: Version,
    /// Its digest, as of [`digest_of`].
    pub crc: u32,
}

/// A standing view of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewBlock {
    /// The number of view and pair, as of [`market::ViewKey::number`].
    pub id: u32,
    /// What it is; none when no book is in it.
    pub value: Option<ViewValue>,
}

/// Puts changes into the order of the wire: bids, then asks, each by rising price.
pub fn sort_changes(changes: &mut [LevelChange]) {
    changes.sort_unstable_by_key(|change| (change.side, change.level.tick_index));
}

/// Appends the bytes of a block.
///
/// # Errors
/// [`EncodeError`] if the value is outside what the wire allows; `out` is then as it was.
pub fn encode_block(block: &Block, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    let mut written = put_block(block, out);
    let bytes = out.len().saturating_sub(before);
    if written.is_ok() && bytes > BLOCK_BYTES_MAX {
        written = Err(EncodeError::TooLong { bytes, max: BLOCK_BYTES_MAX });
    }
    if written.is_err() {
        out.truncate(before);
    }
    written
}

/// The block of exactly these bytes.
///
/// # Errors
/// [`DecodeError`] if the bytes are not exactly one block.
pub fn decode_block(bytes: &[u8]) -> Result<Block, DecodeError> {
    let mut reader = Reader::new(bytes);
    let kind = reader.byte()?;
    let block = get_block(kind, &mut reader)?;
    reader.finish()?;
    Ok(block)
}

fn put_block(block: &Block, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match block {
        Block::BookSnapshot(snapshot) => {
            out.push(BOOK_SNAPSHOT);
            snapshot.put(out)
        }
        Block::BookDelta(delta) => {
            out.push(BOOK_DELTA);
            delta.put(out)
        }
        Block::Quote(quote) => {
            out.push(QUOTE);
            quote.put(out)
        }
        Block::Trades(trades) => {
            out.push(TRADES);
            trades.put(out)
        }
        Block::Best(best) => {
            out.push(BEST);
            best.put(out);
            Ok(())
        }
        Block::Status(status) => {
            out.push(STATUS);
            status.put(out);
            Ok(())
        }
        Block::Digest(digest) => {
            out.push(DIGEST);
            digest.put(out);
            Ok(())
        }
        Block::View(view) => {
            out.push(VIEW);
            view.put(out);
            Ok(())
        }
    }
}

pub(crate) fn get_block(kind: u8, reader: &mut Reader<'_>) -> Result<Block, DecodeError> {
    match kind {
        BOOK_SNAPSHOT => BookSnapshot::get(reader).map(Block::BookSnapshot),
        BOOK_DELTA => BookDelta::get(reader).map(Block::BookDelta),
        QUOTE => QuoteBlock::get(reader).map(Block::Quote),
        TRADES => TradesBlock::get(reader).map(Block::Trades),
        BEST => BestBlock::get(reader).map(Block::Best),
        STATUS => StatusBlock::get(reader).map(Block::Status),
        DIGEST => DigestBlock::get(reader).map(Block::Digest),
        VIEW => ViewBlock::get(reader).map(Block::View),
        kind => Err(DecodeError::UnknownBlock { kind }),
    }
}

/// The last price of a block; the next one is written as its difference, which wraps at 64 bits.
#[derive(Default)]
struct Cursor(i64);

impl Cursor {
    fn put(&mut self, out: &mut Vec<u8>, value: i64) {
        put_signed(out, value.wrapping_sub(self.0));
        self.0 = value;
    }

    fn get(&mut self, reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
        self.0 = self.0.wrapping_add(reader.signed()?);
        Ok(self.0)
    }
}

fn put_version(out: &mut Vec<u8>, version: Version) {
    put_varint(out, version.epoch);
    put_varint(out, version.seq);
}

fn get_version(reader: &mut Reader<'_>) -> Result<Version, DecodeError> {
    Ok(Version::new(reader.varint()?, reader.varint()?))
}

fn put_scale(out: &mut Vec<u8>, scale: Scale) {
    crate::varint::put_i8(out, scale.price);
    crate::varint::put_i8(out, scale.quantity);
}

fn get_scale(reader: &mut Reader<'_>) -> Result<Scale, DecodeError> {
    Ok(Scale { price: reader.i8()?, quantity: reader.i8()? })
}

/// State in the two low bits, flags in the four above.
fn put_feed(out: &mut Vec<u8>, feed: Feed) {
    let state = match feed.state {
        FeedState::Syncing => 0,
        FeedState::Live => 1,
        FeedState::Stale => 2,
        FeedState::Gapped => 3,
    };
    out.push(state | (feed.flags.bits() << 2));
}

fn get_feed(reader: &mut Reader<'_>) -> Result<Feed, DecodeError> {
    let byte = reader.bits("feed", 6)?;
    let unknown = DecodeError::UnknownCode { what: "feed", value: u64::from(byte) };
    let state = FeedState::ALL.get(usize::from(byte & 3)).copied().ok_or(unknown)?;
    let flags = Flags::from_bits(byte >> 2).ok_or(unknown)?;
    Ok(Feed { state, flags })
}

fn put_level(out: &mut Vec<u8>, cursor: &mut Cursor, level: Level) -> Result<(), EncodeError> {
    if level.quantity.is_zero() {
        return Err(EncodeError::ZeroQuantity);
    }
    cursor.put(out, level.tick_index);
    put_u256(out, level.quantity);
    Ok(())
}

fn get_level(reader: &mut Reader<'_>, cursor: &mut Cursor) -> Result<Level, DecodeError> {
    let level = Level { tick_index: cursor.get(reader)?, quantity: reader.u256()? };
    if level.quantity.is_zero() { Err(DecodeError::ZeroQuantity) } else { Ok(level) }
}

const fn side_code(side: Side) -> u8 {
    match side {
        Side::Bid => 0,
        Side::Ask => 1,
    }
}
