//! The two independent reconstructions, Rust and Python, agree with each other and with the venues' own checks on every
//! recorded capture.
//!
//! Never: a crate under test.

use anyhow::{Context, Result, ensure};
use sprag_tests::{corpus, reference};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checksums in the Kraken v2 captures, by the corpus' manifest: 301 + 2,052 + 1,129.
const KRAKEN_CHECKSUMS: u64 = 3_482;

fn python(venue: &str, capture: &Path) -> Result<serde_json::Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference/reconstruct.py");
    let mut command = Command::new("python3");
    let output = command.arg(script).args(["--venue", venue, "--json"]).arg(capture).output().context("python3")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn agreed(
    venue: &str,
    captures: &[PathBuf],
    rebuild: fn(&Path) -> Result<reference::Reconstruction>,
) -> Result<Vec<reference::Stats>> {
    if captures.is_empty() {
        println!("corpus absent: skipped {venue} (set {} to its directory)", corpus::VARIABLE);
    }
    let mut all = Vec::new();
    for capture in captures {
        let rust = rebuild(capture)?;
        let as_json = serde_json::to_value(&rust)?;
        let other = python(venue, capture)?;
        assert_eq!(as_json["stats"], other["stats"], "{}", capture.display());
        // Not `assert_eq`: thousands of levels would bury the reason.
        assert!(as_json["books"] == other["books"], "{}: the books differ", capture.display());
        assert!(!rust.books.is_empty());
        let name = capture.file_name().unwrap_or_default().to_string_lossy();
        println!("{name}: {} instruments, {:?}", rust.books.len(), rust.stats);
        assert_eq!((rust.stats.crossed, rust.stats.gaps, rust.stats.unanchored), (0, 0, 0), "{name}");
        assert_eq!(rust.stats.depth_events, rust.stats.applied + rust.stats.dropped_before_snapshot, "{name}");
        all.push(rust.stats);
    }
    Ok(all)
}

#[test]
fn binance_spot_books_agree_and_every_ticker_of_the_same_id_matches() -> Result<()> {
    let stats = agreed("binance_spot", &corpus::binance_spot_files(), reference::binance_spot)?;
    for one in &stats {
        assert!(one.ticker_comparisons > 0);
        assert_eq!(one.ticker_mismatches, 0);
    }
    let comparisons: u64 = stats.iter().map(|one| one.ticker_comparisons).sum();
    println!("binance_spot: {comparisons} tickers compared, 0 mismatches");
    Ok(())
}

#[test]
fn kraken_v2_books_agree_and_every_checksum_matches() -> Result<()> {
    let stats = agreed("kraken_v2", &corpus::kraken_v2_files(), reference::kraken_v2)?;
    let (seen, matched) = stats.iter().fold((0, 0), |sum, one| (sum.0 + one.checksums, sum.1 + one.checksum_matches));
    println!("kraken_v2: {matched} of {seen} checksums match");
    assert_eq!(seen, matched);
    if !stats.is_empty() {
        assert_eq!(seen, KRAKEN_CHECKSUMS);
    }
    Ok(())
}
