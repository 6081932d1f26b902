//! The store's upkeep beside a run: its retention once, and a sweep of dead ticks every now and then.
//!
//! Never: a fault that ends the run; it is counted and told, and the next turn tries again.

use crate::{config, run::unix_ns};
use clickhouse::Client;
use connectors::clickhouse::upkeep::{HORIZON, Sweep, UpkeepError, keep, sweep};
use market::Venue;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// Wait before the first sweep, so that a start has the store for itself.
const FIRST_AFTER: Duration = Duration::from_mins(5);

/// Fewest dead ticks for which parts are rewritten.
const KEYS_MIN: u64 = 1_000;

/// What the upkeep counts.
#[derive(Debug, Default)]
pub struct UpkeepNumbers {
    sweeps: AtomicU64,
    failures: AtomicU64,
    ticks: AtomicU64,
    rows: AtomicU64,
}

impl UpkeepNumbers {
    /// Every count with its name.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 4] {
        [
            ("sweeps", self.sweeps.load(Relaxed)),
            ("failures", self.failures.load(Relaxed)),
            ("ticks", self.ticks.load(Relaxed)),
            ("rows", self.rows.load(Relaxed)),
        ]
    }

    fn failed(&self, error: &UpkeepError) {
        self.failures.fetch_add(1, Relaxed);
        tracing::error!(error = %format_args!("{:#}", ErrorChain(error)), "the store's upkeep failed; it is tried again");
    }
}

/// An error with its causes.
struct ErrorChain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for ErrorChain<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.0)?;
        std::iter::successors(self.0.source(), |error| error.source()).try_for_each(|error| write!(out, ": {error}"))
    }
}

/// The upkeep of a run; it ends when it is dropped. A sweep that is cut off has done no harm.
#[derive(Debug)]
pub struct Upkeep {
    numbers: Arc<UpkeepNumbers>,
    task: JoinHandle<()>,
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upkeep {
    /// Begins.
    #[must_use]
    pub fn start(client: Client, settings: &config::Retention) -> Self {
        let numbers = Arc::new(UpkeepNumbers::default());
        let task = tokio::spawn(turns(client, settings.clone(), Arc::clone(&numbers)));
        Self { numbers, task }
    }

    /// What it counts.
    #[must_use]
    pub fn numbers(&self) -> Arc<UpkeepNumbers> {
        Arc::clone(&self.numbers)
    }
}

async fn turns(client: Client, settings: config::Retention, numbers: Arc<UpkeepNumbers>) {
    if let Err(error) = keep(&client, &settings.days()).await {
        numbers.failed(&error);
    }
    let Some(every) = settings.sweep_every() else { return };
    let venues: Vec<_> = Venue::ALL.into_iter().filter(|venue| venue.sends_batches()).map(Venue::name).collect();
    tokio::time::sleep(FIRST_AFTER.min(every)).await;
    loop {
        let now = Sweep { now_ns: unix_ns(), horizon: HORIZON, keys_min: KEYS_MIN, batch_venues: &venues };
        match sweep(&client, &now).await {
            Ok(swept) => {
                numbers.sweeps.fetch_add(1, Relaxed);
                numbers.ticks.fetch_add(swept.ticks, Relaxed);
                numbers.rows.fetch_add(swept.rows, Relaxed);
                tracing::info!(?swept, "dead ticks were swept out of the store");
            }
            Err(error) => numbers.failed(&error),
        }
        tokio::time::sleep(every).await;
    }
}
