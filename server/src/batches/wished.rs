//! Books that an audit wants anew: rebuilt from the log alone, because the history is what contradicts them.
//!
//! Never: a book of a log that lacks something.

use super::{
    driver::{Done, Driver, Fed},
    numbers::BatchNumbers,
    rebuild::{Rebuilding, Rebuilt},
    tasks::{self, Unreadable},
};
use connectors::{clickhouse::batch_log::BatchLog, neutron_dex::feed::At};
use market::batch::{BatchKind, end_of};
use std::{sync::Arc, time::Duration};

/// Wishes that are served at one time; more wait in their channel.
const WISHES_MAX: usize = 64;

/// Batches that are read for them at the most, from the last snapshot in the log on: some hours of a chain. A book whose
/// log is longer stays marked until a snapshot comes.
const BATCHES_MAX: usize = 20_000;

/// Longest time that it may take, for nothing new of the stream is shown meanwhile; a store that does not answer ends it too.
const REBUILD_MAX: Duration = Duration::from_secs(30);

impl Driver {
    /// Takes wishes, and begins to rebuild what they name if all that it is rebuilt from is in the log.
    pub(super) fn starts_wished(&mut self) -> bool {
        if let Some(wishes) = &mut self.wishes {
            while self.wished.len() < WISHES_MAX
                && let Ok(symbol) = wishes.try_recv()
            {
                self.wished.push(symbol);
            }
        }
        let position = self.guard.position();
        let unlogged = self.held.first_unlogged().is_some_and(|height| height <= position);
        if self.wished.is_empty()
            || unlogged
            || self.late_unlogged > 0
            || !self.late.is_empty()
            || self.guard.is_lossy()
        {
            return false;
        }
        let wished = std::mem::take(&mut self.wished);
        let (log, numbers, after) = (Arc::clone(&self.log), Arc::clone(&self.numbers), self.options.begin_after);
        self.tasks.spawn(async move {
            let rebuilt = tokio::time::timeout(REBUILD_MAX, rebuild(&log, &numbers, wished, after, position)).await;
            Done::Wished(rebuilt.unwrap_or(Err(Unreadable::Missing)))
        });
        true
    }

    /// Shows what was rebuilt. Its lanes compare it with what they show, and end their doubt.
    pub(super) fn wished(&mut self, rebuilt: Result<Vec<Rebuilt>, Unreadable>) {
        let rebuilt = match rebuilt {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                tracing::error!(?error, "books that an audit doubts cannot be rebuilt from the log; they stay marked");
                self.rebuilding = false;
                return;
            }
        };
        let at = At { received_ns: (self.now_ns)(), venue_ns: 0, from: end_of(self.guard.position()) };
        self.feed(Fed::Wished, move |block_feed, out| {
            rebuilt.iter().try_for_each(|rebuilt| block_feed.rebuilt(&rebuilt.book, rebuilt.place, at, out))
        });
    }
}

/// Rebuilds instruments from the last snapshot in the log, or from its beginning.
async fn rebuild(
    log: &BatchLog,
    numbers: &BatchNumbers,
    wished: Vec<Box<str>>,
    begin_after: u64,
    position: u64,
) -> Result<Vec<Rebuilt>, Unreadable> {
    let names = tasks::names_within(log, numbers, begin_after, position).await;
    let mut names = names.map_err(|_| Unreadable::Missing)?;
    // A snapshot is the state at the end of its height.
    names.sort_by_key(|name| (name.height, name.kind == BatchKind::Snapshot));
    let mut rebuilding = Rebuilding::only(wished);
    match names.iter().rposition(|name| name.kind == BatchKind::Snapshot) {
        Some(at) => drop(names.drain(..at)),
        None => {
            let Some(first) = names.first() else { return Err(Unreadable::Missing) };
            let read = tasks::insist(numbers, "read the log", || log.read(first.height, first.kind)).await;
            let begins = |found: &connectors::clickhouse::batch_log::LoggedContent| found.previous <= begin_after;
            if !read.ok().flatten().is_some_and(|found| begins(&found)) {
                return Err(Unreadable::Missing);
            }
        }
    }
    if names.len() > BATCHES_MAX {
        return Err(Unreadable::Missing);
    }
    for name in names {
        let (_, block) = tasks::read_logged(log, numbers, name).await?;
        if name.kind == BatchKind::Snapshot {
            rebuilding.snapshot(&block);
        } else {
            rebuilding.block(&block);
        }
    }
    Ok(rebuilding.finish())
}
