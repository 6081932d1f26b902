//! The two independent reconstructions, Rust and Python, agree with each other and with the venues' own checks on every
//! recorded capture.
//!
//! Never: a crate under test.

use anyhow::{Context, Result, ensure};
use sprag_tests::{
    corpus,
    reference::{self, Stats},
};
use std::path::Path;
use std::process::Command;

fn python(format: &str, capture: &Path) -> Result<serde_json::Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference/reconstruct.py");
    // Without `-B` it would leave its bytecode in the source tree.
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args(["--venue", format, "--json"]).arg(capture);
    let output = command.output().context("python3")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What the captures of a format come to, in both languages; none when the corpus is absent.
fn agreed(format: &str) -> Result<Option<Stats>> {
    let captures = corpus::captures(format);
    if captures.is_empty() {
        println!("corpus absent: skipped {format} (set {} to its directory)", corpus::VARIABLE);
        return Ok(None);
    }
    let mut all = Stats::default();
    for capture in captures {
        let name = corpus::name_of(&capture);
        let rust = reference::rebuild(format, &capture)?;
        let as_json = serde_json::to_value(&rust)?;
        let other = python(format, &capture)?;
        assert_eq!(as_json["stats"], other["stats"], "{name}");
        // Not `assert_eq`: thousands of levels would bury the reason.
        assert!(as_json["books"] == other["books"], "{name}: the books differ");
        assert!(!rust.books.is_empty());
        println!("{name}: {} instruments, {:?}", rust.books.len(), rust.stats);
        let Stats { gaps, unanchored, unknown, leg_mismatches, ticker_mismatches, .. } = rust.stats;
        assert_eq!((gaps, unanchored, unknown, leg_mismatches, ticker_mismatches), (0, 0, 0, 0, 0), "{name}");
        assert_eq!(rust.stats.checksums, rust.stats.checksum_matches, "{name}");
        assert_eq!(rust.stats.depth_events, rust.stats.applied + rust.stats.dropped_before_snapshot, "{name}");
        all += rust.stats;
    }
    Ok(Some(all))
}

/// Sums over the captures of a format, as the corpus has them.
#[derive(Default)]
struct Right {
    applied: u64,
    checksums: u64,
    tickers: u64,
    out_of_order: u64,
    legs: u64,
}

fn comes_to(format: &str, right: &Right) -> Result<()> {
    let Some(stats) = agreed(format)? else { return Ok(()) };
    println!("{format}: {} updates, {} checksums, all right", stats.applied, stats.checksums);
    assert_eq!(stats.applied, right.applied);
    assert_eq!(stats.checksum_matches, right.checksums);
    assert_eq!(stats.ticker_comparisons, right.tickers);
    assert_eq!(stats.out_of_order, right.out_of_order);
    assert_eq!(stats.leg_comparisons, right.legs);
    assert_eq!(stats.crossed, 0);
    Ok(())
}

#[test]
fn binance_spot_agrees_and_every_ticker_of_the_same_id_matches() -> Result<()> {
    comes_to("binance_spot", &Right { applied: 590 + 172 + 6_493, tickers: 199 + 26 + 1_072, ..Right::default() })
}

#[test]
fn binance_usdm_agrees_and_every_ticker_of_the_same_id_matches() -> Result<()> {
    comes_to("binance_usdm", &Right { applied: 752 + 6_547, tickers: 50 + 629, ..Right::default() })
}

#[test]
fn kraken_v2_agrees_and_every_checksum_matches() -> Result<()> {
    let checksums = 301 + 2_052 + 1_129;
    comes_to("kraken_v2", &Right { applied: checksums, checksums, ..Right::default() })
}

#[test]
fn kraken_v1_agrees_and_every_checksum_matches() -> Result<()> {
    comes_to("kraken_v1", &Right { applied: 4_269, checksums: 4_269, ..Right::default() })
}

#[test]
fn okx_agrees_every_checksum_matches_and_so_do_three_sockets() -> Result<()> {
    let applied = 4_342 + 3_659;
    // Ten snapshots on each of three sockets; then ten, and ten again.
    comes_to("okx", &Right { applied, checksums: applied + 30 + 20, legs: 2_868, ..Right::default() })
}

#[test]
fn bitget_agrees_and_every_checksum_matches() -> Result<()> {
    comes_to("bitget", &Right { applied: 627, checksums: 637, ..Right::default() })
}

#[test]
fn dydx_v3_agrees_although_offsets_go_back() -> Result<()> {
    comes_to("dydx_v3", &Right { applied: 2_120, out_of_order: 115, ..Right::default() })
}

#[test]
fn coinbase_agrees() -> Result<()> {
    comes_to("coinbase", &Right { applied: 9_719, ..Right::default() })
}

#[test]
fn kraken_futures_agrees_without_a_gap() -> Result<()> {
    comes_to("kraken_futures", &Right { applied: 6_528, ..Right::default() })
}

#[test]
fn deribit_agrees_without_a_gap() -> Result<()> {
    comes_to("deribit", &Right { applied: 46, ..Right::default() })
}

#[test]
fn bitfinex_agrees_without_a_gap() -> Result<()> {
    comes_to("bitfinex", &Right { applied: 1_593, ..Right::default() })
}

#[test]
fn bitstamp_agrees() -> Result<()> {
    comes_to("bitstamp", &Right { applied: 527, ..Right::default() })
}

#[test]
fn gemini_agrees() -> Result<()> {
    comes_to("gemini", &Right { applied: 925, ..Right::default() })
}

#[test]
fn bitmex_agrees_and_every_row_is_known() -> Result<()> {
    comes_to("bitmex", &Right { applied: 1_852, ..Right::default() })
}

#[test]
fn kucoin_agrees_without_a_gap() -> Result<()> {
    comes_to("kucoin", &Right { applied: 3_805, ..Right::default() })
}
