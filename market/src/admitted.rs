//! What the guard admitted: the history that the store keeps.
//!
//! Never: an update that was refused, or one without its version.

use crate::{LegId, Scale, SymbolId, TickChange, Trade, Version};

/// The changes of one admitted venue event, all under one version; of a block, each under that of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedChanges {
    /// The instrument.
    pub symbol: SymbolId,
    /// The version that the changes brought it to.
    pub version: Version,
    /// When we received the event, Unix nanoseconds of our clock.
    pub received_ns: u64,
    /// The venue's own time, Unix nanoseconds; 0 where it gives none.
    pub venue_ns: u64,
    /// The steps that the numbers are in.
    pub scale: Scale,
    /// The changes. If `whole`, every live tick and the deaths that the snapshot caused.
    pub changes: Vec<TickChange>,
    /// Of a block: the position of each change. Empty where all are of `version`.
    pub places: Vec<u64>,
    /// The leg that carried it.
    pub leg: LegId,
    /// The event was a snapshot: a tick that is not among the changes is dead.
    pub whole: bool,
    /// The close of the cut with which they are shown, Unix nanoseconds; 0 as long as that is not known.
    pub shown_ns: u64,
}

/// A trade as the store keeps it, the late ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedTrade {
    /// The instrument.
    pub symbol: SymbolId,
    /// When we received it, Unix nanoseconds of our clock.
    pub received_ns: u64,
    /// The steps that its numbers are in.
    pub scale: Scale,
    /// The trade.
    pub trade: Trade,
}

impl AdmittedChanges {
    /// Bytes that the changes occupy while queued.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let changes = self.changes.len().saturating_mul(size_of::<TickChange>());
        let places = self.places.len().saturating_mul(size_of::<u64>());
        u64::try_from(changes.saturating_add(places).saturating_add(size_of::<Self>())).unwrap_or(u64::MAX)
    }
}
