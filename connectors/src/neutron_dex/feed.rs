//! From blocks to events.
//!
//! Never: half a block of one pair.

use crate::venue_feed::{Arrival, Books, FeedCounts, Undecodable, VenueFeed, listings::Listings, numbered::Numbered};
use market::{Event, Venue};
use std::sync::Arc;

/// The decoder of Neutron's exchange module.
#[derive(Debug)]
pub struct Feed {
    books: Numbered,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { books: Numbered::new(Venue::NeutronDex, listings) }
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> FeedCounts {
        self.books.counts()
    }
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        Venue::NeutronDex
    }

    fn books(&self) -> &dyn Books {
        &self.books
    }

    fn books_mut(&mut self) -> &mut dyn Books {
        &mut self.books
    }

    fn message(&mut self, _arrival: Arrival<'_>, _text: &str, _out: &mut Vec<Event>) -> Result<(), Undecodable> {
        Err(Undecodable::Binary { venue: Venue::NeutronDex })
    }
}
