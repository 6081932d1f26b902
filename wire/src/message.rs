//! Messages of the server to a terminal: the dispatch, and the small ones.
//!
//! Never: the layout of a block; that is `block`'s.

use crate::{
    bounds::{ERROR_TEXT_BYTES_MAX, GAP_ENTRIES_MAX, MESSAGE_BYTES_MAX},
    dictionary::Dictionary,
    error::{DecodeError, EncodeError},
    frame::{ChainKind, Frame},
    hello::Hello,
    request::{Channel, get_entries, put_entries},
    varint::{Reader, put_text, put_varint},
    views::ViewList,
};
use bytes::Bytes;

const HELLO: u8 = 0x01;
const DICTIONARY: u8 = 0x02;
pub(crate) const FRAME: u8 = 0x03;
pub(crate) const PRIORITY_FRAME: u8 = 0x04;
const ANSWER: u8 = 0x05;
const ERROR: u8 = 0x06;
const GAP: u8 = 0x07;
const VIEWS: u8 = 0x08;

/// A message to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToTerminal {
    /// The first message of a connection.
    Hello(Hello),
    /// New instruments and pairs.
    Dictionary(Dictionary),
    /// What changed, or the heartbeat.
    Frame(Frame),
    /// A request was carried out.
    Answer(Answer),
    /// A request was refused, or the connection is about to end.
    Error(ServerError),
    /// Frames of this connection were lost.
    Gap(Gap),
    /// The standing views; told to a terminal that asks for the channel.
    Views(ViewList),
}

/// A subscription request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The terminal's number of the request.
    pub request: u32,
    /// How many subscriptions of the set its items name now.
    pub matched: u32,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// The bytes were no message; the connection ends.
    Malformed,
    /// The server does not offer the channel.
    UnknownChannel,
    /// More subscriptions than one terminal may have.
    TooManySubscriptions,
    /// More patterns than one terminal may have.
    TooManyPatterns,
    /// A pattern is no glob, or is over its bound.
    PatternInvalid,
    /// The server does not speak the wire version.
    UnsupportedVersion,
    /// An instrument or pair number that is not in the dictionary.
    UnknownId,
    /// More requests than the server takes in the time.
    RateLimited,
    /// The terminal has no right to it.
    NotEntitled,
    /// A book does not fit into a message; its subscription stays without data.
    TooLarge,
    /// The server is draining.
    Draining,
    /// A fault of the server's own.
    Internal,
}

impl ErrorCode {
    /// Every code, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 12] = [
        Self::Malformed,
        Self::UnknownChannel,
        Self::TooManySubscriptions,
        Self::TooManyPatterns,
        Self::PatternInvalid,
        Self::UnsupportedVersion,
        Self::UnknownId,
        Self::RateLimited,
        Self::NotEntitled,
        Self::TooLarge,
        Self::Draining,
        Self::Internal,
    ];

    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Malformed => 1,
            Self::UnknownChannel => 2,
            Self::TooManySubscriptions => 3,
            Self::TooManyPatterns => 4,
            Self::PatternInvalid => 5,
            Self::UnsupportedVersion => 6,
            Self::UnknownId => 7,
            Self::RateLimited => 8,
            Self::NotEntitled => 9,
            Self::TooLarge => 10,
            Self::Draining => 11,
            Self::Internal => 12,
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The request that it answers, if it was readable.
    pub request: Option<u32>,
    /// The reason.
    pub code: ErrorCode,
    /// A sentence for a person.
    pub text: Box<str>,
}

/// Frames of this connection were lost; a snapshot of each entry follows on the same socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Channel and instrument of each; the pair for [`Channel::Best`], view and pair for [`Channel::View`].
    pub entries: Vec<(Channel, u32)>,
}

impl ToTerminal {
    /// The bytes of the message.
    ///
    /// # Errors
    /// [`EncodeError`] if the value is outside what the wire allows.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut out = Vec::new();
        match self {
            Self::Hello(hello) => {
                out.push(HELLO);
                hello.put(&mut out)?;
            }
            Self::Dictionary(dictionary) => {
                out.push(DICTIONARY);
                dictionary.put(&mut out)?;
            }
            Self::Frame(frame) => return frame.encode(),
            Self::Answer(answer) => {
                out.push(ANSWER);
                put_varint(&mut out, u64::from(answer.request));
                put_varint(&mut out, u64::from(answer.matched));
            }
            Self::Error(error) => {
                out.push(ERROR);
                error.put(&mut out)?;
            }
            Self::Gap(gap) => {
                out.push(GAP);
                put_entries(&mut out, &gap.entries, GAP_ENTRIES_MAX)?;
            }
            Self::Views(views) => {
                out.push(VIEWS);
                views.put(&mut out)?;
            }
        }
        if out.len() > MESSAGE_BYTES_MAX {
            return Err(EncodeError::TooLong { bytes: out.len(), max: MESSAGE_BYTES_MAX });
        }
        Ok(out.into())
    }

    /// The message of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one message to a terminal.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(DecodeError::MessageTooLong { bytes: bytes.len(), max: MESSAGE_BYTES_MAX });
        }
        let mut reader = Reader::new(bytes);
        let message = match reader.byte()? {
            HELLO => Self::Hello(Hello::get(&mut reader)?),
            DICTIONARY => Self::Dictionary(Dictionary::get(&mut reader)?),
            FRAME => Self::Frame(Frame::get(ChainKind::Conflated, &mut reader)?),
            PRIORITY_FRAME => Self::Frame(Frame::get(ChainKind::Priority, &mut reader)?),
            ANSWER => Self::Answer(Answer { request: reader.u32()?, matched: reader.u32()? }),
            ERROR => Self::Error(ServerError::get(&mut reader)?),
            GAP => Self::Gap(Gap { entries: get_entries(&mut reader, GAP_ENTRIES_MAX)? }),
            VIEWS => Self::Views(ViewList::get(&mut reader)?),
            kind => return Err(DecodeError::UnknownKind { kind }),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl ServerError {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(u8::from(self.request.is_some()));
        if let Some(request) = self.request {
            put_varint(out, u64::from(request));
        }
        put_varint(out, u64::from(self.code.code()));
        put_text(out, &self.text, ERROR_TEXT_BYTES_MAX)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let request = if reader.bits("request presence", 1)? == 1 { Some(reader.u32()?) } else { None };
        let number = reader.u16()?;
        let code = ErrorCode::ALL
            .into_iter()
            .find(|code| code.code() == number)
            .ok_or(DecodeError::UnknownCode { what: "error", value: u64::from(number) })?;
        Ok(Self { request, code, text: reader.text(ERROR_TEXT_BYTES_MAX)? })
    }
}
