//! A hub that is fed cuts, readers that follow it from memory, and readers whose versions it does not know.
//!
//! Never: an expectation that a reader without the right base could meet.

use super::*;
use crate::hub::{Hub, HubConfig};
use dataflow::{
    clock::CutClock,
    cut::{BookCut, InstrumentCut, LaneCut},
    sink::SinkMessage,
};
use market::FeedState;
use std::collections::BTreeMap;

const CLOCK: CutClock = CutClock { origin_ns: 0, cut_ns: 4_000_000 };
const SCALE: Scale = Scale { price: -2, quantity: -8 };
const WIDE: ChangeBounds = ChangeBounds { instrument_bytes: 1 << 20, bytes: 1 << 24 };
const A: SymbolId = SymbolId(0);
const B: SymbolId = SymbolId(1);

type Levels = BTreeMap<Place, U256>;

struct World {
    hub: Hub,
    cut: u64,
}

impl World {
    fn new(bounds: ChangeBounds) -> Self {
        let config = HubConfig { workers: 1, clock: CLOCK, cuts_per_frame: 10, idle_frames: false };
        Self { hub: Hub::new(config).with_changes(bounds), cut: 0 }
    }

    fn step(&mut self, symbol: SymbolId, version: Version, scale: Scale, book: BookCut) {
        let instrument = InstrumentCut {
            symbol,
            version: Some(version),
            received_ns: 1,
            scale,
            book,
            quote: None,
            feed: None,
            trades: Vec::new(),
            admitted: Vec::new(),
            admitted_trades: Vec::new(),
        };
        let cut = LaneCut { cut: self.cut, instruments: vec![instrument], ..LaneCut::default() };
        self.hub.take(SinkMessage::Cut(cut));
        self.cut += 1;
        self.hub.take(SinkMessage::Closed { worker: 0, before: self.cut });
        while self.hub.step().is_some() {}
        assert!(self.hub.changes.is_consistent());
    }

    fn snapshot(&mut self, symbol: SymbolId, version: Version, bids: &[(i64, u64)]) {
        let bids = bids.iter().map(|(tick, quantity)| level(*tick, *quantity)).collect();
        let book = BookCut::Snapshot { bids, asks: Vec::new(), horizon: [None; 2] };
        self.step(symbol, version, SCALE, book);
    }

    fn delta(&mut self, symbol: SymbolId, version: Version, bids: &[(i64, u64)]) {
        let base = self.hub.instrument(symbol).unwrap().version().unwrap();
        let change = |(tick, quantity): &(i64, u64)| LevelChange { side: Side::Bid, level: level(*tick, *quantity) };
        let book = BookCut::Delta { base, changes: bids.iter().map(change).collect() };
        self.step(symbol, version, SCALE, book);
    }

    fn look(&self, symbol: SymbolId, since: Version) -> BookView {
        self.hub.look(&Look { symbol, since: Some(since), depth: None })
    }

    fn reason(&self, symbol: SymbolId, since: Version) -> Option<WholeReason> {
        match self.look(symbol, since).content {
            Content::Whole { reason, .. } => Some(reason),
            Content::Changes { .. } => None,
        }
    }

    fn book(&self, symbol: SymbolId) -> Levels {
        let instrument = self.hub.instrument(symbol).unwrap();
        let levels = |side| instrument.levels(side).map(move |level| ((side, level.tick_index), level.quantity));
        Side::BOTH.into_iter().flat_map(levels).collect()
    }
}

fn level(tick_index: i64, quantity: u64) -> Level {
    Level { tick_index, quantity: U256::from(quantity) }
}

fn v(seq: u64) -> Version {
    Version::new(1, seq)
}

/// What a reader does with an answer.
fn take(held: &mut Levels, view: &BookView) {
    match &view.content {
        Content::Whole { bids, asks, .. } => {
            held.clear();
            for (side, levels) in [(Side::Bid, bids), (Side::Ask, asks)] {
                held.extend(levels.iter().map(|level| ((side, level.tick_index), level.quantity)));
            }
        }
        Content::Changes { levels, .. } => {
            for LevelChange { side, level } in levels {
                if level.quantity.is_zero() {
                    held.remove(&(*side, level.tick_index));
                } else {
                    held.insert((*side, level.tick_index), level.quantity);
                }
            }
        }
    }
}

fn changed(view: &BookView) -> Vec<(i64, u64)> {
    let Content::Changes { levels, .. } = &view.content else { panic!("{view:?}") };
    levels.iter().map(|change| (change.level.tick_index, change.level.quantity.to())).collect()
}

#[test]
fn a_reader_is_told_every_level_that_differs_the_dead_ones_too() {
    let mut world = World::new(WIDE);
    world.snapshot(A, v(10), &[(100, 1), (99, 2), (98, 3)]);
    world.delta(A, v(12), &[(100, 0), (99, 5)]);
    world.delta(A, v(13), &[(99, 2), (97, 4)]);
    world.delta(A, v(20), &[(97, 6)]);
    // 99 is what it was; 100 died; 97 came.
    assert_eq!(changed(&world.look(A, v(10))), [(97, 6), (100, 0)]);
    assert_eq!(changed(&world.look(A, v(12))), [(97, 6), (99, 2)]);
    assert_eq!(changed(&world.look(A, v(13))), [(97, 6)]);
    let none = world.look(A, v(20));
    assert_eq!((changed(&none), none.version), (Vec::new(), Some(v(20))));
}

#[test]
fn whoever_s_version_is_not_known_gets_the_whole_book_and_the_reason() {
    let mut world = World::new(WIDE);
    assert_eq!(world.reason(A, v(1)), Some(WholeReason::NoBook));
    world.snapshot(A, Version::new(2, 10), &[(100, 1)]);
    world.delta(A, Version::new(2, 15), &[(100, 2)]);
    for (since, reason) in [
        (Version::new(2, 9), WholeReason::TooOld),
        (Version::new(2, 12), WholeReason::UnknownVersion),
        (Version::new(2, 16), WholeReason::Ahead),
        (Version::new(1, 10), WholeReason::OtherEpoch),
        (Version::new(3, 0), WholeReason::OtherEpoch),
    ] {
        assert_eq!(world.reason(A, since), Some(reason), "{since}");
    }
    world.snapshot(A, Version::new(2, 20), &[(100, 2)]);
    assert_eq!(world.reason(A, Version::new(2, 15)), Some(WholeReason::Replaced));
    assert_eq!(world.reason(A, Version::new(2, 20)), None);
    let view = world.hub.look(&Look { symbol: A, since: None, depth: None });
    assert!(matches!(view.content, Content::Whole { reason: WholeReason::NoSince, .. }));
}

/// Versions 11 and 12 are of one cut: at 11 the level was 7, at 12 what it had been. The cut's net says nothing, so what is
/// known since 10 would leave a reader at 11 with 7 for ever.
#[test]
fn a_version_within_a_cut_is_not_known() {
    let mut world = World::new(WIDE);
    world.snapshot(A, v(10), &[(100, 1)]);
    world.delta(A, v(12), &[]);
    let mut reader = Levels::from([((Side::Bid, 100), U256::from(7_u64))]);
    let view = world.look(A, v(11));
    take(&mut reader, &view);
    assert_eq!(reader, world.book(A));
    assert!(matches!(view.content, Content::Whole { reason: WholeReason::UnknownVersion, .. }));
    assert_eq!(changed(&world.look(A, v(10))), []);
}

/// One version in two steps: nobody can tell which of the two books a reader has.
#[test]
fn a_book_in_finer_steps_at_its_version_is_told_whole() {
    let mut world = World::new(WIDE);
    world.snapshot(A, v(10), &[(100, 1)]);
    let finer = Scale { price: -3, ..SCALE };
    let book = BookCut::Snapshot { bids: vec![level(1_000, 1)], asks: Vec::new(), horizon: [None; 2] };
    world.step(A, v(10), finer, book);
    assert_eq!(world.reason(A, v(10)), Some(WholeReason::Replaced));
    world.delta(A, v(11), &[(1_000, 2)]);
    assert_eq!(world.reason(A, v(10)), Some(WholeReason::Replaced));
    assert_eq!(world.reason(A, v(11)), None);
}

#[test]
fn an_instrument_s_bound_holds_and_what_is_older_is_told_whole() {
    let mut world = World::new(ChangeBounds { instrument_bytes: 2_000, bytes: 1 << 20 });
    world.snapshot(A, v(1), &[(1, 1)]);
    for seq in 2..=200 {
        world.delta(A, v(seq), &[(i64::try_from(seq % 7).unwrap(), seq)]);
    }
    assert_eq!(world.reason(A, v(1)), Some(WholeReason::TooOld));
    let oldest = (1..=200).find(|seq| world.reason(A, v(*seq)).is_none()).unwrap();
    assert!((180..200).contains(&oldest), "{oldest}");
    assert!((oldest..=200).all(|seq| world.reason(A, v(seq)).is_none()));
    // One cut that is larger than the bound is not kept, and the book goes on.
    let many: Vec<_> = (1_000..1_100).map(|tick| (tick, 1)).collect();
    world.delta(A, v(201), &many);
    assert_eq!(world.reason(A, v(200)), Some(WholeReason::TooOld));
    assert_eq!(changed(&world.look(A, v(201))), []);
}

#[test]
fn the_bound_of_all_takes_the_oldest_whoever_s_they_are() {
    let mut world = World::new(ChangeBounds { instrument_bytes: 4_000, bytes: 5_000 });
    world.snapshot(A, v(1), &[(1, 1)]);
    world.snapshot(B, v(1), &[(1, 1)]);
    for seq in 2..=20 {
        world.delta(A, v(seq), &[(1, seq)]);
    }
    assert_eq!(world.reason(A, v(2)), None);
    // B is busy for so long that the tokens of what it lost must be tidied away, and A is quiet.
    for seq in 2..=20_000 {
        world.delta(B, v(seq), &[(1, seq)]);
    }
    assert_eq!(world.reason(A, v(2)), Some(WholeReason::TooOld));
    assert_eq!(world.reason(A, v(20)), None, "of a quiet one nothing is missing at its version");
    assert_eq!(world.reason(B, v(19_990)), None);
}

#[test]
fn without_memory_only_the_present_version_is_known() {
    let mut world = World::new(ChangeBounds::default());
    world.snapshot(A, v(1), &[(1, 1)]);
    world.delta(A, v(2), &[(1, 2)]);
    assert_eq!((world.reason(A, v(1)), world.reason(A, v(2))), (Some(WholeReason::TooOld), None));
}

/// Any history, any bound, any reader: whoever takes what he is told has the book.
#[test]
fn readers_of_any_pace_have_the_book() {
    for seed in 1..=60_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let bytes = usize::try_from(300 + below(3_000)).unwrap();
        let mut world = World::new(ChangeBounds { instrument_bytes: bytes, bytes });
        let (mut epoch, mut seq) = (1, 1);
        world.snapshot(A, Version::new(epoch, seq), &[(1, 1), (2, 1)]);
        let mut readers: Vec<(Version, Levels)> = vec![(Version::new(epoch, seq), world.book(A)); 4];
        for _ in 0..150 {
            seq += 1 + below(3);
            let bids: Vec<_> = (0..below(4))
                .map(|_| (i64::try_from(below(9)).unwrap(), below(3)))
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .collect();
            match below(25) {
                0 => {
                    epoch += 1;
                    seq = below(5);
                    let live: Vec<_> = bids.into_iter().filter(|(_, quantity)| *quantity > 0).rev().collect();
                    world.snapshot(A, Version::new(epoch, seq), &live);
                }
                1 => {
                    let live: Vec<_> = bids.into_iter().filter(|(_, quantity)| *quantity > 0).rev().collect();
                    world.snapshot(A, Version::new(epoch, seq), &live);
                }
                _ => world.delta(A, Version::new(epoch, seq), &bids),
            }
            for (at, (version, held)) in readers.iter_mut().enumerate() {
                if below(1 + u64::try_from(at * at).unwrap()) == 0 {
                    let view = world.look(A, *version);
                    take(held, &view);
                    *version = view.version.unwrap();
                    assert_eq!(*held, world.book(A), "seed {seed}, reader {at}");
                }
            }
        }
    }
}

#[test]
fn the_best_levels_alone_are_known_as_far_as_they_reach() {
    let mut world = World::new(WIDE);
    world.snapshot(A, v(1), &[(100, 1), (99, 2), (98, 3)]);
    let view = |depth| world.hub.look(&Look { symbol: A, since: None, depth });
    assert_eq!(
        (view(Some(2)).horizon, view(Some(3)).horizon, view(None).horizon),
        ([Some(99), None], [None; 2], [None; 2])
    );
    let Content::Whole { bids, .. } = view(Some(2)).content else { panic!() };
    assert_eq!(bids, [level(100, 1), level(99, 2)]);
    assert_eq!(view(None).feed.state, FeedState::Syncing);
}
