//! The checkpoint file, from a hub and back: any state, any damage, any moment of a crash.
//!
//! Never: a sleep, or a time that decides.

use super::{
    codec::{Header, InstrumentRecord, LevelRecord, Record},
    part::{Part, Place},
    read::{parse, read},
    writer::Writer,
    *,
};
use crate::{
    epochs::BLOCK,
    hub::{Hub, HubConfig, HubInstrument},
    restore::RestoredInstrument,
};
use dataflow::{
    clock::CutClock,
    cut::{BookCut, InstrumentCut, LaneCut},
    sink::SinkMessage,
};
use market::{Directory, Level, LevelChange, Restored, RestoredTick, Scale, Side, SymbolId, TickChange, U256, Version};
use proptest::prelude::*;
use std::{fs, sync::Arc, time::Duration};

mod damage;
mod files;

/// The grid of cuts of the tests.
const CLOCK: CutClock = CutClock { origin_ns: 0, cut_ns: 4_000_000 };

/// A hub that is fed by hand, and what it should hold.
struct Tape {
    hub: Hub,
    directory: Arc<Directory>,
    cut: u64,
}

impl Tape {
    fn new() -> Self {
        let config = HubConfig { workers: 1, clock: CLOCK, cuts_per_frame: 10, idle_frames: false };
        Self { hub: Hub::new(config), directory: Arc::default(), cut: 0 }
    }

    /// A tape with that many instruments of that many levels a side, on both venues.
    fn with_books(instruments: u64, levels: i64) -> Self {
        let mut tape = Self::new();
        let books = (0..instruments).map(|at| {
            let symbol = tape.list(Venue::ALL[usize::try_from(at % 2).unwrap()], &format!("S{at}"));
            snapshot(symbol, Version::new(at + 1, 100 + at), levels)
        });
        let books = books.collect();
        tape.cut(books);
        tape
    }

    fn list(&self, venue: Venue, symbol: &str) -> SymbolId {
        self.directory.intern(venue, symbol, &format!("{symbol}-base"), "USD").unwrap().id
    }

    /// Steps the hub over one cut.
    fn cut(&mut self, instruments: Vec<InstrumentCut>) {
        self.hub.take(SinkMessage::Cut(LaneCut { cut: self.cut, instruments, ..LaneCut::default() }));
        self.cut += 1;
        self.hub.take(SinkMessage::Closed { worker: 0, before: self.cut });
        while self.hub.step().is_some() {}
    }

    /// Moves the hub's time on.
    fn pass(&mut self, time: Duration) {
        self.cut += u64::try_from(time.as_nanos()).unwrap() / CLOCK.cut_ns;
        self.cut(Vec::new());
    }

    fn taker(&self, data_dir: &Path, view: &Arc<CheckpointView>) -> CheckpointTaker {
        let config = TakerConfig {
            data_dir,
            directory: Arc::clone(&self.directory),
            every: Duration::from_secs(10),
            block: 7,
            restored: 0,
            view: Arc::clone(view),
        };
        CheckpointTaker::start(config).unwrap()
    }

    /// What a restart should find.
    fn books(&self) -> Vec<RestoredInstrument> {
        let restored = |held: &HubInstrument| {
            let version = held.version()?;
            let instrument = self.directory.get(held.symbol())?;
            let ticks = Side::BOTH.into_iter().flat_map(|side| {
                held.levels(side).map(move |level| RestoredTick {
                    tick: TickChange::at(side, level.tick_index, level.quantity),
                    version,
                })
            });
            Some(RestoredInstrument {
                venue: instrument.venue,
                symbol: (*instrument.symbol).into(),
                asset_0: (*instrument.asset_0).into(),
                asset_1: (*instrument.asset_1).into(),
                restored: Restored {
                    version,
                    through: version,
                    scale: held.scale(),
                    ticks: Some(ticks.collect()),
                    from_log: false,
                    heard_ns: held.received_ns(),
                },
            })
        };
        self.hub.instruments().filter_map(restored).collect()
    }

    /// Takes one whole checkpoint and gives its bytes.
    fn bytes(&self) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        self.taker(dir.path(), &Arc::default()).finish(&self.hub).unwrap();
        fs::read(path(dir.path())).unwrap()
    }
}

fn cut_of(symbol: SymbolId, version: Option<Version>, book: BookCut) -> InstrumentCut {
    InstrumentCut {
        symbol,
        version,
        received_ns: 1_000 + u64::from(symbol.0),
        scale: Scale { price: -2, quantity: -8 },
        book,
        quote: None,
        feed: None,
        trades: Vec::new(),
        admitted: Vec::new(),
        admitted_trades: Vec::new(),
    }
}

fn snapshot(symbol: SymbolId, version: Version, levels: i64) -> InstrumentCut {
    let side = |best: i64, step: i64| -> Vec<Level> {
        let quantity = |at: i64| U256::MAX >> u32::try_from(at % 250).unwrap();
        (0..levels).map(|at| Level { tick_index: best + at * step, quantity: quantity(at) }).collect()
    };
    cut_of(symbol, Some(version), BookCut::Snapshot { bids: side(999, -1), asks: side(1_001, 1), horizon: [None; 2] })
}

fn delta(symbol: SymbolId, base: Version, version: Version, changes: Vec<LevelChange>) -> InstrumentCut {
    cut_of(symbol, Some(version), BookCut::Delta { base, changes })
}

/// One instrument's history: its venue, a book, and changes of it.
type History = (bool, Option<(u64, u64)>, i8, i8, Vec<(bool, i64, [u64; 4])>);

fn history() -> impl Strategy<Value = History> {
    let version = proptest::option::of((any::<u64>(), any::<u64>()));
    let levels = proptest::collection::vec((any::<bool>(), any::<i64>(), any::<[u64; 4]>()), 0..40);
    (any::<bool>(), version, -38_i8..=38, -38_i8..=38, levels)
}

proptest! {
    #[test]
    fn any_state_of_a_hub_comes_back_as_it_was(
        histories in proptest::collection::vec((history(), "[ -~é€]{0,12}"), 1..12),
    ) {
        let mut tape = Tape::new();
        for (at, ((kraken, version, price, quantity, levels), name)) in histories.into_iter().enumerate() {
            let venue = if kraken { Venue::KrakenSpot } else { Venue::BinanceSpot };
            let symbol = tape.list(venue, &format!("{name}{at}"));
            let version = version.map(|(epoch, seq)| Version::new(epoch, seq));
            let book = match version {
                Some(_) => BookCut::Snapshot { bids: Vec::new(), asks: Vec::new(), horizon: [None; 2] },
                None => BookCut::Unchanged,
            };
            tape.cut(vec![InstrumentCut { scale: Scale { price, quantity }, ..cut_of(symbol, version, book) }]);
            if let Some(base) = version {
                let change = |(bid, tick_index, quantity): (bool, i64, [u64; 4])| LevelChange {
                    side: if bid { Side::Bid } else { Side::Ask },
                    level: Level { tick_index, quantity: U256::from_limbs(quantity) },
                };
                let changes = levels.into_iter().map(change).collect();
                let cut = delta(symbol, base, base, changes);
                tape.cut(vec![InstrumentCut { scale: Scale { price, quantity }, ..cut }]);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let view = Arc::default();
        tape.taker(dir.path(), &view).finish(&tape.hub).unwrap();
        let expected = tape.books();
        match load(dir.path(), &view) {
            None => prop_assert!(expected.is_empty(), "{:?}", view.ignored()),
            Some(found) => {
                let greatest = expected.iter().map(|book| book.restored.version.epoch).max();
                prop_assert_eq!(Some(found.greatest_epoch), greatest);
                prop_assert_eq!(found.instruments, expected);
            }
        }
    }
}

#[test]
fn a_book_comes_back_to_the_last_bit() {
    let tape = Tape::with_books(5, 300);
    let checkpoint = parse(&mut tape.bytes()).unwrap();
    assert_eq!(checkpoint.instruments, tape.books());
    assert_eq!((checkpoint.block, checkpoint.greatest_epoch, checkpoint.written_ns), (7, 5, tape.hub.now_ns()));
    let first = checkpoint.instruments[0].restored.ticks.as_ref().unwrap();
    assert_eq!((first.len(), first[0].tick), (600, TickChange::at(Side::Bid, 999, U256::MAX)));
}

#[test]
fn the_file_is_as_large_as_its_parts() {
    let names = 2 * ("S0".len() + "S0-base".len() + "USD".len());
    let expected = Header::BYTES + 2 * InstrumentRecord::BYTES + 2 * 6 * LevelRecord::BYTES + names;
    assert_eq!(Tape::with_books(2, 3).bytes().len(), expected);
}

#[test]
fn an_instrument_without_a_book_is_left_out() {
    let mut tape = Tape::with_books(2, 1);
    let bare = tape.list(Venue::KrakenSpot, "BARE");
    tape.cut(vec![cut_of(bare, None, BookCut::Unchanged)]);
    assert_eq!(parse(&mut tape.bytes()).unwrap().instruments.len(), 2);
}

#[test]
fn an_empty_book_with_a_version_is_kept() {
    let mut tape = Tape::new();
    let symbol = tape.list(Venue::BinanceSpot, "EMPTY");
    tape.cut(vec![snapshot(symbol, Version::new(3, 4), 0)]);
    let found = parse(&mut tape.bytes()).unwrap().instruments;
    assert_eq!((found[0].restored.version, found[0].restored.ticks.as_deref()), (Version::new(3, 4), Some(&[][..])));
}

#[test]
fn a_new_block_begins_above_the_greatest_epoch_and_above_the_run_that_wrote_the_file() {
    let least = |block, greatest_epoch| {
        let checkpoint = Checkpoint { instruments: Vec::new(), block, greatest_epoch, written_ns: 0 };
        checkpoint.epoch_least()
    };
    // Epochs that the run showed after its last checkpoint are in no file, but in its block.
    assert_eq!(least(5 * BLOCK, 5 * BLOCK + 3), 6 * BLOCK);
    assert_eq!(least(5 * BLOCK, 9 * BLOCK), 9 * BLOCK + 1);
    assert_eq!(least(u64::MAX, u64::MAX), u64::MAX);
}
