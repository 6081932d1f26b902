//! What a connection may still ask for where the venue counts the requests of an hour: any hour, not one by the clock.
//!
//! Never: a request in it that was not sent.

use std::collections::VecDeque;

/// What the venues' numbers of requests are for, in nanoseconds.
pub(super) const HOUR_NS: u64 = 3_600_000_000_000;

/// The requests of one connection.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    /// In any hour; none without a bound.
    allowed: Option<usize>,
    /// When each of the last hour was sent; no more than are allowed.
    sent_ns: VecDeque<u64>,
}

impl Budget {
    pub(super) fn new(per_hour: Option<u32>) -> Self {
        let allowed = per_hour.map(|per_hour| usize::try_from(per_hour).unwrap_or(usize::MAX).max(2));
        Self { allowed, sent_ns: VecDeque::new() }
    }

    /// The connection is another.
    pub(super) fn clear(&mut self) {
        self.sent_ns.clear();
    }

    /// When the next request may be sent. One that may be late has half of what is allowed, so that it leaves the other
    /// half to repairs.
    pub(super) fn free_ns(&self, late: bool) -> u64 {
        let Some(allowed) = self.allowed else { return 0 };
        let allowed = if late { allowed / 2 } else { allowed };
        let over = self.sent_ns.len().checked_sub(allowed);
        over.and_then(|over| self.sent_ns.get(over)).map_or(0, |sent_ns| sent_ns.saturating_add(HOUR_NS))
    }

    /// A request is sent.
    pub(super) fn spend(&mut self, now_ns: u64) {
        let Some(allowed) = self.allowed else { return };
        let past = |sent_ns: &u64| sent_ns.saturating_add(HOUR_NS) <= now_ns;
        while self.sent_ns.len() >= allowed || self.sent_ns.front().is_some_and(past) {
            self.sent_ns.pop_front();
        }
        self.sent_ns.push_back(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_hour_has_its_number_and_half_of_it_for_what_may_be_late() {
        let mut budget = Budget::new(Some(4));
        for at_ns in [10, 20] {
            assert_eq!((budget.free_ns(false), budget.free_ns(true)), (0, 0));
            budget.spend(at_ns);
        }
        assert_eq!((budget.free_ns(false), budget.free_ns(true)), (0, 10 + HOUR_NS));
        budget.spend(30);
        budget.spend(40);
        assert_eq!((budget.free_ns(false), budget.free_ns(true)), (10 + HOUR_NS, 30 + HOUR_NS));
        budget.spend(10 + HOUR_NS);
        assert_eq!((budget.free_ns(false), budget.free_ns(true)), (20 + HOUR_NS, 40 + HOUR_NS));
        budget.clear();
        assert_eq!(budget.free_ns(true), 0);
        let mut free = Budget::new(None);
        (0..1_000).for_each(|at_ns| free.spend(at_ns));
        assert_eq!((free.free_ns(true), free.sent_ns.len()), (0, 0));
    }
}
