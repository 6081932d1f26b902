//! Names of limit-order tranches and the numbers that stand for them in a process.
//!
//! A venue makes new tranches without end, so names are forgotten: once a tranche is dead and its death is durable,
//! nothing refers to its number any more.
//!
//! Never: a number that is given twice.

use crate::TrancheId;
use foldhash::HashMap;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// Longest name of a tranche, in bytes.
pub const TRANCHE_BYTES_MAX: usize = 128;

/// The names of tranches; shared.
#[derive(Debug, Default)]
pub struct Tranches {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_name: HashMap<Arc<str>, TrancheId>,
    by_id: HashMap<TrancheId, Arc<str>>,
    last: u32,
    /// Tranches by heights at which they died; those of heights that are not durable yet, so many blocks as the store lags.
    dead: BTreeMap<u64, Vec<TrancheId>>,
    /// The height at which a dead one died last.
    died: HashMap<TrancheId, u64>,
}

/// No number is left, or the name is too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tranche {name:?} cannot be numbered: {given} were, and a name has at most {TRANCHE_BYTES_MAX} bytes")]
pub struct TrancheRefused {
    /// The name.
    pub name: Box<str>,
    /// Numbers given so far.
    pub given: u32,
}

impl Tranches {
    /// The number of a name, given one if it is new. No name is number 0. It counts as alive from now on.
    ///
    /// # Errors
    /// [`TrancheRefused`].
    pub fn intern(&self, name: &str) -> Result<TrancheId, TrancheRefused> {
        if name.is_empty() {
            return Ok(TrancheId(0));
        }
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = inner.by_name.get(name).copied() {
            inner.died.remove(&id);
            return Ok(id);
        }
        let refused = TrancheRefused { name: name.into(), given: inner.last };
        if name.len() > TRANCHE_BYTES_MAX {
            return Err(refused);
        }
        let id = TrancheId(inner.last.checked_add(1).ok_or(refused)?);
        inner.last = id.0;
        let name: Arc<str> = name.into();
        inner.by_name.insert(Arc::clone(&name), id);
        inner.by_id.insert(id, name);
        Ok(id)
    }

    /// The name of a number; empty for 0, `None` if it is forgotten or was never given.
    #[must_use]
    pub fn name(&self, id: TrancheId) -> Option<Arc<str>> {
        if id.0 == 0 {
            return Some(Arc::from(""));
        }
        self.inner.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }

    /// The number of a name that has one, without any sign of life by asking.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<TrancheId> {
        if name.is_empty() {
            return Some(TrancheId(0));
        }
        self.inner.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).copied()
    }

    /// A tranche died in the block at a height; it may be forgotten once that is durable. Of a block that came late, only
    /// the death of a tranche that had no number before may be told, at the next height to be delivered: until that is
    /// durable, rows with the number may be on their way.
    pub fn died(&self, id: TrancheId, height: u64) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let later = inner.died.get(&id).is_some_and(|known| *known >= height);
        if later || !inner.by_id.contains_key(&id) {
            return;
        }
        inner.died.insert(id, height);
        inner.dead.entry(height).or_default().push(id);
    }

    /// Forgets those that died at or below a height, up to which everything is durable.
    pub fn forget_dead(&self, through: u64) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let later = inner.dead.split_off(&through.saturating_add(1));
        for (height, ids) in std::mem::replace(&mut inner.dead, later) {
            for id in ids {
                if inner.died.get(&id) == Some(&height) {
                    inner.died.remove(&id);
                    if let Some(name) = inner.by_id.remove(&id) {
                        inner.by_name.remove(&name);
                    }
                }
            }
        }
    }

    /// How many names are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// Whether no name is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_dead_tranche_is_forgotten_once_its_death_is_durable_unless_it_lives_again() {
        let tranches = Tranches::default();
        let [a, b] = ["a", "b"].map(|name| tranches.intern(name).unwrap());
        assert_eq!((tranches.intern(""), tranches.intern("a")), (Ok(TrancheId(0)), Ok(a)));
        tranches.died(a, 5);
        tranches.died(b, 5);
        tranches.forget_dead(4);
        assert_eq!(tranches.len(), 2);
        assert_eq!(tranches.intern("b"), Ok(b), "it lives again");
        tranches.forget_dead(5);
        assert_eq!((tranches.name(a), tranches.name(b).as_deref()), (None, Some("b")));
        assert!(tranches.intern("a").unwrap() > b, "no number is given twice");
        assert!(tranches.intern(&"x".repeat(TRANCHE_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn only_the_last_death_counts_and_asking_is_no_sign_of_life() {
        let tranches = Tranches::default();
        let a = tranches.intern("a").unwrap();
        tranches.died(a, 7);
        tranches.died(a, 5);
        tranches.died(a, 7);
        assert_eq!(
            (tranches.number("a"), tranches.number("b"), tranches.number("")),
            (Some(a), None, Some(TrancheId(0)))
        );
        tranches.forget_dead(6);
        assert_eq!(tranches.name(a).as_deref(), Some("a"), "its death at 7 is not durable");
        tranches.forget_dead(7);
        tranches.died(a, 9);
        assert!(tranches.is_empty());
        let inner = tranches.inner.read().unwrap();
        assert!(inner.died.is_empty() && inner.dead.is_empty() && inner.by_name.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Live(u8),
        Die(u8, u64),
        Forget(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0_u8..6).prop_map(Step::Live),
            3 => (0_u8..6, 0_u64..20).prop_map(|(name, height)| Step::Die(name, height)),
            1 => (0_u64..20).prop_map(Step::Forget),
        ]
    }

    proptest! {
        /// Names with their numbers, and the heights at which they died.
        #[test]
        fn tranches_are_those_of_a_plain_table(steps in prop::collection::vec(step(), 0..80)) {
            let tranches = Tranches::default();
            let mut table: BTreeMap<u8, (TrancheId, Option<u64>)> = BTreeMap::new();
            let mut given = std::collections::BTreeSet::new();
            for step in steps {
                match step {
                    Step::Live(name) => {
                        let id = tranches.intern(&name.to_string()).unwrap();
                        let known = table.insert(name, (id, None));
                        prop_assert!(known.map_or_else(|| given.insert(id), |(known, _)| known == id), "given twice");
                    }
                    Step::Die(name, height) => {
                        if let Some((id, died)) = table.get_mut(&name) {
                            *died = (*died).max(Some(height));
                            tranches.died(*id, height);
                        }
                    }
                    Step::Forget(height) => {
                        tranches.forget_dead(height);
                        table.retain(|_, (_, died)| died.is_none_or(|died| died > height));
                    }
                }
                prop_assert_eq!(tranches.len(), table.len());
                for (name, (id, _)) in &table {
                    let text = name.to_string();
                    let known = tranches.name(*id);
                    prop_assert_eq!(known.as_deref(), Some(text.as_str()));
                    prop_assert_eq!(tranches.number(&text), Some(*id));
                }
            }
        }
    }
}
