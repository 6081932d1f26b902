//! The lane inside timely: applies what belongs to the open cut on arrival, stashes what comes early, and closes a cut
//! when the frontier has passed it.
//!
//! Never: encoding, a socket, a lock; and never one output session per record.

use crate::{
    cut::{LaneCut, PriorityUpdate},
    lane::{Lane, LaneConfig, PartChange, QuoteChange},
    priority::PriorityBoard,
    views::ViewRules,
};
use market::{Best, Event, PairId, SymbolId, ViewKey, ViewPart, ViewValue};
use std::{collections::BTreeMap, sync::Arc};
use timely::{
    container::CapacityContainerBuilder,
    dataflow::{
        StreamVec,
        channels::pact::Exchange,
        operators::{
            CapabilitySet,
            generic::{OutputBuilder, builder_rc::OperatorBuilder},
        },
    },
};

/// A pair's candidate as differential data: `((pair, best), cut, difference)`.
pub(crate) type QuoteRow = ((PairId, Best), u64, isize);

/// What one book adds to a view of its pair, likewise.
pub(crate) type PartRow = ((ViewKey, (SymbolId, ViewPart)), u64, isize);

/// The value of a view and pair, likewise.
pub(crate) type ViewRow = ((ViewKey, ViewValue), u64, isize);

struct Driver {
    lane: Lane,
    /// The first cut that is not closed.
    open: u64,
    /// Events were applied for the open cut.
    worked: bool,
    /// The latest cut that events came for.
    latest: u64,
    /// Events that came before their cut opened.
    stash: BTreeMap<u64, Vec<Vec<Event>>>,
    /// How many cuts after the latest one the guards may still settle what they hold, once the input has ended.
    flush_cuts: u64,
}

impl Driver {
    fn new(config: LaneConfig, board: Arc<PriorityBoard>, rules: ViewRules) -> Self {
        let flush_ns = config.limits.hole_ns.max(config.limits.bridge_ns);
        let flush_cuts = flush_ns.div_ceil(config.clock.cut_ns.max(1)).saturating_add(1);
        let lane = Lane::new(config).with_priority(board).with_views(rules);
        Self { lane, open: 0, worked: false, latest: 0, stash: BTreeMap::new(), flush_cuts }
    }

    fn take(&mut self, cut: u64, events: &mut Vec<Event>) {
        self.latest = self.latest.max(cut);
        if cut <= self.open {
            self.worked = true;
            events.drain(..).for_each(|event| self.lane.take(event));
        } else {
            self.stash.entry(cut).or_default().push(std::mem::take(events));
        }
    }

    /// Closes the next cut that is complete and in which something came or is due; none if there is none. Idle cuts
    /// are skipped, so an idle stretch costs nothing. `upper` is the first cut that may still get input.
    fn close_next(&mut self, upper: Option<u64>, changes: &mut Vec<QuoteChange>) -> Option<LaneCut> {
        let limit = upper.unwrap_or_else(|| self.latest.saturating_add(self.flush_cuts));
        let worked = self.worked.then_some(self.open);
        let stashed = self.stash.keys().next().copied();
        // Past the last cut of the input nobody is late any longer; the guards only settle what they hold.
        let awaited = |due: &u64| upper.is_some() || *due <= self.latest;
        let silent = self.lane.next_due(true).filter(awaited);
        let due = silent.into_iter().chain(self.lane.next_due(false)).min().map(|due| due.max(self.open));
        let cut = worked.into_iter().chain(stashed).chain(due).min().filter(|cut| *cut < limit)?;
        let waiting = awaited(&cut);
        self.open_at(cut);
        let mut closed = LaneCut::default();
        self.lane.close(cut, waiting, &mut closed, changes);
        self.worked = false;
        self.open = cut.saturating_add(1);
        Some(closed)
    }

    /// Opens a cut, applying what came early for it.
    fn open_at(&mut self, cut: u64) {
        self.open = self.open.max(cut);
        for mut events in self.stash.remove(&self.open).unwrap_or_default() {
            self.worked = true;
            events.drain(..).for_each(|event| self.lane.take(event));
        }
    }
}

/// What comes out of a lane.
pub(crate) struct LaneStreams<'scope> {
    /// Closed cuts.
    pub(crate) cuts: StreamVec<'scope, u64, LaneCut>,
    /// Candidates for the best of pairs.
    pub(crate) quotes: StreamVec<'scope, u64, QuoteRow>,
    /// What books add to the standing views of their pairs.
    pub(crate) parts: StreamVec<'scope, u64, PartRow>,
    /// What priority instruments did, as it happens.
    pub(crate) ahead: StreamVec<'scope, u64, PriorityUpdate>,
}

/// The fused lane operator: events in, closed cuts, quote rows, parts of views and what is told ahead out.
pub(crate) fn lane<'scope>(
    events: StreamVec<'scope, u64, Event>,
    config: LaneConfig,
    board: Arc<PriorityBoard>,
    rules: ViewRules,
) -> LaneStreams<'scope> {
    let scope = events.scope();
    let mut builder = OperatorBuilder::new("Lane".to_owned(), scope);
    let mut input = builder.new_input(events, Exchange::new(|event: &Event| event.route));
    let (cuts_output, cuts) = builder.new_output::<Vec<LaneCut>>();
    let (quotes_output, quotes) = builder.new_output::<Vec<QuoteRow>>();
    let (parts_output, parts) = builder.new_output::<Vec<PartRow>>();
    let (ahead_output, ahead) = builder.new_output::<Vec<PriorityUpdate>>();
    let mut cuts_output = OutputBuilder::<_, CapacityContainerBuilder<Vec<LaneCut>>>::from(cuts_output);
    let mut quotes_output = OutputBuilder::<_, CapacityContainerBuilder<Vec<QuoteRow>>>::from(quotes_output);
    let mut parts_output = OutputBuilder::<_, CapacityContainerBuilder<Vec<PartRow>>>::from(parts_output);
    let mut ahead_output = OutputBuilder::<_, CapacityContainerBuilder<Vec<PriorityUpdate>>>::from(ahead_output);

    builder.build(move |capabilities| {
        // One capability per output, held at the open cut.
        let mut held: Vec<CapabilitySet<u64>> = capabilities.into_iter().map(CapabilitySet::from_elem).collect();
        let mut driver = Driver::new(config, board, rules);
        let (mut changes, mut moved, mut told) = (Vec::new(), Vec::new(), Vec::new());
        move |frontiers| {
            input.for_each(|capability, events| {
                if let Some(cut) = capability.least().copied() {
                    driver.take(cut, events);
                }
            });
            let [cuts_held, quotes_held, parts_held, ahead_held] = held.as_mut_slice() else { return };
            if cuts_held.is_empty() {
                return;
            }
            let upper = frontiers.first().and_then(|frontier| frontier.frontier().iter().next().copied());
            let (mut cuts_active, mut quotes_active) = (cuts_output.activate(), quotes_output.activate());
            let mut parts_active = parts_output.activate();
            while let Some(closed) = driver.close_next(upper, &mut changes) {
                let cut = closed.cut;
                cuts_active.session(&cuts_held.delayed(&cut)).give(closed);
                if !changes.is_empty() {
                    let capability = quotes_held.delayed(&cut);
                    let rows = changes.drain(..).flat_map(|change| rows(change, cut));
                    quotes_active.session(&capability).give_iterator(rows);
                }
                driver.lane.take_parts(&mut moved);
                if !moved.is_empty() {
                    let capability = parts_held.delayed(&cut);
                    let rows = moved.drain(..).flat_map(|change| part_rows(change, cut));
                    parts_active.session(&capability).give_iterator(rows);
                }
            }
            if let Some(upper) = upper {
                driver.open_at(upper);
            }
            driver.lane.tell_ahead(&mut told);
            if let Some(capability) = ahead_held.first().filter(|_| !told.is_empty()) {
                ahead_output.activate().session(capability).give_iterator(told.drain(..));
            }
            let next: &[u64] = if upper.is_some() { &[driver.open] } else { &[] };
            held.iter_mut().for_each(|held| held.downgrade(next));
        }
    });
    LaneStreams { cuts, quotes, parts, ahead }
}

fn rows(change: QuoteChange, cut: u64) -> impl Iterator<Item = QuoteRow> {
    let row = move |best: Option<Best>, difference| best.map(|best| ((change.pair, best), cut, difference));
    row(change.before, -1).into_iter().chain(row(change.now, 1))
}

fn part_rows(change: PartChange, cut: u64) -> impl Iterator<Item = PartRow> {
    let row = move |part: Option<ViewPart>, difference| {
        part.map(|part| ((change.key, (change.symbol, part)), cut, difference))
    };
    row(change.before, -1).into_iter().chain(row(change.now, 1))
}
