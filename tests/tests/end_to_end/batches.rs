//! Batch streams end to end: a Pub/Sub server with faults, the real binary with its own engine, and what must hold of
//! store, books and receivers. The truth is the generator's own state after each block.
//!
//! Never: a truth that came out of what is tested.

mod chain;
mod dead_letters;
mod holes;
mod kills;
mod leaves;
mod permutations;
mod sizes;
mod stage;
mod watchers;
mod why;
