//! Batches over the protocol: published, pulled, put together; and what stops, outages and silence do to them.
//!
//! Never: a server that is not ours.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

#[path = "pubsub/bench.rs"]
mod bench;
#[path = "pubsub/lifetime.rs"]
mod lifetime;
#[path = "pubsub/sizes.rs"]
mod sizes;
