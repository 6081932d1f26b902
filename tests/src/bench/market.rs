//! The events of the measurement: a market of many books whose activity follows Zipf's law, changed mostly near the
//! top. The same seed gives the same events, so that both ways end at the same books.
//!
//! Never: two events of one leg out of order; late ones come on the other leg, as they do in a venue's feed.

use super::unix_ns;
use anyhow::Result;
use market::{
    Body, Delta, Event, LegId, Listing, PairId, Scale, Sequence, Side, Snapshot, SymbolId, TickChange, U256, Venue,
    Views, Window,
};

/// Level rows of an update.
const ROWS: u32 = 5;

/// One level row in so many is a death.
const DEATHS_ONE_IN: u64 = 20;

/// One update in so many is a late copy on the other leg.
const STALE_ONE_IN: u64 = 100;

/// One level row in so many lies anywhere in the book, the others near its top.
const DEEP_ONE_IN: u64 = 16;

/// Mean distance from the top, in levels, of the rows near it.
const DEPTH_MEAN: f64 = 8.0;

/// Entries of the table that turns a random number into an instrument.
const ACTIVITY: u32 = 1 << 18;

/// Entries of the table that turns a random number into a distance from the top.
const DEPTHS: u32 = 1 << 12;

/// Updates that share one receive time.
const SAME_TIME: u64 = 256;

const LEAD: LegId = LegId(0);
const LATE: LegId = LegId(1);
const SCALE: Scale = Scale { price: -2, quantity: -8 };

/// The scale of the last update, finer than any before: it makes the lane publish the whole book.
pub(super) const LAST_SCALE: Scale = Scale { price: -2, quantity: -9 };

/// Update ids of one instrument's stream.
#[derive(Clone, Copy, Default)]
struct Ids {
    lead: u64,
    late: u64,
}

pub(super) struct Market {
    ids: Vec<Ids>,
    /// Levels of each side of a book.
    levels: u32,
    activity: Vec<u32>,
    depths: Vec<u32>,
    random: Random,
    received_ns: u64,
}

/// SplitMix64: fast enough to keep ahead of a lane.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.next().is_multiple_of(many)
    }

    fn pick(&mut self, table: &[u32]) -> u32 {
        let at = usize::try_from(self.next() >> 16).unwrap_or(0).checked_rem(table.len()).unwrap_or(0);
        table.get(at).copied().unwrap_or(0)
    }
}

impl Market {
    pub(super) fn new(instruments: u32, ticks: u32) -> Self {
        let levels = (ticks / 2).max(1);
        Self {
            ids: (0..instruments).map(|_| Ids::default()).collect(),
            levels,
            activity: activity(instruments),
            depths: depths(levels),
            random: Random(42),
            received_ns: unix_ns(),
        }
    }

    /// Each instrument's listing, its snapshot, and the update that bridges it.
    pub(super) fn load(&mut self, mut give: impl FnMut(Event) -> Result<()>) -> Result<()> {
        for symbol in 0..u32::try_from(self.ids.len())? {
            self.received_ns = unix_ns();
            let (venue, pair) = place(symbol);
            give(self.event(
                symbol,
                LEAD,
                Body::Listing(Listing { venue, pair, epoch: 1, block: 1, views: Views::NONE }),
            ))?;
            let levels = self.levels;
            let ticks = Side::BOTH.into_iter().flat_map(|side| (0..levels).map(move |depth| (side, depth)));
            let ticks = ticks.map(|(side, depth)| self.change(symbol, side, depth)).collect();
            let sequence = Sequence::Venue { first: 1_000, last: 1_000 };
            let snapshot = Snapshot { sequence, scale: SCALE, ticks, window: Window::Whole };
            give(self.event(symbol, LEAD, Body::Snapshot(snapshot)))?;
            self.ids(symbol).lead = 1_000;
            give(self.update(symbol))?;
        }
        Ok(())
    }

    /// Updates of any instruments.
    pub(super) fn updates(&mut self, count: u64, mut give: impl FnMut(Event) -> Result<()>) -> Result<()> {
        for number in 0..count {
            if number.is_multiple_of(SAME_TIME) {
                self.received_ns = unix_ns();
            }
            let symbol = self.random.pick(&self.activity);
            let event = if self.random.one_in(STALE_ONE_IN) { self.late(symbol) } else { self.update(symbol) };
            give(event)?;
        }
        Ok(())
    }

    /// An empty update of each instrument in finer steps, so that its whole book is published.
    pub(super) fn finish(&mut self, mut give: impl FnMut(Event) -> Result<()>) -> Result<()> {
        for symbol in 0..u32::try_from(self.ids.len())? {
            self.received_ns = unix_ns();
            let sequence = self.next_sequence(symbol);
            give(self.delta(symbol, LEAD, sequence, LAST_SCALE, Vec::new()))?;
        }
        Ok(())
    }

    fn update(&mut self, symbol: u32) -> Event {
        let sequence = self.next_sequence(symbol);
        let changes = self.changes(symbol);
        self.delta(symbol, LEAD, sequence, SCALE, changes)
    }

    /// A copy that comes late, on a leg that is behind but never goes backwards itself.
    fn late(&mut self, symbol: u32) -> Event {
        let behind = self.random.next() % 64;
        let ids = self.ids(symbol);
        let last = ids.lead.saturating_sub(behind).max(ids.late).max(1_000);
        ids.late = last;
        let changes = self.changes(symbol);
        self.delta(symbol, LATE, Sequence::Venue { first: last, last }, SCALE, changes)
    }

    fn next_sequence(&mut self, symbol: u32) -> Sequence {
        let more = 1 + self.random.next() % 4;
        let ids = self.ids(symbol);
        let first = ids.lead + 1;
        ids.lead += more;
        Sequence::Venue { first, last: ids.lead }
    }

    fn changes(&mut self, symbol: u32) -> Vec<TickChange> {
        (0..ROWS)
            .map(|_| {
                let side = if self.random.one_in(2) { Side::Bid } else { Side::Ask };
                let deep = self.random.one_in(DEEP_ONE_IN);
                let depth = self.random.pick(&self.depths);
                let depth = if deep { (depth * 61) % self.levels } else { depth };
                let alive = self.change(symbol, side, depth);
                if self.random.one_in(DEATHS_ONE_IN) { TickChange { reserves: U256::ZERO, ..alive } } else { alive }
            })
            .collect()
    }

    fn change(&mut self, symbol: u32, side: Side, depth: u32) -> TickChange {
        let mid = 1_000_000 + i64::from(place(symbol).1.0);
        let tick_index = match side {
            Side::Bid => mid - 1 - i64::from(depth),
            Side::Ask => mid + i64::from(depth),
        };
        TickChange::at(side, tick_index, U256::from(1 + (self.random.next() >> 32)))
    }

    fn delta(&self, symbol: u32, leg: LegId, sequence: Sequence, scale: Scale, changes: Vec<TickChange>) -> Event {
        self.event(
            symbol,
            leg,
            Body::Delta(Delta { sequence, scale, changes, window: Window::Whole, places: Vec::new() }),
        )
    }

    fn event(&self, symbol: u32, leg: LegId, body: Body) -> Event {
        Event::of(SymbolId(symbol), leg, self.received_ns, self.received_ns, body)
    }

    #[expect(clippy::indexing_slicing, reason = "symbols are drawn below the number of instruments")]
    fn ids(&mut self, symbol: u32) -> &mut Ids {
        &mut self.ids[symbol as usize]
    }
}

/// The venue and the pair of an instrument: neighbours in rank share a pair, one at each venue.
pub(super) fn place(symbol: u32) -> (Venue, PairId) {
    match symbol % 2 {
        0 => (Venue::BinanceSpot, PairId(symbol / 2)),
        _ => (Venue::KrakenSpot, PairId(symbol / 2)),
    }
}

/// Each instrument as often as Zipf's law with exponent 1 says.
fn activity(instruments: u32) -> Vec<u32> {
    let weight = |rank: u32| 1.0 / f64::from(rank + 1);
    let total: f64 = (0..instruments).map(weight).sum();
    let mut table = Vec::new();
    let mut sum = 0.0;
    for rank in 0..instruments {
        sum += weight(rank);
        while f64::from(u32::try_from(table.len()).unwrap_or(u32::MAX)) < sum / total * f64::from(ACTIVITY) {
            table.push(rank);
        }
    }
    table
}

/// Distances from the top, exponentially distributed.
fn depths(levels: u32) -> Vec<u32> {
    let mut table = Vec::new();
    for depth in 0..levels {
        let below = 1.0 - (-f64::from(depth + 1) / DEPTH_MEAN).exp();
        while f64::from(u32::try_from(table.len()).unwrap_or(u32::MAX)) < below * f64::from(DEPTHS) {
            table.push(depth);
        }
    }
    table
}
