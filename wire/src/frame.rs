//! Frames: what a terminal gets at every close, assembled from blocks that were encoded once.
//!
//! Never: an encoding of one block that depends on another; blocks are shared between frames.

use crate::{
    block::{Block, encode_block, get_block},
    bounds::{BLOCKS_MAX, MESSAGE_BYTES_MAX},
    error::{DecodeError, EncodeError},
    message::{FRAME, PRIORITY_FRAME},
    varint::{Reader, put_varint},
};
use bytes::Bytes;

/// Ends a frame, so that one cut at a block's border is seen to be cut.
const END: u8 = 0x00;

/// Which chain of an instrument's book a frame's book blocks belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainKind {
    /// Net changes of whole frames.
    #[default]
    Conflated,
    /// Changes as they are admitted.
    Priority,
}

/// A frame. Without blocks it is the heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The chain that its book blocks belong to.
    pub chain: ChainKind,
    /// The frame's index, for people and for matching logs; versions order, not this.
    pub frame: u64,
    /// The server's clock at the close, Unix milliseconds.
    pub at_ms: u64,
    /// What changed.
    pub blocks: Vec<Block>,
}

impl Frame {
    pub(crate) fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut builder = match self.chain {
            ChainKind::Conflated => FrameBuilder::new(self.frame, self.at_ms),
            ChainKind::Priority => FrameBuilder::priority(self.frame, self.at_ms),
        };
        for block in &self.blocks {
            builder.push(block)?;
        }
        Ok(builder.finish())
    }

    pub(crate) fn get(chain: ChainKind, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let frame = reader.varint()?;
        let at_ms = reader.varint()?;
        let mut blocks = Vec::new();
        loop {
            match reader.byte()? {
                END => return Ok(Self { chain, frame, at_ms, blocks }),
                _ if blocks.len() == BLOCKS_MAX => {
                    let count = u64::try_from(BLOCKS_MAX).unwrap_or(u64::MAX).saturating_add(1);
                    return Err(DecodeError::TooMany { count, max: BLOCKS_MAX });
                }
                kind => blocks.push(get_block(kind, reader)?),
            }
        }
    }
}

/// Puts a frame together from encoded blocks.
#[derive(Clone, Debug)]
pub struct FrameBuilder {
    out: Vec<u8>,
    blocks: usize,
}

impl FrameBuilder {
    /// A conflated frame of the given index, closed at the given Unix milliseconds.
    #[must_use]
    pub fn new(frame: u64, at_ms: u64) -> Self {
        Self::of(FRAME, frame, at_ms)
    }

    /// A priority frame of the given index, closed at the given Unix milliseconds.
    #[must_use]
    pub fn priority(frame: u64, at_ms: u64) -> Self {
        Self::of(PRIORITY_FRAME, frame, at_ms)
    }

    fn of(kind: u8, frame: u64, at_ms: u64) -> Self {
        let mut out = vec![kind];
        put_varint(&mut out, frame);
        put_varint(&mut out, at_ms);
        Self { out, blocks: 0 }
    }

    /// Adds one block as [`encode_block`] wrote it.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] or [`EncodeError::TooMany`] if the frame would exceed its bounds; it is unchanged, and
    /// the block belongs into the next frame.
    pub fn push_encoded(&mut self, block: &[u8]) -> Result<(), EncodeError> {
        self.check_room(block.len())?;
        self.out.extend_from_slice(block);
        self.blocks = self.blocks.saturating_add(1);
        Ok(())
    }

    /// Encodes and adds a block.
    ///
    /// # Errors
    /// [`EncodeError`] of the block, or of the frame as of [`FrameBuilder::push_encoded`]; it is unchanged then.
    pub fn push(&mut self, block: &Block) -> Result<(), EncodeError> {
        let before = self.out.len();
        encode_block(block, &mut self.out)?;
        if let Err(error) = self.check_room(0) {
            self.out.truncate(before);
            return Err(error);
        }
        self.blocks = self.blocks.saturating_add(1);
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<(), EncodeError> {
        if self.blocks >= BLOCKS_MAX {
            return Err(EncodeError::TooMany { count: self.blocks.saturating_add(1), max: BLOCKS_MAX });
        }
        let bytes = self.out.len().saturating_add(more).saturating_add(1);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(EncodeError::TooLong { bytes, max: MESSAGE_BYTES_MAX });
        }
        Ok(())
    }

    /// Blocks so far.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes so far, the end mark not counted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// The bytes of the message.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        self.out.push(END);
        self.out.into()
    }
}
