//! The edges where market data comes from: venues' formats, raw frames and captures, the market simulator and ClickHouse.
//!
//! Never: timely, terminals, or the wire's bytes.

pub mod binance_spot;
pub mod capture;
pub mod clickhouse;
pub mod decoder;
pub mod halt;
pub mod kraken_spot;
pub mod live;
pub mod raw;
pub mod simulator;
pub mod venue_feed;
