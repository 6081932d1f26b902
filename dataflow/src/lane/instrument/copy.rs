//! What an instrument tells an audit, and what it does when the audit has found witnesses against it.
//!
//! Never: a change of the book.

use super::Instrument;
use crate::copy::BookCopy;
use market::Ask;

impl Instrument {
    /// The book as it is now: to be called when its cut has been closed.
    pub(in crate::lane) fn copy(&self, ask: Ask) -> BookCopy {
        BookCopy {
            ticket: ask.ticket,
            symbol: self.symbol,
            version: self.content,
            scale: self.book.scale(),
            state: self.marked(),
            restored: self.rebuilds == 0 && self.restored.is_some() && self.restored == self.content,
            rebuilds: self.rebuilds,
            ticks: if ask.ticks { self.book.ticks().collect() } else { Vec::new() },
        }
    }

    /// What is shown is in doubt. A venue is asked for a snapshot and nothing is applied until it comes; a log stream goes
    /// on, marked, until its book comes rebuilt from the log.
    pub(super) fn doubt(&mut self, now_ns: u64) {
        if self.listing.venue.sends_batches() {
            self.doubted = self.content.is_some();
        } else {
            self.guard.broken(now_ns);
        }
    }
}
