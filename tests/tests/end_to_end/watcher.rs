//! A real receiver on a real socket, and what must hold of everything that it is told.
//!
//! Never: a shown version that does not rise passed over.

use anyhow::{Context, Result, ensure};
use market::{Side, Version};
use receiver::{Notice, Session, Terminal};
use sprag_tests::process::PATIENCE;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, timeout, timeout_at};
use wire::{Channel, SubscriptionItem};

/// Subscriptions to everything of the channels.
pub(crate) fn all_of(channels: &[Channel]) -> Vec<SubscriptionItem> {
    channels.iter().map(|channel| SubscriptionItem { channel: *channel, pattern: "*".into() }).collect()
}

/// A terminal that checks as it goes.
pub(crate) struct Watcher {
    terminal: Terminal,
    /// Versions that the book of each instrument was shown at.
    pub(crate) versions: BTreeMap<String, Vec<Version>>,
    /// Best bid and ask that each instrument had.
    pub(crate) prices: BTreeMap<String, Vec<[Option<i64>; 2]>>,
    pub(crate) quotes: usize,
    pub(crate) trades: usize,
    pub(crate) bests: usize,
    pub(crate) gaps: usize,
}

impl Watcher {
    pub(crate) fn new(url: &str, items: &[SubscriptionItem]) -> Result<Self> {
        let terminal = Terminal::new(url, items)?;
        let (versions, prices) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { terminal, versions, prices, quotes: 0, trades: 0, bests: 0, gaps: 0 })
    }

    pub(crate) fn session(&self) -> &Session {
        self.terminal.session()
    }

    /// The last version that was shown of an instrument.
    pub(crate) fn shown(&self, instrument: &str) -> Option<Version> {
        self.versions.get(instrument)?.last().copied()
    }

    /// Goes on until the condition holds.
    pub(crate) async fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            let notices = timeout_at(deadline, self.terminal.next()).await.with_context(|| what.to_owned())??;
            notices.iter().try_for_each(|notice| self.take(notice))?;
        }
        Ok(())
    }

    /// Takes what comes next, if it comes within that time.
    pub(crate) async fn turn(&mut self, within: Duration) -> Result<()> {
        match timeout(within, self.terminal.next()).await {
            Ok(notices) => notices?.iter().try_for_each(|notice| self.take(notice)),
            Err(_) => Ok(()),
        }
    }

    /// Goes on until the connection ends.
    pub(crate) async fn follow(&mut self) -> Result<receiver::ReceiverError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match timeout_at(deadline, self.terminal.next()).await.context("the connection does not end")? {
                Ok(notices) => notices.iter().try_for_each(|notice| self.take(notice))?,
                Err(error) => return Ok(error),
            }
        }
    }

    fn take(&mut self, notice: &Notice) -> Result<()> {
        match notice {
            Notice::BookChanged { instrument, version } => self.book(instrument, *version)?,
            Notice::QuoteChanged { .. } => self.quotes += 1,
            Notice::Traded { .. } => self.trades += 1,
            Notice::BestChanged { .. } => self.bests += 1,
            Notice::Gap { .. } => self.gaps += 1,
            Notice::RegressionRefused { .. } | Notice::NeedsResync { .. } | Notice::Refused { .. } => {
                anyhow::bail!("{notice:?}");
            }
            _ => {}
        }
        Ok(())
    }

    fn book(&mut self, instrument: &str, version: Version) -> Result<()> {
        let seen = self.versions.entry(instrument.to_owned()).or_default();
        // A snapshot after a gap may bring the version that is shown already; and 0:0 is also where an instrument without a
        // book is told to be, as an empty one.
        let again = self.gaps > 0 || version == Version::new(0, 0);
        let rises = seen.last().is_none_or(|last| if again { *last <= version } else { *last < version });
        ensure!(rises, "{instrument}: {version} after {:?}", seen.last());
        seen.push(version);
        let book = self.terminal.session().book(instrument).context("a changed book is shown")?;
        ensure!(book.version() == version, "{instrument}: {version} told, {} shown", book.version());
        let best = Side::BOTH.map(|side| book.best(side).map(|level| level.tick_index));
        if let [Some(bid), Some(ask)] = best {
            ensure!(bid < ask, "{instrument} is crossed at {version}: {bid} {ask}");
        }
        self.prices.entry(instrument.to_owned()).or_default().push(best);
        Ok(())
    }

    /// Nothing was refused or asked for again.
    pub(crate) fn is_clean(&self) -> bool {
        self.session().counters() == receiver::Counters::default()
    }
}
