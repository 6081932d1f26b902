//! What a venue's checksum is worth: one that fails once means a wrong book; one that fails on book after book is itself
//! wrong, and must not keep an instrument off the screen.
//!
//! Never: a failure that is not counted.

/// Books that failed in a row after which the check is put aside.
pub(crate) const FAILURES_MAX: u32 = 5;

/// Matches in a row after which failures before are forgotten, and a check that was put aside counts again.
pub(crate) const MATCHES_MIN: u32 = 20;

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
    pub(crate) fn judge(&mut self, matched: bool) -> Judgement {
        if matched {
            self.matches = self.matches.saturating_add(1);
            if self.matches >= MATCHES_MIN {
                (self.failures, self.aside) = (0, false);
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

    #[test]
    fn one_mismatch_is_one_resync() {
        let mut check = Check::default();
        assert_eq!(check.judge(false), Judgement::Wrong);
        for _ in 0..MATCHES_MIN {
            assert_eq!(check.judge(true), Judgement::Right);
        }
        assert_eq!(check.judge(false), Judgement::Wrong, "the one before is forgotten");
    }

    #[test]
    fn a_check_that_always_fails_is_put_aside_and_comes_back() {
        let mut check = Check::default();
        let judged: Vec<_> = (0..7).map(|_| check.judge(false)).collect();
        use Judgement::{PutAside, Tolerated, Wrong};
        assert_eq!(judged, [Wrong, Wrong, Wrong, Wrong, PutAside, Tolerated, Tolerated]);
        assert!(check.aside);
        for _ in 0..MATCHES_MIN {
            check.judge(true);
        }
        assert!(!check.aside);
        assert_eq!(check.judge(false), Wrong);
    }
}
