//! Books that came as the body of an HTTP answer, for those who want a state and no stream.
//!
//! Never: a book without its name and its mark.

use crate::Book;
use foldhash::HashMap;
use market::Feed;
use wire::{Block, Body, DecodeError};

/// The bytes are no books.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// They are no body.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A book has a number that the body's dictionary does not name.
    #[error("the number {id} has no name in this body")]
    UnknownId {
        /// The number.
        id: u32,
    },
}

/// One book of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpBook {
    /// `venue/symbol`.
    pub instrument: Box<str>,
    /// The book at its version.
    pub book: Book,
    /// State and shape when it was told.
    pub feed: Feed,
    /// Time since its venue was last heard then, in milliseconds.
    pub age_ms: u64,
}

/// The books of a body of type [`wire::MEDIA_TYPE`], in its order.
///
/// # Errors
/// [`BodyError`].
pub fn books_of(bytes: &[u8]) -> Result<Vec<HttpBook>, BodyError> {
    let Body { dictionary, frame } = Body::decode(bytes)?;
    let names: HashMap<u32, String> = dictionary.instruments.iter().map(|entry| (entry.id, entry.text())).collect();
    let snapshots = frame.blocks.iter().filter_map(|block| match block {
        Block::BookSnapshot(snapshot) => Some(snapshot),
        _ => None,
    });
    let book = |snapshot: &wire::BookSnapshot| {
        let name = names.get(&snapshot.id).ok_or(BodyError::UnknownId { id: snapshot.id })?;
        let (feed, age_ms) = (snapshot.feed, snapshot.age_ms);
        Ok(HttpBook { instrument: name.as_str().into(), book: Book::new(snapshot), feed, age_ms })
    };
    snapshots.map(book).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::Version;
    use wire::{BookSnapshot, ChainKind, Dictionary, Frame};

    #[test]
    fn a_book_without_a_name_is_no_book() {
        let snapshot = BookSnapshot {
            id: 7,
            version: Version::new(1, 1),
            scale: market::Scale { price: 0, quantity: 0 },
            feed: Feed::default(),
            age_ms: 0,
            horizon: [None; 2],
            bids: Vec::new(),
            asks: Vec::new(),
        };
        let dictionary = Dictionary { generation: 0, instruments: Vec::new(), pairs: Vec::new() };
        let blocks = vec![Block::BookSnapshot(snapshot)];
        let frame = Frame { chain: ChainKind::Conflated, frame: 0, at_ms: 0, blocks };
        let bytes = Body { dictionary, frame }.encode().unwrap();
        assert_eq!(books_of(&bytes), Err(BodyError::UnknownId { id: 7 }));
        assert_eq!(books_of(&[]), Err(BodyError::Decode(DecodeError::Truncated)));
    }
}
