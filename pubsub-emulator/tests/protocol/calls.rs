//! What each call answers, and what a stream brings.
//!
//! Never: a fault; those are in `faults`.

use crate::{
    LONG,
    raw::{Raw, SUBSCRIPTION, TOPIC, first, message, text},
};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    DeadLetterPolicy, DeleteSubscriptionRequest, DeleteTopicRequest, GetSubscriptionRequest, ListTopicsRequest,
    PubsubMessage, PullRequest, RetryPolicy, StreamingPullRequest, Subscription, Topic,
};
use pubsub_emulator::{Code, Deliveries, Emulator, Options};
use std::{collections::BTreeSet, time::Instant};
use tokio::time::timeout;

#[tokio::test]
async fn a_message_comes_once_and_is_freed_by_its_ack() {
    let mut raw = Raw::new().await;
    let ids = raw.publish_texts(["a"]).await;
    let mut stream = raw.pull(first()).await.unwrap();
    let got = stream.next().await.unwrap();
    let message = got.message.as_ref().unwrap();
    assert_eq!((message.message_id.as_str(), text(&got)), (ids[0].as_str(), "a".to_owned()));
    assert!(message.publish_time.is_some());
    assert_eq!(got.delivery_attempt, 0, "without dead letters no attempt is told");
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 1)));
    assert!(raw.emulator.held_bytes() > 0);
    raw.ack(&[&got.ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 0)));
    assert_eq!(raw.emulator.held_bytes(), 0);
    assert!(stream.is_quiet().await);
    assert_eq!(raw.emulator.published(TOPIC), Some(1));
    let done = Deliveries { delivered: 1, acknowledged: 1, ..Deliveries::default() };
    assert_eq!(raw.emulator.deliveries(SUBSCRIPTION), Some(done));
}

#[tokio::test]
async fn acks_nacks_and_deadlines_go_over_the_stream_too() {
    let mut raw = Raw::new().await;
    raw.publish_texts(["a", "b"]).await;
    let mut stream = raw.pull(first()).await.unwrap();
    let (a, b) = (stream.next().await.unwrap(), stream.next().await.unwrap());
    let request = StreamingPullRequest {
        ack_ids: vec![a.ack_id],
        modify_deadline_ack_ids: vec![b.ack_id],
        modify_deadline_seconds: vec![0],
        ..StreamingPullRequest::default()
    };
    stream.requests.send(request).await.unwrap();
    let again = stream.next().await.unwrap();
    assert_eq!(text(&again), "b");
    raw.ack(&[&again.ack_id]).await.unwrap();
    timeout(LONG, raw.emulator.drained(SUBSCRIPTION)).await.unwrap();
}

#[tokio::test]
async fn a_lease_ends_by_its_deadline_unless_it_is_moved() {
    let mut raw = Raw::new().await;
    raw.publish_texts(["kept", "lost"]).await;
    let mut stream = raw.pull(first()).await.unwrap();
    let (kept, lost) = (stream.next().await.unwrap(), stream.next().await.unwrap());
    let start = Instant::now();
    raw.modify(&[&kept.ack_id], 60).await.unwrap();
    let again = stream.next().await.unwrap();
    assert!(start.elapsed().as_millis() >= 9_500, "after {:?}", start.elapsed());
    assert_eq!(text(&again), "lost");
    assert_ne!(again.ack_id, lost.ack_id);
    raw.ack(&[&lost.ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 2)), "the ack of a lease that ended does nothing");
    raw.ack(&[&again.ack_id, &kept.ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 0)));
}

#[tokio::test]
async fn a_stream_never_has_more_out_than_it_asked_for() {
    let mut raw = Raw::new().await;
    raw.publish(vec![message(vec![1; 1_000_000]); 9]).await.unwrap();
    let mut four = raw.pull(StreamingPullRequest { max_outstanding_messages: 4, ..first() }).await.unwrap();
    let mut got = Vec::new();
    for _ in 0..4 {
        got.push(four.next().await.unwrap());
    }
    assert!(four.is_quiet().await);
    raw.ack(&[&got[0].ack_id]).await.unwrap();
    four.next().await.unwrap();
    assert!(four.is_quiet().await);
    let mut bytes = raw.pull(StreamingPullRequest { max_outstanding_bytes: 3_500_000, ..first() }).await.unwrap();
    for _ in 0..3 {
        bytes.next().await.unwrap();
    }
    assert!(bytes.is_quiet().await);
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((1, 7)));
}

#[tokio::test]
async fn a_message_greater_than_the_streams_bytes_comes_alone() {
    let mut raw = Raw::new().await;
    raw.publish(vec![message(vec![1; 2_000]), message(vec![1; 2_000])]).await.unwrap();
    let mut stream = raw.pull(StreamingPullRequest { max_outstanding_bytes: 100, ..first() }).await.unwrap();
    let got = stream.next().await.unwrap();
    assert!(stream.is_quiet().await);
    raw.ack(&[&got.ack_id]).await.unwrap();
    stream.next().await.unwrap();
}

#[tokio::test]
async fn sizes_are_the_services_own() {
    let mut raw = Raw::new().await;
    let mut stream = raw.pull(first()).await.unwrap();
    for size in [4 * 1024 * 1024 + 1, 9_900_000, 10_000_000] {
        raw.publish(vec![message(vec![7; size])]).await.unwrap();
        assert_eq!(stream.next().await.unwrap().message.unwrap().data.len(), size);
    }
    for size in [10_000_001, 20_000_000] {
        assert_eq!(raw.publish(vec![message(vec![7; size])]).await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(raw.publish(vec![PubsubMessage::default()]).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(raw.publish(vec![]).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_full_backlog_refuses_until_something_is_acknowledged() {
    let address = ([127, 0, 0, 1], 0).into();
    let options = Options { backlog_bytes_max: 2_500_000, ..Options::new(address) };
    let mut raw = Raw::with(Emulator::start_with(options).unwrap(), |_| {}).await;
    for _ in 0..3 {
        raw.publish(vec![message(vec![1; 1_000_000])]).await.unwrap();
    }
    let refused = raw.publish(vec![message("small")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let mut stream = raw.pull(first()).await.unwrap();
    let got = stream.next().await.unwrap();
    raw.ack(&[&got.ack_id]).await.unwrap();
    raw.publish(vec![message("small")]).await.unwrap();
}

#[tokio::test]
async fn an_empty_request_is_a_sign_of_life_and_a_fixed_field_is_refused() {
    let mut raw = Raw::new().await;
    let mut stream = raw.pull(first()).await.unwrap();
    stream.requests.send(StreamingPullRequest::default()).await.unwrap();
    assert!(stream.is_quiet().await);
    raw.publish_texts(["a"]).await;
    stream.next().await.unwrap();
    let changed = StreamingPullRequest { max_outstanding_messages: 5, ..StreamingPullRequest::default() };
    stream.requests.send(changed).await.unwrap();
    assert_eq!(stream.next().await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn what_is_not_there_or_out_of_range_is_refused() {
    let mut raw = Raw::new().await;
    let unknown = StreamingPullRequest { subscription: "projects/p/subscriptions/x".into(), ..first() };
    assert_eq!(raw.pull(unknown).await.err().unwrap().code(), Code::NotFound);
    let short = StreamingPullRequest { stream_ack_deadline_seconds: 9, ..first() };
    assert_eq!(raw.pull(short).await.err().unwrap().code(), Code::InvalidArgument);
    assert_eq!(raw.modify(&["x"], 601).await.unwrap_err().code(), Code::InvalidArgument);
    raw.modify(&["not an ack id"], 10).await.unwrap();
    let topic = Topic { name: TOPIC.into(), ..Topic::default() };
    assert_eq!(raw.publisher.create_topic(topic).await.unwrap_err().code(), Code::AlreadyExists);
    let topic = Topic { name: "batches".into(), ..Topic::default() };
    assert_eq!(raw.publisher.create_topic(topic).await.unwrap_err().code(), Code::InvalidArgument);
    let orphan = Subscription {
        name: "projects/p/subscriptions/orphan".into(),
        topic: "projects/p/topics/none".into(),
        ..Subscription::default()
    };
    assert_eq!(raw.subscriber.create_subscription(orphan).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn deleting_ends_streams_and_parts_topics_from_subscriptions() {
    let mut raw = Raw::new().await;
    let mut stream = raw.pull(first()).await.unwrap();
    raw.publisher.delete_topic(DeleteTopicRequest { topic: TOPIC.into() }).await.unwrap();
    assert_eq!(raw.publish(vec![message("a")]).await.unwrap_err().code(), Code::NotFound);
    let request = GetSubscriptionRequest { subscription: SUBSCRIPTION.into() };
    let left = raw.subscriber.get_subscription(request).await.unwrap().into_inner();
    assert_eq!(left.topic, "_deleted-topic_");
    assert!(stream.is_quiet().await);
    let request = DeleteSubscriptionRequest { subscription: SUBSCRIPTION.into() };
    raw.subscriber.delete_subscription(request).await.unwrap();
    assert_eq!(stream.next().await.unwrap_err().code(), Code::NotFound);
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), None);
}

#[tokio::test]
async fn a_single_pull_waits_for_a_message() {
    let mut raw = Raw::new().await;
    let request = PullRequest { subscription: SUBSCRIPTION.into(), max_messages: 10, ..PullRequest::default() };
    let mut subscriber = raw.subscriber.clone();
    let pulled = tokio::spawn(async move { subscriber.pull(request).await });
    raw.publish_texts(["a"]).await;
    let answer = timeout(LONG, pulled).await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(answer.received_messages.len(), 1);
    raw.ack(&[&answer.received_messages[0].ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 0)));
}

#[tokio::test]
async fn dead_letters_are_marked_and_need_no_open_stream() {
    const DEAD: &str = "projects/p/topics/dead";
    let emulator = Emulator::start(([127, 0, 0, 1], 0).into()).unwrap();
    let mut raw = Raw::with(emulator, |_| {}).await;
    raw.publisher.create_topic(Topic { name: DEAD.into(), ..Topic::default() }).await.unwrap();
    let name = "projects/p/subscriptions/strict".to_owned();
    let policy = DeadLetterPolicy { dead_letter_topic: DEAD.into(), max_delivery_attempts: 5 };
    let strict = Subscription {
        name: name.clone(),
        topic: TOPIC.into(),
        dead_letter_policy: Some(policy),
        ..Subscription::default()
    };
    raw.subscriber.create_subscription(strict).await.unwrap();
    let dead = "projects/p/subscriptions/dead";
    let subscription = Subscription { name: dead.into(), topic: DEAD.into(), ..Subscription::default() };
    raw.subscriber.create_subscription(subscription).await.unwrap();
    raw.publish_texts(["poison"]).await;
    let mut stream = raw.pull(StreamingPullRequest { subscription: name.clone(), ..first() }).await.unwrap();
    for attempt in 1..=5 {
        let got = stream.next().await.unwrap();
        assert_eq!(got.delivery_attempt, attempt);
        let nack = StreamingPullRequest {
            modify_deadline_ack_ids: vec![got.ack_id],
            modify_deadline_seconds: vec![0],
            ..StreamingPullRequest::default()
        };
        stream.requests.send(nack).await.unwrap();
    }
    let mut letters = raw.pull(StreamingPullRequest { subscription: dead.into(), ..first() }).await.unwrap();
    let letter = letters.next().await.unwrap();
    let marks = letter.message.as_ref().unwrap().attributes.clone();
    assert_eq!(text(&letter), "poison");
    assert_eq!(marks["CloudPubSubDeadLetterSourceDeliveryCount"], "5");
    assert_eq!(marks["CloudPubSubDeadLetterSourceSubscription"], "strict");
    assert_eq!(marks["CloudPubSubDeadLetterSourceSubscriptionProject"], "p");
    assert!(marks["CloudPubSubDeadLetterSourceTopicPublishTime"].ends_with('Z'));
    assert_eq!(raw.emulator.backlog(&name), Some((0, 0)));
    assert_eq!(raw.emulator.deliveries(&name).unwrap().dead_lettered, 1);
}

#[tokio::test]
async fn stale_acks_of_an_exactly_once_subscription_are_errors_by_id() {
    let emulator = Emulator::start(([127, 0, 0, 1], 0).into()).unwrap();
    let mut raw = Raw::with(emulator, |config| config.enable_exactly_once_delivery = true).await;
    raw.publish_texts(["a", "b"]).await;
    let mut stream = raw.pull(first()).await.unwrap();
    let (a, b) = (stream.next().await.unwrap(), stream.next().await.unwrap());
    raw.ack(&[&a.ack_id]).await.unwrap();
    let refused = raw.ack(&[&a.ack_id, &b.ack_id]).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let details = String::from_utf8_lossy(refused.details()).into_owned();
    assert!(details.contains(&a.ack_id) && details.contains("PERMANENT_FAILURE_INVALID_ACK_ID"), "{details}");
    assert!(!details.contains(&b.ack_id), "the good one is not named");
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 0)));
}

#[tokio::test]
async fn ids_do_not_repeat_in_a_later_emulator() {
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let mut raw = Raw::new().await;
        for id in raw.publish_texts(0..100).await {
            assert!(seen.insert(id));
        }
    }
}

#[tokio::test]
async fn the_administration_by_rest_is_the_same() {
    let mut raw = Raw::new().await;
    let topic = "/v1/projects/p/topics/other?$alt=json;enum-encoding=int";
    assert_eq!(raw.http("PUT", topic, "{}").await.0, 200);
    let (status, body) = raw.http("PUT", topic, "{}").await;
    assert!(status == 409 && body.contains("ALREADY_EXISTS"), "{body}");
    let path = "/v1/projects/p/subscriptions/other";
    let config =
        r#"{"topic":"projects/p/topics/other","retryPolicy":{"minimumBackoff":"1.5s"},"ackDeadlineSeconds":20}"#;
    assert_eq!(raw.http("PUT", path, config).await.0, 200);
    let (status, body) = raw.http("GET", path, "").await;
    assert!(status == 200 && body.contains(r#""minimumBackoff":"1.500s""#), "{body}");
    let request = GetSubscriptionRequest { subscription: "projects/p/subscriptions/other".into() };
    let known = raw.subscriber.get_subscription(request).await.unwrap().into_inner();
    let minimum = prost_types::Duration { seconds: 1, nanos: 500_000_000 };
    assert_eq!(known.retry_policy, Some(RetryPolicy { minimum_backoff: Some(minimum), maximum_backoff: None }));
    let (_, body) = raw.http("GET", "/v1/projects/p/topics/other/subscriptions", "").await;
    assert!(body.contains("projects/p/subscriptions/other"), "{body}");
    let (_, body) = raw.http("GET", "/v1/projects/p/subscriptions", "").await;
    assert!(body.contains(SUBSCRIPTION) && body.contains("subscriptions/other"), "{body}");
    assert_eq!(raw.http("DELETE", path, "").await.0, 200);
    assert_eq!(raw.http("GET", path, "").await.0, 404);
    assert_eq!(raw.http("PUT", path, "[").await.0, 400);
    assert_eq!(raw.http("POST", "/v1/projects/p/topics/other:publish", "{}").await.0, 501);
    let request = ListTopicsRequest { project: "projects/p".into(), ..ListTopicsRequest::default() };
    assert_eq!(raw.publisher.list_topics(request).await.unwrap().into_inner().topics.len(), 2);
}
