//! Lanes, hub, fan-out and receivers together without a socket: whatever terminals ask for and however slowly they
//! read, each ends with the hub's books and never saw one move backwards.
//!
//! Never: a wall clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

use dataflow::{
    clock::CutClock,
    cut::LaneCut,
    lane::{Lane, LaneConfig},
    sink::SinkMessage,
};
use market::{
    Body, Delta, Directory, Event, LegId, Listing, Scale, Sequence, Side, Snapshot, TickChange, U256, Venue, Version,
    Window, guard::Limits,
};
use proptest::prelude::*;
use receiver::{Notice, Session};
use server::{
    fanout::{
        ConnectionId, Fanout, FanoutConfig,
        outbox::{Next, Outbox, RingBounds},
    },
    hub::{Hub, HubConfig},
};
use std::{collections::BTreeMap, sync::Arc};
use wire::{Channel, SubscriptionItem, ToTerminal};

const CUT_NS: u64 = 4_000_000;
const CUTS_PER_FRAME: u64 = 10;
const SYMBOLS: [&str; 4] = ["AUSDT", "BUSDT", "CUSDT", "DUSDT"];
const SCALE: Scale = Scale { price: -2, quantity: -2 };

struct Terminal {
    id: ConnectionId,
    session: Session,
    outbox: Arc<Outbox>,
    shown: BTreeMap<String, Version>,
    gaps: usize,
}

struct World {
    directory: Arc<Directory>,
    lane: Lane,
    hub: Hub,
    fanout: Fanout,
    cut: u64,
    ids: [u64; SYMBOLS.len()],
    listed: usize,
    terminals: Vec<Terminal>,
    next_connection: u64,
}

impl World {
    fn new() -> Self {
        let clock = CutClock { origin_ns: 0, cut_ns: CUT_NS };
        let config = LaneConfig { clock, limits: Limits::default(), silent_ns: u64::MAX / 2, admitted: false };
        let directory = Arc::new(Directory::default());
        let fanout = FanoutConfig {
            generation: 1,
            phases: CUTS_PER_FRAME,
            frame_ms: 40,
            heartbeat_ms: 1_000,
            subscriptions_max: 64,
            simulated: true,
        };
        Self {
            lane: Lane::new(config),
            hub: Hub::new(HubConfig { workers: 1, clock, cuts_per_frame: CUTS_PER_FRAME, idle_frames: true }),
            fanout: Fanout::new(fanout, Arc::clone(&directory)),
            directory,
            cut: 0,
            ids: [100; SYMBOLS.len()],
            listed: 0,
            terminals: Vec::new(),
            next_connection: 1,
        }
    }

    fn now_ns(&self) -> u64 {
        self.cut * CUT_NS + 1
    }

    fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    fn list(&mut self) {
        if let Some(symbol) = SYMBOLS.get(self.listed) {
            let instrument = self.directory.intern(Venue::BinanceSpot, symbol, &symbol[..1], "USDT").unwrap();
            let listing = Listing { venue: Venue::BinanceSpot, pair: instrument.pair, epoch: 0, block: 0 };
            self.lane.take(Event::of(instrument.id, LegId(0), self.now_ns(), 0, Body::Listing(listing)));
            self.listed += 1;
            let at = self.listed - 1;
            self.snapshot(at, &[(true, 5, 1), (false, 9, 1)]);
            self.delta(at, &[]);
        }
    }

    fn event(&mut self, at: usize, body: Body) {
        let symbol = market::SymbolId(u32::try_from(at).unwrap());
        self.lane.take(Event::of(symbol, LegId(0), self.now_ns(), 0, body));
    }

    fn delta(&mut self, at: usize, rows: &[(bool, i64, u64)]) {
        if at >= self.listed {
            return;
        }
        self.ids[at] += 1;
        let sequence = Sequence::Venue { first: self.ids[at], last: self.ids[at] };
        self.event(at, Body::Delta(Delta { sequence, scale: SCALE, changes: ticks(rows), window: Window::Whole }));
    }

    fn snapshot(&mut self, at: usize, rows: &[(bool, i64, u64)]) {
        if at >= self.listed {
            return;
        }
        let sequence = Sequence::Venue { first: self.ids[at], last: self.ids[at] };
        let (scale, window) = (SCALE, Window::Whole);
        self.event(at, Body::Snapshot(Snapshot { sequence, scale, ticks: ticks(rows), window }));
    }

    /// Closes the open cut on its way to the terminals.
    fn close(&mut self) {
        let mut out = LaneCut::default();
        self.lane.close(self.cut, true, &mut out, &mut Vec::new());
        self.cut += 1;
        self.hub.take(SinkMessage::Cut(out));
        self.hub.take(SinkMessage::Closed { worker: 0, before: self.cut });
        while let Some(step) = self.hub.step() {
            self.fanout.grow(&mut self.hub);
            if let Some(phase) = step.closing {
                let frame = self.hub.close(phase);
                self.fanout.close(&frame, phase, &self.hub);
            }
        }
    }

    fn connect(&mut self, bounds: RingBounds) {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let outbox = Arc::new(Outbox::new(bounds));
        let mut session = Session::new();
        session.connected(self.now_ms());
        self.fanout.connect(id, Arc::clone(&outbox), self.now_ms());
        self.terminals.push(Terminal { id, session, outbox, shown: BTreeMap::new(), gaps: 0 });
    }

    /// A terminal breaks off and comes back; what it shows stays.
    fn reconnect(&mut self, at: usize) {
        let now_ms = self.now_ms();
        let Some(terminal) = self.terminals.get_mut(at) else { return };
        self.fanout.teardown(terminal.id, &mut self.hub);
        terminal.session.disconnected();
        terminal.id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        terminal.outbox = Arc::new(Outbox::new(RingBounds { frames: 4, bytes: 4_096, age_ms: 1_000 }));
        terminal.session.connected(now_ms);
        self.fanout.connect(terminal.id, Arc::clone(&terminal.outbox), now_ms);
    }

    /// A terminal reads up to that many messages and sends what it wants to.
    fn read(&mut self, at: usize, messages: usize) {
        let now_ms = self.now_ms();
        let Some(terminal) = self.terminals.get_mut(at) else { return };
        for _ in 0..messages {
            let Next::Send(bytes) = terminal.outbox.next() else { break };
            let message = ToTerminal::decode(&bytes).expect("the server sends what decodes");
            for notice in terminal.session.receive(message, now_ms).expect("the server keeps the protocol") {
                terminal.note(notice);
            }
        }
        while let Some(request) = terminal.session.next_outgoing() {
            self.fanout.request(terminal.id, request, &mut self.hub);
        }
    }
}

impl Terminal {
    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::BookChanged { instrument, version } => {
                let before = self.shown.insert(instrument.to_string(), version);
                assert!(before.is_none_or(|before| before <= version), "{instrument}: {before:?} then {version}");
            }
            Notice::Gap { .. } => self.gaps += 1,
            Notice::Refused { code, .. } => panic!("refused: {code:?}"),
            Notice::RegressionRefused { instrument, .. } => panic!("{instrument}: the server went backwards"),
            _ => {}
        }
    }
}

fn ticks(rows: &[(bool, i64, u64)]) -> Vec<TickChange> {
    let side = |bid: bool| if bid { Side::Bid } else { Side::Ask };
    rows.iter().map(|(bid, price, quantity)| TickChange::at(side(*bid), *price, U256::from(*quantity))).collect()
}

#[derive(Clone, Debug)]
enum Step {
    List,
    Delta(usize, Vec<(bool, i64, u64)>),
    Snapshot(usize, Vec<(bool, i64, u64)>),
    Close(u64),
    Connect,
    Reconnect(usize),
    Subscribe(usize, Channel, &'static str),
    Unsubscribe(usize, Channel, &'static str),
    Read(usize, usize),
}

fn rows() -> impl Strategy<Value = Vec<(bool, i64, u64)>> {
    prop::collection::vec((any::<bool>(), 0_i64..14, 0_u64..3), 0..5)
}

fn step() -> impl Strategy<Value = Step> {
    let (symbol, terminal) = (0..SYMBOLS.len(), 0_usize..4);
    let channel = prop::sample::select(vec![Channel::Book, Channel::Quote, Channel::Trades, Channel::Best]);
    let pattern = prop::sample::select(vec!["*", "binance_spot/AUSDT", "binance_spot/[BC]*", "none"]);
    prop_oneof![
        1 => Just(Step::List),
        8 => (symbol.clone(), rows()).prop_map(|(at, rows)| Step::Delta(at, rows)),
        1 => (symbol, rows()).prop_map(|(at, rows)| Step::Snapshot(at, rows)),
        8 => (1_u64..25).prop_map(Step::Close),
        1 => Just(Step::Connect),
        1 => terminal.clone().prop_map(Step::Reconnect),
        2 => (terminal.clone(), channel.clone(), pattern.clone()).prop_map(|(at, channel, text)| Step::Subscribe(at, channel, text)),
        1 => (terminal.clone(), channel, pattern).prop_map(|(at, channel, text)| Step::Unsubscribe(at, channel, text)),
        6 => (terminal, 0_usize..8).prop_map(|(at, messages)| Step::Read(at, messages)),
    ]
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::List => self.list(),
            Step::Delta(at, rows) => self.delta(at, &rows),
            Step::Snapshot(at, rows) => self.snapshot(at, &rows),
            Step::Close(cuts) => (0..cuts).for_each(|_| self.close()),
            Step::Connect if self.terminals.len() < 4 => {
                self.connect(RingBounds { frames: 3, bytes: 600, age_ms: 200 });
            }
            Step::Connect => {}
            Step::Reconnect(at) => self.reconnect(at),
            Step::Subscribe(at, channel, pattern) => {
                if let Some(terminal) = self.terminals.get_mut(at) {
                    let item = SubscriptionItem { channel, pattern: pattern.into() };
                    terminal.session.subscribe(&[item]).unwrap();
                }
            }
            Step::Unsubscribe(at, channel, pattern) => {
                if let Some(terminal) = self.terminals.get_mut(at) {
                    terminal.session.unsubscribe(&[SubscriptionItem { channel, pattern: pattern.into() }]);
                }
            }
            Step::Read(at, messages) => self.read(at, messages),
        }
    }

    /// Everybody reads everything, over some frames.
    fn settle(&mut self) {
        for _ in 0..20 {
            (0..CUTS_PER_FRAME).for_each(|_| self.close());
            (0..self.terminals.len()).for_each(|at| self.read(at, usize::MAX));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("SPRAG_FULL").is_some() { 5_000 } else { 250 }))]
    #[test]
    fn every_terminal_ends_with_the_hubs_books_and_saw_none_go_back(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        world.list();
        world.connect(RingBounds { frames: 64, bytes: 1 << 20, age_ms: 10_000 });
        let item = SubscriptionItem { channel: Channel::Book, pattern: "*".into() };
        world.terminals[0].session.subscribe(&[item]).unwrap();
        for step in steps {
            world.step(step);
        }
        world.settle();
        for terminal in &world.terminals {
            let wants: Vec<_> = terminal.session.subscriptions().filter(|item| item.channel == Channel::Book).collect();
            for (at, symbol) in SYMBOLS.iter().enumerate().take(world.listed) {
                let name = format!("binance_spot/{symbol}");
                let matches = |item: &&SubscriptionItem| {
                    &*item.pattern == "*" || *item.pattern == *name || (&*item.pattern == "binance_spot/[BC]*" && (1..3).contains(&at))
                };
                if !wants.iter().any(matches) {
                    continue;
                }
                let book = terminal.session.book(&name);
                let right = world.hub.instrument(market::SymbolId(u32::try_from(at).unwrap())).unwrap();
                prop_assert!(book.is_some(), "{} has no book", name);
                let book = book.unwrap();
                prop_assert_eq!(Some(book.version()), right.version(), "{}", name);
                for side in Side::BOTH {
                    prop_assert_eq!(book.levels(side).collect::<Vec<_>>(), right.levels(side).collect::<Vec<_>>());
                }
            }
            let counters = terminal.session.counters();
            prop_assert_eq!(counters.regressions_refused, 0);
            prop_assert_eq!(counters.deltas_refused, 0, "a delta was sent over a base that the terminal does not hold");
        }
        prop_assert!(world.fanout.is_consistent());
        prop_assert_eq!(world.fanout.counts().unencodable, 0);
        // Teardown is idempotent and leaves nothing behind.
        let ids: Vec<_> = world.terminals.iter().map(|terminal| terminal.id).collect();
        for id in ids.iter().chain(&ids) {
            world.fanout.teardown(*id, &mut world.hub);
        }
        prop_assert_eq!(world.fanout.sizes(), (0, 0, 0));
    }
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
    (0..CUTS_PER_FRAME).for_each(|_| world.close());
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
    (0..CUTS_PER_FRAME).for_each(|_| world.close());
    let Next::Send(on_its_way) = world.terminals[0].outbox.next() else { panic!("nothing to send") };
    for quantity in 1..40 {
        world.delta(0, &[(true, 6, quantity % 3)]);
        (0..CUTS_PER_FRAME).for_each(|_| world.close());
    }
    assert_eq!((world.fanout.counts().gaps, world.terminals[0].gaps), (1, 0));
    let (message, now_ms) = (ToTerminal::decode(&on_its_way).unwrap(), world.now_ms());
    world.terminals[0].session.receive(message, now_ms).unwrap();
    world.settle();
    assert_eq!(world.terminals[0].gaps, 1);
    let right = world.hub.instrument(market::SymbolId(0)).unwrap().version();
    assert_eq!(world.terminals[0].session.book("binance_spot/AUSDT").map(receiver::Book::version), right);
}
