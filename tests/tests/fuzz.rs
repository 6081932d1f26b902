//! The fuzz targets as ordinary tests, for a short while: recorded frames, and the same bent, cut, doubled and spliced by
//! one seed each. `SPRAG_FULL` makes it longer; `cargo xtask fuzz` goes on for as long as one likes.
//!
//! Never: a case that cannot be made again from its seed, which is named when it fails.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use connectors::raw::RawKind;
use market::Venue;
use sprag_tests::fuzz::{
    self, FuzzFrame,
    seeds::{self, FRAMES},
};
use std::{env, panic};

/// Cases of each venue.
const CASES: u64 = 500;
/// The same where time does not matter.
const CASES_FULL: u64 = 20_000;
fn run(venue: Venue) {
    let recorded = seeds::recorded(venue).unwrap();
    let cases = if env::var_os("SPRAG_FULL").is_some() { CASES_FULL } else { CASES };
    for seed in 0..cases {
        let input = seeds::case(venue, &recorded, seed);
        let ran = panic::catch_unwind(|| {
            fuzz::feed(&input);
            fuzz::answers(&input);
        });
        assert!(ran.is_ok(), "{venue}: seed {seed}");
    }
    println!("{venue}: {cases} cases of {FRAMES} frames");
}

#[test]
fn an_input_is_read_as_it_was_written() {
    let frames = vec![
        FuzzFrame { kind: RawKind::Open, leg: 2, text: Vec::new() },
        FuzzFrame { kind: RawKind::Ws, leg: 1, text: b"{}".to_vec() },
    ];
    for venue in Venue::ALL {
        assert_eq!(fuzz::frames(&fuzz::input(venue, &frames)), (venue, frames.clone()));
    }
}

macro_rules! venues {
    ($($name:ident: $venue:ident,)*) => {$(
        #[test]
        fn $name() {
            run(Venue::$venue);
        }
    )*

    #[test]
    fn every_venue_has_its_test() {
        assert_eq!([$(Venue::$venue),*], Venue::ALL);
    }};
}

venues! {
    binance_spot: BinanceSpot,
    kraken_spot: KrakenSpot,
    binance_usdm: BinanceUsdm,
    coinbase: Coinbase,
    okx: Okx,
    bitfinex: Bitfinex,
    deribit: Deribit,
    kraken_futures: KrakenFutures,
    kucoin: Kucoin,
    bitstamp: Bitstamp,
    gemini: Gemini,
    bitmex: Bitmex,
    bitget: Bitget,
    dydx_v3: DydxV3,
    neutron_dex: NeutronDex,
}
