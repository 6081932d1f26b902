//! One process of the server without its threads: lanes as their operator drives them, hub, fan-out.
//!
//! Never: a step that the real wiring does not make; `operator.rs` and `tape.rs` are what it follows.

use super::{
    connector::Connector,
    setup::{Market, Setup},
    text::Texts,
    truth::Truth,
};
use dataflow::{
    clock::CutClock,
    cut::{LaneCounts, LaneCut},
    lane::{Lane, LaneConfig},
    sink::SinkMessage,
};
use market::{Body, Directory, Event, SymbolId, instrument::DirectoryFull};
use server::{
    fanout::{Fanout, FanoutConfig},
    hub::{Hub, HubConfig, Step},
};
use std::sync::Arc;
use wire::bounds::MESSAGE_BYTES_MAX;

/// As in a live run.
pub(super) const CUT_NS: u64 = 4_000_000;
const CUTS_PER_FRAME: u64 = 10;

/// Heartbeats to terminals, milliseconds.
pub(super) const HEARTBEAT_MS: u64 = 1_000;

/// Digests come often, so that each is a check.
const DIGEST_MS: u64 = 1_000;

/// A process of the server.
pub(super) struct Process {
    pub(super) run: u64,
    pub(super) connector: Connector,
    /// The real decoders, if the legs carry text.
    pub(super) texts: Option<Texts>,
    pub(super) hub: Hub,
    pub(super) fanout: Fanout,
    pub(super) directory: Arc<Directory>,
    /// By instrument.
    pub(super) symbols: Vec<SymbolId>,
    pub(super) counts: LaneCounts,
    clock: CutClock,
    lanes: Vec<(Lane, bool)>,
    /// When each worker's last messages reach the hub.
    sunk_ns: Vec<u64>,
    /// The open cut.
    cut: u64,
}

impl Process {
    /// A process whose instruments have other numbers than in the run before.
    pub(super) fn new(setup: &Setup, run: u64, now_ns: u64, truths: &[Truth]) -> Result<Self, DirectoryFull> {
        let clock = CutClock { origin_ns: now_ns, cut_ns: CUT_NS };
        let lane =
            LaneConfig { clock, limits: setup.limits, silent_ns: setup.silent_ns, silent_intervals: 0, admitted: true };
        let directory = Arc::new(Directory::default());
        let mut symbols = vec![SymbolId(0); truths.len()];
        let turn = usize::try_from(run).unwrap_or(0).checked_rem(truths.len()).unwrap_or(0);
        for market in (turn..truths.len()).chain(0..turn) {
            let (Some(truth), Some(symbol)) = (truths.get(market), symbols.get_mut(market)) else { continue };
            let base = truth.symbol.split('/').next().map_or(&*truth.symbol, |base| base.trim_end_matches("USDT"));
            *symbol = directory.intern(truth.venue, &truth.symbol, base, "USDT")?.id;
        }
        let workers = setup.workers.max(1);
        let fanout = Fanout::new(fanout_config(run), Arc::clone(&directory));
        let lanes = (0..workers).map(|_| (Lane::new(lane).with_priority(fanout.board()), false)).collect();
        Ok(Self {
            run,
            connector: Connector::new(truths.len(), setup.legs * 2),
            texts: None,
            directory,
            hub: Hub::new(HubConfig { workers, clock, cuts_per_frame: CUTS_PER_FRAME, idle_frames: true }),
            fanout,
            symbols,
            counts: LaneCounts::default(),
            clock,
            lanes,
            sunk_ns: vec![0; workers],
            cut: 0,
        })
    }

    /// Takes an event to its lane; one of a whole leg to every lane.
    pub(super) fn take(&mut self, event: Event) {
        if matches!(event.body, Body::LegHeard | Body::LegUp | Body::LegDown) {
            for (lane, worked) in &mut self.lanes {
                lane.take(event.clone());
                *worked = true;
            }
            return;
        }
        let lanes = u64::try_from(self.lanes.len()).unwrap_or(1);
        let at = usize::try_from(event.route % lanes).unwrap_or(0);
        if let Some((lane, worked)) = self.lanes.get_mut(at) {
            lane.take(event);
            *worked = true;
        }
    }

    /// When the open cut ends.
    pub(super) fn cut_ends_ns(&self) -> u64 {
        self.clock.end_ns(self.cut)
    }

    /// Closes the open cut; gives each worker's messages for the hub.
    pub(super) fn close_cut(&mut self) -> Vec<Vec<SinkMessage>> {
        let cut = self.cut;
        self.cut += 1;
        let close = |(worker, (lane, worked)): (usize, &mut (Lane, bool))| {
            let mut messages = Vec::new();
            let due = lane.next_due(true).is_some_and(|due| due <= cut);
            if std::mem::replace(worked, false) || due {
                let mut out = LaneCut::default();
                lane.close(cut, true, &mut out, &mut Vec::new());
                messages.push(SinkMessage::Cut(out));
            }
            messages.push(SinkMessage::Closed { worker, before: cut + 1 });
            messages
        };
        self.lanes.iter_mut().enumerate().map(close).collect()
    }

    /// What lanes tell ahead of their cut, on to the terminals that want it so.
    pub(super) fn look_ahead(&mut self, now_ms: u64) {
        let mut told = Vec::new();
        self.lanes.iter_mut().for_each(|(lane, _)| lane.tell_ahead(&mut told));
        if !told.is_empty() {
            self.fanout.priority(&told, now_ms);
        }
        self.fanout.tend(now_ms, &mut self.hub);
    }

    /// When a worker's messages reach the hub: after its earlier ones.
    pub(super) fn sinks_at(&mut self, worker: usize, at_ns: u64) -> u64 {
        match self.sunk_ns.get_mut(worker) {
            Some(sunk_ns) => {
                *sunk_ns = at_ns.max(*sunk_ns);
                *sunk_ns
            }
            None => at_ns,
        }
    }

    /// Steps the hub over the next complete cut, up to the terminals' outboxes.
    pub(super) fn step(&mut self) -> Option<Step> {
        let step = self.hub.step()?;
        self.counts.add(&step.counts);
        self.fanout.grow(&mut self.hub);
        if let Some(phase) = step.closing {
            let frame = self.hub.close(phase);
            self.fanout.close(&frame, phase, &self.hub);
        }
        Some(step)
    }

    /// The instrument of a number.
    pub(super) fn market(&self, symbol: SymbolId) -> Option<Market> {
        self.symbols.iter().position(|known| *known == symbol)
    }
}

fn fanout_config(run: u64) -> FanoutConfig {
    FanoutConfig {
        generation: run,
        phases: CUTS_PER_FRAME,
        frame_ms: 40,
        heartbeat_ms: HEARTBEAT_MS,
        subscriptions_max: 4_096,
        digest_ms: DIGEST_MS,
        message_bytes_max: MESSAGE_BYTES_MAX,
        simulated: true,
    }
}
