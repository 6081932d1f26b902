//! A connector as far as the lanes can tell: one sign of life per leg and a while, the venue's ids where it has them,
//! and otherwise the order of arrival on one active leg, whose content is checked as a checksum would.
//!
//! Never: a decision about order, which is the guard's.

use super::{
    agenda::Said,
    setup::{Leg, Market, MarketKind},
    truth::{Position, SCALE, Truth},
};
use market::{Body, Delta, Sequence, Snapshot, Window, guard::BreakReason};
use std::collections::BTreeMap;

/// As the decoders do: one sign of life per leg in this time.
const HEARD_EVERY_NS: u64 = 200_000_000;

/// An instrument as the connector follows it.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Without ids: the leg whose book is shown, while one is known.
    active: Option<Leg>,
    /// Without ids: where each leg's own book stands, while it is known to be right.
    verified: BTreeMap<Leg, Position>,
    /// A snapshot was asked for.
    fetching: bool,
}

/// What came of a message.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The leg's sign of life is due.
    pub(super) alive: bool,
    /// The place in the venue's history that the message told of.
    pub(super) place: Option<(Market, Position)>,
    /// For the instrument's lane.
    pub(super) told: Option<Told>,
    /// The leg's book of this instrument is wrong: it must be subscribed to anew.
    pub(super) repair: Option<Market>,
}

/// An event for an instrument's lane.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) market: Market,
    pub(super) leg: Leg,
    pub(super) body: Body,
    /// Without ids: the number of its arrival, and the place that it stands for.
    pub(super) arrival: Option<(u64, Position)>,
}

/// The connector of one process.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    position: u64,
    streams: Vec<Stream>,
    heard_ns: Vec<Option<u64>>,
}

impl Connector {
    pub(super) fn new(markets: usize, legs: usize) -> Self {
        Self { position: 0, streams: vec![Stream::default(); markets], heard_ns: vec![None; legs] }
    }

    /// The number of the last arrival.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Takes a message of a leg.
    pub(super) fn hear(&mut self, now_ns: u64, leg: Leg, said: &Said, truths: &[Truth]) -> Heard {
        self.position += 1;
        let mut heard = Heard::default();
        if let Some(last) = self.heard_ns.get_mut(leg)
            && last.is_none_or(|last| now_ns >= last.saturating_add(HEARD_EVERY_NS))
        {
            *last = Some(now_ns);
            heard.alive = true;
        }
        let (market, place) = match said {
            Said::Heartbeat => return heard,
            Said::Changed(market, changed) => (*market, changed.to),
            Said::Whole(market, whole) => (*market, whole.at),
        };
        heard.place = Some((market, place));
        let Some(truth) = truths.get(market) else { return heard };
        match truth.kind {
            MarketKind::Numbered { .. } => {
                heard.told = numbered(said).map(|body| Told { market, leg, body, arrival: None });
            }
            MarketKind::Window(depth) => self.arrived(leg, said, truth, Window::Best(depth), &mut heard),
        }
        heard
    }

    /// Each leg has a book of its own, held to its content as to a checksum; the active leg's is told.
    fn arrived(&mut self, leg: Leg, said: &Said, truth: &Truth, window: Window, heard: &mut Heard) {
        let Some((market, place)) = heard.place else { return };
        let Some(stream) = self.streams.get_mut(market) else { return };
        if let Said::Changed(_, changed) = said {
            let Some(held) = stream.verified.get(&leg) else { return };
            if Some(truth.content_with(*held, &changed.changes)) != truth.content_at(place) {
                heard.repair = Some(market);
                heard.told = self.lost(leg, market, truth, BreakReason::Checksum);
                return;
            }
        }
        stream.verified.insert(leg, place);
        if *stream.active.get_or_insert(leg) != leg {
            return;
        }
        let (sequence, scale) = (Sequence::Arrival(self.position), SCALE);
        let body = match said {
            Said::Whole(_, whole) => Body::Snapshot(Snapshot { sequence, scale, ticks: whole.ticks.clone(), window }),
            Said::Changed(_, changed) => {
                Body::Delta(Delta { sequence, scale, changes: changed.changes.clone(), window, places: Vec::new() })
            }
            Said::Heartbeat => return,
        };
        heard.told = Some(Told { market, leg, body, arrival: Some((self.position, place)) });
    }

    /// A leg's connection begins or ends: its books are those of no connection.
    pub(super) fn reconnected(&mut self, leg: Leg, truths: &[Truth]) -> Vec<Told> {
        self.position += 1;
        if let Some(heard_ns) = self.heard_ns.get_mut(leg) {
            *heard_ns = None;
        }
        let markets = 0..self.streams.len();
        markets.filter_map(|market| self.lost(leg, market, truths.get(market)?, BreakReason::Unsubscribed)).collect()
    }

    /// A leg's book counts no more. If it was the shown one, a leg that stands by with a right one takes over.
    fn lost(&mut self, leg: Leg, market: Market, truth: &Truth, reason: BreakReason) -> Option<Told> {
        let stream = self.streams.get_mut(market)?;
        stream.verified.remove(&leg);
        stream.active.take_if(|active| *active == leg)?;
        let standby = stream.verified.first_key_value().map(|(leg, place)| (*leg, *place));
        stream.active = standby.map(|(leg, _)| leg);
        let (Some((leg, place)), MarketKind::Window(depth)) = (standby, truth.kind) else {
            return Some(Told { market, leg, body: Body::Broken(reason), arrival: None });
        };
        let (sequence, ticks) = (Sequence::Arrival(self.position), truth.ticks_at(place));
        let body = Body::Snapshot(Snapshot { sequence, scale: SCALE, ticks, window: Window::Best(depth) });
        Some(Told { market, leg, body, arrival: Some((self.position, place)) })
    }

    /// The leg that an instrument without ids is followed on.
    pub(super) fn active(&self, market: Market) -> Option<Leg> {
        self.streams.get(market)?.active
    }

    /// Whether a snapshot may be asked for: one question at a time.
    pub(super) fn asks(&mut self, market: Market) -> bool {
        self.streams.get_mut(market).is_some_and(|stream| !std::mem::replace(&mut stream.fetching, true))
    }

    /// The question is answered, or given up.
    pub(super) fn asked(&mut self, market: Market) {
        if let Some(stream) = self.streams.get_mut(market) {
            stream.fetching = false;
        }
    }
}

/// With ids, a message says for itself where it belongs.
pub(super) fn numbered(said: &Said) -> Option<Body> {
    let (scale, window) = (SCALE, Window::Whole);
    match said {
        Said::Changed(_, changed) => {
            let sequence = Sequence::Venue { first: changed.first, last: changed.last };
            Some(Body::Delta(Delta { sequence, scale, changes: changed.changes.clone(), window, places: Vec::new() }))
        }
        Said::Whole(_, whole) => {
            let sequence = Sequence::Venue { first: whole.id, last: whole.id };
            Some(Body::Snapshot(Snapshot { sequence, scale, ticks: whole.ticks.clone(), window }))
        }
        Said::Heartbeat => None,
    }
}
