//! The durable cursor: up to which height everything that was made of the log is in the store.
//!
//! Never: a height whose batch is not in the log itself, or whose rows may be lost.

use market::batch::{BatchName, Hole};
use std::collections::VecDeque;

/// What becomes true once everything before a marker is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Everything of the stream up to this height was delivered.
    Through(u64),
    /// The changes of a batch that came late.
    Late(BatchName),
    /// The stream was rebuilt, which healed these losses.
    Healed(Vec<Hole>),
    /// Nothing: what was to be fed could not be made.
    Nothing,
}

/// Markers on their way through lanes and store, in order.
#[derive(Debug)]
pub(super) struct Cursor {
    /// As it is in the store.
    written: u64,
    /// As it could be written.
    reached: u64,
    sent: u64,
    marks: VecDeque<(u64, Mark)>,
    /// Heights that are durable but for the log.
    through: VecDeque<u64>,
}

impl Cursor {
    pub(super) fn new(written: u64) -> Self {
        Self { written, reached: written, sent: 0, marks: VecDeque::new(), through: VecDeque::new() }
    }

    /// Notes what the marker that was sent now stands for.
    pub(super) fn sent(&mut self, mark: Mark) {
        self.sent = self.sent.saturating_add(1);
        self.marks.push_back((self.sent, mark));
    }

    /// Notes what else becomes true with that marker.
    pub(super) fn also(&mut self, mark: Mark) {
        if mark != Mark::Healed(Vec::new()) {
            self.marks.push_back((self.sent, mark));
        }
    }

    /// Whether something is under way.
    pub(super) fn waits(&self) -> bool {
        !self.marks.is_empty() || !self.through.is_empty() || self.due().is_some()
    }

    /// So many markers are durable; gives what became true but heights.
    pub(super) fn durable(&mut self, count: u64) -> Vec<Mark> {
        let mut done = Vec::new();
        while self.marks.front().is_some_and(|(number, _)| *number <= count) {
            match self.marks.pop_front() {
                Some((_, Mark::Through(height))) => self.through.push_back(height),
                Some((_, mark)) => done.push(mark),
                None => {}
            }
        }
        done
    }

    /// Moves over durable heights below the first block that is not in the log.
    pub(super) fn advance(&mut self, first_unlogged: Option<u64>) {
        let free = |height: &u64| first_unlogged.is_none_or(|unlogged| *height < unlogged);
        while let Some(height) = self.through.front().copied().filter(free) {
            self.through.pop_front();
            self.reached = self.reached.max(height);
        }
    }

    /// The height to be written, if it is above the written one.
    pub(super) fn due(&self) -> Option<u64> {
        (self.reached > self.written).then_some(self.reached)
    }

    pub(super) fn wrote(&mut self, height: u64) {
        self.written = self.written.max(height);
    }

    /// As it is in the store.
    pub(super) fn written(&self) -> u64 {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_waits_for_rows_and_for_the_log() {
        let mut cursor = Cursor::new(4);
        for height in [5, 7] {
            cursor.sent(Mark::Through(height));
        }
        cursor.sent(Mark::Healed(vec![Hole { after: 1, through: 2 }]));
        cursor.advance(None);
        assert_eq!((cursor.due(), cursor.waits()), (None, true));
        assert!(cursor.durable(2).is_empty());
        cursor.advance(Some(7));
        assert_eq!(cursor.due(), Some(5));
        cursor.wrote(5);
        cursor.advance(None);
        assert_eq!(cursor.due(), Some(7));
        cursor.wrote(7);
        assert_eq!(cursor.durable(3), [Mark::Healed(vec![Hole { after: 1, through: 2 }])]);
        assert!(!cursor.waits());
    }

    #[test]
    fn rows_that_are_durable_before_the_log_are_still_waited_for() {
        let mut cursor = Cursor::new(4);
        cursor.sent(Mark::Through(5));
        assert!(cursor.durable(1).is_empty());
        cursor.advance(Some(5));
        assert_eq!((cursor.due(), cursor.waits()), (None, true), "nobody else asks again");
        cursor.advance(None);
        assert_eq!(cursor.due(), Some(5));
    }
}
