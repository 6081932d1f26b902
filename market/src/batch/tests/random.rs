//! Any order of any batches of a true chain: losses accepted at any moment, snapshots, repeats, contradictions, kills.
//!
//! Never: the guard's own word taken for what is shown; the model keeps the log and the books' content itself.

use super::*;
use proptest::{prelude::*, sample::Index};
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Step {
    Offer(Index),
    Repeat(Index),
    Contradict(Index),
    Snapshot(u64),
    Accept,
    Drain,
    Refuse,
    Rebuild,
    /// Killed, with so many of the last heights not durable, and the log offered in an order.
    Kill(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => any::<Index>().prop_map(Step::Offer),
        2 => any::<Index>().prop_map(Step::Repeat),
        2 => any::<Index>().prop_map(Step::Contradict),
        1 => (0_u64..60).prop_map(Step::Snapshot),
        2 => Just(Step::Accept),
        6 => Just(Step::Drain),
        1 => Just(Step::Refuse),
        2 => Just(Step::Rebuild),
        1 => (0_usize..6, any::<u64>()).prop_map(|(lag, order)| Step::Kill(lag, order)),
    ]
}

/// A healed loss, and how far the stream was then.
type Healed = (Hole, u64);

struct World {
    chain: Vec<BatchName>,
    guard: BatchGuard,
    /// What the log has.
    log: BTreeSet<u64>,
    snapshots: BTreeSet<u64>,
    /// Heights whose changes are in what is shown.
    shown: BTreeSet<u64>,
    /// Heights of the chain that were accepted as lost.
    accepted: BTreeSet<u64>,
    /// Losses on record.
    losses: Vec<Hole>,
    healed: Vec<Healed>,
    /// Heights that were delivered, rising; any of them may be the durable cursor.
    delivered: Vec<u64>,
    /// Known to the guard since it was made.
    known: BTreeSet<u64>,
    cursor: u64,
    /// Whether each height was told to the lanes, in order or late.
    told: BTreeSet<u64>,
}

impl World {
    fn new(gaps: &[u64], begun: bool) -> Self {
        let mut at = 0;
        let chain = gaps.iter().map(|gap| {
            let previous = at;
            at += gap;
            block(at, previous)
        });
        Self {
            chain: chain.collect(),
            guard: BatchGuard::new(0, begun),
            log: BTreeSet::new(),
            snapshots: BTreeSet::new(),
            shown: BTreeSet::new(),
            accepted: BTreeSet::new(),
            losses: Vec::new(),
            healed: Vec::new(),
            delivered: vec![0],
            known: BTreeSet::new(),
            cursor: 0,
            told: BTreeSet::new(),
        }
    }

    fn heights(&self, after: u64, through: u64) -> impl Iterator<Item = u64> + '_ {
        self.chain.iter().map(|name| name.height).filter(move |height| after < *height && *height <= through)
    }

    fn offer(&mut self, name: BatchName) -> Result<(), TestCaseError> {
        let known = self.known.contains(&name.height);
        let position = self.guard.position();
        let offer = self.guard.offer(name);
        match offer {
            BatchOffer::Keep => prop_assert!(!known && name.height > position),
            BatchOffer::Late | BatchOffer::Passed => {
                prop_assert!(!known && name.height <= position);
                self.told.insert(name.height);
            }
            BatchOffer::Duplicate => prop_assert!(known),
            // Of what was delivered before the guard was made only the log knows.
            BatchOffer::Old => {
                prop_assert!(name.height <= self.cursor && self.log.contains(&name.height), "{name:?}");
                return Ok(());
            }
            _ => prop_assert!(false, "{:?} is no answer to {:?}", offer, name),
        }
        self.known.insert(name.height);
        self.log.insert(name.height);
        Ok(())
    }

    fn offer_snapshot(&mut self, height: u64) {
        let offer = self.guard.offer(snapshot(height));
        if matches!(offer, BatchOffer::Keep | BatchOffer::Heals | BatchOffer::Outdated) {
            self.snapshots.insert(height);
        }
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        while let Some(name) = self.guard.next() {
            self.deliver(name)?;
        }
        Ok(())
    }

    fn deliver(&mut self, name: BatchName) -> Result<(), TestCaseError> {
        let (height, before) = (name.height, self.guard.position());
        let passed = self.guard.delivered(name);
        self.told.extend(passed.iter().map(|name| name.height));
        if name.kind == BatchKind::Snapshot {
            prop_assert!(height >= before);
            self.shown.extend(self.heights(0, height).collect::<Vec<_>>());
            self.record_healed();
        } else {
            prop_assert!(height > before, "delivered heights rise");
            for lower in self.heights(0, height - 1) {
                let there = self.shown.contains(&lower) || self.accepted.contains(&lower);
                prop_assert!(there, "{} was delivered over {}", height, lower);
            }
            self.shown.insert(height);
            self.told.insert(height);
        }
        prop_assert!(self.guard.position() == height);
        self.delivered.push(height);
        self.check()
    }

    /// What the guard calls healed is on record from now on.
    fn record_healed(&mut self) {
        let position = self.guard.position();
        for loss in self.guard.losses().iter().filter(|loss| loss.healed) {
            if !self.healed.iter().any(|(hole, _)| *hole == loss.hole) {
                self.healed.push((loss.hole, position));
            }
        }
    }

    fn accept(&mut self) {
        if let Some(hole) = self.guard.hole().filter(|_| self.guard.next().is_none()) {
            self.guard.accept(hole).unwrap();
            self.accepted.extend(self.heights(hole.after, hole.through).collect::<Vec<_>>());
            self.losses.push(hole);
        }
    }

    fn rebuild(&mut self) -> Result<(), TestCaseError> {
        while let Some(rebuild) = self.guard.rebuild() {
            let position = self.guard.position();
            let base = match rebuild {
                Rebuild::Snapshot(name) => name.height,
                // The state there is made of rows, which follow the log; snapshots of it above count too.
                Rebuild::From(_) => self.snapshots.range(..=position).next_back().copied().unwrap_or(0),
            };
            let logged: Vec<_> = self.heights(0, position).filter(|at| *at <= base || self.log.contains(at)).collect();
            self.shown = logged.into_iter().collect();
            let healed = self.guard.rebuilt(rebuild);
            prop_assert!(!healed.is_empty(), "it was rebuilt for nothing");
            for hole in &healed {
                prop_assert!(self.heights(hole.after, hole.through).all(|height| self.shown.contains(&height)));
            }
            self.record_healed();
            self.check()?;
        }
        Ok(())
    }

    /// Killed: of what was delivered lately some was not durable, and no healing since then. The log is offered anew.
    fn kill(&mut self, lag: usize, mut order: u64) -> Result<(), TestCaseError> {
        let at = self.delivered.len().saturating_sub(1 + lag);
        self.delivered.truncate(at + 1);
        let cursor = self.delivered[at];
        self.cursor = cursor;
        self.healed.retain(|(_, position)| *position <= cursor);
        let is_healed = |hole: &Hole| self.healed.iter().any(|(healed, _)| healed == hole);
        let open = self.losses.iter().filter(|hole| !is_healed(hole)).copied();
        let passed = self.healed.iter().map(|(hole, _)| loss(hole.after, hole.through, true));
        let losses: Vec<_> = open.clone().map(|hole| loss(hole.after, hole.through, false)).chain(passed).collect();
        let from = open.map(|hole| hole.after).min().unwrap_or(cursor).min(cursor);
        self.guard = BatchGuard::new(cursor, at > 0).with_losses(losses);
        // What was shown at the cursor: rows of the log, and what snapshots up to there made good.
        let healed: Vec<_> = self.healed.iter().map(|(hole, _)| *hole).collect();
        let good =
            |at: &u64| self.log.contains(at) || healed.iter().any(|hole| hole.after < *at && *at <= hole.through);
        let shown: BTreeSet<_> = self.heights(0, cursor).filter(good).collect();
        self.shown = shown;
        self.known.clear();
        let blocks = self.chain.iter().filter(|name| name.height > from && self.log.contains(&name.height)).copied();
        let mut names: Vec<_> = blocks.chain(self.snapshots.range(from + 1..).map(|at| snapshot(*at))).collect();
        while !names.is_empty() {
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(order >> 40).unwrap() % names.len();
            let name = names.swap_remove(at);
            match name.kind {
                BatchKind::Block => self.offer(name)?,
                BatchKind::Snapshot => self.offer_snapshot(name.height),
            }
            if order & (1 << 35) == 0 {
                self.drain()?;
            }
        }
        self.drain()
    }

    /// What the guard says of losses is true of what is shown and of the log.
    fn check(&self) -> Result<(), TestCaseError> {
        let position = self.guard.position();
        if !self.guard.is_lossy() {
            let missing: Vec<_> = self.heights(0, position).filter(|height| !self.shown.contains(height)).collect();
            prop_assert!(missing.is_empty(), "nothing is said to be lost, but {:?} is not shown", missing);
        }
        let complete = |loss: &&Loss| {
            let hole = loss.hole;
            let came = |height| height <= position && self.known.contains(&height);
            !loss.healed && hole.through <= position && self.heights(hole.after, hole.through).all(came)
        };
        match self.guard.rebuild() {
            None => prop_assert_eq!(self.guard.losses().iter().find(complete), None, "complete, and not rebuilt"),
            Some(Rebuild::From(after)) => {
                let mut asked = self.guard.losses().iter().filter(complete);
                prop_assert!(asked.any(|loss| loss.hole.after == after));
            }
            Some(Rebuild::Snapshot(name)) => prop_assert!(name.height <= position && self.guard.is_lossy()),
        }
        prop_assert!(self.guard.losses().len() <= LOSSES_MAX && self.guard.waiting() <= self.chain.len() + 64);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let before = (self.guard.position(), matches!(step, Step::Kill(..)));
        match step {
            Step::Offer(at) => self.offer(*at.get(&self.chain))?,
            Step::Repeat(_) | Step::Contradict(_) if self.known.is_empty() => {}
            Step::Repeat(at) => self.offer(self.one_known(at))?,
            Step::Contradict(at) => {
                let name = self.one_known(at);
                prop_assert_eq!(self.guard.offer(other(name)), BatchOffer::Conflict { known: name.id });
            }
            Step::Snapshot(height) => self.offer_snapshot(*height),
            Step::Accept => self.accept(),
            Step::Drain => self.drain()?,
            Step::Refuse => {
                if let Some(name) = self.guard.next().filter(|name| name.kind == BatchKind::Block) {
                    self.guard.refused(name);
                    self.known.remove(&name.height);
                    self.log.remove(&name.height);
                }
            }
            Step::Rebuild => self.rebuild()?,
            Step::Kill(lag, order) => self.kill(*lag, *order)?,
        }
        let lost = |hole: &Hole| self.heights(hole.after, hole.through).all(|height| self.accepted.contains(&height));
        let waits = self.guard.hole().filter(|hole| self.guard.next().is_none() && lost(hole));
        prop_assert_eq!(waits, None, "what was accepted as lost is waited for");
        prop_assert!(before.1 || self.guard.position() >= before.0, "the position went back");
        self.check()
    }

    fn one_known(&self, at: &Index) -> BatchName {
        let known: Vec<_> = self.chain.iter().filter(|name| self.known.contains(&name.height)).collect();
        **at.get(&known)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("SPRAG_FULL").is_some() { 20_000 } else { 1_000 }))]
    #[test]
    fn whatever_comes_in_whatever_order_nothing_is_shown_over_a_hole_and_nothing_is_missing_in_the_end(
        gaps in prop::collection::vec(prop_oneof![3 => Just(1_u64), 1 => 2_u64..5], 1..20),
        begun in any::<bool>(),
        steps in prop::collection::vec(step(), 0..120),
        rest in any::<prop::sample::Index>(),
    ) {
        let mut world = World::new(&gaps, begun);
        for step in steps {
            world.step(&step)?;
        }
        // The rest, beginning anywhere.
        let mut names = world.chain.clone();
        names.rotate_left(rest.index(world.chain.len()));
        for name in names {
            world.offer(name)?;
            world.drain()?;
        }
        world.drain()?;
        world.rebuild()?;
        let last = world.chain.last().unwrap().height;
        prop_assert_eq!(world.guard.hole(), None);
        prop_assert!(world.guard.position() >= last && !world.guard.is_lossy());
        let all: BTreeSet<_> = world.heights(0, last).collect();
        prop_assert_eq!(&world.shown, &all);
        prop_assert_eq!(&world.told, &all, "each was delivered, or told as late");
    }
}
