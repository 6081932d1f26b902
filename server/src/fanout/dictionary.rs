//! The dictionary as terminals are told it: everything at the greeting, additions when they come.
//!
//! Never: a number that was told before with another meaning.

use market::Directory;
use wire::{Dictionary, DictionaryInstrument, DictionaryPair};

/// Entries of one message: with the longest names still well below a message's bound.
const ENTRIES_PER_MESSAGE: usize = 8_192;

/// How much of the directory every terminal knows.
#[derive(Debug, Default)]
pub(super) struct Told {
    instruments: u32,
    pairs: u32,
}

impl Told {
    /// What a new terminal must be told: all that others know, so that later additions fit everybody.
    pub(super) fn everything(&self, directory: &Directory, generation: u64) -> Vec<Dictionary> {
        let mut pairs = pairs(directory, 0);
        pairs.truncate(usize::try_from(self.pairs).unwrap_or(usize::MAX));
        let mut instruments = instruments(directory, 0);
        instruments.truncate(usize::try_from(self.instruments).unwrap_or(usize::MAX));
        messages(generation, &pairs, &instruments)
    }

    /// What was listed since the last call.
    pub(super) fn news(&mut self, directory: &Directory, generation: u64) -> Vec<Dictionary> {
        // Instruments first: a pair is listed no later than its first instrument.
        let instruments = instruments(directory, self.instruments);
        if instruments.is_empty() {
            return Vec::new();
        }
        let pairs = pairs(directory, self.pairs);
        let add = |known: u32, more: usize| known.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.instruments = add(self.instruments, instruments.len());
        self.pairs = add(self.pairs, pairs.len());
        messages(generation, &pairs, &instruments)
    }
}

fn messages(generation: u64, pairs: &[DictionaryPair], instruments: &[DictionaryInstrument]) -> Vec<Dictionary> {
    let of_pairs = pairs.chunks(ENTRIES_PER_MESSAGE).map(|pairs| Dictionary {
        generation,
        instruments: Vec::new(),
        pairs: pairs.to_vec(),
    });
    let of_instruments = instruments.chunks(ENTRIES_PER_MESSAGE).map(|instruments| Dictionary {
        generation,
        instruments: instruments.to_vec(),
        pairs: Vec::new(),
    });
    of_pairs.chain(of_instruments).collect()
}

fn instruments(directory: &Directory, from: u32) -> Vec<DictionaryInstrument> {
    let entry = |instrument: &std::sync::Arc<market::Instrument>| DictionaryInstrument {
        id: instrument.id.0,
        venue: instrument.venue,
        symbol: instrument.symbol.as_ref().into(),
        asset_0: instrument.asset_0.as_ref().into(),
        asset_1: instrument.asset_1.as_ref().into(),
        pair: instrument.pair.0,
    };
    directory.instruments_from(from).iter().map(entry).collect()
}

fn pairs(directory: &Directory, from: u32) -> Vec<DictionaryPair> {
    let entry = |pair: &std::sync::Arc<market::instrument::Pair>| DictionaryPair {
        id: pair.id.0,
        asset_0: pair.asset_0.as_ref().into(),
        asset_1: pair.asset_1.as_ref().into(),
    };
    directory.pairs_from(from).iter().map(entry).collect()
}
