//! What the live connections of one venue count.
//!
//! Never: a number that only grows and is called a state.

use market::Venue;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The numbers of a venue.
#[derive(Debug)]
pub struct VenueNumbers {
    venue: Venue,
    /// Connections that are open now; the only one that is no count.
    pub legs_open: AtomicU64,
    /// Connections made.
    pub connects: AtomicU64,
    /// Connections that could not be made.
    pub connect_failures: AtomicU64,
    /// Connections that ended, for whatever reason.
    pub disconnects: AtomicU64,
    /// Messages read.
    pub messages: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// REST requests made.
    pub rest_requests: AtomicU64,
    /// REST requests that failed, those refused for their number among them.
    pub rest_failures: AtomicU64,
    /// REST requests refused for their number.
    pub rest_limited: AtomicU64,
    /// Snapshots fetched by REST.
    pub snapshots: AtomicU64,
    /// Instruments subscribed to anew on an open connection.
    pub resubscribes: AtomicU64,
    /// Times that a connection was not read since the source had not taken its frames.
    pub backpressure_waits: AtomicU64,
    /// Connections given up since that lasted too long.
    pub backpressure_drops: AtomicU64,
    /// Subscriptions refused, or acknowledged without data.
    pub subscription_failures: AtomicU64,
    /// Wishes for a snapshot that could not be served, since no connection was open.
    pub requests_dropped: AtomicU64,
    /// Times that one instrument's snapshot was asked for so often in a row that a person should look.
    pub insisted: AtomicU64,
}

impl VenueNumbers {
    pub(super) fn new(venue: Venue) -> Self {
        let zero = AtomicU64::default;
        Self {
            venue,
            legs_open: zero(),
            connects: zero(),
            connect_failures: zero(),
            disconnects: zero(),
            messages: zero(),
            bytes: zero(),
            rest_requests: zero(),
            rest_failures: zero(),
            rest_limited: zero(),
            snapshots: zero(),
            resubscribes: zero(),
            backpressure_waits: zero(),
            backpressure_drops: zero(),
            subscription_failures: zero(),
            requests_dropped: zero(),
            insisted: zero(),
        }
    }

    /// Whose they are.
    #[must_use]
    pub fn venue(&self) -> Venue {
        self.venue
    }

    /// Every count by its name; [`VenueNumbers::legs_open`] is none.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 15] {
        [
            ("connects", self.connects.load(Relaxed)),
            ("connect_failures", self.connect_failures.load(Relaxed)),
            ("disconnects", self.disconnects.load(Relaxed)),
            ("messages", self.messages.load(Relaxed)),
            ("bytes", self.bytes.load(Relaxed)),
            ("rest_requests", self.rest_requests.load(Relaxed)),
            ("rest_failures", self.rest_failures.load(Relaxed)),
            ("rest_limited", self.rest_limited.load(Relaxed)),
            ("snapshots", self.snapshots.load(Relaxed)),
            ("resubscribes", self.resubscribes.load(Relaxed)),
            ("backpressure_waits", self.backpressure_waits.load(Relaxed)),
            ("backpressure_drops", self.backpressure_drops.load(Relaxed)),
            ("subscription_failures", self.subscription_failures.load(Relaxed)),
            ("requests_dropped", self.requests_dropped.load(Relaxed)),
            ("insisted", self.insisted.load(Relaxed)),
        ]
    }
}

/// One more.
pub(super) fn count(number: &AtomicU64) {
    number.fetch_add(1, Relaxed);
}
