//! Draws from the simulator's one seeded source.
//!
//! Never: the operating system's randomness, or a draw whose number depends on how often time was advanced.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Multipliers of a typical quantity, in 1/256: a heavy tail, as order sizes have.
const TAIL: [u64; 16] = [9, 23, 46, 77, 102, 141, 179, 205, 256, 333, 486, 717, 1_024, 1_690, 2_560, 5_376];

/// The seeded source of everything that happens in the simulated market.
pub(super) struct Chance {
    rng: ChaCha8Rng,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// A whole number in `0..bound`; 0 when the bound is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.rng.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// An index in `0..bound`; 0 when the bound is 0.
    pub(super) fn index(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }

    /// True `parts` times in 256.
    pub(super) fn in_256(&mut self, parts: u32) -> bool {
        self.rng.next_u32() & 0xff < parts
    }

    /// Uniform in the open interval (0, 1), with 32 bits.
    pub(super) fn unit(&mut self) -> f64 {
        (f64::from(self.rng.next_u32()) + 0.5) / 4_294_967_296.0
    }

    /// Close to a standard normal: 64 fair coins, centred and scaled to a variance of 1.
    pub(super) fn normal(&mut self) -> f64 {
        (f64::from(self.rng.next_u64().count_ones()) - 32.0) / 4.0
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// A quantity around `typical`, a positive multiple of `step`.
    pub(super) fn quantity(&mut self, typical: u64, step: u64) -> u64 {
        let word = self.rng.next_u64();
        let tail = TAIL.get(usize::try_from(word & 15).unwrap_or(0)).copied().unwrap_or(256);
        let jitter = 128 + ((word >> 8) & 0xff);
        let raw = u128::from(typical) * u128::from(tail * jitter) / (256 * 256);
        let raw = u64::try_from(raw).unwrap_or(u64::MAX / 2);
        (raw / step).max(1) * step
    }
}
