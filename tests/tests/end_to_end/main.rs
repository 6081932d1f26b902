//! End to end: the real binary, real sockets, the real ClickHouse engine as its child. Each test has a server and a data
//! directory of its own.
//!
//! Never: a sleep in place of a condition, or a verdict about wall time.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod audit;
mod backups;
mod batches;
mod books;
mod captures;
mod commands;
mod faults;
mod ids;
mod kills;
mod malformed;
mod market;
mod raw;
mod readers;
mod replays;
mod restarts;
mod returns;
mod simulated;
mod slow;
mod standing;
mod stop;
mod store_behind;
mod venues;
mod watcher;
