//! The hub: puts the workers' parts of a cut together, keeps the state that terminals join with, and nets cuts into
//! frames, one phase at a time. A state machine without I/O; time comes as cuts.
//!
//! Never: encoding; a frame that holds half a cut; a delta whose base is not what the phase's last frame left.

mod changes;
mod instrument;
mod phase;
mod view;

pub use changes::{BookView, ChangeBounds, Content, Look, WholeReason};
pub use instrument::HubInstrument;
pub use phase::{Frame, Update};
pub use view::HeldView;

use changes::{Changes, Told};
use dataflow::{
    clock::CutClock,
    copy::BookCopy,
    cut::{BookCut, InstrumentCut, LaneCounts, LaneCut, LegCounts},
    sink::SinkMessage,
};
use market::{AdmittedChanges, AdmittedTrade, Best, LegId, PairId, SymbolId, ViewId, ViewKey, ViewValue};
use phase::Phase;
use std::collections::BTreeMap;
use view::HeldViews;

/// How the hub cuts time into frames.
#[derive(Clone, Copy, Debug)]
pub struct HubConfig {
    /// Workers that report.
    pub workers: usize,
    /// The grid of cuts.
    pub clock: CutClock,
    /// Cuts per frame, and so the number of phases; at least 1.
    pub cuts_per_frame: u64,
    /// Close frames in which nothing changed as well: terminals wait for them, a replay does not.
    pub idle_frames: bool,
}

/// A cut that every worker has closed.
#[derive(Debug, Default)]
pub struct Step {
    /// The cut.
    pub cut: u64,
    /// Changes for the store, in the order of (instrument, version).
    pub admitted: Vec<AdmittedChanges>,
    /// Trades for the store.
    pub admitted_trades: Vec<AdmittedTrade>,
    /// Instruments whose book must be fetched anew.
    pub requests: Vec<SymbolId>,
    /// Instruments that came to another epoch.
    pub epochs: Vec<(SymbolId, u64)>,
    /// What happened in the lanes.
    pub counts: LaneCounts,
    /// What legs brought; one may stand in it once for each worker.
    pub legs: Vec<(LegId, LegCounts)>,
    /// Positions of log streams, by leg, up to which every change is in this step or in one before it.
    pub through: Vec<(LegId, u64)>,
    /// What audits have asked for.
    pub copies: Vec<BookCopy>,
    /// Bytes of input to be given back to the credit.
    pub input_bytes: u64,
    /// The active phase whose frame ends with this cut: to be closed before the next step.
    pub closing: Option<u64>,
}

#[derive(Debug, Default)]
struct Gathered {
    parts: Vec<LaneCut>,
    best: Vec<(PairId, Option<Best>)>,
    views: Vec<(ViewKey, Option<ViewValue>)>,
}

/// State of all instruments at the last complete cut.
pub struct Hub {
    config: HubConfig,
    /// Per worker, the first cut that it may still add to.
    closed: Vec<u64>,
    gathered: BTreeMap<u64, Gathered>,
    /// The next cut to be stepped over.
    next: u64,
    /// The last cut that anything came for.
    latest: u64,
    instruments: Vec<Option<HubInstrument>>,
    changes: Changes,
    best: Vec<Option<Best>>,
    views: HeldViews,
    phases: Vec<Option<Phase>>,
}

impl Hub {
    /// A hub without instruments and without active phases.
    #[must_use]
    pub fn new(config: HubConfig) -> Self {
        let phases = usize::try_from(config.cuts_per_frame.max(1)).unwrap_or(1);
        Self {
            config,
            closed: vec![0; config.workers],
            gathered: BTreeMap::new(),
            next: 0,
            latest: 0,
            instruments: Vec::new(),
            changes: Changes::default(),
            best: Vec::new(),
            views: HeldViews::default(),
            phases: (0..phases).map(|_| None).collect(),
        }
    }

    /// The same hub, which remembers recent changes.
    #[must_use]
    pub fn with_changes(mut self, bounds: ChangeBounds) -> Self {
        self.changes = Changes::new(bounds);
        self
    }

    /// Takes what a worker says.
    pub fn take(&mut self, message: SinkMessage) {
        match message {
            SinkMessage::Cut(cut) => {
                self.latest = self.latest.max(cut.cut);
                self.gathered.entry(cut.cut).or_default().parts.push(cut);
            }
            // What is ahead of its cut goes past the hub.
            SinkMessage::Priority(_) => {}
            SinkMessage::Best(changes) => {
                for change in changes {
                    self.latest = self.latest.max(change.cut);
                    self.gathered.entry(change.cut).or_default().best.push((change.pair, change.best));
                }
            }
            SinkMessage::Views(changes) => {
                for change in changes {
                    self.latest = self.latest.max(change.cut);
                    self.gathered.entry(change.cut).or_default().views.push((change.key, change.value));
                }
            }
            SinkMessage::Closed { worker, before } => {
                if let Some(closed) = self.closed.get_mut(worker) {
                    *closed = (*closed).max(before);
                }
            }
        }
    }

    /// The first cut that some worker may still add to.
    #[must_use]
    pub fn frontier(&self) -> u64 {
        self.closed.iter().copied().min().unwrap_or(0)
    }

    /// Whether every worker has ended and everything of theirs was stepped over.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.frontier() == u64::MAX && self.next > self.last()
    }

    /// The last cut worth a step: once all have ended, every phase still closes once after the last data.
    fn last(&self) -> u64 {
        match self.frontier() {
            u64::MAX => self.latest.saturating_add(self.config.cuts_per_frame).saturating_sub(1),
            frontier => frontier.saturating_sub(1),
        }
    }

    /// Steps over the next cut that every worker has closed, if there is one.
    pub fn step(&mut self) -> Option<Step> {
        if self.frontier() == 0 || self.next > self.last() {
            return None;
        }
        let mut active = self.phases.iter().flatten();
        if active.all(|phase| !self.config.idle_frames && phase.is_idle()) {
            // Nobody waits for frames: only cuts with something in them matter.
            let last = self.last();
            let skip = self.gathered.keys().next().copied().unwrap_or(last).min(last);
            self.next = self.next.max(skip);
        }
        let cut = self.next;
        self.next = cut.saturating_add(1);
        let mut step = Step { cut, ..Step::default() };
        if let Some(gathered) = self.gathered.remove(&cut) {
            self.apply(gathered, &mut step);
        }
        let phase = cut % self.config.cuts_per_frame.max(1);
        step.closing = self.phase(phase).is_some().then_some(phase);
        Some(step)
    }

    fn apply(&mut self, gathered: Gathered, step: &mut Step) {
        let shown_ns = self.config.clock.end_ns(step.cut);
        let mut instruments: Vec<InstrumentCut> = Vec::new();
        for mut part in gathered.parts {
            instruments.append(&mut part.instruments);
            step.requests.append(&mut part.requests);
            step.input_bytes = step.input_bytes.saturating_add(part.input_bytes);
            step.counts.add(&part.counts);
            step.legs.append(&mut part.legs);
            step.through.append(&mut part.through);
            step.copies.append(&mut part.copies);
        }
        // Each instrument has one lane, so this order does not depend on the number of workers.
        instruments.sort_by_key(|cut| cut.symbol);
        step.requests.sort_unstable();
        for mut cut in instruments {
            cut.admitted.iter_mut().for_each(|changes| changes.shown_ns = shown_ns);
            step.admitted.append(&mut cut.admitted);
            step.admitted_trades.append(&mut cut.admitted_trades);
            step.epochs.extend(self.apply_instrument(cut));
        }
        for (pair, best) in gathered.best {
            let at = usize::try_from(pair.0).unwrap_or(usize::MAX);
            if self.best.len() <= at {
                self.best.resize(at.saturating_add(1), None);
            }
            if let Some(held) = self.best.get_mut(at) {
                *held = best;
            }
            self.phases.iter_mut().flatten().for_each(|phase| phase.best_changed(pair));
        }
        for (key, value) in gathered.views {
            self.views.set(key, HeldView { value, cut: step.cut, at_ns: shown_ns });
            self.phases.iter_mut().flatten().for_each(|phase| phase.view_changed(key));
        }
    }

    /// Gives the epoch that the instrument came to, if that is another one.
    fn apply_instrument(&mut self, cut: InstrumentCut) -> Option<(SymbolId, u64)> {
        let at = usize::try_from(cut.symbol.0).unwrap_or(usize::MAX);
        if self.instruments.len() <= at {
            self.instruments.resize_with(at.saturating_add(1), || None);
        }
        let instrument = self.instruments.get_mut(at)?.get_or_insert_with(|| HubInstrument::new(cut.symbol));
        let versions = [instrument.version(), cut.version];
        let [before, now] = versions.map(|version| version.map(|version| version.epoch));
        let symbol = cut.symbol;
        let moved = now.filter(|_| before != now).map(|now| (symbol, now));
        let told = match &cut.book {
            BookCut::Unchanged => Told::Nothing,
            BookCut::Delta { base, .. } => Told::Changed(*base),
            BookCut::Snapshot { .. } => Told::Replaced,
        };
        let before = instrument.apply(cut, &mut self.phases);
        self.changes.note(symbol, versions, told, before);
        moved
    }

    /// Begins to net changes for a phase; its next close tells what changed from now on.
    pub fn activate(&mut self, phase: u64) {
        if let Some(place) = self.phases.get_mut(usize::try_from(phase).unwrap_or(usize::MAX)) {
            place.get_or_insert_default();
        }
    }

    /// Stops netting changes for a phase.
    pub fn deactivate(&mut self, phase: u64) {
        if let Some(place) = self.phases.get_mut(usize::try_from(phase).unwrap_or(usize::MAX)) {
            *place = None;
        }
    }

    fn phase(&self, phase: u64) -> Option<&Phase> {
        self.phases.get(usize::try_from(phase).unwrap_or(usize::MAX)).and_then(Option::as_ref)
    }

    /// Closes a phase's frame at the last stepped cut: the net of the cuts since its last close.
    pub fn close(&mut self, phase: u64) -> Frame {
        let cut = self.next.saturating_sub(1);
        let mut frame = Frame {
            frame: cut.checked_div(self.config.cuts_per_frame).unwrap_or(cut),
            cut,
            at_ns: self.config.clock.end_ns(cut),
            updates: Vec::new(),
            best: Vec::new(),
            views: Vec::new(),
        };
        let place = self.phases.get_mut(usize::try_from(phase).unwrap_or(usize::MAX));
        let Some(phase) = place.and_then(Option::as_mut) else { return frame };
        let instruments = &self.instruments;
        let find = |symbol: SymbolId| {
            instruments.get(usize::try_from(symbol.0).unwrap_or(usize::MAX)).and_then(Option::as_ref)
        };
        phase.close(find, &mut frame);
        let best = &self.best;
        let held = |pair: PairId| best.get(usize::try_from(pair.0).unwrap_or(usize::MAX)).copied().flatten();
        frame.best.iter_mut().for_each(|(pair, value)| *value = held(*pair));
        let views = &self.views;
        frame.views.iter_mut().for_each(|(key, value)| *value = views.get(*key).and_then(|held| held.value));
        frame
    }

    /// An instrument's state at the last stepped cut.
    #[must_use]
    pub fn instrument(&self, symbol: SymbolId) -> Option<&HubInstrument> {
        self.instruments.get(usize::try_from(symbol.0).unwrap_or(usize::MAX)).and_then(Option::as_ref)
    }

    /// What a reader is told of an instrument at the last stepped cut.
    #[must_use]
    pub fn look(&self, look: &Look) -> BookView {
        match self.instrument(look.symbol) {
            Some(instrument) => self.changes.look(instrument, look, self.now_ns()),
            None => BookView::whole(&HubInstrument::new(look.symbol), 0, look.depth, WholeReason::NoBook),
        }
    }

    /// One more than the greatest number of an instrument with state.
    #[must_use]
    pub fn numbers(&self) -> u32 {
        u32::try_from(self.instruments.len()).unwrap_or(u32::MAX)
    }

    /// Every instrument with state, by number.
    pub fn instruments(&self) -> impl Iterator<Item = &HubInstrument> {
        self.instruments.iter().flatten()
    }

    /// A pair's consolidated best at the last stepped cut.
    #[must_use]
    pub fn best(&self, pair: PairId) -> Option<Best> {
        self.best.get(usize::try_from(pair.0).unwrap_or(usize::MAX)).copied().flatten()
    }

    /// A standing view of a pair at the last stepped cut; none if there never was a value.
    #[must_use]
    pub fn view(&self, key: ViewKey) -> Option<HeldView> {
        self.views.get(key)
    }

    /// A standing view of every pair that ever had a value, by number of the pair.
    pub fn views(&self, view: ViewId) -> impl Iterator<Item = (PairId, HeldView)> {
        self.views.of(view)
    }

    /// The end of the last stepped cut, Unix nanoseconds: the hub's now.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.config.clock.end_ns(self.next.saturating_sub(1))
    }
}
