//! Draws from the one seed of a scenario, a stream of its own for each part, so that a draw more in one part changes
//! nothing in another.
//!
//! Never: the operating system's randomness.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A seeded source of draws.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    rng: ChaCha8Rng,
}

impl Chance {
    /// The stream of one part.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self { rng }
    }

    /// 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// A whole number in `0..bound`; 0 when the bound is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.rng.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A whole number in `low..=high`.
    pub(super) fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// An index in `0..bound`; 0 when the bound is 0.
    pub(super) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(u64::try_from(bound).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// True `parts` times in 256.
    pub(super) fn in_256(&mut self, parts: u32) -> bool {
        self.rng.next_u32() & 0xff < parts
    }

    /// A time around a mean: uniform in a half to one and a half of it.
    pub(super) fn around(&mut self, mean: u64) -> u64 {
        self.between((mean / 2, mean.saturating_add(mean / 2)))
    }
}
