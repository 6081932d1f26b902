//! One symbol of Binance: its book by the venue's rules, the ids that are served, and what the last updates replaced.
//!
//! Never: an update over a hole.

use crate::simulator::{
    SimInstrument,
    serve::{
        faults::UPDATES_AGO_MAX,
        reference::{Book, Change, PriceKey, Prior, Side, Snapshot},
    },
};
use std::{borrow::Cow, collections::VecDeque};

/// Depth messages that may wait for a snapshot after a hole in a capture; with more, the next snapshot starts anew.
const HELD_MAX: usize = 10_000;

/// The ids of a depth message: `U`, `u` and, at USD-M, `pu`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) previous: Option<u64>,
}

impl Ids {
    /// Whether a newer message continues a book with this last id. Spot: `U` is at most the next id. USD-M, where ids are
    /// shared by all symbols: `pu` is the last id; after a snapshot, the message may have begun before it.
    const fn follows(self, last: u64, bridged: bool) -> bool {
        match self.previous {
            None => self.first <= last.saturating_add(1),
            Some(previous) if bridged => previous == last,
            Some(previous) => previous <= last,
        }
    }
}

/// What one update replaced.
struct Undo {
    /// The id before it.
    last: u64,
    priors: Vec<Prior>,
}

/// A depth message that waits for a snapshot.
struct Held {
    ids: Ids,
    bids: Box<str>,
    asks: Box<str>,
}

/// One symbol.
pub(in crate::simulator::serve) struct Instrument {
    pub(in crate::simulator::serve) listed: SimInstrument,
    book: Option<Snapshot>,
    /// What a capture's next round begins with.
    seed: Option<Snapshot>,
    /// Served ids are the internal ones plus this.
    pub(super) shift: i128,
    /// USD-M: when the book changed, as far as is known.
    pub(super) changed_ms: Option<u64>,
    undo: VecDeque<Undo>,
    /// An update followed the snapshot.
    bridged: bool,
    /// A hole was met: updates wait for the capture's next snapshot.
    broken: bool,
    held: Vec<Held>,
}

impl Instrument {
    pub(super) fn new(listed: SimInstrument) -> Self {
        let (undo, held) = (VecDeque::new(), Vec::new());
        Self { listed, book: None, seed: None, shift: 0, changed_ms: None, undo, bridged: false, broken: false, held }
    }

    pub(super) fn served(&self, id: u64) -> u64 {
        u64::try_from(i128::from(id).saturating_add(self.shift)).unwrap_or(0)
    }

    /// The book as served now.
    pub(in crate::simulator::serve) fn snapshot(&self) -> Option<Snapshot> {
        let kept = self.book.as_ref()?;
        Some(Snapshot { last: self.served(kept.last), book: kept.book.clone() })
    }

    /// The book as it was some updates ago, as far back as is known.
    pub(super) fn snapshot_ago(&self, updates: u32) -> Option<Snapshot> {
        let mut kept = self.book.clone()?;
        for undo in self.undo.iter().rev().take(usize::try_from(updates).unwrap_or(usize::MAX)) {
            for prior in undo.priors.iter().rev() {
                kept.book.undo(prior.clone());
            }
            kept.last = undo.last;
        }
        Some(Snapshot { last: self.served(kept.last), book: kept.book })
    }

    /// The next change gets this id.
    pub(super) fn reset(&mut self, next: u64) {
        let last = self.book.as_ref().map_or(0, |kept| kept.last);
        self.shift = i128::from(next) - i128::from(last) - 1;
    }

    pub(super) fn restart(&mut self) {
        self.book.clone_from(&self.seed);
        self.shift = 0;
        self.changed_ms = None;
        (self.bridged, self.broken) = (false, false);
        self.undo.clear();
        self.held.clear();
    }

    /// A capture's first snapshot of the symbol: it answers REST until its own place is reached.
    pub(super) fn seed(&mut self, snapshot: Snapshot) {
        if self.seed.is_none() {
            self.book = Some(snapshot.clone());
            self.seed = Some(snapshot);
        }
    }

    pub(super) const fn book(&self) -> Option<&Snapshot> {
        self.book.as_ref()
    }

    /// The first book of the simulated market.
    pub(super) fn open(&mut self, book: Book, last: u64) {
        self.book = Some(Snapshot { last, book });
    }

    /// Rules 1 to 3 of a local book, with the snapshot known first. False when the message cannot be read.
    pub(super) fn update(&mut self, ids: Ids, bids: &str, asks: &str) -> bool {
        let Some(kept) = &mut self.book else { return true };
        if self.broken {
            if self.held.len() >= HELD_MAX {
                self.held.clear();
            }
            self.held.push(Held { ids, bids: bids.into(), asks: asks.into() });
            return true;
        }
        if ids.last <= kept.last {
            return true;
        }
        if !ids.follows(kept.last, self.bridged) {
            self.broken = true;
            self.held.push(Held { ids, bids: bids.into(), asks: asks.into() });
            return true;
        }
        let Some(priors) = apply(&mut kept.book, bids, asks) else { return false };
        if self.undo.len() >= usize::try_from(UPDATES_AGO_MAX).unwrap_or(usize::MAX) {
            self.undo.pop_front();
        }
        self.undo.push_back(Undo { last: kept.last, priors });
        kept.last = ids.last;
        self.bridged = true;
        true
    }

    /// A snapshot in a capture: the first one, or one that heals a hole.
    pub(super) fn heal(&mut self, snapshot: Snapshot) {
        let reaches = self.held.first().is_none_or(|held| held.ids.follows(snapshot.last, false));
        let newer = self.book.as_ref().is_none_or(|kept| snapshot.last >= kept.last);
        if self.book.is_some() && !(self.broken && reaches && newer) {
            return;
        }
        self.book = Some(snapshot);
        self.undo.clear();
        (self.bridged, self.broken) = (false, false);
        for held in std::mem::take(&mut self.held) {
            self.update(held.ids, &held.bids, &held.asks);
        }
    }
}

/// The levels of one side of a message.
pub(super) fn levels(raw: &str) -> Option<Vec<[Cow<'_, str>; 2]>> {
    serde_json::from_str(raw).ok()
}

pub(super) fn changes<'a>(side: Side, levels: &'a [[Cow<'a, str>; 2]]) -> Option<Vec<Change<'a>>> {
    let change =
        |[price, quantity]: &'a [Cow<'a, str>; 2]| Some(Change { side, key: PriceKey::read(price)?, price, quantity });
    levels.iter().map(change).collect()
}

/// All of a message or nothing of it.
fn apply(book: &mut Book, bids: &str, asks: &str) -> Option<Vec<Prior>> {
    let (bids, asks) = (levels(bids)?, levels(asks)?);
    let all = [changes(Side::Bid, &bids)?, changes(Side::Ask, &asks)?].concat();
    Some(all.iter().map(|change| book.apply(change)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_market_has_its_own_rule() {
        let ids = |first, last, previous| Ids { first, last, previous };
        assert!(ids(11, 12, None).follows(10, true) && !ids(12, 12, None).follows(10, true));
        assert!(ids(15, 17, Some(10)).follows(10, true), "other symbols had 11 to 14");
        assert!(!ids(15, 17, Some(13)).follows(10, true) && !ids(15, 17, Some(9)).follows(10, true));
        assert!(ids(15, 17, Some(9)).follows(16, false), "a snapshot in its middle");
    }
}
