//! What each connection can vouch for: the ids that a diff covers, where the venue numbers nothing.
//!
//! A connection sees every diff from its subscription to its end, as far as anyone can know. So its diff covers what lies
//! above its own diff before:
//!
//! * The first diff of the stream at all covers everything before it: the snapshot is fetched after the subscription, so
//!   nothing lies between them but what the connection brings.
//! * The first diff of a later connection covers itself alone: what came while there was none is not known. It joins a
//!   snapshot that reaches it, or what another leg brings. So does the first after something that could not be read.
//! * Any other covers what lies above the one before it on its connection.
//!
//! What one leg vouches for, another may contradict, with a diff that lies inside. Then the first has lost that diff.
//!
//! Never: an id that one connection brought taken as the one before another's.

use market::LegId;
use std::collections::VecDeque;

/// Diffs of an instrument that are remembered, so that legs can be compared. The venue sends some 10 a second at most, so
/// that is half a minute by which one leg may be behind another.
const TOLD_MAX: usize = 256;

/// A diff that some leg brought, and what it covers by all that the legs say.
#[derive(Clone, Copy, Debug)]
struct Told {
    first: u64,
    last: u64,
}

/// Where a diff stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The ids that it covers, both ends included.
    pub(crate) covers: (u64, u64),
    /// What it says about the legs.
    pub(crate) word: Word,
}

/// What one leg's diff says about another leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Nothing.
    None,
    /// They agree.
    Agreed,
    /// A leg vouched that there is no such diff: it has lost it.
    Lost,
}

/// The legs of one instrument.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The last diff of each connection.
    legs: Vec<(LegId, u64)>,
    /// By id.
    told: VecDeque<Told>,
    /// What came before may be missing: there were diffs already, or a connection has ended.
    begun: bool,
}

impl Chain {
    /// A leg brings a diff.
    pub(crate) fn take(&mut self, leg: LegId, id: u64) -> Place {
        let known = self.legs.iter_mut().find(|(known, _)| *known == leg);
        let before = match known {
            Some((_, last)) => Some(std::mem::replace(last, id)),
            None => {
                self.legs.push((leg, id));
                None
            }
        };
        let first = match before {
            Some(before) if before < id => before.saturating_add(1),
            Some(before) => {
                // Twice the same, which the guard counts; or a new count, whose ids are not those remembered.
                if before > id {
                    self.told.clear();
                }
                return Place { covers: (id, id), word: Word::None };
            }
            None if self.begun => id,
            None => 1,
        };
        self.begun = true;
        Place { covers: (first, id), word: self.tell(first, id) }
    }

    fn tell(&mut self, first: u64, last: u64) -> Word {
        let at = match self.told.binary_search_by_key(&last, |told| told.last) {
            Ok(at) => {
                if let Some(told) = self.told.get_mut(at) {
                    told.first = told.first.min(first);
                }
                return Word::Agreed;
            }
            Err(at) => at,
        };
        let denied = self.told.get(at).is_some_and(|next| next.first <= last);
        self.told.insert(at, Told { first, last });
        if self.told.len() > TOLD_MAX {
            self.told.pop_front();
        }
        if denied { Word::Lost } else { Word::None }
    }

    /// A leg's connection ended, or brought something that could not be read: what follows begins anew.
    pub(crate) fn forget(&mut self, leg: LegId) {
        self.legs.retain(|(known, _)| *known != leg);
        self.begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::{Word::*, *};

    const A: LegId = LegId(0);
    const B: LegId = LegId(1);

    fn place(first: u64, last: u64, word: Word) -> Place {
        Place { covers: (first, last), word }
    }

    #[test]
    fn a_connection_vouches_for_what_lies_between_its_own_diffs() {
        let mut chain = Chain::default();
        assert_eq!(chain.take(A, 50), place(1, 50, None), "the first of all");
        assert_eq!(chain.take(A, 57), place(51, 57, None));
        assert_eq!(chain.take(B, 57), place(57, 57, Agreed), "the first of another connection");
        assert_eq!(chain.take(B, 90), place(58, 90, None));
        assert_eq!(chain.take(A, 90), place(58, 90, Agreed));
        chain.forget(A);
        assert_eq!(chain.take(A, 120), place(120, 120, None), "whatever came meanwhile");
        assert_eq!(chain.take(B, 100), place(91, 100, None), "which nobody has denied");
        assert_eq!(chain.take(B, 100), place(100, 100, None), "twice the same");
        assert_eq!(chain.take(B, 7), place(7, 7, None), "a new count");
    }

    #[test]
    fn a_diff_that_another_leg_has_passed_over_was_lost_there() {
        let mut chain = Chain::default();
        for id in [10, 20, 40] {
            chain.take(A, id);
        }
        let words: Vec<_> = [10, 20, 30, 40].map(|id| chain.take(B, id).word).into();
        assert_eq!(words, [Agreed, Agreed, Lost, Agreed]);
        // A loss that the other leg has filled already does no harm.
        for id in [50, 60, 70] {
            chain.take(A, id);
        }
        let words: Vec<_> = [50, 70].map(|id| chain.take(B, id).word).into();
        assert_eq!(words, [Agreed, Agreed]);
    }

    #[test]
    fn a_stream_whose_connection_ended_before_its_first_diff_has_missed_something() {
        let mut chain = Chain::default();
        chain.forget(A);
        assert_eq!(chain.take(A, 50), place(50, 50, None));
    }

    #[test]
    fn memory_stays_bounded() {
        let mut chain = Chain::default();
        for id in 1..1_000 {
            chain.take(A, id);
        }
        assert_eq!(chain.told.len(), TOLD_MAX);
        assert_eq!(chain.take(B, 5).word, None, "beyond memory nothing is known");
    }
}
