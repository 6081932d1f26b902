//! The source of a run: which one it is, and its thread.
//!
//! Never: a frame fed before the books that were kept.

use super::{Clock, RunError, spawn};
use crate::{
    config::{Config, SourceKind},
    dead_letters::DeadLetters,
    raw_log::RawLog,
    source::{self, CaptureOptions, Outlet, SourcePort},
    store::BATCH_VENUE,
};
use connectors::{
    capture::MergedCaptures,
    decoder::Decoder,
    live::{Live, LiveOptions, LiveVenue},
    simulator::{Simulator, SimulatorConfig},
    venue_feed::listings::Listings,
};
use dataflow::ingest::{Ended, FeedSender};
use market::{Directory, Event, LegId};
use std::{sync::Arc, thread};
use tokio::sync::oneshot;

/// The batch stream's leg comes before all others: its number is known before they are.
pub(super) const BATCH_LEG: LegId = LegId(0);
const BATCH_CONN: &str = "neutron_dex/pubsub";

/// Tells how the source ended.
pub(super) type SourceEnd = oneshot::Receiver<Result<(), RunError>>;

/// The venues to connect to; none unless they are the source.
pub(super) fn live_venues(config: &Config) -> Vec<LiveVenue> {
    let wanted = config.source.kind == SourceKind::Live;
    config.live.iter().filter(|_| wanted).map(crate::config::Live::connection).collect()
}

/// What a source's thread is given.
pub(super) struct SourceStart {
    pub(super) senders: Vec<FeedSender>,
    pub(super) listings: Arc<Listings>,
    pub(super) port: SourcePort,
    pub(super) now_ns: Clock,
    /// The books that were kept.
    pub(super) restored: Vec<Event>,
    pub(super) raw_log: Option<RawLog>,
}

/// Starts the source's thread; what it cannot read or connect to is told now.
pub(super) fn start_source(
    config: &Config,
    start: SourceStart,
) -> Result<(thread::JoinHandle<()>, SourceEnd), RunError> {
    let SourceStart { senders, listings, port, now_ns, restored, raw_log } = start;
    let directory = Arc::clone(listings.directory());
    let letters = config.data_dir.join("dead-letters.jsonl");
    let dead_letters = DeadLetters::append_to(&letters).map_err(RunError::DataDirectory)?;
    let origin = Origin::open(config, &now_ns)?;
    let batches = config.pubsub.is_wanted();
    let introduced = introductions(&live_venues(config), &listings, now_ns());
    let (tell, told) = oneshot::channel();
    let thread = spawn("source", move || {
        // Every feed stays open as long as the source runs; the first one gets the events.
        let Some(feed) = senders.first().cloned() else { return };
        let decoder = Decoder::new(listings);
        let decoder = if batches { decoder.with_leg(BATCH_VENUE, BATCH_CONN) } else { decoder };
        let mut outlet = Outlet { decoder, feed, dead_letters, raw_log, port, now_ns, events: Vec::new(), bytes: 0 };
        let end = match outlet.restore(restored).and_then(|()| outlet.introduce(introduced)) {
            Ok(()) => origin.serve(&directory, &mut outlet),
            Err(Ended) => Err(RunError::Ended),
        };
        drop(senders);
        if tell.send(end).is_err() {
            tracing::debug!("the source ended after the run");
        }
    })?;
    Ok((thread, told))
}

/// What makes the instruments that are connected to known before their venues say anything. The decoder tells of those
/// that cannot be named yet.
fn introductions(venues: &[LiveVenue], listings: &Listings, now_ns: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for venue in venues {
        for symbol in &venue.instruments {
            match listings.introduce(venue.venue, symbol, now_ns) {
                Ok((_, event)) => events.push(event),
                Err(reason) => tracing::warn!(%reason, "an instrument is not listed before its venue names it"),
            }
        }
    }
    events
}

/// Where frames come from.
enum Origin {
    /// Batches alone, which have a thread of their own.
    Batches,
    Simulator(SimulatorConfig),
    Captures(MergedCaptures, CaptureOptions),
    Live(Live),
}

impl Origin {
    /// What cannot be read or connected to is told before anybody is told that we are up.
    fn open(config: &Config, now_ns: &Clock) -> Result<Self, RunError> {
        match (config.source.kind, config.capture.venue) {
            (SourceKind::Sim, _) => Ok(Self::Simulator(simulator_config(config, now_ns()))),
            (SourceKind::Capture, None) => Err(RunError::NoVenue),
            (SourceKind::Capture, Some(venue)) => {
                let files = config.capture.files.clone();
                let captures = MergedCaptures::open(&files)?;
                let (speed, repeat) = (config.capture.speed, config.capture.repeat);
                Ok(Self::Captures(captures, CaptureOptions { files, venue, speed, repeat }))
            }
            (SourceKind::PubSub, _) => Ok(Self::Batches),
            (SourceKind::Live, _) => {
                let venues = live_venues(config);
                Ok(Self::Live(Live::start(&venues, LiveOptions::default(), Arc::clone(now_ns))?))
            }
        }
    }

    fn serve(self, directory: &Directory, outlet: &mut Outlet) -> Result<(), RunError> {
        match self {
            Self::Simulator(config) => {
                source::simulate(Simulator::new(config), directory, outlet).map_err(|_| RunError::Ended)
            }
            Self::Captures(captures, options) => {
                source::serve_captures(captures, &options, outlet).map_err(RunError::from)
            }
            Self::Batches => {
                source::idle(outlet);
                Ok(())
            }
            Self::Live(live) => source::connect(&live, directory, outlet).map_err(|_| RunError::Ended),
        }
    }
}

fn simulator_config(config: &Config, start_ns: u64) -> SimulatorConfig {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    SimulatorConfig {
        seed: config.sim.seed,
        pairs: count(config.sim.pairs),
        venues: config.sim.venues.clone(),
        updates_per_second: number(config.sim.updates_per_second),
        book_levels: config.sim.book_levels,
        start_ns,
        ..SimulatorConfig::default()
    }
}
