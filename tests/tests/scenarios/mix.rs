//! Everything at once, from seeds: many instruments, bad legs, lagging answers, venues that restart, kills, and five
//! terminals of different speed.
//!
//! Never: a seed that passes only by luck; each prints the line that runs it again.

use dataflow::cut::LaneCounts;
use server::fanout::outbox::RingBounds;
use sprag_tests::scenario::{
    Setup, World,
    setup::{MS, ViewerLink, ahead, books, named_seed, quotes},
};

/// Seeds of an ordinary run.
const SEEDS: u64 = 20;

/// Seeds of a full one.
const SEEDS_FULL: u64 = 200;

/// How long faults happen, milliseconds.
const FAULTY_MS: u64 = 20_000;

/// A world with everything in it, at the end of its faults.
fn mixed(seed: u64) -> World {
    let mut setup = Setup::new("random_mix", seed)
        .numbered("BTCUSDT", 4_000_000_000)
        .moving(25)
        .numbered("ETHUSDT", 5_000_000_000)
        .moving(60)
        .numbered("SOLUSDT", 6_000_000_000)
        .moving(150)
        .numbered("ADAUSDT", 7_000_000_000)
        .moving(700)
        .window("BTC/USD")
        .moving(30)
        .window("ETH/USD")
        .moving(200);
    setup.workers = usize::try_from(1 + setup.seed % 4).unwrap();
    setup.text = setup.seed.is_multiple_of(2);
    setup.rest_ns = (10 * MS, 300 * MS);
    // Smaller than a live one, so that slow terminals lose frames often.
    setup.ring = RingBounds { frames: 16, bytes: 64 << 10, age_ms: 2_560 };
    let mut world = World::new(setup);
    world.start();
    world.viewer(ViewerLink::FAST, &[ahead(), books()].concat());
    world.viewer(ViewerLink::kbit(20_000), &[quotes(), books()].concat());
    world.viewer(ViewerLink::kbit(2_000), &ahead());
    world.viewer(ViewerLink::kbit(256), &books());
    world.viewer(ViewerLink::kbit(64), &books());
    world.run_ms(1_000);
    world.faults_by_chance();
    world.run_ms(FAULTY_MS);
    world
}

fn seeds() -> Vec<u64> {
    let number = std::env::var("SPRAG_SEEDS").ok().and_then(|text| text.parse().ok());
    let full = std::env::var_os("SPRAG_FULL").is_some();
    match named_seed() {
        Some(seed) => vec![seed],
        None => (1..=number.unwrap_or(if full { SEEDS_FULL } else { SEEDS })).collect(),
    }
}

#[test]
fn random_mix() {
    let (mut sum, mut gaps, seeds) = (LaneCounts::default(), 0, seeds());
    for seed in &seeds {
        let mut world = mixed(*seed);
        world.settle();
        sum.add(&world.lanes());
        gaps += (0..5).map(|viewer| world.gaps(viewer)).sum::<usize>();
    }
    println!("{} seeds: {sum:?}, {gaps} gaps of terminals", seeds.len());
    if seeds.len() >= 20 {
        let seen = [sum.duplicates, sum.regressions, sum.held, sum.gaps, sum.resyncs, sum.resets, sum.refused];
        assert!(seen.iter().all(|count| *count > 0) && gaps > 0, "a kind of fault never happened: {seen:?}, {gaps}");
    }
}

#[test]
fn one_seed_gives_one_trace_and_another_seed_another() {
    let trace = |seed| mixed(seed).trace().lines().join("\n");
    let (first, again, other) = (trace(101), trace(101), trace(102));
    assert!(first.lines().count() > 1_000, "the trace tells what happened");
    assert!(first == again, "the same seed gave two traces");
    assert!(named_seed().is_some() || first != other, "two seeds gave one trace");
}
