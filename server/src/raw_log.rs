//! The log of venue messages as they came, where it is configured: every message of a venue on its way to the store's
//! queue, beside the decoder.
//!
//! Never: a message that the store does not get; the source waits instead.

use connectors::{
    clickhouse::{SinkInput, rows::RawEvent},
    raw::{RawFrame, RawKind},
};
use foldhash::{HashMap, HashMapExt};
use market::Venue;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Messages on their way to the store.
#[derive(Debug)]
pub struct RawLog {
    queue: mpsc::Sender<SinkInput>,
    /// Place of each connection's last message.
    last: HashMap<Arc<str>, u64>,
}

impl RawLog {
    /// A log that ends in a sink's queue.
    #[must_use]
    pub fn new(queue: mpsc::Sender<SinkInput>) -> Self {
        Self { queue, last: HashMap::new() }
    }

    /// Keeps a frame of a capture, whose places are its own.
    pub fn keep_at(&mut self, venue: Venue, frame: &RawFrame, position: u64) {
        if matches!(frame.kind, RawKind::Ws | RawKind::Http) {
            let previous = self.last.insert(Arc::clone(&frame.conn), position).unwrap_or(position);
            let event = RawEvent::of_frame(venue, frame, position, previous);
            // A sink that ended is noticed where it is awaited.
            if self.queue.blocking_send(SinkInput::Raw(event)).is_err() {
                tracing::debug!("the store's sink ended before the source");
            }
        }
    }

    /// Keeps a frame that came now. Its place is its receive time, or the next one after the last, so that places rise
    /// over restarts.
    pub fn keep(&mut self, venue: Venue, frame: &RawFrame) {
        let after = self.last.get(&frame.conn).map_or(0, |last| last.saturating_add(1));
        self.keep_at(venue, frame, frame.ts_ns.max(after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::raw::RawPayload;

    fn frame(ts_ns: u64, kind: RawKind, conn: &str) -> RawFrame {
        RawFrame { ts_ns, kind, conn: conn.into(), url: None, raw: RawPayload::Text("{}".to_owned()) }
    }

    #[test]
    fn places_rise_on_each_connection_and_only_what_the_venue_said_is_kept() {
        let (queue, mut kept) = mpsc::channel(16);
        let mut log = RawLog::new(queue);
        log.keep(Venue::KrakenSpot, &frame(4, RawKind::Open, "a"));
        for (ts_ns, conn) in [(5, "a"), (5, "a"), (3, "a"), (9, "b"), (9, "a")] {
            log.keep(Venue::KrakenSpot, &frame(ts_ns, RawKind::Ws, conn));
        }
        drop(log);
        let mut places = Vec::new();
        while let Ok(SinkInput::Raw(event)) = kept.try_recv() {
            places.push((event.stream.to_string(), event.previous, event.position));
        }
        let place = |conn: &str, previous, position| (conn.to_owned(), previous, position);
        assert_eq!(places, [place("a", 5, 5), place("a", 5, 6), place("a", 6, 7), place("b", 9, 9), place("a", 7, 9)]);
    }
}
