//! What a session tells about each message.
//!
//! Never: a number of the wire in place of a name; numbers hold only within a generation.

use market::{Feed, Scale, Trade, Version};
use std::sync::Arc;
use wire::{Channel, ErrorCode, Hello};

/// The state of the connection to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Link {
    /// No connection.
    #[default]
    Down,
    /// Connected; the server has not said hello.
    Opening,
    /// Frames arrive.
    Up,
    /// Connected, but no frame for three heartbeats.
    Silent,
}

/// Something that a person or program at the terminal may want to know. Names are `venue/symbol`, `ASSET/ASSET` for a
/// pair, `VIEW/ASSET/ASSET` for a standing view of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The link's state changed.
    Link(Link),
    /// The server said hello.
    Hello(Hello),
    /// An instrument was not known before.
    Listed {
        /// Its name.
        instrument: Arc<str>,
    },
    /// The shown book moved to a version.
    BookChanged {
        /// The instrument.
        instrument: Arc<str>,
        /// What is shown now.
        version: Version,
    },
    /// The shown quote changed.
    QuoteChanged {
        /// The instrument.
        instrument: Arc<str>,
        /// What is shown now.
        version: Version,
    },
    /// A trade, newer than all before.
    Traded {
        /// The instrument.
        instrument: Arc<str>,
        /// The steps that its numbers are in.
        scale: Scale,
        /// The trade.
        trade: Trade,
    },
    /// The best of a pair changed.
    BestChanged {
        /// The pair.
        pair: Arc<str>,
    },
    /// A standing view of a pair changed.
    ViewChanged {
        /// The view of the pair.
        name: Arc<str>,
    },
    /// Feed state or flags changed.
    StatusChanged {
        /// The instrument.
        instrument: Arc<str>,
        /// What they are now.
        feed: Feed,
    },
    /// The server lost frames of this; a snapshot follows.
    Gap {
        /// The channel.
        channel: Channel,
        /// The instrument, pair, or view of a pair.
        name: Arc<str>,
    },
    /// A snapshot or quote older than what is shown came; it is not shown.
    RegressionRefused {
        /// The channel.
        channel: Channel,
        /// The instrument.
        instrument: Arc<str>,
        /// What came.
        offered: Version,
        /// What stays.
        shown: Version,
    },
    /// A chain broke; a snapshot was asked for.
    NeedsResync {
        /// The channel.
        channel: Channel,
        /// The instrument.
        instrument: Arc<str>,
    },
    /// A chain's book was not what the server's digest says; a snapshot was asked for.
    DigestMismatch {
        /// The instrument.
        instrument: Arc<str>,
        /// The version at which the books differ.
        version: Version,
    },
    /// A subscription request was carried out.
    Answered {
        /// Number of the request.
        request: u32,
        /// How many subscriptions its items name.
        matched: u32,
    },
    /// The server refused something.
    Refused {
        /// Number of the request, if it was readable.
        request: Option<u32>,
        /// The reason.
        code: ErrorCode,
        /// A sentence for a person.
        text: Box<str>,
    },
    /// A block names a number that the dictionary lacks; it was ignored.
    UnknownId {
        /// The number.
        id: u32,
    },
}
