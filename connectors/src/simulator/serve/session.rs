//! What a hall knows of one connection: its subscriptions, and the numbers that belong to it alone.
//!
//! Never: an unbounded set of subscriptions.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Subscriptions of one connection, at most: two channels for every pair that can be simulated, and some.
const SUBSCRIPTIONS_MAX: usize = 50_000;

/// Numbers and settings of one connection.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Which of the venue's WebSockets it is.
    pub(super) door: usize,
    /// The last sequence number that was used.
    pub(super) sequence: u64,
    /// What the connection has switched on.
    pub(super) flags: u64,
    /// The last handle that was given to a subscription.
    pub(super) handles: u64,
    pub(super) pulse: Option<Pulse>,
}

/// A question whether the connection lives, asked every so often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    pub(super) every: Duration,
    pub(super) due: Instant,
    pub(super) unanswered: bool,
}

/// One subscription.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    /// As the venue names it, or unique otherwise.
    pub(super) name: Arc<str>,
    pub(super) channel: Arc<str>,
    pub(super) symbol: Arc<str>,
    /// The venue's number for it on this connection, if it gives any.
    pub(super) handle: u64,
    /// The snapshot is still owed: no book is known yet.
    pub(super) waiting: bool,
}

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) marks: Marks,
    by_symbol: BTreeMap<Arc<str>, Vec<Subscription>>,
    count: usize,
}

impl Session {
    /// A connection to one of the venue's WebSockets.
    pub(super) fn at(door: usize) -> Self {
        Self { marks: Marks { door, ..Marks::default() }, ..Self::default() }
    }

    /// Subscribes; false when it is subscribed already, or to too much. Names are unique within a symbol.
    pub(super) fn add(&mut self, name: &str, channel: &str, symbol: &str, handle: u64) -> bool {
        if self.count >= SUBSCRIPTIONS_MAX || self.of(symbol).iter().any(|known| *known.name == *name) {
            return false;
        }
        let symbol: Arc<str> = symbol.into();
        let subscription = Subscription {
            name: name.into(),
            channel: channel.into(),
            symbol: Arc::clone(&symbol),
            handle,
            waiting: false,
        };
        self.by_symbol.entry(symbol).or_default().push(subscription);
        self.count += 1;
        true
    }

    /// Ends the subscriptions that `meant` picks; gives them.
    pub(super) fn remove(&mut self, meant: impl Fn(&Subscription) -> bool) -> Vec<Subscription> {
        let mut gone = Vec::new();
        self.by_symbol.retain(|_, some| {
            gone.extend(some.extract_if(.., |known| meant(known)));
            !some.is_empty()
        });
        self.count -= gone.len();
        gone
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Subscription> {
        self.by_symbol.values().flatten()
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Those of one symbol.
    pub(super) fn of(&self, symbol: &str) -> &[Subscription] {
        self.by_symbol.get(symbol).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of_mut(&mut self, symbol: &str) -> (&mut Marks, &mut [Subscription]) {
        (&mut self.marks, self.by_symbol.get_mut(symbol).map_or(&mut [], Vec::as_mut_slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_unique_by_name_and_counted() {
        let mut session = Session::at(1);
        assert!(session.add("book:A", "book", "A", 1) && session.add("trades:A", "trades", "A", 2));
        assert!(!session.add("book:A", "book", "A", 3));
        assert!(session.add("book:B", "book", "B", 3));
        assert_eq!((session.len(), session.of("A").len(), session.of("C").len()), (3, 2, 0));
        let gone = session.remove(|known| &*known.channel == "book");
        assert_eq!((gone.len(), session.len()), (2, 1));
        assert_eq!(session.all().map(|known| known.handle).collect::<Vec<_>>(), [2], "the trades are left");
    }
}
