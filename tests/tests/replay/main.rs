//! Every capture of every venue through the whole pipeline, against reconstructions that share no code.
//!
//! Never: an expectation taken from the code under test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

mod books;
mod captures;
mod dydx_v3;
mod filters;
mod frames;
mod kraken_futures;
mod legs;
mod neutron_dex;
mod okx;
mod pipeline;
mod tickers;
