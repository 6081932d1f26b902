//! What a subscription's configuration means for its messages.
//!
//! Never: a setting of the service that is taken and then ignored without a word in the crate's documentation.

use crate::{error::Refusal, topic::check_name};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use std::time::Duration;

/// Seconds that a lease may last, as the service has it.
pub(crate) const LEASE_SECONDS: (i32, i32) = (10, 600);
/// Deliveries before a message is a dead letter, as the service has it; the lower one where none is named.
const ATTEMPTS: (i32, i32) = (5, 100);
/// Pauses of a retry policy that names none, as the service has them.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// How a subscription treats its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) ordered: bool,
    /// Deliveries after which a message is a dead letter.
    pub(crate) attempts_max: Option<u32>,
    /// Without it a message that was given back is ready at once.
    pub(crate) backoff: Option<Backoff>,
}

/// Pause before a message is delivered again; it doubles with every delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Backoff {
    /// After that many deliveries.
    pub(crate) fn after(self, deliveries: u32) -> Duration {
        let doublings = deliveries.saturating_sub(1).min(31);
        self.least.saturating_mul(1 << doublings).min(self.most)
    }
}

impl Terms {
    /// Checks a configuration that is to be stored, and fills in what the service fills in.
    pub(crate) fn of(config: &mut pb::Subscription) -> Result<Self, Refusal> {
        check_name(&config.name, "subscriptions")?;
        check_name(&config.topic, "topics")?;
        unimplemented(config)?;
        if config.ack_deadline_seconds == 0 {
            config.ack_deadline_seconds = LEASE_SECONDS.0;
        }
        within("ack_deadline_seconds", config.ack_deadline_seconds, LEASE_SECONDS)?;
        let mut attempts_max = None;
        if let Some(policy) = &mut config.dead_letter_policy {
            check_name(&policy.dead_letter_topic, "topics")?;
            if policy.max_delivery_attempts == 0 {
                policy.max_delivery_attempts = ATTEMPTS.0;
            }
            within("max_delivery_attempts", policy.max_delivery_attempts, ATTEMPTS)?;
            attempts_max = u32::try_from(policy.max_delivery_attempts).ok();
        }
        let backoff = config.retry_policy.as_ref().map(backoff).transpose()?;
        Ok(Self { ordered: config.enable_message_ordering, attempts_max, backoff })
    }
}

/// How long a lease lasts that is given for the subscription's own time.
pub(crate) fn own_lease(config: &pb::Subscription) -> Duration {
    Duration::from_secs(u64::try_from(config.ack_deadline_seconds).unwrap_or_default())
}

/// Seconds of a lease that a stream asks for.
pub(crate) fn stream_lease(seconds: i32) -> Result<Duration, Refusal> {
    within("stream_ack_deadline_seconds", seconds, LEASE_SECONDS)?;
    Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// Seconds from now that a lease is to last; 0 gives it back.
pub(crate) fn extension(seconds: i32) -> Result<Duration, Refusal> {
    within("ack_deadline_seconds", seconds, (0, LEASE_SECONDS.1))?;
    Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

fn within(field: &'static str, value: i32, (lowest, highest): (i32, i32)) -> Result<(), Refusal> {
    if (lowest..=highest).contains(&value) {
        return Ok(());
    }
    Err(Refusal::OutOfRange { field, value: value.into(), lowest: lowest.into(), highest: highest.into() })
}

fn backoff(policy: &pb::RetryPolicy) -> Result<Backoff, Refusal> {
    let read = |field, duration: Option<prost_types::Duration>, default| match duration {
        None => Ok(default),
        Some(duration) => {
            let seconds = duration.seconds;
            match Duration::try_from(duration) {
                Ok(duration) if duration <= BACKOFF.1 => Ok(duration),
                _ => Err(Refusal::OutOfRange { field, value: seconds, lowest: 0, highest: 600 }),
            }
        }
    };
    let least = read("minimum_backoff", policy.minimum_backoff, BACKOFF.0)?;
    let most = read("maximum_backoff", policy.maximum_backoff, BACKOFF.1)?;
    if least > most { Err(Refusal::Backoff) } else { Ok(Backoff { least, most }) }
}

/// What would change which messages come, and is not there.
fn unimplemented(config: &pb::Subscription) -> Result<(), Refusal> {
    let push = config.push_config.as_ref().is_some_and(|push| !push.push_endpoint.is_empty());
    let exports = config.bigquery_config.is_some() || config.cloud_storage_config.is_some();
    let asked = [
        (!config.filter.is_empty(), "filters"),
        (push, "push delivery"),
        (exports || config.bigtable_config.is_some(), "export subscriptions"),
        (!config.message_transforms.is_empty(), "message transforms"),
    ];
    match asked.into_iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(Refusal::Unimplemented { what }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> pb::Subscription {
        pb::Subscription {
            name: "projects/p/subscriptions/s".into(),
            topic: "projects/p/topics/t".into(),
            ..Default::default()
        }
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let mut config = config();
        config.dead_letter_policy =
            Some(pb::DeadLetterPolicy { dead_letter_topic: "projects/p/topics/d".into(), max_delivery_attempts: 0 });
        config.retry_policy = Some(pb::RetryPolicy::default());
        let terms = Terms::of(&mut config).unwrap();
        assert_eq!(terms.attempts_max, Some(5));
        assert_eq!(terms.backoff, Some(Backoff { least: BACKOFF.0, most: BACKOFF.1 }));
        assert_eq!(config.ack_deadline_seconds, 10);
    }

    #[test]
    fn what_the_service_refuses_is_refused() {
        let mut short = config();
        short.ack_deadline_seconds = 9;
        assert!(matches!(Terms::of(&mut short), Err(Refusal::OutOfRange { value: 9, .. })));
        let mut filtered = config();
        filtered.filter = "attributes:x".into();
        assert_eq!(Terms::of(&mut filtered), Err(Refusal::Unimplemented { what: "filters" }));
        let mut backwards = config();
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        backwards.retry_policy = Some(pb::RetryPolicy { minimum_backoff: seconds(20), maximum_backoff: seconds(10) });
        assert_eq!(Terms::of(&mut backwards), Err(Refusal::Backoff));
        backwards.retry_policy = Some(pb::RetryPolicy { minimum_backoff: seconds(-1), maximum_backoff: None });
        assert!(matches!(Terms::of(&mut backwards), Err(Refusal::OutOfRange { value: -1, .. })));
    }

    #[test]
    fn backoff_doubles_up_to_its_most() {
        let backoff = Backoff { least: Duration::from_secs(3), most: Duration::from_secs(20) };
        let seconds: Vec<_> = [1, 2, 3, 4, 1_000].map(|deliveries| backoff.after(deliveries).as_secs()).into();
        assert_eq!(seconds, [3, 6, 12, 20, 20]);
    }
}
