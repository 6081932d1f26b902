//! What a lane tells an audit of an instrument: all that it shows of it at the close of a cut, tick by tick.
//!
//! Never: made unasked; half an event.

use market::{FeedState, Scale, SymbolId, TickChange, Version};

/// An instrument as its lane has it when a cut has closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookCopy {
    /// The question's.
    pub ticket: u64,
    /// The instrument.
    pub symbol: SymbolId,
    /// The version that its book stands at; none before the first book, or where the lane does not know the instrument.
    pub version: Option<Version>,
    /// The steps of the ticks.
    pub scale: Scale,
    /// What is shown of its feed.
    pub state: FeedState,
    /// The book is still the one that was kept over the start: nothing of this process has changed it.
    pub restored: bool,
    /// How often a snapshot has replaced the book in this process.
    pub rebuilds: u64,
    /// Every live tick, bids first; none if they were not asked for.
    pub ticks: Vec<TickChange>,
}

impl BookCopy {
    /// The answer of a lane that does not know the instrument.
    #[must_use]
    pub fn unknown(ticket: u64, symbol: SymbolId) -> Self {
        Self {
            ticket,
            symbol,
            version: None,
            scale: Scale::default(),
            state: FeedState::Syncing,
            restored: false,
            rebuilds: 0,
            ticks: Vec::new(),
        }
    }
}
