//! The first message to a terminal.
//!
//! Never: a change of its first two fields; every version begins so.

use crate::{
    bounds::BUILD_BYTES_MAX,
    error::{DecodeError, EncodeError},
    varint::{Reader, put_text, put_varint},
};

/// What the server says before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The wire version that follows.
    pub wire_version: u16,
    /// The server's generation; instrument and pair numbers hold within it.
    pub generation: u64,
    /// The server's build, for people.
    pub build: Box<str>,
    /// Time between two frames, in milliseconds.
    pub frame_ms: u16,
    /// Longest time without any frame, in milliseconds.
    pub heartbeat_ms: u32,
    /// The data come from a simulator or a replay.
    pub simulated: bool,
}

impl Hello {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        put_varint(out, u64::from(self.wire_version));
        put_varint(out, self.generation);
        put_text(out, &self.build, BUILD_BYTES_MAX)?;
        put_varint(out, u64::from(self.frame_ms));
        put_varint(out, u64::from(self.heartbeat_ms));
        out.push(u8::from(self.simulated));
        Ok(())
    }

    pub(crate) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            wire_version: reader.u16()?,
            generation: reader.varint()?,
            build: reader.text(BUILD_BYTES_MAX)?,
            frame_ms: reader.u16()?,
            heartbeat_ms: reader.u32()?,
            simulated: reader.bits("simulated", 1)? == 1,
        })
    }
}
