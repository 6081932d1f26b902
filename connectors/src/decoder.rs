//! From raw frames of any venue to events: legs by connection, signs of life, and dead letters.
//!
//! Never: a frame dropped without a count.

use crate::{
    raw::{RawFrame, RawKind},
    venue_feed::{self, Arrival, FeedCounts, Undecodable, VenueFeed, listings::Listings},
};
use market::{Body, Event, LegId, Venue};
use std::sync::Arc;

/// At most one sign of life per leg in this time; a tenth of the least silence that makes a feed stale, so the
/// detection is that much late at most.
const HEARD_EVERY_NS: u64 = 200_000_000;

#[derive(Debug)]
struct Leg {
    conn: Arc<str>,
    venue: Venue,
    heard_ns: Option<u64>,
}

/// The decoders of all venues of a source.
pub struct Decoder {
    listings: Arc<Listings>,
    feeds: Vec<(Venue, Box<dyn VenueFeed>)>,
    legs: Vec<Leg>,
}

impl Decoder {
    /// A decoder that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { listings, feeds: Vec::new(), legs: Vec::new() }
    }

    /// Decodes one frame, pushing its events to `out`.
    ///
    /// # Errors
    /// [`Undecodable`]: the frame is a dead letter. Events pushed before it still hold.
    pub fn decode(
        &mut self,
        venue: Venue,
        frame: &RawFrame,
        position: u64,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let leg = self.leg(venue, frame, out);
        let at = match self.feeds.iter().position(|(known, _)| *known == venue) {
            Some(at) => at,
            None => {
                self.feeds.push((venue, venue_feed::open(venue, Arc::clone(&self.listings))));
                self.feeds.len() - 1
            }
        };
        match self.feeds.get_mut(at) {
            Some((_, feed)) => feed.decode(Arrival { frame, position, leg }, out),
            None => Ok(()),
        }
    }

    /// Legs are the connections in the order of their first frame.
    fn leg(&mut self, venue: Venue, frame: &RawFrame, out: &mut Vec<Event>) -> LegId {
        let at = match self.legs.iter().position(|leg| leg.conn == frame.conn && leg.venue == venue) {
            Some(at) => at,
            None => {
                self.legs.push(Leg { conn: Arc::clone(&frame.conn), venue, heard_ns: None });
                self.legs.len() - 1
            }
        };
        let id = LegId(u16::try_from(at).unwrap_or(u16::MAX));
        let due = |leg: &&mut Leg| leg.heard_ns.is_none_or(|heard| frame.ts_ns >= heard.saturating_add(HEARD_EVERY_NS));
        if let Some(leg) = self.legs.get_mut(at).filter(|_| frame.kind == RawKind::Ws).filter(due) {
            leg.heard_ns = Some(frame.ts_ns);
            out.push(Event::of_leg(0, id, frame.ts_ns, Body::LegHeard));
        }
        id
    }

    /// Counts per venue.
    pub fn counts(&self) -> impl Iterator<Item = (Venue, FeedCounts)> + '_ {
        self.feeds.iter().map(|(venue, feed)| (*venue, feed.counts()))
    }
}
