//! Draws from the generator's one seeded source.
//!
//! Never: the operating system's randomness.

use market::U256;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Steps of one unit.
const UNIT: u128 = 10_u128.pow(27);

/// The seeded source.
#[derive(Debug)]
pub(super) struct Chance(ChaCha8Rng);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A whole number in `0..bound`; 0 when the bound is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// An index in `0..bound`; 0 when the bound is 0.
    pub(super) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(u64::try_from(bound).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// A whole number in `0..bound`, for prices.
    pub(super) fn step(&mut self, bound: u32) -> i64 {
        i64::try_from(self.below(u64::from(bound))).unwrap_or(0)
    }

    /// True `parts` times in 256.
    pub(super) fn in_256(&mut self, parts: u32) -> bool {
        self.0.next_u32() & 0xff < parts
    }

    /// Any letter or digit of an alphabet, so many times.
    pub(super) fn text(&mut self, alphabet: &str, length: usize) -> String {
        let of = |at: usize| alphabet.get(at..at + 1).unwrap_or("x");
        (0..length).map(|_| of(self.index(alphabet.len()))).collect()
    }

    /// Reserves above zero, in steps: mostly whole units, some with decimals, a few of less than one unit.
    pub(super) fn reserves(&mut self) -> U256 {
        let kind = self.below(32);
        let part = u128::from(self.0.next_u64()) * u128::from(self.0.next_u32()) % UNIT;
        let digits = 3 + self.below(11);
        let whole = 1 + self.below(10_u64.saturating_pow(u32::try_from(digits).unwrap_or(3)));
        match kind {
            0 => U256::from(part.max(1)),
            1..12 => U256::from(whole) * U256::from(UNIT) + U256::from(part),
            _ => U256::from(whole) * U256::from(UNIT),
        }
    }
}
