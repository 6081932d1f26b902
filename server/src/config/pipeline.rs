//! `[pipeline]`: lanes, cuts and frames, and how long a fault may last before it is named.
//!
//! Never: a wait without a bound.

use super::error::Problems;
use market::feed::SILENT_INTERVALS;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// From the connectors to the frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pipeline {
    /// Dataflow workers, which are threads; 1 to 64.
    pub workers: usize,
    /// Cuts in a frame; 1 to 100. Must divide the frame into whole microseconds.
    pub cuts_per_frame: u64,
    /// Milliseconds of a frame; 1 to 10,000.
    pub frame_ms: u64,
    /// Bytes injected and not yet behind the frontier; 1,048,576 to 17,179,869,184. Beyond it ingest stops reading.
    pub in_flight_bytes: usize,
    /// Milliseconds of cut time that updates wait behind a hole; 0 to 60,000. Then the instrument is GAPPED.
    pub hole_ms: u64,
    /// Milliseconds of cut time that a snapshot waits for a delta that bridges it; 0 to 60,000. Then it is shown without,
    /// unless a delta contradicted it.
    pub bridge_ms: u64,
    /// Bytes of updates held behind a hole, per instrument; 4,096 to 1,073,741,824. Then the instrument is GAPPED.
    pub held_bytes: usize,
    /// Milliseconds of silence, heartbeats included, after which a connection's instruments are STALE; 100 to 600,000.
    pub silent_ms: u64,
    /// Times its median interval that an instrument may be silent, while its connection ticks, before it is STALE; 0 to
    /// 10,000, 0 = never. Not before `silent_ms`, and not before 32 intervals are known.
    pub silent_intervals: u64,
    /// Milliseconds that the frontier may lag before an alarm; 10 to 600,000.
    pub frontier_alarm_ms: u64,
    /// Milliseconds that the frontier may lag before the process ends; above the alarm's, to 3,600,000.
    pub frontier_exit_ms: u64,
    /// Milliseconds from one checkpoint of the books to the next; 0 to 3,600,000, 0 = none, at the end neither.
    pub checkpoint_ms: u64,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            workers: 1,
            cuts_per_frame: 10,
            frame_ms: 40,
            in_flight_bytes: 256 << 20,
            hole_ms: 250,
            bridge_ms: 250,
            held_bytes: 4 << 20,
            silent_ms: 2000,
            silent_intervals: SILENT_INTERVALS,
            frontier_alarm_ms: 2000,
            frontier_exit_ms: 30_000,
            checkpoint_ms: 10_000,
        }
    }
}

impl Pipeline {
    /// The length of one cut: 4 ms by default.
    #[must_use]
    pub fn cut(&self) -> Duration {
        Duration::from_micros(self.frame_ms.saturating_mul(1000) / self.cuts_per_frame.max(1))
    }

    /// Time from one checkpoint to the next; none if no checkpoints are wanted.
    #[must_use]
    pub fn checkpoint_every(&self) -> Option<Duration> {
        (self.checkpoint_ms > 0).then(|| Duration::from_millis(self.checkpoint_ms))
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        problems.range("pipeline.workers", self.workers, 1..=64);
        problems.range("pipeline.cuts_per_frame", self.cuts_per_frame, 1..=100);
        problems.range("pipeline.frame_ms", self.frame_ms, 1..=10_000);
        let divides =
            self.cuts_per_frame == 0 || self.frame_ms.saturating_mul(1000).is_multiple_of(self.cuts_per_frame);
        problems.unless(
            divides,
            "pipeline.cuts_per_frame",
            &self.cuts_per_frame,
            &format_args!("a divisor of the frame's {} microseconds", self.frame_ms.saturating_mul(1000)),
        );
        problems.range("pipeline.in_flight_bytes", self.in_flight_bytes, 1 << 20..=16 << 30);
        problems.range("pipeline.hole_ms", self.hole_ms, 0..=60_000);
        problems.range("pipeline.bridge_ms", self.bridge_ms, 0..=60_000);
        problems.range("pipeline.held_bytes", self.held_bytes, 4096..=1 << 30);
        problems.range("pipeline.silent_ms", self.silent_ms, 100..=600_000);
        problems.range("pipeline.silent_intervals", self.silent_intervals, 0..=10_000);
        problems.range("pipeline.frontier_alarm_ms", self.frontier_alarm_ms, 10..=600_000);
        let exit_from = self.frontier_alarm_ms.saturating_add(1);
        problems.range("pipeline.frontier_exit_ms", self.frontier_exit_ms, exit_from..=3_600_000);
        problems.range("pipeline.checkpoint_ms", self.checkpoint_ms, 0..=3_600_000);
    }
}
