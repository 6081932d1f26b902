//! Two servers of the same instruments, one or the other behind: whichever a terminal turns to and whenever, its shown
//! version never decreases, no version is shown with two books, and it ends at the newest.
//!
//! Never: servers that agree on numbers; each has its own generation and dictionary.

use market::{Feed, Level, LevelChange, Scale, Side, U256, Venue, Version};
use proptest::{collection::vec, prelude::*, sample::select};
use receiver::Session;
use std::collections::BTreeMap;
use wire::{
    Block, BookDelta, BookSnapshot, ChainKind, Channel, Dictionary, DictionaryInstrument, Frame, Gap, Hello,
    SubscriptionItem, ToServer, ToTerminal,
};

const NAMES: [&str; 2] = ["kraken_spot/BTC/USD", "kraken_spot/ETH/USD"];
const SYMBOLS: [&str; 2] = ["BTC/USD", "ETH/USD"];
const SCALE: Scale = Scale { price: 0, quantity: 0 };

/// A book of one level that says its version, an epoch bump every 16 steps.
fn version(step: u64) -> Version {
    let epoch = step / 16;
    Version::new(1 + epoch, if epoch.is_multiple_of(2) { 1_000 + step } else { step })
}

fn quantity(instrument: usize, step: u64) -> U256 {
    U256::from(step + 1) * U256::from(instrument + 1)
}

/// A server as a terminal sees it.
#[derive(Debug)]
struct Server {
    generation: u64,
    /// Its numbers of the instruments.
    ids: [u32; 2],
    /// How far its books are.
    steps: [u64; 2],
    /// Where the chains of the present connection are.
    sent: [[Option<u64>; 2]; 2],
}

impl Server {
    fn new(generation: u64, ids: [u32; 2]) -> Self {
        Self { generation, ids, steps: [0; 2], sent: [[None; 2]; 2] }
    }

    fn welcome(&mut self, session: &mut Session, now_ms: u64) {
        self.sent = [[None; 2]; 2];
        session.connected(now_ms);
        let hello = Hello {
            wire_version: 1,
            generation: self.generation,
            build: "".into(),
            frame_ms: 40,
            heartbeat_ms: 1_000,
            simulated: true,
        };
        let first = self.ids.iter().copied().min().unwrap_or(0);
        let mut instruments: Vec<_> = self
            .ids
            .iter()
            .zip(SYMBOLS)
            .map(|(id, symbol)| DictionaryInstrument {
                id: *id,
                venue: Venue::KrakenSpot,
                symbol: symbol.into(),
                asset_0: "A".into(),
                asset_1: "USD".into(),
                pair: 0,
            })
            .collect();
        instruments.sort_by_key(|entry| entry.id);
        assert_eq!(instruments.first().map(|entry| entry.id), Some(first));
        let dictionary = Dictionary { generation: self.generation, instruments, pairs: vec![] };
        for message in [ToTerminal::Hello(hello), ToTerminal::Dictionary(dictionary)] {
            assert!(session.receive(message, now_ms).is_ok());
        }
        let Some(ToServer::Subscribe(request)) = session.next_outgoing() else { panic!("the set is not replayed") };
        assert_eq!(request.items.len(), 2, "the whole set, once");
        assert_eq!(session.next_outgoing(), None);
    }

    /// What it sends next on a chain: a snapshot if the chain has none, else the delta to where it is.
    fn block(&mut self, kind: ChainKind, instrument: usize) -> Option<Block> {
        let (id, step) = (self.ids[instrument], self.steps[instrument]);
        let sent = &mut self.sent[usize::from(kind == ChainKind::Priority)][instrument];
        let level = |step| Level { tick_index: 100, quantity: quantity(instrument, step) };
        let block = match *sent {
            None => Block::BookSnapshot(BookSnapshot {
                id,
                version: version(step),
                scale: SCALE,
                feed: Feed::default(),
                age_ms: 0,
                horizon: [None, None],
                bids: vec![level(step)],
                asks: vec![],
            }),
            Some(before) if before == step => return None,
            Some(before) => Block::BookDelta(BookDelta {
                id,
                base: version(before),
                version: version(step),
                feed: Feed::default(),
                changes: vec![LevelChange { side: Side::Bid, level: level(step) }],
            }),
        };
        *sent = Some(step);
        Some(block)
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// A server's book goes on.
    Advance { server: usize, instrument: usize, steps: u64 },
    /// The present server sends what it has on a chain.
    Send { kind: ChainKind, instrument: usize },
    /// What it sent last is lost on the way, and it says so.
    Lose { kind: ChainKind, instrument: usize },
    /// The connection breaks.
    Break,
    /// The terminal turns to a server.
    Turn(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let kind = || select(vec![ChainKind::Conflated, ChainKind::Priority]);
    prop_oneof![
        6 => (0..2_usize, 0..2_usize, 1..6_u64)
            .prop_map(|(server, instrument, steps)| Act::Advance { server, instrument, steps }),
        8 => (kind(), 0..2_usize).prop_map(|(kind, instrument)| Act::Send { kind, instrument }),
        1 => (kind(), 0..2_usize).prop_map(|(kind, instrument)| Act::Lose { kind, instrument }),
        1 => Just(Act::Break),
        3 => (0..2_usize).prop_map(Act::Turn),
    ]
}

struct Stage {
    session: Session,
    servers: [Server; 2],
    /// The server that the terminal is connected to.
    at: Option<usize>,
    now_ms: u64,
    shown: [Option<Version>; 2],
    books: BTreeMap<(usize, Version), Vec<Level>>,
}

impl Stage {
    fn new() -> Self {
        let mut session = Session::new();
        let item = |channel| SubscriptionItem { channel, pattern: "*".into() };
        assert!(session.subscribe(&[item(Channel::Book), item(Channel::Priority)]).is_ok());
        Self {
            session,
            servers: [Server::new(7, [0, 1]), Server::new(8, [4, 3])],
            at: None,
            now_ms: 1,
            shown: [None; 2],
            books: BTreeMap::new(),
        }
    }

    fn perform(&mut self, act: &Act) {
        match *act {
            Act::Advance { server, instrument, steps } => self.servers[server].steps[instrument] += steps,
            Act::Send { kind, instrument } => {
                let Some(server) = self.at else { return };
                let Some(block) = self.servers[server].block(kind, instrument) else { return };
                let frame = Frame { chain: kind, frame: 0, at_ms: 0, blocks: vec![block] };
                assert!(self.session.receive(ToTerminal::Frame(frame), self.now_ms).is_ok());
            }
            Act::Lose { kind, instrument } => {
                let Some(server) = self.at else { return };
                let server = &mut self.servers[server];
                server.sent[usize::from(kind == ChainKind::Priority)][instrument] = None;
                let channel = if kind == ChainKind::Priority { Channel::Priority } else { Channel::Book };
                let gap = ToTerminal::Gap(Gap { entries: vec![(channel, server.ids[instrument])] });
                assert!(self.session.receive(gap, self.now_ms).is_ok());
            }
            Act::Break => {
                self.at = None;
                self.session.disconnected();
            }
            Act::Turn(server) => {
                self.now_ms += 1;
                self.at = Some(server);
                self.servers[server].welcome(&mut self.session, self.now_ms);
            }
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for (instrument, name) in NAMES.into_iter().enumerate() {
            let Some(book) = self.session.book(name) else {
                prop_assert!(self.shown[instrument].is_none(), "the shown book of {name} vanished");
                continue;
            };
            let now = book.version();
            prop_assert!(self.shown[instrument].is_none_or(|before| before <= now), "{name} went back to {now:?}");
            self.shown[instrument] = Some(now);
            let levels: Vec<Level> = book.levels(Side::Bid).collect();
            let first = self.books.entry((instrument, now)).or_insert_with(|| levels.clone());
            prop_assert_eq!(&*first, &levels, "{} has two books at {:?}", name, now);
        }
        prop_assert_eq!(self.session.counters().deltas_refused, 0);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whichever_server_a_terminal_turns_to_it_never_goes_back_and_ends_at_the_newest(acts in vec(act(), 1..120)) {
        let mut stage = Stage::new();
        for act in &acts {
            stage.perform(act);
            stage.check()?;
        }
        // In the end both have everything, and the terminal is at either.
        let newest = [0, 1].map(|at| stage.servers[0].steps[at].max(stage.servers[1].steps[at]));
        stage.servers.iter_mut().for_each(|server| server.steps = newest);
        let last = stage.at.unwrap_or(acts.len() % 2);
        stage.perform(&Act::Turn(last));
        for instrument in 0..2 {
            stage.perform(&Act::Send { kind: ChainKind::Conflated, instrument });
        }
        stage.check()?;
        for (instrument, name) in NAMES.into_iter().enumerate() {
            let book = stage.session.book(name);
            prop_assert_eq!(book.map(receiver::Book::version), Some(version(newest[instrument])));
            let view = stage.session.view(name, stage.now_ms);
            prop_assert!(view.is_some_and(|view| !view.catching_up));
        }
    }
}
