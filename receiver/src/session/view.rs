//! Reading a session: what is shown of each instrument and pair, by name.
//!
//! Never: a change; a LIVE that the link does not vouch for.

use super::{Counters, InstrumentState, Session};
use crate::{book::Book, notice::Link, trades::ShownTrade};
use market::{Best, Feed, FeedState, Quote, Scale, Version};

/// The shown quote of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownQuote {
    /// The version of the book that it was taken from.
    pub version: Version,
    /// The steps that its numbers are in.
    pub scale: Scale,
    /// The best levels.
    pub quote: Quote,
}

/// Everything that is shown of an instrument.
#[derive(Clone, Copy, Debug)]
pub struct InstrumentView<'a> {
    /// `venue/symbol`.
    pub name: &'a str,
    /// The book.
    pub book: Option<&'a Book>,
    /// The quote.
    pub quote: Option<&'a ShownQuote>,
    /// The last trade.
    pub last_trade: Option<&'a ShownTrade>,
    /// Feed state and shape; STALE in place of LIVE whenever nothing vouches for it: the link is not up, or frames that
    /// wait for the server's cuts are missing and the instrument's own priority chain is silent too.
    pub feed: Feed,
    /// Time since the venue was last heard about it, in milliseconds, if it ever was.
    pub age_ms: Option<u64>,
    /// The book or the quote is from a former chain, which the present ones have not reached.
    pub catching_up: bool,
}

impl Session {
    /// Everything shown of an instrument, by its `venue/symbol`.
    #[must_use]
    pub fn view(&self, name: &str, now_ms: u64) -> Option<InstrumentView<'_>> {
        let state = self.instrument(name)?;
        let mut feed = state.feed;
        if feed.state == FeedState::Live && (self.link(now_ms) != Link::Up || !self.vouches(state, now_ms)) {
            feed.state = FeedState::Stale;
        }
        Some(InstrumentView {
            name: &state.name,
            book: state.books.book(),
            quote: state.quote.as_ref(),
            last_trade: state.trades.last(),
            feed,
            age_ms: state.heard.map(|(age, at)| age.saturating_add(now_ms.saturating_sub(at))),
            catching_up: state.books.is_kept() || state.quote_kept,
        })
    }

    /// The shown book of an instrument, by its `venue/symbol`.
    #[must_use]
    pub fn book(&self, name: &str) -> Option<&Book> {
        self.instrument(name)?.books.book()
    }

    /// The shown quote of an instrument, by its `venue/symbol`.
    #[must_use]
    pub fn quote(&self, name: &str) -> Option<&ShownQuote> {
        self.instrument(name)?.quote.as_ref()
    }

    /// The last trade of an instrument, by its `venue/symbol`.
    #[must_use]
    pub fn last_trade(&self, name: &str) -> Option<&ShownTrade> {
        self.instrument(name)?.trades.last()
    }

    /// The best of a pair, by its `ASSET/ASSET`, as the present or last server told it.
    #[must_use]
    pub fn best(&self, name: &str) -> Option<&Best> {
        let at = self.pair_by_name.get(name)?;
        self.pairs.get(*at)?.best.as_ref()
    }

    /// Feed state and shape of an instrument; STALE whenever the link is not up.
    #[must_use]
    pub fn feed(&self, name: &str, now_ms: u64) -> Option<Feed> {
        self.view(name, now_ms).map(|view| view.feed)
    }

    /// Time since the venue was last heard about an instrument, in milliseconds.
    #[must_use]
    pub fn age_ms(&self, name: &str, now_ms: u64) -> Option<u64> {
        self.view(name, now_ms)?.age_ms
    }

    /// The names of all instruments ever listed, in the order of their appearance.
    pub fn instruments(&self) -> impl ExactSizeIterator<Item = &str> {
        self.instruments.iter().map(|state| &*state.name)
    }

    /// What was refused or repaired.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn instrument(&self, name: &str) -> Option<&InstrumentState> {
        self.instruments.get(*self.by_name.get(name)?)
    }
}
