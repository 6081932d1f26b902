//! Instruments and pairs, and the directory that gives them small numbers.
//!
//! Never: an id that changes its meaning; the directory only grows.

use crate::Venue;
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError, RwLock};

/// Interned instrument; dense from 0 in the order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SymbolId(pub u32);

/// Interned pair of assets, the same on every venue; dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PairId(pub u32);

/// Most instruments that one process takes; beyond it a new symbol is refused, not wrapped.
pub const INSTRUMENTS_MAX: u32 = 1 << 20;

/// Asset spellings that mean the same asset on different venues, as (venue's spelling, ours).
pub const ASSET_ALIASES: [(&str, &str); 3] = [("XBT", "BTC"), ("XDG", "DOGE"), ("XXBT", "BTC")];

/// One market at one venue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its number in this process.
    pub id: SymbolId,
    /// Where it trades.
    pub venue: Venue,
    /// The venue's own spelling, kept to the letter.
    pub symbol: Arc<str>,
    /// Base asset: what an ask rests. The venue's spelling.
    pub asset_0: Arc<str>,
    /// Quote asset: what a bid rests. The venue's spelling.
    pub asset_1: Arc<str>,
    /// The pair it belongs to across venues.
    pub pair: PairId,
    /// `venue/symbol`, the id that people and the wire use.
    pub text: Arc<str>,
}

/// A pair of assets, aliases resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Its number in this process.
    pub id: PairId,
    /// Base asset.
    pub asset_0: Arc<str>,
    /// Quote asset.
    pub asset_1: Arc<str>,
    /// `asset_0/asset_1`.
    pub text: Arc<str>,
}

/// The directory refused a new instrument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory holds {INSTRUMENTS_MAX} instruments; {text} is refused")]
pub struct DirectoryFull {
    /// The instrument that did not fit.
    pub text: Box<str>,
}

/// All instruments and pairs of a process; shared, append-only.
#[derive(Debug, Default)]
pub struct Directory {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    instruments: Vec<Arc<Instrument>>,
    by_text: HashMap<Arc<str>, SymbolId>,
    pairs: Vec<Arc<Pair>>,
    pair_by_text: HashMap<Arc<str>, PairId>,
}

/// An asset's name across venues.
#[must_use]
pub fn canonical_asset(asset: &str) -> &str {
    ASSET_ALIASES.iter().find(|(alias, _)| *alias == asset).map_or(asset, |(_, name)| name)
}

impl Directory {
    /// The number of an instrument, given one if it is new.
    ///
    /// # Errors
    /// [`DirectoryFull`] once [`INSTRUMENTS_MAX`] are known.
    pub fn intern(
        &self,
        venue: Venue,
        symbol: &str,
        asset_0: &str,
        asset_1: &str,
    ) -> Result<Arc<Instrument>, DirectoryFull> {
        let text: Arc<str> = format!("{venue}/{symbol}").into();
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let known = inner.by_text.get(&text).and_then(|id| inner.instrument(*id));
        if let Some(known) = known {
            return Ok(known);
        }
        let full = || DirectoryFull { text: text.as_ref().into() };
        let next = u32::try_from(inner.instruments.len()).map_err(|_| full())?;
        if next >= INSTRUMENTS_MAX {
            return Err(full());
        }
        let pair = inner.pair(asset_0, asset_1);
        let instrument = Arc::new(Instrument {
            id: SymbolId(next),
            venue,
            symbol: symbol.into(),
            asset_0: asset_0.into(),
            asset_1: asset_1.into(),
            pair,
            text: Arc::clone(&text),
        });
        inner.by_text.insert(text, instrument.id);
        inner.instruments.push(Arc::clone(&instrument));
        Ok(instrument)
    }

    /// The instrument of an id.
    #[must_use]
    pub fn get(&self, id: SymbolId) -> Option<Arc<Instrument>> {
        self.read(|inner| inner.instrument(id))
    }

    /// The instrument of a `venue/symbol` text.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Arc<Instrument>> {
        self.read(|inner| inner.by_text.get(text).and_then(|id| inner.instrument(*id)))
    }

    /// The pair of an id.
    #[must_use]
    pub fn pair(&self, id: PairId) -> Option<Arc<Pair>> {
        self.read(|inner| usize::try_from(id.0).ok().and_then(|at| inner.pairs.get(at).cloned()))
    }

    /// The pair of an `asset_0/asset_1` text.
    #[must_use]
    pub fn find_pair(&self, text: &str) -> Option<Arc<Pair>> {
        let found = |inner: &Inner| inner.pairs.get(usize::try_from(inner.pair_by_text.get(text)?.0).ok()?).cloned();
        self.read(found)
    }

    /// All instruments from the given number on, in order.
    #[must_use]
    pub fn instruments_from(&self, first: u32) -> Vec<Arc<Instrument>> {
        self.read(|inner| {
            inner.instruments.iter().skip(usize::try_from(first).unwrap_or(usize::MAX)).cloned().collect()
        })
    }

    /// All pairs from the given number on, in order.
    #[must_use]
    pub fn pairs_from(&self, first: u32) -> Vec<Arc<Pair>> {
        self.read(|inner| inner.pairs.iter().skip(usize::try_from(first).unwrap_or(usize::MAX)).cloned().collect())
    }

    /// How many instruments are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(|inner| inner.instruments.len())
    }

    /// Whether no instrument is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read<T>(&self, use_inner: impl FnOnce(&Inner) -> T) -> T {
        use_inner(&self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn instrument(&self, id: SymbolId) -> Option<Arc<Instrument>> {
        usize::try_from(id.0).ok().and_then(|at| self.instruments.get(at).cloned())
    }

    /// Pairs are never more than instruments, whose number is bounded, so the counter cannot wrap.
    fn pair(&mut self, asset_0: &str, asset_1: &str) -> PairId {
        let (asset_0, asset_1) = (canonical_asset(asset_0), canonical_asset(asset_1));
        let text: Arc<str> = format!("{asset_0}/{asset_1}").into();
        if let Some(id) = self.pair_by_text.get(&text) {
            return *id;
        }
        let id = PairId(u32::try_from(self.pairs.len()).unwrap_or(u32::MAX));
        self.pairs.push(Arc::new(Pair {
            id,
            asset_0: asset_0.into(),
            asset_1: asset_1.into(),
            text: Arc::clone(&text),
        }));
        self.pair_by_text.insert(text, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instrument_keeps_its_number_and_its_spelling() {
        let directory = Directory::default();
        let upper = directory.intern(Venue::KrakenSpot, "KPEPE/USD", "KPEPE", "USD").unwrap();
        let lower = directory.intern(Venue::KrakenSpot, "kPEPE/USD", "kPEPE", "USD").unwrap();
        assert_ne!(upper.id, lower.id);
        assert_eq!(directory.intern(Venue::KrakenSpot, "KPEPE/USD", "KPEPE", "USD").unwrap().id, upper.id);
        assert_eq!(directory.find("kraken_spot/kPEPE/USD").map(|found| found.id), Some(lower.id));
    }

    #[test]
    fn aliases_share_one_pair() {
        let directory = Directory::default();
        let kraken = directory.intern(Venue::KrakenSpot, "XBT/USDT", "XBT", "USDT").unwrap();
        let binance = directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
        assert_eq!(kraken.pair, binance.pair);
        assert_eq!(directory.pair(kraken.pair).map(|pair| pair.text.to_string()), Some("BTC/USDT".to_owned()));
    }
}
