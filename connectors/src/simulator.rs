//! A market without a market: raw Binance spot and Kraken spot v2 messages for the same pairs, made from one seed, so
//! that a demo or a load test needs neither a network nor a capture. The venues follow one fair price per pair, come in
//! common bursts, and obey their own rules (update id chains, depth windows, checksums).
//!
//! [`VenueSim`] serves it, or a capture, over real sockets.
//!
//! Never: input or output, or a clock, outside of `serve` (`until_ns` is passed in); the decoders or books of the
//! venues' connectors; a float in a price that is sent.

mod binance;
mod book;
mod chance;
mod fair;
mod kraken;
mod pairs;
mod plain;
mod serve;
#[cfg(test)]
mod tests;
mod text;

use crate::raw::{RawFrame, RawKind, RawPayload};
use book::{Book, Shape};
use chance::Chance;
use fair::{Fair, Weather};
use market::Venue;
use pairs::Pair;
pub use serve::{
    Ending, Fault, FaultError, FaultReport, FaultsReport, GarbageKind, Rates, UPDATES_AGO_MAX, VenueSim, VenueSimBook,
    VenueSimConnection, VenueSimError, VenueSimOptions, VenueSimSource, VenueSimState,
};
use std::sync::Arc;

/// The venues that are simulated unless others are named.
pub const SIMULATED: [Venue; 2] = [Venue::BinanceSpot, Venue::KrakenSpot];

/// More pairs than any venue lists; bounds the memory of a configuration mistake (some 10 KB per pair and venue).
const PAIRS_MAX: u32 = 20_000;
/// Least levels of a side; fewer would leave a checksum over ten levels short.
pub const LEVELS_MIN: u32 = 20;
/// Most levels of a side; one and a half of it is below what a Binance REST snapshot holds, which is so always the whole
/// book.
pub const LEVELS_MAX: u32 = 600;
/// The depths that Kraken offers lie between these.
const KRAKEN_DEPTH_MIN: u32 = 10;
/// See [`KRAKEN_DEPTH_MIN`].
const KRAKEN_DEPTH_MAX: u32 = 1_000;
/// Activity of the n-th pair is n to the power of minus this.
const ZIPF: f64 = 0.9;
/// Of 256 events, this many concern the pair of the event before: activity comes in clusters.
const SAME_PAIR_IN_256: u32 = 64;
/// The time of what does not happen.
const NEVER: u64 = u64::MAX;
/// Kraken sends a heartbeat this often.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// Venues differ from the fair price by at most this share.
const BASIS_MAX: f64 = 3e-5;
/// The mean distance of two levels is the price divided by this.
const GAP_DIVISOR: u64 = 100_000;

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatorConfig {
    /// Everything random follows from this.
    pub seed: u64,
    /// Number of pairs: well-known ones first, then synthetic assets. At most 20,000.
    pub pairs: u32,
    /// Every pair is traded at each of these.
    pub venues: Vec<Venue>,
    /// Book messages per second over all instruments, on average over calm and bursts (tickers, trades and heartbeats
    /// come on top).
    pub updates_per_second: u32,
    /// Levels per side that the books tend to (20 to 600); a side keeps between half and one and a half of it.
    pub book_levels: u32,
    /// Kraken's subscribed depth: levels per side that are sent (10 to 1,000).
    pub kraken_depth: u32,
    /// Trades per book message, 0 to 1.
    pub trades_share: f64,
    /// Where the simulated time begins, Unix nanoseconds. Ids begin at it in microseconds, so that a later start has
    /// greater ones.
    pub start_ns: u64,
}

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            pairs: 12,
            venues: SIMULATED.to_vec(),
            updates_per_second: 200,
            book_levels: 200,
            kraken_depth: 25,
            trades_share: 0.1,
            start_ns: 1_767_225_600_000_000_000,
        }
    }
}

/// One instrument of the simulated market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimInstrument {
    /// Where it is traded.
    pub venue: Venue,
    /// As the venue spells it.
    pub symbol: String,
    /// The base asset.
    pub asset_0: String,
    /// The quote asset.
    pub asset_1: String,
    /// Decimals of the price step.
    pub price_decimals: u32,
    /// Decimals of the quantity step.
    pub quantity_decimals: u32,
}

/// The simulator's own book, for comparing with one that was rebuilt from its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimBook {
    /// Price and quantity, canonical decimals, best first.
    pub bids: Vec<(String, String)>,
    /// Price and quantity, canonical decimals, best first.
    pub asks: Vec<(String, String)>,
    /// The venue's id of the last change (Binance); nothing where the venue has none.
    pub last_update_id: Option<u64>,
}

/// The market and both venues.
pub struct Simulator {
    chance: Chance,
    weather: Weather,
    fairs: Vec<Fair>,
    /// Cumulative activity of the pairs, rising; the last is the whole.
    activity: Vec<f64>,
    binance: Option<binance::Binance>,
    kraken: Option<kraken::Kraken>,
    /// Venues in no protocol, for `serve` alone.
    plain: Vec<plain::Plain>,
    trades_in_256: u32,
    now_ns: u64,
    next_ns: u64,
    heartbeat_ns: u64,
    last_pair: usize,
}

impl Simulator {
    /// A market at its first moment; values out of their range are brought into it. Of the venues, those of
    /// [`SIMULATED`] are simulated; [`VenueSim`] has others as well.
    #[must_use]
    pub fn new(config: SimulatorConfig) -> Self {
        Self::with_plain(config, &[])
    }

    /// A market with venues in no protocol besides those that are written here.
    fn with_plain(config: SimulatorConfig, plain: &[Venue]) -> Self {
        let SimulatorConfig {
            seed,
            pairs,
            venues,
            updates_per_second,
            book_levels,
            kraken_depth,
            trades_share,
            start_ns,
        } = config;
        let mut chance = Chance::new(seed);
        let pairs = pairs::pairs(pairs.min(PAIRS_MAX));
        let fairs: Vec<Fair> = pairs.iter().map(|pair| Fair::new(pair.price_e8, start_ns, &mut chance)).collect();
        let levels = count(book_levels.clamp(LEVELS_MIN, LEVELS_MAX));
        let depth = count(kraken_depth.clamp(KRAKEN_DEPTH_MIN, KRAKEN_DEPTH_MAX));
        let listed = |venue| venues.contains(&venue);
        let binance = listed(Venue::BinanceSpot).then(|| binance::Binance::new(&pairs, levels, start_ns, &mut chance));
        let kraken =
            listed(Venue::KrakenSpot).then(|| kraken::Kraken::new(&pairs, levels, depth, start_ns, &mut chance));
        let plain: Vec<plain::Plain> =
            plain.iter().map(|venue| plain::Plain::new(*venue, &pairs, levels, start_ns, &mut chance)).collect();
        let silent = pairs.is_empty() || (binance.is_none() && kraken.is_none() && plain.is_empty());
        let mut weather = Weather::new(if silent { 0 } else { updates_per_second }, start_ns, &mut chance);
        let next_ns = weather.next_ns(start_ns, &mut chance);
        let heartbeat_ns = if kraken.is_some() { start_ns.saturating_add(HEARTBEAT_NS) } else { NEVER };
        Self {
            weather,
            activity: activity(fairs.len()),
            fairs,
            binance,
            kraken,
            plain,
            trades_in_256: fair::in_256(trades_share),
            now_ns: start_ns,
            next_ns,
            heartbeat_ns,
            last_pair: 0,
            chance,
        }
    }

    /// Up to when messages were emitted, Unix nanoseconds.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Every instrument, venue by venue, the most active pairs first.
    #[must_use]
    pub fn instruments(&self) -> Vec<SimInstrument> {
        let of = |venue, listed: &[Instrument]| -> Vec<SimInstrument> {
            listed.iter().map(|instrument| instrument.describe(venue)).collect()
        };
        let mut all = Vec::new();
        if let Some(binance) = &self.binance {
            all.extend(of(Venue::BinanceSpot, binance.instruments()));
        }
        if let Some(kraken) = &self.kraken {
            all.extend(of(Venue::KrakenSpot, kraken.instruments()));
        }
        for plain in &self.plain {
            all.extend(of(plain.venue(), plain.instruments()));
        }
        all
    }

    /// Opens the connections at the present moment: what is asked and answered until every book is known. A later call
    /// is a reconnection.
    pub fn opening(&mut self, out: &mut Vec<(Venue, RawFrame)>) {
        if let Some(binance) = &mut self.binance {
            binance.opening(self.now_ns, out);
        }
        if let Some(kraken) = &mut self.kraken {
            kraken.opening(self.now_ns, out);
        }
    }

    /// Emits every message after the present moment and up to `until_ns`, which becomes the present; in time order.
    /// The messages do not depend on how the time is divided into calls.
    pub fn advance(&mut self, until_ns: u64, out: &mut Vec<(Venue, RawFrame)>) {
        self.run(until_ns, out, &mut Vec::new());
    }

    /// As [`Self::advance`], with what happens at the venues in no protocol.
    fn run(&mut self, until_ns: u64, out: &mut Vec<(Venue, RawFrame)>, happened: &mut Vec<plain::Happening>) {
        loop {
            let at_ns = self.next_ns.min(self.heartbeat_ns);
            if at_ns > until_ns || at_ns == NEVER {
                break;
            }
            if at_ns == self.heartbeat_ns {
                self.heartbeat_ns = self.heartbeat_ns.saturating_add(HEARTBEAT_NS);
                if let Some(kraken) = &self.kraken {
                    kraken.heartbeat(at_ns, out);
                }
            } else {
                self.next_ns = self.weather.next_ns(at_ns, &mut self.chance);
                self.event(at_ns, out, happened);
            }
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    /// Emits a snapshot of one instrument as of the last [`Self::advance`], received at `now_ns`: a REST reply
    /// (Binance) or a message (Kraken). False when the venue does not list the symbol.
    pub fn snapshot(&mut self, venue: Venue, symbol: &str, now_ns: u64, out: &mut Vec<(Venue, RawFrame)>) -> bool {
        let at_ns = now_ns.max(self.now_ns);
        let done = match venue {
            Venue::BinanceSpot => self.binance.as_mut().and_then(|venue| venue.snapshot(symbol, at_ns, out)),
            Venue::KrakenSpot => self.kraken.as_mut().and_then(|venue| venue.snapshot(symbol, at_ns, out)),
            _ => None,
        };
        done.is_some()
    }

    /// The book that a terminal of this instrument should have now; on Kraken within the subscribed depth.
    #[must_use]
    pub fn book(&self, venue: Venue, symbol: &str) -> Option<SimBook> {
        match venue {
            Venue::BinanceSpot => self.binance.as_ref()?.book(symbol),
            Venue::KrakenSpot => self.kraken.as_ref()?.book(symbol),
            _ => None,
        }
    }

    /// The books of the venues in no protocol, as they are.
    fn plain_opening(&self, happened: &mut Vec<plain::Happening>) {
        for plain in &self.plain {
            plain.opening(self.now_ns, happened);
        }
    }

    /// One book message somewhere.
    fn event(&mut self, at_ns: u64, out: &mut Vec<(Venue, RawFrame)>, happened: &mut Vec<plain::Happening>) {
        if !self.chance.in_256(SAME_PAIR_IN_256) {
            let drawn = self.chance.unit() * self.activity.last().copied().unwrap_or(0.0);
            let found = self.activity.partition_point(|&reached| reached < drawn);
            self.last_pair = found.min(self.fairs.len().saturating_sub(1));
        }
        let Some(fair) = self.fairs.get_mut(self.last_pair) else { return };
        let price_e8 = fair.step(at_ns, &mut self.weather, &mut self.chance);
        let event = Event {
            index: self.last_pair,
            at_ns,
            price_e8,
            traded: self.chance.in_256(self.trades_in_256),
            bursting: self.weather.bursting(),
        };
        if !self.plain.is_empty() {
            let venues = usize::from(self.binance.is_some()) + usize::from(self.kraken.is_some()) + self.plain.len();
            let chosen = self.chance.index(venues);
            if let Some(plain) = self.plain.get_mut(chosen) {
                return plain.event(&event, &mut self.chance, happened);
            }
        }
        let first = self.chance.in_256(128);
        match (&mut self.binance, &mut self.kraken) {
            (Some(binance), Some(_)) if first => binance.event(&event, &mut self.chance, out),
            (_, Some(kraken)) => kraken.event(&event, &mut self.chance, out),
            (Some(binance), None) => binance.event(&event, &mut self.chance, out),
            (None, None) => {}
        }
    }
}

/// Something happens to one instrument.
struct Event {
    index: usize,
    at_ns: u64,
    price_e8: f64,
    traded: bool,
    bursting: bool,
}

/// What both venues keep for an instrument.
struct Instrument {
    symbol: String,
    asset_0: String,
    asset_1: String,
    /// Decimals of a price.
    decimals: u32,
    /// Decimals of a quantity.
    quantity_decimals: u32,
    /// Distance from the fair price, as a share of it.
    basis: f64,
    book: Book,
    update_id: u64,
    trade_id: u64,
}

/// What differs by venue when an instrument is listed.
struct Listing {
    symbol: String,
    decimals: u32,
    levels: usize,
    window: usize,
    step: u64,
}

impl Instrument {
    fn new(pair: &Pair, listing: Listing, start_ns: u64, chance: &mut Chance) -> Self {
        let Listing { symbol, decimals, levels, window, step } = listing;
        let basis = (chance.unit() * 2.0 - 1.0) * BASIS_MAX;
        let centre = fair::ticks(fair::model(pair.price_e8), basis, decimals);
        let levels_u64 = u64::try_from(levels).unwrap_or(u64::MAX);
        let gap = (centre / GAP_DIVISOR).max(3);
        let shape = Shape {
            levels,
            window,
            span: levels_u64.saturating_mul(gap).min(centre / 2),
            half_spread: centre / 400_000 + chance.below(2),
            quantity: (pair.quantity_e8 / step).max(1) * step,
            step,
        };
        let book = Book::new(centre, shape, chance);
        let (asset_0, asset_1) = (pair.asset_0.clone(), pair.asset_1.clone());
        Self {
            symbol,
            asset_0,
            asset_1,
            decimals,
            quantity_decimals: 8_u32.saturating_sub(step.checked_ilog10().unwrap_or(0)),
            basis,
            book,
            update_id: start_ns / 1_000,
            trade_id: start_ns / 1_000,
        }
    }

    fn centre(&self, price_e8: f64) -> u64 {
        fair::ticks(price_e8, self.basis, self.decimals)
    }

    fn describe(&self, venue: Venue) -> SimInstrument {
        let (symbol, asset_0) = (self.symbol.clone(), self.asset_0.clone());
        let (price_decimals, quantity_decimals) = (self.decimals, self.quantity_decimals);
        SimInstrument { venue, symbol, asset_0, asset_1: self.asset_1.clone(), price_decimals, quantity_decimals }
    }

    /// The best `depth` levels of each side.
    fn levels(&self, depth: usize, last_update_id: Option<u64>) -> SimBook {
        let spell =
            |level: book::Level| (text::canonical(level.price, self.decimals), text::canonical(level.quantity, 8));
        let bids = self.book.bids.best_first().take(depth).map(spell).collect();
        let asks = self.book.asks.best_first().take(depth).map(spell).collect();
        SimBook { bids, asks, last_update_id }
    }
}

fn frame(ts_ns: u64, kind: RawKind, conn: &Arc<str>, url: Option<Arc<str>>, raw: String) -> RawFrame {
    RawFrame { ts_ns, kind, conn: Arc::clone(conn), url, raw: RawPayload::Text(raw) }
}

/// Cumulative Zipf weights of `count` pairs.
fn activity(count: usize) -> Vec<f64> {
    let ranks = u32::try_from(count).unwrap_or(u32::MAX);
    (1..=ranks)
        .scan(0.0, |sum, rank| {
            *sum += f64::from(rank).powf(-ZIPF);
            Some(*sum)
        })
        .collect()
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
