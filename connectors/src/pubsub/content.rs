//! The content of a batch: its digest, its compression, and how it is cut into messages.
//!
//! Never: more bytes out of a compressed content than the bound; a content whose digest was not compared.

use super::header::{BatchHeader, Encoding, PARTS_MAX};
use bytes::Bytes;
use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use market::batch::BatchId;
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, Read, Write};

/// Level of zstd: 25 MB of block results take 0.1 s and become a tenth.
const ZSTD_LEVEL: i32 = 3;

/// Greatest window of a zstd content, as the power of two: 128 MiB, the greatest that `zstd --long` uses by itself. It is
/// memory that a content makes its reader take.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// A content cannot be packed or opened.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// There is nothing in it.
    #[error("the content is empty")]
    Empty,
    /// More than the bound; what comes after it was not looked at.
    #[error("the content has more than {max} bytes")]
    TooLarge {
        /// The bound, in bytes.
        max: usize,
    },
    /// More parts than a batch may have.
    #[error("{bytes} bytes are more than 64 messages of {each} bytes")]
    TooManyParts {
        /// Compressed size, in bytes.
        bytes: usize,
        /// Room in a message, in bytes.
        each: usize,
    },
    /// Not of its encoding from the first byte to the last.
    #[error("the content is not {} from the first byte to the last", .encoding.name())]
    Encoded {
        /// What it should be.
        encoding: Encoding,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// Not the content that the attributes name.
    #[error("the content's digest is not its batch_id")]
    Digest {
        /// What it is.
        is: BatchId,
    },
}

/// What names a content: its SHA-256.
#[must_use]
pub fn batch_id(content: &[u8]) -> BatchId {
    BatchId(Sha256::digest(content).into())
}

/// Compresses a content and cuts it into parts of at most `message_bytes_max` bytes.
///
/// # Errors
/// [`ContentError::Empty`], [`ContentError::TooManyParts`], or what the compressor says.
pub fn pack(content: &[u8], encoding: Encoding, message_bytes_max: usize) -> Result<Vec<Bytes>, ContentError> {
    if content.is_empty() {
        return Err(ContentError::Empty);
    }
    let packed = match encoding {
        Encoding::Identity => Ok(content.to_vec()),
        Encoding::Gzip => gzip(content),
        Encoding::Zstd => zstd::bulk::compress(content, ZSTD_LEVEL),
    };
    let mut packed = Bytes::from(packed.map_err(|source| ContentError::Encoded { encoding, source })?);
    let (bytes, each) = (packed.len(), message_bytes_max);
    if each == 0 || u32::try_from(bytes.div_ceil(each)).map_or(true, |parts| parts > PARTS_MAX) {
        return Err(ContentError::TooManyParts { bytes, each });
    }
    let mut parts = Vec::with_capacity(bytes.div_ceil(each));
    while !packed.is_empty() {
        parts.push(packed.split_to(each.min(packed.len())));
    }
    Ok(parts)
}

fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    encoder.finish()
}

/// The content of compressed bytes.
///
/// # Errors
/// [`ContentError::Empty`], [`ContentError::TooLarge`], or [`ContentError::Encoded`] for what cannot be read to the
/// end or goes on after it.
pub fn unpack(encoding: Encoding, packed: &[u8], content_bytes_max: usize) -> Result<Vec<u8>, ContentError> {
    unpack_from(encoding, packed, packed.len(), content_bytes_max)
}

/// The content of a batch whose parts are all there, in their order; its digest is the batch's id.
///
/// # Errors
/// Those of [`unpack`], and [`ContentError::Digest`].
pub fn open(header: &BatchHeader, parts: &[Bytes], content_bytes_max: usize) -> Result<Vec<u8>, ContentError> {
    let packed = parts.iter().map(Bytes::len).sum();
    let content = unpack_from(header.encoding, Joined { parts, at: 0 }, packed, content_bytes_max)?;
    let is = batch_id(&content);
    if is == header.id { Ok(content) } else { Err(ContentError::Digest { is }) }
}

fn unpack_from(
    encoding: Encoding,
    packed: impl BufRead,
    packed_bytes: usize,
    max: usize,
) -> Result<Vec<u8>, ContentError> {
    if packed_bytes == 0 {
        return Err(ContentError::Empty);
    }
    // One byte more than the bound tells that there are more.
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let mut content = Vec::with_capacity(packed_bytes.min(max));
    let read = match encoding {
        Encoding::Identity => packed.take(limit).read_to_end(&mut content),
        Encoding::Gzip => MultiGzDecoder::new(packed).take(limit).read_to_end(&mut content),
        Encoding::Zstd => zstd_decoder(packed).and_then(|decoder| decoder.take(limit).read_to_end(&mut content)),
    };
    read.map_err(|source| ContentError::Encoded { encoding, source })?;
    if content.len() > max {
        return Err(ContentError::TooLarge { max });
    }
    if content.is_empty() { Err(ContentError::Empty) } else { Ok(content) }
}

fn zstd_decoder<'a, R: BufRead>(packed: R) -> io::Result<zstd::Decoder<'a, R>> {
    let mut decoder = zstd::Decoder::with_buffer(packed)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Parts read one after another.
struct Joined<'a> {
    parts: &'a [Bytes],
    at: usize,
}

impl BufRead for Joined<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while let [first, rest @ ..] = self.parts {
            match first.get(self.at..) {
                Some(left) if !left.is_empty() => return Ok(left),
                _ => (self.parts, self.at) = (rest, 0),
            }
        }
        Ok(&[])
    }

    fn consume(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }
}

impl Read for Joined<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
