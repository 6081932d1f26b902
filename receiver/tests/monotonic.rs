//! The structural guarantee: whatever comes in whatever order, the shown version never decreases, and what is shown at
//! a version is the whole truth of that version.
//!
//! Never: a case that only well-behaved servers produce.

use market::{Feed, Level, LevelChange, Scale, Side, U256, Venue, Version};
use proptest::{prelude::*, sample::select};
use receiver::Session;
use std::collections::BTreeMap;
use wire::{
    Block, BookDelta, BookSnapshot, ChainKind, Dictionary, DictionaryInstrument, Frame, Gap, Hello, ToTerminal,
};

const NAME: &str = "kraken_spot/BTC/USD";
const SCALE: Scale = Scale { price: 0, quantity: 0 };
const EPOCHS: u64 = 3;
const SEQS: u64 = 12;

type Levels = BTreeMap<(Side, i64), u64>;

/// The one truth of each version: a walk that every server agrees on.
fn truth(version: Version) -> Levels {
    let mut levels = Levels::new();
    for seq in 0..=version.seq {
        let mixed = (version.epoch * 1_000 + seq + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let side = if mixed & 1 == 0 { Side::Bid } else { Side::Ask };
        let price = i64::try_from(mixed >> 8 & 7).unwrap_or(0);
        match mixed >> 16 & 3 {
            0 => levels.remove(&(side, price)),
            quantity => levels.insert((side, price), quantity + seq),
        };
    }
    levels
}

fn side_levels(levels: &Levels, side: Side) -> Vec<Level> {
    let mut levels: Vec<_> = levels
        .iter()
        .filter(|((held, _), _)| *held == side)
        .map(|((_, price), quantity)| Level { tick_index: *price, quantity: U256::from(*quantity) })
        .collect();
    levels.sort_by_key(|level| std::cmp::Reverse(side.rank(level.tick_index)));
    levels
}

fn snapshot(version: Version) -> Block {
    let levels = truth(version);
    Block::BookSnapshot(BookSnapshot {
        id: 0,
        version,
        scale: SCALE,
        feed: Feed::default(),
        age_ms: 0,
        horizon: [None, None],
        bids: side_levels(&levels, Side::Bid),
        asks: side_levels(&levels, Side::Ask),
    })
}

/// The net change between two truths, in either direction of time: a session must refuse the ones that lead back.
fn delta(base: Version, version: Version) -> Block {
    let (before, after) = (truth(base), truth(version));
    let changes = before
        .keys()
        .chain(after.keys())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .filter(|key| before.get(key) != after.get(key))
        .map(|key| {
            let quantity = U256::from(after.get(key).copied().unwrap_or(0));
            LevelChange { side: key.0, level: Level { tick_index: key.1, quantity } }
        })
        .collect();
    Block::BookDelta(BookDelta { id: 0, base, version, feed: Feed::default(), changes })
}

#[derive(Clone, Debug)]
enum Act {
    Snapshot(ChainKind, Version),
    Delta(ChainKind, Version, Version),
    /// The delta that a good server would send next.
    Follow(ChainKind, u64),
    Gap,
    Reconnect,
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let version = || (0..EPOCHS, 0..SEQS).prop_map(|(epoch, seq)| Version::new(epoch, seq));
    let kind = || select(vec![ChainKind::Conflated, ChainKind::Priority]);
    prop_oneof![
        3 => (kind(), version()).prop_map(|(kind, version)| Act::Snapshot(kind, version)),
        3 => (kind(), version(), version()).prop_map(|(kind, base, version)| Act::Delta(kind, base, version)),
        6 => (kind(), 1..4_u64).prop_map(|(kind, step)| Act::Follow(kind, step)),
        1 => Just(Act::Gap),
        1 => Just(Act::Reconnect),
        1 => (0..8_000_u64).prop_map(Act::Wait),
    ]
}

fn connect(session: &mut Session, now_ms: u64) {
    session.connected(now_ms);
    let hello = Hello {
        wire_version: 1,
        generation: now_ms,
        build: "".into(),
        frame_ms: 40,
        heartbeat_ms: 1_000,
        simulated: true,
    };
    let instrument = DictionaryInstrument {
        id: 0,
        venue: Venue::KrakenSpot,
        symbol: "BTC/USD".into(),
        asset_0: "BTC".into(),
        asset_1: "USD".into(),
        pair: 0,
    };
    let dictionary = Dictionary { generation: now_ms, instruments: vec![instrument], pairs: vec![] };
    for message in [ToTerminal::Hello(hello), ToTerminal::Dictionary(dictionary)] {
        assert!(session.receive(message, now_ms).is_ok());
    }
}

/// What a good server believes a chain to be at: the version of the last snapshot or fitting delta.
#[derive(Default)]
struct Sent([Option<Version>; 2]);

impl Sent {
    fn of(&mut self, kind: ChainKind) -> &mut Option<Version> {
        let [conflated, priority] = &mut self.0;
        match kind {
            ChainKind::Conflated => conflated,
            ChainKind::Priority => priority,
        }
    }
}

fn perform(act: &Act, session: &mut Session, sent: &mut Sent, now_ms: &mut u64) {
    let (chain, block) = match act {
        Act::Snapshot(kind, version) => {
            *sent.of(*kind) = Some(*version);
            (*kind, snapshot(*version))
        }
        Act::Delta(kind, base, version) => (*kind, delta(*base, *version)),
        Act::Follow(kind, step) => {
            let Some(base) = *sent.of(*kind) else { return };
            let version = Version::new(base.epoch, base.seq + step);
            *sent.of(*kind) = Some(version);
            (*kind, delta(base, version))
        }
        Act::Gap => {
            let gap = ToTerminal::Gap(Gap { entries: vec![(wire::Channel::Book, 0)] });
            assert!(session.receive(gap, *now_ms).is_ok());
            return;
        }
        Act::Reconnect => {
            *now_ms += 1;
            *sent = Sent::default();
            connect(session, *now_ms);
            return;
        }
        Act::Wait(wait_ms) => {
            *now_ms += wait_ms;
            return;
        }
    };
    let frame = Frame { chain, frame: 0, at_ms: 0, blocks: vec![block] };
    assert!(session.receive(ToTerminal::Frame(frame), *now_ms).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_shown_version_never_decreases_and_its_content_is_the_truth(acts in proptest::collection::vec(act(), 1..80)) {
        let mut session = Session::new();
        let (mut sent, mut now_ms, mut shown) = (Sent::default(), 1, None);
        connect(&mut session, now_ms);
        for act in &acts {
            perform(act, &mut session, &mut sent, &mut now_ms);
            while session.next_outgoing().is_some() {}
            let Some(book) = session.book(NAME) else {
                prop_assert!(shown.is_none(), "the shown book vanished at {:?}", act);
                continue;
            };
            prop_assert!(shown.is_none_or(|shown| book.version() >= shown), "{:?} after {:?}", book.version(), shown);
            shown = Some(book.version());
            let levels = truth(book.version());
            for side in Side::BOTH {
                prop_assert_eq!(book.levels(side).collect::<Vec<_>>(), side_levels(&levels, side));
            }
        }
    }
}
