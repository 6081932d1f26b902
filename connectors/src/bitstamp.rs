//! Bitstamp.
//!
//! Never: -

pub mod feed;
pub mod message;
