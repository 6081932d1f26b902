//! The server's side of a scenario: starts, kills, cuts, and what leaves the hub.
//!
//! Never: a state that outlives a kill, the store's and the journal's excepted.

use super::{
    World,
    agenda::Action,
    note,
    process::Process,
    setup::{MS, Market},
    text::Texts,
};
use connectors::venue_feed::listings::Listings;
use dataflow::{cut::LaneCounts, sink::SinkMessage};
use market::{Body, Event, LegId, Listing, Version, Views};
use server::fanout::FanoutCounts;
use std::sync::Arc;

/// How long a killed server's connections take to be noticed, nanoseconds.
const RESET_NS: u64 = MS;

impl World {
    /// Starts the server: store and journal first, then lanes that go on from what was kept, then the legs.
    ///
    /// # Panics
    /// If the instruments do not fit the directory.
    pub fn start(&mut self) {
        if self.server.is_some() {
            return;
        }
        self.runs += 1;
        let run = self.runs;
        let block = self.journal.reserve(self.store.greatest_epoch().saturating_add(1));
        self.checker.block(run, block);
        let started = Process::new(&self.setup, run, self.now_ns, &self.truths);
        let mut server = match started {
            Ok(server) => server,
            Err(error) => self.fail(&format!("the server does not start: {error}")),
        };
        note!(self, "server starts, run {run}, epochs from {block}");
        let pairs: Vec<_> = server.symbols.clone();
        for (market, symbol) in pairs.into_iter().enumerate() {
            let Some(truth) = self.truths.get(market) else { continue };
            let reached = self.store.epoch(market);
            let epoch = match truth.numbered() {
                true => reached.unwrap_or(0),
                false => block.max(reached.map_or(0, |epoch| epoch.saturating_add(1))),
            };
            let pair = market::PairId(symbol.0);
            let listing = Listing { venue: truth.venue, pair, epoch, block, views: Views::NONE };
            server.take(Event::of(symbol, LegId(0), self.now_ns, 0, Body::Listing(listing)));
            if let Some(restored) = self.store.restored(market) {
                note!(self, "server goes on with {market} at {}", restored.version);
                server.take(Event::of(symbol, LegId(0), self.now_ns, 0, Body::Restored(Box::new(restored))));
            }
        }
        if self.setup.text {
            let reached = self.truths.iter().enumerate();
            let reached = reached.filter_map(|(market, truth)| Some((&*truth.name, self.store.epoch(market)?)));
            let epochs = reached.map(|(name, epoch)| (name.into(), epoch)).collect();
            let listings =
                Listings::new(Arc::clone(&server.directory)).with_epochs(epochs, block).with_silent_intervals(0);
            match Texts::new(listings, &self.legs) {
                Ok(texts) => server.texts = Some(texts),
                Err(error) => self.fail(&format!("the decoders do not start: {error}")),
            }
        }
        // Everything was listed before anybody could connect.
        server.fanout.grow(&mut server.hub);
        self.agenda.plan(server.cut_ends_ns(), Action::Cut { run });
        self.server = Some(server);
        self.fetched = vec![false; self.truths.len()];
        self.look_ahead();
        (0..self.legs.len()).for_each(|leg| self.plan_open(leg));
    }

    /// Kills the server: nothing of it is left but what the store and the journal had.
    pub fn kill(&mut self) {
        let Some(server) = self.server.take() else { return };
        self.past.add(&server.counts);
        let lost = self.store.crash(self.now_ns);
        note!(self, "server killed, {lost} events were not durable");
        for leg in &mut self.legs {
            leg.up = false;
            leg.generation += 1;
        }
        for viewer in 0..self.viewers.len() {
            self.cut_off(viewer, RESET_NS, None);
        }
    }

    /// From now on a worker's cut takes up to so long to reach the hub.
    pub fn lag_workers(&mut self, ns: u64) {
        self.worker_lag_ns = ns;
    }

    /// What happened in the lanes of all runs.
    #[must_use]
    pub fn lanes(&self) -> LaneCounts {
        let mut sum = self.past;
        if let Some(server) = &self.server {
            sum.add(&server.counts);
        }
        sum
    }

    /// What happened in the present server's fan-out.
    #[must_use]
    pub fn fanout(&self) -> FanoutCounts {
        self.server.as_ref().map(|server| server.fanout.counts()).unwrap_or_default()
    }

    /// The version that the hub holds of an instrument.
    #[must_use]
    pub fn hub_version(&self, market: Market) -> Option<Version> {
        let server = self.server.as_ref()?;
        server.hub.instrument(*server.symbols.get(market)?)?.version()
    }

    pub(super) fn cut(&mut self, run: u64) {
        let Some(server) = self.server.as_mut().filter(|server| server.run == run) else { return };
        let lag_ns = self.worker_lag_ns;
        for (worker, messages) in server.close_cut().into_iter().enumerate() {
            let late_ns = self.now_ns.saturating_add(self.server_chance.below(lag_ns));
            let at_ns = server.sinks_at(worker, late_ns);
            self.agenda.plan(at_ns, Action::Sink { run, messages });
        }
        self.agenda.plan(server.cut_ends_ns(), Action::Cut { run });
        self.look_ahead();
    }

    /// Lanes tell what is wanted ahead of its cut.
    pub(super) fn look_ahead(&mut self) {
        if let Some(server) = &mut self.server {
            server.look_ahead(self.now_ns / MS);
        }
        self.pump_all();
    }

    pub(super) fn sink(&mut self, run: u64, messages: Vec<SinkMessage>) {
        let Some(server) = self.server.as_mut().filter(|server| server.run == run) else { return };
        messages.into_iter().for_each(|message| server.hub.take(message));
        let mut wanted = Vec::new();
        while let Some(step) = server.step() {
            for admitted in step.admitted {
                if let Some(market) = server.market(admitted.symbol) {
                    self.store.take(self.now_ns, market, admitted);
                }
            }
            wanted.extend(step.requests.iter().filter_map(|symbol| server.market(*symbol)));
        }
        wanted.into_iter().for_each(|market| self.fetch(market));
        self.look_ahead();
    }
}
