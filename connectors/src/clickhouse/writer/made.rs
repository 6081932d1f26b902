//! An admitted event as the rows that it becomes.
//!
//! Never: a tranche without its name; a row of a block without its own place.

use super::{PushError, count};
use crate::clickhouse::rows::{StoredKey, TickUpdate};
use foldhash::HashSet;
use market::{AdmittedChanges, Instrument, LegId, Scale, Side, SymbolId, Tranches, U256, Version};
use std::sync::Arc;

/// A tick that lives in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveKey {
    /// Its side.
    pub side: Side,
    /// Its key within the side.
    pub key: StoredKey,
    /// The version of its last change.
    pub version: Version,
}

/// An admitted event with its rows. Tranches are named when it is pushed: while it waits they may be forgotten.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) symbol: SymbolId,
    pub(super) version: Version,
    pub(super) leg: LegId,
    pub(super) whole: bool,
    /// Of a whole book: changes before it were left out, so only the store knows which of its ticks the book lacks.
    pub(super) after_loss: bool,
    pub(super) scale: Scale,
    pub(super) instrument: Arc<Instrument>,
    pub(super) venue_ns: u64,
    pub(super) received_ns: u64,
    pub(super) shown_ns: u64,
    pub(super) stream: Option<Arc<str>>,
    pub(super) rows: Vec<TickUpdate>,
}

impl Made {
    /// The rows of an event; of a batch stream each refers to the stream's log, but for those of a whole book.
    pub(super) fn of(
        changes: &AdmittedChanges,
        instrument: &Arc<Instrument>,
        stream: Option<&Arc<str>>,
        tranches: &Tranches,
    ) -> Result<Self, PushError> {
        let mut made = Self {
            symbol: changes.symbol,
            version: changes.version,
            leg: changes.leg,
            whole: changes.whole,
            after_loss: false,
            scale: changes.scale,
            instrument: Arc::clone(instrument),
            venue_ns: changes.venue_ns,
            received_ns: changes.received_ns,
            shown_ns: changes.shown_ns,
            stream: stream.filter(|_| !changes.whole).cloned(),
            rows: Vec::new(),
        };
        made.rows.reserve_exact(changes.changes.len());
        for (at, change) in changes.changes.iter().enumerate() {
            let key = StoredKey::of(change.key, tranches).ok_or_else(|| PushError::UnnamedTranche {
                instrument: Arc::clone(&instrument.text),
                tranche: change.key.tranche.0,
            })?;
            let version = match changes.places.get(at) {
                Some(place) => Version::new(changes.version.epoch, *place),
                None => changes.version,
            };
            let row = made.row(change.side, key, change.reserves, version);
            made.rows.push(row);
        }
        Ok(made)
    }

    /// The event without its rows.
    pub(super) fn without_rows(&self) -> Self {
        Self { instrument: Arc::clone(&self.instrument), stream: self.stream.clone(), rows: Vec::new(), ..*self }
    }

    /// The beginning of an event of which this is a row; of no batch stream.
    pub(super) fn of_row(row: TickUpdate, leg: LegId) -> Self {
        Self {
            symbol: row.instrument.id,
            version: row.version,
            leg,
            whole: row.whole,
            after_loss: false,
            scale: row.scale,
            instrument: Arc::clone(&row.instrument),
            venue_ns: row.venue_ns,
            received_ns: row.received_ns,
            shown_ns: row.shown_ns,
            stream: None,
            rows: vec![row],
        }
    }

    fn row(&self, side: Side, key: StoredKey, reserves: U256, version: Version) -> TickUpdate {
        TickUpdate {
            instrument: Arc::clone(&self.instrument),
            side,
            key,
            reserves,
            version,
            whole: self.whole,
            scale: self.scale,
            venue_ns: self.venue_ns,
            received_ns: self.received_ns,
            shown_ns: self.shown_ns,
            stream: self.stream.clone(),
            corrects: false,
        }
    }

    /// Bytes that it occupies while it waits.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.rows)
    }

    /// Tombstones for the keys that a whole book does not name at all, neither living nor dead. What changed after the
    /// book is left alone: a replay from an earlier place comes to it later.
    pub(super) fn tombstones(&self, keys: &[LiveKey]) -> Vec<TickUpdate> {
        let named: HashSet<(Side, &StoredKey)> = self.rows.iter().map(|row| (row.side, &row.key)).collect();
        let lacking =
            keys.iter().filter(|live| live.version <= self.version && !named.contains(&(live.side, &live.key)));
        lacking.map(|live| self.row(live.side, live.key.clone(), U256::ZERO, self.version)).collect()
    }
}

/// Bytes that rows occupy while they wait.
pub(super) fn bytes_of(rows: &[TickUpdate]) -> u64 {
    count(size_of_val(rows))
}
