//! `fuzz-seeds DIRECTORY [CASES]`: writes seeds of every venue for the fuzz targets.
//!
//! Never: a seed that the tests would not make as well.

use anyhow::{Context, Result};
use market::Venue;
use sprag_tests::fuzz::seeds;
use std::{env, fs, path::PathBuf};

/// Seeds of each venue unless told otherwise.
const CASES: u64 = 50;

fn main() -> Result<()> {
    let mut arguments = env::args_os().skip(1);
    let directory = PathBuf::from(arguments.next().context("usage: fuzz-seeds DIRECTORY [CASES]")?);
    let cases = match arguments.next() {
        Some(cases) => cases.to_string_lossy().parse().context("CASES is no number")?,
        None => CASES,
    };
    fs::create_dir_all(&directory)?;
    for venue in Venue::ALL {
        let recorded = seeds::recorded(venue)?;
        for seed in 0..cases {
            fs::write(directory.join(format!("{venue}-{seed}")), seeds::case(venue, &recorded, seed))?;
        }
    }
    println!("{cases} seeds of each of {} venues in {}", Venue::ALL.len(), directory.display());
    Ok(())
}
