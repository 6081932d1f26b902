//! What is served and when: the simulated market by the clock, or captures at their own pace.
//!
//! Never: a frame while the server is paused or waits for subscribers.

use super::{Shared, http::unix_ns, world::World};
use crate::{
    capture::{CaptureError, CaptureFrame, MergedCaptures},
    raw::RawFrame,
    simulator::Simulator,
};
use market::Venue;
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// The simulated market is advanced this often.
const BEAT: Duration = Duration::from_millis(5);
/// Books that stand still are looked for this often.
const IDLE_LOOK: Duration = Duration::from_millis(50);
/// So much simulated time is served in one beat when the process was late: it catches up at four times the pace, so
/// that connections which read are not flooded.
const STEP_NS: u64 = 20_000_000;
/// Frames that are read ahead.
const AHEAD: usize = 256;
/// A frame that is due this soon is served at once: timers are no finer.
const DUE_SOON: Duration = Duration::from_micros(500);
/// How long the tape waits for room before it looks again.
const ROOM_WAIT: Duration = Duration::from_millis(50);

/// Captures to serve.
#[derive(Clone, Debug)]
pub(super) struct Captures {
    pub(super) files: Vec<PathBuf>,
    pub(super) venue: Venue,
    pub(super) legs: Vec<String>,
    pub(super) speed: f64,
    pub(super) repeat: bool,
}

impl Captures {
    /// Looks through all frames: what the venue lists.
    pub(super) fn scan(&self, world: &mut World) -> Result<(), CaptureError> {
        for frame in MergedCaptures::open(&self.files)? {
            let frame = frame?;
            if self.takes(&frame.frame) {
                world.scan(&frame.frame);
            }
        }
        Ok(())
    }

    /// REST replies always count.
    fn takes(&self, frame: &RawFrame) -> bool {
        self.legs.is_empty()
            || frame.kind == crate::raw::RawKind::Http
            || self.legs.iter().any(|leg| **leg == *frame.conn)
    }
}

/// What there is to serve.
pub(super) enum Source {
    Market(Box<Simulator>),
    Captures(Captures),
}

/// Serves until the server stops or the captures end.
pub(super) async fn run(source: Source, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    let served = async {
        match source {
            Source::Market(simulator) => market(*simulator, &shared).await,
            Source::Captures(captures) => rounds(&captures, &shared).await,
        }
    };
    tokio::select! {
        ended = served => {
            let failed = ended.err();
            if let Some(error) = &failed {
                tracing::error!(%error, "the captures ended early");
            }
            let mut world = shared.world();
            world.progress.ended = true;
            world.progress.failed = failed.map(|error| error.to_string());
        }
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Waits for as many subscribers as are wanted; then time runs.
async fn start(shared: &Shared) {
    loop {
        {
            let mut world = shared.world();
            if world.bus.subscribers() >= shared.wait_for_subscribers {
                world.progress.started = true;
                if !world.progress.paused {
                    world.progress.clock.run();
                }
                return;
            }
        }
        shared.changed.notified().await;
    }
}

async fn market(mut simulator: Simulator, shared: &Shared) -> Result<(), CaptureError> {
    start(shared).await;
    let start_ns = simulator.now_ns();
    let (mut frames, mut happened) = (Vec::new(), Vec::new());
    let mut looked = Instant::now();
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        let mut world = shared.world();
        let elapsed = world.progress.clock.elapsed();
        let now_ns = start_ns.saturating_add(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        if world.progress.paused {
            continue;
        }
        simulator.run(now_ns.min(simulator.now_ns().saturating_add(STEP_NS)), &mut frames, &mut happened);
        for (venue, frame) in frames.drain(..) {
            world.frame(venue, &frame);
        }
        for happening in happened.drain(..) {
            world.happened(&happening);
        }
        if looked.elapsed() >= IDLE_LOOK {
            looked = Instant::now();
            world.idle(shared.idle, unix_ns());
        }
    }
}

async fn rounds(captures: &Captures, shared: &Arc<Shared>) -> Result<(), CaptureError> {
    loop {
        start(shared).await;
        let before = shared.world().progress.position;
        round(captures, shared).await?;
        let mut world = shared.world();
        if !captures.repeat || world.progress.position == before {
            return Ok(());
        }
        world.restart();
    }
}

/// The captures once.
async fn round(captures: &Captures, shared: &Arc<Shared>) -> Result<(), CaptureError> {
    let (to, mut frames) = mpsc::channel::<Result<CaptureFrame, CaptureError>>(AHEAD);
    let files = captures.files.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let opened = MergedCaptures::open(&files);
        match opened {
            Ok(merged) => {
                for frame in merged {
                    if to.blocking_send(frame).is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                // A closed queue means that nobody asks any more.
                let _told = to.blocking_send(Err(error));
            }
        }
    });
    let mut first_ns = None;
    while let Some(frame) = frames.recv().await {
        let frame = frame?.frame;
        if !captures.takes(&frame) {
            continue;
        }
        let since_ns = frame.ts_ns.saturating_sub(*first_ns.get_or_insert(frame.ts_ns));
        let due = match captures.speed {
            speed if speed > 0.0 => Duration::from_nanos(since_ns).div_f64(speed),
            _ => Duration::ZERO,
        };
        serve(captures, &frame, due, shared).await;
    }
    drop(reading);
    Ok(())
}

/// What a frame waits for.
enum Wait {
    Resume,
    Due(Duration),
    Room,
}

/// Serves one frame when its time has come and, at no pace of its own, when the connections can take it.
async fn serve(captures: &Captures, frame: &RawFrame, due: Duration, shared: &Shared) {
    loop {
        let wait = {
            let mut world = shared.world();
            let early = due.saturating_sub(world.progress.clock.elapsed());
            if world.progress.paused {
                Wait::Resume
            } else if early > DUE_SOON {
                Wait::Due(early)
            } else if captures.speed <= 0.0 && !world.bus.takes_more(shared.patience) {
                Wait::Room
            } else {
                world.frame(captures.venue, frame);
                return;
            }
        };
        match wait {
            Wait::Resume => shared.changed.notified().await,
            Wait::Due(early) => {
                // A pause in between is seen when the time has come.
                tokio::time::sleep(early).await;
            }
            Wait::Room => {
                // In vain, it looks for connections that are stuck.
                let _room = tokio::time::timeout(ROOM_WAIT, shared.drained.notified()).await;
            }
        }
    }
}
