//! What must hold at every step for every terminal.
//!
//! Never: a tolerance that is not a bound of the design.

use super::{
    setup::{Market, Viewer},
    truth::{Position, Truth, content},
};
use market::{Level, Version};
use std::{collections::BTreeMap, fmt::Write};

/// What the server has been told of an instrument: when, and up to which place.
type Evidence = Vec<(u64, Position)>;

/// What was shown, over the whole run.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// One content per version, whoever showed it.
    contents: BTreeMap<(Market, Version), u64>,
    /// Where the venue stood when a message without an id arrived, by process and number of arrival.
    arrivals: BTreeMap<(Market, u64, u64), Position>,
    /// First epoch of each process' block.
    blocks: Vec<(u64, u64)>,
    evidence: BTreeMap<Market, Evidence>,
    shown: BTreeMap<(Viewer, Market), (Version, Option<Position>)>,
    /// Instruments whose venue told two truths.
    forgiven: Vec<Market>,
}

/// A book as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownBook {
    /// Its version.
    pub version: Version,
    /// Best first.
    pub bids: Vec<Level>,
    /// Best first.
    pub asks: Vec<Level>,
}

impl Checker {
    /// A process takes its epochs from this block.
    pub(super) fn block(&mut self, run: u64, first: u64) {
        self.blocks.push((first, run));
    }

    /// A message without an id got a number.
    pub(super) fn arrived(&mut self, market: Market, run: u64, number: u64, at: Position) {
        self.arrivals.insert((market, run, number), at);
    }

    /// The server was told of a place.
    pub(super) fn told(&mut self, market: Market, now_ns: u64, at: Position) {
        let evidence = self.evidence.entry(market).or_default();
        if evidence.last().is_none_or(|(_, last)| *last < at) {
            evidence.push((now_ns, at));
        }
    }

    /// The venue told two truths of an instrument: what is shown is no longer held against it.
    pub(super) fn forgive(&mut self, market: Market) {
        self.forgiven.push(market);
    }

    /// Since when the server knows of something after what a terminal shows.
    pub(super) fn behind_since(&self, viewer: Viewer, market: Market) -> Option<u64> {
        let (_, place) = self.shown.get(&(viewer, market))?;
        let (evidence, place) = (self.evidence.get(&market)?, (*place)?);
        let at = evidence.partition_point(|(_, known)| *known <= place);
        evidence.get(at).map(|(since_ns, _)| *since_ns)
    }

    /// A terminal shows a book.
    ///
    /// # Errors
    /// What does not hold, in words.
    pub(super) fn shows(
        &mut self,
        viewer: Viewer,
        market: Market,
        truth: &Truth,
        book: &ShownBook,
    ) -> Result<(), String> {
        let (version, content) = (book.version, content(&book.bids, &book.asks));
        let before = self.shown.get(&(viewer, market)).copied();
        if let Some((before, _)) = before.filter(|(before, _)| *before > version) {
            return Err(format!("viewer {viewer} shows {} at {version} after {before}", truth.name));
        }
        let known = *self.contents.entry((market, version)).or_insert(content);
        if known != content {
            return Err(format!("{} has two books at {version}; viewer {viewer} shows {book:?}", truth.name));
        }
        let place = self.place(viewer, market, truth, book, content)?;
        self.shown.insert((viewer, market), (version, place));
        Ok(())
    }

    /// The place in the venue's history that a shown book is of.
    fn place(
        &self,
        viewer: Viewer,
        market: Market,
        truth: &Truth,
        book: &ShownBook,
        content: u64,
    ) -> Result<Option<Position>, String> {
        let version = book.version;
        if version == Version::default() && book.bids.is_empty() && book.asks.is_empty() {
            return Ok(None);
        }
        if self.forgiven.contains(&market) {
            return Ok(None);
        }
        let places: Vec<Position> = if truth.numbered() {
            truth.places_of(version.seq).collect()
        } else {
            let run = self.blocks.iter().rev().find(|(first, _)| *first <= version.epoch).map_or(0, |(_, run)| *run);
            self.arrivals.get(&(market, run, version.seq)).copied().into_iter().collect()
        };
        let right = || places.iter().copied().filter(|at| truth.content_at(*at) == Some(content));
        // Without ids an epoch may begin with a leg that lags; within one, and wherever ids tell, time goes on.
        let before =
            self.shown.get(&(viewer, market)).filter(|(before, _)| truth.numbered() || before.epoch == version.epoch);
        let least = before.and_then(|(_, place)| *place).unwrap_or(0);
        if let Some(place) = right().find(|place| *place >= least) {
            return Ok(Some(place));
        }
        let mut text = format!("viewer {viewer} shows {} at {version}: {:?} | {:?}", truth.name, book.bids, book.asks);
        for place in places {
            let [bids, asks] = truth.levels_at(place);
            write!(text, "\nthe venue's at place {place} (shown before: {least}): {bids:?} | {asks:?}")
                .unwrap_or_default();
        }
        Err(text)
    }
}
