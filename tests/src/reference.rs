//! Books rebuilt from a capture by the venues' published rules alone: the reference that everything else must equal.
//! `reference/reconstruct.py` does the same in another language; the two must agree.
//!
//! Never: code, formats or numbers taken from the crates under test.

mod binance;
mod bitfinex;
mod bitmex;
mod bitstamp;
mod book;
mod books;
mod coinbase;
mod crc;
mod decimal;
mod deribit;
mod dydx_v3;
mod gemini;
mod interleaved;
mod kraken_futures;
mod kraken_v1;
mod kraken_v2;
mod kucoin;
pub mod neutron_dex;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// What a capture comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reconstruction {
    /// The last book of each instrument, by the venue's symbol.
    pub books: BTreeMap<String, FinalBook>,
    /// What was counted on the way, over all instruments.
    pub stats: Stats,
}

/// A book as it was at the end of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FinalBook {
    /// Price and quantity, canonical decimals, best first.
    pub bids: Vec<(String, String)>,
    /// Price and quantity, canonical decimals, best first.
    pub asks: Vec<(String, String)>,
    /// The venue's id of the last change, where it has one.
    pub last_update_id: Option<String>,
    /// Book messages applied; on Kraken v2 snapshots are among them.
    pub applied: u64,
}

/// Counts over a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Book messages on the stream; without snapshots, but on Kraken v2.
    pub depth_events: u64,
    /// Book messages applied.
    pub applied: u64,
    /// Book messages that a snapshot already contained, or that came before any.
    pub dropped_before_snapshot: u64,
    /// Book messages applied, by the rule, although they end where the snapshot does.
    pub told_again: u64,
    /// Book messages that still waited for a snapshot at the end.
    pub unanchored: u64,
    /// Breaks of an id chain.
    pub gaps: u64,
    /// Snapshots used.
    pub snapshots: u64,
    /// Snapshots that were older than what was known.
    pub snapshots_refused: u64,
    /// Checksums seen.
    pub checksums: u64,
    /// Checksums that were right.
    pub checksum_matches: u64,
    /// Tickers whose id is that of a book message, before or after it.
    pub ticker_comparisons: u64,
    /// Such tickers that differ from the book's best prices or quantities.
    pub ticker_mismatches: u64,
    /// Book messages after which the best bid was at or over the best ask.
    pub crossed: u64,
    /// Levels that were changed or deleted but not known, where the venue says that this cannot be.
    pub unknown: u64,
    /// Levels that were older than what was known of them.
    pub suppressed: u64,
    /// Book messages whose number was below the greatest before them.
    pub out_of_order: u64,
    /// Book messages that came on more than one socket.
    pub leg_comparisons: u64,
    /// Such messages after which the books of the sockets differ.
    pub leg_mismatches: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.depth_events += other.depth_events;
        self.applied += other.applied;
        self.dropped_before_snapshot += other.dropped_before_snapshot;
        self.told_again += other.told_again;
        self.unanchored += other.unanchored;
        self.gaps += other.gaps;
        self.snapshots += other.snapshots;
        self.snapshots_refused += other.snapshots_refused;
        self.checksums += other.checksums;
        self.checksum_matches += other.checksum_matches;
        self.ticker_comparisons += other.ticker_comparisons;
        self.ticker_mismatches += other.ticker_mismatches;
        self.crossed += other.crossed;
        self.unknown += other.unknown;
        self.suppressed += other.suppressed;
        self.out_of_order += other.out_of_order;
        self.leg_comparisons += other.leg_comparisons;
        self.leg_mismatches += other.leg_mismatches;
    }
}

/// The formats that are understood and recorded, each by the name of its folder in the corpus. Besides these there is
/// `neutron_dex`, of which there are single blocks, and captures that are made up.
pub const FORMATS: [&str; 15] = [
    "binance_spot",
    "kraken_v2",
    "binance_usdm",
    "coinbase",
    "okx",
    "bitfinex",
    "deribit",
    "kraken_futures",
    "kucoin",
    "bitstamp",
    "gemini",
    "bitmex",
    "bitget",
    "dydx_v3",
    "kraken_v1",
];

/// Rebuilds a capture of one of the [`FORMATS`], or of `neutron_dex`.
///
/// # Errors
/// When the file cannot be read, or holds something that the venue does not send.
pub fn rebuild(format: &str, path: &Path) -> Result<Reconstruction> {
    read(format, path, |_| true)
}

/// Rebuilds a capture from one of its connections alone, with all REST replies.
///
/// # Errors
/// When the file cannot be read, or holds something that the venue does not send.
pub fn rebuild_leg(format: &str, path: &Path, conn: &str) -> Result<Reconstruction> {
    read(format, path, |line| line.conn == conn || line.kind == "http")
}

/// What a venue's messages mean.
trait Rules {
    /// Takes the next line.
    fn frame(&mut self, line: &Line) -> Result<()>;

    /// The capture has ended.
    fn finish(self: Box<Self>) -> Result<Reconstruction>;
}

/// One line of a capture.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    kind: String,
    conn: String,
    url: Option<String>,
    raw: Option<String>,
}

impl Line {
    /// What a socket said.
    fn message(&self) -> Option<&str> {
        self.raw.as_deref().filter(|_| self.kind == "ws")
    }
}

fn rules(format: &str) -> Result<Box<dyn Rules>> {
    Ok(match format {
        "binance_spot" => Box::new(binance::Venue::new(binance::Rule::Spot)),
        "binance_usdm" => Box::new(binance::Venue::new(binance::Rule::Usdm)),
        "bitfinex" => Box::new(bitfinex::Venue::default()),
        "bitmex" => Box::new(bitmex::Venue::default()),
        "bitstamp" => Box::new(bitstamp::Venue::default()),
        "coinbase" => Box::new(coinbase::Venue::default()),
        "deribit" => Box::new(deribit::Venue::default()),
        "dydx_v3" => Box::new(dydx_v3::Venue::default()),
        "gemini" => Box::new(gemini::Venue::default()),
        "okx" | "bitget" => Box::new(interleaved::Venue::default()),
        "kraken_futures" => Box::new(kraken_futures::Venue::default()),
        "kraken_v1" => Box::new(kraken_v1::Venue::default()),
        "kraken_v2" => Box::new(kraken_v2::Venue::default()),
        "kucoin" => Box::new(kucoin::Venue::default()),
        "neutron_dex" => Box::new(neutron_dex::Venue::default()),
        _ => bail!("no rules for {format:?}"),
    })
}

fn read(format: &str, path: &Path, wanted: impl Fn(&Line) -> bool) -> Result<Reconstruction> {
    let mut rules = rules(format)?;
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let lines = BufReader::new(zstd::Decoder::new(file)?).lines();
    for (number, text) in lines.enumerate() {
        let place = || format!("{} line {}", path.display(), number + 1);
        let line: Line = serde_json::from_str(&text.with_context(place)?).with_context(place)?;
        if wanted(&line) {
            rules.frame(&line).with_context(place)?;
        }
    }
    rules.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Line {
        pub(super) fn of(kind: &str, raw: &str) -> Self {
            Self { kind: kind.into(), conn: "0".into(), url: None, raw: Some(raw.into()) }
        }
    }

    /// What lines of these kinds come to.
    pub(super) fn fed(rules: impl Rules, lines: &[(&str, &str)]) -> Reconstruction {
        let mut rules = Box::new(rules);
        for (kind, raw) in lines {
            rules.frame(&Line::of(kind, raw)).unwrap();
        }
        rules.finish().unwrap()
    }

    /// A level.
    pub(super) fn pair(price: &str, quantity: &str) -> (String, String) {
        (price.to_owned(), quantity.to_owned())
    }

    #[test]
    fn every_format_has_rules_and_an_unknown_one_is_refused() {
        assert!(FORMATS.iter().chain(&["neutron_dex"]).all(|format| rules(format).is_ok()));
        assert!(rules("mtgox").is_err());
    }
}
