//! What any server of the protocol owes the official library: one function per fact, run against ours and against
//! Google's own emulator.
//!
//! Never: a fault, or anything that only our emulator can tell.

use crate::{LONG, QUIET};
use google_cloud_auth::credentials::anonymous;
use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_pubsub::{
    client::{Publisher, Subscriber, SubscriptionAdmin, TopicAdmin},
    model::{DeadLetterPolicy, Message, RetryPolicy, Subscription},
    retry_policy::RetryableErrors,
    subscriber::{MessageStream, ShutdownBehavior, handler::Handler},
};
use google_cloud_wkt::Duration as ProtocolDuration;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// A topic with one subscription, and where they are.
pub(crate) struct Place {
    endpoint: String,
    pub(crate) topic: String,
    pub(crate) subscription: String,
}

static PLACES: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) async fn new(endpoint: &str) -> Self {
        Self::with(endpoint, Subscription::new()).await
    }

    /// With a subscription like this one but for its name, topic and ack deadline.
    pub(crate) async fn with(endpoint: &str, like: Subscription) -> Self {
        // The library wants to know by which library TLS is spoken, even where none is; the first of a process installs it.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        let number = PLACES.fetch_add(1, Relaxed);
        let place = Self {
            endpoint: endpoint.to_owned(),
            topic: format!("projects/p/topics/topic-{number}"),
            subscription: format!("projects/p/subscriptions/subscription-{number}"),
        };
        let topics = TopicAdmin::builder().with_endpoint(endpoint).with_credentials(anonymous::Builder::new().build());
        let topics = topics.build().await.unwrap();
        topics.create_topic().set_name(&place.topic).send().await.unwrap();
        let like = like.set_name(&place.subscription).set_topic(&place.topic).set_ack_deadline_seconds(10);
        place.admin().await.create_subscription().with_request(like).send().await.unwrap();
        place
    }

    async fn admin(&self) -> SubscriptionAdmin {
        let builder = SubscriptionAdmin::builder().with_endpoint(&self.endpoint);
        builder.with_credentials(anonymous::Builder::new().build()).build().await.unwrap()
    }

    pub(crate) async fn publisher(&self) -> Publisher {
        let builder = Publisher::builder(&self.topic).set_message_count_threshold(1).with_grpc_subchannel_count(1);
        let builder = builder.with_retry_policy(RetryableErrors.with_time_limit(LONG));
        let builder = builder.with_endpoint(&self.endpoint).with_credentials(anonymous::Builder::new().build());
        builder.build().await.unwrap()
    }

    pub(crate) async fn publish(&self, messages: impl IntoIterator<Item = Message>) {
        let publisher = self.publisher().await;
        for message in messages {
            publisher.publish(message).await.unwrap();
        }
    }

    pub(crate) async fn subscriber(&self) -> Subscriber {
        let builder = Subscriber::builder().with_grpc_subchannel_count(1).with_endpoint(&self.endpoint);
        builder.with_credentials(anonymous::Builder::new().build()).build().await.unwrap()
    }

    pub(crate) async fn stream(&self) -> MessageStream {
        self.subscriber().await.subscribe(&self.subscription).build()
    }
}

fn text(data: &str) -> Message {
    Message::new().set_data(data.to_owned())
}

fn text_of(message: &Message) -> String {
    String::from_utf8(message.data.to_vec()).unwrap()
}

pub(crate) async fn next(stream: &mut MessageStream) -> (Message, Handler) {
    timeout(LONG, stream.next()).await.expect("a message in time").expect("an open stream").expect("no error")
}

async fn is_quiet(stream: &mut MessageStream, during: Duration) -> bool {
    timeout(during, stream.next()).await.is_err()
}

pub(crate) async fn a_message_arrives_as_it_was_published(endpoint: &str) {
    let place = Place::new(endpoint).await;
    let message = Message::new().set_data("data").set_attributes([("height", "7"), ("kind", "block")]);
    let id = place.publisher().await.publish(message).await.unwrap();
    let mut stream = place.stream().await;
    let (got, handler) = next(&mut stream).await;
    assert_eq!((got.message_id.as_str(), text_of(&got)), (id.as_str(), "data".to_owned()));
    assert_eq!((got.attributes["height"].as_str(), got.attributes["kind"].as_str()), ("7", "block"));
    assert!(got.publish_time.is_some());
    assert_eq!(handler.delivery_attempt(), None);
    handler.ack();
    assert!(is_quiet(&mut stream, QUIET).await);
}

pub(crate) async fn a_nack_and_a_dropped_handler_bring_the_message_again(endpoint: &str) {
    let place = Place::new(endpoint).await;
    place.publish([text("a")]).await;
    let mut stream = place.stream().await;
    let (first, handler) = next(&mut stream).await;
    handler.nack();
    let (second, handler) = next(&mut stream).await;
    drop(handler);
    let (third, handler) = next(&mut stream).await;
    handler.ack();
    assert_eq!(first.message_id, second.message_id);
    assert_eq!(first.message_id, third.message_id);
    assert!(is_quiet(&mut stream, QUIET).await);
}

pub(crate) async fn a_lease_that_is_not_extended_ends(endpoint: &str) {
    let place = Place::new(endpoint).await;
    place.publish([text("a")]).await;
    let subscriber = place.subscriber().await;
    let subscribed = subscriber.subscribe(&place.subscription).set_max_lease(Duration::from_secs(1));
    let mut stream = subscribed.set_max_lease_extension(Duration::from_secs(10)).build();
    let (_, held) = next(&mut stream).await;
    let start = Instant::now();
    let (_, handler) = next(&mut stream).await;
    assert!(start.elapsed() >= Duration::from_secs(8), "after {:?}", start.elapsed());
    handler.ack();
    drop(held);
}

pub(crate) async fn an_extended_lease_outlives_its_deadline(endpoint: &str) {
    let place = Place::new(endpoint).await;
    place.publish([text("a")]).await;
    let subscriber = place.subscriber().await;
    let mut stream = subscriber.subscribe(&place.subscription).set_max_lease_extension(Duration::from_secs(10)).build();
    let (_, handler) = next(&mut stream).await;
    assert!(is_quiet(&mut stream, Duration::from_secs(14)).await, "not while the library extends it");
    handler.ack();
    assert!(is_quiet(&mut stream, QUIET).await);
}

pub(crate) async fn the_fifth_nack_makes_a_dead_letter(endpoint: &str) {
    let dead = Place::new(endpoint).await;
    let policy = DeadLetterPolicy::new().set_dead_letter_topic(&dead.topic).set_max_delivery_attempts(5);
    let place = Place::with(endpoint, Subscription::new().set_dead_letter_policy(policy)).await;
    let stored = place.admin().await.get_subscription().set_subscription(&place.subscription).send().await.unwrap();
    assert_eq!(stored.dead_letter_policy.unwrap().max_delivery_attempts, 5);
    place.publish([text("poison").set_attributes([("height", "7")])]).await;
    let mut stream = place.stream().await;
    for attempt in 1..=5 {
        let (_, handler) = next(&mut stream).await;
        assert_eq!(handler.delivery_attempt(), Some(attempt));
        handler.nack();
    }
    let (letter, handler) = next(&mut dead.stream().await).await;
    handler.ack();
    assert_eq!(text_of(&letter), "poison");
    assert_eq!(letter.attributes["height"], "7");
    assert_eq!(letter.attributes["CloudPubSubDeadLetterSourceDeliveryCount"], "5");
    let name = place.subscription.rsplit('/').next().unwrap();
    assert_eq!(letter.attributes["CloudPubSubDeadLetterSourceSubscription"], name);
    assert!(is_quiet(&mut stream, QUIET).await);
}

pub(crate) async fn a_retry_policy_doubles_the_pause(endpoint: &str) {
    let policy = RetryPolicy::new().set_minimum_backoff(ProtocolDuration::clamp(1, 0));
    let policy = policy.set_maximum_backoff(ProtocolDuration::clamp(3, 0));
    let place = Place::with(endpoint, Subscription::new().set_retry_policy(policy)).await;
    place.publish([text("a")]).await;
    let mut stream = place.stream().await;
    let (_, mut handler) = next(&mut stream).await;
    for pause in [1, 2, 3] {
        let start = Instant::now();
        handler.nack();
        (_, handler) = next(&mut stream).await;
        assert!(start.elapsed() >= Duration::from_secs(pause), "{:?} instead of {pause} s", start.elapsed());
    }
    handler.ack();
}

pub(crate) async fn a_key_keeps_its_order(endpoint: &str) {
    let place = Place::with(endpoint, Subscription::new().set_enable_message_ordering(true)).await;
    let messages = (0..60).map(|number| text(&number.to_string()).set_ordering_key(format!("key-{}", number % 3)));
    place.publish(messages).await;
    let mut stream = place.stream().await;
    let mut seen: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for _ in 0..60 {
        let (message, handler) = next(&mut stream).await;
        seen.entry(message.ordering_key.clone()).or_default().push(text_of(&message).parse().unwrap());
        handler.ack();
    }
    for (key, numbers) in &seen {
        assert!(numbers.is_sorted() && numbers.len() == 20, "{key}: {numbers:?}");
    }
}

pub(crate) async fn after_a_nack_a_key_goes_on_from_there(endpoint: &str) {
    let place = Place::with(endpoint, Subscription::new().set_enable_message_ordering(true)).await;
    place.publish((0..8).map(|number| text(&number.to_string()).set_ordering_key("key"))).await;
    let mut stream = place.stream().await;
    // The later ones are given back too: their acks would overtake the nack, which the library sends some time later.
    let mut kept = Vec::new();
    for number in 0..8 {
        let (message, handler) = next(&mut stream).await;
        assert_eq!(text_of(&message), number.to_string());
        if number < 3 { handler.ack() } else { kept.push(handler) }
    }
    kept.into_iter().for_each(Handler::nack);
    for number in 3..8 {
        let (message, handler) = next(&mut stream).await;
        assert_eq!(text_of(&message), number.to_string());
        handler.ack();
    }
}

pub(crate) async fn exactly_once_is_flagged_and_confirmed(endpoint: &str) {
    let place = Place::with(endpoint, Subscription::new().set_enable_exactly_once_delivery(true)).await;
    place.publish([text("a")]).await;
    let mut stream = place.stream().await;
    let (_, handler) = next(&mut stream).await;
    let Handler::ExactlyOnce(handler) = handler else { panic!("the server does not say exactly-once") };
    timeout(LONG, handler.confirmed_ack()).await.unwrap().unwrap();
    assert!(is_quiet(&mut stream, QUIET).await);
}

pub(crate) async fn flow_control_is_obeyed(endpoint: &str) {
    let place = Place::new(endpoint).await;
    place.publish((0..6).map(|_| Message::new().set_data(vec![1_u8; 1_000_000]))).await;
    let subscriber = place.subscriber().await;
    let mut stream = subscriber.subscribe(&place.subscription).set_max_outstanding_messages(4).build();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(next(&mut stream).await);
    }
    assert!(is_quiet(&mut stream, QUIET).await);
    held.pop().unwrap().1.ack();
    held.push(next(&mut stream).await);
    assert!(is_quiet(&mut stream, QUIET).await);
}

pub(crate) async fn a_dropped_stream_leaves_messages_to_the_next(endpoint: &str) {
    let place = Place::new(endpoint).await;
    for _ in 0..3 {
        let mut idle = place.stream().await;
        assert!(is_quiet(&mut idle, QUIET).await);
    }
    let mut stream = place.stream().await;
    assert!(is_quiet(&mut stream, QUIET).await);
    let start = Instant::now();
    place.publish((0..20).map(|number| text(&number.to_string()))).await;
    for _ in 0..20 {
        next(&mut stream).await.1.ack();
    }
    assert!(start.elapsed() < Duration::from_secs(10), "none waited for a lease to end: {:?}", start.elapsed());
}

pub(crate) async fn a_subscriber_that_shuts_down_gives_back(endpoint: &str) {
    let place = Place::new(endpoint).await;
    place.publish([text("a")]).await;
    let subscriber = place.subscriber().await;
    let subscribed = subscriber.subscribe(&place.subscription).set_shutdown_behavior(ShutdownBehavior::NackImmediately);
    let mut first = subscribed.build();
    let (_, held) = next(&mut first).await;
    let stop = first.shutdown_token();
    // The stream closes at once only while its reader waits.
    let reader = tokio::spawn(async move { first.next().await.is_none() });
    assert!(!reader.is_finished());
    tokio::time::sleep(QUIET).await;
    timeout(LONG, stop.shutdown()).await.unwrap();
    assert!(timeout(LONG, reader).await.unwrap().unwrap());
    let start = Instant::now();
    let (_, handler) = next(&mut place.stream().await).await;
    handler.ack();
    assert!(start.elapsed() < Duration::from_secs(9), "sooner than any lease ends: {:?}", start.elapsed());
    drop(held);
}

pub(crate) async fn large_messages_pass(endpoint: &str) {
    let place = Place::new(endpoint).await;
    let mut stream = place.stream().await;
    for size in [4 * 1024 * 1024 + 1, 9_900_000] {
        place.publish([Message::new().set_data(vec![7_u8; size])]).await;
        let (got, handler) = next(&mut stream).await;
        handler.ack();
        assert_eq!(got.data.len(), size);
    }
}

pub(crate) async fn a_message_over_the_limit_is_refused_at_once(endpoint: &str) {
    let place = Place::new(endpoint).await;
    let publisher = place.publisher().await;
    for size in [10_000_001_usize, 10_485_760, 20_000_000] {
        let published = publisher.publish(Message::new().set_data(vec![7_u8; size]));
        let refused = timeout(LONG, published).await.expect("an answer in time").unwrap_err();
        assert!(format!("{refused:?}").contains("InvalidArgument"), "{refused:?}");
    }
}
