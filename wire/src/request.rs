//! Messages of a terminal to the server: subscriptions and calls for snapshots.
//!
//! Never: an increment of the subscription set that a replay would change; asking twice is asking once.

use crate::{
    bounds::{ITEMS_MAX, PATTERN_BYTES_MAX, REQUEST_BYTES_MAX},
    error::{DecodeError, EncodeError},
    varint::{Reader, put_count, put_text, put_varint},
};
use bytes::Bytes;

const SUBSCRIBE: u8 = 0x41;
const UNSUBSCRIBE: u8 = 0x42;
const RESYNC: u8 = 0x43;

/// A channel and a pattern or number have at least a byte each.
const ITEM_BYTES_MIN: usize = 2;

/// What of an instrument, or of a pair, a terminal wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Best bid and ask of an instrument.
    Quote,
    /// The whole book of an instrument, conflated.
    Book,
    /// The whole book of an instrument, as it changes: its own chain, in priority frames.
    Priority,
    /// Trades of an instrument.
    Trades,
    /// The best across venues; the number is a pair's.
    Best,
    /// Feed state and age of an instrument alone.
    Status,
    /// Digests of an instrument's book, to hold the conflated chain against.
    Digest,
    /// A standing view of a pair; the number is [`market::ViewKey::number`].
    View,
}

impl Channel {
    /// Every channel, in the order of their codes, which begin with 1.
    pub const ALL: [Self; 8] =
        [Self::Quote, Self::Book, Self::Priority, Self::Trades, Self::Best, Self::Status, Self::Digest, Self::View];

    /// The name used in logs and in command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quote => "quote",
            Self::Book => "book",
            Self::Priority => "priority",
            Self::Trades => "trades",
            Self::Best => "best",
            Self::Status => "status",
            Self::Digest => "digest",
            Self::View => "view",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Quote => 1,
            Self::Book => 2,
            Self::Priority => 3,
            Self::Trades => 4,
            Self::Best => 5,
            Self::Status => 6,
            Self::Digest => 7,
            Self::View => 8,
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = reader.byte()?;
        Self::ALL
            .into_iter()
            .find(|channel| channel.code() == code)
            .ok_or(DecodeError::UnknownCode { what: "channel", value: u64::from(code) })
    }
}

/// One wish: a channel, and a glob over `venue/symbol`; over `ASSET/ASSET` for [`Channel::Best`], over `VIEW/ASSET/ASSET`
/// for [`Channel::View`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionItem {
    /// The channel.
    pub channel: Channel,
    /// The glob.
    pub pattern: Box<str>,
}

/// Items to add to, or to take from, the subscription set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The terminal's number of the request, repeated in the answer.
    pub request: u32,
    /// The items.
    pub items: Vec<SubscriptionItem>,
}

/// A call for snapshots of chains that were broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resync {
    /// Channel and instrument of each; the pair for [`Channel::Best`], view and pair for [`Channel::View`].
    pub items: Vec<(Channel, u32)>,
}

/// A message to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToServer {
    /// Adds to the subscription set.
    Subscribe(Subscription),
    /// Takes from the subscription set: the same channel and the same pattern text.
    Unsubscribe(Subscription),
    /// Asks for snapshots.
    Resync(Resync),
}

impl ToServer {
    /// The bytes of the message.
    ///
    /// # Errors
    /// [`EncodeError`] if a text, a list or the whole is over its bound.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut out = Vec::new();
        match self {
            Self::Subscribe(subscription) => subscription.put(SUBSCRIBE, &mut out)?,
            Self::Unsubscribe(subscription) => subscription.put(UNSUBSCRIBE, &mut out)?,
            Self::Resync(resync) => {
                out.push(RESYNC);
                put_entries(&mut out, &resync.items, ITEMS_MAX)?;
            }
        }
        if out.len() > REQUEST_BYTES_MAX {
            return Err(EncodeError::TooLong { bytes: out.len(), max: REQUEST_BYTES_MAX });
        }
        Ok(out.into())
    }

    /// The message of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one message to the server.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(DecodeError::MessageTooLong { bytes: bytes.len(), max: REQUEST_BYTES_MAX });
        }
        let mut reader = Reader::new(bytes);
        let message = match reader.byte()? {
            SUBSCRIBE => Self::Subscribe(Subscription::get(&mut reader)?),
            UNSUBSCRIBE => Self::Unsubscribe(Subscription::get(&mut reader)?),
            RESYNC => Self::Resync(Resync { items: get_entries(&mut reader, ITEMS_MAX)? }),
            kind => return Err(DecodeError::UnknownKind { kind }),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl Subscription {
    fn put(&self, kind: u8, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(kind);
        put_varint(out, u64::from(self.request));
        put_count(out, self.items.len(), ITEMS_MAX)?;
        for item in &self.items {
            out.push(item.channel.code());
            put_text(out, &item.pattern, PATTERN_BYTES_MAX)?;
        }
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let request = reader.u32()?;
        let count = reader.count(ITEMS_MAX, ITEM_BYTES_MIN)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(SubscriptionItem { channel: Channel::get(reader)?, pattern: reader.text(PATTERN_BYTES_MAX)? });
        }
        Ok(Self { request, items })
    }
}

pub(crate) fn put_entries(out: &mut Vec<u8>, entries: &[(Channel, u32)], max: usize) -> Result<(), EncodeError> {
    put_count(out, entries.len(), max)?;
    for (channel, id) in entries {
        out.push(channel.code());
        put_varint(out, u64::from(*id));
    }
    Ok(())
}

pub(crate) fn get_entries(reader: &mut Reader<'_>, max: usize) -> Result<Vec<(Channel, u32)>, DecodeError> {
    let count = reader.count(max, ITEM_BYTES_MIN)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push((Channel::get(reader)?, reader.u32()?));
    }
    Ok(entries)
}
