//! What a guard is told and what it tells: its bounds, its verdicts, its counts.
//!
//! Never: a decision.

use crate::Version;
use serde::{Deserialize, Serialize};

/// Bounds of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long later updates wait for a missing one, in nanoseconds.
    pub hole_ns: u64,
    /// How long a snapshot waits for its first bridging update before it is shown without one, in nanoseconds.
    pub bridge_ns: u64,
    /// Bytes of updates held back at most.
    pub held_bytes_max: u64,
    /// First pause between two requests for a snapshot, in nanoseconds; doubles with each.
    pub refetch_ns_min: u64,
    /// Longest such pause, in nanoseconds.
    pub refetch_ns_max: u64,
    /// How long a rebuilt book must last for the next gap to be answered at once again, in nanoseconds.
    pub calm_ns: u64,
    /// How long nothing but ids below the shown version may come before what is shown counts as gapped, in nanoseconds.
    pub below_ns: u64,
    /// How long nothing but ids below the shown version may come before the venue counts as restarted, in nanoseconds.
    pub restart_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hole_ns: 250_000_000,
            bridge_ns: 250_000_000,
            held_bytes_max: 4 << 20,
            refetch_ns_min: 250_000_000,
            refetch_ns_max: 30_000_000_000,
            calm_ns: 10_000_000_000,
            below_ns: 2_000_000_000,
            restart_ns: 10_000_000_000,
        }
    }
}

/// Why a connector declares an instrument's book wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BreakReason {
    /// The venue's checksum does not match.
    Checksum,
    /// A message of the instrument could not be decoded.
    Undecodable,
    /// The venue ended the subscription.
    Unsubscribed,
    /// A message of the connection is missing, by the venue's own count of them.
    Missing,
    /// A change of something that the venue never told of.
    UnknownRow,
    /// The connection that carried the book alone ended, or carries it no longer.
    Silent,
}

/// What became of an offered update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Apply it now; it brings the stream to this version.
    Apply(Version),
    /// Hand it to [`Guard::hold`].
    Hold,
    /// Already applied.
    Duplicate,
    /// Older than what is shown: what last-write-wins would have shown.
    Regression,
    /// Covered by the snapshot that the stream starts from; neither a gap nor an error.
    Covered,
    /// No snapshot to build on, and none can be bridged without venue ids.
    Unanchored,
    /// Of a leg that has not joined the present epoch, while another leg has.
    Unbound,
}

/// Why a snapshot was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The updates held back do not join it: `snapshot + 1` is missing.
    Unbridged,
    /// It does not reach what is shown already.
    Older,
    /// It was taken already.
    Duplicate,
    /// Its kind of sequence is not the stream's.
    OtherSequence,
}

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Holes that were not filled in time, and breaks told by the connector.
    pub gaps: u64,
    /// Books replaced after a gap.
    pub resyncs: u64,
    /// Restarts of the venue's ids.
    pub resets: u64,
    /// Times that the held updates passed their byte bound and were thrown away.
    pub overflows: u64,
    /// Snapshots refused.
    pub refused: u64,
    /// Snapshots asked for.
    pub requests: u64,
}
