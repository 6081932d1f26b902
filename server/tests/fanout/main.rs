//! Lanes, hub, fan-out and receivers together without a socket: whatever terminals ask for and however slowly they
//! read, each ends with the hub's books and never saw one move backwards.
//!
//! Never: a wall clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

mod model;
mod priority;
mod properties;
mod scenarios;
mod world;
