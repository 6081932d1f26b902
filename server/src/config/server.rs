//! `[server]`: where terminals connect, and what one of them may cost.
//!
//! Never: a queue towards a terminal without a bound.

use super::error::Problems;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Terminals, HTTP and metrics share one listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address or host name to listen on; 1 to 253 characters.
    pub host: String,
    /// TCP port, 0 to 65,535; 0 = any free one, printed at start.
    pub port: u16,
    /// Terminals connected at once; 1 to 100,000. One more is answered 503.
    pub max_terminals: usize,
    /// Subscriptions (instrument, channel) of one terminal; 1 to 65,536.
    pub subscriptions_per_terminal_max: usize,
    /// Milliseconds between two heartbeats to a terminal without frames; 100 to 60,000.
    pub heartbeat_ms: u64,
    /// Frames that wait for one terminal's socket; 2 to 4,096. Beyond it the terminal gets a gap.
    pub ring_frames: usize,
    /// Bytes that wait for one terminal's socket; 65,536 to 1,073,741,824. Beyond it the terminal gets a gap.
    pub ring_bytes: usize,
    /// Milliseconds between two digests of an instrument that a terminal holds its book against; 1,000 to 3,600,000.
    pub digest_ms: u64,
    /// Milliseconds from connection to hello; 100 to 60,000.
    pub handshake_timeout_ms: u64,
    /// Milliseconds over which terminals are sent away at shutdown; 0 to 60,000.
    pub drain_ms: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8410,
            max_terminals: 4200,
            subscriptions_per_terminal_max: 4096,
            heartbeat_ms: 1000,
            ring_frames: 64,
            ring_bytes: 8 << 20,
            digest_ms: 10_000,
            handshake_timeout_ms: 5000,
            drain_ms: 2000,
        }
    }
}

impl Server {
    /// How long a connection may take to say what it wants.
    #[must_use]
    pub fn head_max(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let host_is_right = (1..=253).contains(&self.host.len()) && !self.host.contains(char::is_whitespace);
        problems.unless(
            host_is_right,
            "server.host",
            &format_args!("{:?}", self.host),
            &"an address or host name of 1 to 253 characters",
        );
        problems.range("server.max_terminals", self.max_terminals, 1..=100_000);
        problems.range("server.subscriptions_per_terminal_max", self.subscriptions_per_terminal_max, 1..=65_536);
        problems.range("server.heartbeat_ms", self.heartbeat_ms, 100..=60_000);
        problems.range("server.ring_frames", self.ring_frames, 2..=4096);
        problems.range("server.ring_bytes", self.ring_bytes, 65_536..=1 << 30);
        problems.range("server.digest_ms", self.digest_ms, 1_000..=3_600_000);
        problems.range("server.handshake_timeout_ms", self.handshake_timeout_ms, 100..=60_000);
        problems.range("server.drain_ms", self.drain_ms, 0..=60_000);
    }
}
