//! What goes ahead of its cut: at once, shared, released, and lost without harm to anything else.
//!
//! Never: a frame that it waits for.

use crate::{
    model::{Model, live, name, symbol},
    world::{World, rows},
};
use market::{Feed, FeedState};
use proptest::prelude::*;
use receiver::Book;
use server::fanout::outbox::{Next, Outbox, PRIORITY_BOUNDS, RingBounds};
use wire::{ChainKind, Channel, ErrorCode, SubscriptionItem, ToTerminal};

const WIDE: RingBounds = RingBounds { frames: 64, bytes: 1 << 20, age_ms: 10_000 };

fn open(count: usize) -> (World, Model) {
    let (mut world, mut model) = (World::new(), Model::default());
    model.list(&mut world, count);
    (world, model)
}

/// A terminal that has what it asked for, and has read it.
fn joined(world: &mut World, model: &mut Model, channels: &[Channel]) -> usize {
    let at = world.connect(WIDE);
    channels.iter().for_each(|channel| world.subscribe(at, *channel, "*"));
    model.settle(world);
    at
}

#[test]
fn what_is_ahead_of_its_cut_is_shown_while_the_cuts_stand_still() {
    let (mut world, mut model) = open(1);
    let at = joined(&mut world, &mut model, &[Channel::Book, Channel::Priority]);
    model.event(&world, 0, &[(true, 6, 2)]);
    model.send(&mut world);
    world.read(at, usize::MAX);
    assert!(model.is_shown(&world, at, 0), "no cut had to close");
    let frames = world.fanout.counts().frames;
    for step in 0..50 {
        world.standstill_ms += 100;
        model.event(&world, 0, &[(true, 6, step % 3), (false, 9 + i64::try_from(step).unwrap(), 1)]);
        model.send(&mut world);
        world.read(at, usize::MAX);
        assert!(model.is_shown(&world, at, 0), "step {step}, while the cuts stand still");
    }
    assert_eq!(world.fanout.counts().frames, frames);
    // What waits for frames comes later, and turns nothing back.
    let shown = model.version(0);
    world.standstill_ms = 0;
    model.frame(&mut world);
    world.read(at, usize::MAX);
    assert_eq!(world.terminals[at].session.book(&name(0)).map(Book::version), Some(shown));
    let counters = world.terminals[at].session.counters();
    assert_eq!((counters.deltas_refused, counters.regressions_refused, counters.resyncs), (0, 0, 0));
}

#[test]
fn in_the_outbox_priority_comes_before_frames_that_wait() {
    let (mut world, mut model) = open(1);
    let at = joined(&mut world, &mut model, &[Channel::Book, Channel::Priority]);
    model.event(&world, 0, &[(true, 6, 2)]);
    model.frame(&mut world);
    model.event(&world, 0, &[(true, 6, 3)]);
    model.send(&mut world);
    let kinds: Vec<_> = std::iter::from_fn(|| match world.terminals[at].outbox.next() {
        Next::Send(bytes) => Some(ToTerminal::decode(&bytes).unwrap()),
        _ => None,
    })
    .map(|message| if let ToTerminal::Frame(frame) = message { frame.chain } else { panic!("{message:?}") })
    .collect();
    assert_eq!(kinds, [ChainKind::Priority, ChainKind::Priority, ChainKind::Conflated]);
}

#[test]
fn who_joins_while_the_cuts_stand_still_has_the_newest_book_at_once_and_shares_what_follows() {
    let (mut world, mut model) = open(1);
    let first = joined(&mut world, &mut model, &[Channel::Priority]);
    model.event(&world, 0, &[(true, 6, 2)]);
    model.event(&world, 0, &[(true, 7, 2)]);
    model.send(&mut world);
    let second = world.connect(WIDE);
    world.subscribe(second, Channel::Priority, "*");
    (0..3).for_each(|_| world.read(second, usize::MAX));
    assert!(model.is_shown(&world, second, 0));
    let before = world.fanout.counts();
    model.event(&world, 0, &[(true, 7, 0)]);
    model.send(&mut world);
    let after = world.fanout.counts();
    let (updates, frames) =
        (after.priority_updates - before.priority_updates, after.priority_frames - before.priority_frames);
    assert_eq!((updates, frames), (1, 2), "encoded once, sent twice");
    for at in [first, second] {
        world.read(at, usize::MAX);
        assert!(model.is_shown(&world, at, 0));
        assert_eq!(world.terminals[at].session.counters().resyncs, 0);
    }
}

#[test]
fn the_first_one_sees_the_hubs_book_until_the_lane_tells_it() {
    let (mut world, mut model) = open(1);
    model.event(&world, 0, &[(true, 6, 2)]);
    let at = world.connect(WIDE);
    world.subscribe(at, Channel::Priority, "*");
    (0..3).for_each(|_| world.read(at, usize::MAX));
    let shown = |world: &World| world.terminals[at].session.book(&name(0)).map(|book| book.version().seq);
    assert_eq!(shown(&world), Some(100), "a quiet instrument is not an empty screen");
    // The event was before the wish, so that no update of the lane tells it; the hub's book does when its cut is closed.
    model.frame(&mut world);
    world.read(at, usize::MAX);
    assert_eq!(shown(&world), Some(101));
    model.event(&world, 0, &[(true, 6, 3)]);
    model.event(&world, 0, &[(true, 6, 4)]);
    model.send(&mut world);
    world.read(at, usize::MAX);
    assert!(model.is_shown(&world, at, 0));
    assert_eq!(world.terminals[at].session.counters().deltas_refused, 0);
}

#[test]
fn what_nobody_wants_any_longer_is_released() {
    let (mut world, mut model) = open(2);
    let marks = |world: &World| [0, 1].map(|at| world.fanout.board().mark(symbol(at)) & 1);
    assert_eq!(marks(&world), [0, 0]);
    let first = joined(&mut world, &mut model, &[Channel::Priority]);
    let second = joined(&mut world, &mut model, &[]);
    world.subscribe(second, Channel::Priority, &name(1));
    model.settle(&mut world);
    assert_eq!(marks(&world), [1, 1]);
    assert!(world.fanout.is_consistent());
    let everything = SubscriptionItem { channel: Channel::Priority, pattern: "*".into() };
    world.terminals[first].session.unsubscribe(&[everything]);
    world.read(first, usize::MAX);
    assert_eq!(marks(&world), [0, 1]);
    assert!(world.fanout.is_consistent());
    let id = world.terminals[second].id;
    for _ in 0..2 {
        world.fanout.teardown(id, &mut world.hub);
        assert_eq!(marks(&world), [0, 0]);
        assert!(world.fanout.is_consistent());
    }
    let before = world.fanout.counts().priority_updates;
    model.event(&world, 0, &[(true, 6, 2)]);
    model.send(&mut world);
    assert_eq!(world.fanout.counts().priority_updates, before);
}

#[test]
fn a_lost_step_is_answered_with_a_snapshot_at_once() {
    let (mut world, mut model) = open(1);
    let at = joined(&mut world, &mut model, &[Channel::Priority]);
    model.event(&world, 0, &[(true, 6, 2)]);
    model.send(&mut world);
    world.read(at, usize::MAX);
    model.event(&world, 0, &[(true, 6, 3)]);
    model.send(&mut world);
    let Next::Send(_never_arrives) = world.terminals[at].outbox.next() else { panic!("nothing was sent") };
    model.event(&world, 0, &[(true, 7, 3)]);
    model.send(&mut world);
    // Reads the delta, asks, and reads the answer, while no cut closes.
    (0..2).for_each(|_| world.read(at, usize::MAX));
    assert!(model.is_shown(&world, at, 0));
    assert_eq!(world.terminals[at].session.counters().resyncs, 1);
}

#[test]
fn a_lane_whose_updates_do_not_fit_is_asked_anew() {
    let (mut world, mut model) = open(1);
    let at = joined(&mut world, &mut model, &[Channel::Priority]);
    model.event(&world, 0, &[(true, 6, 2)]);
    model.send(&mut world);
    let mark = world.fanout.board().mark(symbol(0));
    model.event(&world, 0, &[(true, 6, 3)]);
    model.lose();
    model.event(&world, 0, &[(true, 7, 3)]);
    model.send(&mut world);
    assert_ne!(world.fanout.board().mark(symbol(0)), mark);
    world.read(at, usize::MAX);
    assert_eq!(world.terminals[at].session.book(&name(0)).map(|book| book.version().seq), Some(101));
    model.event(&world, 0, &[(true, 8, 3)]);
    model.send(&mut world);
    world.read(at, usize::MAX);
    assert!(model.is_shown(&world, at, 0));
    assert_eq!(world.terminals[at].session.counters().deltas_refused, 0, "what does not fit was not sent");
}

#[test]
fn a_slow_reader_of_priority_loses_its_priority_chains_alone() {
    let (mut world, mut model) = open(2);
    let small = RingBounds { frames: 8, ..PRIORITY_BOUNDS };
    let slow = world.connect_to(Outbox::with_priority(WIDE, small));
    [Channel::Book, Channel::Priority].iter().for_each(|channel| world.subscribe(slow, *channel, "*"));
    let other = joined(&mut world, &mut model, &[Channel::Priority]);
    // The socket is busy with one message all the time.
    model.event(&world, 0, &[(true, 6, 2)]);
    model.send(&mut world);
    let Next::Send(on_its_way) = world.terminals[slow].outbox.next() else { panic!("nothing was sent") };
    for step in 0..100 {
        model.event(&world, usize::from(step % 2 == 0), &[(true, 6, 1 + step % 5)]);
        model.send(&mut world);
        world.read(other, usize::MAX);
        if step % 10 == 0 {
            model.frame(&mut world);
        }
    }
    let counts = world.fanout.counts();
    assert_eq!((counts.priority_gaps, counts.gaps), (1, 0));
    assert!(world.terminals[slow].outbox.is_priority_lost() && !world.terminals[slow].outbox.is_lost());
    assert!([0, 1].iter().all(|at| model.is_shown(&world, other, *at)));
    // It reads again: frames first, all of them, then the gap of the priority chains and their snapshots.
    let now_ms = world.now_ms();
    world.terminals[slow].session.receive(ToTerminal::decode(&on_its_way).unwrap(), now_ms).unwrap();
    world.read(slow, usize::MAX);
    assert_eq!(world.terminals[slow].gaps, [], "frames were not lost");
    world.tend();
    world.read(slow, usize::MAX);
    let lost = [0, 1].map(|at| (Channel::Priority, name(at)));
    assert_eq!(world.terminals[slow].gaps, lost);
    assert!([0, 1].iter().all(|at| model.is_shown(&world, slow, *at)));
    model.event(&world, 0, &[(true, 1, 1)]);
    model.send(&mut world);
    world.read(slow, usize::MAX);
    assert!(model.is_shown(&world, slow, 0));
    let counters = world.terminals[slow].session.counters();
    assert_eq!((counters.deltas_refused, counters.resyncs), (0, 0));
}

#[test]
fn two_hundred_slow_readers_all_have_their_turn() {
    let (mut world, mut model) = open(1);
    let small = RingBounds { frames: 2, ..PRIORITY_BOUNDS };
    for _ in 0..200 {
        let at = world.connect_to(Outbox::with_priority(WIDE, small));
        world.subscribe(at, Channel::Priority, "*");
    }
    model.settle(&mut world);
    let mut on_its_way = Vec::new();
    for step in 0..5 {
        model.event(&world, 0, &[(true, 6, 1 + step)]);
        model.send(&mut world);
        if step == 0 {
            on_its_way.extend((0..200).map(|at| world.terminals[at].outbox.next()));
        }
    }
    assert_eq!(world.fanout.counts().priority_gaps, 200);
    let now_ms = world.now_ms();
    for (terminal, next) in world.terminals.iter_mut().zip(on_its_way) {
        let Next::Send(bytes) = next else { panic!("nothing was sent") };
        terminal.session.receive(ToTerminal::decode(&bytes).unwrap(), now_ms).unwrap();
    }
    (0..200).for_each(|at| world.read(at, usize::MAX));
    (0..4).for_each(|_| world.tend());
    (0..200).for_each(|at| world.read(at, usize::MAX));
    assert!((0..200).all(|at| model.is_shown(&world, at, 0)));
}

#[test]
fn old_priority_frames_are_worth_nothing() {
    let (mut world, mut model) = open(1);
    let at = joined(&mut world, &mut model, &[Channel::Priority]);
    model.event(&world, 0, &[(true, 6, 2)]);
    model.send(&mut world);
    world.standstill_ms += PRIORITY_BOUNDS.age_ms + 1;
    model.event(&world, 0, &[(true, 6, 3)]);
    model.send(&mut world);
    assert_eq!(world.fanout.counts().priority_gaps, 1);
    world.tend();
    (0..2).for_each(|_| world.read(at, usize::MAX));
    assert_eq!(world.terminals[at].gaps, [(Channel::Priority, name(0))]);
    assert!(model.is_shown(&world, at, 0), "while the cuts stand still");
}

#[test]
fn a_feed_that_dies_is_told_on_every_channel() {
    let (mut world, mut model) = open(1);
    let channels =
        [Channel::Quote, Channel::Book, Channel::Priority, Channel::Trades, Channel::Status, Channel::Digest];
    let terminals = channels.map(|channel| joined(&mut world, &mut model, &[channel]));
    let feed = |world: &World, at: usize| world.terminals[at].session.feed(&name(0), world.now_ms());
    assert!(terminals.iter().all(|at| feed(&world, *at) == Some(live())));
    for state in [FeedState::Stale, FeedState::Gapped, FeedState::Live] {
        model.set_feed(0, state);
        model.frame(&mut world);
        terminals.iter().for_each(|at| world.read(*at, usize::MAX));
        for (channel, at) in channels.iter().zip(terminals) {
            assert_eq!(feed(&world, at), Some(Feed { state, ..live() }), "{}", channel.name());
        }
    }
}

#[test]
fn a_book_that_fits_no_message_is_refused_alone() {
    let mut world = World::with(|config| config.message_bytes_max = 400);
    let mut model = Model::default();
    model.list(&mut world, 2);
    let deep: Vec<_> = (100..300).map(|price| (false, price, 1)).collect();
    model.event(&world, 0, &deep);
    let at = joined(&mut world, &mut model, &[Channel::Book, Channel::Priority, Channel::Status]);
    let refused = &world.terminals[at].refused;
    assert!(
        refused.iter().all(|(code, text)| *code == ErrorCode::TooLarge && text.starts_with(&name(0))),
        "{refused:?}"
    );
    assert_eq!(refused.len(), 2, "its book and its priority chain");
    assert!(model.is_shown(&world, at, 1) && world.terminals[at].session.book(&name(0)).is_none());
    assert!(world.fanout.is_consistent());
    // It costs nothing more, and the rest goes on.
    let unencodable = world.fanout.counts().unencodable;
    for _ in 0..5 {
        model.event(&world, 0, &[(true, 6, 2)]);
        model.event(&world, 1, &[(true, 6, 2)]);
        model.frame(&mut world);
        world.read(at, usize::MAX);
    }
    assert!(model.is_shown(&world, at, 1));
    assert_eq!(world.fanout.counts().unencodable, unencodable);
    assert_eq!(world.terminals[at].session.counters().resyncs, 0);
    // Asked for again once it is smaller, it is there.
    let cleared: Vec<_> = deep.iter().map(|(bid, price, _)| (*bid, *price, 0)).collect();
    model.event(&world, 0, &cleared);
    model.frame(&mut world);
    for channel in [Channel::Book, Channel::Priority] {
        let item = [SubscriptionItem { channel, pattern: "*".into() }];
        world.terminals[at].session.unsubscribe(&item);
        world.read(at, usize::MAX);
        world.terminals[at].session.subscribe(&item).unwrap();
    }
    model.settle(&mut world);
    assert!(model.is_shown(&world, at, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Event(usize, Vec<(bool, i64, u64)>),
    Lose,
    Send,
    Close(u64),
    StandStill(u64),
    Subscribe(usize, Channel, &'static str),
    Unsubscribe(usize, Channel, &'static str),
    Reconnect(usize),
    Read(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let channel = || prop::sample::select(vec![Channel::Book, Channel::Priority, Channel::Priority, Channel::Digest]);
    let pattern = || prop::sample::select(vec!["*", "binance_spot/AUSDT", "binance_spot/[BC]*"]);
    let terminal = || 0..3_usize;
    prop_oneof![
        10 => (0..3_usize, rows()).prop_map(|(at, rows)| Step::Event(at, rows)),
        1 => Just(Step::Lose),
        6 => Just(Step::Send),
        4 => (1..25_u64).prop_map(Step::Close),
        1 => (1..1_500_u64).prop_map(Step::StandStill),
        3 => (terminal(), channel(), pattern()).prop_map(|(at, channel, text)| Step::Subscribe(at, channel, text)),
        2 => (terminal(), channel(), pattern()).prop_map(|(at, channel, text)| Step::Unsubscribe(at, channel, text)),
        1 => terminal().prop_map(Step::Reconnect),
        8 => (terminal(), 0..6_usize).prop_map(|(at, messages)| Step::Read(at, messages)),
    ]
}

fn perform(step: Step, world: &mut World, model: &mut Model) {
    match step {
        Step::Event(at, rows) => model.event(world, at, &rows),
        Step::Lose => model.lose(),
        Step::Send => model.send(world),
        Step::Close(cuts) => (0..cuts).for_each(|_| model.close(world)),
        Step::StandStill(ms) => world.standstill_ms += ms,
        Step::Subscribe(at, channel, pattern) => world.subscribe(at, channel, pattern),
        Step::Unsubscribe(at, channel, pattern) => {
            world.terminals[at].session.unsubscribe(&[SubscriptionItem { channel, pattern: pattern.into() }]);
        }
        Step::Reconnect(at) => world.reconnect(at),
        Step::Read(at, messages) => world.read(at, messages),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("SPRAG_FULL").is_some() { 5_000 } else { 250 }))]
    #[test]
    fn every_chain_ends_at_the_lanes_books_whatever_was_lost(steps in prop::collection::vec(step(), 0..150)) {
        let mut world = World::with(|config| config.digest_ms = 80);
        let mut model = Model::default();
        model.list(&mut world, 3);
        for _ in 0..3 {
            let small = RingBounds { frames: 5, bytes: 500, age_ms: 300 };
            let at = world.connect_to(Outbox::with_priority(small, small));
            // After a reconnect the hub may be behind what the lane said ahead of it.
            world.terminals[at].strict = false;
        }
        world.subscribe(0, Channel::Priority, "*");
        for step in steps {
            perform(step, &mut world, &mut model);
        }
        model.settle(&mut world);
        prop_assert!(world.fanout.is_consistent());
        for terminal in 0..3 {
            let session = &world.terminals[terminal].session;
            for at in 0..3 {
                let wants = session.subscriptions().any(|item| {
                    let group = &*item.pattern == "binance_spot/[BC]*" && at > 0;
                    item.channel != Channel::Digest && (&*item.pattern == "*" || *item.pattern == *name(at) || group)
                });
                prop_assert!(!wants || model.is_shown(&world, terminal, at), "terminal {terminal}, {}", name(at));
            }
            let counters = session.counters();
            prop_assert_eq!(counters.deltas_refused, 0, "a delta was sent over a base that the terminal does not hold");
            prop_assert_eq!(counters.digests_failed, 0);
            prop_assert_eq!(&world.terminals[terminal].refused, &[]);
        }
        prop_assert_eq!(world.fanout.counts().unencodable, 0);
        for terminal in 0..3 {
            let id = world.terminals[terminal].id;
            world.fanout.teardown(id, &mut world.hub);
        }
        prop_assert_eq!(world.fanout.sizes(), (0, 0, 0));
        prop_assert!((0..3).all(|at| world.fanout.board().mark(symbol(at)) & 1 == 0));
    }
}
