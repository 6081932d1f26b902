//! Books rebuilt from a capture by the venues' published rules alone: the reference that everything else must equal.
//! `reference/reconstruct.py` does the same in another language; the two must agree.
//!
//! Never: code, formats or numbers taken from the crates under test.

mod binance_spot;
mod book;
mod decimal;
mod kraken_v2;

use anyhow::{Context, Result};
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
    /// Book messages applied; on Kraken snapshots are among them.
    pub applied: u64,
}

/// Counts over a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Book messages on the stream.
    pub depth_events: u64,
    /// Book messages applied.
    pub applied: u64,
    /// Book messages that a snapshot already contained, or that came before any.
    pub dropped_before_snapshot: u64,
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
}

/// Rebuilds a Binance spot capture.
///
/// # Errors
/// When the file cannot be read, or holds something that the venue does not send.
pub fn binance_spot(path: &Path) -> Result<Reconstruction> {
    rebuild(path, binance_spot::Venue::default(), binance_spot::Venue::frame, binance_spot::Venue::finish)
}

/// Rebuilds a Kraken spot v2 capture.
///
/// # Errors
/// When the file cannot be read, or holds something that the venue does not send.
pub fn kraken_v2(path: &Path) -> Result<Reconstruction> {
    rebuild(path, kraken_v2::Venue::default(), kraken_v2::Venue::frame, kraken_v2::Venue::finish)
}

/// One line of a capture.
#[derive(Debug, Deserialize)]
struct Line {
    kind: String,
    url: Option<String>,
    raw: Option<String>,
}

fn rebuild<V>(
    path: &Path,
    mut venue: V,
    frame: impl Fn(&mut V, &Line) -> Result<()>,
    finish: impl Fn(V) -> Result<Reconstruction>,
) -> Result<Reconstruction> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let lines = BufReader::new(zstd::Decoder::new(file)?).lines();
    for (number, text) in lines.enumerate() {
        let place = || format!("{} line {}", path.display(), number + 1);
        let line: Line = serde_json::from_str(&text.with_context(place)?).with_context(place)?;
        frame(&mut venue, &line).with_context(place)?;
    }
    finish(venue)
}
