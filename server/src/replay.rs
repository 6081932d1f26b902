//! `sprag replay`: captures through the whole pipeline on their own clock, one JSON line per published event.
//!
//! One cut is one frame here, so the output does not depend on how cuts are spread; nor on the number of workers, since
//! lanes are single writers and the hub orders by instrument.
//!
//! Never: a wall clock in the output.

mod lines;

pub use lines::ReplayChannel;

use crate::{
    dead_letters::DeadLetters,
    hub::{Hub, HubConfig, Step},
    legs::{LegRow, LegSums},
    raw_log::RawLog,
    source::SourceLeg,
};
use connectors::{
    capture::{CaptureError, CaptureFrame, MergedCaptures},
    decoder::Decoder,
    raw::RawKind,
    venue_feed::{FeedCounts, listings::Listings},
};
use dataflow::{
    clock::CutClock,
    cut::LaneCounts,
    graph::{self, GraphConfig, StartError},
    ingest::{BATCH_BYTES_MAX, Batch, Credit, Ended, FeedSender, IngestConfig, Pace, feed},
    lane::LaneConfig,
    sink::SinkMessage,
};
use lines::LineWriter;
use market::{
    Event, Venue,
    feed::{SILENT_INTERVALS, SILENT_NS_MIN},
    guard::Limits,
};
use std::{
    io::{self, Write},
    sync::{Arc, mpsc::Receiver},
    thread,
    time::{Duration, Instant},
};

/// Length of a frame in a replay, nanoseconds.
pub const FRAME_NS: u64 = 40_000_000;

/// Bytes under way: a replay reads faster than it can write, and this much is enough to keep every worker busy.
const IN_FLIGHT_BYTES: u64 = 64 << 20;

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The venue whose format the captures hold.
    pub venue: Venue,
    /// Workers.
    pub workers: usize,
    /// Only these connections; all if empty. REST replies always count.
    pub legs: Vec<String>,
    /// Only these channels; all but `best` if empty.
    pub channels: Vec<ReplayChannel>,
    /// Times as fast as the capture; 0 for as fast as possible.
    pub speed: f64,
    /// Whether admitted changes are handed to the caller.
    pub admitted: bool,
}

/// Where a replay's frames are kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// Those that cannot be decoded.
    pub dead_letters: DeadLetters,
    /// All of them, as they came.
    pub raw_log: Option<RawLog>,
}

/// What a replay came to.
#[derive(Clone, Debug, Default)]
pub struct ReplaySummary {
    /// Frames of the captures.
    pub frames: u64,
    /// Lines written.
    pub lines: u64,
    /// What the decoders counted, per venue.
    pub feeds: Vec<(Venue, FeedCounts)>,
    /// What the lanes counted.
    pub lanes: LaneCounts,
    /// What each connection brought.
    pub legs: Vec<LegRow>,
    /// Frames that could not be decoded.
    pub dead_letters: u64,
}

/// A replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The captures hold no frame at all.
    #[error("the captures hold no frame")]
    Empty,
    /// The workers could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
    /// The decoding thread ended without a word.
    #[error("the decoding thread ended early")]
    Decoder,
}

/// Replays captures, writing lines to `out` and handing each step to `stepped`.
///
/// # Errors
/// [`ReplayError`].
pub fn replay(
    captures: MergedCaptures,
    options: &ReplayOptions,
    listings: Arc<Listings>,
    kept: Kept,
    out: &mut dyn Write,
    stepped: &mut dyn FnMut(&mut Step),
) -> Result<(ReplaySummary, Hub), ReplayError> {
    let mut captures = captures.peekable();
    let origin_ns = match captures.peek() {
        Some(Ok(first)) => first.frame.ts_ns,
        Some(Err(_)) | None => {
            return Err(captures.next().and_then(Result::err).map_or(ReplayError::Empty, Into::into));
        }
    };
    let clock = CutClock { origin_ns, cut_ns: FRAME_NS };
    let credit = Credit::new(IN_FLIGHT_BYTES);
    let lane = LaneConfig {
        clock,
        limits: Limits::default(),
        silent_ns: SILENT_NS_MIN,
        silent_intervals: SILENT_INTERVALS,
        admitted: options.admitted,
    };
    let ingest = IngestConfig { clock, pace: Pace::Replay, credit: Arc::clone(&credit) };
    let workers = options.workers.max(1);
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| feed()).unzip();
    senders.truncate(1);
    let (hub_sender, messages) = std::sync::mpsc::channel();
    let guards = graph::start(
        GraphConfig { lane, ingest, best: true, views: Arc::default(), priority: Arc::default() },
        receivers,
        hub_sender,
    )?;

    let directory = Arc::clone(listings.directory());
    let source = Source { options: options.clone(), clock, decoder: Decoder::new(listings), kept };
    let decoding = thread::Builder::new()
        .name("replay-decode".to_owned())
        .spawn(move || source.run(captures, senders))
        .map_err(ReplayError::Output)?;

    let mut hub = Hub::new(HubConfig { workers, clock, cuts_per_frame: 1, idle_frames: false });
    hub.activate(0);
    let mut writer = LineWriter::new(out, &directory, &options.channels);
    let mut summary = ReplaySummary::default();
    let mut legs = LegSums::default();
    let written = drive(&messages, &mut hub, &credit, &mut |hub, step| {
        summary.lanes.add(&step.counts);
        legs.add(&step.legs);
        stepped(step);
        match step.closing {
            Some(phase) => writer.frame(&hub.close(phase)),
            None => Ok(()),
        }
    });
    drop(messages);
    drop(guards);
    let decoded = decoding.join().map_err(|_| ReplayError::Decoder)?;
    summary.lines = writer.finish().map_err(ReplayError::Output)?;
    written.map_err(ReplayError::Output)?;
    let decoded = decoded?;
    summary.frames = decoded.frames;
    summary.dead_letters = decoded.dead_letters;
    summary.feeds = decoded.feeds;
    summary.legs = legs.rows(&decoded.legs);
    Ok((summary, hub))
}

/// Feeds the hub until every worker has ended, handling each step.
fn drive(
    messages: &Receiver<SinkMessage>,
    hub: &mut Hub,
    credit: &Credit,
    handle: &mut dyn FnMut(&mut Hub, &mut Step) -> io::Result<()>,
) -> io::Result<()> {
    while let Ok(message) = messages.recv() {
        hub.take(message);
        while let Some(mut step) = hub.step() {
            credit.release(step.input_bytes);
            handle(hub, &mut step)?;
        }
        if hub.ended() {
            return Ok(());
        }
    }
    Ok(())
}

/// What the decoding thread came to.
struct Decoded {
    frames: u64,
    dead_letters: u64,
    feeds: Vec<(Venue, FeedCounts)>,
    legs: Vec<SourceLeg>,
}

struct Source {
    options: ReplayOptions,
    clock: CutClock,
    decoder: Decoder,
    kept: Kept,
}

impl Source {
    fn run(
        mut self,
        captures: impl Iterator<Item = Result<CaptureFrame, CaptureError>>,
        senders: Vec<FeedSender>,
    ) -> Result<Decoded, CaptureError> {
        let mut batches = Batches { senders, cut: 0, events: Vec::new(), bytes: 0 };
        let mut frames = 0;
        let started = Instant::now();
        for captured in captures {
            let captured = captured?;
            frames += 1;
            if !self.wanted(&captured) {
                continue;
            }
            self.pace(started, captured.frame.ts_ns);
            let cut = self.clock.cut_at(captured.frame.ts_ns);
            let fresh = batches.open(cut);
            let position = captured.position;
            let before = batches.events.len();
            if let Some(log) = &mut self.kept.raw_log {
                log.keep_at(self.options.venue, &captured.frame, position);
            }
            let decoded = self.decoder.decode(self.options.venue, &captured.frame, position, &mut batches.events);
            if let Err(reason) = decoded {
                self.kept.dead_letters.keep(self.options.venue, &captured.frame, &reason);
            }
            if fresh.and_then(|()| batches.added(before)).is_err() {
                break;
            }
        }
        if batches.flush().is_err() {
            tracing::debug!("the workers ended before the capture did");
        }
        let feeds = self.decoder.counts().collect();
        let legs = SourceLeg::all(&self.decoder).collect();
        Ok(Decoded { frames, dead_letters: self.kept.dead_letters.count(), feeds, legs })
    }

    fn wanted(&self, captured: &CaptureFrame) -> bool {
        let legs = &self.options.legs;
        legs.is_empty() || captured.frame.kind == RawKind::Http || legs.iter().any(|leg| **leg == *captured.frame.conn)
    }

    fn pace(&self, started: Instant, ts_ns: u64) {
        if self.options.speed <= 0.0 {
            return;
        }
        let elapsed = Duration::from_nanos(ts_ns.saturating_sub(self.clock.origin_ns));
        let due = started + elapsed.div_f64(self.options.speed);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Events on their way to the one feed, in batches of one cut.
struct Batches {
    senders: Vec<FeedSender>,
    cut: u64,
    events: Vec<Event>,
    bytes: u64,
}

impl Batches {
    /// Begins a cut; cuts never go back, even where a capture's times do.
    fn open(&mut self, cut: u64) -> Result<(), Ended> {
        if cut > self.cut {
            self.flush()?;
            self.cut = cut;
        }
        Ok(())
    }

    fn added(&mut self, before: usize) -> Result<(), Ended> {
        self.bytes += self.events.iter().skip(before).map(Event::bytes).sum::<u64>();
        if self.bytes >= BATCH_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Ended> {
        self.bytes = 0;
        let events = std::mem::take(&mut self.events);
        match self.senders.first() {
            Some(sender) if !events.is_empty() => sender.send(Batch { cut: self.cut, events }),
            _ => Ok(()),
        }
    }
}
