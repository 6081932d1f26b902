//! How long to wait before the next attempt: full jitter under an exponential ceiling.
//!
//! Never: a wait that all connections share; at the cap the spread is the whole cap.

/// Ceiling of the first wait, in milliseconds: a blip is over by then.
pub const BASE_MS: u64 = 250;

/// Greatest ceiling, in milliseconds: how long we may stay away from a venue that is back.
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

    /// Forgets the failures; for what has proved itself.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// How often the same is asked for in a row: each time after a longer pause, until nobody asked for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insistence {
    in_a_row: u32,
    last_ns: Option<u64>,
    pause_ns_max: u64,
}

/// Pause before the second time, in nanoseconds; doubles with each.
const PAUSE_NS_MIN: u64 = 250_000_000;

/// Longest pause of who repairs, in nanoseconds.
const PAUSE_NS_MAX: u64 = 60_000_000_000;

/// Longest pause of who asks for what was refused or stays quiet, in nanoseconds: it is seldom there the next minute, and
/// each time costs of what the venue allows.
const REFUSED_PAUSE_NS_MAX: u64 = 1_800_000_000_000;

/// Times in a row after which a person should look, and again at each doubling.
const ALARM_AT: u32 = 6;

impl Default for Insistence {
    fn default() -> Self {
        Self { in_a_row: 0, last_ns: None, pause_ns_max: PAUSE_NS_MAX }
    }
}

impl Insistence {
    /// That of who asks for what was refused.
    #[must_use]
    pub fn after_refusals() -> Self {
        Self { pause_ns_max: REFUSED_PAUSE_NS_MAX, ..Self::default() }
    }

    /// Who did not ask for this long has what he wanted, in nanoseconds: twice the longest pause of those that ask.
    const fn satisfied_ns(&self) -> u64 {
        self.pause_ns_max.saturating_mul(2)
    }

    /// When what is asked for now may be done.
    #[must_use]
    pub fn due_ns(&self, now_ns: u64) -> u64 {
        match self.last_ns {
            Some(last_ns) if now_ns < last_ns.saturating_add(self.satisfied_ns()) => {
                let factor = 1_u64.checked_shl(self.in_a_row.saturating_sub(1).min(32)).unwrap_or(u64::MAX);
                let pause_ns = PAUSE_NS_MIN.saturating_mul(factor).min(self.pause_ns_max);
                now_ns.max(last_ns.saturating_add(pause_ns))
            }
            _ => now_ns,
        }
    }

    /// Notes that it is done; whether it was done so often in a row that a person should look.
    pub fn done(&mut self, now_ns: u64) -> bool {
        let again = self.last_ns.is_some_and(|last_ns| now_ns < last_ns.saturating_add(self.satisfied_ns()));
        self.in_a_row = if again { self.in_a_row.saturating_add(1) } else { 1 };
        self.last_ns = Some(now_ns);
        self.in_a_row >= ALARM_AT
            && self.in_a_row.is_multiple_of(ALARM_AT)
            && (self.in_a_row / ALARM_AT).is_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_up_to_the_cap_and_the_spread_holds_there() {
        let mut backoff = Backoff::default();
        let ceilings: Vec<_> = (0..9)
            .map(|_| {
                let ceiling = backoff.ceiling_ms();
                assert_eq!(backoff.clone().next_ms(0), 0);
                assert_eq!(backoff.clone().next_ms(u64::MAX), ceiling);
                assert_eq!(backoff.next_ms(u64::MAX / 2), ceiling / 2);
                ceiling
            })
            .collect();
        assert_eq!(ceilings, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        backoff.reset();
        assert_eq!(backoff.ceiling_ms(), BASE_MS);
    }

    #[test]
    fn who_insists_waits_longer_each_time_and_is_told_of() {
        let mut insistence = Insistence::default();
        let (mut now_ns, mut pauses_ms, mut alarms) = (1_000, Vec::new(), Vec::new());
        for time in 1..=24 {
            let due_ns = insistence.due_ns(now_ns);
            pauses_ms.push((due_ns - now_ns) / 1_000_000);
            now_ns = due_ns;
            if insistence.done(now_ns) {
                alarms.push(time);
            }
        }
        assert_eq!(pauses_ms[..10], [0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]);
        assert_eq!(alarms, [6, 12, 24]);
        assert_eq!(insistence.due_ns(now_ns + 2 * PAUSE_NS_MAX), now_ns + 2 * PAUSE_NS_MAX, "and starts anew");
    }

    #[test]
    fn what_is_refused_is_asked_for_every_half_hour_in_the_end() {
        let (mut insistence, mut now_ns, mut pauses_s) = (Insistence::after_refusals(), 1_000, Vec::new());
        for _ in 0..16 {
            let due_ns = insistence.due_ns(now_ns);
            pauses_s.push((due_ns - now_ns) / 1_000_000_000);
            now_ns = due_ns;
            insistence.done(now_ns);
        }
        assert_eq!(pauses_s[8..], [32, 64, 128, 256, 512, 1_024, 1_800, 1_800]);
    }
}
