//! DydxV3.
//!
//! Never: -

pub mod feed;
pub mod message;
