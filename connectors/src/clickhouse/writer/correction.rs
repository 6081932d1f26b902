//! Corrections: ticks of an instrument as an audit knows them to be at a version, written like any change, and told apart
//! from them by their `raw_id`.
//!
//! They are of no venue event, so they wait for no mark and move no durable version. A tick that has changed since has a
//! greater version than its correction, which then is nothing but history.
//!
//! Never: a tick that its audit did not name; a whole book.

use super::{StoreWriter, count, made::bytes_of};
use crate::clickhouse::rows::{Rows, StoredKey, TickUpdate};
use market::{Instrument, Scale, Side, SymbolId, U256, Version};
use std::sync::Arc;

/// Ticks to be written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The instrument.
    pub symbol: SymbolId,
    /// The version at which the ticks are as they are said to be.
    pub version: Version,
    /// When that was found, Unix nanoseconds. It makes a correction that is repeated later another one to the store.
    pub found_ns: u64,
    /// The ticks.
    pub ticks: Vec<CorrectedTick>,
}

/// A tick as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectedTick {
    /// Its side.
    pub side: Side,
    /// Its key in the store.
    pub key: StoredKey,
    /// Its reserves; zero if it is dead.
    pub reserves: U256,
    /// The steps of its numbers.
    pub scale: Scale,
}

impl Correction {
    /// Bytes that its ticks occupy.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        count(size_of_val(self.ticks.as_slice()))
    }
}

impl StoreWriter {
    /// Takes a correction.
    pub fn push_correction(&mut self, now_ns: u64, correction: Correction, instrument: &Arc<Instrument>) {
        let Correction { symbol, version, found_ns, ticks } = correction;
        if ticks.is_empty() {
            return;
        }
        let row = |tick: CorrectedTick| TickUpdate {
            instrument: Arc::clone(instrument),
            side: tick.side,
            key: tick.key,
            reserves: tick.reserves,
            version,
            whole: false,
            scale: tick.scale,
            venue_ns: 0,
            received_ns: found_ns,
            shown_ns: 0,
            stream: None,
            corrects: true,
        };
        let rows: Vec<_> = ticks.into_iter().map(row).collect();
        self.counters.rows_pushed += count(rows.len());
        let bytes = bytes_of(&rows);
        // What of a batch stream is, is never conflated or left out.
        let queue = if self.blocks.are_of(instrument.venue) { &mut self.wholes } else { &mut self.ticks };
        queue.append(now_ns, Rows::Ticks(rows), bytes, None);
        // Live keys that are asked for later are asked for behind it.
        if let Some(known) = self.known.get_mut(&symbol) {
            known.last_batch = Some(queue.open_number());
        }
        queue.close_if_large(&self.options);
    }
}
