//! The store: the ClickHouse engine that comes with the program, its tables, the writer that keeps them right, and
//! the reads that a restart and the HTTP interface need. `docs/STORE.md` is its page for people.
//!
//! Never: a decision about order, which is the guard's; a second way to reach an engine beside its HTTP interface.

pub mod address;
pub mod audit;
pub mod batch_log;
pub mod child;
pub mod engine;
pub mod epoch_blocks;
pub mod fetch;
pub mod heal;
pub mod http;
pub mod in_process;
mod instruments;
pub mod read;
pub mod restore;
pub mod rows;
pub mod schema;
pub mod sink;
pub mod writer;

pub use address::StoreAddress;
pub use batch_log::{BatchLog, BatchLogError};
pub use child::{ChildArgs, ChildOptions, EngineChild, running_url, serve_child, start_child};
pub use engine::EngineError;
pub use epoch_blocks::{EpochBlock, EpochBlocks, EpochBlocksError};
pub use fetch::{FetchError, locate};
pub use heal::{HealError, Healed, heal};
pub use in_process::{InProcess, serve_in_process};
pub use read::{ReadError, StoredTick, StoredVersion, book, instrument_versions};
pub use restore::{BatchCursor, Kept, RestoreBatches, RestoreError, RestoredInstrument, RestoredState, restore};
pub use rows::{RawEvent, StoredKey};
pub use schema::SchemaError;
pub use sink::{SinkError, SinkInput, SinkOptions, SinkReport, SinkView, run_sink};
pub use writer::{
    BatchStream, BatchStreams, CorrectedTick, Correction, Counters, LiveKey, PushError, StoreWriter, Through,
    WriterOptions,
};
