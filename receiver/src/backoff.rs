//! How long to wait before the next connection: full jitter under an exponential ceiling.
//!
//! Never: a wait that all terminals share; at the cap the spread is the whole cap.

/// Ceiling of the first wait, in milliseconds: a blip is over by then.
pub const BASE_MS: u64 = 250;

/// Greatest ceiling, in milliseconds: how long a terminal may stay behind a server that is back.
pub const CAP_MS: u64 = 30_000;

/// Counts failures; the randomness is passed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure, in milliseconds: uniform in `0..=ceiling`, by 64 random bits.
    pub fn next_ms(&mut self, random: u64) -> u64 {
        let ceiling = self.ceiling_ms();
        self.failures = self.failures.saturating_add(1);
        let product = u128::from(random) * u128::from(ceiling + 1);
        u64::try_from(product >> 64).unwrap_or(ceiling)
    }

    /// The ceiling of the next wait, in milliseconds.
    #[must_use]
    pub fn ceiling_ms(&self) -> u64 {
        let doubled = 2_u64.checked_pow(self.failures).and_then(|factor| factor.checked_mul(BASE_MS));
        doubled.unwrap_or(CAP_MS).min(CAP_MS)
    }

    /// Forgets the failures; for a connection that has proved itself.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_up_to_the_cap_and_the_spread_holds_there() {
        let mut backoff = Backoff::default();
        let ceilings: Vec<_> = (0..10)
            .map(|_| {
                let ceiling = backoff.ceiling_ms();
                assert_eq!(backoff.clone().next_ms(0), 0);
                assert_eq!(backoff.clone().next_ms(u64::MAX), ceiling);
                assert_eq!(backoff.next_ms(u64::MAX / 2), ceiling / 2);
                ceiling
            })
            .collect();
        assert_eq!(ceilings, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        for _ in 0..1_000 {
            backoff.next_ms(7);
        }
        assert_eq!(backoff.ceiling_ms(), CAP_MS);
        backoff.reset();
        assert_eq!(backoff.ceiling_ms(), BASE_MS);
    }
}
