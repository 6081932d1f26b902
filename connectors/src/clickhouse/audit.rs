//! The audit of the store: whether `tick_state` says of an instrument what its lane shows, who is wrong where it does
//! not, and what is done about it. `docs/STORE.md`, "The audit", tells it to people.
//!
//! 1. `compare` holds a lane's copy at a version against the rows of `tick_state`. What changed since is left out.
//! 2. `read` fetches those rows, and for ticks that differ what `tick_updates` says.
//! 3. `judge` decides: two of three agree, or the live book is in doubt.
//! 4. `record` keeps what was found, `remove` takes away rows that nobody of us wrote.
//!
//! Never: a version made up; a judgement here that depends on time.

mod compare;
mod explain;
mod judge;
mod read;
mod record;
mod remove;

pub use compare::{Comparison, Kind, LiveTicks, StateRead, StateTick, Suspect, TickName, compare};
pub use explain::{Action, Finding, explain};
pub use judge::{Facts, History, Memory, Ruling, Verdict, judge, rule};
pub use read::{Witness, states, witnesses};
pub use record::{AuditRecord, Evidence, StoredEvidence, audits, evidence, keep_audit, keep_evidence};
pub use remove::remove;
