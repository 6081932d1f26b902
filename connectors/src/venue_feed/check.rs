//! What a venue's checksum is worth: one that fails once means a wrong book; one that fails on book after book, without one
//! change after which it was right, is itself wrong, and must not keep an instrument off the screen. A leg that really
//! loses messages has changes that are right between its losses.
//!
//! Never: a failure that is not counted.

/// Books that failed in a row, with no right change between them, after which the check is put aside.
pub(crate) const FAILURES_MAX: u32 = 5;

/// Right changes in a row after which a check that was put aside counts again.
pub(crate) const MATCHES_MIN: u32 = 20;

/// What a comparison is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A whole book: that it is right says nothing of how changes are applied.
    Whole,
    /// A book after a change.
    Change,
}

/// What follows from one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The book is right, as far as can be known.
    Right,
    /// The book is wrong: it must be built anew.
    Wrong,
    /// The check is put aside just now: a person should look.
    PutAside,
    /// It failed again, but is put aside: the data are kept.
    Tolerated,
}

/// The check of one instrument.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Check {
    failures: u32,
    matches: u32,
    aside: bool,
}

impl Check {
    /// Judges one comparison.
    pub(crate) fn judge(&mut self, evidence: Evidence, matched: bool) -> Judgement {
        if matched {
            if evidence == Evidence::Change {
                self.failures = 0;
                self.matches = self.matches.saturating_add(1);
                self.aside &= self.matches < MATCHES_MIN;
            }
            return Judgement::Right;
        }
        self.matches = 0;
        self.failures = self.failures.saturating_add(1);
        match (self.aside, self.failures >= FAILURES_MAX) {
            (true, _) => Judgement::Tolerated,
            (false, true) => {
                self.aside = true;
                Judgement::PutAside
            }
            (false, false) => Judgement::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Evidence::{Change, Whole};
    use Judgement::{PutAside, Right, Tolerated, Wrong};

    #[test]
    fn one_mismatch_is_one_resync() {
        let mut check = Check::default();
        assert_eq!(check.judge(Change, false), Wrong);
        for _ in 0..MATCHES_MIN {
            assert_eq!(check.judge(Change, true), Right);
        }
        assert_eq!(check.judge(Change, false), Wrong, "the one before is forgotten");
    }

    #[test]
    fn a_check_that_always_fails_is_put_aside_and_comes_back() {
        let mut check = Check::default();
        // Each whole book is right, and each first change after it is not.
        let judged: Vec<_> = (0..7).map(|_| [check.judge(Whole, true), check.judge(Change, false)][1]).collect();
        assert_eq!(judged, [Wrong, Wrong, Wrong, Wrong, PutAside, Tolerated, Tolerated]);
        for _ in 0..MATCHES_MIN {
            assert!(check.aside);
            check.judge(Change, true);
        }
        assert!(!check.aside);
        assert_eq!(check.judge(Change, false), Wrong);
    }

    #[test]
    fn a_leg_that_loses_messages_again_and_again_is_wrong_each_time() {
        let mut check = Check::default();
        for _ in 0..100 {
            let judged = [check.judge(Whole, true), check.judge(Change, true), check.judge(Change, false)];
            assert_eq!(judged, [Right, Right, Wrong]);
        }
    }
}
