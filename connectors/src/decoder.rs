//! From raw frames of any venue to events: legs by connection, their opening and end, signs of life, and dead letters.
//!
//! Never: a frame dropped without a count.

use crate::{
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::{self, Arrival, FeedCounts, Undecodable, VenueFeed, listings::Listings},
};
use market::{Body, Event, LegId, Venue};
use serde::de::IgnoredAny;
use std::sync::Arc;

/// At most one sign of life per leg in this time; a tenth of the least silence that makes a feed stale, so the
/// detection is that much late at most.
const HEARD_EVERY_NS: u64 = 200_000_000;

/// A leg that ticks is looked after this often: whether one of its instruments has fallen silent.
const LOOK_AFTER_EVERY_NS: u64 = 500_000_000;
/// A leg without any frame for so long stood still as a whole.
const PAUSE_NS: u64 = 1_500_000_000;
/// After that nothing of it counts as silent for so long.
const RECOVERY_NS: u64 = 5_000_000_000;

#[derive(Debug)]
struct Leg {
    conn: Arc<str>,
    venue: Venue,
    heard_ns: Option<u64>,
    /// Messages that came on it.
    messages: u64,
    /// When its last frame came.
    ticked_ns: u64,
    /// When its instruments are looked after next.
    look_after_ns: u64,
}

impl Leg {
    fn new(venue: Venue, conn: Arc<str>) -> Self {
        Self { conn, venue, heard_ns: None, messages: 0, ticked_ns: 0, look_after_ns: 0 }
    }

    /// A frame came; whether the leg's instruments are to be looked after now.
    fn ticks(&mut self, now_ns: u64) -> bool {
        let paused = now_ns >= self.ticked_ns.saturating_add(PAUSE_NS);
        self.ticked_ns = now_ns;
        if paused {
            // What came meanwhile waits behind this frame; before that is read nobody was silent.
            self.look_after_ns = now_ns.saturating_add(RECOVERY_NS);
            return false;
        }
        let due = now_ns >= self.look_after_ns;
        if due {
            self.look_after_ns = now_ns.saturating_add(LOOK_AFTER_EVERY_NS);
        }
        due
    }
}

/// One instrument's book on one connection is wrong: the connection should subscribe to it anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The venue.
    pub venue: Venue,
    /// The connection.
    pub conn: Arc<str>,
    /// The venue's own spelling.
    pub symbol: Box<str>,
}

/// The decoders of all venues of a source.
pub struct Decoder {
    listings: Arc<Listings>,
    feeds: Vec<(Venue, Box<dyn VenueFeed>)>,
    legs: Vec<Leg>,
    /// Legs that carried something that was no text of their venue, and have nothing to go on with.
    torn: Vec<LegId>,
}

impl Decoder {
    /// A decoder that lists its instruments there.
    #[must_use]
    pub fn new(listings: Arc<Listings>) -> Self {
        Self { listings, feeds: Vec::new(), legs: Vec::new(), torn: Vec::new() }
    }

    /// The same decoder with a leg that it never sees a frame of: what comes on it is decoded elsewhere.
    #[must_use]
    pub fn with_leg(mut self, venue: Venue, conn: &str) -> Self {
        self.legs.push(Leg::new(venue, conn.into()));
        self
    }

    /// Decodes one frame, pushing its events to `out`.
    ///
    /// # Errors
    /// [`Undecodable`]: the frame is a dead letter. Events pushed before it still hold.
    pub fn decode(
        &mut self,
        venue: Venue,
        frame: &RawFrame,
        position: u64,
        out: &mut Vec<Event>,
    ) -> Result<(), Undecodable> {
        let leg = self.leg(venue, frame);
        self.life(leg, frame, out);
        let at = match self.feeds.iter().position(|(known, _)| *known == venue) {
            Some(at) => at,
            None => {
                self.feeds.push((venue, venue_feed::open(venue, Arc::clone(&self.listings))));
                self.feeds.len() - 1
            }
        };
        let Some((_, feed)) = self.feeds.get_mut(at) else { return Ok(()) };
        let arrival = Arrival { frame, position, leg };
        let decoded = feed.decode(arrival, out);
        if decoded.is_err() && is_torn(frame) && feed.torn(arrival, out) && !self.torn.contains(&leg) {
            self.torn.push(leg);
        }
        match frame.kind {
            RawKind::Ws | RawKind::Alive => {
                let due = self.legs.get_mut(usize::from(leg.0)).is_some_and(|ticking| ticking.ticks(frame.ts_ns));
                if due {
                    feed.look_after(leg, frame.ts_ns);
                }
            }
            RawKind::Open | RawKind::Close => self.torn.retain(|known| *known != leg),
            RawKind::Send | RawKind::Http => {}
        }
        decoded
    }

    /// Legs are the connections in the order of their first frame; one that is opened again under its name is the same.
    fn leg(&mut self, venue: Venue, frame: &RawFrame) -> LegId {
        let at = match self.legs.iter().position(|leg| leg.conn == frame.conn && leg.venue == venue) {
            Some(at) => at,
            None => {
                self.legs.push(Leg::new(venue, Arc::clone(&frame.conn)));
                self.legs.len() - 1
            }
        };
        LegId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    /// What a frame says about its leg's life, whatever else it says.
    fn life(&mut self, id: LegId, frame: &RawFrame, out: &mut Vec<Event>) {
        let Some(leg) = self.legs.get_mut(usize::from(id.0)) else { return };
        leg.messages += u64::from(frame.kind == RawKind::Ws);
        let body = match frame.kind {
            RawKind::Open => Body::LegUp,
            RawKind::Close => Body::LegDown,
            RawKind::Ws | RawKind::Alive => Body::LegHeard,
            RawKind::Send | RawKind::Http => return,
        };
        if body == Body::LegHeard {
            if leg.heard_ns.is_some_and(|heard| frame.ts_ns < heard.saturating_add(HEARD_EVERY_NS)) {
                return;
            }
            leg.heard_ns = Some(frame.ts_ns);
        } else {
            // The first frame of the next connection is heard at once.
            leg.heard_ns = None;
        }
        out.push(Event::of_leg(0, id, frame.ts_ns, body));
    }

    /// The name of the connection that an instrument's shown book came on last; none where all legs are merged.
    #[must_use]
    pub fn active(&self, venue: Venue, symbol: &str) -> Option<&Arc<str>> {
        let (_, feed) = self.feeds.iter().find(|(known, _)| *known == venue)?;
        self.legs.get(usize::from(feed.active(symbol)?.0)).map(|leg| &leg.conn)
    }

    /// Takes the books of single connections that broke and need a subscription anew.
    pub fn repairs(&mut self) -> Vec<Repair> {
        let legs = &self.legs;
        let conn = |leg: LegId| legs.get(usize::from(leg.0)).map(|leg| Arc::clone(&leg.conn));
        let of = |(venue, feed): &mut (Venue, Box<dyn VenueFeed>)| {
            feed.repairs().into_iter().map(|one| (*venue, one)).collect()
        };
        let all = self.feeds.iter_mut().flat_map::<Vec<_>, _>(of);
        all.filter_map(|(venue, (leg, symbol))| Some(Repair { venue, conn: conn(leg)?, symbol })).collect()
    }

    /// Takes the connections that missed a message and must be made anew.
    pub fn reconnects(&mut self) -> Vec<(Venue, Arc<str>)> {
        let mut missed = std::mem::take(&mut self.torn);
        missed.extend(self.feeds.iter_mut().flat_map(|(_, feed)| feed.reconnects()));
        let of = |leg: LegId| self.legs.get(usize::from(leg.0)).map(|leg| (leg.venue, Arc::clone(&leg.conn)));
        missed.into_iter().filter_map(of).collect()
    }

    /// Every leg so far, by number: its venue and its connection's name.
    pub fn legs(&self) -> impl Iterator<Item = (Venue, &Arc<str>)> {
        self.legs.iter().map(|leg| (leg.venue, &leg.conn))
    }

    /// How many messages came on every leg so far, by number.
    pub fn messages(&self) -> impl Iterator<Item = u64> + '_ {
        self.legs.iter().map(|leg| leg.messages)
    }

    /// Counts per venue.
    pub fn counts(&self) -> impl Iterator<Item = (Venue, FeedCounts)> + '_ {
        self.feeds.iter().map(|(venue, feed)| (*venue, feed.counts()))
    }
}

/// Whether a message is no text of any venue: broken off, noise, or binary.
fn is_torn(frame: &RawFrame) -> bool {
    match (&frame.raw, frame.kind) {
        (RawPayload::Binary(_), RawKind::Ws) => true,
        (RawPayload::Text(text), RawKind::Ws) => serde_json::from_str::<IgnoredAny>(text).is_err(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ts_ns: u64, kind: RawKind, conn: &str, raw: &str) -> RawFrame {
        RawFrame { ts_ns, kind, conn: conn.into(), url: None, raw: RawPayload::Text(raw.into()) }
    }

    #[test]
    fn what_is_no_text_of_the_venue_ends_the_books_of_its_leg_alone() {
        let mut decoder = Decoder::new(Arc::new(Listings::new(Arc::default())));
        let snapshot = r#"{"type":"snapshot","product_id":"BTC-USD","bids":[["1","1"]],"asks":[["2","1"]]}"#;
        let mut out = Vec::new();
        for conn in ["coinbase/a", "coinbase/b"] {
            decoder.decode(Venue::Coinbase, &frame(1, RawKind::Ws, conn, snapshot), 1, &mut out).unwrap();
        }
        out.clear();
        decoder
            .decode(Venue::Coinbase, &frame(2, RawKind::Ws, "coinbase/a", r#"{"type":"l2up"#), 2, &mut out)
            .unwrap_err();
        let taken = out.iter().any(|event| event.leg == LegId(1) && matches!(event.body, Body::Snapshot(_)));
        assert!(taken, "the other leg takes over: {out:?}");
        assert_eq!(decoder.reconnects(), [(Venue::Coinbase, "coinbase/a".into())]);
        assert!(decoder.reconnects().is_empty(), "told once");
        let odd = frame(3, RawKind::Ws, "coinbase/b", r#"{"type":7}"#);
        drop(decoder.decode(Venue::Coinbase, &odd, 3, &mut out));
        assert!(decoder.reconnects().is_empty(), "a message of an unknown shape is none that was torn");
    }

    #[test]
    fn a_leg_keeps_its_number_over_reconnects_and_pings_are_life() {
        let mut decoder = Decoder::new(Arc::new(Listings::new(Arc::default())));
        let mut out = Vec::new();
        let heartbeat = r#"{"channel":"heartbeat"}"#;
        let second = 1_000_000_000;
        for (ts_ns, kind, conn, raw) in [
            (second, RawKind::Open, "kraken_spot/a", ""),
            (second, RawKind::Open, "kraken_spot/b", ""),
            (second + 1, RawKind::Ws, "kraken_spot/a", heartbeat),
            (second + 2, RawKind::Ws, "kraken_spot/a", heartbeat),
            (2 * second, RawKind::Alive, "kraken_spot/a", ""),
            (2 * second + 1, RawKind::Close, "kraken_spot/a", ""),
            (2 * second + 2, RawKind::Open, "kraken_spot/a", ""),
            (2 * second + 3, RawKind::Ws, "kraken_spot/a", heartbeat),
        ] {
            decoder.decode(Venue::KrakenSpot, &frame(ts_ns, kind, conn, raw), 1, &mut out).unwrap();
        }
        let told: Vec<_> = out.iter().map(|event| (event.leg.0, &event.body)).collect();
        let right = [
            (0, &Body::LegUp),
            (1, &Body::LegUp),
            (0, &Body::LegHeard),
            (0, &Body::LegHeard),
            (0, &Body::LegDown),
            (0, &Body::LegUp),
            (0, &Body::LegHeard),
        ];
        assert_eq!(told, right);
    }
}
