//! A feed under test: messages in, events out; and what every feed must survive.
//!
//! Never: anything outside of tests.

use super::{Arrival, Undecodable, VenueFeed, listings::Listings, open};
use crate::raw::{RawFrame, RawKind, RawPayload};
use market::{Body, Event, LegId, Venue};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use std::sync::Arc;

/// A plausible receive time to begin with.
const START_NS: u64 = 1_700_000_000_000_000_000;

/// One feed and all that it said.
pub(crate) struct Wire {
    pub(crate) feed: Box<dyn VenueFeed>,
    pub(crate) events: Vec<Event>,
    pub(crate) now_ns: u64,
    position: u64,
    read: usize,
}

impl Wire {
    pub(crate) fn new(venue: Venue) -> Self {
        Self::listed(venue, Listings::new(Arc::default()))
    }

    pub(crate) fn listed(venue: Venue, listings: Listings) -> Self {
        let feed = open(venue, Arc::new(listings));
        Self { feed, events: Vec::new(), now_ns: START_NS, position: 0, read: 0 }
    }

    /// A message on a leg.
    pub(crate) fn say(&mut self, leg: u16, raw: &str) -> Result<(), Undecodable> {
        self.frame(leg, RawKind::Ws, raw)
    }

    /// A connection begins or ends.
    pub(crate) fn connection(&mut self, leg: u16, kind: RawKind) {
        self.frame(leg, kind, "").unwrap();
    }

    fn frame(&mut self, leg: u16, kind: RawKind, raw: &str) -> Result<(), Undecodable> {
        self.position += 1;
        let raw = RawPayload::Text(raw.into());
        let frame = RawFrame { ts_ns: self.now_ns, kind, conn: "0".into(), url: None, raw };
        self.feed.decode(Arrival { frame: &frame, position: self.position, leg: LegId(leg) }, &mut self.events)
    }

    /// The kinds of the events since the last time.
    pub(crate) fn kinds(&mut self) -> Vec<&'static str> {
        let new = self.events.get(self.read..).unwrap_or_default().iter().map(|event| kind(&event.body)).collect();
        self.read = self.events.len();
        new
    }

    /// The last event's ticks as text, with the steps' digits: a snapshot's, or a delta's changes.
    pub(crate) fn last_levels(&self) -> Vec<(market::Side, String, String)> {
        let (scale, ticks) = match self.events.last().map(|event| &event.body) {
            Some(Body::Snapshot(snapshot)) => (snapshot.scale, &snapshot.ticks),
            Some(Body::Delta(delta)) => (delta.scale, &delta.changes),
            other => panic!("{other:?}"),
        };
        let text = |tick: &market::TickChange| {
            (tick.side, scale.price_text(tick.key.tick_index), scale.quantity_text(tick.reserves))
        };
        ticks.iter().map(text).collect()
    }

    /// Every trade so far: its id, and its place in the order.
    pub(crate) fn trades(&self) -> Vec<(String, u64)> {
        let trade = |event: &Event| match &event.body {
            Body::Trade { trade, .. } => Some((trade.id.to_string(), trade.order)),
            _ => None,
        };
        self.events.iter().filter_map(trade).collect()
    }
}

fn kind(body: &Body) -> &'static str {
    match body {
        Body::Listing(_) => "listing",
        Body::Snapshot(_) => "snapshot",
        Body::Delta(_) => "delta",
        Body::Trade { .. } => "trade",
        Body::Broken(_) => "broken",
        Body::Halted => "halted",
        Body::Resumed => "resumed",
        _ => "other",
    }
}

/// What is done to a frame.
#[derive(Clone, Debug)]
enum Damage {
    None,
    Replaced(usize, u8),
    Inserted(usize, u8),
    Cut(usize, usize),
    Text(String),
    Connection(bool),
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = prop_oneof![any::<u8>(), Just(b'"'), Just(b'-'), Just(b'9'), Just(b'0'), Just(b'['), Just(b'}')];
    prop_oneof![
        4 => Just(Damage::None),
        4 => (any::<usize>(), byte.clone()).prop_map(|(at, byte)| Damage::Replaced(at, byte)),
        2 => (any::<usize>(), byte).prop_map(|(at, byte)| Damage::Inserted(at, byte)),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(at, bytes)| Damage::Cut(at, bytes)),
        1 => any::<String>().prop_map(Damage::Text),
        1 => any::<bool>().prop_map(Damage::Connection),
    ]
}

fn damaged(frame: &str, damage: &Damage) -> String {
    let mut bytes = frame.as_bytes().to_vec();
    match damage {
        Damage::Replaced(at, byte) => bytes[at % frame.len()] = *byte,
        Damage::Inserted(at, byte) => bytes.insert(at % frame.len(), *byte),
        Damage::Cut(at, count) => {
            let at = at % frame.len();
            bytes.drain(at..at + count % (frame.len() - at));
        }
        Damage::Text(text) => return text.clone(),
        Damage::None | Damage::Connection(_) => {}
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whatever comes on two legs, the feed answers with events or errors; and every frame is counted.
pub(crate) fn survives(venue: Venue, frames: &[&str]) {
    let step = (0..2_u16, 0..frames.len(), damage(), 0..400_000_000_u64);
    let config = Config { cases: 128, failure_persistence: None, ..Config::default() };
    let survived = TestRunner::new(config).run(&proptest::collection::vec(step, 1..60), |steps| {
        let mut wire = Wire::new(venue);
        let (mut told, mut refused) = (0, 0);
        for (leg, at, damage, after_ns) in &steps {
            wire.now_ns += after_ns;
            told += 1;
            match damage {
                Damage::Connection(true) => wire.connection(*leg, RawKind::Open),
                Damage::Connection(false) => wire.connection(*leg, RawKind::Close),
                damage => refused += u64::from(wire.say(*leg, &damaged(frames[*at], damage)).is_err()),
            }
            wire.feed.look_after(LegId(*leg), wire.now_ns);
        }
        let counts = wire.feed.counts();
        prop_assert_eq!((counts.frames, counts.undecodable), (told, refused));
        wire.feed.repairs();
        prop_assert!(wire.feed.repairs().is_empty());
        Ok(())
    });
    survived.unwrap();
}
