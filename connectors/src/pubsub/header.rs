//! What the attributes of a message say of its batch.
//!
//! Never: a guess at an attribute that is missing or unreadable.

use jiff::Timestamp;
use market::batch::{BatchId, BatchKind, BatchName, HEIGHT_MAX};
use std::{fmt::Write, num::IntErrorKind};

/// Parts of one batch: more than [`CONTENT_BYTES_MAX`] needs at [`MESSAGE_BYTES_MAX`] in each, and few enough for a reader
/// to hold all of them.
pub const PARTS_MAX: u32 = 64;

/// Bytes of one message, attributes included: the service takes 10,000,000 with its own fields.
pub const MESSAGE_BYTES_MAX: usize = 9_500_000;

/// Bytes of a content: the largest batches known have 25 MB.
pub const CONTENT_BYTES_MAX: usize = 64 << 20;

/// Characters of a stream's name: it is part of every row's source id.
pub const STREAM_CHARS_MAX: usize = 64;

/// Times before 2000 are no block's: whoever wrote them had no clock.
const BLOCK_TIME_SECOND_MIN: i64 = 946_684_800;

/// Times from 2200 on are no block's either, and nanoseconds of them would soon leave their range.
const BLOCK_TIME_SECOND_END: i64 = 7_258_118_400;

const STREAM: &str = "stream";
const KIND: &str = "kind";
const HEIGHT: &str = "height";
const PREVIOUS: &str = "previous_height";
const BATCH_ID: &str = "batch_id";
const ENCODING: &str = "encoding";
const BLOCK_TIME: &str = "block_time";
const PART: &str = "part";
const PARTS: &str = "parts";

/// How a content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Not at all.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// No encoding of this name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of identity, gzip, zstd")]
pub struct UnknownEncoding;

impl Encoding {
    /// As it is written in the attribute.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

impl std::str::FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(text: &str) -> Result<Self, UnknownEncoding> {
        [Self::Identity, Self::Gzip, Self::Zstd].into_iter().find(|known| known.name() == text).ok_or(UnknownEncoding)
    }
}

/// No kind of this name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither block nor snapshot")]
pub struct UnknownKind;

/// A kind as it is written in the attribute.
#[must_use]
pub const fn kind_name(kind: BatchKind) -> &'static str {
    match kind {
        BatchKind::Block => "block",
        BatchKind::Snapshot => "snapshot",
    }
}

/// The kind of this name.
///
/// # Errors
/// [`UnknownKind`] for any other text.
pub fn kind_of(text: &str) -> Result<BatchKind, UnknownKind> {
    match text {
        "block" => Ok(BatchKind::Block),
        "snapshot" => Ok(BatchKind::Snapshot),
        _ => Err(UnknownKind),
    }
}

/// What a message says of its batch, and which part of it it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The stream that the batch is of: 1 to [`STREAM_CHARS_MAX`] visible ASCII characters, no `/`.
    pub stream: Box<str>,
    /// What the batch holds.
    pub kind: BatchKind,
    /// Its height, at most [`HEIGHT_MAX`].
    pub height: u64,
    /// The height of the batch before it, below its own; of a snapshot its own.
    pub previous: u64,
    /// The SHA-256 of the whole content as it is without compression.
    pub id: BatchId,
    /// How the whole content is compressed.
    pub encoding: Encoding,
    /// The block's own time, Unix nanoseconds; 0 if it is not told.
    pub block_time_ns: u64,
    /// Which part this message is, from 0.
    pub part: u32,
    /// How many there are, 1 to [`PARTS_MAX`].
    pub parts: u32,
}

/// The attributes of a message do not describe a part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// An attribute that must be there is not.
    #[error("attribute {0} is missing")]
    Missing(&'static str),
    /// Not a whole number in decimal digits.
    #[error("attribute {0} is not a whole number")]
    Number(&'static str),
    /// A whole number beyond what is counted with.
    #[error("attribute {0} is out of range")]
    Range(&'static str),
    /// The batch before it is not before it.
    #[error("previous_height {previous} is not below height {height}")]
    Previous {
        /// Its height.
        height: u64,
        /// What it names as the one before.
        previous: u64,
    },
    /// A snapshot is of the end of one height.
    #[error("a snapshot of height {height} names previous_height {previous}")]
    SnapshotPrevious {
        /// Its height.
        height: u64,
        /// What it names as the one before.
        previous: u64,
    },
    /// A part that cannot be.
    #[error("part {part} of {parts}")]
    Part {
        /// Its number, from 0.
        part: u32,
        /// How many there are.
        parts: u32,
    },
    /// `part` without `parts`.
    #[error("attribute part without parts")]
    PartAlone,
    /// More parts than [`PARTS_MAX`], or none.
    #[error("{0} parts, of at least 1 and at most 64")]
    Parts(u32),
    /// Not a name of a stream.
    #[error("attribute stream is not 1 to 64 visible characters without /")]
    Stream,
    /// Not 64 hexadecimal digits.
    #[error("attribute batch_id is not 64 lower-case hexadecimal digits")]
    Id,
    /// Not a kind.
    #[error("attribute kind is {0}")]
    Kind(#[source] UnknownKind),
    /// Not an encoding.
    #[error("attribute encoding is {0}")]
    Encoding(#[source] UnknownEncoding),
    /// Not a time.
    #[error("attribute block_time is not a time of RFC 3339")]
    Time,
    /// A time that no block can have.
    #[error("block_time is {second} s after 1970, before 2000 or after 2199")]
    TimeImplausible {
        /// Unix seconds.
        second: i64,
    },
}

impl BatchHeader {
    /// Reads the attributes of a message; those that are not known are passed over.
    ///
    /// # Errors
    /// [`HeaderError`], the first that is found.
    pub fn parse<'a>(attribute: impl Fn(&str) -> Option<&'a str>) -> Result<Self, HeaderError> {
        let must = |name: &'static str| attribute(name).ok_or(HeaderError::Missing(name));
        let stream = must(STREAM)?;
        check_stream(stream)?;
        let kind = attribute(KIND).map_or(Ok(BatchKind::Block), kind_of).map_err(HeaderError::Kind)?;
        let height = height(HEIGHT, must(HEIGHT)?)?;
        let previous = attribute(PREVIOUS).map(|text| self::height(PREVIOUS, text)).transpose()?;
        let previous = before(kind, height, previous)?;
        let id = parse_id(must(BATCH_ID)?)?;
        let encoding = attribute(ENCODING).map_or(Ok(Encoding::Identity), str::parse).map_err(HeaderError::Encoding)?;
        let block_time_ns = attribute(BLOCK_TIME).map_or(Ok(0), block_time)?;
        let (part, parts) = part(attribute(PART), attribute(PARTS))?;
        Ok(Self { stream: stream.into(), kind, height, previous, id, encoding, block_time_ns, part, parts })
    }

    /// The attributes of the message. What they say by default is not left out, but for the part of one.
    #[must_use]
    pub fn attributes(&self) -> Vec<(String, String)> {
        let mut attributes = vec![
            (STREAM, self.stream.to_string()),
            (KIND, kind_name(self.kind).to_owned()),
            (HEIGHT, self.height.to_string()),
            (BATCH_ID, hex(self.id)),
            (ENCODING, self.encoding.name().to_owned()),
        ];
        if self.kind == BatchKind::Block {
            attributes.push((PREVIOUS, self.previous.to_string()));
        }
        if let Some(time) = rfc_3339(self.block_time_ns) {
            attributes.push((BLOCK_TIME, time));
        }
        if self.parts > 1 {
            attributes.extend([(PART, self.part.to_string()), (PARTS, self.parts.to_string())]);
        }
        attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What names the batch in its stream.
    #[must_use]
    pub fn name(&self) -> BatchName {
        BatchName { height: self.height, previous: self.previous, kind: self.kind, id: self.id }
    }

    /// Whether both are of one batch and agree on everything but the part.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        Self { part: other.part, ..self.clone() } == *other
    }
}

/// Whether a text can name a stream.
///
/// # Errors
/// [`HeaderError::Stream`] if it cannot.
pub fn check_stream(text: &str) -> Result<(), HeaderError> {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if visible && (1..=STREAM_CHARS_MAX).contains(&text.len()) { Ok(()) } else { Err(HeaderError::Stream) }
}

/// A batch's id as text: 64 lower-case hexadecimal digits.
#[must_use]
pub fn hex(id: BatchId) -> String {
    id.0.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        if write!(text, "{byte:02x}").is_err() {
            text.clear();
        }
        text
    })
}

/// The id of 64 lower-case hexadecimal digits.
///
/// # Errors
/// [`HeaderError::Id`] for any other text.
pub fn parse_id(text: &str) -> Result<BatchId, HeaderError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(HeaderError::Id),
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut id = [0; 32];
    if pairs.len() != id.len() || !rest.is_empty() {
        return Err(HeaderError::Id);
    }
    for (byte, [high, low]) in id.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(BatchId(id))
}

/// A block's time as Unix nanoseconds, from RFC 3339.
///
/// # Errors
/// [`HeaderError::Time`] if it is no time, [`HeaderError::TimeImplausible`] if it is no block's.
pub fn block_time(text: &str) -> Result<u64, HeaderError> {
    let time: Timestamp = text.parse().map_err(|_| HeaderError::Time)?;
    let second = time.as_second();
    if !(BLOCK_TIME_SECOND_MIN..BLOCK_TIME_SECOND_END).contains(&second) {
        return Err(HeaderError::TimeImplausible { second });
    }
    u64::try_from(time.as_nanosecond()).map_err(|_| HeaderError::TimeImplausible { second })
}

/// `None` for a time that is not known.
fn rfc_3339(block_time_ns: u64) -> Option<String> {
    let time = Timestamp::from_nanosecond(i128::from(block_time_ns)).ok()?;
    (block_time_ns > 0).then(|| time.to_string())
}

fn number<N: std::str::FromStr<Err = std::num::ParseIntError>>(
    name: &'static str,
    text: &str,
) -> Result<N, HeaderError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HeaderError::Number(name));
    }
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => HeaderError::Range(name),
        _ => HeaderError::Number(name),
    })
}

fn height(name: &'static str, text: &str) -> Result<u64, HeaderError> {
    let height = number(name, text)?;
    if height > HEIGHT_MAX { Err(HeaderError::Range(name)) } else { Ok(height) }
}

fn before(kind: BatchKind, height: u64, previous: Option<u64>) -> Result<u64, HeaderError> {
    match (kind, previous) {
        (BatchKind::Block, None) => Err(HeaderError::Missing(PREVIOUS)),
        (BatchKind::Block, Some(previous)) if previous >= height => Err(HeaderError::Previous { height, previous }),
        (BatchKind::Block, Some(previous)) => Ok(previous),
        (BatchKind::Snapshot, Some(previous)) if previous != height => {
            Err(HeaderError::SnapshotPrevious { height, previous })
        }
        (BatchKind::Snapshot, _) => Ok(height),
    }
}

fn part(part: Option<&str>, parts: Option<&str>) -> Result<(u32, u32), HeaderError> {
    let (part, parts) = match (part, parts) {
        (None, None) => return Ok((0, 1)),
        (None, Some(_)) => return Err(HeaderError::Missing(PART)),
        (Some(_), None) => return Err(HeaderError::PartAlone),
        (Some(part), Some(parts)) => (number(PART, part)?, number(PARTS, parts)?),
    };
    if !(1..=PARTS_MAX).contains(&parts) {
        return Err(HeaderError::Parts(parts));
    }
    if part >= parts { Err(HeaderError::Part { part, parts }) } else { Ok((part, parts)) }
}

#[cfg(test)]
mod tests;
