//! What connectors hand to the lanes: one decoded venue event, already in exact steps.
//!
//! Never: a venue's raw text; a decision about order, which is the guard's.

use crate::{PairId, Scale, SymbolId, TickChange, Trade, Venue, Version, Views, guard::BreakReason};
use serde::{Deserialize, Serialize};

/// One of the redundant connections to a venue stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LegId(pub u16);

/// Where an event stands in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sequence {
    /// The venue's own update ids, both ends included; a snapshot has both the same. With `first` one above `last` it is
    /// an assurance: no update, but the word that there is none after `last`.
    Venue {
        /// First update id that the event covers.
        first: u64,
        /// Last update id that the event covers.
        last: u64,
    },
    /// No venue id: the arrival order, strictly increasing, with gaps allowed.
    Arrival(u64),
}

impl Sequence {
    /// The sequence number that the event brings its stream to.
    #[must_use]
    pub const fn last(self) -> u64 {
        match self {
            Self::Venue { last, .. } => last,
            Self::Arrival(seq) => seq,
        }
    }

    /// Whether it is no update, but the venue's word that there is none after `last`.
    #[must_use]
    pub const fn is_assurance(self) -> bool {
        matches!(self, Self::Venue { first, last } if first > last)
    }
}

/// How much of the venue's book a stream carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Window {
    /// The whole book.
    #[default]
    Whole,
    /// The best N levels of each side; what leaves the window dies.
    Best(u32),
    /// The whole book, but a snapshot knows only N levels a side; beyond them is a horizon.
    Known(u32),
}

/// The whole state of a book at a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its position.
    pub sequence: Sequence,
    /// The steps that its numbers are in.
    pub scale: Scale,
    /// Every live tick; of several at one key the last counts.
    pub ticks: Vec<TickChange>,
    /// How much of the book it is.
    pub window: Window,
}

/// Changes of a book, all under one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Its position.
    pub sequence: Sequence,
    /// The steps that its numbers are in.
    pub scale: Scale,
    /// The changes, in the venue's order.
    pub changes: Vec<TickChange>,
    /// Of a block: the position of each change, rising, the last one that of the sequence. Empty where all changes are of
    /// the sequence's last position.
    pub places: Vec<u64>,
    /// The window that holds after them.
    pub window: Window,
}

/// Introduces an instrument to its lane, before anything else of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Its venue.
    pub venue: Venue,
    /// Its pair across venues.
    pub pair: PairId,
    /// The epoch that its first book opens in.
    pub epoch: u64,
    /// Where its new epochs are taken from: the block that is reserved for this start.
    pub block: u64,
    /// The standing views of its pair.
    pub views: Views,
}

/// A live tick as it was kept, with the version of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredTick {
    /// The tick.
    pub tick: TickChange,
    /// The version of its last change.
    pub version: Version,
}

/// A book as it was kept: what a stream goes on from after a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Where the stream goes on: nothing at or below it is applied again.
    pub version: Version,
    /// The greatest version that was kept of any of its ticks; above `version` where the stream goes on from a log.
    /// Until the stream has reached it the instrument is SYNCING, and a tick takes nothing older than it has.
    pub through: Version,
    /// The steps of its numbers.
    pub scale: Scale,
    /// Every live tick; `None` if they are not known, and only that nothing at or below `version` may be shown.
    pub ticks: Option<Vec<RestoredTick>>,
    /// The stream goes on from a log, with nothing missing behind `version`; otherwise from a snapshot of the venue.
    pub from_log: bool,
    /// When the last event in it was received, Unix nanoseconds; its age is told from then.
    pub heard_ns: u64,
}

/// What an audit asks of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Comes back with the answer.
    pub ticket: u64,
    /// Whether every live tick is wanted, or the version alone.
    pub ticks: bool,
}

/// The kinds of event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// A new instrument.
    Listing(Listing),
    /// The book that was kept; once, right after the listing.
    Restored(Box<Restored>),
    /// A whole book.
    Snapshot(Snapshot),
    /// Changes of a book.
    Delta(Delta),
    /// Changes of a log stream that came when the stream had passed them by: the store gets them, nothing is shown of them.
    Late(Delta),
    /// A trade, in the steps named beside it.
    Trade {
        /// The steps that its numbers are in.
        scale: Scale,
        /// The trade.
        trade: Trade,
    },
    /// The connector knows that its view of this instrument is wrong.
    Broken(BreakReason),
    /// An audit wants to know what is shown of the instrument: its lane answers with the cut's close, and changes nothing.
    Copy(Ask),
    /// An audit found witnesses against what is shown of the instrument: it keeps its mark until a snapshot replaces it.
    Doubted,
    /// The leg carried something, a heartbeat perhaps; sent to every lane.
    LegHeard,
    /// The leg's connection was opened, perhaps again; sent to every lane.
    LegUp,
    /// The leg's connection ended; sent to every lane.
    LegDown,
    /// The venue says on this leg that its market stands still, for maintenance for instance; sent to every lane.
    Halted,
    /// The venue says on this leg that its market goes on; sent to every lane.
    Resumed,
    /// A batch of the leg's stream is missing: what is shown is right, and not the last there is; sent to every lane.
    Hole,
    /// Nothing is missing in the leg's stream any longer; sent to every lane.
    Filled,
    /// Every change of the leg's stream up to this position was sent before; sent to every lane, and told on by one.
    Through(u64),
    /// The input ends with this cut; sent to every lane, so that all of them settle at the same one.
    End,
}

/// One event of one leg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Whose lane it goes to; for leg events the worker's number.
    pub route: u64,
    /// The instrument; meaningless for leg events.
    pub symbol: SymbolId,
    /// The leg that carried it.
    pub leg: LegId,
    /// When we received it, Unix nanoseconds of our clock.
    pub received_ns: u64,
    /// The venue's own time, Unix nanoseconds of its clock; 0 where it gives none.
    pub venue_ns: u64,
    /// What it says.
    pub body: Body,
}

/// Spreads instruments over lanes; the high bits of a multiplicative hash, so that dense ids do not fall in step.
#[must_use]
pub fn route_of(symbol: SymbolId) -> u64 {
    u64::from(symbol.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

impl Event {
    /// An event of an instrument.
    #[must_use]
    pub fn of(symbol: SymbolId, leg: LegId, received_ns: u64, venue_ns: u64, body: Body) -> Self {
        Self { route: route_of(symbol), symbol, leg, received_ns, venue_ns, body }
    }

    /// An event of a whole leg, for the lane of the given worker.
    #[must_use]
    pub fn of_leg(worker: u64, leg: LegId, received_ns: u64, body: Body) -> Self {
        Self { route: worker, symbol: SymbolId(u32::MAX), leg, received_ns, venue_ns: 0, body }
    }

    /// Whether it is the whole book of a stream without ids of the venue, which one leg carries at a time.
    #[must_use]
    #[inline]
    pub fn begins_synthesized(&self) -> bool {
        matches!(&self.body, Body::Snapshot(Snapshot { sequence: Sequence::Arrival(_), .. }))
    }

    /// Bytes that the event occupies while queued, for flow control.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let (changes, places) = match &self.body {
            Body::Snapshot(snapshot) => (snapshot.ticks.len(), 0),
            Body::Delta(delta) | Body::Late(delta) => (delta.changes.len(), delta.places.len()),
            Body::Restored(restored) => (restored.ticks.as_ref().map_or(0, Vec::len).saturating_mul(2), 0),
            _ => (0, 0),
        };
        let held =
            changes.saturating_mul(size_of::<TickChange>()).saturating_add(places.saturating_mul(size_of::<u64>()));
        let bytes = size_of::<Self>().saturating_add(held);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}
