//! A leg: one connection to a venue, with the faults of a link.
//!
//! Never: a message of a connection that has ended.

use super::{
    chance::Chance,
    setup::{LegLink, MS},
};
use market::{LegId, Venue};

/// How long after its time a message arrives that later ones overtake, nanoseconds.
pub(super) const OVERTAKEN_NS: u64 = 120 * MS;

/// The state of a leg.
#[derive(Clone, Debug)]
pub(super) struct LegState {
    pub(super) id: LegId,
    pub(super) venue: Venue,
    pub(super) link: LegLink,
    /// Rises with every opening and every end.
    pub(super) generation: u64,
    pub(super) up: bool,
    /// The venue cannot be reached over it.
    pub(super) barred: bool,
    /// Open, but nothing comes.
    pub(super) mute: bool,
    /// So many of the next messages are lost.
    pub(super) lose: u32,
    last_ns: u64,
}

impl LegState {
    pub(super) fn new(id: LegId, venue: Venue, link: LegLink) -> Self {
        let (generation, lose, last_ns) = (0, 0, 0);
        Self { id, venue, link, generation, up: false, barred: false, mute: false, lose, last_ns }
    }

    /// When a message that leaves now arrives: not at all, once, or twice; a reliable one once and in order.
    pub(super) fn arrivals(&mut self, now_ns: u64, reliable: bool, chance: &mut Chance) -> Vec<u64> {
        if reliable {
            self.last_ns = now_ns.saturating_add(chance.between(self.link.delay_ns)).max(self.last_ns);
            return vec![self.last_ns];
        }
        let lost = self.lose > 0 || chance.in_256(self.link.lost_in_256);
        self.lose = self.lose.saturating_sub(1);
        let at_ns = now_ns.saturating_add(chance.between(self.link.delay_ns)).max(self.last_ns);
        if lost {
            return Vec::new();
        }
        // What is out of order or comes twice has ids to tell; without them only a connection's own order does.
        let (doubled, overtaken) = match self.venue {
            Venue::BinanceSpot => (self.link.doubled_in_256, self.link.overtaken_in_256),
            _ => (0, 0),
        };
        let mut arrivals = if chance.in_256(overtaken) {
            vec![at_ns.saturating_add(chance.below(OVERTAKEN_NS))]
        } else {
            self.last_ns = at_ns;
            vec![at_ns]
        };
        if chance.in_256(doubled) {
            arrivals.push(at_ns.saturating_add(chance.below(OVERTAKEN_NS)));
        }
        arrivals
    }
}
