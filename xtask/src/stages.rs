//! Named stages with their seconds, and the table at the end.
//!
//! Never: a stage left out because another one failed.

use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// The stages run so far.
pub(crate) struct Stages {
    done: Vec<Stage>,
}

struct Stage {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Stages {
    pub(crate) fn new() -> Self {
        Self { done: Vec::new() }
    }

    /// Runs one stage, says what is wrong with it, and tells whether it passed.
    pub(crate) fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<()>) -> bool {
        println!("== {name}");
        let start = Instant::now();
        let outcome = stage();
        let took = start.elapsed();
        if let Err(error) = &outcome {
            eprintln!("{name}: {error:#}");
        }
        let passed = outcome.is_ok();
        println!("== {name}: {} in {:.1} s", word(passed), took.as_secs_f64());
        self.done.push(Stage { name, took, passed });
        passed
    }

    /// Prints the table; an error when a stage failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!();
        for Stage { name, took, passed } in &self.done {
            println!("{name:<14} {:>8.1} s  {}", took.as_secs_f64(), word(*passed));
        }
        let total: Duration = self.done.iter().map(|stage| stage.took).sum();
        println!("{:<14} {:>8.1} s", "total", total.as_secs_f64());
        let failed: Vec<_> = self.done.iter().filter(|stage| !stage.passed).map(|stage| stage.name).collect();
        ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
        Ok(())
    }
}

fn word(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAILED" }
}
