//! Random terminals against random markets.
//!
//! Never: a terminal that is told from the others by how it ends.

use crate::world::{SYMBOLS, World, rows};
use market::Side;
use proptest::prelude::*;
use server::fanout::outbox::RingBounds;
use wire::{Channel, SubscriptionItem};

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

fn step() -> impl Strategy<Value = Step> {
    let (symbol, terminal) = (0..SYMBOLS.len(), 0_usize..4);
    let channel = prop::sample::select(vec![
        Channel::Book,
        Channel::Quote,
        Channel::Trades,
        Channel::Best,
        Channel::Status,
        Channel::Digest,
        Channel::View,
    ]);
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("SPRAG_FULL").is_some() { 5_000 } else { 250 }))]
    #[test]
    fn every_terminal_ends_with_the_hubs_books_and_saw_none_go_back(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::with(|config| config.digest_ms = 80);
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
            prop_assert_eq!(counters.digests_failed, 0);
            prop_assert_eq!(&terminal.refused, &[]);
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
