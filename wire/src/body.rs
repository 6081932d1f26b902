//! The body of an HTTP answer in the wire's own bytes: a dictionary and one frame, each with its length before it.
//! Numbers of instruments and pairs mean something within the body alone.
//!
//! Never: a block whose number the body's own dictionary does not name, as a server writes it; a decoder must expect one.

use crate::{
    bounds::MESSAGE_BYTES_MAX,
    dictionary::Dictionary,
    error::{DecodeError, EncodeError},
    frame::Frame,
    message::ToTerminal,
    varint::{Reader, put_varint},
};
use bytes::Bytes;

/// The media type of such a body.
pub const MEDIA_TYPE: &str = "application/vnd.sprag.v1";

/// Books as HTTP tells them in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// What the numbers of the frame mean.
    pub dictionary: Dictionary,
    /// The books, each as a snapshot.
    pub frame: Frame,
}

impl Body {
    /// The bytes of the body.
    ///
    /// # Errors
    /// [`EncodeError`] if one of the two is outside what the wire allows.
    pub fn encode(self) -> Result<Bytes, EncodeError> {
        let mut out = Vec::new();
        for message in [ToTerminal::Dictionary(self.dictionary), ToTerminal::Frame(self.frame)] {
            let bytes = message.encode()?;
            put_varint(&mut out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            out.extend_from_slice(&bytes);
        }
        Ok(out.into())
    }

    /// The body of exactly these bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly a dictionary and a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let (first, second) = (message(&mut reader)?, message(&mut reader)?);
        reader.finish()?;
        let ToTerminal::Dictionary(dictionary) = ToTerminal::decode(first)? else { return Err(unexpected(first)) };
        let ToTerminal::Frame(frame) = ToTerminal::decode(second)? else { return Err(unexpected(second)) };
        Ok(Self { dictionary, frame })
    }
}

fn message<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = reader.varint()?;
    let too_long =
        DecodeError::MessageTooLong { bytes: usize::try_from(length).unwrap_or(usize::MAX), max: MESSAGE_BYTES_MAX };
    let length = usize::try_from(length).ok().filter(|length| *length <= MESSAGE_BYTES_MAX).ok_or(too_long)?;
    reader.take(length)
}

/// A message of another kind than stands in this place.
fn unexpected(message: &[u8]) -> DecodeError {
    message.first().map_or(DecodeError::Truncated, |kind| DecodeError::UnknownKind { kind: *kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, BookSnapshot, ChainKind, DictionaryInstrument, DictionaryPair};
    use market::{Feed, Level, Scale, U256, Venue, Version};

    fn body() -> Body {
        let instrument = DictionaryInstrument {
            id: 0,
            venue: Venue::BinanceSpot,
            symbol: "BTCUSDT".into(),
            asset_0: "BTC".into(),
            asset_1: "USDT".into(),
            pair: 0,
        };
        let pair = DictionaryPair { id: 0, asset_0: "BTC".into(), asset_1: "USDT".into() };
        let snapshot = BookSnapshot {
            id: 0,
            version: Version::new(1, 9_007_199_254_740_993),
            scale: Scale { price: -2, quantity: -8 },
            feed: Feed::default(),
            age_ms: 12,
            horizon: [Some(6_173_700), None],
            bids: vec![Level { tick_index: 6_173_763, quantity: U256::MAX }],
            asks: Vec::new(),
        };
        let blocks = vec![Block::BookSnapshot(snapshot)];
        Body {
            dictionary: Dictionary { generation: 0, instruments: vec![instrument], pairs: vec![pair] },
            frame: Frame { chain: ChainKind::Conflated, frame: 0, at_ms: 1_700_000_000_000, blocks },
        }
    }

    #[test]
    fn a_body_is_what_it_was() {
        let bytes = body().encode().unwrap();
        assert_eq!(Body::decode(&bytes), Ok(body()));
    }

    #[test]
    fn any_part_of_a_body_is_an_error_and_so_is_more() {
        let bytes = body().encode().unwrap();
        for end in 0..bytes.len() {
            assert!(Body::decode(&bytes[..end]).is_err(), "{end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Body::decode(&longer), Err(DecodeError::Trailing { bytes: 1 }));
    }

    #[test]
    fn messages_of_another_kind_and_of_any_length_are_refused() {
        let whole = body().encode().unwrap();
        let first = usize::from(whole[0]) + 1;
        let swapped = [&whole[first..], &whole[..first]].concat();
        assert_eq!(Body::decode(&swapped), Err(DecodeError::UnknownKind { kind: 3 }));
        let mut long = Vec::new();
        put_varint(&mut long, u64::MAX);
        assert!(matches!(Body::decode(&long), Err(DecodeError::MessageTooLong { .. })));
    }
}
