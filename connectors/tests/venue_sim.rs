//! The venue simulator as a server, seen by plain clients over real sockets: they know the venues' published rules and
//! nothing of this crate's decoders.
//!
//! Never: a test that needs another to have run, or that fails because the corpus is absent.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "venue_sim/binance.rs"]
mod binance;
#[path = "venue_sim/binance_usdm.rs"]
mod binance_usdm;
#[path = "venue_sim/bitfinex.rs"]
mod bitfinex;
#[path = "venue_sim/captures.rs"]
mod captures;
#[path = "venue_sim/client.rs"]
mod client;
#[path = "venue_sim/coinbase.rs"]
mod coinbase;
#[path = "venue_sim/control.rs"]
mod control;
#[path = "venue_sim/deribit.rs"]
mod deribit;
#[path = "venue_sim/faults.rs"]
mod faults;
#[path = "venue_sim/kraken.rs"]
mod kraken;
#[path = "venue_sim/messages.rs"]
mod messages;
#[path = "venue_sim/okx.rs"]
mod okx;
#[path = "venue_sim/pace.rs"]
mod pace;

use connectors::simulator::{SimulatorConfig, VenueSim, VenueSimBook, VenueSimOptions, VenueSimSource};
use market::Venue;
use std::{path::PathBuf, time::Duration};

/// Nothing here takes nearly as long.
const LONG: Duration = Duration::from_secs(60);

/// A busy market of a few pairs.
fn market(updates_per_second: u32) -> VenueSimOptions {
    VenueSimOptions::new(VenueSimSource::Market(SimulatorConfig {
        seed: 7,
        pairs: 4,
        updates_per_second,
        book_levels: 120,
        ..SimulatorConfig::default()
    }))
}

/// The same at some venues.
fn market_of(venues: &[Venue], updates_per_second: u32) -> VenueSimOptions {
    let mut options = market(updates_per_second);
    if let VenueSimSource::Market(config) = &mut options.source {
        config.venues = venues.to_vec();
    }
    options
}

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LONG, waiting).await.is_ok(), "never: {what}");
}

/// The reference book of an instrument.
fn reference(sim: &VenueSim, venue: Venue, symbol: &str) -> VenueSimBook {
    sim.books().into_iter().find(|book| book.venue == venue && book.symbol == symbol).unwrap()
}

/// A capture of the corpus, if it is there.
fn corpus(rel: &str) -> Option<PathBuf> {
    let named = std::env::var_os("SPRAG_CORPUS").map(PathBuf::from);
    let directory = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"));
    let file = directory.join(rel);
    if !file.is_file() {
        eprintln!("skipped: {} is not there; SPRAG_CORPUS names the corpus", file.display());
    }
    file.is_file().then_some(file)
}
