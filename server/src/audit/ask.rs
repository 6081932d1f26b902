//! Questions to the lanes: events like any other, in their order, answered at the close of a cut.
//!
//! Never: a wait without a bound; a lane that waits for an audit.

use super::AuditError;
use dataflow::{
    copy::BookCopy,
    ingest::{Batch, FeedSender},
};
use foldhash::{HashMap, HashMapExt};
use market::{Ask, Body, Event, LegId, SymbolId};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// Longest wait for answers; the frontier is a few milliseconds behind the clock where all is well.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How soon a feed that is full is tried again.
const FEED_EVERY: Duration = Duration::from_millis(5);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Version and every tick.
    Ticks,
    /// The version alone.
    Version,
}

/// The lanes, to be asked.
pub(super) struct Lanes {
    feed: FeedSender,
    copies: mpsc::Receiver<BookCopy>,
    now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    ticket: u64,
}

impl Lanes {
    pub(super) fn new(
        feed: FeedSender,
        copies: mpsc::Receiver<BookCopy>,
        now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    ) -> Self {
        Self { feed, copies, now_ns, ticket: 0 }
    }

    /// Asks for some instruments at once; gives what was answered in time.
    pub(super) async fn ask(
        &mut self,
        symbols: &[SymbolId],
        asked: Asked,
    ) -> Result<HashMap<SymbolId, BookCopy>, AuditError> {
        let until = Instant::now() + ANSWER_MAX;
        self.ticket += 1;
        let ask = Ask { ticket: self.ticket, ticks: asked == Asked::Ticks };
        let mut answers = HashMap::with_capacity(symbols.len());
        if symbols.is_empty() || !self.feed(symbols, Body::Copy(ask), until).await? {
            return Ok(answers);
        }
        while answers.len() < symbols.len() {
            match tokio::time::timeout_at(until, self.copies.recv()).await {
                // Answers that came too late for the question before are nobody's.
                Ok(Some(copy)) if copy.ticket == ask.ticket => drop(answers.insert(copy.symbol, copy)),
                Ok(Some(_)) => {}
                Ok(None) => return Err(AuditError::Ended),
                Err(_) => break,
            }
        }
        Ok(answers)
    }

    /// Tells a lane that what it shows of an instrument is in doubt; whether it was told.
    pub(super) async fn doubt(&self, symbol: SymbolId) -> Result<bool, AuditError> {
        self.feed(&[symbol], Body::Doubted, Instant::now() + ANSWER_MAX).await
    }

    /// Feeds the same to some instruments; whether the feed had room in time.
    async fn feed(&self, symbols: &[SymbolId], body: Body, until: Instant) -> Result<bool, AuditError> {
        let now_ns = (self.now_ns)();
        let event = |symbol: &SymbolId| Event::of(*symbol, LegId::default(), now_ns, 0, body.clone());
        let mut batch = Batch { cut: 0, events: symbols.iter().map(event).collect() };
        loop {
            match self.feed.offer(batch).map_err(|_| AuditError::Ended)? {
                None => return Ok(true),
                Some(_) if Instant::now() >= until => return Ok(false),
                Some(full) => batch = full,
            }
            tokio::time::sleep(FEED_EVERY).await;
        }
    }
}
