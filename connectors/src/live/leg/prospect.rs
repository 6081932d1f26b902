//! Whether a leg can begin an instrument's subscription anew, and doing so.
//!
//! Never: a request taken that is neither done nor under way.

use super::{Leg, Link, Stage};

/// Whether a leg can begin an instrument's subscription anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chance {
    /// Now, or it does already.
    Now,
    /// Later: it is paused, or not even begun yet.
    Later,
    /// Not as things are.
    Never,
}

/// How a leg stands to a request for an instrument's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prospect {
    /// Whether it can serve it.
    pub chance: Chance,
    /// Whether the instrument's stream is known to flow there.
    pub verified: bool,
    /// When its connection was heard last; 0 without one.
    pub heard_ns: u64,
}

impl Leg {
    /// How it stands to a request for an instrument's book.
    #[must_use]
    pub fn prospect(&self, now_ns: u64, symbol: &str) -> Prospect {
        let none = Prospect { chance: Chance::Never, verified: false, heard_ns: 0 };
        let Link::Open(open) = self.link else { return none };
        let Some((at, one)) = self.place(symbol).and_then(|at| Some((at, self.subscriptions.get(at)?))) else {
            return none;
        };
        let chance = match (one.stage, one.again_at_ns) {
            (Stage::Verified, again_at_ns) => {
                let due_ns = again_at_ns.unwrap_or_else(|| one.due_ns(now_ns)).max(self.budget.free_ns(false));
                if due_ns <= now_ns { Chance::Now } else { Chance::Later }
            }
            // Its end may wait for the budget.
            (Stage::Leaving, _) => {
                let waits = self.outbox.iter().any(|request| request.symbols.contains(&at));
                if waits && self.budget.free_ns(one.unproven) > now_ns { Chance::Later } else { Chance::Now }
            }
            (Stage::Asked | Stage::Acknowledged { .. }, None) => Chance::Now,
            (Stage::Absent, _) => Chance::Later,
            (Stage::Asked | Stage::Acknowledged { .. }, Some(_)) | (Stage::Refused, _) => Chance::Never,
        };
        Prospect { chance, verified: one.stage == Stage::Verified, heard_ns: open.heard_ns }
    }

    /// Subscribes anew to one instrument, as soon as it is time; whether that is now, or is under way.
    pub fn resubscribe(&mut self, now_ns: u64, symbol: &str) -> bool {
        let Prospect { chance, verified, .. } = self.prospect(now_ns, symbol);
        if verified && let Some(at) = self.place(symbol) {
            self.again(now_ns, at);
        }
        chance == Chance::Now
    }

    fn place(&self, symbol: &str) -> Option<usize> {
        self.by_key.get(&*self.protocol.key(symbol)).copied()
    }
}
