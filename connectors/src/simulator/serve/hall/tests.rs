//! Bitfinex as it is served, heard by its decoder on two legs, message by message: what is shown after each of them.
//!
//! Never: a socket, a clock, or a message that is heard before the one before it was judged.

use super::*;
use crate::{
    bitfinex::feed::Feed,
    simulator::{
        Simulator, SimulatorConfig,
        chance::Chance,
        serve::{
            bus::Subscriptions,
            dialect,
            faults::{Fault, GarbageKind, Rates},
            outbox::Outbox,
        },
    },
    venue_feed::{Arrival, VenueFeed, listings::Listings},
};
use market::{Body, Book as Shown, LegId};
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::Notify;

const VENUE: Venue = Venue::Bitfinex;
/// The busiest pair.
const SYMBOL: &str = "tBTCUST";
const SYMBOLS: [&str; 2] = [SYMBOL, "tETHUST"];
/// Numbers alone.
const SEQUENCE: u64 = 65_536;
/// Numbers and checksums.
const FLAGS: u64 = SEQUENCE + 131_072;
const MS: u64 = 1_000_000;

/// A connection as its decoder hears it.
struct Leg {
    number: u64,
    outbox: Arc<Outbox>,
    /// What was sent and not yet heard.
    wire: VecDeque<Message>,
}

/// The venue, two legs, and what is shown.
struct Stage {
    market: Simulator,
    hall: Hall,
    bus: Bus,
    feed: Feed,
    legs: Vec<Leg>,
    length: usize,
    flags: u64,
    chance: Chance,
    now_ns: u64,
    position: u64,
    shown: BTreeMap<u32, Shown>,
    /// Books that were crossed or locked after a message, which was the last of these.
    crossed: Vec<(String, String)>,
    /// Changes that were shown.
    told: u64,
}

impl Stage {
    fn new(seed: u64, levels: u32, length: usize, flags: u64) -> Self {
        let config = SimulatorConfig { seed, pairs: 2, venues: Vec::new(), book_levels: levels, ..Default::default() };
        let market = Simulator::with_plain(config, &[VENUE]);
        let mut hall = Hall::new(dialect::of(VENUE).unwrap(), market.instruments());
        let mut bus = Bus::new(8 << 20, Arc::new(Notify::new()));
        let mut opening = Vec::new();
        market.plain_opening(&mut opening);
        opening.iter().for_each(|happening| hall.happened(happening, &mut bus));
        let now_ns = market.now_ns();
        let feed = Feed::new(Arc::new(Listings::new(Arc::default())));
        let mut stage = Self {
            market,
            hall,
            bus,
            feed,
            legs: Vec::new(),
            length,
            flags,
            chance: Chance::new(seed),
            now_ns,
            position: 0,
            shown: BTreeMap::new(),
            crossed: Vec::new(),
            told: 0,
        };
        for at in 0..2 {
            let leg = stage.connected();
            stage.legs.push(leg);
            stage.begin(at);
        }
        stage
    }

    fn connected(&mut self) -> Leg {
        let session = self.hall.dialect().open("/ws/2", "").unwrap();
        let (number, outbox) = self.bus.open(VENUE, Subscriptions::Hall(session));
        self.hall.greet(&mut self.bus, number);
        Leg { number, outbox, wire: VecDeque::new() }
    }

    /// What a leg says first.
    fn begin(&mut self, at: usize) {
        self.frame(at, RawKind::Open, RawPayload::Text("".into()));
        let flags = self.flags;
        self.ask(at, &format!("{{\"event\":\"conf\",\"flags\":{flags}}}"));
        SYMBOLS.iter().for_each(|symbol| self.subscribe(at, symbol));
    }

    fn ask(&mut self, at: usize, text: &str) {
        let number = self.legs[at].number;
        self.hall.receive(&mut self.bus, number, text);
    }

    fn subscribe(&mut self, at: usize, symbol: &str) {
        let length = self.length;
        self.ask(
            at,
            &format!("{{\"event\":\"subscribe\",\"channel\":\"book\",\"symbol\":\"{symbol}\",\"len\":{length}}}"),
        );
    }

    /// A leg's connection ends, and is made anew.
    fn reconnect(&mut self, at: usize) {
        self.bus.close(VENUE, self.legs[at].number);
        self.frame(at, RawKind::Close, RawPayload::Text("".into()));
        self.legs[at] = self.connected();
        self.begin(at);
    }

    fn arm(&mut self, fault: Fault) {
        self.bus.faults.arm(fault, 0, None).unwrap();
    }

    /// So many events happen; both legs hear of them, one as far as the other or not.
    fn run(&mut self, events: usize) {
        let mut happened = Vec::new();
        while happened.len() < events {
            self.now_ns += 5 * MS;
            self.market.run(self.now_ns, &mut Vec::new(), &mut happened);
        }
        for happening in happened {
            self.hall.happened(&happening, &mut self.bus);
            let most = self.chance.below(12);
            for _ in 0..most {
                let at = self.chance.index(2);
                self.hear(at);
            }
        }
        while self.hear(0) | self.hear(1) {}
    }

    /// The next message of a leg, if there is one.
    fn hear(&mut self, at: usize) -> bool {
        let leg = &mut self.legs[at];
        if leg.outbox.ending().is_some() {
            self.reconnect(at);
            return true;
        }
        if leg.wire.is_empty() && leg.outbox.bytes() > 0 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            leg.wire.extend(runtime.block_on(leg.outbox.next()).into_iter().flatten());
        }
        let Some(message) = leg.wire.pop_front() else { return false };
        let payload = match message {
            Message::Text(text) => RawPayload::Text(text.as_str().into()),
            Message::Binary(bytes) => RawPayload::Binary(bytes.to_vec()),
            _ => return true,
        };
        let torn = match &payload {
            RawPayload::Text(text) => serde_json::from_str::<serde::de::IgnoredAny>(text).is_err(),
            RawPayload::Binary(_) => true,
        };
        self.frame(at, RawKind::Ws, payload);
        let mut anew = self.feed.reconnects();
        if torn {
            anew.push(LegId(u16::try_from(at).unwrap()));
        }
        for (leg, symbol) in self.feed.repairs() {
            let at = usize::from(leg.0);
            let number = self.legs[at].number;
            let session = session(&mut self.bus, VENUE, number).unwrap();
            if let Some(handle) = session.of(&symbol).first().map(|known| known.handle) {
                self.ask(at, &format!("{{\"event\":\"unsubscribe\",\"chanId\":{handle}}}"));
                self.subscribe(at, &symbol);
            }
        }
        anew.into_iter().for_each(|leg| self.reconnect(usize::from(leg.0)));
        true
    }

    fn frame(&mut self, at: usize, kind: RawKind, raw: RawPayload) {
        self.position += 1;
        let said = format!("{at}: {raw:?}");
        let frame = RawFrame { ts_ns: self.now_ns, kind, conn: at.to_string().into(), url: None, raw };
        let leg = LegId(u16::try_from(at).unwrap());
        let arrival = Arrival { frame: &frame, position: self.position, leg };
        let mut out = Vec::new();
        if self.feed.decode(arrival, &mut out).is_err() {
            self.feed.torn(arrival, &mut out);
        }
        for event in out {
            self.show(&event, &said);
        }
    }

    fn show(&mut self, event: &market::Event, said: &str) {
        let book = self.shown.entry(event.symbol.0).or_default();
        match &event.body {
            Body::Snapshot(snapshot) => book.replace(&snapshot.ticks, snapshot.scale, snapshot.window, &mut Vec::new()),
            Body::Delta(delta) => {
                book.rescale(delta.scale).unwrap();
                for change in &delta.changes {
                    book.apply(*change);
                }
                self.told += 1;
            }
            Body::Broken(_) => *book = Shown::default(),
            _ => return,
        }
        let flags = book.flags();
        if flags.crossed || flags.locked {
            self.crossed.push((format!("{:?}", book.quote()), said.to_owned()));
        }
    }

    /// Nothing was crossed; and once all is well again, what is shown is what the venue has.
    fn assert_right(mut self) {
        let nothing: [(String, String); 0] = [];
        self.bus.faults.clear();
        self.run(200);
        assert_eq!(self.crossed, nothing);
        assert_eq!(self.shown.len(), SYMBOLS.len());
        for (symbol, (_, shown)) in SYMBOLS.iter().zip(&self.shown) {
            let right = self.hall.stock().get(symbol).unwrap().book().unwrap();
            for (side, own) in [(Side::Bid, market::Side::Bid), (Side::Ask, market::Side::Ask)] {
                let wanted: Vec<PriceKey> =
                    right.ladder(side).best_first().take(self.length).map(|level| level.key).collect();
                let price = |level: market::Level| shown.scale().price_text(level.tick_index);
                let known: Vec<PriceKey> =
                    shown.levels(own).map(|level| PriceKey::read(&price(level)).unwrap()).collect();
                assert_eq!(known, wanted, "{symbol} {side:?}");
            }
        }
    }
}

/// Every shape: windows that hold the whole book, and such that levels enter and leave.
const SHAPES: [(u32, usize); 3] = [(40, 100), (60, 25), (120, 100)];

#[test]
fn no_book_is_crossed_between_two_rows() {
    for (levels, length) in SHAPES {
        for seed in 0..4 {
            for flags in [FLAGS, SEQUENCE] {
                let mut stage = Stage::new(seed, levels, length, flags);
                stage.run(2_000);
                assert!(stage.told > 1_500, "{}", stage.told);
                stage.assert_right();
            }
        }
    }
}

fn single_faults() -> Vec<Fault> {
    let (venue, symbol) = (VENUE, || Some(SYMBOL.to_owned()));
    let garbage = |kind| Fault::Garbage { venue, symbol: symbol(), count: 1, connection: None, kind, seed: 3 };
    vec![
        Fault::Duplicate { venue, symbol: symbol(), count: 1, connection: None },
        Fault::Reorder { venue, symbol: symbol(), count: 1, connection: None },
        Fault::DropDepth { venue, symbol: SYMBOL.to_owned(), count: 1, connection: None },
        Fault::CorruptChecksum { venue, symbol: SYMBOL.to_owned(), count: 1, connection: None },
        garbage(GarbageKind::Truncated),
        garbage(GarbageKind::Random),
        garbage(GarbageKind::Binary),
    ]
}

#[test]
fn no_book_is_crossed_by_a_single_fault() {
    for fault in single_faults() {
        for (levels, length) in SHAPES {
            let mut stage = Stage::new(7, levels, length, FLAGS);
            for _ in 0..40 {
                stage.arm(fault.clone());
                stage.run(25);
            }
            stage.assert_right();
        }
    }
}

#[test]
fn no_book_is_crossed_by_all_of_them_at_once() {
    let per_10000 = Rates { drop: 100, duplicate: 100, reorder: 100, garbage: 30, reset: 20 };
    for (levels, length) in SHAPES {
        let mut stage = Stage::new(11, levels, length, FLAGS);
        stage.arm(Fault::Chaos { venue: VENUE, connection: None, seed: 7, per_10000, for_ms: None });
        stage.run(4_000);
        stage.assert_right();
    }
}

#[test]
fn no_book_is_crossed_by_an_old_snapshot() {
    for (levels, length) in SHAPES {
        let mut stage = Stage::new(5, levels, length, FLAGS);
        for _ in 0..100 {
            let symbol = SYMBOL.to_owned();
            stage.arm(Fault::StaleSnapshots { venue: VENUE, symbol, count: 1, updates_ago: Some(2) });
            stage.reconnect(0);
            stage.reconnect(1);
            stage.run(20);
        }
        let failed = stage.feed.counts().checksums_failed;
        assert!(failed >= 50, "its age came to light only {failed} times");
        stage.assert_right();
    }
}
