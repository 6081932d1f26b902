//! History by frames, where it is configured: changes of one tick that are shown within one frame are one row, the last.
//! The rules are those of [`super::conflated`]. A frame ends when a change of a later one comes, or after the age of a batch:
//! cuts come in their order, so nothing of a frame comes after the next one's first change; what comes later than that age is
//! a row of its own.
//!
//! Never: a gap noted; what is left out here is what the operator does not want.

use super::{
    conflated::{Conflated, Waiting},
    made::Made,
    options::FrameHistory,
};
use market::Venue;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Frames {
    of: Option<FrameHistory>,
    /// The frame that is being filled.
    current: u64,
    waiting: Waiting,
}

impl Frames {
    pub(super) fn new(of: Option<FrameHistory>) -> Self {
        Self { of: of.filter(|of| of.frame_ns > 0), ..Self::default() }
    }

    /// Whether a venue's history is kept by frames.
    pub(super) fn takes(&self, venue: Venue) -> bool {
        self.of.as_ref().is_some_and(|of| of.venues.contains(&venue))
    }

    /// Whether a change of this time begins another frame than the one that is being filled. The cut that closes with the
    /// frame belongs to it.
    pub(super) fn begins(&mut self, shown_ns: u64) -> bool {
        let frame_ns = self.of.as_ref().map_or(1, |of| of.frame_ns);
        let frame = shown_ns.saturating_sub(1).checked_div(frame_ns).unwrap_or(0);
        std::mem::replace(&mut self.current, frame) != frame
    }

    /// Takes an event; gives how many changes are no rows because of it.
    pub(super) fn take(&mut self, now_ns: u64, made: Made) -> u64 {
        self.waiting.take(now_ns, made)
    }

    /// What waits, one instrument after the other.
    pub(super) fn pop(&mut self) -> Option<Conflated> {
        self.waiting.pop()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.waiting.bytes()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.waiting.oldest_ns()
    }
}
