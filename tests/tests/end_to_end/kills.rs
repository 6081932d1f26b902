//! Processes killed with SIGKILL at seeded moments, and what must hold in the end all the same: the store, the live
//! books and every receiver equal those of a run that nobody killed, and no receiver ever saw a version go back or two
//! books at one version.
//!
//! Never: a process killed that was not started here.

mod live;
mod receivers;
mod replayed;

use anyhow::{Context, Result, ensure};
use connectors::halt;
use sprag_tests::process::{self, Launch, Started};
use std::{fs, path::Path, process::Command, thread, time::Duration};

/// When a process dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// So long after its start, wherever it is then.
    After(Duration),
    /// At a named moment: the process stands still there until it is killed.
    At(&'static str),
    /// So long after its start the engine dies alone, in the middle of whatever it does, and the process with it.
    Engine(Duration),
    /// While one of the views that an insert fills fails, so that the others have what it lacks.
    View,
}

/// A view that fails, for as long as it is there.
const FAILING: &str = "CREATE MATERIALIZED VIEW IF NOT EXISTS failing_fill ENGINE = Null AS \
                       SELECT throwIf(version > 0) AS never FROM tick_updates";
const MENDED: &str = "DROP VIEW IF EXISTS failing_fill";
/// What a process without its store ends with.
const STORE_LOST: i32 = 4;

/// A small generator, so that a seed names the moments.
pub(crate) struct Seed(u64);

/// Names another seed than the test's own.
const SEED_VARIABLE: &str = "SPRAG_SEED";

impl Seed {
    /// The seed that the environment names, or this one; it is printed, so that a run can be repeated.
    pub(crate) fn named(own: u64) -> Self {
        let named = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
        let seed = named.unwrap_or(own);
        println!("seed {seed}; {SEED_VARIABLE} names another one");
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // Steele and Vigna's splitmix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    /// Things in an order of the seed's own.
    pub(crate) fn shuffled<T>(&mut self, mut things: Vec<T>) -> Vec<T> {
        for at in (1..things.len()).rev() {
            let other = usize::try_from(self.below(u64::try_from(at + 1).unwrap())).unwrap();
            things.swap(at, other);
        }
        things
    }
}

/// Starts a process and kills it at that moment; whether it was still there to be killed.
pub(crate) fn dies(launch: &Launch, data_dir: &Path, moment: Moment) -> Result<bool> {
    match moment {
        Moment::After(time) => {
            let started = launch.spawn()?;
            thread::sleep(time);
            killed(started)
        }
        Moment::At(name) => {
            let mut started = launch.clone().with_variable(halt::VARIABLE, name).spawn()?;
            let point = name.split(':').next().unwrap_or(name);
            started.await_log(&format!("{}{point}", halt::HALTED))?;
            killed(started)
        }
        Moment::Engine(time) => {
            let started = launch.spawn()?;
            let engine = engine_of(data_dir, started.pid())?;
            thread::sleep(time);
            let killed = kill(engine);
            // Nothing can go on without its store.
            let status = started.ended(process::PATIENCE)?;
            ensure!(!killed || status.code() == Some(STORE_LOST), "{status} without a store");
            Ok(killed)
        }
        Moment::View => {
            sql(data_dir, FAILING)?;
            let mut started = launch.spawn()?;
            started.await_log("it is tried again")?;
            let killed = killed(started)?;
            sql(data_dir, MENDED)?;
            Ok(killed)
        }
    }
}

fn killed(mut started: Started) -> Result<bool> {
    if started.has_ended()? {
        return Ok(false);
    }
    started.kill()?;
    Ok(true)
}

/// The process number of the engine on a data directory, once it is that parent's.
fn engine_of(data_dir: &Path, parent: u32) -> Result<u32> {
    let file = data_dir.join("clickhouse.url");
    let parent_of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()
    };
    process::until("an engine", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let pid = text.lines().nth(1).and_then(|pid| pid.parse::<u32>().ok());
        Ok(pid.filter(|pid| parent_of(*pid) == Some(parent)))
    })
}

fn kill(pid: u32) -> bool {
    Command::new("kill").args(["-KILL", &pid.to_string()]).status().is_ok_and(|status| status.success())
}

pub(crate) fn sql(data_dir: &Path, statement: &str) -> Result<()> {
    let data_dir = data_dir.to_str().context("a data directory that is not text")?;
    let output = process::output(["sql", "--write", "--data-dir", data_dir, statement])?;
    ensure!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
