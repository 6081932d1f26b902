//! Why bytes are no message, and why a value cannot become bytes.
//!
//! Never: a panic instead; a text in place of a reason.

/// The bytes are not a message of this wire version. What follows: a terminal reconnects, the server closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within the message.
    #[error("the message ends too early")]
    Truncated,
    /// Bytes follow the message.
    #[error("{bytes} bytes follow the end of the message")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// The message is longer than its direction allows.
    #[error("the message has {bytes} bytes, more than {max}")]
    MessageTooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// No message of this direction begins with this byte.
    #[error("unknown message kind {kind:#04x}")]
    UnknownKind {
        /// The byte.
        kind: u8,
    },
    /// No block begins with this byte.
    #[error("unknown block kind {kind:#04x}")]
    UnknownBlock {
        /// The byte.
        kind: u8,
    },
    /// A varint of more than 64 bits, or more than its field holds.
    #[error("a number exceeds the range of its field")]
    NumberRange,
    /// One value has one encoding, and this is another one.
    #[error("a value is not in its canonical encoding")]
    NotCanonical,
    /// A quantity of more than 32 bytes.
    #[error("a quantity claims {bytes} bytes, more than 32")]
    QuantityTooLong {
        /// The claimed length.
        bytes: u8,
    },
    /// A text over its bound.
    #[error("a text claims {bytes} bytes, more than {max}")]
    TextTooLong {
        /// The claimed length.
        bytes: u64,
        /// The bound.
        max: usize,
    },
    /// A text that is no UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// A list over its bound.
    #[error("a list claims {count} entries, more than {max}")]
    TooMany {
        /// The claimed length.
        count: u64,
        /// The bound.
        max: usize,
    },
    /// A bit or code that version 1 does not define.
    #[error("{value} is no code of {what}")]
    UnknownCode {
        /// The field.
        what: &'static str,
        /// The code as sent.
        value: u64,
    },
    /// A venue that this build does not know.
    #[error("unknown venue")]
    UnknownVenue,
    /// Levels or changes out of their order, or two at one price.
    #[error("levels are out of order")]
    OutOfOrder,
    /// A level of a snapshot or quote without quantity.
    #[error("a level has no quantity")]
    ZeroQuantity,
    /// A delta that does not lead beyond its base.
    #[error("a delta does not lead beyond its base")]
    NotAfterBase,
}

/// The value is outside what the wire allows. It is a fault of the sender's own, never of the receiver's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A text over its bound.
    #[error("a text has {bytes} bytes, more than {max}")]
    TextTooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// A list over its bound.
    #[error("a list has {count} entries, more than {max}")]
    TooMany {
        /// Its length.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// Levels or changes out of their order, or two at one price.
    #[error("levels are out of order")]
    OutOfOrder,
    /// A level of a snapshot or quote without quantity.
    #[error("a level has no quantity")]
    ZeroQuantity,
    /// A delta that does not lead beyond its base.
    #[error("a delta does not lead beyond its base")]
    NotAfterBase,
    /// Dictionary ids that are not consecutive.
    #[error("dictionary ids are not consecutive")]
    NotDense,
    /// The message or block is longer than its bound; what it holds must be split.
    #[error("{bytes} bytes, more than {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        max: usize,
    },
}
