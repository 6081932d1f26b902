//! BinanceUsdm.
//!
//! Never: -

pub mod feed;
pub mod live;
pub mod message;
