//! A piece of a checkpoint on its way from the tape to the writer.
//!
//! Never: half an instrument.

use super::codec::{InstrumentRecord, LevelRecord, Record};
use crate::hub::HubInstrument;
use market::{Instrument, Side, Venue};

/// What a round says with its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// It is the round's first: whatever was under way is given up.
    pub(super) first: bool,
    /// It is the last: the file can be finished.
    pub(super) last: bool,
    /// Now, Unix nanoseconds.
    pub(super) now_ns: u64,
}

/// Instruments with their levels and names; used again and again.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) place: Option<Place>,
    pub(super) instruments: Vec<InstrumentRecord>,
    pub(super) levels: Vec<LevelRecord>,
    pub(super) names: Vec<u8>,
}

impl Part {
    pub(super) fn clear(&mut self) {
        self.place = None;
        self.instruments.clear();
        self.levels.clear();
        self.names.clear();
    }

    /// Bytes that were copied into it.
    pub(super) fn bytes(&self) -> usize {
        let records = self.instruments.len() * InstrumentRecord::BYTES + self.levels.len() * LevelRecord::BYTES;
        records + self.names.len()
    }

    /// Copies an instrument, if it has a book. Names too long for the file, which no venue has, leave it out.
    pub(super) fn copy(&mut self, held: &HubInstrument, instrument: &Instrument) {
        let Some(version) = held.version() else { return };
        let record = InstrumentRecord {
            epoch: version.epoch,
            seq: version.seq,
            heard_ns: held.received_ns(),
            price: held.scale().price,
            quantity: held.scale().quantity,
            ..InstrumentRecord::default()
        };
        let begin = self.levels.len();
        let sides = Side::BOTH.map(|side| {
            let before = self.levels.len();
            self.levels.extend(
                held.levels(side)
                    .map(|level| LevelRecord { tick_index: level.tick_index, quantity: level.quantity.into_limbs() }),
            );
            self.levels.len() - before
        });
        match complete(record, sides, instrument) {
            Some(record) => {
                self.instruments.push(record);
                for name in [&instrument.symbol, &instrument.asset_0, &instrument.asset_1] {
                    self.names.extend_from_slice(name.as_bytes());
                }
            }
            None => self.levels.truncate(begin),
        }
    }
}

fn complete(record: InstrumentRecord, sides: [usize; 2], instrument: &Instrument) -> Option<InstrumentRecord> {
    let [bids, asks] = sides;
    let place = Venue::ALL.iter().position(|venue| *venue == instrument.venue)?;
    Some(InstrumentRecord {
        bids: u32::try_from(bids).ok()?,
        asks: u32::try_from(asks).ok()?,
        symbol_bytes: u16::try_from(instrument.symbol.len()).ok()?,
        asset_0_bytes: u16::try_from(instrument.asset_0.len()).ok()?,
        asset_1_bytes: u16::try_from(instrument.asset_1.len()).ok()?,
        venue: u8::try_from(place).ok()?,
        ..record
    })
}
