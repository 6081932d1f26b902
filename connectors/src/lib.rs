//! The edges where market data comes from: venues' formats, raw frames and captures, the market simulator and ClickHouse.
//!
//! Never: timely, terminals, or the wire's bytes.

pub mod binance_spot;
pub mod binance_usdm;
pub mod bitfinex;
pub mod bitget;
pub mod bitmex;
pub mod bitstamp;
pub mod capture;
pub mod clickhouse;
pub mod coinbase;
pub mod decoder;
pub mod deribit;
pub mod dydx_v3;
pub mod gemini;
pub mod halt;
pub mod kraken_futures;
pub mod kraken_spot;
pub mod kucoin;
pub mod live;
pub mod neutron_dex;
pub mod okx;
pub mod pubsub;
pub mod raw;
pub mod simulator;
pub mod venue_feed;
