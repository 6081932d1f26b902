//! A lane in a few lines: books by the plainest means, net cuts, and what is wanted ahead of its cut.
//!
//! Never: a guard; its events come in order.

use crate::world::{SCALE, SYMBOLS, World};
use dataflow::cut::{BookCut, InstrumentCut, LaneCut, PriorityUpdate};
use market::{Feed, FeedState, Flags, Level, LevelChange, Side, SymbolId, U256, Venue, Version};
use std::collections::{BTreeMap, BTreeSet};

type Levels = BTreeMap<(Side, i64), U256>;

#[derive(Clone)]
struct Instrument {
    version: Version,
    levels: Levels,
    feed: Feed,
    received_ns: u64,
    /// As of the last cut.
    closed: Option<(Version, Levels, Feed)>,
    /// The wish that the last priority update answered, and its version.
    told: (u32, Version),
}

/// All books of a lane.
#[derive(Default)]
pub(crate) struct Model {
    instruments: Vec<Instrument>,
    ahead: Vec<PriorityUpdate>,
}

pub(crate) fn symbol(at: usize) -> SymbolId {
    SymbolId(u32::try_from(at).unwrap())
}

pub(crate) fn name(at: usize) -> String {
    format!("binance_spot/{}", SYMBOLS[at])
}

pub(crate) fn live() -> Feed {
    Feed { state: FeedState::Live, flags: Flags::default() }
}

fn side_of(bid: bool) -> Side {
    if bid { Side::Bid } else { Side::Ask }
}

impl Model {
    /// Lists instruments, each with a book of two levels.
    pub(crate) fn list(&mut self, world: &mut World, count: usize) {
        for text in &SYMBOLS[world.listed..world.listed + count] {
            world.directory.intern(Venue::BinanceSpot, text, &text[..1], "USDT").unwrap();
            world.listed += 1;
            let levels = [((Side::Bid, 5), U256::ONE), ((Side::Ask, 9), U256::ONE)].into_iter().collect();
            let (version, told) = (Version::new(1, 100), (0, Version::default()));
            let received_ns = world.now_ns();
            self.instruments.push(Instrument { version, levels, feed: live(), received_ns, closed: None, told });
        }
        self.close(world);
    }

    pub(crate) fn version(&self, at: usize) -> Version {
        self.instruments[at].version
    }

    pub(crate) fn levels(&self, at: usize, side: Side) -> Vec<Level> {
        levels_of(&self.instruments[at].levels, side)
    }

    pub(crate) fn set_feed(&mut self, at: usize, state: FeedState) {
        self.instruments[at].feed.state = state;
    }

    /// One event of an instrument; it goes ahead with the next [`Model::send`] if it is wanted so.
    pub(crate) fn event(&mut self, world: &World, at: usize, rows: &[(bool, i64, u64)]) {
        let instrument = &mut self.instruments[at];
        instrument.version.seq += 1;
        instrument.received_ns = world.now_ns();
        for (bid, price, quantity) in rows {
            let level = (side_of(*bid), *price);
            match quantity {
                0 => instrument.levels.remove(&level),
                quantity => instrument.levels.insert(level, U256::from(*quantity)),
            };
        }
        let mark = world.fanout.board().mark(symbol(at));
        if mark & 1 == 0 {
            return;
        }
        let book = if instrument.told.0 == mark {
            let keys: BTreeSet<_> = rows.iter().map(|(bid, price, _)| (side_of(*bid), *price)).collect();
            let now = |(side, tick_index): (Side, i64)| {
                let quantity = instrument.levels.get(&(side, tick_index)).copied().unwrap_or_default();
                LevelChange { side, level: Level { tick_index, quantity } }
            };
            BookCut::Delta { base: instrument.told.1, changes: keys.into_iter().map(now).collect() }
        } else {
            whole(&instrument.levels)
        };
        instrument.told = (mark, instrument.version);
        self.ahead.push(PriorityUpdate {
            symbol: symbol(at),
            version: instrument.version,
            received_ns: instrument.received_ns,
            scale: SCALE,
            feed: instrument.feed,
            book,
        });
    }

    /// Loses what would go ahead next, as no lane does.
    pub(crate) fn lose(&mut self) {
        self.ahead.clear();
    }

    /// Sends what goes ahead.
    pub(crate) fn send(&mut self, world: &mut World) {
        let now_ms = world.now_ms();
        world.fanout.priority(&std::mem::take(&mut self.ahead), now_ms);
        world.tend();
    }

    /// Closes the open cut; what goes ahead of it goes first.
    pub(crate) fn close(&mut self, world: &mut World) {
        self.send(world);
        let cuts = self.instruments.iter_mut().enumerate().filter_map(|(at, instrument)| instrument.close(symbol(at)));
        let out = LaneCut { cut: world.cut, instruments: cuts.collect(), ..LaneCut::default() };
        world.close_with(out);
    }

    /// Closes a frame's worth of cuts.
    pub(crate) fn frame(&mut self, world: &mut World) {
        (0..crate::world::CUTS_PER_FRAME).for_each(|_| self.close(world));
    }

    /// Everybody reads everything, over some frames.
    pub(crate) fn settle(&mut self, world: &mut World) {
        for _ in 0..20 {
            self.frame(world);
            (0..world.terminals.len()).for_each(|at| world.read(at, usize::MAX));
            world.tend();
        }
    }

    /// Whether a terminal shows an instrument exactly as it is.
    pub(crate) fn is_shown(&self, world: &World, terminal: usize, at: usize) -> bool {
        let Some(book) = world.terminals[terminal].session.book(&name(at)) else { return false };
        let same = |side| book.levels(side).collect::<Vec<_>>() == self.levels(at, side);
        book.version() == self.version(at) && Side::BOTH.into_iter().all(same)
    }
}

impl Instrument {
    fn close(&mut self, symbol: SymbolId) -> Option<InstrumentCut> {
        let now = (self.version, self.levels.clone(), self.feed);
        if self.closed.as_ref() == Some(&now) {
            return None;
        }
        let before = self.closed.replace(now);
        let book = match &before {
            None => whole(&self.levels),
            Some((base, _, _)) if *base == self.version => BookCut::Unchanged,
            Some((base, levels, _)) => BookCut::Delta { base: *base, changes: net(levels, &self.levels) },
        };
        let feed = before.is_none_or(|(_, _, feed)| feed != self.feed).then_some(self.feed);
        Some(InstrumentCut {
            symbol,
            version: Some(self.version),
            received_ns: self.received_ns,
            scale: SCALE,
            book,
            quote: None,
            feed,
            trades: Vec::new(),
            admitted: Vec::new(),
            admitted_trades: Vec::new(),
        })
    }
}

fn levels_of(levels: &Levels, side: Side) -> Vec<Level> {
    let of_side = levels.iter().filter(|((held, _), _)| *held == side);
    let mut levels: Vec<_> =
        of_side.map(|((_, price), quantity)| Level { tick_index: *price, quantity: *quantity }).collect();
    levels.sort_by_key(|level| std::cmp::Reverse(side.rank(level.tick_index)));
    levels
}

fn whole(levels: &Levels) -> BookCut {
    let [bids, asks] = Side::BOTH.map(|side| levels_of(levels, side));
    BookCut::Snapshot { bids, asks, horizon: [None, None] }
}

fn net(before: &Levels, after: &Levels) -> Vec<LevelChange> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let changed = keys.into_iter().filter(|key| before.get(key) != after.get(key));
    let change = |(side, tick_index)| {
        let quantity = after.get(&(side, tick_index)).copied().unwrap_or_default();
        LevelChange { side, level: Level { tick_index, quantity } }
    };
    changed.map(change).collect()
}
