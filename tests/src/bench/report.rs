//! What the rounds say together, for people and as JSON.
//!
//! Never: a pass or a failure because of a time; goals are printed beside the figures.

use super::{Options, Round, Standing, Way};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::fmt;

/// Goal: processor time through the graph over processor time by hand, at the most.
pub(super) const RATIO_GOAL: f64 = 1.15;

/// Goal: updates per second of one worker, at the least.
pub(super) const RATE_GOAL: f64 = 1_000_000.0;

/// The figures of all rounds.
#[derive(Clone, Debug)]
pub struct Report {
    options: Options,
    rounds: Vec<Round>,
}

/// Median and extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |at: usize| values.get(at).copied().unwrap_or_default();
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(at(middle.saturating_sub(1)), at(middle))
        } else {
            at(middle)
        };
        Self { median, min: at(0), max: at(values.len().saturating_sub(1)) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:>9.0} ({:.0} to {:.0})", self.median, self.min, self.max)
    }
}

/// Figures of one way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Processor nanoseconds of the worker threads per update.
    pub cpu_ns_per_update: Spread,
    /// Updates per second of wall time and worker.
    pub updates_per_second_per_worker: Spread,
    /// Updates per second of processor time of the workers: the rate with a core of its own.
    pub updates_per_cpu_second: Spread,
    /// Updates per cut and worker.
    pub updates_per_cut: Spread,
}

impl Report {
    pub(super) fn new(options: Options, rounds: Vec<Round>) -> Self {
        Self { options, rounds }
    }

    /// What all rounds of both ways ended at.
    ///
    /// # Errors
    /// If they do not agree, or not every instrument's book was published at the end.
    pub fn standing(&self) -> Result<Standing> {
        let mut standings = self.rounds.iter().map(|round| round.standing);
        let Some(first) = standings.next() else { anyhow::bail!("no round was run") };
        if let Some(other) = standings.find(|other| *other != first) {
            anyhow::bail!("the ways do not agree:\n{first:?}\n{other:?}");
        }
        let instruments = usize::try_from(self.options.instruments)?;
        ensure!(first.instruments == instruments, "{} of {instruments} books ended", first.instruments);
        Ok(first)
    }

    fn spread(&self, way: Way, figure: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().filter(|round| round.way == way).map(figure).collect())
    }

    /// Figures of one way.
    #[must_use]
    pub fn figures(&self, way: Way) -> Figures {
        let updates = float(self.options.updates);
        let workers = f64::from(u32::try_from(self.options.workers).unwrap_or(u32::MAX));
        Figures {
            cpu_ns_per_update: self.spread(way, |round| round.cpu.as_secs_f64() * 1e9 / updates),
            updates_per_second_per_worker: self.spread(way, |round| updates / round.wall.as_secs_f64() / workers),
            updates_per_cpu_second: self.spread(way, |round| updates / round.cpu.as_secs_f64()),
            updates_per_cut: self.spread(way, |round| float(round.standing.counts.applied) / float(round.cuts)),
        }
    }

    /// Processor time through the graph over that by hand: medians; least and greatest of the neighbouring rounds.
    #[must_use]
    pub fn ratio(&self) -> Spread {
        let cpu = |way| {
            let rounds = self.rounds.iter().filter(move |round| round.way == way);
            rounds.map(|round| round.cpu.as_secs_f64())
        };
        let pairs = cpu(Way::Graph).zip(cpu(Way::ByHand)).map(|(graph, by_hand)| graph / by_hand);
        let spread = Spread::of(pairs.collect());
        let median = |way| self.figures(way).cpu_ns_per_update.median;
        Spread { median: median(Way::Graph) / median(Way::ByHand), ..spread }
    }

    /// Everything as one JSON object.
    ///
    /// # Errors
    /// If the ways do not agree.
    pub fn json(&self) -> Result<serde_json::Value> {
        let standing = self.standing()?;
        let counts: serde_json::Map<_, _> =
            standing.counts.values().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        Ok(serde_json::json!({
            "updates": self.options.updates,
            "rounds": self.options.rounds,
            "workers": self.options.workers,
            "instruments": self.options.instruments,
            "ticks": self.options.ticks,
            "store": self.options.store,
            "graph": self.figures(Way::Graph),
            "by_hand": self.figures(Way::ByHand),
            "ratio": self.ratio(),
            "ratio_goal": RATIO_GOAL,
            "rate_goal": RATE_GOAL,
            "live_ticks": standing.live_ticks,
            "books_hash": format!("{:016x}", standing.books),
            "best_hash": format!("{:016x}", standing.best),
            "counts": counts,
        }))
    }

    /// Everything as text.
    ///
    /// # Errors
    /// If the ways do not agree.
    pub fn text(&self) -> Result<String> {
        let standing = self.standing()?;
        let mut lines = Vec::new();
        for (name, way) in [("by hand", Way::ByHand), ("graph", Way::Graph)] {
            let figures = self.figures(way);
            lines.push(format!("{name}, medians of {} rounds (least to greatest)", self.options.rounds));
            lines.push(format!("  CPU ns/update        {}", figures.cpu_ns_per_update));
            lines.push(format!("  updates/s per worker {}", figures.updates_per_second_per_worker));
            lines.push(format!("  updates/CPU second   {}", figures.updates_per_cpu_second));
            lines.push(format!("  updates/cut          {}", figures.updates_per_cut));
        }
        let (ratio, rate) = (self.ratio(), self.figures(Way::Graph).updates_per_second_per_worker.median);
        let Spread { median, min, max } = ratio;
        lines.push(format!("ratio {median:.3} ({min:.3} to {max:.3}), goal at most {RATIO_GOAL}"));
        lines.push(format!("rate {:.2} M updates/s per worker, goal at least {:.0} M", rate / 1e6, RATE_GOAL / 1e6));
        let counts = standing.counts;
        lines.push(format!(
            "both the same: {} applied, {} duplicates, {} regressions, {} live ticks in {} books, books {:016x}, best {:016x}",
            counts.applied,
            counts.duplicates,
            counts.regressions,
            standing.live_ticks,
            standing.instruments,
            standing.books,
            standing.best
        ));
        Ok(lines.join("\n"))
    }
}

/// Exact for what is counted here.
fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
