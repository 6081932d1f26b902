//! Which pairs the simulated market trades, and their plausible prices and steps.
//!
//! Never: a venue's book; a pair is common to all venues.

/// A pair, the same at every venue.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) asset_0: String,
    pub(super) asset_1: String,
    /// Starting price in 10^-8 of the quote asset.
    pub(super) price_e8: u64,
    /// Decimals of a price on Binance.
    pub(super) binance_decimals: u32,
    /// Decimals of a price on Kraken.
    pub(super) kraken_decimals: u32,
    /// Decimals of a quantity on Binance; Kraken always has 8.
    pub(super) quantity_decimals: u32,
    /// A typical resting quantity in 10^-8 of the base asset.
    pub(super) quantity_e8: u64,
}

/// base, quote, price in 10^-8, price decimals on Binance and on Kraken, quantity decimals on Binance.
type Known = (&'static str, &'static str, u64, u32, u32, u32);

const KNOWN: [Known; 24] = [
    ("BTC", "USDT", 6_183_763_000_000, 2, 1, 5),
    ("ETH", "USDT", 267_542_000_000, 2, 2, 4),
    ("SOL", "USDT", 16_218_000_000, 2, 2, 3),
    ("BTC", "USD", 6_182_900_000_000, 2, 1, 5),
    ("ETH", "USD", 267_510_000_000, 2, 2, 4),
    ("XRP", "USDT", 61_250_000, 4, 5, 0),
    ("SOL", "USD", 16_215_000_000, 2, 2, 3),
    ("DOGE", "USDT", 10_482_000, 5, 7, 0),
    ("XRP", "USD", 61_240_000, 4, 5, 0),
    ("BTC", "EUR", 5_661_000_000_000, 2, 1, 5),
    ("ETH", "BTC", 4_326_000, 6, 6, 4),
    ("ADA", "USDT", 35_120_000, 5, 6, 1),
    ("DOGE", "USD", 10_480_000, 5, 7, 0),
    ("LINK", "USDT", 1_063_000_000, 4, 5, 2),
    ("LTC", "USDT", 6_312_000_000, 3, 3, 3),
    ("AVAX", "USDT", 2_187_000_000, 4, 4, 2),
    ("DOT", "USDT", 472_000_000, 4, 4, 2),
    ("ETH", "EUR", 244_900_000_000, 2, 2, 4),
    ("ADA", "USD", 35_110_000, 5, 6, 1),
    ("LINK", "USD", 1_062_500_000, 4, 5, 2),
    ("BCH", "USDT", 35_640_000_000, 2, 2, 3),
    ("UNI", "USDT", 593_000_000, 4, 4, 2),
    ("ATOM", "USDT", 478_000_000, 4, 4, 2),
    ("TRX", "USDT", 12_730_000, 5, 6, 1),
];

/// Quote assets of the synthetic pairs, in turn.
const QUOTES: [&str; 3] = ["USDT", "USD", "EUR"];

/// Starting prices of the synthetic pairs, in turn, in 10^-8: 3.7e-4 to 4,100.
const PRICES: [u64; 8] =
    [37_100, 2_440_000, 17_320_000, 84_600_000, 312_000_000, 2_940_000_000, 18_800_000_000, 410_000_000_000];

/// The size of a typical resting order, in whole units of the quote asset.
const TYPICAL_VALUE: u64 = 4_000;

/// The first `count` pairs: the well-known ones, then synthetic assets.
pub(super) fn pairs(count: u32) -> Vec<Pair> {
    (0..count).map(pair).collect()
}

fn pair(number: u32) -> Pair {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    match KNOWN.get(index) {
        Some(&(asset_0, asset_1, price_e8, binance, kraken, quantity)) => {
            let value = if asset_1 == "BTC" { TYPICAL_VALUE / 2_000 } else { TYPICAL_VALUE };
            build((asset_0.to_owned(), asset_1.to_owned()), price_e8, (binance, kraken, quantity), value)
        }
        None => synthetic(index),
    }
}

fn synthetic(index: usize) -> Pair {
    let price = PRICES.get(index % PRICES.len()).copied().unwrap_or(100_000_000);
    // Each asset is quoted in every quote asset before the next one comes.
    let asset = format!("S{:04}", index / QUOTES.len());
    let quote = QUOTES.get(index % QUOTES.len()).copied().unwrap_or("USDT");
    let price = price + u64::try_from(index % 97).unwrap_or(0) * (price / 500);
    // At least 10^4 price steps, so that a book has room on both sides.
    let mut decimals = 8_u32;
    while decimals > 2 && price / 10_u64.pow(8 - (decimals - 1)) >= 20_000 {
        decimals -= 1;
    }
    let quantity = if price > 10_000_000_000 { 4 } else { 1 };
    build((asset, quote.to_owned()), price, (decimals, decimals, quantity), TYPICAL_VALUE / 4)
}

fn build((asset_0, asset_1): (String, String), price_e8: u64, decimals: (u32, u32, u32), value: u64) -> Pair {
    let (binance_decimals, kraken_decimals, quantity_decimals) = decimals;
    let quantity = u128::from(value) * 10_u128.pow(16) / u128::from(price_e8.max(1));
    let quantity_e8 = u64::try_from(quantity).unwrap_or(u64::MAX / 1_000_000).clamp(1_000, u64::MAX / 1_000_000);
    Pair { asset_0, asset_1, price_e8, binance_decimals, kraken_decimals, quantity_decimals, quantity_e8 }
}
