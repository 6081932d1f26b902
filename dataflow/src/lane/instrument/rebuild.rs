//! How a book is rebuilt: from a snapshot, or in finer steps.
//!
//! Never: two books at one version.

use super::{Instrument, Kept, Timed};
use crate::lane::tally::Tally;
use market::{Book, Scale, Side, Snapshot, TickChange, TickKey, U256, Version, Window};

impl Instrument {
    /// Brings book and changes to one scale; none if a number does not fit it. If the book's steps changed, gives what
    /// it was: the store keys ticks by their index, which has moved.
    pub(super) fn rescale(&mut self, scale: Scale, changes: &mut [TickChange]) -> Option<Option<Book>> {
        let finest = self.book.scale().finest(scale);
        convert(scale, finest, changes)?;
        if finest == self.book.scale() {
            return Some(None);
        }
        let old = self.book.clone();
        self.book.rescale(finest).ok()?;
        self.replaced = true;
        self.ahead.replaced();
        Some(Some(old))
    }

    /// The whole book, and the keys that its ticks had in other steps, which are dead.
    pub(super) fn moved(&self, old: &Book) -> Vec<TickChange> {
        let mut changes: Vec<TickChange> = self.book.ticks().collect();
        let moved = old.ticks().filter(|tick| self.book.reserves(tick.side, tick.key).is_zero());
        changes.extend(moved.map(|tick| TickChange { reserves: U256::ZERO, ..tick }));
        changes
    }

    pub(super) fn replace(
        &mut self,
        shown: Option<Version>,
        version: Version,
        snapshot: Timed<Snapshot>,
        tally: &mut Tally,
    ) {
        let resyncs = self.guard.counts().resyncs;
        if std::mem::replace(&mut self.resyncs, resyncs) != resyncs {
            tally.leg(snapshot.times.leg).resyncs += 1;
        }
        self.leads.forget();
        self.pulse.begin(snapshot.times.received_ns);
        // Only a rebuilt book that ends where the shown one stands can differ from it at the same version.
        let suspect = shown.filter(|shown| shown.epoch == version.epoch && version <= *shown);
        let old = suspect.map(|shown| (shown, self.book.clone()));
        let Timed { times, body: Snapshot { scale, mut ticks, window, .. } } = snapshot;
        let shown_in = (!self.book.is_empty()).then(|| self.book.scale());
        let finest = shown_in.map_or(scale, |shown| shown.finest(scale));
        let mixed = shown_in.is_some_and(|shown| shown.mixes(scale));
        if mixed || (finest != scale && convert(scale, finest, &mut ticks).is_none()) {
            tally.lane.unrepresentable += 1;
            self.broken(times, tally);
            return;
        }
        let ahead = self.ahead_of(version, finest);
        let admitted = self.admitted.len();
        let mut deaths = Vec::new();
        self.book.replace(&ticks, finest, window, &mut deaths);
        if let Window::Best(depth) = window {
            self.book.truncate(usize::try_from(depth).unwrap_or(usize::MAX), &mut deaths);
        }
        let mut changes: Vec<TickChange> = self.book.ticks().collect();
        changes.append(&mut deaths);
        for tick in ahead {
            self.book.apply(tick);
        }
        self.replaced = true;
        self.rebuilds += 1;
        self.doubted = false;
        self.ahead.replaced();
        self.content = Some(version);
        self.last = times;
        self.admit(version, times, (changes, Vec::new()), true);
        self.drain(tally);
        match (old, self.guard.version()) {
            (Some((shown, old)), Some(reached)) if reached == shown => self.compare(shown, &old, admitted),
            (Some((shown, old)), _) if self.content < Some(shown) => {
                // On the way a number did not fit: the rebuilt book never got as far as what is shown.
                self.book = old;
                self.content = Some(shown);
                self.admitted.truncate(admitted);
                self.guard.keep(times.received_ns, shown);
            }
            _ => {}
        }
    }

    /// The ticks that were kept of later than a version, as they are shown: a book of that version does not set them back.
    fn ahead_of(&mut self, version: Version, scale: Scale) -> Vec<TickChange> {
        self.kept.pass(version);
        if scale != self.book.scale() {
            self.kept = Kept::default();
        }
        let shown = |(side, key)| TickChange { side, key, reserves: self.book.reserves(side, key) };
        self.kept.keys().map(shown).collect()
    }

    /// Same version: the same content changes nothing, other content is a new epoch. What was admitted on the way from
    /// the given place on would then tell of a second book at one version.
    fn compare(&mut self, shown: Version, old: &Book, admitted: usize) {
        let same = Side::BOTH.into_iter().all(|side| old.levels(side).eq(self.book.levels(side)));
        if same && old.scale() == self.book.scale() {
            let horizon = Side::BOTH.into_iter().all(|side| old.horizon(side) == self.book.horizon(side));
            self.replaced = self.published.version != Some(shown) || !horizon;
            return;
        }
        if let Some(version) = self.guard.diverged() {
            self.content = Some(version);
            self.admitted.truncate(admitted);
            self.admit(version, self.last, (self.moved(old), Vec::new()), true);
        }
    }
}

fn convert(from: Scale, to: Scale, ticks: &mut [TickChange]) -> Option<()> {
    for tick in ticks {
        let tick_index = from.price_in(to, tick.key.tick_index)?;
        let reserves = from.quantity_in(to, tick.reserves)?;
        *tick = TickChange { side: tick.side, key: TickKey { tick_index, ..tick.key }, reserves };
    }
    Some(())
}
