//! Venues that number all messages of a connection: which legs missed one and must be made anew.
//!
//! Never: a number of one connection compared with that of another.

use market::LegId;

/// Messages in a row whose numbers were passed already after which the connection counts as one that began its numbers
/// anew without saying so: copies and late messages come in twos and threes.
const PASSED_MAX: u32 = 64;

/// What a message's number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It follows the one before, or is the first.
    Next,
    /// So many are missing before it.
    Missing(u64),
    /// It came before, or too late: its place was passed.
    Passed,
}

/// How far a leg is.
#[derive(Clone, Copy, Debug)]
struct Last {
    leg: LegId,
    number: u64,
    /// Messages in a row that did not go beyond it.
    passed: u32,
}

/// The last numbers of all legs.
#[derive(Debug, Default)]
pub(crate) struct Sequenced {
    last: Vec<Last>,
    anew: Vec<LegId>,
}

impl Sequenced {
    /// The leg's connection began or ended: its numbers start anew, wherever they do.
    pub(crate) fn begin(&mut self, leg: LegId) {
        self.last.retain(|known| known.leg != leg);
        self.anew.retain(|known| *known != leg);
    }

    /// A message with a number came on a leg.
    pub(crate) fn step(&mut self, leg: LegId, number: u64) -> Step {
        let Some(last) = self.last.iter_mut().find(|known| known.leg == leg) else {
            self.last.push(Last { leg, number, passed: 0 });
            return Step::Next;
        };
        let Some(beyond) = number.checked_sub(last.number).filter(|beyond| *beyond > 0) else {
            last.passed += 1;
            if last.passed < PASSED_MAX {
                return Step::Passed;
            }
            *last = Last { leg, number, passed: 0 };
            return Step::Missing(1);
        };
        *last = Last { leg, number, passed: 0 };
        if beyond == 1 { Step::Next } else { Step::Missing(beyond - 1) }
    }

    /// Asks for a connection anew.
    pub(crate) fn reconnect(&mut self, leg: LegId) {
        if !self.anew.contains(&leg) {
            self.anew.push(leg);
        }
    }

    /// Takes the legs that are to be connected anew.
    pub(crate) fn reconnects(&mut self) -> Vec<LegId> {
        std::mem::take(&mut self.anew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leg_counts_on_its_own_and_begins_anew_with_its_connection() {
        let mut sequenced = Sequenced::default();
        let (a, b) = (LegId(0), LegId(1));
        let steps = [(a, 5), (a, 6), (b, 0), (a, 9), (a, 8), (a, 9), (a, 10), (b, 1)];
        let said: Vec<_> = steps.into_iter().map(|(leg, number)| sequenced.step(leg, number)).collect();
        use Step::{Missing, Next, Passed};
        assert_eq!(said, [Next, Next, Next, Missing(2), Passed, Passed, Next, Next]);
        sequenced.reconnect(a);
        sequenced.reconnect(a);
        assert_eq!(sequenced.reconnects(), [a]);
        sequenced.reconnect(a);
        sequenced.begin(a);
        assert_eq!(sequenced.reconnects(), [], "it is another connection already");
        assert_eq!(sequenced.step(a, 1_000), Next);
        let restarted: Vec<_> = (0..64).map(|number| sequenced.step(a, number)).collect();
        assert!(restarted[..63].iter().all(|step| *step == Passed), "{restarted:?}");
        assert_eq!(restarted[63], Missing(1), "nothing would be taken for ever");
        assert_eq!(sequenced.step(a, 64), Next);
        sequenced.begin(a);
        assert_eq!(sequenced.step(a, 1), Next);
        assert_eq!(sequenced.step(a, u64::MAX), Missing(u64::MAX - 2));
    }
}
