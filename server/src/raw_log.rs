//! The log of venue messages as they came, where it is configured: every message of a venue on its way to the store's
//! queue, beside the decoder. A replay waits for the queue. A run does not: what it has no room for is left out and
//! counted, and the next message names the one before it, which shows the hole.
//!
//! Never: a message that a replay's store does not get; a wait in a run.

use connectors::{
    clickhouse::{SinkInput, SinkView, rows::RawEvent},
    raw::{RawFrame, RawKind},
};
use foldhash::{HashMap, HashMapExt};
use market::Venue;
use std::sync::Arc;
use tokio::sync::mpsc::{self, error::TrySendError};

/// Messages on their way to the store.
#[derive(Debug)]
pub struct RawLog {
    queue: mpsc::Sender<SinkInput>,
    /// Of a run: where it is counted what the queue did not take.
    view: Option<Arc<SinkView>>,
    /// Place of each connection's last message.
    last: HashMap<Arc<str>, u64>,
}

impl RawLog {
    /// The log of a replay, which waits for the sink's queue.
    #[must_use]
    pub fn new(queue: mpsc::Sender<SinkInput>) -> Self {
        Self { queue, view: None, last: HashMap::new() }
    }

    /// The log of a run, which waits for nothing.
    #[must_use]
    pub fn of_run(queue: mpsc::Sender<SinkInput>, view: Arc<SinkView>) -> Self {
        Self { view: Some(view), ..Self::new(queue) }
    }

    /// Keeps a frame of a capture, whose places are its own.
    pub fn keep_at(&mut self, venue: Venue, frame: &RawFrame, position: u64) {
        if matches!(frame.kind, RawKind::Ws | RawKind::Http) {
            let previous = self.last.insert(Arc::clone(&frame.conn), position).unwrap_or(position);
            let event = RawEvent::of_frame(venue, frame, position, previous);
            self.give(SinkInput::Raw(event));
        }
    }

    fn give(&self, message: SinkInput) {
        let ended = match &self.view {
            None => self.queue.blocking_send(message).is_err(),
            Some(view) => match self.queue.try_send(message) {
                Ok(()) => false,
                Err(TrySendError::Full(_)) => {
                    view.refuse_raw();
                    false
                }
                Err(TrySendError::Closed(_)) => true,
            },
        };
        // It is noticed where it is awaited.
        if ended {
            tracing::debug!("the store's sink ended before the source");
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
    #[test]
    fn a_run_does_not_wait_and_the_next_message_shows_what_is_missing() {
        let (queue, mut kept) = mpsc::channel(1);
        let view = Arc::new(SinkView::default());
        let mut log = RawLog::of_run(queue, Arc::clone(&view));
        for ts_ns in [5, 6, 7] {
            log.keep(Venue::KrakenSpot, &frame(ts_ns, RawKind::Ws, "a"));
        }
        assert_eq!(view.counters().raw_left_out, 2);
        assert!(matches!(kept.try_recv(), Ok(SinkInput::Raw(event)) if event.position == 5));
        log.keep(Venue::KrakenSpot, &frame(8, RawKind::Ws, "a"));
        assert!(matches!(kept.try_recv(), Ok(SinkInput::Raw(event)) if (event.previous, event.position) == (7, 8)));
    }
}
