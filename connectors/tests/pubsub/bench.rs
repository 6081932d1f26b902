//! An emulator with one topic and one subscription, and who publishes to it and pulls from it.
//!
//! Never: an assertion.

use bytes::Bytes;
use connectors::pubsub::{
    client::{PubSubAddress, SubscriptionName, SubscriptionOptions, TopicName},
    publish::{PublishBounds, Publishing},
    pull::{Pull, PullEvent, PullOptions, Pulled},
};
use futures_util::future::join_all;
use pubsub_emulator::Emulator;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

pub(crate) const TOPIC: &str = "projects/test/topics/batches";
pub(crate) const SUBSCRIPTION: &str = "projects/test/subscriptions/batches";

/// Longer than anything takes here, a lease of a minute excepted.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct Bench {
    pub(crate) emulator: Emulator,
    pub(crate) address: PubSubAddress,
    pub(crate) publishing: Publishing,
}

pub(crate) fn topic() -> TopicName {
    TOPIC.parse().unwrap()
}

pub(crate) fn options() -> PullOptions {
    PullOptions::new(SUBSCRIPTION.parse::<SubscriptionName>().unwrap())
}

impl Bench {
    /// With the topic alone.
    pub(crate) async fn without_subscription() -> Self {
        let emulator = Emulator::start(([127, 0, 0, 1], 0).into()).unwrap();
        let address = PubSubAddress::new(Some(&emulator.endpoint()), None).unwrap();
        address.ensure_topic(&topic()).await.unwrap();
        let publisher = address.publisher(&topic()).await.unwrap();
        let publishing = Publishing::new(publisher, PublishBounds { messages: 64, bytes: 60_000_000 });
        Self { emulator, address, publishing }
    }

    pub(crate) async fn new(subscription: &SubscriptionOptions) -> Self {
        let bench = Self::without_subscription().await;
        bench.subscribe(subscription).await;
        bench
    }

    pub(crate) async fn subscribe(&self, options: &SubscriptionOptions) {
        self.address.ensure(&topic(), &SUBSCRIPTION.parse().unwrap(), options).await.unwrap();
    }

    /// Messages whose data are these numbers.
    pub(crate) async fn publish(&self, numbers: std::ops::Range<u32>) {
        let sent = numbers.map(|number| self.publishing.message(Vec::new(), Bytes::from(number.to_string())));
        for sent in join_all(sent).await {
            sent.unwrap();
        }
    }

    pub(crate) fn pull(&self, options: PullOptions) -> Pull {
        Pull::start(self.address.clone(), options, Arc::new(|| 7))
    }

    /// Deliveries of the subscription so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.emulator.deliveries(SUBSCRIPTION).unwrap().delivered
    }

    pub(crate) async fn drained(&self) {
        timeout(PATIENCE, self.emulator.drained(SUBSCRIPTION)).await.expect("not all is acknowledged");
    }
}

/// The next message, whatever is told before it.
pub(crate) async fn message(pull: &mut Pull) -> Pulled {
    loop {
        if let PullEvent::Message(pulled) = event(pull).await {
            return *pulled;
        }
    }
}

pub(crate) async fn event(pull: &mut Pull) -> PullEvent {
    timeout(PATIENCE, pull.next()).await.expect("nothing comes").expect("the reader failed")
}

pub(crate) async fn messages(pull: &mut Pull, count: usize) -> Vec<Pulled> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        all.push(message(pull).await);
    }
    all
}

/// The numbers of messages, ascending.
pub(crate) fn numbers(messages: &[Pulled]) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        messages.iter().map(|pulled| std::str::from_utf8(&pulled.data).unwrap().parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}
