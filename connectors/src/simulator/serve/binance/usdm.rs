//! The simulated market in the words of USD-M: depth messages with `pu`, best prices, aggregate trades. Ids are shared by
//! all symbols, so that a symbol's next `U` is never its last `u` and one.
//!
//! Never: a message of spot.

use super::{Binance, Ids, Instrument, Served, send};
use crate::simulator::{
    SimInstrument,
    plain::{Happening, Line, What},
    serve::{
        bus::Bus,
        reference::{Book, Change, PriceKey, SIDES, Side},
    },
};
use std::{borrow::Cow, fmt::Write};

const NS_PER_MS: u64 = 1_000_000;

/// A plain decimal with as many decimals as its step has: `0.50`.
fn fixed(decimal: &str, decimals: u32) -> Cow<'_, str> {
    let wanted = usize::try_from(decimals).unwrap_or(0);
    match decimal.split_once('.') {
        _ if wanted == 0 => Cow::Borrowed(decimal),
        Some((whole, part)) => Cow::Owned(format!("{whole}.{part:0<wanted$}")),
        None => Cow::Owned(format!("{decimal}.{:0<wanted$}", "")),
    }
}

/// A side of a message, as its JSON.
fn side(lines: &[Line], bid: bool, listed: &SimInstrument) -> String {
    let mut out = String::from("[");
    for (place, line) in lines.iter().filter(|line| line.bid == bid).enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let (price, quantity) = spelled(line, listed);
        // Writing to a string cannot fail.
        let _written = write!(out, "{comma}[\"{price}\",\"{quantity}\"]");
    }
    out.push(']');
    out
}

fn spelled<'a>(line: &'a Line, listed: &SimInstrument) -> (Cow<'a, str>, Cow<'a, str>) {
    (fixed(&line.price, listed.price_decimals), fixed(&line.quantity, listed.quantity_decimals))
}

/// The best price and quantity of each side, as a ticker tells them.
fn best(instrument: &Instrument) -> [Option<(Box<str>, Box<str>)>; 2] {
    SIDES.map(|side| {
        let level = instrument.book()?.book.ladder(side).ranked(0)?;
        Some((level.price.clone(), level.quantity.clone()))
    })
}

impl Binance {
    /// Serves what happened in the simulated market.
    pub(in crate::simulator::serve) fn happened(&mut self, happening: &Happening, bus: &mut Bus) {
        let Some(index) = self.by_symbol.get(&*happening.symbol).copied() else { return };
        let stream = happening.symbol.to_ascii_lowercase();
        let at_ms = happening.at_ns / NS_PER_MS;
        match &happening.what {
            What::Book(lines) => {
                // Ids begin at the time in microseconds, so that a later start has greater ones.
                self.counted = self.counted.max(happening.at_ns / 1_000);
                let last = self.counted;
                if let Some(instrument) = self.instruments.get_mut(index) {
                    open(instrument, lines, last);
                }
            }
            What::Changes(lines) => {
                // The id in between is another symbol's.
                let first = self.counted + 2;
                self.counted = first + u64::try_from(lines.len()).unwrap_or(0).max(1) - 1;
                let last = self.counted;
                let Some(instrument) = self.instruments.get_mut(index) else { return };
                let before = best(instrument);
                let depth = depth(instrument, lines, (first, last), at_ms);
                let ticker = (before != best(instrument)).then(|| ticker(instrument, last, at_ms)).flatten();
                if let Some(data) = &ticker {
                    let stream = &format!("{stream}@bookTicker");
                    send(self.venue, bus, &happening.symbol, &Served { stream, data, whole: None, depth: false });
                }
                if let Some(data) = &depth {
                    let stream = &format!("{stream}@depth");
                    send(self.venue, bus, &happening.symbol, &Served { stream, data, whole: None, depth: true });
                }
            }
            What::Trade { id, sold, price, quantity } => {
                let Some(listed) = self.instruments.get(index).map(|instrument| &instrument.listed) else { return };
                let (price, quantity) =
                    (fixed(price, listed.price_decimals), fixed(quantity, listed.quantity_decimals));
                // `m`: the buyer is the maker.
                let data = &format!(
                    "{{\"e\":\"aggTrade\",\"E\":{at_ms},\"a\":{id},\"s\":\"{}\",\"p\":\"{price}\",\"q\":\"{quantity}\",\
                    \"f\":{id},\"l\":{id},\"T\":{at_ms},\"m\":{sold}}}",
                    listed.symbol
                );
                let stream = &format!("{stream}@aggTrade");
                send(self.venue, bus, &happening.symbol, &Served { stream, data, whole: None, depth: false });
            }
        }
    }
}

fn open(instrument: &mut Instrument, lines: &[Line], last: u64) {
    let mut book = Book::new();
    for line in lines {
        let (price, quantity) = spelled(line, &instrument.listed);
        let side = if line.bid { Side::Bid } else { Side::Ask };
        if let Some(key) = PriceKey::read(&price) {
            book.apply(&Change { side, key, price: &price, quantity: &quantity });
        }
    }
    instrument.open(book, last);
}

/// Applies the changes; gives their message.
fn depth(instrument: &mut Instrument, lines: &[Line], (first, last): (u64, u64), at_ms: u64) -> Option<String> {
    let previous = instrument.book()?.last;
    let (bids, asks) = (side(lines, true, &instrument.listed), side(lines, false, &instrument.listed));
    instrument.changed_ms = Some(at_ms);
    instrument.update(Ids { first, last, previous: Some(previous) }, &bids, &asks);
    let served = |id| instrument.served(id);
    Some(format!(
        "{{\"e\":\"depthUpdate\",\"E\":{at_ms},\"T\":{at_ms},\"s\":\"{}\",\"U\":{},\"u\":{},\"pu\":{},\"b\":{bids},\
        \"a\":{asks}}}",
        instrument.listed.symbol,
        served(first),
        served(last),
        served(previous)
    ))
}

fn ticker(instrument: &Instrument, last: u64, at_ms: u64) -> Option<String> {
    let [Some((bid, bid_quantity)), Some((ask, ask_quantity))] = best(instrument) else { return None };
    Some(format!(
        "{{\"e\":\"bookTicker\",\"u\":{},\"s\":\"{}\",\"b\":\"{bid}\",\"B\":\"{bid_quantity}\",\"a\":\"{ask}\",\
        \"A\":\"{ask_quantity}\",\"T\":{at_ms},\"E\":{at_ms}}}",
        instrument.served(last),
        instrument.listed.symbol
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_as_many_as_the_step_has() {
        assert_eq!((fixed("12", 2), fixed("0.5", 3), fixed("7", 0)), ("12.00".into(), "0.500".into(), "7".into()));
    }
}
