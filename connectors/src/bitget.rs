//! Bitget.
//!
//! Never: -

pub mod feed;
pub mod message;
