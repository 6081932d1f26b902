//! Scenarios of the receiver guard, told message by message.
//!
//! Never: a socket or a clock.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use market::{Feed, FeedState, Flags, Level, LevelChange, Quote, Scale, Side, Trade, U256, Venue, Version};
use receiver::{Link, Notice, Session, SessionError};
use wire::{
    Block, BookDelta, BookSnapshot, ChainKind, Channel, Dictionary, DictionaryInstrument, DictionaryPair, DigestBlock,
    Frame, Gap, Hello, QuoteBlock, Resync, StatusBlock, SubscriptionItem, ToServer, ToTerminal, TradesBlock,
};

const NAME: &str = "binance_spot/BTCUSDT";
const SCALE: Scale = Scale { price: -2, quantity: -8 };

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

/// The one instrument under a number of the caller's choice, so that numbers differ between generations.
fn dictionary(generation: u64, id: u32) -> ToTerminal {
    let instrument = DictionaryInstrument {
        id,
        venue: Venue::BinanceSpot,
        symbol: "BTCUSDT".into(),
        asset_0: "BTC".into(),
        asset_1: "USDT".into(),
        pair: 0,
    };
    let pair = DictionaryPair { id: 0, asset_0: "BTC".into(), asset_1: "USDT".into() };
    ToTerminal::Dictionary(Dictionary { generation, instruments: vec![instrument], pairs: vec![pair] })
}

fn live() -> Feed {
    Feed { state: FeedState::Live, flags: Flags::default() }
}

fn level(tick_index: i64, quantity: u64) -> Level {
    Level { tick_index, quantity: U256::from(quantity) }
}

fn snapshot(id: u32, version: Version, bids: &[(i64, u64)]) -> Block {
    Block::BookSnapshot(BookSnapshot {
        id,
        version,
        scale: SCALE,
        feed: live(),
        age_ms: 5,
        horizon: [None, None],
        bids: bids.iter().map(|(price, quantity)| level(*price, *quantity)).collect(),
        asks: vec![],
    })
}

fn delta(id: u32, base: Version, version: Version, bids: &[(i64, u64)]) -> Block {
    let changes =
        bids.iter().map(|(price, quantity)| LevelChange { side: Side::Bid, level: level(*price, *quantity) }).collect();
    Block::BookDelta(BookDelta { id, base, version, feed: live(), changes })
}

fn v(epoch: u64, seq: u64) -> Version {
    Version::new(epoch, seq)
}

/// A session with a server, and the clock in hand.
struct Stage {
    session: Session,
    now_ms: u64,
}

impl Stage {
    fn new() -> Self {
        let mut stage = Self { session: Session::new(), now_ms: 1_000 };
        stage.reconnect(1, 0);
        stage
    }

    fn reconnect(&mut self, generation: u64, id: u32) {
        self.session.connected(self.now_ms);
        self.session.receive(hello(generation), self.now_ms).unwrap();
        self.session.receive(dictionary(generation, id), self.now_ms).unwrap();
    }

    fn on(&mut self, chain: ChainKind, block: Block) -> Vec<Notice> {
        let frame = Frame { chain, frame: 0, at_ms: 0, blocks: vec![block] };
        self.session.receive(ToTerminal::Frame(frame), self.now_ms).unwrap()
    }

    fn take(&mut self, block: Block) -> Vec<Notice> {
        self.on(ChainKind::Conflated, block)
    }

    fn shown(&self) -> Option<(Version, Vec<(i64, u64)>)> {
        let book = self.session.book(NAME)?;
        let bids =
            book.levels(Side::Bid).map(|level| (level.tick_index, u64::try_from(level.quantity).unwrap())).collect();
        Some((book.version(), bids))
    }

    fn outgoing(&mut self) -> Vec<ToServer> {
        std::iter::from_fn(|| self.session.next_outgoing()).collect()
    }
}

#[test]
fn deltas_without_a_snapshot_show_nothing_and_ask_once() {
    let mut stage = Stage::new();
    stage.take(delta(0, v(1, 1), v(1, 2), &[(100, 1)]));
    stage.take(delta(0, v(1, 2), v(1, 3), &[(100, 2)]));
    assert_eq!(stage.shown(), None);
    assert_eq!(stage.outgoing(), [ToServer::Resync(Resync { items: vec![(Channel::Book, 0)] })]);
}

#[test]
fn a_wrong_base_is_not_applied_asks_once_and_heals_by_a_snapshot() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 10), &[(100, 1)]));
    stage.take(delta(0, v(1, 10), v(1, 12), &[(99, 5)]));
    let before = stage.shown();
    assert_eq!(before, Some((v(1, 12), vec![(100, 1), (99, 5)])));
    let notices = stage.take(delta(0, v(1, 13), v(1, 14), &[(100, 0)]));
    assert_eq!(notices, [Notice::NeedsResync { channel: Channel::Book, instrument: NAME.into() }]);
    for seq in 14..40 {
        assert_eq!(stage.take(delta(0, v(1, seq), v(1, seq + 1), &[(100, 0)])), []);
    }
    assert_eq!(stage.shown(), before);
    assert_eq!(stage.outgoing(), [ToServer::Resync(Resync { items: vec![(Channel::Book, 0)] })]);
    stage.take(snapshot(0, v(1, 40), &[(98, 7)]));
    stage.take(delta(0, v(1, 40), v(1, 41), &[(98, 0), (97, 1)]));
    assert_eq!(stage.shown(), Some((v(1, 41), vec![(97, 1)])));
    assert_eq!(stage.session.counters().resyncs, 1);
}

#[test]
fn a_refused_resync_is_asked_again_after_a_while() {
    let mut stage = Stage::new();
    stage.take(delta(0, v(1, 1), v(1, 2), &[]));
    assert_eq!(stage.outgoing().len(), 1);
    stage.now_ms += receiver::chain::RESYNC_AGAIN_MS;
    stage.take(delta(0, v(1, 2), v(1, 3), &[]));
    assert_eq!(stage.outgoing().len(), 1);
}

#[test]
fn after_a_reconnect_an_older_snapshot_is_not_shown_until_it_catches_up() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 100), &[(100, 1)]));
    stage.reconnect(2, 7);
    assert!(stage.session.view(NAME, stage.now_ms).unwrap().catching_up);
    let notices = stage.take(snapshot(7, v(1, 98), &[(95, 9)]));
    let refused = Notice::RegressionRefused {
        channel: Channel::Book,
        instrument: NAME.into(),
        offered: v(1, 98),
        shown: v(1, 100),
    };
    assert_eq!(notices, [refused]);
    assert_eq!(stage.shown(), Some((v(1, 100), vec![(100, 1)])));
    stage.take(delta(7, v(1, 98), v(1, 99), &[(96, 9)]));
    assert_eq!(stage.shown(), Some((v(1, 100), vec![(100, 1)])));
    stage.take(delta(7, v(1, 99), v(1, 101), &[(95, 0)]));
    assert_eq!(stage.shown(), Some((v(1, 101), vec![(96, 9)])));
    assert!(!stage.session.view(NAME, stage.now_ms).unwrap().catching_up);
    assert_eq!(stage.session.instruments().len(), 1);
}

#[test]
fn another_server_with_other_content_at_the_same_version_is_shown_whole_or_not_at_all() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 100), &[(100, 1), (99, 1)]));
    stage.reconnect(2, 0);
    stage.take(delta(0, v(1, 100), v(1, 101), &[(98, 1)]));
    assert_eq!(stage.shown(), Some((v(1, 100), vec![(100, 1), (99, 1)])), "the chain of one server is over");
    stage.take(snapshot(0, v(1, 99), &[(97, 3)]));
    stage.take(delta(0, v(1, 99), v(1, 100), &[(96, 4)]));
    assert_eq!(stage.shown(), Some((v(1, 100), vec![(97, 3), (96, 4)])));
}

#[test]
fn a_new_epoch_with_a_lower_sequence_is_newer() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 26_941_144), &[(100, 1)]));
    stage.take(snapshot(0, v(2, 624_086), &[(90, 1)]));
    assert_eq!(stage.shown(), Some((v(2, 624_086), vec![(90, 1)])));
    stage.take(delta(0, v(2, 624_086), v(3, 1), &[(90, 0), (91, 1)]));
    assert_eq!(stage.shown(), Some((v(3, 1), vec![(91, 1)])));
}

#[test]
fn a_server_that_turns_back_on_one_connection_is_not_followed() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 100), &[(100, 1)]));
    stage.take(snapshot(0, v(1, 50), &[(50, 1)]));
    stage.take(delta(0, v(1, 50), v(1, 60), &[(51, 1)]));
    assert_eq!(stage.shown(), Some((v(1, 100), vec![(100, 1)])));
    stage.take(delta(0, v(1, 60), v(1, 100), &[(50, 0)]));
    assert_eq!(stage.shown(), Some((v(1, 100), vec![(51, 1)])));
    assert_eq!(stage.session.counters().regressions_refused, 1);
}

#[test]
fn the_chain_with_the_highest_version_is_shown_and_they_never_mix() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 10), &[(100, 1)]));
    stage.on(ChainKind::Priority, snapshot(0, v(1, 12), &[(101, 1)]));
    stage.on(ChainKind::Priority, delta(0, v(1, 12), v(1, 13), &[(102, 1)]));
    assert_eq!(stage.shown(), Some((v(1, 13), vec![(102, 1), (101, 1)])));
    stage.take(delta(0, v(1, 10), v(1, 13), &[(99, 1)]));
    assert_eq!(stage.shown(), Some((v(1, 13), vec![(102, 1), (101, 1)])));
    stage.take(delta(0, v(1, 13), v(1, 14), &[]));
    assert_eq!(stage.shown(), Some((v(1, 14), vec![(100, 1), (99, 1)])));
    stage.on(ChainKind::Priority, delta(0, v(1, 14), v(1, 15), &[]));
    assert_eq!(stage.outgoing(), [ToServer::Resync(Resync { items: vec![(Channel::Priority, 0)] })]);
}

#[test]
fn a_gap_keeps_the_book_and_waits_for_its_snapshot_without_asking() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 10), &[(100, 1)]));
    let gap = ToTerminal::Gap(Gap { entries: vec![(Channel::Book, 0), (Channel::Best, 0), (Channel::Trades, 9)] });
    let notices = stage.session.receive(gap, stage.now_ms).unwrap();
    let of = |channel, name: &str| Notice::Gap { channel, name: name.into() };
    assert_eq!(notices, [of(Channel::Book, NAME), of(Channel::Best, "BTC/USDT"), Notice::UnknownId { id: 9 }]);
    stage.take(delta(0, v(1, 12), v(1, 13), &[(99, 1)]));
    assert_eq!((stage.shown(), stage.outgoing()), (Some((v(1, 10), vec![(100, 1)])), vec![]));
    stage.take(snapshot(0, v(1, 13), &[(99, 1)]));
    assert_eq!(stage.shown(), Some((v(1, 13), vec![(99, 1)])));
}

#[test]
fn a_snapshot_replaces_and_an_empty_one_is_a_book() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 1), &[(100, 1), (99, 1)]));
    stage.take(snapshot(0, v(1, 2), &[(95, 1)]));
    assert_eq!(stage.shown(), Some((v(1, 2), vec![(95, 1)])));
    stage.take(snapshot(0, v(1, 3), &[]));
    assert_eq!(stage.shown(), Some((v(1, 3), vec![])));
    stage.take(delta(0, v(1, 3), v(1, 4), &[(50, 0), (60, 2)]));
    assert_eq!(stage.shown(), Some((v(1, 4), vec![(60, 2)])));
}

#[test]
fn trades_are_told_once_and_the_last_price_does_not_turn_back() {
    let mut stage = Stage::new();
    let trade = |order: u64| Trade {
        id: order.to_string().into(),
        order,
        tick_index: i64::try_from(order).unwrap(),
        quantity: U256::ONE,
        taker: Side::Ask,
        venue_ns: 0,
    };
    let block = |orders: &[u64]| {
        let trades = orders.iter().map(|order| trade(*order)).collect();
        Block::Trades(TradesBlock { id: 0, scale: SCALE, trades })
    };
    assert_eq!(stage.take(block(&[5, 7, 7, 6])).len(), 2);
    stage.reconnect(1, 0);
    assert_eq!(stage.take(block(&[5, 7])).len(), 0);
    assert_eq!(stage.take(block(&[8_389_765_929_445_198_309])).len(), 1);
    assert_eq!(stage.session.last_trade(NAME).map(|last| last.trade.order), Some(8_389_765_929_445_198_309));
    assert_eq!((stage.session.counters().trades_repeated, stage.session.counters().trades_late), (3, 1));
}

#[test]
fn a_quote_is_shown_only_from_its_version_on() {
    let mut stage = Stage::new();
    let quote = |version, price| {
        let quote = Quote { bid: Some(level(price, 1)), ask: None };
        Block::Quote(QuoteBlock { id: 0, version, scale: SCALE, quote, feed: live(), age_ms: 0 })
    };
    stage.take(quote(v(1, 10), 100));
    let notices = stage.take(quote(v(1, 9), 99));
    assert!(matches!(notices[..], [Notice::RegressionRefused { channel: Channel::Quote, .. }]), "{notices:?}");
    assert_eq!(stage.take(quote(v(1, 10), 100)), []);
    stage.take(quote(v(2, 1), 98));
    assert_eq!(stage.session.quote(NAME).map(|shown| shown.version), Some(v(2, 1)));
}

#[test]
fn a_quiet_market_is_told_from_a_dead_link() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 1), &[(100, 1)]));
    let heartbeat = |stage: &mut Stage| {
        let frame = Frame { chain: ChainKind::Conflated, frame: 0, at_ms: 0, blocks: vec![] };
        stage.session.receive(ToTerminal::Frame(frame), stage.now_ms).unwrap()
    };
    for _ in 0..10 {
        stage.now_ms += 1_000;
        assert_eq!(heartbeat(&mut stage), []);
    }
    assert_eq!(stage.session.feed(NAME, stage.now_ms), Some(live()));
    assert_eq!(stage.session.age_ms(NAME, stage.now_ms), Some(10_005));
    stage.now_ms += 3_000;
    assert_eq!(stage.session.tick(stage.now_ms), []);
    stage.now_ms += 1;
    assert_eq!(stage.session.tick(stage.now_ms), [Notice::Link(Link::Silent)]);
    assert_eq!(stage.session.feed(NAME, stage.now_ms).map(|feed| feed.state), Some(FeedState::Stale));
    assert_eq!(heartbeat(&mut stage), [Notice::Link(Link::Up)]);
    assert_eq!(stage.session.disconnected(), [Notice::Link(Link::Down)]);
    assert_eq!(stage.session.feed(NAME, stage.now_ms).map(|feed| feed.state), Some(FeedState::Stale));
    assert!(stage.shown().is_some());
}

#[test]
fn a_status_tells_the_feed_without_a_book() {
    let mut stage = Stage::new();
    let feed = Feed { state: FeedState::Gapped, flags: Flags { crossed: true, ..Flags::default() } };
    let notices = stage.take(Block::Status(StatusBlock { id: 0, version: None, feed, age_ms: 61_000 }));
    assert_eq!(notices, [Notice::StatusChanged { instrument: NAME.into(), feed }]);
    assert_eq!(stage.session.age_ms(NAME, stage.now_ms + 1), Some(61_001));
    assert_eq!(stage.shown(), None);
}

#[test]
fn subscriptions_are_state_and_are_replayed_on_each_connection() {
    let item = |channel, pattern: &str| SubscriptionItem { channel, pattern: pattern.into() };
    let (books, best) = (item(Channel::Book, "*"), item(Channel::Best, "BTC/*"));
    let mut session = Session::new();
    session.subscribe(&[books.clone(), best.clone()]).unwrap();
    let mut asked = Vec::new();
    for round in 0..3 {
        session.connected(round);
        assert_eq!(session.next_outgoing(), None, "nothing is asked before the hello");
        session.receive(hello(round), round).unwrap();
        let Some(ToServer::Subscribe(request)) = session.next_outgoing() else { panic!("no subscription") };
        assert_eq!(request.items, [books.clone(), best.clone()]);
        asked.push(request.request);
        session.subscribe(std::slice::from_ref(&books)).unwrap();
        assert_eq!(session.next_outgoing(), None, "asking twice is asking once");
    }
    assert_eq!(asked, [1, 2, 3]);
    session.unsubscribe(std::slice::from_ref(&best));
    let Some(ToServer::Unsubscribe(request)) = session.next_outgoing() else { panic!("no unsubscription") };
    assert_eq!(request.items, [best]);
    assert_eq!(session.subscriptions().collect::<Vec<_>>(), [&books]);
}

#[test]
fn a_server_that_breaks_the_protocol_is_left() {
    let mut session = Session::new();
    assert_eq!(session.receive(hello(1), 0), Err(SessionError::BeforeHello));
    session.connected(0);
    assert_eq!(session.receive(dictionary(1, 0), 0), Err(SessionError::BeforeHello));
    session.receive(hello(1), 0).unwrap();
    assert_eq!(session.receive(hello(1), 0), Err(SessionError::SecondHello));
    let other = SessionError::OtherGeneration { expected: 1, found: 2 };
    assert_eq!(session.receive(dictionary(2, 0), 0), Err(other));
    session.connected(0);
    let ToTerminal::Hello(hello) = hello(1) else { panic!("a hello") };
    let later = ToTerminal::Hello(Hello { wire_version: 2, ..hello });
    assert_eq!(session.receive(later, 0), Err(SessionError::UnsupportedVersion { version: 2 }));
}

fn digest(version: Version, bids: &[(i64, u64)]) -> Block {
    let levels = bids.iter().map(|(price, quantity)| level(*price, *quantity));
    Block::Digest(DigestBlock { id: 0, version, crc: wire::digest_of(SCALE, levels, std::iter::empty()).unwrap() })
}

#[test]
fn a_digest_that_differs_breaks_its_own_chain_and_no_other() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 10), &[(100, 1)]));
    stage.take(delta(0, v(1, 10), v(1, 11), &[(99, 5)]));
    assert_eq!(stage.take(digest(v(1, 11), &[(100, 1), (99, 5)])), []);
    assert_eq!(stage.take(digest(v(1, 10), &[(100, 2)])), [], "of a version that the chain has left");
    assert_eq!(stage.outgoing(), []);
    let notices = stage.take(digest(v(1, 11), &[(100, 1), (99, 6)]));
    assert_eq!(notices, [Notice::DigestMismatch { instrument: NAME.into(), version: v(1, 11) }]);
    assert_eq!(stage.shown(), Some((v(1, 11), vec![(100, 1), (99, 5)])));
    assert!(stage.session.view(NAME, stage.now_ms).unwrap().catching_up);
    assert_eq!(stage.take(digest(v(1, 11), &[(100, 1), (99, 6)])), [], "it is known already");
    assert_eq!(stage.take(delta(0, v(1, 11), v(1, 12), &[])), []);
    assert_eq!(stage.outgoing(), [ToServer::Resync(Resync { items: vec![(Channel::Book, 0)] })]);
    stage.take(snapshot(0, v(1, 11), &[(100, 1), (99, 6)]));
    assert_eq!(stage.shown(), Some((v(1, 11), vec![(100, 1), (99, 6)])));
    let counters = stage.session.counters();
    assert_eq!((counters.digests_matched, counters.digests_failed, counters.digests_skipped), (1, 1, 2));
    assert_eq!(counters.regressions_refused, 0);
}

#[test]
fn a_digest_says_nothing_about_the_priority_chain() {
    let mut stage = Stage::new();
    stage.on(ChainKind::Priority, snapshot(0, v(1, 12), &[(100, 3)]));
    stage.take(snapshot(0, v(1, 10), &[(100, 1)]));
    assert_eq!(stage.take(digest(v(1, 12), &[])), []);
    stage.take(digest(v(1, 10), &[]));
    stage.on(ChainKind::Priority, delta(0, v(1, 12), v(1, 13), &[(100, 4)]));
    assert_eq!(stage.shown(), Some((v(1, 13), vec![(100, 4)])));
    assert!(!stage.session.view(NAME, stage.now_ms).unwrap().catching_up);
    assert_eq!(stage.outgoing(), [ToServer::Resync(Resync { items: vec![(Channel::Book, 0)] })]);
}

#[test]
fn the_slower_of_two_chains_is_no_regression() {
    let mut stage = Stage::new();
    let mut notices = stage.on(ChainKind::Priority, snapshot(0, v(1, 105), &[(100, 3)]));
    notices.extend(stage.take(snapshot(0, v(1, 100), &[(100, 1)])));
    notices.extend(stage.take(delta(0, v(1, 100), v(1, 105), &[(100, 3)])));
    assert_eq!(stage.session.counters().regressions_refused, 0, "{notices:?}");
    stage.take(delta(0, v(1, 105), v(1, 106), &[(100, 4)]));
    assert_eq!(stage.shown(), Some((v(1, 106), vec![(100, 4)])));
}

#[test]
fn live_is_not_believed_while_the_servers_cuts_stand_still() {
    let mut stage = Stage::new();
    stage.take(snapshot(0, v(1, 1), &[(100, 1)]));
    let heartbeat = |stage: &mut Stage, chain| {
        let frame = Frame { chain, frame: 0, at_ms: 0, blocks: vec![] };
        stage.session.receive(ToTerminal::Frame(frame), stage.now_ms).unwrap();
    };
    let state = |stage: &Stage| stage.session.feed(NAME, stage.now_ms).map(|feed| feed.state);
    for _ in 0..4 {
        stage.now_ms += 1_000;
        heartbeat(&mut stage, ChainKind::Priority);
    }
    assert_eq!(stage.session.link(stage.now_ms), Link::Up, "the line itself is alive");
    assert_eq!(state(&stage), Some(FeedState::Stale));
    stage.on(ChainKind::Priority, snapshot(0, v(1, 2), &[(100, 2)]));
    assert_eq!(state(&stage), Some(FeedState::Live), "its own priority chain moves");
    stage.now_ms += 3_001;
    heartbeat(&mut stage, ChainKind::Priority);
    assert_eq!(state(&stage), Some(FeedState::Stale));
    heartbeat(&mut stage, ChainKind::Conflated);
    assert_eq!(state(&stage), Some(FeedState::Live));
}

#[test]
fn a_quote_of_a_former_server_is_marked_until_the_next_one_reaches_it() {
    let mut stage = Stage::new();
    let quote = |id, version| {
        let quote = Quote { bid: Some(level(100, 1)), ask: None };
        Block::Quote(QuoteBlock { id, version, scale: SCALE, quote, feed: live(), age_ms: 0 })
    };
    let catching_up = |stage: &Stage| stage.session.view(NAME, stage.now_ms).unwrap().catching_up;
    stage.take(quote(0, v(1, 10)));
    assert!(!catching_up(&stage));
    stage.reconnect(2, 4);
    stage.take(quote(4, v(1, 9)));
    assert!(catching_up(&stage));
    stage.take(quote(4, v(1, 10)));
    assert!(!catching_up(&stage));
}
