//! `[pubsub]`: batches of a stream, by Google Cloud Pub/Sub or its emulator.
//!
//! Never: credentials; they are the environment's.

use super::error::Problems;
use connectors::pubsub::client::{SubscriptionName, TopicName};
use serde::{Deserialize, Serialize};

/// Longest resource name or address, in bytes.
const TEXT_BYTES_MAX: usize = 2_048;

/// Longest name of a stream, in bytes.
const STREAM_BYTES_MAX: usize = 64;

/// What may be outstanding beside the parts of one batch.
const BESIDE: usize = 16 << 20;

/// Where batches come from, and how they are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PubSub {
    /// `projects/PROJECT/subscriptions/NAME`; empty = no batches.
    pub subscription: String,
    /// `projects/PROJECT/topics/NAME`, only to make what is missing; empty = the subscription must be there.
    pub topic: String,
    /// `http://` or `https://` address of the service; empty = `PUBSUB_EMULATOR_HOST`, and without it Google's own.
    pub endpoint: String,
    /// Name of the stream; 1 to 64 bytes. Batches of another one are dead letters.
    pub stream: String,
    /// Height behind which the stream begins, if nothing of it was taken yet; 0 to 17,179,869,183.
    pub begin_after: u64,
    /// Messages that may be outstanding; 1 to 10,000.
    pub outstanding_messages: usize,
    /// Bytes of them; 16 MiB more than `batch_bytes` to 4,294,967,296: the parts of one batch, and others beside.
    pub outstanding_bytes: usize,
    /// Bytes of batches in memory, unpacked; three times `batch_bytes` to 17,179,869,184. Beyond it the subscription waits.
    /// Rows made of batches that wait for the store may occupy as much; beyond it no further batch is shown.
    pub memory_bytes: usize,
    /// Bytes of one batch, unpacked; 1,048,576 to 67,108,864.
    pub batch_bytes: usize,
    /// Times that a batch which cannot be taken comes before it is a dead letter; 1 to 100.
    pub attempts: u32,
    /// Milliseconds that a hole may last before it shows; 0 to 60,000.
    pub hole_ms: u64,
    /// Milliseconds after its publication from which on a batch counts as being caught up; 100 to 3,600,000.
    pub behind_ms: u64,
    /// Milliseconds without any message after which the subscription is made anew; 1,000 to 3,600,000.
    pub silent_ms: u64,
    /// Seconds that a message is leased for at a time; 10 to 600. What a process had in hand when it was killed comes again
    /// after so long.
    pub lease_seconds: u64,
}

impl Default for PubSub {
    fn default() -> Self {
        Self {
            subscription: String::new(),
            topic: String::new(),
            endpoint: String::new(),
            stream: "neutron-1".to_owned(),
            begin_after: 0,
            outstanding_messages: 64,
            outstanding_bytes: 128 << 20,
            memory_bytes: 256 << 20,
            batch_bytes: 64 << 20,
            attempts: 3,
            hole_ms: 250,
            behind_ms: 5_000,
            silent_ms: 60_000,
            lease_seconds: 20,
        }
    }
}

impl PubSub {
    /// Whether batches are wanted.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.subscription.is_empty()
    }

    pub(super) fn check(&self, source: bool, store: bool, problems: &mut Problems) {
        let shown = |text: &str| format!("{text:?}");
        let right =
            if self.subscription.is_empty() { !source } else { self.subscription.parse::<SubscriptionName>().is_ok() };
        let limit = "projects/PROJECT/subscriptions/NAME; given where source.kind is \"pubsub\"";
        problems.unless(right, "pubsub.subscription", &shown(&self.subscription), &limit);
        let right = self.topic.is_empty() || self.topic.parse::<TopicName>().is_ok();
        problems.unless(right, "pubsub.topic", &shown(&self.topic), &"empty, or projects/PROJECT/topics/NAME");
        let address = self.endpoint.starts_with("http://") || self.endpoint.starts_with("https://");
        let right = self.endpoint.is_empty() || address && !self.endpoint.contains('@');
        let limit = "empty, or http:// or https:// and a host";
        problems.unless(
            right && self.endpoint.len() <= TEXT_BYTES_MAX,
            "pubsub.endpoint",
            &shown(&self.endpoint),
            &limit,
        );
        let right = (1..=STREAM_BYTES_MAX).contains(&self.stream.len());
        problems.unless(right, "pubsub.stream", &shown(&self.stream), &"1 to 64 bytes");
        problems.range("pubsub.begin_after", self.begin_after, 0..=market::batch::HEIGHT_MAX);
        problems.range("pubsub.outstanding_messages", self.outstanding_messages, 1..=10_000);
        problems.range(
            "pubsub.outstanding_bytes",
            self.outstanding_bytes,
            self.batch_bytes.saturating_add(BESIDE)..=4 << 30,
        );
        problems.range("pubsub.memory_bytes", self.memory_bytes, self.batch_bytes.saturating_mul(3)..=16 << 30);
        problems.range("pubsub.batch_bytes", self.batch_bytes, 1 << 20..=64 << 20);
        problems.range("pubsub.attempts", self.attempts, 1..=100);
        problems.range("pubsub.hole_ms", self.hole_ms, 0..=60_000);
        problems.range("pubsub.behind_ms", self.behind_ms, 100..=3_600_000);
        problems.range("pubsub.silent_ms", self.silent_ms, 1_000..=3_600_000);
        problems.range("pubsub.lease_seconds", self.lease_seconds, 10..=600);
        let limit = "true where batches are taken: their log is there";
        problems.unless(store || !self.is_wanted(), "store.enabled", &"false", &limit);
    }
}
