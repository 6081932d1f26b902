//! Simulated venues in no protocol at all: first books, changes and trades as plain decimals, which `serve` puts into the
//! words of each venue.
//!
//! Never: a message of a venue, or an update id; ids are given where the words are.

use super::book::{Change, Ladder, Level, Side};
use super::chance::Chance;
use super::pairs::Pair;
use super::text;
use super::{Event, Instrument, Listing};
use market::Venue;
use std::sync::Arc;

/// Random changes in one event, at most, in calm.
const CHANGES_CALM: u64 = 4;
/// Random changes in one event, at most, in a burst.
const CHANGES_BURST: u64 = 10;

/// One level that was set, or died where its quantity is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) bid: bool,
    pub(super) price: String,
    pub(super) quantity: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The whole book.
    Book(Vec<Line>),
    /// The last word on each price that changed.
    Changes(Vec<Line>),
    /// The taker met the best level of one side.
    Trade { id: u64, sold: bool, price: String, quantity: String },
}

/// Something that happened to one instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happening {
    pub(super) venue: Venue,
    pub(super) at_ns: u64,
    pub(super) symbol: Arc<str>,
    pub(super) what: What,
}

/// One venue.
pub(super) struct Plain {
    venue: Venue,
    instruments: Vec<Instrument>,
    symbols: Vec<Arc<str>>,
    changes: Vec<Change>,
}

impl Plain {
    pub(super) fn new(venue: Venue, pairs: &[Pair], levels: usize, start_ns: u64, chance: &mut Chance) -> Self {
        let mut instruments = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let listing = Listing {
                symbol: symbol(venue, &pair.asset_0, &pair.asset_1),
                decimals: pair.binance_decimals,
                levels,
                window: levels,
                step: 10_u64.pow(8_u32.saturating_sub(pair.quantity_decimals)),
            };
            instruments.push(Instrument::new(pair, listing, start_ns, chance));
        }
        let symbols = instruments.iter().map(|instrument| instrument.symbol.as_str().into()).collect();
        Self { venue, instruments, symbols, changes: Vec::new() }
    }

    pub(super) const fn venue(&self) -> Venue {
        self.venue
    }

    pub(super) fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    /// Every book as it is.
    pub(super) fn opening(&self, at_ns: u64, out: &mut Vec<Happening>) {
        for (instrument, symbol) in self.instruments.iter().zip(&self.symbols) {
            let decimals = instrument.decimals;
            let side = |ladder: &Ladder, bid| -> Vec<Line> {
                ladder.best_first().map(|level| line(bid, level, decimals)).collect()
            };
            let lines = [side(&instrument.book.bids, true), side(&instrument.book.asks, false)].concat();
            out.push(Happening { venue: self.venue, at_ns, symbol: Arc::clone(symbol), what: What::Book(lines) });
        }
    }

    /// The changes of one event, after the trade that caused them.
    pub(super) fn event(&mut self, event: &Event, chance: &mut Chance, out: &mut Vec<Happening>) {
        self.changes.clear();
        let (Some(instrument), Some(symbol)) =
            (self.instruments.get_mut(event.index), self.symbols.get(event.index).map(Arc::clone))
        else {
            return;
        };
        let (venue, at_ns, decimals) = (self.venue, event.at_ns, instrument.decimals);
        if event.traded {
            let side = if chance.in_256(128) { Side::Bid } else { Side::Ask };
            if let Some(traded) = instrument.book.trade(side, &mut self.changes, chance) {
                instrument.trade_id += 1;
                let what = What::Trade {
                    id: instrument.trade_id,
                    sold: side == Side::Bid,
                    price: text::canonical(traded.price, decimals),
                    quantity: text::canonical(traded.quantity, 8),
                };
                out.push(Happening { venue, at_ns, symbol: Arc::clone(&symbol), what });
            }
        }
        instrument.book.follow(instrument.centre(event.price_e8), &mut self.changes, chance);
        let most = if event.bursting { CHANGES_BURST } else { CHANGES_CALM };
        for _ in 0..=chance.below(most) {
            instrument.book.churn(&mut self.changes, chance);
        }
        if self.changes.is_empty() {
            instrument.book.resize(Side::Bid, &mut self.changes, chance);
        }
        let mut lines: Vec<Line> = Vec::with_capacity(self.changes.len());
        let mut told: Vec<(Side, u64)> = Vec::with_capacity(self.changes.len());
        for change in self.changes.iter().rev() {
            let key = (change.side, change.level.price);
            if !told.contains(&key) {
                told.push(key);
                lines.push(line(change.side == Side::Bid, change.level, decimals));
            }
        }
        lines.reverse();
        out.push(Happening { venue, at_ns, symbol, what: What::Changes(lines) });
    }
}

fn line(bid: bool, level: Level, decimals: u32) -> Line {
    Line { bid, price: text::canonical(level.price, decimals), quantity: text::canonical(level.quantity, 8) }
}

/// A pair as the venue spells it.
fn symbol(venue: Venue, base: &str, quote: &str) -> String {
    match venue {
        Venue::Okx | Venue::Coinbase => format!("{base}-{quote}"),
        Venue::Deribit => format!("{base}_{quote}"),
        Venue::Bitfinex => {
            let (base, quote) = (bitfinex_asset(base), bitfinex_asset(quote));
            let colon = if base.len() > 3 || quote.len() > 3 { ":" } else { "" };
            format!("t{base}{colon}{quote}")
        }
        _ => format!("{base}{quote}"),
    }
}

/// Bitfinex has three letters for Tether.
fn bitfinex_asset(asset: &str) -> &str {
    if asset == "USDT" { "UST" } else { asset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_spelled_as_each_venue_does() {
        assert_eq!(symbol(Venue::Okx, "BTC", "USDT"), "BTC-USDT");
        assert_eq!(symbol(Venue::Deribit, "BTC", "USDC"), "BTC_USDC");
        assert_eq!(symbol(Venue::Bitfinex, "BTC", "USDT"), "tBTCUST");
        assert_eq!(symbol(Venue::Bitfinex, "DOGE", "USD"), "tDOGE:USD");
        assert_eq!(symbol(Venue::BinanceUsdm, "BTC", "USDT"), "BTCUSDT");
    }
}
