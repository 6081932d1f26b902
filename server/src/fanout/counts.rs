//! What happened in the fan-out, for metrics.
//!
//! Never: a number that falls.

/// What happened in the fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanoutCounts {
    /// Frames put together, shared ones counted once.
    pub encodes: u64,
    /// Frames handed to terminals.
    pub frames: u64,
    /// Bytes handed to terminals.
    pub bytes: u64,
    /// Terminals that lost frames because they did not read.
    pub gaps: u64,
    /// Snapshots sent.
    pub snapshots: u64,
    /// Requests refused.
    pub refused: u64,
    /// Blocks or frames that the wire's bounds do not allow.
    pub unencodable: u64,
    /// Digests made, shared ones counted once.
    pub digests: u64,
    /// Updates that went ahead of their cut, shared ones counted once.
    pub priority_updates: u64,
    /// Priority frames handed to terminals.
    pub priority_frames: u64,
    /// Bytes of priority frames handed to terminals.
    pub priority_bytes: u64,
    /// Terminals that lost priority frames because they did not read.
    pub priority_gaps: u64,
}

impl FanoutCounts {
    /// Every count with its name.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 12] {
        [
            ("encodes", self.encodes),
            ("frames", self.frames),
            ("bytes", self.bytes),
            ("gaps", self.gaps),
            ("snapshots", self.snapshots),
            ("refused", self.refused),
            ("unencodable", self.unencodable),
            ("digests", self.digests),
            ("priority_updates", self.priority_updates),
            ("priority_frames", self.priority_frames),
            ("priority_bytes", self.priority_bytes),
            ("priority_gaps", self.priority_gaps),
        ]
    }
}
