//! The receiver guard: of the chains of an instrument it shows the one with the highest version, and it keeps what it
//! shows until another chain reaches that version.
//!
//! Never: a shown version that decreases; a book mixed from two chains.

use crate::{
    book::Book,
    chain::{Chain, Step},
};
use market::Version;
use wire::{BookDelta, BookSnapshot, ChainKind};

/// What became of a snapshot or delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is shown.
    Shown(Version),
    /// It was taken by its chain, which is behind the other chain of its connection, as chains of two paces are.
    Behind,
    /// It was taken by its chain, which is behind what a former chain, or the chain itself, showed before.
    Refused {
        /// The chain's version.
        offered: Version,
        /// The shown one.
        shown: Version,
    },
    /// It does not fit its chain; a snapshot must be asked for.
    Ask,
    /// It does not fit its chain; a snapshot is on its way.
    Waiting,
}

/// What a digest says about a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The chain holds what the server holds.
    Right,
    /// It does not; a snapshot must be asked for.
    Wrong,
    /// The chain is at another version, or waits for a snapshot.
    Skipped,
}

/// Where the shown book is.
#[derive(Clone, Debug, Default)]
enum Shown {
    #[default]
    Nothing,
    /// It is a chain's own and grows with it.
    Of(ChainKind),
    /// It is what a chain showed before it ended or turned back.
    Kept(Book),
}

/// The chains of one instrument, and what is shown of them.
#[derive(Clone, Debug, Default)]
pub struct BookGuard {
    conflated: Chain,
    priority: Chain,
    shown: Shown,
}

impl BookGuard {
    /// The shown book.
    #[must_use]
    pub fn book(&self) -> Option<&Book> {
        match &self.shown {
            Shown::Nothing => None,
            Shown::Of(kind) => self.chain(*kind).book(),
            Shown::Kept(book) => Some(book),
        }
    }

    /// The shown version.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.book().map(Book::version)
    }

    /// Whether the shown book is one of a former chain, which no present chain has reached yet.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        matches!(self.shown, Shown::Kept(_))
    }

    /// Restarts a chain.
    pub fn snapshot(&mut self, kind: ChainKind, snapshot: &BookSnapshot) -> Outcome {
        if matches!(self.shown, Shown::Of(shown) if shown == kind) && self.version() > Some(snapshot.version) {
            self.keep(kind);
        }
        self.chain_mut(kind).restart(snapshot);
        self.promote(kind, snapshot.version)
    }

    /// Takes a step of a chain.
    pub fn delta(&mut self, kind: ChainKind, delta: &BookDelta, now_ms: u64) -> Outcome {
        match self.chain_mut(kind).step(delta, now_ms) {
            Step::Applied => self.promote(kind, delta.version),
            Step::Ask => Outcome::Ask,
            Step::Waiting => Outcome::Waiting,
        }
    }

    /// Holds the conflated chain against a digest. One that differs is broken: its book stays shown, if it was, until a
    /// snapshot comes.
    pub fn check(&mut self, version: Version, crc: u32, now_ms: u64) -> Check {
        let book = self.conflated.book().filter(|book| book.version() == version && !self.conflated.is_waiting());
        match book.map(Book::digest) {
            None => Check::Skipped,
            Some(held) if held == Some(crc) => Check::Right,
            Some(_) => {
                if matches!(self.shown, Shown::Of(ChainKind::Conflated)) {
                    self.keep(ChainKind::Conflated);
                }
                self.conflated = Chain::default();
                self.conflated.await_snapshot(now_ms);
                Check::Wrong
            }
        }
    }

    /// The server lost steps of a chain and will send a snapshot.
    pub fn gap(&mut self, kind: ChainKind, now_ms: u64) {
        self.chain_mut(kind).await_snapshot(now_ms);
    }

    /// The connection ended: its chains are over, what is shown stays.
    pub fn disconnect(&mut self) {
        if let Shown::Of(kind) = self.shown {
            self.keep(kind);
        }
        self.conflated = Chain::default();
        self.priority = Chain::default();
    }

    fn keep(&mut self, kind: ChainKind) {
        self.shown = self.chain_mut(kind).take().map_or(Shown::Nothing, Shown::Kept);
    }

    /// Shows the chain if it has reached what is shown.
    fn promote(&mut self, kind: ChainKind, offered: Version) -> Outcome {
        let Some(shown) = self.version() else {
            self.shown = Shown::Of(kind);
            return Outcome::Shown(offered);
        };
        let other = matches!(self.shown, Shown::Of(holder) if holder != kind);
        if other && offered <= shown {
            return Outcome::Behind;
        }
        if offered < shown {
            return Outcome::Refused { offered, shown };
        }
        self.shown = Shown::Of(kind);
        Outcome::Shown(offered)
    }

    fn chain(&self, kind: ChainKind) -> &Chain {
        match kind {
            ChainKind::Conflated => &self.conflated,
            ChainKind::Priority => &self.priority,
        }
    }

    fn chain_mut(&mut self, kind: ChainKind) -> &mut Chain {
        match kind {
            ChainKind::Conflated => &mut self.conflated,
            ChainKind::Priority => &mut self.priority,
        }
    }
}
