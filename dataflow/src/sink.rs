//! The sink: hands a worker's closed cuts and best changes to the hub, in order, with a mark once nothing can be added.
//!
//! Never: encoding or waiting; the channel's bytes are bounded by ingest's credit, which the hub gives back.

use crate::{
    best,
    cut::{BestChange, LaneCut, PriorityUpdate, ViewChange},
    operator::{QuoteRow, ViewRow},
    views,
};
use market::{Best, PairId, ViewKey, ViewValue};
use std::{collections::BTreeMap, sync::mpsc::Sender};
use timely::dataflow::{StreamVec, channels::pact::Pipeline, operators::generic::builder_rc::OperatorBuilder};

/// What a worker tells the hub.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every message is a cut; a box would be one more allocation for each"
)]
pub enum SinkMessage {
    /// The worker's part of a cut.
    Cut(LaneCut),
    /// What happened to priority instruments since the worker's last message, ahead of its cut.
    Priority(Vec<PriorityUpdate>),
    /// Pairs whose best changed.
    Best(Vec<BestChange>),
    /// Standing views that changed.
    Views(Vec<ViewChange>),
    /// The worker has nothing more for cuts before this one; `u64::MAX` when it has ended.
    Closed {
        /// The worker.
        worker: usize,
        /// The first cut that may still get something.
        before: u64,
    },
}

/// What came for cuts that are not complete yet.
#[derive(Default)]
struct Pending {
    cuts: BTreeMap<u64, LaneCut>,
    best: BTreeMap<u64, Vec<(PairId, Best, isize)>>,
    views: BTreeMap<u64, Vec<(ViewKey, ViewValue, isize)>>,
}

impl Pending {
    fn release(&mut self, before: u64, send: &mut impl FnMut(SinkMessage)) {
        let later = self.cuts.split_off(&before);
        for (_, cut) in std::mem::replace(&mut self.cuts, later) {
            send(SinkMessage::Cut(cut));
        }
        let later = self.best.split_off(&before);
        for (cut, mut rows) in std::mem::replace(&mut self.best, later) {
            send(SinkMessage::Best(best::changes(cut, &mut rows)));
        }
        let later = self.views.split_off(&before);
        for (cut, mut rows) in std::mem::replace(&mut self.views, later) {
            send(SinkMessage::Views(views::changes(cut, &mut rows)));
        }
    }
}

/// What the sink takes.
pub(crate) struct SinkStreams<'scope> {
    /// Closed cuts.
    pub(crate) cuts: StreamVec<'scope, u64, LaneCut>,
    /// The best of pairs.
    pub(crate) quotes: StreamVec<'scope, u64, QuoteRow>,
    /// The standing views.
    pub(crate) views: StreamVec<'scope, u64, ViewRow>,
    /// What priority instruments did.
    pub(crate) ahead: StreamVec<'scope, u64, PriorityUpdate>,
}

/// The sink operator of this worker.
pub(crate) fn sink<M: From<SinkMessage> + 'static>(streams: SinkStreams<'_>, hub: Sender<M>) {
    let scope = streams.cuts.scope();
    let worker = scope.index();
    let mut builder = OperatorBuilder::new("Sink".to_owned(), scope);
    let mut cuts = builder.new_input(streams.cuts, Pipeline);
    let mut quotes = builder.new_input(streams.quotes, Pipeline);
    let mut views = builder.new_input(streams.views, Pipeline);
    let mut ahead = builder.new_input(streams.ahead, Pipeline);
    builder.build(move |_capabilities| {
        let mut pending = Pending::default();
        let mut closed = 0;
        move |frontiers| {
            // The hub ends after the workers, or with the whole process; nobody is left to be told.
            let mut send = |message: SinkMessage| drop(hub.send(message.into()));
            ahead.for_each(|_, batch| send(SinkMessage::Priority(std::mem::take(batch))));
            cuts.for_each(|_, batch| pending.cuts.extend(batch.drain(..).map(|cut| (cut.cut, cut))));
            quotes.for_each(|_, batch| {
                for ((pair, best), cut, difference) in batch.drain(..) {
                    pending.best.entry(cut).or_default().push((pair, best, difference));
                }
            });
            views.for_each(|_, batch| {
                for ((key, value), cut, difference) in batch.drain(..) {
                    pending.views.entry(cut).or_default().push((key, value, difference));
                }
            });
            let first = |frontier: &timely::progress::frontier::MutableAntichain<u64>| {
                frontier.frontier().iter().next().copied().unwrap_or(u64::MAX)
            };
            let before = frontiers.iter().map(first).min().unwrap_or(u64::MAX);
            if before > closed {
                closed = before;
                pending.release(before, &mut send);
                send(SinkMessage::Closed { worker, before });
            }
        }
    });
}
