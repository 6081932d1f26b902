//! The tests of the wire: golden bytes, properties, compactness.
//!
//! Never: a socket.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod arbitrary;
mod compactness;
mod golden;
mod json;
mod properties;
mod samples;
