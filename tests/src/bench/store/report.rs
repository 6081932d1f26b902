//! What the rounds say, as tables.
//!
//! Never: a pass or a failure because of a time; goals are printed beside the figures.

use super::{StoreOptions, inserts::Inserted, questions::Question};
use crate::bench::report::Spread;
use anyhow::{Result, ensure};
use std::{fmt::Write, time::Duration};

/// The figures of all.
#[derive(Clone, Debug)]
pub struct StoreReport {
    pub(super) options: StoreOptions,
    /// Until all was inserted, into both databases.
    pub(super) filled: Duration,
    pub(super) states: Vec<State>,
    pub(super) inserts: Vec<Inserted>,
}

/// The table as it was asked.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) parts: u64,
    pub(super) rows: u64,
    pub(super) answered: Vec<Answered>,
}

/// A question with what its ways took.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    name: &'static str,
    goal_ms: Option<f64>,
    rows: usize,
    pub(super) ways: Vec<AnsweredWay>,
}

/// One way.
#[derive(Clone, Debug)]
pub(super) struct AnsweredWay {
    pub(super) name: &'static str,
    pub(super) wall_ms: Spread,
    rows: usize,
}

impl Answered {
    /// Compares the answers, of which each way's is given with its times.
    pub(super) fn of(question: &Question, answers: Vec<(Vec<f64>, String)>) -> Result<Self> {
        let first = answers.first().map(|(_, answer)| answer.clone()).unwrap_or_default();
        let rows = first.lines().count();
        ensure!(rows > 0, "{}: nothing found", question.name);
        let mut ways = Vec::new();
        for (way, (times, answer)) in question.ways.iter().zip(answers) {
            ensure!(!way.right || answer == first, "{}: {} gives another answer", question.name, way.name);
            ways.push(AnsweredWay { name: way.name, wall_ms: Spread::of(times), rows: answer.lines().count() });
        }
        Ok(Self { name: question.name, goal_ms: question.goal_ms, rows, ways })
    }
}

impl StoreReport {
    /// The tables.
    ///
    /// # Errors
    /// None that a string could not hold.
    pub fn text(&self) -> Result<String> {
        let StoreOptions { updates, ticks, parts, rounds } = self.options;
        let mut out = String::new();
        writeln!(
            out,
            "{updates} updates of {ticks} ticks in {parts} inserts, filled in {:.1} s; medians of {rounds} rounds",
            self.filled.as_secs_f64()
        )?;
        for state in &self.states {
            writeln!(out, "\ntick_state {}: {} parts, {} rows", state.name, state.parts, state.rows)?;
            for answered in &state.answered {
                answered.write(&mut out, state.parts == 1)?;
            }
        }
        writeln!(out, "\ninserts of 50000 rows by the official client")?;
        let alone = self.inserts.first().map_or(1.0, |first| first.rate.median);
        for one in &self.inserts {
            let (rate, cpu) = (one.rate.median, one.cpu_us.median);
            writeln!(out, "  {:<40} {rate:>10.0} rows/s {cpu:>8.2} us CPU a row   x {:.2}", one.name, rate / alone)?;
        }
        Ok(out)
    }
}

impl Answered {
    fn write(&self, out: &mut String, merged: bool) -> Result<()> {
        writeln!(out, "  {} ({} rows)", self.name, self.rows)?;
        let first = self.ways.first().map_or(1.0, |way| way.wall_ms.median);
        for (at, way) in self.ways.iter().enumerate() {
            let Spread { median, min, max } = way.wall_ms;
            write!(out, "    {:<40} {median:>9.1} ms ({min:.1} to {max:.1})   x {:.1}", way.name, median / first)?;
            if let Some(goal) = self.goal_ms.filter(|_| merged && at == 0) {
                write!(out, "   goal {goal} ms: {}", if median <= goal { "met" } else { "missed" })?;
            }
            if way.rows != self.rows {
                write!(out, "   {} rows", way.rows)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
