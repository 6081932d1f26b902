//! `history`: how much of a source's changes the store keeps.
//!
//! Never: a setting of batch streams, whose rows are a function of their log.

use super::{Config, SourceKind};
use connectors::clickhouse::FrameHistory;
use market::Venue;
use serde::{Deserialize, Serialize};

/// Which changes of a tick become rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum History {
    /// Every admitted change.
    #[default]
    Every,
    /// The last one of each frame.
    Frames,
}

impl Config {
    /// The venues whose history is kept by frames, if there are any.
    #[must_use]
    pub fn frame_history(&self) -> Option<FrameHistory> {
        let by_frames = |history: History| history == History::Frames;
        let venues: Vec<Venue> = match self.source.kind {
            SourceKind::Sim if by_frames(self.sim.history) => self.sim.venues.clone(),
            SourceKind::Capture if by_frames(self.capture.history) => self.capture.venue.into_iter().collect(),
            SourceKind::Live => {
                self.live.iter().filter(|live| by_frames(live.history)).map(|live| live.venue).collect()
            }
            SourceKind::Sim | SourceKind::Capture | SourceKind::PubSub => Vec::new(),
        };
        let frame_ns = self.pipeline.frame_ms.saturating_mul(1_000_000);
        (!venues.is_empty()).then_some(FrameHistory { venues, frame_ns })
    }
}
