//! What a priority instrument tells ahead of its cut: its whole book first, then the levels that each event changed.
//!
//! Never: a delta whose base was not told; work for an instrument that nobody wants so.

use crate::cut::BookCut;
use market::{Book, Level, LevelChange, Side, TickChange, Version};

/// How far an instrument was told ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The wish that is served, as [`crate::priority::PriorityBoard::mark`] numbers them; even while there is none.
    mark: u32,
    /// What was told last; none before the whole book was.
    base: Option<Version>,
    /// Levels changed since, in any order, perhaps more than once.
    touched: Vec<(Side, i64)>,
}

impl Ahead {
    /// Takes notice of the present wish; whether there is one.
    #[inline]
    pub(super) fn heed(&mut self, mark: u32) -> bool {
        if mark != self.mark {
            *self = Self { mark, ..Self::default() };
        }
        mark & 1 == 1
    }

    /// Levels changed.
    #[inline]
    pub(super) fn touch(&mut self, changes: &[TickChange]) {
        if self.base.is_some() {
            self.touched.extend(changes.iter().map(|change| (change.side, change.key.tick_index)));
        }
    }

    /// The book was replaced: it must be told whole.
    pub(super) fn replaced(&mut self) {
        self.base = None;
        self.touched.clear();
    }

    /// What is to be told now that the book stands at a version; none if that was told already.
    pub(super) fn tell(&mut self, book: &Book, version: Version) -> Option<BookCut> {
        if self.base == Some(version) {
            return None;
        }
        let mut touched = std::mem::take(&mut self.touched);
        let Some(base) = self.base.replace(version) else {
            return Some(BookCut::whole(book));
        };
        touched.sort_unstable();
        touched.dedup();
        let level = |(side, tick_index): &(Side, i64)| LevelChange {
            side: *side,
            level: Level { tick_index: *tick_index, quantity: book.level_quantity(*side, *tick_index) },
        };
        let changes = touched.iter().map(level).collect();
        touched.clear();
        self.touched = touched;
        Some(BookCut::Delta { base, changes })
    }
}
