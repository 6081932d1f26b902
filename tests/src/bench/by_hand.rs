//! The way without timely: a thread per lane takes batches from its queue and closes cuts by the clock. The lane is the
//! same state machine; the consolidated best, which the graph leaves to differential dataflow, is kept by hand.
//!
//! Never: less output than the graph gives.

use super::{Feed, Running, market::place, marks::Marks, unix_ns};
use anyhow::{Result, anyhow};
use dataflow::{
    clock::CutClock,
    cut::{BestChange, LaneCut},
    ingest::{Batch, Credit, Ended},
    lane::{Lane, LaneConfig, QuoteChange},
    sink::SinkMessage,
};
use market::{Best, PairId};
use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel},
    },
    thread,
    time::Duration,
};

/// Batches waiting for one lane, as in the graph's feeds.
const BATCHES_QUEUED_MAX: usize = 64;

/// Batches taken between two looks at the clock, as ingest's turn in the graph: under load both have cuts of one size.
const BATCHES_PER_TURN: usize = 4;

pub(super) fn start(
    config: LaneConfig,
    best: bool,
    lanes: usize,
    marks: &Arc<Marks>,
    hub: Sender<SinkMessage>,
) -> Result<(Option<Arc<Credit>>, Running)> {
    let mut feeds: Vec<Feed> = Vec::new();
    let mut threads = Vec::new();
    for worker in 0..lanes {
        let (sender, batches) = sync_channel::<Batch>(BATCHES_QUEUED_MAX);
        let (marks, hub) = (Arc::clone(marks), hub.clone());
        let lane = move || ByHand::new(config, best, worker, hub).run(&batches, &marks);
        threads.push(thread::Builder::new().name(format!("by-hand-{worker}")).spawn(lane)?);
        feeds.push(Box::new(move |batch| sender.send(batch).map_err(|_| Ended)));
    }
    drop(hub);
    let join = move || threads.into_iter().try_for_each(|lane| lane.join().map_err(|_| anyhow!("a lane broke")));
    // Instruments of one pair share a lane, so that its best is kept in one place.
    Ok((None, Running { feeds, place: |symbol| u64::from(place(symbol.0).1.0), join: Box::new(join) }))
}

struct ByHand {
    lane: Lane,
    clock: CutClock,
    worker: usize,
    hub: Sender<SinkMessage>,
    open: u64,
    worked: bool,
    quotes: Vec<QuoteChange>,
    best: Option<Consolidated>,
}

impl ByHand {
    fn new(config: LaneConfig, best: bool, worker: usize, hub: Sender<SinkMessage>) -> Self {
        let (lane, best) = (Lane::new(config), best.then(Consolidated::default));
        Self { lane, clock: config.clock, worker, hub, open: 0, worked: false, quotes: Vec::new(), best }
    }

    fn run(mut self, batches: &Receiver<Batch>, marks: &Marks) {
        loop {
            marks.look();
            let now_ns = unix_ns();
            let cut = self.clock.cut_at(now_ns);
            if cut > self.open {
                self.close(cut);
            }
            let rest = self.clock.end_ns(cut).saturating_sub(now_ns);
            match batches.recv_timeout(Duration::from_nanos(rest)) {
                Ok(batch) => {
                    self.take(batch);
                    batches.try_iter().take(BATCHES_PER_TURN - 1).for_each(|batch| self.take(batch));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.close(u64::MAX),
            }
        }
    }

    fn take(&mut self, batch: Batch) {
        self.worked = true;
        batch.events.into_iter().for_each(|event| self.lane.take(event));
    }

    /// Closes the open cut if something came or is due, and opens another.
    fn close(&mut self, next: u64) {
        let due = self.lane.next_due(true).is_some_and(|due| due < next);
        if self.worked || due {
            let mut closed = LaneCut::default();
            self.lane.close(self.open, true, &mut closed, &mut self.quotes);
            self.send(SinkMessage::Cut(closed));
            let changes = self.best.as_mut().map(|best| best.changes(self.open, &mut self.quotes)).unwrap_or_default();
            self.quotes.clear();
            if !changes.is_empty() {
                self.send(SinkMessage::Best(changes));
            }
        }
        self.send(SinkMessage::Closed { worker: self.worker, before: next });
        (self.worked, self.open) = (false, next);
    }

    /// The hub lives as long as a lane does.
    fn send(&self, message: SinkMessage) {
        drop(self.hub.send(message));
    }
}

/// The best of each pair over what its instruments offer.
#[derive(Default)]
struct Consolidated {
    pairs: Vec<Pair>,
    touched: Vec<PairId>,
}

#[derive(Clone, Default)]
struct Pair {
    offers: Vec<Best>,
    best: Option<Best>,
}

impl Consolidated {
    fn changes(&mut self, cut: u64, quotes: &mut Vec<QuoteChange>) -> Vec<BestChange> {
        for change in quotes.drain(..) {
            let Some(pair) = pair(&mut self.pairs, change.pair) else { continue };
            if let Some(at) = change.before.and_then(|before| pair.offers.iter().position(|offer| *offer == before)) {
                pair.offers.swap_remove(at);
            }
            pair.offers.extend(change.now);
            self.touched.push(change.pair);
        }
        self.touched.sort_unstable();
        self.touched.dedup();
        let mut changes = Vec::new();
        for id in self.touched.drain(..) {
            let Some(pair) = pair(&mut self.pairs, id) else { continue };
            let best = pair.offers.iter().copied().reduce(Best::merge);
            if std::mem::replace(&mut pair.best, best) != best {
                changes.push(BestChange { cut, pair: id, best });
            }
        }
        changes
    }
}

fn pair(pairs: &mut Vec<Pair>, id: PairId) -> Option<&mut Pair> {
    let at = usize::try_from(id.0).ok()?;
    if pairs.len() <= at {
        pairs.resize(at + 1, Pair::default());
    }
    pairs.get_mut(at)
}
