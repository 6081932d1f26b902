//! A live run on two simulated venues, killed again and again, beside one that nobody kills.
//!
//! Never: an end that depends on when the kills were.

use super::{Moment, Seed, dies, receivers::Receivers};
use crate::{
    books::{Book, asked},
    market::{Market, await_books},
};
use anyhow::{Context, Result};
use serde_json::json;
use sprag_tests::process::{self, Launch, free_port};
use std::{collections::BTreeMap, fs, path::Path};
use tokio::runtime::Runtime;

const SEED: u64 = 3;
const RECEIVERS: usize = 50;
/// Before which of the starts the ids of a book restart.
const RESETS: [usize; 3] = [5, 11, 17];

fn moments(seed: &mut Seed) -> Vec<Moment> {
    let mut moments = vec![
        Moment::At("epoch-written"),
        Moment::At("restore-read"),
        Moment::At("half-restored"),
        Moment::At("restored"),
        Moment::At("inserted-raw_events:2"),
        Moment::At("inserted-tick_updates"),
        Moment::At("inserted-tick_updates:4"),
        Moment::View,
    ];
    moments.extend((0..4).map(|_| Moment::Engine(seed.millis(0, 1_500))));
    moments.extend((0..10).map(|_| Moment::After(seed.millis(100, 3_000))));
    seed.shuffled(moments)
}

#[test]
fn a_live_run_killed_at_seeded_moments_ends_like_one_that_was_not() -> Result<()> {
    let market = Market::start(3, 150)?;
    let (steady_data, broken_data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let venues = ["binance_spot", "kraken_spot"];
    // Checkpoints and digests often enough to meet the kills.
    let more = "[store]\nraw_venue_messages = true\n[server]\ndigest_ms = 1000\n[pipeline]\ncheckpoint_ms = 400";
    let config = market.configuration(steady_data.path(), &venues, 1, more)?;
    let launch = |data: &Path, port| Launch::run(data, port).with(&["--config"]).with_path(&config);
    let steady = launch(steady_data.path(), 0).spawn()?.up()?;
    let port = free_port()?;
    let runtime = Runtime::new()?;
    let receivers = Receivers::start(&runtime, &format!("ws://127.0.0.1:{port}/v1/stream"), RECEIVERS)?;
    let followers = Receivers::start(&runtime, &steady.stream_url(), 3)?;

    let mut seed = Seed::named(SEED);
    let mut kills = 0;
    // The first one leaves tables behind, which a view needs.
    let first = std::iter::once(Moment::At("epoch-reserved"));
    for (at, moment) in first.chain(moments(&mut seed)).enumerate() {
        if RESETS.contains(&at) {
            // The venue's ids restart, perhaps while nobody is connected.
            market.fault(&json!({"fault": "reset_ids", "symbol": "BTCUSDT", "next_id": 1_000 + at}))?;
        }
        // Every other start is cold: from the store alone.
        let checkpoint = broken_data.path().join("checkpoint.bin");
        if at % 2 == 0 && checkpoint.exists() {
            fs::remove_file(checkpoint)?;
        }
        let killed = dies(&launch(broken_data.path(), port), broken_data.path(), moment)
            .with_context(|| format!("{moment:?}"))?;
        kills += u32::from(killed);
    }
    let server = launch(broken_data.path(), port).spawn()?.up()?;
    let live = r#"sprag_instruments{state="LIVE"}"#;
    let instruments = u64::try_from(market.books()?.len())?;
    server.await_metric(live, instruments)?;
    let truth = market.pause()?;
    await_books("the server that nobody killed", &steady, &truth)?;
    await_books("the server that was killed", &server, &truth)?;
    let settled =
        process::until(
            "all receivers",
            || Ok((receivers.all_show(&truth) && followers.all_show(&truth)).then_some(())),
        );
    settled.with_context(|| receivers.difference(&truth))?;
    for (name, data) in [("steady", steady_data.path()), ("killed", broken_data.path())] {
        process::until(&format!("the {name} server's store"), || {
            let stored = asked(data)?;
            let named = |(name, book): (&String, &Book)| {
                let symbol = name.split_once('/').map(|(_, symbol)| symbol.to_owned());
                symbol.map(|symbol| (symbol, book.clone()))
            };
            let right: BTreeMap<_, _> = truth.iter().filter_map(named).collect();
            Ok((stored == right).then_some(()))
        })?;
    }
    let (sworn, steady_sworn) = (receivers.end(&runtime), followers.end(&runtime));
    println!("{kills} kills, {} books shown, {} reconnects", sworn.shown, sworn.reconnects);
    assert!(kills >= 20, "only {kills} of the moments found the process alive");
    assert_eq!(sworn.broken, Vec::<String>::new());
    assert_eq!(steady_sworn.broken, Vec::<String>::new());
    assert!(sworn.reconnects > u64::try_from(RECEIVERS)?, "the receivers came back again and again");
    Ok(())
}
