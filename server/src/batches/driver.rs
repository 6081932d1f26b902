//! The driver of the stream: what came, what was done, what is due; everything in one place, one thing after the other.
//!
//! Never: a wait that holds up what came; all that takes time is a task.

use super::{
    BatchOptions, BatchStart,
    arrivals::{Arrivals, Taken},
    cursor::Cursor,
    held::{Arrived, BatchTimes, Decoded, Held, Original, Receipt},
    marks::Marks,
    numbers::{BatchNumbers, count},
    order::Watch,
    rebuild::Rebuilt,
    tasks::{self, GapChange, Unreadable},
};
use crate::batches::BatchError;
use connectors::{
    clickhouse::{
        SinkView,
        batch_log::{BatchLog, BatchLogError, Gap},
    },
    neutron_dex::{Block, feed::BlockFeed},
    pubsub::pull::{Pull, PullEvent},
};
use dataflow::ingest::{Ended, FeedSender};
use foldhash::{HashSet, HashSetExt};
use market::{
    Body, Event, LegId, Tranches,
    batch::{BatchGuard, BatchId, BatchName, Hole, Rebuild, end_of},
};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

/// How often what is due is looked at.
const TURN: Duration = Duration::from_millis(10);

/// Batches that are decoded at one time; each takes its content and its ticks.
const DECODING_MAX: usize = 2;

/// How long writes that are under way are waited for at the end; what is not safe then comes again.
const END_MAX: Duration = Duration::from_millis(500);

/// What a task did.
pub(super) enum Done {
    Decoded(Result<Box<Decoded>, Box<(Arrived, BatchError)>>),
    Logged(BatchName, Result<(), Option<BatchId>>),
    Asked(Vec<Receipt>),
    LookedUp(BatchName, Box<Decoded>, Result<(), Option<BatchId>>),
    Read(BatchName, Result<(BatchTimes, Arc<Block>), Unreadable>),
    /// Delivered, or told of the late one.
    Fed(Box<BlockFeed>, Fed, Result<Result<(), BatchError>, Ended>),
    Rebuilt(Rebuild, Result<Vec<Rebuilt>, Unreadable>),
    /// Books that an audit wants.
    Wished(Result<Vec<Rebuilt>, Unreadable>),
    /// Messages to be acknowledged, and letters that were buried again.
    Buried(Vec<Receipt>, Vec<Box<str>>),
    Settled(Box<str>),
    Unusable(BatchName, Option<Box<Original>>, String),
    CursorMoved(u64),
    GapsNoted,
    Polled(Vec<Gap>),
    Letters(Vec<Arrived>, Vec<(Original, BatchError)>),
}

/// What was fed.
pub(super) enum Fed {
    Batch(BatchName),
    Late(BatchName),
    Rebuild(Rebuild),
    Wished,
    Events,
}

/// The stream at work.
pub(super) struct Driver {
    pub(super) options: BatchOptions,
    pub(super) log: Arc<BatchLog>,
    pub(super) numbers: Arc<BatchNumbers>,
    pub(super) now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(super) feed: FeedSender,
    pub(super) view: Arc<SinkView>,
    pub(super) tranches: Arc<Tranches>,
    pub(super) leg: LegId,
    /// The position that every instrument is known up to at the least.
    pub(super) base: u64,
    pub(super) guard: BatchGuard,
    /// At home while nothing is being fed.
    pub(super) block_feed: Option<Box<BlockFeed>>,
    pub(super) arrivals: Arrivals,
    pub(super) decoding: usize,
    pub(super) held: Held,
    pub(super) cursor: Cursor,
    pub(super) cursor_busy: bool,
    pub(super) gaps: Vec<GapChange>,
    pub(super) gaps_busy: bool,
    /// Losses that a snapshot has healed, until that is on record.
    pub(super) healed: Vec<Hole>,
    /// Late batches whose changes are still to be told to the lanes.
    pub(super) late: VecDeque<BatchName>,
    /// Late batches whose changes are on their way; they are logged once those are durable.
    pub(super) late_unlogged: usize,
    /// The next batch goes before a late one.
    pub(super) late_next: bool,
    pub(super) reading: Option<BatchName>,
    pub(super) rebuilding: bool,
    /// Where audits ask for books.
    pub(super) wishes: Option<mpsc::Receiver<Box<str>>>,
    /// Those that were asked for.
    pub(super) wished: Vec<Box<str>>,
    pub(super) watch: Watch,
    pub(super) marks: Marks,
    /// Events that go to the lanes next.
    pub(super) outbox: Vec<Event>,
    pub(super) tasks: JoinSet<Done>,
    pub(super) polled: Instant,
    pub(super) polling: bool,
    /// Dead letters that are being tried again.
    pub(super) letters: HashSet<Box<str>>,
}

impl Driver {
    /// Follows the stream until it is stopped or the lanes have ended.
    pub(super) async fn begin(
        start: BatchStart,
        mut pull: Pull,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), Ended> {
        let Ok(mut driver) = Self::new(start).await else { return Err(Ended) };
        let mut turn = tokio::time::interval(TURN);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let ended = loop {
            let listening = driver.has_room();
            tokio::select! {
                _ = stopped.changed() => break Ok(()),
                Some(done) = driver.tasks.join_next(), if !driver.tasks.is_empty() => match done {
                    Ok(done) => if driver.take_done(done).is_err() { break Err(Ended) },
                    Err(error) => {
                        tracing::error!(%error, "a task of the batch stream failed");
                        break Err(Ended);
                    }
                },
                event = pull.next(), if listening => match event {
                    Some(event) => driver.take_event(event),
                    None => break Ok(()),
                },
                _ = turn.tick() => {}
            }
            driver.go_on();
        };
        driver.end(pull).await;
        ended
    }

    async fn new(start: BatchStart) -> Result<Self, BatchLogError> {
        let BatchStart {
            options,
            log,
            cursor,
            listings,
            tranches,
            leg,
            feed,
            view,
            restored,
            known,
            now_ns,
            numbers,
            wishes,
            ..
        } = start;
        let position = cursor.unwrap_or(options.begin_after);
        let (log, (marks, stale)) = (Arc::new(log), Marks::new(leg, options.behind, now_ns()));
        let mut block_feed = Box::new(BlockFeed::new(listings, Arc::clone(&tranches), leg));
        block_feed.begin(end_of(position));
        block_feed.known(&known);
        for event in &restored {
            if let Body::Restored(kept) = &event.body {
                let ticks: Vec<_> = kept.ticks.iter().flatten().map(|kept| kept.tick).collect();
                block_feed.alive(event.symbol, &ticks);
            }
        }
        let guard = super::order::begun(&log, &numbers, position, cursor.is_some()).await?;
        numbers.with(|state| {
            state.stream = options.stream.to_string();
            (state.position, state.cursor) = (position, position);
        });
        // The books first, then what says that they are not known to be the last.
        let outbox = restored.into_iter().chain([stale]).collect();
        Ok(Self {
            arrivals: Arrivals::new(&options),
            base: end_of(position),
            options,
            log,
            numbers,
            now_ns,
            feed,
            view,
            tranches,
            leg,
            guard,
            block_feed: Some(block_feed),
            decoding: 0,
            held: Held::default(),
            cursor: Cursor::new(position),
            cursor_busy: false,
            gaps: Vec::new(),
            gaps_busy: false,
            healed: Vec::new(),
            late: VecDeque::new(),
            late_unlogged: 0,
            late_next: true,
            reading: None,
            rebuilding: false,
            wishes,
            wished: Vec::new(),
            watch: Watch::default(),
            marks,
            outbox,
            tasks: JoinSet::new(),
            polled: Instant::now(),
            polling: false,
            letters: HashSet::new(),
        })
    }

    /// Whether more may come: beyond the memory bound the subscription waits, and its server keeps what it has.
    pub(super) fn has_room(&self) -> bool {
        self.held.bytes().saturating_add(self.arrivals.bytes()) < self.options.memory_bytes
    }

    fn take_event(&mut self, event: PullEvent) {
        let now = Instant::now();
        match event {
            PullEvent::Up => self.marks.up(now),
            PullEvent::Down(error) => {
                count(&self.numbers.reconnects);
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the subscription is down");
                self.marks.down();
            }
            PullEvent::Message(pulled) => {
                count(&self.numbers.messages);
                self.outbox.extend(self.marks.heard(now, (self.now_ns)()));
                match self.arrivals.take(*pulled) {
                    Taken::Nothing => {}
                    Taken::Poison(original, error) => self.refuse(original, &error),
                    Taken::GiveBack(receipts) => drop(receipts),
                    Taken::Ask(name, receipts) => self.ask(name, receipts),
                }
            }
        }
    }

    fn take_done(&mut self, done: Done) -> Result<(), Ended> {
        match done {
            Done::Decoded(decoded) => {
                self.decoding -= 1;
                match decoded {
                    Ok(decoded) => self.offer(*decoded),
                    Err(failed) => {
                        let (arrived, error) = *failed;
                        self.refuse(arrived.original, &error);
                    }
                }
            }
            Done::Logged(name, logged) => self.logged(name, logged),
            Done::Asked(receipts) => self.settle(receipts),
            Done::LookedUp(name, decoded, found) => self.looked_up(name, *decoded, found),
            Done::Read(name, read) => self.was_read(name, read),
            Done::Fed(block_feed, fed, result) => {
                self.block_feed = Some(block_feed);
                self.fed(fed, result?);
            }
            Done::Rebuilt(rebuild, rebuilt) => self.rebuilt(rebuild, rebuilt),
            Done::Wished(rebuilt) => self.wished(rebuilt),
            Done::Buried(receipts, again) => {
                self.settle(receipts);
                self.letters.retain(|id| !again.contains(id));
            }
            Done::Settled(id) => self.letters.retain(|known| *known != id),
            Done::Unusable(name, original, reason) => {
                if let Some(original) = original {
                    self.bury_logged(name, *original, reason);
                }
            }
            Done::CursorMoved(height) => {
                self.cursor_busy = false;
                self.cursor.wrote(height);
                self.tranches.forget_dead(height);
            }
            Done::GapsNoted => self.gaps_busy = false,
            Done::Polled(gaps) => self.polled(&gaps),
            Done::Letters(letters, unreadable) => {
                self.polling = false;
                for arrived in letters {
                    if self.begins(&arrived.original) {
                        self.arrivals.again(arrived);
                    }
                }
                for (original, error) in unreadable {
                    if self.begins(&original) {
                        self.refuse(original, &error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a dead letter is not in work already.
    fn begins(&mut self, original: &Original) -> bool {
        original.receipts.iter().all(|receipt| match receipt {
            Receipt::Letter(id) => self.letters.insert(id.clone()),
            Receipt::Message(_) => true,
        })
    }

    /// Starts everything that can be started.
    fn go_on(&mut self) {
        while self.decoding < DECODING_MAX
            && let Some(arrived) = self.arrivals.next()
        {
            self.decoding += 1;
            let bytes_max = self.options.content_bytes_max;
            self.tasks.spawn_blocking(move || Done::Decoded(tasks::decode(arrived, bytes_max)));
        }
        self.arrivals.unstick();
        for (name, receipts) in self.arrivals.stale((self.now_ns)()) {
            self.ask(name, receipts);
        }
        self.durable();
        self.deliver();
        self.look();
        self.write_gaps();
        self.write_cursor();
        self.poll_operator();
        self.tell();
    }

    /// What is durable by now.
    fn durable(&mut self) {
        if !self.cursor.waits() {
            return;
        }
        let through = self.view.through(self.leg);
        for mark in self.cursor.durable(through.count) {
            self.became_durable(mark);
        }
        self.cursor.advance(self.held.first_unlogged());
    }

    fn write_cursor(&mut self) {
        // What a snapshot has passed is on record before the cursor passes it.
        let ready = !self.cursor_busy && !self.gaps_busy && self.gaps.is_empty();
        let Some(height) = self.cursor.due().filter(|_| ready) else { return };
        self.cursor_busy = true;
        let (log, numbers, now_ns) = (Arc::clone(&self.log), Arc::clone(&self.numbers), (self.now_ns)());
        self.tasks.spawn(async move {
            // What cannot be written now is written with the next height.
            drop(tasks::insist(&numbers, "move the cursor", || log.move_cursor(height, now_ns)).await);
            connectors::halt::point("cursor-moved");
            Done::CursorMoved(height)
        });
    }

    fn write_gaps(&mut self) {
        if self.gaps_busy || self.gaps.is_empty() {
            return;
        }
        self.gaps_busy = true;
        let (log, numbers, gaps) = (Arc::clone(&self.log), Arc::clone(&self.numbers), std::mem::take(&mut self.gaps));
        self.tasks.spawn(async move {
            tasks::note_gaps(&log, &numbers, gaps).await;
            Done::GapsNoted
        });
    }

    fn tell(&self) {
        let (position, cursor, waiting) = (self.guard.position(), self.cursor.written(), self.guard.waiting());
        let (memory_bytes, lossy) = (self.held.bytes(), self.guard.is_lossy());
        self.numbers.with(|state| {
            (state.position, state.cursor, state.waiting) = (position, cursor, waiting);
            (state.memory_bytes, state.lossy) = (memory_bytes, lossy);
            state.set_hole(self.watch.shown());
        });
        self.marks.note(&self.numbers);
    }

    /// Ends: writes under way may finish, all else is given back.
    async fn end(mut self, pull: Pull) {
        let until = tokio::time::Instant::now() + END_MAX;
        while !self.tasks.is_empty() {
            match tokio::time::timeout_at(until, self.tasks.join_next()).await {
                Ok(Some(Ok(Done::Logged(name, Ok(()))))) => {
                    let receipts = self.held.logged(name, 0);
                    self.settle(receipts);
                }
                Ok(Some(Ok(Done::Buried(receipts, _)))) => self.settle(receipts),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // What is still in hand goes back once the stream is closed: given back before, it would come again on it.
        pull.shutdown().await;
        self.tasks.abort_all();
        self.held.clear();
        self.arrivals.clear();
    }
}
