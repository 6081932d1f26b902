//! `sprag replay`.
//!
//! Never: lines on standard output mixed with anything else.

use super::{Failure, Settings, runtime, start_log, venue};
use crate::{
    config::Config,
    dead_letters::DeadLetters,
    epochs::{EpochError, EpochJournal},
    exit::Exit,
    hub::Step,
    legs::LegRow,
    raw_log::RawLog,
    replay::{self, Kept, ReplayChannel, ReplayError, ReplayOptions, ReplaySummary},
    run::{self, RunError},
    store::{Sharing, Store, writer_options},
};
use clap::Args;
use connectors::{
    capture::MergedCaptures,
    clickhouse::{BatchStreams, SinkError, WriterOptions, sink::SinkInput},
    halt,
    venue_feed::listings::Listings,
};
use foldhash::{HashMap, HashMapExt};
use market::{Directory, Venue};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::PathBuf,
    sync::Arc,
};
use tokio::{
    runtime::Runtime,
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinHandle},
};

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    settings: Settings,
    /// Captures, merged by receive time.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The venue that they are of.
    #[arg(long, value_parser = venue)]
    venue: Venue,
    /// Where the lines go; `-` for standard output.
    #[arg(long, default_value = "-")]
    out: PathBuf,
    /// Only these kinds of line: book, status, trades, quote, best.
    #[arg(long, value_delimiter = ',')]
    channel: Vec<ReplayChannel>,
    /// Dataflow workers; the output does not depend on it.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Only the frames of these connections, by the capture's own ids; REST replies always count.
    #[arg(long, value_delimiter = ',')]
    leg: Vec<String>,
    /// Times the recorded pace; 0 for as fast as possible.
    #[arg(long, default_value_t = 0.0)]
    speed: f64,
    /// Write the admitted changes to the store as well.
    #[arg(long)]
    store: bool,
    /// Where frames that cannot be decoded are kept.
    #[arg(long, value_name = "FILE")]
    dead_letters: Option<PathBuf>,
}

fn replay_failed(error: ReplayError) -> Failure {
    let exit = match &error {
        ReplayError::Capture(_) | ReplayError::Empty => Exit::Input,
        ReplayError::Start(_) | ReplayError::Output(_) | ReplayError::Decoder => Exit::Internal,
    };
    Failure::new(exit, error)
}

pub(super) fn replay(args: ReplayArgs) -> Result<(), Failure> {
    let config = args.settings.load(Vec::new())?;
    start_log(&config.log.quiet())?;
    if !(1..=64).contains(&args.workers) {
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!("--workers: 1 to 64")));
    }
    let captures = MergedCaptures::open(&args.files).map_err(|error| replay_failed(error.into()))?;
    let dead_letters = match &args.dead_letters {
        Some(path) => DeadLetters::append_to(path).map_err(|error| Failure::new(Exit::Usage, error))?,
        None => DeadLetters::default(),
    };
    let mut out: Box<dyn Write> = if args.out.as_os_str() == "-" {
        Box::new(io::stdout().lock())
    } else {
        let file = File::create(&args.out);
        let created = file.map_err(|error| anyhow::Error::new(error).context(args.out.display().to_string()));
        Box::new(BufWriter::new(created.map_err(|error| Failure::new(Exit::Usage, error))?))
    };
    let options = ReplayOptions {
        venue: args.venue,
        workers: args.workers,
        legs: args.leg,
        channels: args.channel,
        speed: args.speed,
        admitted: args.store,
    };
    let summary = if args.store {
        with_store(&config, captures, &options, dead_letters, &mut out)?
    } else {
        let listings = run::listings(&config, &Arc::default()).with_epochs(HashMap::new(), 1);
        let kept = Kept { dead_letters, raw_log: None };
        replay::replay(captures, &options, Arc::new(listings), kept, &mut out, &mut |_| {}).map_err(replay_failed)?.0
    };
    print_summary(&summary);
    Ok(())
}

/// Replays into the store. The capture keeps its epochs, so that a replay of it changes nothing.
fn with_store(
    config: &Config,
    captures: MergedCaptures,
    options: &ReplayOptions,
    dead_letters: DeadLetters,
    out: &mut dyn Write,
) -> Result<ReplaySummary, Failure> {
    let runtime = runtime()?;
    let store_failed = |error: crate::store::StoreError| Failure::new(error.exit(), error);
    let store = runtime.block_on(Store::open(config, Sharing::Join)).map_err(store_failed)?;
    runtime.block_on(store.heal()).map_err(store_failed)?;
    let (_, greatest) = runtime.block_on(store.epochs()).map_err(store_failed)?;
    let epochs_failed = |error: EpochError| Failure::new(error.exit(), error);
    let journal = EpochJournal::open(&config.data_dir).map_err(epochs_failed)?.shared(store.epoch_blocks());
    let reserved = journal.of_identity(captures.identity(), greatest.saturating_add(1));
    let epoch = runtime.block_on(reserved).map_err(epochs_failed)?;
    halt::point("epoch-reserved");
    let directory = Arc::new(Directory::default());
    let listings: Listings = run::listings(config, &directory).with_epochs(HashMap::new(), epoch);
    let identity = captures.identity().to_owned();
    let (queue, _, sink) = {
        let _guard = runtime.enter();
        store.start_sink(&identity, replay_options(config), Arc::clone(&directory), BatchStreams::default())
    };
    let watch = Watch::start(&runtime, store, sink.abort_handle());
    let mut stepped = |step: &mut Step| hand_over(&queue, step);
    let raw_log = config.store.raw_venue_messages.then(|| RawLog::new(queue.clone()));
    let kept = Kept { dead_letters, raw_log };
    let replayed = replay::replay(captures, options, Arc::new(listings), kept, out, &mut stepped);
    drop(queue);
    let report = runtime.block_on(sink);
    if runtime.block_on(watch.end()) {
        return Err(Failure::new(Exit::Store, RunError::EngineLost));
    }
    let (summary, _) = replayed.map_err(replay_failed)?;
    let sink_failed = |error: SinkError| Failure::new(Exit::Store, error);
    let report = report.map_err(|error| Failure::new(Exit::Internal, error))?.map_err(sink_failed)?;
    eprintln!("store: {} rows in {} batches", report.counters.rows_inserted, report.counters.batches_inserted);
    Ok(summary)
}

/// Looks after the engine of a replay: without it the sink would try for ever.
struct Watch {
    done: oneshot::Sender<()>,
    watching: JoinHandle<bool>,
}

impl Watch {
    fn start(runtime: &Runtime, mut store: Store, sink: AbortHandle) -> Self {
        let (done, told) = oneshot::channel();
        let watching = runtime.spawn(async move {
            let lost = tokio::select! {
                () = store.lost() => true,
                _ = told => false,
            };
            if lost {
                sink.abort();
            } else {
                store.close().await;
            }
            lost
        });
        Self { done, watching }
    }

    /// Closes the store; whether its engine was lost before.
    async fn end(self) -> bool {
        if self.done.send(()).is_err() {
            tracing::debug!("the engine was lost before the end");
        }
        self.watching.await.unwrap_or(true)
    }
}

/// Batches as configured, but for their age: what they hold must not depend on a clock.
fn replay_options(config: &Config) -> WriterOptions {
    let WriterOptions { batch_rows, batch_bytes, .. } = writer_options(config);
    WriterOptions { batch_rows, batch_bytes, ..WriterOptions::replay() }
}

/// Waits where the store's queue is full: a replay has time.
fn hand_over(queue: &mpsc::Sender<SinkInput>, step: &mut Step) {
    let changes = step.admitted.drain(..).map(SinkInput::Changes);
    let trades = step.admitted_trades.drain(..).map(SinkInput::Trade);
    for input in changes.chain(trades) {
        if queue.blocking_send(input).is_err() {
            // The sink's own error is told at its end.
            return;
        }
    }
}

/// One line of the summary.
fn leg_line(leg: &LegRow) -> String {
    let values = leg.values();
    let values = values.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
    let mut line = format!("{} leg {}: {}", leg.venue, leg.leg, values.collect::<Vec<_>>().join(", "));
    for (quantile, lead_us) in &leg.lead_us {
        line.push_str(&format!(", lead p{} {lead_us} us", quantile * 100.0));
    }
    line
}

fn print_summary(summary: &ReplaySummary) {
    let lanes: Vec<_> = summary
        .lanes
        .values()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    for (venue, feed) in &summary.feeds {
        eprintln!(
            "{venue}: {} frames, {} ignored, {} undecodable, checksums {} matched, {} failed",
            feed.frames, feed.ignored, feed.undecodable, feed.checksums_matched, feed.checksums_failed
        );
        let rare = [
            (feed.checks_put_aside, "checks put aside"),
            (feed.switches, "switches of the active leg"),
            (feed.missing, "messages missing by the venue's count"),
            (feed.suppressed, "levels older than known"),
        ];
        let rare = rare.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let rare: Vec<_> = rare.collect();
        if !rare.is_empty() {
            eprintln!("{venue}: {}", rare.join(", "));
        }
    }
    for leg in &summary.legs {
        eprintln!("{}", leg_line(leg));
    }
    eprintln!("lanes: {}", lanes.join(", "));
    eprintln!(
        "{} capture lines, {} lines written, {} dead letters",
        summary.frames, summary.lines, summary.dead_letters
    );
}
