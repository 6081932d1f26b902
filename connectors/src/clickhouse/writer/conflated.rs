//! What waits of an instrument, conflated: of every tick its newest change alone.
//!
//! The rules:
//! 1. A change is kept as it is, with its own version, times and mark of a whole book, until a newer one of its tick comes.
//! 2. The newest whole book is kept whole, all its rows, whatever changes after it: `book_snapshots` is made of them, and
//!    a restart believes that what the book does not name is dead.
//! 3. What came before that book is left out if the book names its tick, living or dead. A tick that the book does not
//!    name died before it, or is in older steps; the store may still have it alive, so its last change is kept.
//! 4. A book that is replaced by a newer one is rows like others: rules 1 and 3 decide on each. If the store must be asked
//!    what it has beyond the older one, it must be asked for the newer one.
//! 5. All of it is stored with one insert, or as the whole book and what follows it, in that order: the rows before the
//!    book are older than it, and what is newer than the book comes with it or after it.
//!
//! So the rows that are left give `tick_state`, `instrument_version` and `book_snapshots` what all rows would have given
//! them. What is left out is counted, with the least and the greatest version.
//!
//! Never: an older change kept in place of a newer one; a change left out and not counted.

use super::{
    count,
    made::{Made, bytes_of},
};
use crate::clickhouse::rows::{LeftOut, StoredKey, TickUpdate};
use foldhash::{HashMap, HashSet};
use market::{LegId, Side, SymbolId, Version};
use std::collections::{VecDeque, hash_map::Entry};

/// Bytes of a row in a table of conflated ones.
fn row_bytes() -> u64 {
    count(size_of::<((Side, StoredKey), TickUpdate)>())
}

/// See the module.
#[derive(Debug)]
pub(super) struct Conflated {
    /// The newest event, without its rows.
    head: Made,
    whole: Option<Made>,
    rows: HashMap<(Side, StoredKey), TickUpdate>,
    opened_ns: u64,
    left_out: Option<LeftOut>,
}

impl Conflated {
    /// One event; `opened_ns` is since when it waits.
    pub(super) fn new(opened_ns: u64, made: Made) -> Self {
        let head = made.without_rows();
        let mut conflated = Self { head, whole: None, rows: HashMap::default(), opened_ns, left_out: None };
        conflated.take(opened_ns, made);
        conflated
    }

    /// Takes a further event; gives how many changes are left out because of it.
    pub(super) fn take(&mut self, opened_ns: u64, mut made: Made) -> u64 {
        let before = self.changes_left_out();
        self.opened_ns = self.opened_ns.min(opened_ns);
        if made.whole && made.version >= self.head.version {
            self.replace(made);
        } else {
            std::mem::take(&mut made.rows).into_iter().for_each(|row| self.put(row));
            if made.version > self.head.version {
                self.head = made;
            }
        }
        self.changes_left_out() - before
    }

    /// How many changes were left out.
    pub(super) fn changes_left_out(&self) -> u64 {
        self.left_out.map_or(0, |left_out| left_out.count)
    }

    fn replace(&mut self, mut whole: Made) {
        let before = self.whole.take();
        whole.after_loss |= before.as_ref().is_some_and(|before| before.after_loss);
        before.into_iter().flat_map(|before| before.rows).for_each(|row| self.put(row));
        let named: HashSet<(Side, StoredKey)> = whole.rows.iter().map(|row| (row.side, row.key.clone())).collect();
        let left_out = &mut self.left_out;
        self.rows.retain(|key, row| {
            let kept = !named.contains(key);
            if !kept {
                LeftOut::add(left_out, one(row));
            }
            kept
        });
        self.head = whole.without_rows();
        self.whole = Some(whole);
    }

    fn put(&mut self, row: TickUpdate) {
        match self.rows.entry((row.side, row.key.clone())) {
            Entry::Vacant(place) => drop(place.insert(row)),
            Entry::Occupied(mut kept) => {
                let older = if kept.get().version <= row.version { kept.insert(row) } else { row };
                LeftOut::add(&mut self.left_out, one(&older));
            }
        }
    }

    /// Whether its book makes good a loss.
    fn makes_good(&self) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.after_loss)
    }

    /// Bytes that it occupies.
    pub(super) fn bytes(&self) -> u64 {
        let whole = self.whole.as_ref().map_or(0, Made::bytes);
        count(self.rows.len()).saturating_mul(row_bytes()).saturating_add(whole)
    }

    /// Since when its oldest part waits.
    pub(super) fn opened_ns(&self) -> u64 {
        self.opened_ns
    }

    /// What remains as events to be stored one after the other, and what was left out.
    pub(super) fn into_events(self) -> (VecDeque<Made>, Option<LeftOut>) {
        let Self { head, whole, rows, left_out, .. } = self;
        let from = whole.as_ref().map(|whole| whole.version);
        let (before, after): (Vec<_>, Vec<_>) =
            rows.into_values().partition(|row| from.is_some_and(|from| row.version <= from));
        let through = head.version;
        let mut events = VecDeque::with_capacity(4);
        events.extend(part(&head, before));
        events.extend(whole);
        events.extend(part(&head, after));
        // What it comes to is known once the last of it is stored.
        match events.back_mut() {
            Some(last) if !last.whole => last.version = last.version.max(through),
            Some(last) if last.version >= through => {}
            _ => events.push_back(Made { whole: false, ..head }),
        }
        (events, left_out)
    }

    /// Gives all of it up: everything is left out.
    pub(super) fn into_left_out(self) -> (Made, Option<LeftOut>) {
        let Self { head, whole, rows, mut left_out, .. } = self;
        let whole = whole.iter().flat_map(|whole| &whole.rows);
        for row in whole.chain(rows.values()) {
            LeftOut::add(&mut left_out, one(row));
        }
        (head, left_out)
    }
}

/// A change that is left out.
pub(super) fn one(row: &TickUpdate) -> LeftOut {
    LeftOut::one(row.version.to_u128(), row.received_ns)
}

/// Rows as an event, in the order of their versions.
fn part(head: &Made, mut rows: Vec<TickUpdate>) -> Option<Made> {
    rows.sort_unstable_by(|one, other| (one.version, one.side, &one.key).cmp(&(other.version, other.side, &other.key)));
    let last = rows.last()?;
    let (version, scale) = (last.version, last.scale);
    Some(Made { version, scale, whole: false, rows, ..head.without_rows() })
}

/// Rows of a batch as the events that they were made of: rows of one instrument and one version stand together.
pub(super) fn events_of(rows: Vec<TickUpdate>, leg_of: impl Fn(SymbolId) -> LegId) -> Vec<Made> {
    let mut events: Vec<Made> = Vec::new();
    for row in rows {
        match events.last_mut() {
            Some(last)
                if last.symbol == row.instrument.id && last.version == row.version && last.whole == row.whole =>
            {
                last.rows.push(row);
            }
            _ => {
                let leg = leg_of(row.instrument.id);
                events.push(Made::of_row(row, leg));
            }
        }
    }
    events
}

/// What waits of many instruments, the one that waits longest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    of: HashMap<SymbolId, Conflated>,
    /// Each of them once.
    order: VecDeque<SymbolId>,
    bytes: u64,
}

impl Waiting {
    /// Takes an event; gives how many changes are left out because of it.
    pub(super) fn take(&mut self, opened_ns: u64, made: Made) -> u64 {
        match self.of.entry(made.symbol) {
            Entry::Occupied(mut kept) => {
                let kept = kept.get_mut();
                self.bytes = self.bytes.saturating_sub(kept.bytes());
                let left_out = kept.take(opened_ns, made);
                self.bytes += kept.bytes();
                left_out
            }
            Entry::Vacant(place) => {
                self.order.push_back(made.symbol);
                let kept = place.insert(Conflated::new(opened_ns, made));
                self.bytes += kept.bytes();
                0
            }
        }
    }

    /// Notes that an instrument came to a version, by an event without changes.
    pub(super) fn reach(&mut self, symbol: SymbolId, version: Version) {
        if let Some(kept) = self.of.get_mut(&symbol) {
            kept.head.version = kept.head.version.max(version);
        }
    }

    /// The one that waits longest.
    pub(super) fn pop(&mut self) -> Option<Conflated> {
        let symbol = self.order.pop_front()?;
        let kept = self.of.remove(&symbol)?;
        self.bytes = self.bytes.saturating_sub(kept.bytes());
        Some(kept)
    }

    pub(super) fn remove(&mut self, symbol: SymbolId) -> Option<Conflated> {
        let kept = self.of.remove(&symbol)?;
        self.order.retain(|other| *other != symbol);
        self.bytes = self.bytes.saturating_sub(kept.bytes());
        Some(kept)
    }

    /// The one that occupies most, and how much; none whose book makes good a loss.
    pub(super) fn largest(&self) -> Option<(SymbolId, u64)> {
        self.of
            .iter()
            .filter(|(_, kept)| !kept.makes_good())
            .map(|(symbol, kept)| (*symbol, kept.bytes()))
            .max_by_key(|(symbol, bytes)| (*bytes, symbol.0))
    }

    pub(super) fn contains(&self, symbol: SymbolId) -> bool {
        self.of.contains_key(&symbol)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.of.values().map(Conflated::opened_ns).min()
    }
}

/// Bytes of an event's rows that are not conflated.
pub(super) fn bytes_of_events<'a>(events: impl IntoIterator<Item = &'a Made>) -> u64 {
    events.into_iter().map(|made| bytes_of(&made.rows)).sum()
}
