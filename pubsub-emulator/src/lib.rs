//! A Pub/Sub server for tests and demonstrations.
//!
//! Never: a use in production.
