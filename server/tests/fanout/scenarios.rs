//! Traces by name, with a real lane.
//!
//! Never: a socket; a link's rate is counted in cut time.

use crate::world::{CUTS_PER_FRAME, World};
use market::{Body, FeedState};
use receiver::Notice;
use server::fanout::outbox::{Next, RingBounds};
use std::collections::BTreeMap;
use wire::{Block, Channel, SubscriptionItem, ToTerminal};

const WIDE: RingBounds = RingBounds { frames: 64, bytes: 1 << 20, age_ms: 10_000 };

/// A world with one instrument at version 0:101.
fn one() -> World {
    let mut world = World::new();
    world.list();
    world
}

/// A terminal with the books, which has read them.
fn joined(world: &mut World) -> usize {
    let at = world.connect(WIDE);
    world.subscribe(at, Channel::Book, "*");
    world.settle();
    at
}

/// Reads a terminal's next message away from its session.
fn taken(world: &World, at: usize) -> Option<ToTerminal> {
    match world.terminals[at].outbox.next() {
        Next::Send(bytes) => Some(ToTerminal::decode(&bytes).unwrap()),
        _ => None,
    }
}

fn blocks(message: ToTerminal) -> Vec<Block> {
    if let ToTerminal::Frame(frame) = message { frame.blocks } else { panic!("{message:?}") }
}

/// Steps over cuts up to one that ends a frame of the phase at hand.
fn to_frame(world: &mut World) {
    for _ in 0..2 * CUTS_PER_FRAME {
        let before = world.fanout.counts().frames;
        world.close();
        if world.fanout.counts().frames > before {
            return;
        }
    }
    panic!("no frame");
}

#[test]
fn joins_at_v105_into_a_group_framed_at_v100() {
    let mut world = one();
    let first = joined(&mut world);
    world.delta(0, &[(true, 6, 1)]);
    to_frame(&mut world);
    world.read(first, usize::MAX);
    let framed = world.shown(first, 0).unwrap();
    // Five more versions are in the hub when the second one asks for the same set, in the midst of the group's frame.
    for quantity in 2..7 {
        world.delta(0, &[(true, 6, quantity)]);
        world.close();
    }
    assert_eq!(world.hub.instrument(market::SymbolId(0)).unwrap().version().unwrap().seq, framed.seq + 5);
    let second = world.connect(WIDE);
    world.subscribe(second, Channel::Book, "*");
    (0..2).for_each(|_| world.read(second, usize::MAX));
    assert_eq!((world.shown(first, 0), world.shown(second, 0)), (Some(framed), None), "no frame was closed since");
    world.delta(0, &[(true, 7, 1)]);
    world.frame();
    // One has the step from where its group was framed, the other the whole book at the same close.
    let step = taken(&world, first).map(blocks).unwrap();
    assert!(
        matches!(&step[..], [Block::BookDelta(delta)] if delta.base == framed && delta.version.seq == framed.seq + 6)
    );
    let whole = taken(&world, second).map(blocks).unwrap();
    assert!(matches!(&whole[..], [Block::BookSnapshot(book), ..] if book.version.seq == framed.seq + 6), "{whole:?}");
    // From here on they share bytes, which fit both.
    let before = world.fanout.counts();
    world.delta(0, &[(true, 7, 0)]);
    world.frame();
    let after = world.fanout.counts();
    assert_eq!((after.encodes - before.encodes, after.frames - before.frames), (1, 2));
    assert_eq!(taken(&world, first), taken(&world, second));
}

#[test]
fn priority_ahead_of_frames() {
    let mut world = one();
    let at = joined(&mut world);
    world.subscribe(at, Channel::Priority, "*");
    world.settle();
    for step in 0..50 {
        // Ahead of the frame, ahead even of the cut.
        world.delta(0, &[(true, 6, step % 3), (false, 9, 1 + step)]);
        world.ahead();
        world.read(at, usize::MAX);
        assert_eq!(world.shown(at, 0).map(|version| version.seq), Some(world.ids[0]), "step {step}");
        if step % 7 == 0 {
            world.frame();
        }
    }
    world.settle();
    assert!(world.is_shown(at, 0));
    // A wish for an instrument that is quiet is served with the next activation of its lane.
    let quiet = world.connect(WIDE);
    world.subscribe(quiet, Channel::Priority, "*");
    (0..2).for_each(|_| world.read(quiet, usize::MAX));
    world.ahead();
    world.read(quiet, usize::MAX);
    assert!(world.is_shown(quiet, 0));
    for at in [at, quiet] {
        let counters = world.terminals[at].session.counters();
        assert_eq!((counters.deltas_refused, counters.regressions_refused), (0, 0));
    }
}

#[test]
fn a_b_a_across_a_join() {
    let mut world = one();
    let first = joined(&mut world);
    world.delta(0, &[(true, 6, 1)]);
    to_frame(&mut world);
    world.read(first, usize::MAX);
    let a = world.shown(first, 0).unwrap();
    // A becomes B; the second one asks; B becomes A again, all within the group's frame.
    world.delta(0, &[(true, 6, 2)]);
    world.close();
    let second = world.connect(WIDE);
    world.subscribe(second, Channel::Book, "*");
    (0..2).for_each(|_| world.read(second, usize::MAX));
    world.delta(0, &[(true, 6, 1)]);
    world.frame();
    let step = taken(&world, first).map(blocks).unwrap();
    let [Block::BookDelta(delta)] = &step[..] else { panic!("{step:?}") };
    assert_eq!((delta.base, delta.version.seq, &delta.changes[..]), (a, a.seq + 2, &[][..]), "only the version moves");
    let whole = taken(&world, second).map(blocks).unwrap();
    let Some(Block::BookSnapshot(book)) = whole.first() else { panic!("{whole:?}") };
    assert_eq!(book.version, delta.version);
    assert_eq!(book.bids.first().map(|level| level.quantity), Some(market::U256::ONE), "A, at the version of A");
    world.delta(0, &[(true, 6, 3)]);
    world.frame();
    assert_eq!(taken(&world, first), taken(&world, second));
}

/// 64 kbit/s are 320 bytes in 40 ms. The first of 65 frames is too much for the link, and the last for the ring.
#[test]
fn dropped_frame_1_of_65_at_64_kbit() {
    const BYTES_PER_FRAME: usize = 64_000 / 8 / 25;
    let mut world = one();
    let at = world.connect(RingBounds { frames: 64, bytes: 8 << 20, age_ms: 2_560 });
    world.subscribe(at, Channel::Book, "*");
    world.settle();
    // The link is down to nothing for 65 frames, one of them on its way.
    let busy = |world: &mut World, step: u64| {
        let rows: Vec<_> =
            (0..120_i64).map(|price| (false, 100 + price, 1 + (step + price.unsigned_abs()) % 200)).collect();
        world.delta(0, &rows);
        world.frame();
    };
    busy(&mut world, 0);
    let mut link = Link { on_its_way: taken(&world, at), ..Link::default() };
    assert!(link.on_its_way.is_some());
    for step in 1..=64 {
        busy(&mut world, step);
        assert_eq!(world.fanout.counts().gaps, 0, "{step} frames wait");
    }
    busy(&mut world, 65);
    assert_eq!((world.fanout.counts().gaps, world.terminals[at].outbox.room()), (1, 8 << 20), "the ring is empty");
    // Now it runs at its rate, and the market goes on. What comes through is new, whole, and fits.
    let mut ages = Vec::new();
    for step in 66..400 {
        busy(&mut world, step);
        link.credit += BYTES_PER_FRAME;
        link.run(&mut world, at);
        if let Some(shown) = world.shown(at, 0) {
            ages.push(world.ids[0] - shown.seq);
        }
        while let Some(request) = world.terminals[at].session.next_outgoing() {
            let id = world.terminals[at].id;
            world.fanout.request(id, request, &mut world.hub);
        }
    }
    let counters = world.terminals[at].session.counters();
    assert_eq!((counters.deltas_refused, counters.regressions_refused), (0, 0), "nothing was sent over a stale base");
    assert!(!world.terminals[at].gaps.is_empty());
    // Never older than the ring's age, what is on the wire, and the frame at hand.
    assert!(ages.iter().skip(80).all(|age| *age <= 80), "{ages:?}");
    world.settle();
    assert!(world.is_shown(at, 0));
}

/// A slow link: it takes a message at once and delivers it when its bytes are through.
#[derive(Default)]
struct Link {
    on_its_way: Option<ToTerminal>,
    credit: usize,
}

impl Link {
    fn run(&mut self, world: &mut World, at: usize) {
        while let Some(message) = &self.on_its_way {
            let bytes = message.encode().unwrap().len();
            if self.credit < bytes {
                return;
            }
            self.credit -= bytes;
            let now_ms = world.now_ms();
            if let Some(message) = self.on_its_way.take() {
                let notices = world.terminals[at].session.receive(message, now_ms).unwrap();
                notices.into_iter().for_each(|notice| world.terminals[at].note(notice));
            }
            self.on_its_way = taken(world, at);
        }
        // An idle link saves nothing up.
        self.on_its_way = taken(world, at);
        self.credit = 0;
    }
}

#[test]
fn digests_come_in_turn_and_tell_a_book_that_differs() {
    let mut world = World::with(|config| config.digest_ms = 400);
    (0..4).for_each(|_| world.list());
    let at = world.connect(WIDE);
    [Channel::Book, Channel::Digest].iter().for_each(|channel| world.subscribe(at, *channel, "*"));
    world.settle();
    let before = (world.fanout.counts().digests, world.terminals[at].session.counters());
    let mut in_frame = BTreeMap::new();
    for step in 0..30_u64 {
        (0..4).for_each(|instrument| world.delta(instrument, &[(true, 6, 1 + step % 3)]));
        world.frame();
        let digests = world.fanout.counts().digests;
        *in_frame.entry(digests).or_insert(0) += 1;
        world.read(at, usize::MAX);
    }
    let (digests, counters) = (world.fanout.counts().digests, world.terminals[at].session.counters());
    assert_eq!(digests - before.0, 12, "four instruments, each every ten frames");
    assert!(in_frame.len() >= 12, "never two in one frame");
    assert_eq!(counters.digests_matched - before.1.digests_matched, 12);
    assert_eq!((counters.digests_failed, counters.digests_skipped), (0, before.1.digests_skipped));
    // A terminal whose own book went wrong finds out, and only that book is begun anew.
    world.delta(1, &[(true, 6, 7)]);
    world.frame();
    let mut message = taken(&world, at).unwrap();
    let ToTerminal::Frame(frame) = &mut message else { panic!("{message:?}") };
    for block in &mut frame.blocks {
        if let Block::BookDelta(delta) = block {
            delta.changes.clear();
        }
    }
    let now_ms = world.now_ms();
    world.terminals[at].session.receive(message, now_ms).unwrap();
    assert!(!world.is_shown(at, 1));
    let mut mismatches = Vec::new();
    for _ in 0..12 {
        world.frame();
        while let Some(message) = taken(&world, at) {
            let now_ms = world.now_ms();
            let notices = world.terminals[at].session.receive(message, now_ms).unwrap();
            mismatches.extend(notices.into_iter().filter(|notice| matches!(notice, Notice::DigestMismatch { .. })));
        }
        world.read(at, usize::MAX);
    }
    assert!(
        matches!(&mismatches[..], [Notice::DigestMismatch { instrument, .. }] if &**instrument == "binance_spot/BUSDT")
    );
    assert!((0..4).all(|instrument| world.is_shown(at, instrument)));
    assert_eq!(world.terminals[at].session.counters().resyncs, 1);
}

#[test]
fn digests_are_shared_and_made_for_nobody_else() {
    let mut world = World::with(|config| config.digest_ms = 40);
    world.list();
    joined(&mut world);
    assert_eq!(world.fanout.counts().digests, 0);
    let terminals = [0; 2].map(|_| {
        let at = world.connect(WIDE);
        [Channel::Book, Channel::Digest].iter().for_each(|channel| world.subscribe(at, *channel, "*"));
        at
    });
    world.settle();
    let before = world.fanout.counts().digests;
    world.frame();
    assert_eq!(world.fanout.counts().digests - before, 1);
    for at in terminals {
        assert!(matches!(&taken(&world, at).map(blocks).unwrap()[..], [Block::Digest(_)]), "{at}");
    }
}

#[test]
fn the_age_of_what_is_not_live_is_told_every_second() {
    let mut world = World::with_silence(2_000);
    world.list();
    world.event(0, Body::LegHeard);
    let at = world.connect(WIDE);
    world.subscribe(at, Channel::Status, "*");
    let book = world.connect(WIDE);
    world.subscribe(book, Channel::Book, "*");
    world.settle();
    let state =
        |world: &World| world.terminals[at].session.feed("binance_spot/AUSDT", world.now_ms()).map(|feed| feed.state);
    assert_eq!(state(&world), Some(FeedState::Live));
    let (mut frames, mut told) = (0, Vec::new());
    while told.len() < 5 {
        world.frame();
        frames += 1;
        assert!(frames < 500, "{told:?}");
        let Some(message) = taken(&world, at) else { continue };
        for block in blocks(message.clone()) {
            let Block::Status(status) = block else { panic!("{block:?}") };
            assert_eq!(status.feed.state, FeedState::Stale);
            told.push((frames, status.age_ms));
        }
        let now_ms = world.now_ms();
        world.terminals[at].session.receive(message, now_ms).unwrap();
        world.read(book, usize::MAX);
    }
    assert!(told[0].1 >= 2_000, "{told:?}");
    assert!(told[1].0 - told[0].0 <= 25, "{told:?}");
    for pair in told[1..].windows(2) {
        assert_eq!((pair[1].0 - pair[0].0, pair[1].1 - pair[0].1), (25, 1_000), "{told:?}");
    }
    // Whoever wants the book alone was told once, and adds up the age by itself.
    let view = world.terminals[book].session.view("binance_spot/AUSDT", world.now_ms()).unwrap();
    assert_eq!(view.feed.state, FeedState::Stale);
    assert!(view.age_ms.is_some_and(|age| age.abs_diff(told[4].1) <= 80), "{:?} {told:?}", view.age_ms);
}

#[test]
fn one_set_is_encoded_once_however_many_terminals_hold_it() {
    let mut world = World::new();
    world.list();
    for at in 0..20 {
        world.connect(RingBounds { frames: 64, bytes: 1 << 20, age_ms: 10_000 });
        let item = SubscriptionItem { channel: Channel::Book, pattern: "*".into() };
        world.terminals[at].session.subscribe(&[item]).unwrap();
    }
    world.settle();
    let before = world.fanout.counts();
    world.delta(0, &[(true, 6, 2)]);
    world.frame();
    let after = world.fanout.counts();
    assert_eq!((after.encodes - before.encodes, after.frames - before.frames), (1, 20));
}

#[test]
fn a_terminal_that_does_not_read_is_told_of_the_gap_and_begins_anew_on_the_same_socket() {
    let mut world = World::new();
    world.list();
    world.connect(RingBounds { frames: 3, bytes: 1 << 20, age_ms: 10_000 });
    let item = SubscriptionItem { channel: Channel::Book, pattern: "*".into() };
    world.terminals[0].session.subscribe(&[item]).unwrap();
    world.settle();
    world.delta(0, &[(true, 6, 2)]);
    world.frame();
    let Next::Send(on_its_way) = world.terminals[0].outbox.next() else { panic!("nothing to send") };
    for quantity in 1..40 {
        world.delta(0, &[(true, 6, quantity % 3)]);
        world.frame();
    }
    assert_eq!((world.fanout.counts().gaps, world.terminals[0].gaps.len()), (1, 0));
    let (message, now_ms) = (ToTerminal::decode(&on_its_way).unwrap(), world.now_ms());
    world.terminals[0].session.receive(message, now_ms).unwrap();
    world.settle();
    assert_eq!(world.terminals[0].gaps.len(), 1);
    let right = world.hub.instrument(market::SymbolId(0)).unwrap().version();
    assert_eq!(world.terminals[0].session.book("binance_spot/AUSDT").map(receiver::Book::version), right);
}
