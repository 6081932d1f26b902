//! Captures of block results, as blocks follow each other in them: a capture names no predecessors, so each block joins the
//! one before it.
//!
//! Never: a block over one that could not be read, until everything between is there.

use super::{At, BlockFeed};
use crate::neutron_dex::message::decode_block;
use crate::venue_feed::{Arrival, Books, FeedCounts, Undecodable, VenueFeed, listings::Listings};
use market::{Body, Event, LegId, Venue, batch};
use std::sync::Arc;

/// In the address of a request for the results of a block.
const BLOCK_RESULTS: &str = "block_results";

/// The decoder of captured block results.
#[derive(Debug)]
pub struct Feed {
    blocks: BlockFeed,
    counts: FeedCounts,
    /// Height of the last block that was delivered.
    last: Option<u64>,
    hole: Option<Hole>,
}

/// A block could not be read.
#[derive(Clone, Copy, Debug)]
struct Hole {
    /// On which leg.
    leg: LegId,
    /// The height up to which all must come, one by one, before the stream goes on.
    up_to: u64,
}

impl Feed {
    /// A feed that lists its instruments and numbers its tranches there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        let tranches = Arc::clone(listings.tranches());
        let blocks = BlockFeed::new(listings, tranches, LegId(0));
        Self { blocks, counts: FeedCounts::default(), last: None, hole: None }
    }

    fn block(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let undecodable = |source| Undecodable::Block { venue: Venue::NeutronDex, source };
        let block = decode_block(text.as_bytes()).map_err(undecodable)?;
        if self.last.is_some_and(|last| block.height <= last) {
            self.counts.passed += 1;
            return Ok(());
        }
        let next = self.last.map_or(block.height, |last| last.saturating_add(1));
        if let Some(hole) = &mut self.hole
            && block.height != next
        {
            hole.up_to = block.height.max(hole.up_to);
            self.counts.missing += 1;
            return Ok(());
        }
        let before = self.last.or(block.height.checked_sub(1));
        let at = At { received_ns: arrival.frame.ts_ns, venue_ns: 0, from: before.map_or(0, batch::end_of) };
        self.blocks.leg = arrival.leg;
        self.blocks.deliver(&block, at, out)?;
        self.last = Some(block.height);
        if let Some(hole) = self.hole.take_if(|hole| block.height >= hole.up_to) {
            out.push(Event::of_leg(0, hole.leg, arrival.frame.ts_ns, Body::Filled));
        }
        Ok(())
    }
}

impl Books for Feed {
    fn counts(&self) -> FeedCounts {
        self.counts
    }

    fn counts_mut(&mut self) -> &mut FeedCounts {
        &mut self.counts
    }

    /// Blocks are the chain's, whichever connection brings them.
    fn reconnected(&mut self, _arrival: Arrival<'_>, _out: &mut Vec<Event>) {}

    /// A pair without changes is no pair whose subscription is dead.
    fn look_after(&mut self, _leg: LegId, _now_ns: u64) {}

    /// Nothing is subscribed to by pairs.
    fn repairs(&mut self) -> Vec<(LegId, Box<str>)> {
        Vec::new()
    }
}

impl VenueFeed for Feed {
    fn venue(&self) -> Venue {
        Venue::NeutronDex
    }

    fn books(&self) -> &dyn Books {
        self
    }

    fn books_mut(&mut self) -> &mut dyn Books {
        self
    }

    fn message(&mut self, arrival: Arrival<'_>, text: &str, out: &mut Vec<Event>) -> Result<(), Undecodable> {
        let taken = self.block(arrival, text, out);
        // What came before the first block is nothing that it was to join.
        if let (Err(_), Some(last), None) = (&taken, self.last, self.hole) {
            let leg = arrival.leg;
            self.hole = Some(Hole { leg, up_to: last.saturating_add(1) });
            out.push(Event::of_leg(0, leg, arrival.frame.ts_ns, Body::Hole));
        }
        taken
    }

    fn reply(
        &mut self,
        arrival: Arrival<'_>,
        url: Option<&str>,
        text: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        if url.is_some_and(|url| !url.contains(BLOCK_RESULTS)) {
            self.counts.ignored += 1;
            return Ok(());
        }
        self.message(arrival, text, out)
    }
}
