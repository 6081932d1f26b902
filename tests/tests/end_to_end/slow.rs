//! Slow.
//!
//! Never: x.
