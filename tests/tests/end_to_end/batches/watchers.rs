//! Receivers of a batch stream over restarts of its server. Each book that one is shown must be the truth after some whole
//! block, namely that of its version.
//!
//! Never: a book passed over that is half a block ahead.

use super::chain::{Ladders, Ticks, Truth};
use anyhow::Result;
use market::{FeedState, Side, Version, batch::height_of};
use receiver::{Notice, Terminal};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::{runtime::Runtime, sync::watch, task::JoinHandle};
use wire::{Channel, SubscriptionItem};

/// What one receiver shows of an instrument.
#[derive(Clone, Debug, Default)]
struct Shown {
    version: Option<Version>,
    ticks: Ticks,
    state: FeedState,
    age_ms: u64,
}

type Screen = Arc<Mutex<BTreeMap<Arc<str>, Shown>>>;

/// What all of them saw together.
#[derive(Default)]
pub(super) struct Seen {
    /// Breaches of what must hold; none.
    pub(super) broken: Vec<String>,
    /// Connections that ended.
    pub(super) reconnects: u64,
    /// Books shown.
    pub(super) shown: u64,
}

/// Receivers of one server, or of its successors on the same port.
pub(super) struct Watchers {
    seen: Arc<Mutex<Seen>>,
    screens: Vec<Screen>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Watchers {
    /// Connects that many. With a truth each book is held against it; while a loss is accepted there is none.
    pub(super) fn start(runtime: &Runtime, url: &str, count: usize, truth: Option<&Arc<Truth>>) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = watch::channel(false);
        let (mut screens, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let item = |channel| SubscriptionItem { channel, pattern: "*".into() };
            let terminal = Terminal::new(url, &[item(Channel::Book), item(Channel::Digest), item(Channel::Status)])?;
            let screen = Screen::default();
            screens.push(Arc::clone(&screen));
            let follower = Follower { seen: Arc::clone(&seen), screen, truth: truth.cloned() };
            tasks.push(runtime.spawn(follower.follow(terminal, stopped.clone())));
        }
        Ok(Self { seen, screens, stop, tasks })
    }

    /// Whether every receiver shows exactly these books, in that state.
    pub(super) fn all_show(&self, books: &Ladders, state: FeedState) -> bool {
        self.screens.iter().all(|screen| {
            let screen = screen.lock().unwrap();
            let right = |(name, ticks): (&String, &Ticks)| {
                screen.get(name.as_str()).is_some_and(|shown| shown.ticks == *ticks && shown.state == state)
            };
            books.iter().all(right)
        })
    }

    /// What the first receiver shows, in short.
    pub(super) fn told(&self) -> String {
        let screen = self.screens[0].lock().unwrap();
        let of = |(name, shown): (&Arc<str>, &Shown)| {
            let levels = shown.ticks.each_ref().map(Vec::len);
            format!("{name} {:?} {:?} {levels:?}", shown.version.map(|version| version.to_string()), shown.state)
        };
        screen.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// The least age that receivers show of any instrument, milliseconds.
    pub(super) fn least_age_ms(&self) -> u64 {
        let least = |screen: &Screen| screen.lock().unwrap().values().map(|shown| shown.age_ms).min();
        self.screens.iter().filter_map(least).min().unwrap_or(0)
    }

    /// The versions that the first one shows.
    pub(super) fn versions(&self) -> BTreeMap<String, Version> {
        let screen = self.screens[0].lock().unwrap();
        screen.iter().filter_map(|(name, shown)| Some((name.to_string(), shown.version?))).collect()
    }

    /// The books that the first one shows.
    pub(super) fn books(&self) -> Ladders {
        let screen = self.screens[0].lock().unwrap();
        screen.iter().map(|(name, shown)| (name.to_string(), shown.ticks.clone())).collect()
    }

    /// Books that were shown so far.
    pub(super) fn shown(&self) -> u64 {
        self.seen.lock().unwrap().shown
    }

    /// Ends all of them.
    pub(super) fn end(self, runtime: &Runtime) -> Seen {
        self.stop.send_replace(true);
        for task in self.tasks {
            runtime.block_on(task).unwrap();
        }
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

struct Follower {
    seen: Arc<Mutex<Seen>>,
    screen: Screen,
    truth: Option<Arc<Truth>>,
}

impl Follower {
    async fn follow(self, mut terminal: Terminal, mut stopped: watch::Receiver<bool>) {
        let mut turn = tokio::time::interval(std::time::Duration::from_millis(50));
        loop {
            let told = tokio::select! {
                told = terminal.next() => told,
                _ = turn.tick() => Ok(Vec::new()),
                _ = stopped.changed() => return terminal.close().await,
            };
            match told {
                Ok(notices) => notices.iter().for_each(|notice| self.take(&terminal, notice)),
                Err(_) => self.seen.lock().unwrap().reconnects += 1,
            }
            let now_ms = terminal.now_ms();
            let mut screen = self.screen.lock().unwrap();
            for (name, shown) in screen.iter_mut() {
                shown.state = terminal.session().feed(name, now_ms).map(|feed| feed.state).unwrap_or_default();
                shown.age_ms = terminal.session().age_ms(name, now_ms).unwrap_or(0);
            }
        }
    }

    fn take(&self, terminal: &Terminal, notice: &Notice) {
        match notice {
            Notice::BookChanged { instrument, version } => self.book(terminal, instrument, *version),
            // What a server that has just begun offers is refused where more was shown already: it is not seen.
            Notice::DigestMismatch { .. } => self.seen.lock().unwrap().broken.push(format!("{notice:?}")),
            _ => {}
        }
    }

    fn book(&self, terminal: &Terminal, instrument: &Arc<str>, version: Version) {
        let Some(book) = terminal.session().book(instrument) else { return };
        let side = |side| book.levels(side).map(|level| (level.tick_index, level.quantity)).collect();
        let ticks = [side(Side::Bid), side(Side::Ask)];
        let mut seen = self.seen.lock().unwrap();
        seen.shown += 1;
        // A book that is still being put together from the store is marked as such.
        let feed = terminal.session().feed(instrument, terminal.now_ms());
        let whole = feed.is_some_and(|feed| feed.state != FeedState::Syncing);
        let fault = self
            .truth
            .as_ref()
            .filter(|_| whole)
            .and_then(|truth| truth.fault(instrument, height_of(version.seq), &ticks));
        seen.broken.extend(fault.map(|fault| format!("{version}: {fault}")));
        let mut screen = self.screen.lock().unwrap();
        let shown = screen.entry(Arc::clone(instrument)).or_default();
        if let Some(before) = shown.version.filter(|before| *before > version) {
            seen.broken.push(format!("{instrument}: {version} after {before}"));
        }
        (shown.version, shown.ticks) = (Some(version), ticks);
    }
}
