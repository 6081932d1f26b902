//! What the blocks took, as one table.
//!
//! Never: a pass or a failure because of a time; whether goals were met is said beside the figures.

use super::{Round, Series, plain::PlainCost};
use crate::bench::report::Spread;
use anyhow::Result;
use std::{
    fmt::{self, Write},
    time::Duration,
};

/// Goal for a large block, from reception to durable and to a screen, milliseconds.
const GOAL_MS: f64 = 1_000.0;

/// What is aimed at, milliseconds.
const AIM_MS: f64 = 500.0;

/// The most memory that both processes ever had, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peaks {
    pub(super) server: u64,
    pub(super) engine: u64,
}

/// The figures of all blocks.
#[derive(Clone, Debug)]
pub struct BatchReport {
    pub(super) series: Vec<Series>,
    /// Load averages before and after.
    pub(super) load: [String; 2],
}

/// A figure of a block.
type Figure = fn(&Round) -> f64;

/// A line of the table: its name, decimals, and the figure.
type Line = (&'static str, usize, Figure);

/// What is said of a block's size.
const SIZES: [Line; 4] = [
    ("content, MB", 2, |round| float(round.bytes[0]) / 1e6),
    ("in messages, zstd, MB", 2, |round| float(round.bytes[1]) / 1e6),
    ("events of all kinds", 0, |round| float(usize::try_from(round.events).unwrap_or(usize::MAX))),
    ("tick updates, rows of the store", 0, |round| float(round.ticks)),
];

/// What is said of the way through the server.
const WAY: [Line; 8] = [
    ("packed, sent, accepted, ms", 0, |round| round.costs.publish_ms),
    ("the hop: accepted -> a bare subscriber, ms", 0, |round| round.hop_ms),
    ("accepted -> acknowledged, so in raw_events, ms", 0, |round| round.costs.logged_ms),
    ("accepted -> on a receiver's screen, ms", 0, |round| round.costs.shown_ms),
    ("accepted -> rows durable, cursor moved, ms", 0, |round| round.costs.durable_ms),
    ("CPU of the server, us/tick update", 1, |round| us_per_tick(round, round.costs.cpu[0])),
    ("CPU of its engine, us/tick update", 1, |round| us_per_tick(round, round.costs.cpu[1])),
    ("CPU of both, us/tick update", 1, Round::cpu_us),
];

/// What is said of the baseline and of the distance to it.
const BASELINE: [Line; 10] = [
    ("INSERT of the rows, no views, ms", 0, |round| ms(round.plain.alone)),
    ("  its CPU, us/tick update", 1, |round| us_per_tick(round, round.plain.alone.cpu)),
    ("INSERT of the rows, the same three views, ms", 0, |round| ms(round.plain.rows)),
    ("  its CPU, us/tick update", 1, |round| us_per_tick(round, round.plain.rows.cpu)),
    ("INSERT of the content as one row, ms", 0, |round| ms(round.plain.content)),
    ("  its CPU, us/tick update", 1, |round| us_per_tick(round, round.plain.content.cpu)),
    ("ratio: acknowledged to INSERT of the content", 2, |round| round.costs.logged_ms / ms(round.plain.content)),
    ("ratio: rows durable to INSERT of rows, views", 2, |round| round.costs.durable_ms / ms(round.plain.rows)),
    ("ratio: rows durable to both INSERTs", 2, |round| {
        round.costs.durable_ms / (ms(round.plain.rows) + ms(round.plain.content))
    }),
    ("ratio: CPU to both INSERTs", 2, |round| round.cpu_us() / round.plain_cpu_us()),
];

/// Characters of a line's name, and of a column.
const WIDTHS: [usize; 2] = [48, 32];

impl Round {
    /// Processor microseconds of server and engine per tick update.
    fn cpu_us(&self) -> f64 {
        us_per_tick(self, self.costs.cpu[0] + self.costs.cpu[1])
    }

    /// The same of the client and the engine for the plain inserts of the rows, with views, and of the content.
    fn plain_cpu_us(&self) -> f64 {
        us_per_tick(self, self.plain.rows.cpu + self.plain.content.cpu)
    }
}

impl fmt::Display for Round {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes: [bytes, packed], events, ticks, costs, hop_ms, plain } = self;
        write!(
            out,
            "{bytes} B ({packed} packed), {events} events, {ticks} ticks: logged {:.0} ms, shown {:.0} ms, durable {:.0} ms, \
             CPU {:.2?} and {:.2?}, hop {hop_ms:.0} ms; INSERT of rows {:.2?}, with views {:.2?}, of the content {:.2?}",
            costs.logged_ms,
            costs.shown_ms,
            costs.durable_ms,
            costs.cpu[0],
            costs.cpu[1],
            plain.alone.wall,
            plain.rows.wall,
            plain.content.wall
        )
    }
}

impl Series {
    fn spread(&self, figure: Figure) -> Spread {
        Spread::of(self.rounds.iter().map(figure).collect())
    }
}

impl BatchReport {
    /// Blocks that were measured, and the rows that they left in the store.
    #[must_use]
    pub fn blocks_and_rows(&self) -> (usize, usize) {
        let rounds = || self.series.iter().flat_map(|series| &series.rounds);
        (rounds().count(), rounds().map(|round| round.ticks).sum())
    }

    /// Everything as text.
    ///
    /// # Errors
    /// None that a text in memory can have.
    pub fn text(&self) -> Result<String> {
        let [name_width, width] = WIDTHS;
        let mut out = String::new();
        writeln!(out, "medians (least to greatest); load average {} before, {} after", self.load[0], self.load[1])?;
        let heads = |of: fn(&Series) -> String| -> String {
            self.series.iter().map(|series| format!("{:>width$}", of(series))).collect()
        };
        writeln!(out, "{:<name_width$}{}", "", heads(|series| series.name.clone()))?;
        writeln!(out, "{:<name_width$}{}", "blocks", heads(|series| series.rounds.len().to_string()))?;
        for (name, decimals, figure) in SIZES.into_iter().chain(WAY).chain(BASELINE) {
            let figures = self.series.iter().map(|series| format!("{:>width$}", text(series.spread(figure), decimals)));
            writeln!(out, "{name:<name_width$}{}", figures.collect::<String>())?;
        }
        writeln!(
            out,
            "{:<name_width$}{}",
            "peak RSS of the server so far, MiB",
            heads(|series| mib(series.peaks.server))
        )?;
        writeln!(
            out,
            "{:<name_width$}{}",
            "peak RSS of its engine so far, MiB",
            heads(|series| mib(series.peaks.engine))
        )?;
        self.goals(&mut out)?;
        Ok(out.trim_end().to_owned())
    }

    fn goals(&self, out: &mut String) -> fmt::Result {
        let ways: [(&str, Figure); 2] =
            [("durable in raw_events", |round| round.costs.logged_ms), ("on a screen", |round| round.costs.shown_ms)];
        for series in &self.series {
            for (what, figure) in ways {
                let Spread { median, max, .. } = series.spread(figure);
                let (median_met, max_met) = (met(median), met(max));
                writeln!(out, "{}: {what}: median {median_met}, slowest {max_met}", series.name)?;
            }
        }
        writeln!(out, "goal under {GOAL_MS:.0} ms, aim {AIM_MS:.0} ms, counted from the acceptance, so with the hop")
    }
}

fn met(ms: f64) -> String {
    let verdict = match () {
        () if ms <= AIM_MS => "aim met",
        () if ms < GOAL_MS => "goal met, aim not",
        () => "goal not met",
    };
    format!("{ms:.0} ms, {verdict}")
}

fn text(spread: Spread, decimals: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.decimals$} ({min:.decimals$} to {max:.decimals$})")
}

fn ms(cost: PlainCost) -> f64 {
    cost.wall.as_secs_f64() * 1e3
}

fn us_per_tick(round: &Round, time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / float(round.ticks)
}

/// Exact for what is counted here.
fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn mib(bytes: u64) -> String {
    (bytes >> 20).to_string()
}
