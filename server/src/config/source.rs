//! `[source]`, `[sim]`, `[capture]` and `[[instrument]]`: where updates come from and what they are called.
//!
//! Never: credentials of a venue.

use super::{History, error::Problems, venue};
use crate::store::BATCH_VENUE;
use connectors::{
    simulator::{LEVELS_MAX, LEVELS_MIN, SIMULATED},
    venue_feed::number::{StepError, price_step, quantity_step},
};
use market::{Venue, instrument::INSTRUMENTS_MAX};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::PathBuf};

/// Longest symbol or asset name, in bytes: venues stay far below it.
const NAME_BYTES_MAX: usize = 128;

/// Which source feeds the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The market simulator, see [`Sim`].
    #[default]
    Sim,
    /// Recorded connections, see [`Capture`].
    Capture,
    /// Connections to venues, see [`super::Live`].
    Live,
    /// Batches alone, see [`super::PubSub`]; they come beside the other sources as well, where a subscription is named.
    PubSub,
}

/// The choice of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Source {
    /// `"sim"`, `"capture"`, `"live"` or `"pubsub"`.
    pub kind: SourceKind,
}

/// The market simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sim {
    /// Seed of everything random; 0 to 2^63 - 1. One seed gives one market.
    pub seed: u64,
    /// Pairs of assets; 1 to 10,000, each one an instrument at every venue.
    pub pairs: usize,
    /// Venues to simulate; each one at most once, at least one.
    #[serde(with = "venue::list")]
    pub venues: Vec<Venue>,
    /// Book updates per second over all instruments; 1 to 10,000,000.
    pub updates_per_second: u64,
    /// Levels that a side of a book tends to; 20 to 600. It keeps between half and one and a half of it.
    pub book_levels: u32,
    /// `"every"` admitted change becomes a row, or of a tick the last one of each frame, `"frames"`.
    pub history: History,
}

impl Default for Sim {
    fn default() -> Self {
        Self {
            seed: 1,
            pairs: 40,
            venues: SIMULATED.to_vec(),
            updates_per_second: 2000,
            book_levels: 200,
            history: History::default(),
        }
    }
}

impl Sim {
    pub(super) fn check(&self, problems: &mut Problems) {
        problems.range("sim.seed", self.seed, 0..=i64::MAX.unsigned_abs());
        problems.range("sim.pairs", self.pairs, 1..=10_000);
        let distinct: BTreeSet<_> = self.venues.iter().collect();
        let simulated = self.venues.iter().all(|venue| SIMULATED.contains(venue));
        let right = !self.venues.is_empty() && distinct.len() == self.venues.len() && simulated;
        let names: Vec<_> = self.venues.iter().map(|venue| venue.name()).collect();
        problems.unless(
            right,
            "sim.venues",
            &format_args!("{names:?}"),
            &"binance_spot, kraken_spot or both; others are simulated by venue-sim alone",
        );
        problems.range("sim.updates_per_second", self.updates_per_second, 1..=10_000_000);
        problems.range("sim.book_levels", self.book_levels, LEVELS_MIN..=LEVELS_MAX);
    }
}

/// Recorded connections of one venue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capture {
    /// Capture files (zstd JSON lines), merged by receive time; at least one and at most 1,024 where the source is
    /// `"capture"`.
    pub files: Vec<PathBuf>,
    /// The venue that was recorded; `""` in the file for none.
    #[serde(with = "venue::optional")]
    pub venue: Option<Venue>,
    /// Times the recorded pace; 0 to 1,000,000, 0 = as fast as possible.
    pub speed: f64,
    /// Start again at the end.
    pub repeat: bool,
    /// `"every"` admitted change becomes a row, or of a tick the last one of each frame, `"frames"`; of a batch stream
    /// `"every"` alone.
    pub history: History,
}

impl Default for Capture {
    fn default() -> Self {
        Self { files: Vec::new(), venue: None, speed: 1.0, repeat: false, history: History::default() }
    }
}

impl Capture {
    pub(super) fn check(&self, kind: SourceKind, problems: &mut Problems) {
        problems.range("capture.speed", self.speed, 0.0..=1_000_000.0);
        let files = format_args!("{} files", self.files.len());
        problems.unless(self.files.len() <= 1024, "capture.files", &files, &"1024 files at most");
        let of_batches = self.venue == Some(BATCH_VENUE) && self.history == History::Frames;
        let limit = "every, of a batch stream: its rows are what its log says";
        problems.unless(!of_batches, "capture.history", &"\"frames\"", &limit);
        if kind == SourceKind::Capture {
            let limit = "given where source.kind is \"capture\"";
            problems.unless(!self.files.is_empty(), "capture.files", &"[]", &limit);
            problems.unless(self.venue.is_some(), "capture.venue", &"\"\"", &limit);
        }
    }
}

/// What is to be known of an instrument, whatever its venue says: its two assets, its steps, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentTable {
    /// Where it trades.
    #[serde(with = "venue::one")]
    pub venue: Venue,
    /// The venue's own spelling; 1 to 128 bytes.
    pub symbol: String,
    /// Base asset; at most 128 bytes. Empty, with the quote = what the venue or its rule for symbols says.
    #[serde(default)]
    pub asset_0: String,
    /// Quote asset; at most 128 bytes, not the base.
    #[serde(default)]
    pub asset_1: String,
    /// Step in which prices begin, a decimal number above zero that is a multiple of 1e-18; finer prices refine it. Empty =
    /// what the venue says.
    #[serde(default)]
    pub price_step: String,
    /// Step in which quantities begin, likewise; a multiple of 1e-38.
    #[serde(default)]
    pub quantity_step: String,
}

impl InstrumentTable {
    /// Base and quote, where they are given.
    #[must_use]
    pub fn assets(&self) -> Option<(&str, &str)> {
        let given = !self.asset_0.is_empty() || !self.asset_1.is_empty();
        given.then_some((&*self.asset_0, &*self.asset_1))
    }

    /// The powers of ten of the steps of prices and quantities, where they are given.
    #[must_use]
    pub fn steps(&self) -> [Option<i8>; 2] {
        [price_step(&self.price_step).ok(), quantity_step(&self.quantity_step).ok()]
    }
}

/// Checks the whole `[[instrument]]` list.
pub(super) fn check_instruments(list: &[InstrumentTable], problems: &mut Problems) {
    let count_max = usize::try_from(INSTRUMENTS_MAX).unwrap_or(usize::MAX);
    problems.range("instrument (count)", list.len(), 0..=count_max);
    let mut seen = BTreeSet::new();
    for table in list {
        let field = format!("instrument {}/{}", table.venue, table.symbol);
        let named = table.assets().map(|(base, quote)| [("asset_0", base), ("asset_1", quote)]);
        for (part, text) in [("symbol", &*table.symbol)].into_iter().chain(named.into_iter().flatten()) {
            let right = (1..=NAME_BYTES_MAX).contains(&text.len());
            let limit = format_args!("1 to {NAME_BYTES_MAX} bytes");
            problems.unless(right, &format!("{field} {part}"), &format_args!("{text:?}"), &limit);
        }
        if let Some((base, quote)) = table.assets() {
            let another = format_args!("{quote:?}");
            problems.unless(base != quote, &format!("{field} asset_1"), &another, &"another than asset_0");
        }
        check_step(&format!("{field} price_step"), &table.price_step, price_step, problems);
        check_step(&format!("{field} quantity_step"), &table.quantity_step, quantity_step, problems);
        let says = table.assets().is_some() || !table.price_step.is_empty() || !table.quantity_step.is_empty();
        problems.unless(says, &field, &"empty", &"given with its assets, or a step");
        let first = seen.insert((table.venue, &table.symbol));
        problems.unless(first, &field, &"given twice", &"given once");
    }
}

fn check_step(field: &str, text: &str, step: fn(&str) -> Result<i8, StepError>, problems: &mut Problems) {
    if text.is_empty() {
        return;
    }
    if let Err(error) = step(text) {
        let shown: String = text.chars().take(NAME_BYTES_MAX).collect();
        let limit = format_args!("a decimal number above zero that a step can be ({error})");
        problems.unless(false, field, &format_args!("{shown:?}"), &limit);
    }
}
