//! A lane, the hub, the fan-out and some terminals, in cut time.
//!
//! Never: a socket; a terminal that shows less than it did and is not found out.

use dataflow::{
    clock::CutClock,
    cut::LaneCut,
    lane::{Lane, LaneConfig},
    sink::SinkMessage,
};
use market::{
    Body, Delta, Directory, Event, LegId, Listing, Scale, Sequence, Side, Snapshot, TickChange, U256, Venue, Version,
    Views, Window, guard::Limits,
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
use wire::{Channel, ErrorCode, SubscriptionItem, ToTerminal};

pub(crate) const CUT_NS: u64 = 4_000_000;
pub(crate) const CUTS_PER_FRAME: u64 = 10;
pub(crate) const SYMBOLS: [&str; 4] = ["AUSDT", "BUSDT", "CUSDT", "DUSDT"];
pub(crate) const SCALE: Scale = Scale { price: -2, quantity: -2 };

/// A terminal whose socket is the test's own.
pub(crate) struct Terminal {
    pub(crate) id: ConnectionId,
    pub(crate) session: Session,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) shown: BTreeMap<String, Version>,
    pub(crate) gaps: Vec<(Channel, String)>,
    pub(crate) refused: Vec<(ErrorCode, String)>,
    /// The server never offers it less than it shows.
    pub(crate) strict: bool,
}

/// Everything between a lane's input and what terminals show.
pub(crate) struct World {
    pub(crate) directory: Arc<Directory>,
    pub(crate) lane: Lane,
    pub(crate) hub: Hub,
    pub(crate) fanout: Fanout,
    pub(crate) cut: u64,
    pub(crate) ids: [u64; SYMBOLS.len()],
    pub(crate) listed: usize,
    pub(crate) terminals: Vec<Terminal>,
    next_connection: u64,
    /// How long the cuts have stood still, milliseconds.
    pub(crate) standstill_ms: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A world whose fan-out is set up otherwise.
    pub(crate) fn with(set: impl FnOnce(&mut FanoutConfig)) -> Self {
        Self::made(u64::MAX / 2, set)
    }

    /// A world in which a leg that says nothing for so many milliseconds is silent.
    pub(crate) fn with_silence(silent_ms: u64) -> Self {
        Self::made(silent_ms * 1_000_000, |_| {})
    }

    fn made(silent_ns: u64, set: impl FnOnce(&mut FanoutConfig)) -> Self {
        let clock = CutClock { origin_ns: 0, cut_ns: CUT_NS };
        let config = LaneConfig { clock, limits: Limits::default(), silent_ns, silent_intervals: 0, admitted: false };
        let directory = Arc::new(Directory::default());
        let mut fanout = FanoutConfig {
            generation: 1,
            phases: CUTS_PER_FRAME,
            frame_ms: 40,
            heartbeat_ms: 1_000,
            subscriptions_max: 64,
            digest_ms: 10_000,
            message_bytes_max: wire::bounds::MESSAGE_BYTES_MAX,
            simulated: true,
        };
        set(&mut fanout);
        let fanout = Fanout::new(fanout, Arc::clone(&directory));
        Self {
            lane: Lane::new(config).with_priority(fanout.board()),
            hub: Hub::new(HubConfig { workers: 1, clock, cuts_per_frame: CUTS_PER_FRAME, idle_frames: true }),
            fanout,
            directory,
            cut: 0,
            ids: [100; SYMBOLS.len()],
            listed: 0,
            terminals: Vec::new(),
            next_connection: 1,
            standstill_ms: 0,
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.cut * CUT_NS + 1
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000 + self.standstill_ms
    }

    pub(crate) fn list(&mut self) {
        if let Some(symbol) = SYMBOLS.get(self.listed) {
            let instrument = self.directory.intern(Venue::BinanceSpot, symbol, &symbol[..1], "USDT").unwrap();
            let listing =
                Listing { venue: Venue::BinanceSpot, pair: instrument.pair, epoch: 0, block: 0, views: Views::NONE };
            self.lane.take(Event::of(instrument.id, LegId(0), self.now_ns(), 0, Body::Listing(listing)));
            self.listed += 1;
            let at = self.listed - 1;
            self.snapshot(at, &[(true, 5, 1), (false, 9, 1)]);
            self.delta(at, &[]);
        }
    }

    pub(crate) fn event(&mut self, at: usize, body: Body) {
        let symbol = market::SymbolId(u32::try_from(at).unwrap());
        self.lane.take(Event::of(symbol, LegId(0), self.now_ns(), 0, body));
    }

    pub(crate) fn delta(&mut self, at: usize, rows: &[(bool, i64, u64)]) {
        if at >= self.listed {
            return;
        }
        self.ids[at] += 1;
        let sequence = Sequence::Venue { first: self.ids[at], last: self.ids[at] };
        self.event(
            at,
            Body::Delta(Delta {
                sequence,
                scale: SCALE,
                changes: ticks(rows),
                window: Window::Whole,
                places: Vec::new(),
            }),
        );
    }

    pub(crate) fn snapshot(&mut self, at: usize, rows: &[(bool, i64, u64)]) {
        if at >= self.listed {
            return;
        }
        let sequence = Sequence::Venue { first: self.ids[at], last: self.ids[at] };
        let (scale, window) = (SCALE, Window::Whole);
        self.event(at, Body::Snapshot(Snapshot { sequence, scale, ticks: ticks(rows), window }));
    }

    /// Sends what the lane tells ahead of its cut.
    pub(crate) fn ahead(&mut self) {
        let mut told = Vec::new();
        self.lane.tell_ahead(&mut told);
        let now_ms = self.now_ms();
        self.fanout.priority(&told, now_ms);
        self.tend();
    }

    /// Closes the open cut on its way to the terminals; what is told ahead of it goes first.
    pub(crate) fn close(&mut self) {
        let mut out = LaneCut::default();
        self.lane.close(self.cut, true, &mut out, &mut Vec::new());
        self.ahead();
        self.close_with(out);
    }

    /// Closes the open cut with what a lane made of it.
    pub(crate) fn close_with(&mut self, out: LaneCut) {
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
        self.tend();
    }

    /// Closes a frame's worth of cuts.
    pub(crate) fn frame(&mut self) {
        (0..CUTS_PER_FRAME).for_each(|_| self.close());
    }

    /// What the tape does again and again, whether the cuts go on or not.
    pub(crate) fn tend(&mut self) {
        let now_ms = self.now_ms();
        self.fanout.tend(now_ms, &mut self.hub);
    }

    pub(crate) fn connect(&mut self, bounds: RingBounds) -> usize {
        self.connect_to(Outbox::new(bounds))
    }

    pub(crate) fn connect_to(&mut self, outbox: Outbox) -> usize {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let outbox = Arc::new(outbox);
        let mut session = Session::new();
        session.connected(self.now_ms());
        self.fanout.connect(id, Arc::clone(&outbox), self.now_ms());
        self.terminals.push(Terminal {
            id,
            session,
            outbox,
            shown: BTreeMap::new(),
            gaps: Vec::new(),
            refused: Vec::new(),
            strict: true,
        });
        self.terminals.len() - 1
    }

    /// A terminal asks for a channel of what matches.
    pub(crate) fn subscribe(&mut self, at: usize, channel: Channel, pattern: &str) {
        let item = SubscriptionItem { channel, pattern: pattern.into() };
        self.terminals[at].session.subscribe(&[item]).unwrap();
    }

    /// A terminal breaks off and comes back; what it shows stays.
    pub(crate) fn reconnect(&mut self, at: usize) {
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
    pub(crate) fn read(&mut self, at: usize, messages: usize) {
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

impl World {
    /// The version that a terminal shows of an instrument.
    pub(crate) fn shown(&self, terminal: usize, at: usize) -> Option<Version> {
        let name = format!("binance_spot/{}", SYMBOLS[at]);
        self.terminals[terminal].session.book(&name).map(receiver::Book::version)
    }

    /// Whether a terminal shows an instrument exactly as the hub has it.
    pub(crate) fn is_shown(&self, terminal: usize, at: usize) -> bool {
        let name = format!("binance_spot/{}", SYMBOLS[at]);
        let right = self.hub.instrument(market::SymbolId(u32::try_from(at).unwrap()));
        let (Some(book), Some(right)) = (self.terminals[terminal].session.book(&name), right) else { return false };
        let same = |side| book.levels(side).eq(right.levels(side));
        Some(book.version()) == right.version() && Side::BOTH.into_iter().all(same)
    }

    /// Everybody reads everything, over some frames.
    pub(crate) fn settle(&mut self) {
        for _ in 0..20 {
            self.frame();
            (0..self.terminals.len()).for_each(|at| self.read(at, usize::MAX));
        }
    }
}

impl Terminal {
    pub(crate) fn note(&mut self, notice: Notice) {
        match notice {
            Notice::BookChanged { instrument, version } => {
                let before = self.shown.insert(instrument.to_string(), version);
                assert!(before.is_none_or(|before| before <= version), "{instrument}: {before:?} then {version}");
            }
            Notice::Gap { channel, name } => self.gaps.push((channel, name.to_string())),
            Notice::Refused { code, text, .. } => self.refused.push((code, text.to_string())),
            Notice::RegressionRefused { instrument, .. } if self.strict => panic!("{instrument}: the server went back"),
            _ => {}
        }
    }
}

pub(crate) fn ticks(rows: &[(bool, i64, u64)]) -> Vec<TickChange> {
    let side = |bid: bool| if bid { Side::Bid } else { Side::Ask };
    rows.iter().map(|(bid, price, quantity)| TickChange::at(side(*bid), *price, U256::from(*quantity))).collect()
}

/// Levels of an event: bid or ask, price, quantity.
pub(crate) fn rows() -> impl Strategy<Value = Vec<(bool, i64, u64)>> {
    prop::collection::vec((any::<bool>(), 0_i64..14, 0_u64..3), 0..5)
}
