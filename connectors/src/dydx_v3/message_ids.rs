//! The ids of one connection's messages: which came, which may still come, which are lost.
//!
//! Never: a decision about books.

use std::collections::BTreeMap;

/// So many messages an id may come late; the greatest distance that was seen is 20, at the start of a connection.
pub(super) const LATE_MESSAGES_MAX: u64 = 64;

/// So long an id may come late, in nanoseconds of the receive time; 131 ms were seen, at the start of a connection.
pub(super) const LATE_NS_MAX: u64 = 250_000_000;

/// What an id means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The message was not seen before.
    pub(super) new: bool,
    /// So many messages are lost, as of now.
    pub(super) lost: u64,
}

/// The ids of one connection.
#[derive(Debug, Default)]
pub(super) struct MessageIds {
    /// One above the greatest id; none before the first of a connection whose beginning was not seen.
    next: Option<u64>,
    /// Ids below it that did not come, with when they were noticed, Unix nanoseconds. Of the last
    /// [`LATE_MESSAGES_MAX`] alone; those before are lost.
    missing: BTreeMap<u64, u64>,
}

impl MessageIds {
    /// Of a connection that begins.
    pub(super) fn begun() -> Self {
        Self { next: Some(0), missing: BTreeMap::new() }
    }

    /// A message came.
    pub(super) fn see(&mut self, id: u64, now_ns: u64) -> Seen {
        let next = *self.next.get_or_insert(id);
        let mut lost = 0;
        let new = if id < next {
            self.missing.remove(&id).is_some()
        } else {
            let oldest = id.saturating_sub(LATE_MESSAGES_MAX).max(next);
            lost += oldest - next;
            self.missing.extend((oldest..id).map(|id| (id, now_ns)));
            self.next = Some(id.saturating_add(1));
            true
        };
        let least = self.next.unwrap_or(next).saturating_sub(LATE_MESSAGES_MAX + 1);
        while let Some(entry) = self.missing.first_entry() {
            if *entry.key() >= least && now_ns.saturating_sub(*entry.get()) <= LATE_NS_MAX {
                break;
            }
            entry.remove();
            lost += 1;
        }
        Seen { new, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEW: Seen = Seen { new: true, lost: 0 };

    #[test]
    fn an_id_may_be_late_but_not_for_ever() {
        let mut ids = MessageIds::begun();
        let told: Vec<_> = [0, 2, 3, 1, 1].into_iter().map(|id| ids.see(id, 0)).collect();
        assert_eq!(told, [NEW, NEW, NEW, NEW, Seen { new: false, lost: 0 }]);
        assert_eq!(ids.see(5, 100), NEW);
        assert_eq!(ids.see(6, 100 + LATE_NS_MAX), NEW);
        assert_eq!(ids.see(7, 101 + LATE_NS_MAX), Seen { new: true, lost: 1 }, "4 is too late by time");
        assert_eq!(ids.see(4, 101 + LATE_NS_MAX), Seen { new: false, lost: 0 });
        let mut ids = MessageIds::begun();
        for id in 1..=LATE_MESSAGES_MAX {
            assert_eq!(ids.see(id, 0), NEW);
        }
        assert_eq!(ids.see(LATE_MESSAGES_MAX + 1, 0), Seen { new: true, lost: 1 }, "0 is too late by distance");
    }

    #[test]
    fn a_leap_is_counted_and_costs_nothing() {
        let mut ids = MessageIds::begun();
        let seen = ids.see(u64::MAX, 0);
        assert!(seen.new && seen.lost >= u64::MAX - LATE_MESSAGES_MAX);
        assert!(ids.missing.len() <= 64);
        let mut ids = MessageIds::default();
        assert_eq!(ids.see(500, 0), NEW, "the beginning was not seen");
    }

    proptest! {
        #[test]
        fn whatever_small_permutation_loses_nothing_and_a_dropped_one_is_one(
            jitter in proptest::collection::vec(0_u64..40, 300), dropped in 0_usize..200
        ) {
            let mut order: Vec<u64> = (0..300).collect();
            order.sort_by_key(|id| (id + jitter[usize::try_from(*id).unwrap()], *id));
            let lost = |order: &[u64]| {
                let mut ids = MessageIds::begun();
                order.iter().map(|id| ids.see(*id, 0)).inspect(|seen| assert!(seen.new)).map(|seen| seen.lost).sum::<u64>()
            };
            prop_assert_eq!(lost(&order), 0);
            let gone = u64::try_from(dropped).unwrap();
            order.retain(|id| *id != gone);
            prop_assert_eq!(lost(&order), 1);
        }
    }
}
