//! The receiving end of both ways: takes what the lanes publish, gives the credit back, and tells how the books ended.
//!
//! Never: heavy work; it shares the machine with the lane that is measured.

use super::market::LAST_SCALE;
use dataflow::{
    cut::{BookCut, InstrumentCut, LaneCounts, LaneCut},
    ingest::Credit,
    sink::SinkMessage,
};
use foldhash::fast::FixedState;
use market::{Best, Level, Version};
use std::{
    hash::{BuildHasher, Hash, Hasher},
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
    time::Instant,
};

/// What stands at the end of a round; the same for the same events, whichever way they went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What happened in the lanes.
    pub counts: LaneCounts,
    /// Instruments whose final book was published.
    pub instruments: usize,
    /// Live levels of all books.
    pub live_ticks: usize,
    /// Hash over every book: instrument, version, levels.
    pub books: u64,
    /// Hash over the consolidated best of every pair.
    pub best: u64,
}

#[derive(Clone, Copy)]
struct Final {
    live: usize,
    hash: u64,
}

pub(super) struct Hub {
    credit: Option<Arc<Credit>>,
    /// Updates decided at which the sender is told, ascending.
    milestones: Vec<u64>,
    tell: Sender<Instant>,
    counts: LaneCounts,
    finals: Vec<Option<Final>>,
    best: Vec<Option<Best>>,
    pub(super) cuts: u64,
    pub(super) rows: u64,
}

/// What is left of a hub whose lanes have ended.
pub(super) struct Drained {
    pub(super) cuts: u64,
    pub(super) rows: u64,
    standing: Standing,
}

impl Drained {
    pub(super) fn standing(&self) -> Standing {
        self.standing
    }
}

impl Hub {
    pub(super) fn new(credit: Option<Arc<Credit>>, milestones: Vec<u64>, tell: Sender<Instant>) -> Self {
        let (finals, best, counts) = (Vec::new(), Vec::new(), LaneCounts::default());
        Self { credit, milestones, tell, counts, finals, best, cuts: 0, rows: 0 }
    }

    pub(super) fn drain(&mut self, lanes: &Receiver<SinkMessage>) -> Drained {
        for message in lanes {
            match message {
                SinkMessage::Cut(cut) => self.take(&cut),
                SinkMessage::Best(changes) => {
                    changes.iter().for_each(|change| set(&mut self.best, change.pair.0, change.best));
                }
                SinkMessage::Closed { .. } | SinkMessage::Priority(_) | SinkMessage::Views(_) => {}
            }
        }
        Drained { cuts: self.cuts, rows: self.rows, standing: self.standing() }
    }

    fn take(&mut self, cut: &LaneCut) {
        if let Some(credit) = &self.credit {
            credit.release(cut.input_bytes);
        }
        self.cuts += 1;
        self.counts.add(&cut.counts);
        let LaneCounts { applied, duplicates, regressions, covered, .. } = self.counts;
        let decided = applied + duplicates + regressions + covered;
        while self.milestones.first().is_some_and(|milestone| decided >= *milestone) {
            self.milestones.remove(0);
            if self.tell.send(Instant::now()).is_err() {
                // The sender gave up and says so itself.
                break;
            }
        }
        for instrument in &cut.instruments {
            self.take_instrument(instrument);
        }
    }

    fn take_instrument(&mut self, instrument: &InstrumentCut) {
        match &instrument.book {
            BookCut::Delta { changes, .. } => self.rows += u64::try_from(changes.len()).unwrap_or(0),
            BookCut::Snapshot { bids, asks, .. } if instrument.scale == LAST_SCALE => {
                let end = Final { live: bids.len() + asks.len(), hash: hash(instrument.version, bids, asks) };
                set(&mut self.finals, instrument.symbol.0, Some(end));
            }
            _ => {}
        }
    }

    fn standing(&self) -> Standing {
        let finals = || self.finals.iter().flatten();
        let hashes: Vec<_> = self.finals.iter().map(|end| end.map(|end| end.hash)).collect();
        Standing {
            counts: self.counts,
            instruments: finals().count(),
            live_ticks: finals().map(|end| end.live).sum(),
            books: state().hash_one(hashes),
            best: state().hash_one(&self.best),
        }
    }
}

fn state() -> FixedState {
    FixedState::with_seed(0)
}

fn hash(version: Option<Version>, bids: &[Level], asks: &[Level]) -> u64 {
    let mut hasher = state().build_hasher();
    version.map(|version| (version.epoch, version.seq)).hash(&mut hasher);
    bids.hash(&mut hasher);
    asks.hash(&mut hasher);
    hasher.finish()
}

fn set<T: Clone>(places: &mut Vec<Option<T>>, at: u32, value: Option<T>) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    if places.len() <= at {
        places.resize(at + 1, None);
    }
    if let Some(place) = places.get_mut(at) {
        *place = value;
    }
}
