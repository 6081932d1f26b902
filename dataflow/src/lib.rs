//! Lanes, cuts and views, on timely and differential dataflow.
//!
//! ```text
//!  FeedSender ──events──▶ Ingest ══exchange by instrument══▶ Lane ──cuts──────────────────────▶ Sink ──▶ hub
//!   (bounded)             one capability, a cut               guard, books,  ├─quotes─▶ Best ──────▲
//!                         is its timestamp                    net change     │          (differential)
//!                                                             per cut        ├─parts──▶ Views ─────▲
//!                                                                            └─ahead of the cut────▲
//! ```
//!
//! One worker owns an instrument: its lane gives the instrument a total order without a lock. The cut index is the
//! timely timestamp, and a cut is published once the frontier has passed it on every worker. Differential dataflow
//! starts after conflation, on quotes and on what a book adds to a view, since per-tick arrangements cost many times a lane.
//!
//! Never: tokio, a venue's format, bytes of the wire, a clock of the operating system.

#![deny(clippy::float_arithmetic, clippy::as_conversions, clippy::indexing_slicing)]

pub mod best;
pub mod clock;
pub mod copy;
pub mod cut;
pub mod graph;
pub mod ingest;
pub mod lane;
mod operator;
pub mod priority;
pub mod sink;
pub mod views;
