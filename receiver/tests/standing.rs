//! Standing views at a terminal, told message by message.
//!
//! Never: a socket or a clock.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use market::{
    PairId, U256, ViewId, ViewKey, ViewRule, ViewValue,
    quote::Exact,
    view::{Band, SignedExact, ViewNumber},
};
use receiver::{Notice, Session, SessionError};
use wire::{
    Block, ChainKind, Channel, Dictionary, DictionaryPair, Frame, Gap, Hello, ListedView, ToTerminal, ViewBlock,
    ViewList,
};

const NAME: &str = "spread/BTC/USDT";

fn hello(generation: u64) -> ToTerminal {
    ToTerminal::Hello(Hello {
        wire_version: 1,
        generation,
        build: "test".into(),
        frame_ms: 40,
        heartbeat_ms: 1_000,
        simulated: true,
    })
}

fn pairs(generation: u64, names: &[&str]) -> ToTerminal {
    let pair = |(id, name): (u32, &&str)| {
        let (asset_0, asset_1) = name.split_once('/').unwrap();
        DictionaryPair { id, asset_0: asset_0.into(), asset_1: asset_1.into() }
    };
    let pairs = (0..).zip(names).map(pair).collect();
    ToTerminal::Dictionary(Dictionary { generation, instruments: vec![], pairs })
}

fn depth() -> ViewRule {
    ViewRule::ReservesWithin(Band::of_ppm(10_000).unwrap())
}

fn list(generation: u64, views: &[(&str, ViewRule)]) -> ToTerminal {
    let listed = |(name, rule): &(&str, ViewRule)| ListedView { name: (*name).into(), rule: *rule };
    ToTerminal::Views(ViewList { generation, views: views.iter().map(listed).collect() })
}

fn number(view: usize, pair: u32) -> u32 {
    ViewKey { view: ViewId::new(view).unwrap(), pair: PairId(pair) }.number()
}

fn spread(steps: u64) -> Option<ViewValue> {
    let number = ViewNumber::Spread(SignedExact::new(true, Exact::new(U256::from(steps), -1)));
    Some(ViewValue { number, partial: false, instruments: 2 })
}

fn told(session: &mut Session, id: u32, value: Option<ViewValue>) -> Vec<Notice> {
    let blocks = vec![Block::View(ViewBlock { id, value })];
    let frame = ToTerminal::Frame(Frame { chain: ChainKind::Conflated, frame: 0, at_ms: 0, blocks });
    session.receive(frame, 0).unwrap()
}

fn changed(name: &str) -> Vec<Notice> {
    vec![Notice::ViewChanged { name: name.into() }]
}

/// A session at a server whose second view is the spread, of pairs of which the second is BTC/USDT.
fn joined() -> Session {
    let mut session = Session::new();
    session.connected(0);
    for message in
        [hello(1), pairs(1, &["ETH/USDT", "BTC/USDT"]), list(1, &[("depth", depth()), ("spread", ViewRule::Spread)])]
    {
        session.receive(message, 0).unwrap();
    }
    session
}

#[test]
fn a_value_is_shown_by_name_and_told_when_it_is_another_one() {
    let mut session = joined();
    assert_eq!(session.standing_view(NAME), None);
    assert_eq!(told(&mut session, number(1, 1), spread(5)), changed(NAME));
    assert_eq!(told(&mut session, number(1, 1), spread(5)), []);
    assert_eq!(told(&mut session, number(1, 1), spread(6)), changed(NAME));
    let view = session.standing_view(NAME).unwrap();
    assert_eq!((view.rule, view.value), (ViewRule::Spread, spread(6)));
    assert_eq!(told(&mut session, number(1, 1), None), changed(NAME));
    assert_eq!(session.standing_view(NAME).unwrap().value, None);
    assert_eq!(session.declared_views().unwrap().len(), 2);
    // No book is in it from the start: there is nothing new.
    assert_eq!(told(&mut session, number(0, 0), None), []);
    assert_eq!(session.standing_views().map(|view| &*view.name).collect::<Vec<_>>(), [NAME, "depth/ETH/USDT"]);
}

#[test]
fn numbers_that_nobody_explained_are_counted_and_show_nothing() {
    let mut session = joined();
    for id in [number(2, 1), number(1, 2), u32::MAX] {
        assert_eq!(told(&mut session, id, spread(5)), [Notice::UnknownId { id }]);
    }
    assert_eq!((session.counters().unknown_ids, session.standing_views().len()), (3, 0));
    let mut early = Session::new();
    early.connected(0);
    early.receive(hello(1), 0).unwrap();
    early.receive(pairs(1, &["BTC/USDT"]), 0).unwrap();
    assert_eq!(told(&mut early, 0, spread(5)), [Notice::UnknownId { id: 0 }], "a pair, and no list of views");
}

#[test]
fn a_value_outlives_the_connection_and_numbers_do_not() {
    let mut session = joined();
    told(&mut session, number(1, 1), spread(5));
    session.connected(9);
    session.receive(hello(2), 9).unwrap();
    assert_eq!(session.standing_view(NAME).unwrap().value, spread(5));
    session.receive(pairs(2, &["BTC/USDT"]), 9).unwrap();
    session.receive(list(2, &[("spread", depth())]), 9).unwrap();
    assert_eq!(told(&mut session, number(1, 1), spread(7)), [Notice::UnknownId { id: number(1, 1) }]);
    assert_eq!(told(&mut session, number(0, 0), spread(7)), changed(NAME));
    let view = session.standing_view(NAME).unwrap();
    assert_eq!((view.value, view.rule), (spread(7), depth()), "what the present server keeps under the name");
}

#[test]
fn a_list_that_says_otherwise_or_is_of_another_generation_ends_the_connection() {
    let mut session = joined();
    let same = list(1, &[("depth", depth()), ("spread", ViewRule::Spread)]);
    assert!(session.receive(same, 0).is_ok());
    assert_eq!(session.receive(list(1, &[("spread", ViewRule::Spread)]), 0), Err(SessionError::ViewsRenamed));
    let other = session.receive(list(7, &[]), 0);
    assert_eq!(other, Err(SessionError::OtherGeneration { expected: 1, found: 7 }));
    let mut early = Session::new();
    early.connected(0);
    assert_eq!(early.receive(list(1, &[]), 0), Err(SessionError::BeforeHello));
}

#[test]
fn a_gap_is_told_by_the_name_of_the_view() {
    let mut session = joined();
    let entries = vec![(Channel::View, number(1, 1)), (Channel::View, number(1, 9))];
    let notices = session.receive(ToTerminal::Gap(Gap { entries }), 0).unwrap();
    let gap = Notice::Gap { channel: Channel::View, name: NAME.into() };
    assert_eq!(notices, [gap, Notice::UnknownId { id: number(1, 9) }]);
}
