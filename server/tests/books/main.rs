//! Books and their changes over HTTP: from memory, of one instrument and of a pair, as text and in bytes, and from the store.
//!
//! Never: a port that is not the system's choice.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod changes;
mod names;
mod reading;
mod stored;
mod world;
