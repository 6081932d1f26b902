//! Named moments at which a process can be made to stand still, so that it can be killed exactly there: the environment
//! variable `SPRAG_HALT_AT=NAME` or `NAME:N` names a moment and which time it counts, from 1. The thread that comes to
//! it says so on standard error and stays; the rest of the process goes on. Only in builds with debug assertions.
//!
//! Never: any effect without the variable, or in a release build.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

/// The variable's name.
pub const VARIABLE: &str = "SPRAG_HALT_AT";

/// What a process that stands still writes first, before the moment's name.
pub const HALTED: &str = "halted at ";

struct Halt {
    name: String,
    left: AtomicU64,
}

static HALT: LazyLock<Option<Halt>> = LazyLock::new(|| {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
    let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
    Some(Halt { name: name.to_owned(), left: AtomicU64::new(count.parse().unwrap_or(1)) })
});

/// A moment; the thread stays here for ever if it is the one that is waited for.
pub fn point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(halt) = HALT.as_ref().filter(|halt| halt.name == name) else { return };
    if halt.left.fetch_sub(1, Relaxed) == 1 {
        eprintln!("{HALTED}{name}");
        loop {
            thread::park();
        }
    }
}
