//! Which leg a book is asked of: one that can serve it, and for who asks again soon another than before, since a connection
//! may be dead without anybody having noticed.
//!
//! Never: a leg's own pauses, which its machine keeps.

use super::leg::{Chance, Prospect};
use foldhash::HashMap;
use std::cmp::Reverse;

/// Who asks for the same book within this time was not served, in nanoseconds; more than the longest pause of a guard.
const UNSERVED_NS: u64 = 40_000_000_000;

/// So long a leg that is at it has for an answer before another is asked, in nanoseconds: a venue far away must not cost
/// the book of every leg.
const ANSWER_NS: u64 = 1_000_000_000;

/// A leg that may be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its place among the venue's legs.
    pub(super) leg: usize,
    /// Who asks names it: it is the active one.
    pub(super) named: bool,
    /// How it stands to it.
    pub(super) prospect: Prospect,
}

/// Which leg was asked for which instrument last, and when; as many entries at most as there are legs times instruments.
#[derive(Debug, Default)]
pub(super) struct Asked {
    last_ns: HashMap<(usize, usize), u64>,
}

impl Asked {
    /// The leg to ask for the instrument at a place in the set, which is noted: one that can serve it now, else later.
    /// None if none can.
    pub(super) fn choose(&mut self, now_ns: u64, at: usize, mut candidates: Vec<Candidate>) -> Option<usize> {
        let within = |leg, time_ns: u64| {
            let last_ns = self.last_ns.get(&(leg, at)).copied();
            last_ns.filter(|last_ns| now_ns < last_ns.saturating_add(time_ns))
        };
        let at_it = |Candidate { leg, prospect, .. }: &&Candidate| {
            !prospect.verified && prospect.chance == Chance::Now && within(*leg, ANSWER_NS).is_some()
        };
        if let Some(busy) = candidates.iter().find(at_it) {
            return Some(busy.leg);
        }
        candidates.sort_by_key(|Candidate { leg, named, prospect }| {
            (within(*leg, UNSERVED_NS), !named, !prospect.verified, Reverse(prospect.heard_ns))
        });
        let of = |chance| candidates.iter().find(|candidate| candidate.prospect.chance == chance);
        let leg = of(Chance::Now).or_else(|| of(Chance::Later))?.leg;
        self.last_ns.insert((leg, at), now_ns);
        Some(leg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{
        leg::{Action, Leg, STAGGER_MS},
        protocol::protocol,
    };
    use market::Venue;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;
    const BTC: &str = "BTC/USD";

    /// Two legs of Kraken.
    struct Legs {
        legs: [Leg; 2],
        asked: Asked,
        now_ns: u64,
    }

    impl Legs {
        /// Both connected and subscribed.
        fn new() -> Self {
            let leg = |index| Leg::new(protocol(Venue::KrakenSpot).unwrap(), &[BTC.into()], index, 0);
            let mut legs = Self { legs: [leg(0), leg(1)], asked: Asked::default(), now_ns: STAGGER_MS * MS };
            for at in [0, 1] {
                assert_eq!(legs.legs[at].poll(legs.now_ns), Some(Action::Connect));
                legs.legs[at].opened(legs.now_ns);
            }
            assert_eq!(legs.pass(S).len(), 4);
            for at in [0, 1] {
                for id in [1, 2] {
                    legs.acknowledge(at, "subscribe", id);
                }
                legs.snapshot(at);
            }
            legs
        }

        /// Lets time pass in steps; what was sent, and by which.
        fn pass(&mut self, time_ns: u64) -> Vec<(usize, String)> {
            let (to_ns, mut sent) = (self.now_ns + time_ns, Vec::new());
            while self.now_ns < to_ns {
                self.now_ns += 50 * MS;
                for (at, leg) in self.legs.iter_mut().enumerate() {
                    let texts = std::iter::from_fn(|| leg.poll(self.now_ns));
                    let text = |action| if let Action::Send(text) = action { Some((at, text)) } else { None };
                    sent.extend(texts.filter_map(text));
                }
            }
            sent
        }

        fn acknowledge(&mut self, at: usize, method: &str, id: u64) {
            let result = format!(r#"{{"channel":"book","symbol":"{BTC}"}}"#);
            let text = format!(r#"{{"method":"{method}","req_id":{id},"result":{result},"success":true}}"#);
            self.legs[at].message(self.now_ns, &text);
        }

        fn refuse(&mut self, at: usize, method: &str, id: u64) {
            let text =
                format!(r#"{{"error":"no","method":"{method}","req_id":{id},"success":false,"symbol":"{BTC}"}}"#);
            self.legs[at].message(self.now_ns, &text);
        }

        fn snapshot(&mut self, at: usize) {
            let text = format!(r#"{{"channel":"book","type":"snapshot","data":[{{"symbol":"{BTC}"}}]}}"#);
            self.legs[at].message(self.now_ns, &text);
        }

        /// A guard asks, with the first leg active.
        fn ask(&mut self) -> Option<usize> {
            let candidate = |(leg, machine): (usize, &Leg)| Candidate {
                leg,
                named: leg == 0,
                prospect: machine.prospect(self.now_ns, BTC),
            };
            let candidates = self.legs.iter().enumerate().map(candidate).collect();
            let chosen = self.asked.choose(self.now_ns, 0, candidates);
            if let Some(leg) = chosen {
                self.legs[leg].resubscribe(self.now_ns, BTC);
            }
            chosen
        }
    }

    #[test]
    fn a_leg_that_is_dead_unnoticed_is_asked_once_and_then_the_other() {
        let mut legs = Legs::new();
        assert_eq!(legs.ask(), Some(0), "the active one");
        assert_eq!(legs.pass(250 * MS).len(), 1);
        assert_eq!(legs.ask(), Some(0), "it has time for its answer");
        assert_eq!(legs.pass(S).len(), 0);
        assert_eq!(legs.ask(), Some(1));
        assert!(matches!(&legs.pass(250 * MS)[..], [(1, left)] if left.contains("unsubscribe")));
    }

    #[test]
    fn who_asks_again_long_after_is_served_by_the_active_leg_again() {
        let mut legs = Legs::new();
        assert_eq!(legs.ask(), Some(0));
        legs.pass(100 * MS);
        legs.acknowledge(0, "unsubscribe", 3);
        legs.pass(100 * MS);
        legs.acknowledge(0, "subscribe", 4);
        legs.snapshot(0);
        assert_eq!(legs.ask(), Some(1), "its new book did not help");
        legs.now_ns += UNSERVED_NS;
        assert_eq!(legs.ask(), Some(0));
    }

    #[test]
    fn a_leg_that_cannot_serve_is_not_asked() {
        let mut legs = Legs::new();
        legs.legs[0].resubscribe(legs.now_ns, BTC);
        legs.pass(100 * MS);
        legs.acknowledge(0, "unsubscribe", 3);
        assert_eq!(legs.ask(), Some(1), "it is not subscribed to there");
        legs.asked = Asked::default();
        legs.pass(100 * MS);
        legs.refuse(0, "subscribe", 4);
        assert!(!legs.legs[0].resubscribe(legs.now_ns, BTC));
        assert_eq!(legs.ask(), Some(1), "it is refused there");
        legs.legs[1].ended(legs.now_ns, 0, None);
        assert_eq!(legs.ask(), None);
    }

    #[test]
    fn of_two_that_are_not_named_the_one_that_was_heard_last_is_asked() {
        let mut legs = Legs::new();
        legs.pass(S);
        legs.legs[1].heard(legs.now_ns);
        let candidate =
            |leg: usize| Candidate { leg, named: false, prospect: legs.legs[leg].prospect(legs.now_ns, BTC) };
        assert_eq!(legs.asked.choose(legs.now_ns, 0, vec![candidate(0), candidate(1)]), Some(1));
    }
}
