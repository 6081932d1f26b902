//! The audit of a running server: every now and then each instrument's live book is held against the store, and what
//! differs is judged, kept as evidence and put right. What the store's part of it decides is in
//! `connectors::clickhouse::audit`; this is when, how fast, and with whom.
//!
//! Some instruments at a time: the lanes are asked for copies, the copies' versions are waited for until they are durable,
//! and one statement reads them all. A bounded number of instruments a second leaves the store to the writer.
//!
//! Never: a store read that ends the task; two statements at one time.

mod act;
mod ask;
mod numbers;

pub use numbers::{AuditNumbers, AuditView, Finding, Skip};

use ask::{Asked, Lanes};
use connectors::clickhouse::{
    EpochBlocks, EpochBlocksError, ReadError, SinkInput, SinkView, StoreAddress,
    audit::{self, AuditRecord, Comparison, Evidence, LiveTicks, Memory, StateRead},
};
use dataflow::{copy::BookCopy, ingest::FeedSender};
use foldhash::{HashMap, HashMapExt};
use market::{Directory, FeedState, Instrument, SymbolId, Tranches, Version};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// Instruments whose copies are made at one time; so many answers the channel holds twice over.
const CHUNK: usize = 16;

/// Answers that the lanes may have under way.
pub const COPIES_MAX: usize = 2 * CHUNK;

/// Live ticks that one statement reads, about: the embedded engine builds an answer in memory.
const PAGE_TICKS: usize = 200_000;

/// Longest wait for a copy's version to become durable: a store that is further behind has other troubles.
const DURABLE_MAX: Duration = Duration::from_secs(10);

/// How often that is looked at.
const DURABLE_EVERY: Duration = Duration::from_millis(20);

/// Longest read or write of the store.
const STORE_MAX: Duration = Duration::from_secs(60);

/// The least pause between two audits, when one takes as long as its period.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// How it audits.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// From the beginning of one audit to that of the next.
    pub every: Duration,
    /// Instruments a second at the most.
    pub per_second: u32,
    /// Rows of evidence that one audit keeps.
    pub evidence_max: usize,
    /// This host's name.
    pub host: Arc<str>,
    /// The first epoch of this start's block.
    pub block: u64,
}

/// What it works with.
pub struct AuditEnds {
    /// The store.
    pub store: StoreAddress,
    /// Instruments.
    pub directory: Arc<Directory>,
    /// Names of tranches.
    pub tranches: Arc<Tranches>,
    /// Where the lanes are asked.
    pub feed: FeedSender,
    /// Where they answer.
    pub copies: mpsc::Receiver<BookCopy>,
    /// The store's queue.
    pub queue: mpsc::Sender<SinkInput>,
    /// What of it is durable.
    pub view: Arc<SinkView>,
    /// Where books of a batch stream are asked for, if there is one: by the instrument's own spelling.
    pub rebuilds: Option<mpsc::Sender<Box<str>>>,
    /// Unix nanoseconds.
    pub now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// What it counts.
    pub numbers: Arc<AuditNumbers>,
}

/// Why a part of an audit came to nothing.
#[derive(Debug, thiserror::Error)]
enum AuditError {
    /// The store did not answer as it should.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// The epoch blocks could not be read.
    #[error(transparent)]
    Blocks(#[from] EpochBlocksError),
    /// The store did not answer in time.
    #[error("the store did not answer within {} s", STORE_MAX.as_secs())]
    TimedOut,
    /// The server ends.
    #[error("the server ends")]
    Ended,
}

/// Waits for the store, but not for ever.
async fn in_time<T, E>(answer: impl Future<Output = Result<T, E>>) -> Result<T, AuditError>
where
    AuditError: From<E>,
{
    Ok(tokio::time::timeout(STORE_MAX, answer).await.map_err(|_| AuditError::TimedOut)??)
}

/// An instrument whose copy can be held against the store.
struct Copied {
    instrument: Arc<Instrument>,
    live: LiveTicks,
    state: FeedState,
    rebuilds: u64,
    restored: bool,
}

/// What a comparison was made of, with what is known of the instrument after it.
struct Compared {
    copied: Copied,
    comparison: Comparison,
    /// What is shown of its feed after the read.
    after: FeedState,
}

/// The audits of a server.
pub struct Audit {
    options: AuditOptions,
    client: clickhouse::Client,
    blocks: EpochBlocks,
    directory: Arc<Directory>,
    tranches: Arc<Tranches>,
    lanes: Lanes,
    queue: mpsc::Sender<SinkInput>,
    view: Arc<SinkView>,
    rebuilds: Option<mpsc::Sender<Box<str>>>,
    now_ns: Arc<dyn Fn() -> u64 + Send + Sync>,
    numbers: Arc<AuditNumbers>,
    memory: Memory,
    /// Versions from here on may be another host's.
    others_from: Option<u64>,
}

/// One audit while it goes on.
struct Running {
    record: AuditRecord,
    evidence_left: usize,
    unkept: u64,
    failures: u64,
}

impl Audit {
    /// Audits to be run.
    #[must_use]
    pub fn new(options: AuditOptions, ends: AuditEnds) -> Self {
        let client = ends.store.client();
        Self {
            blocks: EpochBlocks::new(client.clone()),
            client,
            directory: ends.directory,
            tranches: ends.tranches,
            lanes: Lanes::new(ends.feed, ends.copies, Arc::clone(&ends.now_ns)),
            queue: ends.queue,
            view: ends.view,
            rebuilds: ends.rebuilds,
            now_ns: ends.now_ns,
            numbers: ends.numbers,
            memory: Memory::default(),
            others_from: None,
            options,
        }
    }

    /// Audits until the server ends.
    pub async fn run(mut self) {
        let mut next = Instant::now() + self.options.every;
        loop {
            tokio::time::sleep_until(next).await;
            let begun = Instant::now();
            if self.audit().await.is_err() {
                return;
            }
            next = (begun + self.options.every).max(Instant::now() + PAUSE_MIN);
        }
    }

    /// One audit of every instrument.
    async fn audit(&mut self) -> Result<(), AuditError> {
        let begun_ns = (self.now_ns)();
        let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let record = AuditRecord {
            audit: begun_ns,
            host: self.options.host.to_string(),
            begun_at: time(begun_ns),
            ..AuditRecord::default()
        };
        let evidence_left = self.options.evidence_max;
        let mut running = Running { record, evidence_left, unkept: 0, failures: 0 };
        match in_time(self.blocks.greatest()).await {
            Ok(greatest) => {
                let others = greatest.is_some_and(|first| first > self.options.block);
                self.others_from = others.then(|| self.options.block.saturating_add(1));
            }
            Err(error) => {
                // Then every row of a later epoch may be another host's.
                self.others_from = Some(0);
                self.fail(&error, &mut running);
            }
        }
        let pause = Duration::from_secs(1) / self.options.per_second.max(1);
        for chunk in self.auditable(&mut running).chunks(CHUNK) {
            let begun = Instant::now();
            match self.chunk(chunk, &mut running).await {
                Ok(()) => {}
                Err(AuditError::Ended) => return Err(AuditError::Ended),
                Err(error) => self.fail(&error, &mut running),
            }
            let share = u32::try_from(chunk.len()).unwrap_or(1);
            tokio::time::sleep_until(begun + pause.saturating_mul(share)).await;
        }
        self.end(running).await;
        Ok(())
    }

    async fn end(&self, mut running: Running) {
        let ended_ns = (self.now_ns)();
        running.record.ended_at = i64::try_from(ended_ns).unwrap_or(i64::MAX);
        if let Err(error) = in_time(audit::keep_audit(&self.client, &running.record)).await {
            self.fail(&error, &mut running);
        }
        let AuditRecord { compared_ticks, skipped_ticks, divergent_ticks, corrected_ticks, .. } = running.record;
        let (instruments, skipped) = (running.record.instruments, running.record.instruments_skipped);
        if divergent_ticks > 0 {
            tracing::error!(
                instruments,
                compared_ticks,
                divergent_ticks,
                corrected_ticks,
                unkept = running.unkept,
                "the audit found ticks that differ; `sprag audit` tells which"
            );
        } else {
            tracing::info!(instruments, skipped, compared_ticks, skipped_ticks, "the audit found nothing");
        }
        self.numbers.end(running.record, ended_ns, running.unkept);
    }

    fn fail(&self, error: &AuditError, running: &mut Running) {
        running.failures += 1;
        self.numbers.failed();
        let error = error as &dyn std::error::Error;
        tracing::error!(error, "a part of the audit failed; the next audit tries it again");
    }

    /// Every instrument that has rows of its own. Two of one venue with the same assets share the keys of `tick_state`.
    fn auditable(&self, running: &mut Running) -> Vec<Arc<Instrument>> {
        let all = self.directory.instruments_from(0);
        let key = |instrument: &Instrument| {
            (instrument.venue, Arc::clone(&instrument.asset_0), Arc::clone(&instrument.asset_1))
        };
        let mut sharing: HashMap<_, u32> = HashMap::new();
        for instrument in &all {
            *sharing.entry(key(instrument)).or_default() += 1;
        }
        let (own, shared): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|instrument| sharing.get(&key(instrument)) == Some(&1));
        for _ in shared {
            self.skip(Skip::SharedKeys, running);
        }
        own
    }

    fn skip(&self, reason: Skip, running: &mut Running) {
        running.record.instruments_skipped += 1;
        self.numbers.skipped(reason);
    }

    async fn chunk(&mut self, chunk: &[Arc<Instrument>], running: &mut Running) -> Result<(), AuditError> {
        let symbols: Vec<_> = chunk.iter().map(|instrument| instrument.id).collect();
        let mut asked = self.lanes.ask(&symbols, Asked::Ticks).await?;
        let mut copied = Vec::new();
        for instrument in chunk {
            let copy = asked.remove(&instrument.id).ok_or(Skip::Unanswered);
            match copy.and_then(|copy| self.usable(instrument, copy)) {
                Ok(usable) => copied.push(usable),
                Err(reason) => self.skip(reason, running),
            }
        }
        let until = Instant::now() + DURABLE_MAX;
        while Instant::now() < until && !copied.iter().all(|copied| self.is_durable(copied)) {
            tokio::time::sleep(DURABLE_EVERY).await;
        }
        let (durable, behind): (Vec<_>, Vec<_>) = copied.into_iter().partition(|copied| self.is_durable(copied));
        for _ in behind {
            self.skip(Skip::NotDurable, running);
        }
        for page in pages(durable) {
            for compared in self.compare(page).await? {
                running.record.instruments += 1;
                running.record.compared_ticks += compared.comparison.compared;
                running.record.skipped_ticks += compared.comparison.skipped;
                self.numbers.compared(&compared.comparison);
                if !compared.comparison.suspects.is_empty() {
                    self.act(compared, running).await?;
                }
            }
        }
        Ok(())
    }

    /// A copy that can be held against the store, or why not.
    fn usable(&self, instrument: &Arc<Instrument>, copy: BookCopy) -> Result<Copied, Skip> {
        let version = copy.version.ok_or(Skip::NoBook)?;
        match copy.state {
            // What was kept is not proven yet, and may be the checkpoint's, which is ahead of the store.
            FeedState::Syncing => return Err(Skip::Syncing),
            // Late batches are in the store before the books that they change are rebuilt.
            FeedState::Gapped if instrument.venue.sends_batches() => return Err(Skip::Gapped),
            _ => {}
        }
        let mut ticks = HashMap::with_capacity(copy.ticks.len());
        for tick in copy.ticks {
            let key = connectors::clickhouse::StoredKey::of(tick.key, &self.tranches).ok_or(Skip::Unnamed)?;
            ticks.insert(audit::TickName { side: tick.side, key }, tick.reserves);
        }
        let live = LiveTicks { version, scale: copy.scale, ticks };
        let (state, rebuilds, restored) = (copy.state, copy.rebuilds, copy.restored);
        Ok(Copied { instrument: Arc::clone(instrument), live, state, rebuilds, restored })
    }

    /// Whether everything up to the copy's version is in the store. What was kept over the start is there since then.
    fn is_durable(&self, copied: &Copied) -> bool {
        copied.restored || self.view.durable(copied.instrument.id) >= Some(copied.live.version)
    }

    async fn compare(&mut self, copied: Vec<Copied>) -> Result<Vec<Compared>, AuditError> {
        let wanted: Vec<_> =
            copied.iter().map(|copied| (Arc::clone(&copied.instrument), copied.live.version)).collect();
        let mut states = in_time(audit::states(&self.client, &wanted)).await?;
        // Only now: what anybody of us wrote until the read ended is at or below these versions.
        let moved: Vec<SymbolId> =
            states.iter().filter(|(_, state)| !state.newer.is_empty()).map(|(symbol, _)| *symbol).collect();
        let seen = self.lanes.ask(&moved, Asked::Version).await?;
        let compare = |copied: Copied| {
            let state: StateRead = states.remove(&copied.instrument.id).unwrap_or_default();
            let seen: Option<&BookCopy> = seen.get(&copied.instrument.id);
            let version: Option<Version> = seen.and_then(|seen| seen.version);
            let comparison = audit::compare(&copied.live, &state, version);
            let after = seen.map_or(copied.state, |seen| seen.state);
            Compared { copied, comparison, after }
        };
        Ok(copied.into_iter().map(compare).collect())
    }

    /// Keeps evidence, as much as one audit may keep.
    async fn keep(&self, mut evidence: Vec<Evidence>, running: &mut Running) -> Result<(), AuditError> {
        let left = evidence.len().saturating_sub(running.evidence_left);
        evidence.truncate(running.evidence_left);
        running.evidence_left -= evidence.len();
        running.unkept += u64::try_from(left).unwrap_or(u64::MAX);
        in_time(audit::keep_evidence(&self.client, &evidence)).await
    }
}

/// Instruments in groups that one statement reads.
fn pages(copied: Vec<Copied>) -> Vec<Vec<Copied>> {
    let mut pages: Vec<Vec<Copied>> = Vec::new();
    let mut ticks = 0;
    for next in copied {
        ticks += next.live.ticks.len();
        match pages.last_mut() {
            Some(page) if ticks <= PAGE_TICKS => page.push(next),
            _ => {
                ticks = next.live.ticks.len();
                pages.push(vec![next]);
            }
        }
    }
    pages
}
