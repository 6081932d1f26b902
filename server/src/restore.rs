//! Books as they were kept, from the store and from the checkpoint, brought together before a start.
//!
//! Never: a version below one that either of them holds.

pub use connectors::clickhouse::RestoredInstrument;

use crate::{
    checkpoint::{self, CheckpointView},
    store::{Store, StoreError},
};
use connectors::{
    clickhouse::{BatchCursor, RestoreBatches, restore::in_epoch},
    halt,
    venue_feed::listings::Listings,
};
use foldhash::{HashMap, HashMapExt, HashSet};
use market::{Body, Event, LegId, Listing, Restored, Venue, instrument::DirectoryFull};
use std::path::Path;

/// What a start goes on from.
#[derive(Debug, Default)]
pub struct Kept {
    /// The books.
    pub instruments: Vec<RestoredInstrument>,
    /// The epochs that instruments reached, by `venue/symbol`.
    pub epochs: HashMap<Box<str>, u64>,
    /// The least epoch that was never used, as far as store and checkpoint know.
    pub epoch_least: u64,
    /// The cursors of batch streams.
    pub cursors: Vec<BatchCursor>,
    /// Books of log streams, by `venue/symbol`, that were shown in a greater epoch than they are kept in.
    pub outdated: HashSet<Box<str>>,
}

impl Kept {
    /// Without the books of streams that were shown in a greater epoch than their book's: where such a stream stood is
    /// not known, so it opens a new epoch with its first snapshot.
    ///
    /// A book that goes on from a log stays: no venue sends it again, and where it stands the cursor tells. It is noted,
    /// and [`events`] brings it to a new epoch, above the one that was shown.
    #[must_use]
    pub fn without_outdated(mut self, bumped: &HashMap<Box<str>, u64>) -> Self {
        let name = |instrument: &RestoredInstrument| format!("{}/{}", instrument.venue, instrument.symbol);
        let from_log = self.instruments.iter().filter(|instrument| instrument.restored.from_log);
        let from_log: HashSet<String> = from_log.map(name).collect();
        for (name, epoch) in bumped {
            if self.epochs.get(name).is_some_and(|reached| reached < epoch) {
                tracing::info!(
                    instrument = &**name,
                    epoch,
                    "its last epoch was shown and not kept: it opens a new one"
                );
                self.epochs.remove(name);
                if from_log.contains(&**name) {
                    self.outdated.insert(name.clone());
                }
            }
        }
        let (epochs, outdated) = (&self.epochs, &self.outdated);
        self.instruments.retain(|instrument| {
            let name = name(instrument);
            epochs.contains_key(name.as_str()) || outdated.contains(name.as_str())
        });
        self
    }
}

/// Reads what the store and the checkpoint of a data directory kept.
///
/// # Errors
/// [`StoreError`]. A checkpoint that cannot be used is none.
pub async fn load(
    data_dir: &Path,
    store: Option<&Store>,
    view: &CheckpointView,
    batches: &RestoreBatches,
) -> Result<Kept, StoreError> {
    let checkpoint = checkpoint::load(data_dir, view);
    let mut kept = Kept { epoch_least: 1, ..Kept::default() };
    if let Some(store) = store {
        let state = store.restore(batches).await?;
        (kept.instruments, kept.cursors) = (state.instruments, state.cursors);
        let (epochs, greatest) = store.epochs().await?;
        kept.epochs = epochs;
        kept.epoch_least = greatest.saturating_add(1);
    }
    if let Some(checkpoint) = checkpoint {
        kept.epoch_least = kept.epoch_least.max(checkpoint.epoch_least());
        kept.instruments = merge(kept.instruments, checkpoint.instruments);
    }
    for instrument in &kept.instruments {
        let name = format!("{}/{}", instrument.venue, instrument.symbol).into_boxed_str();
        let epoch = kept.epochs.entry(name).or_default();
        *epoch = instrument.restored.version.epoch.max(*epoch);
    }
    halt::point("restore-read");
    Ok(kept)
}

/// Of each instrument the book with the greater version, in the order of the store, then of the checkpoint.
///
/// At one version the checkpoint's book is taken: it was written as a whole, while a crash may have left some of the
/// store's tables behind its version. A stream that goes on from a log takes no book from a checkpoint: only of the
/// store's book the position in the log is known.
#[must_use]
pub fn merge(store: Vec<RestoredInstrument>, checkpoint: Vec<RestoredInstrument>) -> Vec<RestoredInstrument> {
    let mut merged = store;
    let mut places: HashMap<(Venue, Box<str>), usize> = HashMap::with_capacity(merged.len());
    for (at, instrument) in merged.iter().enumerate() {
        places.insert((instrument.venue, instrument.symbol.clone()), at);
    }
    let of_log = |instrument: &RestoredInstrument| instrument.restored.from_log || instrument.venue.sends_batches();
    for instrument in checkpoint.into_iter().filter(|instrument| !of_log(instrument)) {
        let place = places.get(&(instrument.venue, instrument.symbol.clone())).and_then(|at| merged.get_mut(*at));
        match place {
            None => merged.push(instrument),
            Some(stored) if supersedes(&instrument.restored, &stored.restored) => *stored = instrument,
            Some(_) => {}
        }
    }
    merged
}

/// What brings kept books into the lanes, to be fed before anything else of their instruments: each one's listing, then
/// its book. New epochs are taken from `block` on. Books that go on from a log come on the `batches` leg, and the
/// `outdated` of these in the epoch `block`: they were shown in a later one than they are kept in, and a version never
/// goes back on a screen. Their ticks come to it as well, since the log repeats its events in it.
///
/// # Errors
/// [`DirectoryFull`].
pub fn events(
    kept: Vec<RestoredInstrument>,
    outdated: &HashSet<Box<str>>,
    listings: &Listings,
    batches: LegId,
    block: u64,
    now_ns: u64,
) -> Result<Vec<Event>, DirectoryFull> {
    let mut events = Vec::with_capacity(kept.len().saturating_mul(2));
    for RestoredInstrument { venue, symbol, asset_0, asset_1, mut restored } in kept {
        let instrument = listings.directory().intern(venue, &symbol, &asset_0, &asset_1)?;
        if restored.from_log && outdated.contains(&*instrument.text) {
            restored = in_epoch(restored, block);
        }
        let (pair, epoch) = (instrument.pair, restored.version.epoch);
        let listing = Listing { venue, pair, epoch, block, views: listings.views_of(pair) };
        let leg = if restored.from_log { batches } else { LegId(0) };
        let event = |body| Event::of(instrument.id, leg, now_ns, 0, body);
        events.extend([event(Body::Listing(listing)), event(Body::Restored(Box::new(restored)))]);
    }
    Ok(events)
}

fn supersedes(checkpoint: &Restored, stored: &Restored) -> bool {
    !stored.from_log && checkpoint.version >= stored.version
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{View, ViewKind},
        views::ViewTable,
    };
    use market::{PairViews, RestoredTick, Scale, Side, TickChange, U256, Version};
    use std::sync::Arc;

    fn book(symbol: &str, seq: u64, quantity: u64) -> RestoredInstrument {
        let version = Version::new(1, seq);
        let tick = TickChange::at(Side::Bid, 7, U256::from(quantity));
        RestoredInstrument {
            venue: Venue::BinanceSpot,
            symbol: symbol.into(),
            asset_0: "A".into(),
            asset_1: "B".into(),
            restored: Restored {
                version,
                through: version,
                scale: Scale { price: -2, quantity: -8 },
                ticks: Some(vec![RestoredTick { tick, version }]),
                from_log: false,
                heard_ns: quantity,
            },
        }
    }

    fn from_log(instrument: RestoredInstrument) -> RestoredInstrument {
        let restored = Restored { from_log: true, ..instrument.restored };
        RestoredInstrument { restored, ..instrument }
    }

    fn without_ticks(instrument: RestoredInstrument) -> RestoredInstrument {
        let restored = Restored { ticks: None, ..instrument.restored };
        RestoredInstrument { restored, ..instrument }
    }

    #[test]
    fn the_greater_version_wins_instrument_by_instrument() {
        let store = vec![book("OLD", 5, 1), book("NEW", 9, 1), book("ONLY-STORE", 3, 1)];
        let checkpoint = vec![book("NEW", 8, 2), book("OLD", 6, 2), book("ONLY-FILE", 2, 2)];
        let expected = vec![book("OLD", 6, 2), book("NEW", 9, 1), book("ONLY-STORE", 3, 1), book("ONLY-FILE", 2, 2)];
        assert_eq!(merge(store, checkpoint), expected);
    }

    #[test]
    fn an_epoch_outweighs_any_sequence() {
        let mut bumped = book("A", 1, 2);
        bumped.restored.version = Version::new(2, 1);
        assert_eq!(merge(vec![book("A", u64::MAX, 1)], vec![bumped.clone()]), [bumped]);
    }

    #[test]
    fn at_one_version_the_book_that_was_written_whole_is_taken() {
        assert_eq!(merge(vec![book("A", 5, 1)], vec![book("A", 5, 2)]), [book("A", 5, 2)]);
        assert_eq!(merge(vec![without_ticks(book("A", 5, 1))], vec![book("A", 5, 2)]), [book("A", 5, 2)]);
        let bound = vec![without_ticks(book("A", 6, 1))];
        assert_eq!(merge(bound.clone(), vec![book("A", 5, 2)]), bound);
    }

    #[test]
    fn a_stream_that_goes_on_from_a_log_takes_nothing_from_a_checkpoint() {
        let stored = vec![from_log(book("A", 5, 1))];
        assert_eq!(merge(stored.clone(), vec![book("A", 6, 2), from_log(book("B", 1, 2))]), stored);
    }

    #[test]
    fn a_batch_venues_book_comes_from_no_checkpoint() {
        let dex = RestoredInstrument { venue: Venue::NeutronDex, ..book("A", 5, 1) };
        assert_eq!(merge(Vec::new(), vec![dex]), []);
    }

    fn kept(instruments: Vec<RestoredInstrument>) -> Kept {
        let name = |kept: &RestoredInstrument| format!("{}/{}", kept.venue, kept.symbol).into_boxed_str();
        let epochs = instruments.iter().map(|kept| (name(kept), kept.restored.version.epoch)).collect();
        Kept { instruments, epochs, ..Kept::default() }
    }

    #[test]
    fn a_book_shown_in_a_later_epoch_than_it_is_kept_in_goes_unless_only_its_log_has_it() {
        let log = RestoredInstrument { venue: Venue::NeutronDex, ..from_log(book("LOG", 5, 1)) };
        let same = RestoredInstrument { venue: Venue::NeutronDex, ..from_log(book("SAME", 5, 1)) };
        let all = kept(vec![book("GONE", 5, 1), book("STAYS", 5, 1), log.clone(), same.clone()]);
        let bumped =
            [("binance_spot/GONE", 2), ("binance_spot/STAYS", 1), ("neutron_dex/LOG", 4), ("neutron_dex/SAME", 1)];
        let kept = all.without_outdated(&bumped.into_iter().map(|(name, epoch)| (name.into(), epoch)).collect());
        assert_eq!(kept.instruments, [book("STAYS", 5, 1), log, same]);
        assert_eq!(kept.outdated.iter().map(|name| &**name).collect::<Vec<_>>(), ["neutron_dex/LOG"]);
        assert!(!kept.epochs.contains_key("neutron_dex/LOG"), "what is made of it anew is of a new epoch");

        let pairs = vec!["*".to_owned()];
        let spread = View { name: "s".to_owned(), kind: ViewKind::Spread, percent: String::new(), pairs };
        let views = ViewTable::of(&[spread]);
        let listings = Listings::new(Arc::default()).with_views(Arc::new(views.clone()));
        let events = events(kept.instruments, &kept.outdated, &listings, LegId(7), 9, 1).unwrap();
        let mut found = Vec::new();
        for event in &events {
            match &event.body {
                Body::Listing(listing) => {
                    assert_eq!(listing.views, views.of("A/B"), "a kept book is in the views from the start");
                    found.push((event.leg, listing.epoch, listing.block));
                }
                Body::Restored(restored) => {
                    let ticks = restored.ticks.iter().flatten().map(|tick| tick.version);
                    let versions = [restored.version, restored.through].into_iter().chain(ticks);
                    let epoch = found.last().unwrap().1;
                    assert!(versions.into_iter().all(|version| version == Version::new(epoch, 5)));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(found, [(LegId(0), 1, 9), (LegId(7), 9, 9), (LegId(7), 1, 9)]);
    }

    #[test]
    fn symbols_of_two_venues_are_two_instruments() {
        let other = RestoredInstrument { venue: Venue::KrakenSpot, ..book("A", 9, 2) };
        assert_eq!(merge(vec![book("A", 5, 1)], vec![other.clone()]), [book("A", 5, 1), other]);
    }
}
