//! Readers that wait until an instrument moves on.
//!
//! Never: a reader kept after he has gone; a bound on how many there are, which is of those who let them in.

use crate::hub::{BookView, Hub, HubInstrument, Look};
use market::Feed;
use tokio::sync::oneshot;

#[derive(Debug)]
struct Waiter {
    look: Look,
    /// The mark when he came.
    feed: Feed,
    reply: oneshot::Sender<BookView>,
}

impl Waiter {
    /// Whether there is nothing to tell him yet.
    fn is_early(&self, hub: &Hub) -> bool {
        hub.instrument(self.look.symbol).is_some_and(|instrument| {
            instrument.version().is_some() && instrument.version() == self.look.since && instrument.feed() == self.feed
        })
    }

    fn answer(self, hub: &Hub) {
        if self.reply.send(hub.look(&self.look)).is_err() {
            tracing::trace!("nobody waits for the answer any longer");
        }
    }
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<Waiter>);

impl Waiting {
    /// Answers at once if there is something to tell.
    pub(super) fn push(&mut self, look: Look, reply: oneshot::Sender<BookView>, hub: &Hub) {
        let feed = hub.instrument(look.symbol).map(HubInstrument::feed).unwrap_or_default();
        let waiter = Waiter { look, feed, reply };
        if waiter.is_early(hub) { self.0.push(waiter) } else { waiter.answer(hub) }
    }

    /// Answers those for whom there is something by now, and forgets those who have gone.
    pub(super) fn answer(&mut self, hub: &Hub) {
        let due = self.0.extract_if(.., |waiter| waiter.reply.is_closed() || !waiter.is_early(hub));
        due.for_each(|waiter| waiter.answer(hub));
    }
}
