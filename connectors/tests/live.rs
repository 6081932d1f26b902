//! Live connections on real sockets, against venues written by hand for each test and against the venue simulator.
//!
//! Never: an address beyond loopback.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

#[path = "live/binance_spot.rs"]
mod binance_spot;
#[path = "live/bitfinex.rs"]
mod bitfinex;
#[path = "live/coinbase.rs"]
mod coinbase;
#[path = "live/kraken_spot.rs"]
mod kraken_spot;
#[path = "live/pressure.rs"]
mod pressure;
#[path = "live/simulated.rs"]
mod simulated;
#[path = "live/venue.rs"]
mod venue;

use connectors::{
    decoder::Decoder,
    live::{Live, LiveOptions, LiveVenue},
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::listings::Listings,
};
use market::{Body, Directory, Event, Venue};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Nothing that a test waits for takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

fn unix_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

fn live_venue(venue: Venue, instruments: &[&str], legs: usize, socket_url: String, rest_url: String) -> LiveVenue {
    LiveVenue {
        venue,
        dialect: None,
        instruments: instruments.iter().map(|symbol| (*symbol).into()).collect(),
        legs,
        socket_url: Some(socket_url),
        rest_url: Some(rest_url),
    }
}

/// Connections with the source's end of them: frames and what the decoder made of them.
struct Source {
    live: Live,
    directory: Arc<Directory>,
    decoder: Decoder,
    position: u64,
    frames: Vec<RawFrame>,
    events: Vec<Event>,
    /// The test sends what cannot be decoded.
    undecodable_expected: bool,
}

impl Source {
    fn start(venue: LiveVenue, options: LiveOptions) -> Self {
        let live = Live::start(&[venue], options, Arc::new(unix_ns)).unwrap();
        let directory = Arc::<Directory>::default();
        let decoder = Decoder::new(Arc::new(Listings::new(Arc::clone(&directory))));
        let (frames, events) = (Vec::new(), Vec::new());
        Self { live, directory, decoder, position: 0, frames, events, undecodable_expected: false }
    }

    /// Takes what came, as the source's thread does.
    fn take(&mut self, wait: Duration) {
        let mut taken = Vec::new();
        let running = tokio::task::block_in_place(|| self.live.take(wait, &mut taken));
        assert!(running, "the connections ended");
        for (venue, frame) in taken {
            self.position += 1;
            let decoded = self.decoder.decode(venue, &frame, self.position, &mut self.events);
            assert!(decoded.is_ok() || self.undecodable_expected, "{decoded:?}");
            self.frames.push(frame);
        }
        for (venue, conn) in self.decoder.reconnects() {
            self.live.reconnect(venue, &conn);
        }
        for repair in self.decoder.repairs() {
            self.live.repair(repair.venue, &repair.conn, &repair.symbol);
        }
    }

    /// Takes until there is what is waited for.
    fn until(&mut self, what: &str, there: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !there(self) {
            assert!(started.elapsed() < PATIENCE, "{what} did not come: {:?}, {:?}", self.kinds(), self.counts());
            self.take(Duration::from_millis(50));
        }
    }

    fn kinds(&self) -> Vec<RawKind> {
        self.frames.iter().map(|frame| frame.kind).filter(|kind| *kind != RawKind::Alive).collect()
    }

    fn texts(&self, kind: RawKind) -> Vec<&str> {
        let of_kind = self.frames.iter().filter(|frame| frame.kind == kind);
        let text = of_kind.map(|frame| match &frame.raw {
            RawPayload::Text(text) => &**text,
            RawPayload::Binary(_) => panic!("{frame:?}"),
        });
        text.collect()
    }

    fn bodies(&self, is: impl Fn(&Body) -> bool) -> usize {
        self.events.iter().filter(|event| is(&event.body)).count()
    }

    fn snapshots(&self) -> usize {
        self.bodies(|body| matches!(body, Body::Snapshot(_)))
    }

    fn deltas(&self) -> usize {
        self.bodies(|body| matches!(body, Body::Delta(_)))
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.live.numbers()[0].values().into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn count(&self, name: &str) -> u64 {
        let numbers = self.live.numbers();
        numbers[0].values().into_iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn legs_open(&self) -> u64 {
        self.live.numbers()[0].legs_open.load(Relaxed)
    }
}
