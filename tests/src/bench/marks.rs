//! Processor time of the worker threads, read by themselves at the marks of a round.
//!
//! Never: the time of any other thread.

use anyhow::{Context, Result, ensure};
use cpu_time::ThreadTime;
use std::{
    cell::Cell,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

thread_local! {
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

#[derive(Default)]
pub(super) struct Marks {
    mark: AtomicUsize,
    /// A mark, and what a thread had used up when it saw it.
    readings: Mutex<Vec<(usize, Duration)>>,
}

impl Marks {
    /// Called by workers again and again; costs one load between the marks.
    #[inline]
    pub(super) fn look(&self) {
        let mark = self.mark.load(SeqCst);
        if SEEN.replace(mark) != mark {
            let reading = (mark, ThreadTime::now().as_duration());
            self.readings.lock().unwrap_or_else(PoisonError::into_inner).push(reading);
        }
    }

    /// Sets a mark and waits until every worker has seen it.
    pub(super) fn set(&self, mark: usize, workers: usize, patience: Duration) -> Result<()> {
        self.mark.store(mark, SeqCst);
        let begin = Instant::now();
        while self.at(mark).len() < workers {
            ensure!(begin.elapsed() < patience, "the workers do not get on");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Time used up by all workers from one mark to another.
    pub(super) fn between(&self, from: usize, to: usize) -> Result<Duration> {
        let sum = |mark| self.at(mark).into_iter().sum::<Duration>();
        sum(to).checked_sub(sum(from)).context("processor time went backwards")
    }

    fn at(&self, mark: usize) -> Vec<Duration> {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        readings.iter().filter(|(at, _)| *at == mark).map(|(_, reading)| *reading).collect()
    }
}
