//! The binary `sprag`: pipeline, fan-out, HTTP and metrics.
//!
//! Never: depended on by another crate of the product; only tests use it.

pub mod audit;
pub mod batches;
pub mod bumps;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod dead_letters;
pub mod epochs;
pub mod exit;
pub mod fanout;
pub mod http;
pub mod hub;
pub mod legs;
pub mod metrics;
pub mod name_glob;
pub mod raw_log;
pub mod replay;
pub mod restore;
mod row;
pub mod run;
pub mod single_flight;
pub mod socket;
pub mod source;
pub mod store;
pub mod tape;
pub mod upkeep;
pub mod views;

/// Name and version of this build, as told to terminals and by `--version`.
pub const BUILD: &str = concat!("sprag ", env!("CARGO_PKG_VERSION"));
