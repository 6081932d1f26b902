//! One chain: a snapshot, then deltas that each name their base.
//!
//! Never: a delta over another version than the one it names; a second call for a snapshot while one is on its way.

use crate::book::Book;
use market::Version;
use wire::{BookDelta, BookSnapshot};

/// How long an asked snapshot may take before it is asked for again, in milliseconds; a server sends it as soon as the
/// socket can take it, so that this only heals a refused request.
pub const RESYNC_AGAIN_MS: u64 = 5_000;

/// What became of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The chain has the delta's version now.
    Applied,
    /// The delta fits not; a snapshot must be asked for.
    Ask,
    /// The delta fits not; a snapshot is on its way.
    Waiting,
}

/// One stream of a book on one connection.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    book: Option<Book>,
    /// Set while a snapshot is awaited: when it was asked for, or was announced.
    asked_at_ms: Option<u64>,
}

impl Chain {
    /// Begins anew with a snapshot.
    pub fn restart(&mut self, snapshot: &BookSnapshot) {
        self.book = Some(Book::new(snapshot));
        self.asked_at_ms = None;
    }

    /// Takes a step if it begins where the chain is, and leads onward.
    pub fn step(&mut self, delta: &BookDelta, now_ms: u64) -> Step {
        if let Some(asked) = self.asked_at_ms {
            if now_ms.saturating_sub(asked) < RESYNC_AGAIN_MS {
                return Step::Waiting;
            }
            return self.ask(now_ms);
        }
        match &mut self.book {
            Some(book) if book.version() == delta.base && delta.version > delta.base => {
                book.apply(delta);
                Step::Applied
            }
            _ => self.ask(now_ms),
        }
    }

    fn ask(&mut self, now_ms: u64) -> Step {
        self.asked_at_ms = Some(now_ms);
        Step::Ask
    }

    /// The server lost steps of it, and announced a snapshot.
    pub fn await_snapshot(&mut self, now_ms: u64) {
        self.asked_at_ms = Some(now_ms);
    }

    /// Whether a snapshot is on its way, so that the book is only what was there before.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.asked_at_ms.is_some()
    }

    /// The book at the chain's version.
    #[must_use]
    pub fn book(&self) -> Option<&Book> {
        self.book.as_ref()
    }

    /// The chain's version.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.book.as_ref().map(Book::version)
    }

    /// Takes the book away; the chain then needs a snapshot.
    pub fn take(&mut self) -> Option<Book> {
        self.book.take()
    }
}
