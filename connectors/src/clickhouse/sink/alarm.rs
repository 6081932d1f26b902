//! What is said in the log of a store that does not take what comes: once for each episode, and again every minute.
//!
//! Never: a line for every attempt.

use crate::clickhouse::{trouble::StoreState, writer::Counters};
use std::time::Duration;
use tokio::time::Instant;

/// How often it is said again while it lasts.
pub const AGAIN_EVERY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// The worst state of this episode.
    worst: StoreState,
    /// This episode was said, so its end will be.
    open: bool,
    said: Option<Instant>,
    raw_left_out: u64,
    raw_said: Option<Instant>,
}

impl Alarm {
    /// Looks at the counters; says what is to be said.
    pub(super) fn look(&mut self, now: Instant, counters: &Counters) {
        if self.is_due(now, counters.state) {
            say(counters);
        }
        if self.raw_is_due(now, counters.raw_left_out) {
            tracing::warn!(
                messages = counters.raw_left_out,
                "messages of venues are left out of raw_events: the store is behind"
            );
        }
    }

    /// Whether the state is to be said: an episode begins or ends, its disk is found full, or it lasts. One that begins within
    /// a minute of the last word is not said, nor is its end: a store that is just too slow is behind many times a second.
    fn is_due(&mut self, now: Instant, state: StoreState) -> bool {
        if state == StoreState::Ready {
            self.worst = state;
            return std::mem::replace(&mut self.open, false);
        }
        let lasts = self.said.is_none_or(|said| now.duration_since(said) >= AGAIN_EVERY);
        let found_full = state == StoreState::Full && self.worst < state;
        self.worst = self.worst.max(state);
        if lasts || found_full {
            self.said = Some(now);
            self.open = true;
        }
        lasts || found_full
    }

    fn raw_is_due(&mut self, now: Instant, left_out: u64) -> bool {
        let more = std::mem::replace(&mut self.raw_left_out, left_out) < left_out;
        let due = more && self.raw_said.is_none_or(|said| now.duration_since(said) >= AGAIN_EVERY);
        if due {
            self.raw_said = Some(now);
        }
        due
    }
}

fn say(counters: &Counters) {
    let lag_s = counters.lag_ns / 1_000_000_000;
    let (pending_bytes, left_out) = (counters.pending_bytes, counters.changes_left_out);
    let last_error = counters.last_error.as_deref().unwrap_or_default();
    match counters.state {
        StoreState::Full => tracing::error!(
            pending_bytes,
            lag_s,
            left_out,
            last_error,
            "the store's disk is full: nothing is acknowledged or kept until there is room; terminals are served"
        ),
        StoreState::Failing => {
            tracing::warn!(pending_bytes, lag_s, left_out, last_error, "the store takes nothing; it is tried again");
        }
        StoreState::Behind => {
            tracing::warn!(
                pending_bytes,
                lag_s,
                left_out,
                "the store is behind: of what waits only the newest is kept"
            );
        }
        StoreState::Ready => tracing::info!(left_out, "the store takes everything again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_is_said_once_then_every_minute_and_its_end_once() {
        let mut alarm = Alarm::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        for (ms, state, due) in [
            (0, StoreState::Ready, false),
            (1, StoreState::Behind, true),
            (2, StoreState::Failing, false),
            (3, StoreState::Full, true),
            (4, StoreState::Failing, false),
            (5, StoreState::Full, false),
            (60_002, StoreState::Full, false),
            (60_003, StoreState::Full, true),
            (60_004, StoreState::Ready, true),
            (60_005, StoreState::Ready, false),
            (60_006, StoreState::Full, true),
            (60_007, StoreState::Ready, true),
            (60_008, StoreState::Behind, false),
            (60_009, StoreState::Ready, false),
            (120_006, StoreState::Behind, true),
        ] {
            assert_eq!(alarm.is_due(at(ms), state), due, "{ms} ms: {state:?}");
        }
    }
}
