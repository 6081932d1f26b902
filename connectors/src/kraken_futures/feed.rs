//! The feed.
//!
//! Never: -

use crate::venue_feed::{Arrival, FeedCounts, Undecodable, VenueFeed, listings::Listings};
use market::{Event, Venue};
use std::sync::Arc;

/// The decoder.
#[derive(Debug)]
pub struct Feed {
    counts: FeedCounts,
}

impl Feed {
    /// A feed that lists its instruments there.
    #[must_use]
    pub fn new(_listings: Arc<Listings>) -> Self {
        Self { counts: FeedCounts::default() }
    }
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        Venue::KrakenFutures
    }

    fn message(&mut self, _arrival: Arrival<'_>, _text: &str, _out: &mut Vec<Event>) -> Result<(), Undecodable> {
        Ok(())
    }

    fn counts_mut(&mut self) -> &mut FeedCounts {
        &mut self.counts
    }

    fn counts(&self) -> FeedCounts {
        self.counts
    }
}
