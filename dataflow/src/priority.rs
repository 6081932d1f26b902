//! Which instruments are wanted as they change, ahead of their cut: told by the fan-out, read by the lanes.
//!
//! Never: a lock; a lane reads one number per event.

use market::{SymbolId, instrument::INSTRUMENTS_MAX};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// A number per instrument: odd while it is wanted, another odd number each time that it is wanted anew.
#[derive(Debug)]
pub struct PriorityBoard {
    marks: Box<[AtomicU32]>,
    /// Rises with every wish, so that a lane sees at a glance that there is a new one.
    wishes: AtomicU64,
}

impl Default for PriorityBoard {
    fn default() -> Self {
        Self { marks: (0..INSTRUMENTS_MAX).map(|_| AtomicU32::new(0)).collect(), wishes: AtomicU64::new(0) }
    }
}

impl PriorityBoard {
    fn at(&self, symbol: SymbolId) -> Option<&AtomicU32> {
        self.marks.get(usize::try_from(symbol.0).ok()?)
    }

    /// The instrument is wanted from now on; its updates begin with its whole book.
    pub fn want(&self, symbol: SymbolId) {
        if let Some(mark) = self.at(symbol) {
            let next = mark.load(Relaxed).wrapping_add(1) | 1;
            mark.store(next, Relaxed);
            // Whoever sees the number sees the mark.
            self.wishes.fetch_add(1, Release);
        }
    }

    /// The instrument is no longer wanted.
    pub fn forget(&self, symbol: SymbolId) {
        if let Some(mark) = self.at(symbol) {
            let now = mark.load(Relaxed);
            mark.store(now.wrapping_add(now & 1), Relaxed);
        }
    }

    /// How many wishes there were.
    #[must_use]
    #[inline]
    pub fn wishes(&self) -> u64 {
        self.wishes.load(Acquire)
    }

    /// The instrument's number: odd while it is wanted.
    #[must_use]
    #[inline]
    pub fn mark(&self, symbol: SymbolId) -> u32 {
        self.at(symbol).map_or(0, |mark| mark.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wish_has_a_number_of_its_own() {
        let board = PriorityBoard::default();
        let symbol = SymbolId(7);
        let mut seen = vec![board.mark(symbol)];
        for _ in 0..3 {
            board.want(symbol);
            seen.push(board.mark(symbol));
            board.forget(symbol);
            board.forget(symbol);
            assert_eq!(board.mark(symbol) & 1, 0);
        }
        board.want(symbol);
        board.want(symbol);
        seen.push(board.mark(symbol));
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "{seen:?}");
        assert_eq!(board.mark(SymbolId(u32::MAX)), 0);
    }
}
