//! `sprag run`: everything together, in the order of the data, and everything down again in the reverse order.
//!
//! 1. store  2. epochs  3. workers  4. tape  5. source  6. HTTP and terminals
//!
//! Never: a source started before what it feeds is up; a part left running when another has failed.

mod analysts;
mod audit;
mod batches;
mod origin;

use crate::{
    batches::BatchSource,
    bumps::Bumps,
    checkpoint::{CheckpointTaker, CheckpointView, TakerConfig},
    config::{Config, SourceKind},
    epochs::{EpochError, EpochJournal, FIRST_BLOCK},
    exit::Exit,
    fanout::{Fanout, FanoutConfig, outbox::RingBounds},
    http::{self, Reads, Shared},
    hub::{Hub, HubConfig},
    raw_log::RawLog,
    restore::{self, RestoredInstrument},
    socket::Admission,
    source::{self, SourceControl},
    store::{BATCH_VENUE, Store, StoreError, writer_options},
    tape::{self, LagBounds, StorePort, Tape, TapeEnd, TapeHandle, TapeInput},
    upkeep::Upkeep,
    views,
};
use batches::{BatchBegin, BatchEnds};
use connectors::{
    capture::CaptureError,
    clickhouse::{
        BatchStream, BatchStreams, RestoreBatches, SinkError, SinkReport, SinkView, child::PARENT_FLUSH_MAX,
        sink::SinkInput,
    },
    halt,
    live::{LiveError, LiveVenue, protocol::Listed},
    venue_feed::listings::Listings,
};
use dataflow::{
    clock::CutClock,
    graph::{self, GraphConfig, StartError},
    ingest::{Credit, FeedSender, IngestConfig, Pace, feed},
    lane::LaneConfig,
};
use market::{Directory, Event, Venue, guard::Limits, instrument::DirectoryFull};
use origin::{BATCH_LEG, SourceEnd, SourceStart, live_venues, start_source};
use std::{
    fs::{File, TryLockError},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpListener, sync::mpsc, sync::oneshot, task::JoinHandle};

/// Locked as long as a server runs on its directory.
const LOCK_FILE: &str = "sprag.lock";

/// Frames older than this in an outbox are worth nothing to a trader: 64 frames of 40 ms.
const FRAME_AGE_MS_MAX: u64 = 2_560;

/// The server cannot start, or ended by a fault.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The epoch journal.
    #[error(transparent)]
    Epochs(#[from] EpochError),
    /// The data directory.
    #[error("the data directory cannot be used")]
    DataDirectory(#[source] io::Error),
    /// Another server runs on the data directory.
    #[error("the data directory {} is in use by another server", directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The workers.
    #[error(transparent)]
    Workers(#[from] StartError),
    /// The listener.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("a thread cannot be started")]
    Thread(#[source] io::Error),
    /// A capture.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The source is a capture of which nobody said whose it is.
    #[error("a capture needs its venue: --venue, or capture.venue")]
    NoVenue,
    /// A new epoch could not be noted before it was shown.
    #[error("a new epoch cannot be noted in the data directory")]
    Unnoted,
    /// Connections to venues.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The address of Pub/Sub.
    #[error(transparent)]
    PubSub(#[from] connectors::pubsub::client::AddressError),
    /// A name of Pub/Sub.
    #[error(transparent)]
    Name(#[from] connectors::pubsub::client::NameError),
    /// More instruments were kept than one process knows.
    #[error(transparent)]
    Full(#[from] DirectoryFull),
    /// The store's sink ended.
    #[error("the store's sink ended early")]
    Sink(#[from] SinkError),
    /// The engine's process ended.
    #[error("the embedded ClickHouse engine ended by itself")]
    EngineLost,
    /// Changes that were shown are not in the store.
    #[error("not everything that was under way at the end is in the store")]
    Unfinished,
    /// The frontier stood still.
    #[error("the frontier stood still past its bound; the process must be restarted")]
    Stalled,
    /// A thread ended without a word.
    #[error("a thread of the pipeline ended early")]
    Ended,
}

impl RunError {
    /// What the process ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Sink(_) | Self::EngineLost | Self::Unfinished => Exit::Store,
            Self::Epochs(error) => error.exit(),
            Self::DataDirectory(_) | Self::Unnoted => Exit::Input,
            Self::Capture(_) => Exit::Input,
            Self::InUse { .. } => Exit::DataDirectory,
            Self::NoVenue | Self::Live(_) | Self::PubSub(_) | Self::Name(_) => Exit::Usage,
            Self::Listen { .. } => Exit::Network,
            Self::Stalled => Exit::Stalled,
            Self::Workers(_) | Self::Thread(_) | Self::Ended | Self::Full(_) => Exit::Internal,
        }
    }
}

/// The present, Unix nanoseconds.
#[must_use]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What the store's part of the run holds.
#[derive(Default)]
struct StorePart {
    store: Option<Store>,
    queue: Option<mpsc::Sender<SinkInput>>,
    view: Option<Arc<SinkView>>,
    sink: Option<JoinHandle<Result<SinkReport, SinkError>>>,
    upkeep: Option<Upkeep>,
}

/// Runs the server until `stop` resolves or a part fails. `started` is told the address once terminals may connect.
///
/// # Errors
/// [`RunError`].
pub async fn run(
    config: &Config,
    stop: impl Future<Output = ()>,
    started: impl FnOnce(SocketAddr),
) -> Result<(), RunError> {
    let _held = hold(&config.data_dir)?;
    let address = format!("{}:{}", config.server.host, config.server.port);
    let failed = |source| RunError::Listen { address: address.clone(), source };
    let listener = TcpListener::bind(&address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;

    let directory = Arc::new(Directory::default());
    let store = open_store(config).await?;
    let checkpoints = Arc::new(CheckpointView::default());
    let (bumps, bumped) = Bumps::open(&config.data_dir, Arc::clone(&directory)).map_err(RunError::DataDirectory)?;
    let streams = batch_streams(config);
    let begin_after = config.pubsub.begin_after;
    let from = RestoreBatches { batches: streams.clone(), begin_after };
    let kept = restore::load(&config.data_dir, store.as_ref(), &checkpoints, &from).await?;
    let kept = kept.without_outdated(&bumped);
    let journal = EpochJournal::open(&config.data_dir)?;
    let journal = match &store {
        Some(store) => journal.shared(store.epoch_blocks()),
        None => journal,
    };
    let epoch = journal.next(kept.epoch_least).await?;
    halt::point("epoch-reserved");
    let tranches = Arc::clone(&streams.tranches);
    let mut part = open_sink(store, config, epoch, (&directory, streams));
    let listings = known_listings(config, &directory).await.with_epochs(kept.epochs, epoch).with_tranches(tranches);
    let listings = Arc::new(if epoch > FIRST_BLOCK { listings.after_others() } else { listings });

    let (logged, kept_books): (Vec<_>, Vec<_>) = kept.instruments.into_iter().partition(|kept| kept.restored.from_log);
    let books = kept_books.iter().filter(|kept| kept.restored.ticks.is_some()).count();
    let events = |books| restore::events(books, &kept.outdated, &listings, BATCH_LEG, epoch, unix_ns());
    let restored = events(kept_books)?;
    let batches = batch_begin(config, &part, logged, events).await?;
    let numbers = batches.as_ref().map(|begin| Arc::clone(&begin.numbers));
    let checkpoint_view = Arc::clone(&checkpoints);
    let begin = Begin { generation: epoch, listings, restored, books, batches, checkpoints: checkpoint_view, bumps };
    let mut pipeline = Pipeline::start(config, begin, &part)?;
    let shared = Shared {
        tape: pipeline.tape.clone(),
        directory,
        admission: Admission::new(config.server.max_terminals, ring_bounds(config)),
        source: pipeline.control.clone(),
        store: part.view.clone(),
        upkeep: part.upkeep.as_ref().map(Upkeep::numbers),
        batches: numbers,
        reads: Arc::new(Reads::new(&config.http, part.store.as_ref().map(|store| store.address().client()))),
        audit: pipeline.audit.as_ref().map(|audit| Arc::clone(&audit.numbers)),
        checkpoints,
        ready: Arc::new(AtomicBool::new(true)),
        lag_max: Duration::from_millis(config.pipeline.frontier_alarm_ms),
        simulated: config.source.kind != SourceKind::Live,
    };
    let ready = Arc::clone(&shared.ready);
    let (close, closed) = oneshot::channel::<()>();
    let router = http::router(shared);
    let until = async move { drop(closed.await) };
    let serving = tokio::spawn(http::serve(listener, router, config.server.head_max(), until));
    started(bound);
    let ended = pipeline.wait(&mut part, stop).await;
    if matches!(ended, Err(RunError::EngineLost))
        && let Some(sink) = part.sink.take()
    {
        // Nobody is left to take what it holds; a restart heals the store from the venues.
        sink.abort();
    }
    ready.store(false, Relaxed);
    drop(close);
    drain(&pipeline.tape, Duration::from_millis(config.server.drain_ms)).await;
    part.upkeep = None;
    let down = pipeline.end(part).await;
    serving.abort();
    // What ended the run comes first; what went wrong on the way down may only be its consequence.
    ended.and(down)
}

/// Listings with all that configuration and venues say of instruments.
async fn known_listings(config: &Config, directory: &Arc<Directory>) -> Listings {
    let live = live_venues(config);
    let listings = subscribed(listings(config, directory), &live);
    told(listings, &source::venue_listings(&live).await)
}

/// The batch stream that is configured, if any.
fn batch_streams(config: &Config) -> BatchStreams {
    let stream = BatchStream { leg: BATCH_LEG, venue: BATCH_VENUE, stream: config.pubsub.stream.as_str().into() };
    let streams = if config.pubsub.is_wanted() { vec![stream] } else { Vec::new() };
    BatchStreams { streams, ..BatchStreams::default() }
}

/// What the batch stream begins with, if there is one. Without it the books of its log are left alone: nothing would ever
/// tell that they are out of date.
async fn batch_begin(
    config: &Config,
    part: &StorePart,
    kept: Vec<RestoredInstrument>,
    events: impl Fn(Vec<RestoredInstrument>) -> Result<Vec<Event>, DirectoryFull>,
) -> Result<Option<BatchBegin>, RunError> {
    let Some(store) = part.store.as_ref().filter(|_| config.pubsub.is_wanted()) else {
        if !kept.is_empty() {
            tracing::info!(
                instruments = kept.len(),
                "books of a batch stream are kept, and no subscription is configured"
            );
        }
        return Ok(None);
    };
    let cursor = store.batch_log(&config.pubsub.stream).cursor().await.map_err(StoreError::from)?;
    let restored = events(kept)?;
    Ok(Some(BatchBegin { cursor, restored, numbers: Arc::default() }))
}

/// Holds the data directory for this process, with or without a store in it; the lock goes with the process.
fn hold(data_dir: &Path) -> Result<File, RunError> {
    std::fs::create_dir_all(data_dir).map_err(RunError::DataDirectory)?;
    let open = File::options().create(true).truncate(false).write(true).open(data_dir.join(LOCK_FILE));
    let file = open.map_err(RunError::DataDirectory)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RunError::InUse { directory: data_dir.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(RunError::DataDirectory(source)),
    }
}

/// Sends the terminals away in steps, so that they do not all come back at once.
async fn drain(tape: &TapeHandle, within: Duration) {
    let steps = u32::try_from(within.as_millis() / DRAIN_STEP.as_millis()).unwrap_or(u32::MAX).max(1);
    let percent = u8::try_from(100_u32.div_ceil(steps)).unwrap_or(100).max(DRAIN_PERCENT_MIN);
    for step in 1..=steps {
        let last = step == steps;
        match tape.drain(if last { 100 } else { percent }).await {
            Ok(0) | Err(_) => return,
            Ok(_) if !last => tokio::time::sleep(DRAIN_STEP).await,
            Ok(_) => {}
        }
    }
}

/// Time between two groups of terminals that are sent away.
const DRAIN_STEP: Duration = Duration::from_millis(250);

/// Share of the terminals that leaves in one step at the least, percent.
const DRAIN_PERCENT_MIN: u8 = 2;

fn ring_bounds(config: &Config) -> RingBounds {
    RingBounds { frames: config.server.ring_frames, bytes: config.server.ring_bytes, age_ms: FRAME_AGE_MS_MAX }
}

/// Listings with the configured names of assets, and steps.
#[must_use]
pub fn listings(config: &Config, directory: &Arc<Directory>) -> Listings {
    let listings = Listings::new(Arc::clone(directory)).with_silent_intervals(config.pipeline.silent_intervals);
    let listings = listings.with_views(views::table(config));
    config.instrument.iter().fold(listings, |listings, table| {
        let (venue, symbol) = (table.venue, &*table.symbol);
        let listings = match table.assets() {
            Some((asset_0, asset_1)) => listings.with_assets(venue, symbol, asset_0, asset_1),
            None => listings,
        };
        let [price, quantity] = table.steps();
        listings.with_steps(venue, symbol, price, quantity)
    })
}

/// The same listings with what venues say about their own symbols, where no table says otherwise.
fn told(listings: Listings, listed: &[(Venue, Listed)]) -> Listings {
    let listings = listed.iter().fold(listings, |listings, (venue, listed)| listings.with_listed(*venue, listed));
    let refused = listings.refused_steps();
    if refused > 0 {
        tracing::warn!(refused, "venues tell steps that cannot be taken; the numbers that come decide");
    }
    listings
}

/// The same listings, which refuse by name what was not subscribed to: it is a dead letter and never an instrument.
fn subscribed(listings: Listings, live: &[LiveVenue]) -> Listings {
    live.iter().fold(listings, |listings, live| {
        listings.with_only(live.venue, live.instruments.iter().map(|symbol| &**symbol))
    })
}

fn open_sink(
    store: Option<Store>,
    config: &Config,
    epoch: u64,
    (directory, streams): (&Arc<Directory>, BatchStreams),
) -> StorePart {
    let Some(store) = store else { return StorePart::default() };
    // The epoch block is this start's own, so its tokens meet no other start's.
    let identity = format!("run-{epoch}");
    let (queue, view, sink) = store.start_sink(&identity, writer_options(config), Arc::clone(directory), streams);
    let upkeep = Upkeep::start(store.address().client(), &config.retention);
    StorePart { store: Some(store), queue: Some(queue), view: Some(view), sink: Some(sink), upkeep: Some(upkeep) }
}

/// The tape's hand-over to the store, if there is one.
fn store_port(config: &Config, part: &StorePart) -> Option<StorePort> {
    let batch_legs = batch_streams(config).streams.into_iter().map(|stream| stream.leg).collect();
    Some(StorePort::new(part.queue.clone()?, part.view.clone()?, batch_legs))
}

/// The guard's bounds as configured.
#[must_use]
pub fn limits(config: &Config) -> Limits {
    let ms = |ms: u64| ms.saturating_mul(1_000_000);
    Limits {
        hole_ns: ms(config.pipeline.hole_ms),
        bridge_ns: ms(config.pipeline.bridge_ms),
        held_bytes_max: u64::try_from(config.pipeline.held_bytes).unwrap_or(u64::MAX),
        ..Limits::default()
    }
}

/// What a pipeline begins with.
struct Begin {
    generation: u64,
    listings: Arc<Listings>,
    /// The books that were kept, as events.
    restored: Vec<Event>,
    /// How many books these are.
    books: usize,
    /// What the batch stream begins with.
    batches: Option<BatchBegin>,
    checkpoints: Arc<CheckpointView>,
    bumps: Bumps,
}

/// Workers, tape and source of a live run.
struct Pipeline {
    tape: TapeHandle,
    control: SourceControl,
    tape_end: oneshot::Receiver<TapeEnd>,
    source_end: SourceEnd,
    batches: Option<BatchSource>,
    audit: Option<audit::AuditPart>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Pipeline {
    fn start(config: &Config, begin: Begin, part: &StorePart) -> Result<Self, RunError> {
        let Begin { generation, listings, restored, books, batches, checkpoints, bumps } = begin;
        let now_ns: Clock = Arc::new(unix_ns);
        let settings = &config.pipeline;
        let cut_ns = u64::try_from(settings.cut().as_nanos()).unwrap_or(u64::MAX).max(1);
        let clock = CutClock { origin_ns: now_ns(), cut_ns };
        let credit = Credit::new(u64::try_from(settings.in_flight_bytes).unwrap_or(u64::MAX));
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..settings.workers).map(|_| feed()).unzip();
        let silent_ns = settings.silent_ms.saturating_mul(1_000_000);
        let (silent_intervals, admitted) = (settings.silent_intervals, part.queue.is_some());
        let lane = LaneConfig { clock, limits: limits(config), silent_ns, silent_intervals, admitted };
        let ingest = IngestConfig { clock, pace: Pace::Clock(Arc::clone(&now_ns)), credit: Arc::clone(&credit) };
        let (inputs, taken) = std::sync::mpsc::channel();
        let views = views::table(config);
        let fanout = Fanout::new(fanout_config(config, generation), Arc::clone(listings.directory()));
        let fanout = fanout.with_views(Arc::clone(&views));
        let graph = GraphConfig { lane, ingest, best: true, views: views.rules(), priority: fanout.board() };
        let workers = graph::start(graph, receivers, inputs.clone())?;

        let mut audit = audit::port(config, part);
        let (control, port) = source::control();
        let directory = Arc::clone(listings.directory());
        let hub = Hub::new(HubConfig {
            workers: settings.workers,
            clock,
            cuts_per_frame: settings.cuts_per_frame,
            idle_frames: true,
        })
        .with_changes(config.http.change_bounds());
        let taker = settings.checkpoint_every().map(|every| {
            let (data_dir, directory) = (&*config.data_dir, Arc::clone(&directory));
            CheckpointTaker::start(TakerConfig {
                data_dir,
                directory,
                every,
                block: generation,
                restored: books,
                view: checkpoints,
            })
        });
        let taker = taker.transpose().map_err(RunError::Thread)?;
        let tape = Tape {
            hub,
            fanout,
            clock,
            now_ns: Arc::clone(&now_ns),
            credit,
            directory: Arc::clone(&directory),
            store: store_port(config, part),
            control: control.clone(),
            checkpoints: taker,
            bumps: Some(bumps),
            copies: audit.as_ref().map(|audit| audit.answers.clone()),
            lag: LagBounds {
                alarm: Duration::from_millis(settings.frontier_alarm_ms),
                exit: Duration::from_millis(settings.frontier_exit_ms),
            },
        };
        let handle = TapeHandle::new(inputs.clone());
        let (tape_thread, tape_end) = start_tape(tape, inputs, taken)?;
        let raw_log = part.queue.clone().zip(part.view.clone()).filter(|_| config.store.raw_venue_messages);
        let raw_log = raw_log.map(|(queue, view)| RawLog::of_run(queue, view));
        let wishes = audit.as_mut().and_then(|audit| audit.wishes.take());
        let batches = start_batches(config, part, batches, (&listings, senders.first(), &now_ns, wishes))?;
        let (first, known, now) = (senders.first().cloned(), Arc::clone(&listings), Arc::clone(&now_ns));
        let source = SourceStart { senders, listings, port, now_ns, restored, raw_log };
        let (source_thread, source_end) = start_source(config, source)?;
        let workers = spawn("workers", move || drop(workers))?;
        // Last: it holds a feed of the workers, who would wait for it if another part did not start.
        let audit = audit::start(config, part, audit, (&known, first.as_ref(), &now, generation));
        let threads = vec![source_thread, workers, tape_thread];
        Ok(Self { tape: handle, control, tape_end, source_end, batches, audit, threads })
    }

    /// Waits for the wish to stop, or for the first part that fails.
    async fn wait(&mut self, part: &mut StorePart, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let sink = async {
            match &mut part.sink {
                Some(sink) => sink.await,
                None => std::future::pending().await,
            }
        };
        let engine = async {
            match &mut part.store {
                Some(store) => store.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What ends first may end the rest: the cause is looked at before its consequences.
            biased;
            () = engine => Err(RunError::EngineLost),
            () = stop => Ok(()),
            end = &mut self.tape_end => match end {
                Ok(TapeEnd::Stalled) => Err(RunError::Stalled),
                Ok(TapeEnd::Unnoted) => Err(RunError::Unnoted),
                Ok(TapeEnd::Unfinished) => Err(RunError::Unfinished),
                Ok(TapeEnd::Stopped) | Err(_) => Err(RunError::Ended),
            },
            () = ended_early(&mut self.batches) => Err(RunError::Ended),
            end = &mut self.source_end => end.unwrap_or(Err(RunError::Ended)).and(Err(RunError::Ended)),
            end = sink => match end {
                Ok(Err(error)) => Err(error.into()),
                Ok(Ok(_)) | Err(_) => Err(RunError::Ended),
            },
        }
    }

    /// Ends source, workers and tape, then the store once it has everything.
    async fn end(mut self, part: StorePart) -> Result<(), RunError> {
        if let Some(audit) = self.audit.take() {
            audit.stop().await;
        }
        self.control.stop();
        let tape = self.tape.clone();
        let mut threads = self.threads;
        threads.extend(self.batches.take().map(BatchSource::stop));
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                if thread.join().is_err() {
                    tracing::error!("a thread of the pipeline panicked");
                }
            }
        });
        let joined = tokio::time::timeout(END_MAX, joined).await.is_ok();
        if !joined {
            tape.stop();
        }
        let unfinished = !joined && part.sink.is_some() || self.tape_end.try_recv() == Ok(TapeEnd::Unfinished);
        drop(part.queue);
        if let Some(sink) = part.sink.filter(|sink| !sink.is_finished()) {
            match sink.await {
                Ok(Ok(report)) => tracing::info!(rows = report.counters.rows_inserted, "the store has everything"),
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(RunError::Ended),
            }
        }
        if let Some(store) = part.store {
            store.close().await;
        }
        if unfinished { Err(RunError::Unfinished) } else { Ok(()) }
    }
}

/// The store, if there shall be one.
async fn open_store(config: &Config) -> Result<Option<Store>, StoreError> {
    if config.store.enabled { analysts::open(config).await.map(Some) } else { Ok(None) }
}

/// Books of the batch stream that an audit wishes to have rebuilt, if there are audits.
type Wishes = Option<mpsc::Receiver<Box<str>>>;

/// Starts the batch stream, if there shall be one.
fn start_batches(
    config: &Config,
    part: &StorePart,
    begin: Option<BatchBegin>,
    (listings, feed, now_ns, wishes): (&Arc<Listings>, Option<&FeedSender>, &Clock, Wishes),
) -> Result<Option<BatchSource>, RunError> {
    let (Some(begin), Some(store), Some(view), Some(feed)) = (begin, &part.store, &part.view, feed) else {
        return Ok(None);
    };
    let (listings, feed, view) = (Arc::clone(listings), feed.clone(), Arc::clone(view));
    let ends = BatchEnds { listings, feed, view, now_ns: Arc::clone(now_ns), wishes };
    batches::start(config, store, begin, ends).map(Some)
}

/// Resolves when the batch stream has ended by itself; never without one.
async fn ended_early(batches: &mut Option<BatchSource>) {
    match batches {
        // However it was told, it has ended.
        Some(batches) => drop((&mut batches.end).await),
        None => std::future::pending().await,
    }
}

/// How long source, workers and tape may take to end: they end at the store's pace, and the engine waits that long.
const END_MAX: Duration = PARENT_FLUSH_MAX;

fn fanout_config(config: &Config, generation: u64) -> FanoutConfig {
    FanoutConfig {
        generation,
        phases: config.pipeline.cuts_per_frame,
        frame_ms: u16::try_from(config.pipeline.frame_ms).unwrap_or(u16::MAX),
        heartbeat_ms: config.server.heartbeat_ms,
        subscriptions_max: config.server.subscriptions_per_terminal_max,
        digest_ms: config.server.digest_ms,
        message_bytes_max: wire::bounds::MESSAGE_BYTES_MAX,
        simulated: config.source.kind != SourceKind::Live,
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>, RunError> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(RunError::Thread)
}

fn start_tape(
    tape: Tape,
    inputs: Sender<TapeInput>,
    taken: Receiver<TapeInput>,
) -> Result<(thread::JoinHandle<()>, oneshot::Receiver<TapeEnd>), RunError> {
    let (tell, told) = oneshot::channel();
    let thread = spawn("tape", move || {
        // The workers hold their own senders; ours would keep the channel open for ever.
        drop(inputs);
        let end = tape::run(tape, &taken);
        if tell.send(end).is_err() {
            tracing::debug!(?end, "the tape ended after the run");
        }
    })?;
    Ok((thread, told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::InstrumentTable;

    #[test]
    fn a_table_names_the_assets_at_every_venue_and_spelling_tells_instruments_apart() {
        for venue in Venue::ALL {
            let named = |symbol: &str, asset_0: &str| InstrumentTable {
                venue,
                symbol: symbol.to_owned(),
                asset_0: asset_0.to_owned(),
                asset_1: "USD".to_owned(),
                price_step: String::new(),
                quantity_step: String::new(),
            };
            let config =
                Config { instrument: vec![named("kPEPE", "1000PEPE"), named("KPEPE", "KPEPE")], ..Config::default() };
            let directory = Arc::new(Directory::default());
            let listings = listings(&config, &directory);
            let (thousand, _) = listings.introduce(venue, "kPEPE", 1).unwrap();
            let (other, _) = listings.introduce(venue, "KPEPE", 1).unwrap();
            assert_ne!((thousand.id, thousand.pair), (other.id, other.pair), "{venue}");
            assert_eq!((&*thousand.asset_0, &*thousand.asset_1), ("1000PEPE", "USD"), "{venue}");
            assert_eq!((&*other.asset_0, &*other.symbol), ("KPEPE", "KPEPE"), "{venue}");
            assert_eq!((&*thousand.text, directory.len()), (&*format!("{venue}/kPEPE"), 2));
        }
    }

    #[test]
    fn what_is_connected_to_is_all_that_is_listed() {
        let live = LiveVenue {
            venue: Venue::BinanceSpot,
            instruments: vec!["BTCUSDT".into()],
            legs: 1,
            socket_url: None,
            dialect: None,
            rest_url: None,
        };
        let listings = subscribed(listings(&Config::default(), &Arc::default()), &[live]);
        assert!(listings.introduce(Venue::BinanceSpot, "BTCUSDT", 1).is_ok());
        assert!(listings.introduce(Venue::BinanceSpot, "btcusdt", 1).is_err());
        assert!(listings.introduce(Venue::KrakenSpot, "BTC/USD", 1).is_ok(), "nothing is said of other venues");
    }
}
