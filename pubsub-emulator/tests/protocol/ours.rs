//! The common facts at our emulator, and what the official library does when it fails.
//!
//! Never: a wait longer than the library's own backoff may take.

use crate::{
    LONG, common,
    common::{Place, next},
};
use google_cloud_pubsub::{
    model::{Message, Subscription},
    subscriber::handler::Handler,
};
use pubsub_emulator::{Code, Emulator, Method};
use std::time::Duration;
use tokio::time::timeout;

fn emulator() -> Emulator {
    Emulator::start(([127, 0, 0, 1], 0).into()).unwrap()
}

macro_rules! common {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            common::$name(&emulator().endpoint()).await;
        }
    )*};
}

common!(
    a_message_arrives_as_it_was_published,
    a_nack_and_a_dropped_handler_bring_the_message_again,
    a_lease_that_is_not_extended_ends,
    an_extended_lease_outlives_its_deadline,
    the_fifth_nack_makes_a_dead_letter,
    a_retry_policy_doubles_the_pause,
    a_key_keeps_its_order,
    after_a_nack_a_key_goes_on_from_there,
    exactly_once_is_flagged_and_confirmed,
    flow_control_is_obeyed,
    a_dropped_stream_leaves_messages_to_the_next,
    a_subscriber_that_shuts_down_gives_back,
    large_messages_pass,
    a_message_over_the_limit_is_refused_at_once,
);

#[tokio::test]
async fn a_subscriber_comes_back_after_a_restart() {
    let emulator = emulator();
    let place = Place::new(&emulator.endpoint()).await;
    place.publish([Message::new().set_data("before")]).await;
    let mut stream = place.stream().await;
    next(&mut stream).await.1.ack();
    timeout(LONG, emulator.drained(&place.subscription)).await.unwrap();
    emulator.kill().unwrap();
    emulator.restart().unwrap();
    place.publish([Message::new().set_data("after")]).await;
    let (got, handler) = next(&mut stream).await;
    assert_eq!(got.data, "after");
    handler.ack();
    timeout(LONG, emulator.drained(&place.subscription)).await.unwrap();
}

#[tokio::test]
async fn a_publisher_outlasts_an_outage() {
    let emulator = emulator();
    let place = Place::new(&emulator.endpoint()).await;
    let publisher = place.publisher().await;
    publisher.publish(Message::new().set_data("before")).await.unwrap();
    emulator.kill().unwrap();
    let pending = publisher.publish(Message::new().set_data("during"));
    emulator.restart().unwrap();
    timeout(LONG, pending).await.unwrap().unwrap();
    assert!(emulator.published(&place.topic).unwrap() >= 2);
}

#[tokio::test]
async fn a_subscriber_comes_back_after_a_reset_stream() {
    let emulator = emulator();
    let place = Place::new(&emulator.endpoint()).await;
    let mut stream = place.stream().await;
    place.publish([Message::new().set_data("before")]).await;
    next(&mut stream).await.1.ack();
    emulator.reset_streams();
    place.publish([Message::new().set_data("after")]).await;
    assert_eq!(next(&mut stream).await.0.data, "after");
    assert_eq!(emulator.counts().streams_reset, 1);
}

#[tokio::test]
async fn a_confirmed_ack_is_tried_again() {
    let emulator = emulator();
    let exact = Subscription::new().set_enable_exactly_once_delivery(true);
    let place = Place::with(&emulator.endpoint(), exact).await;
    place.publish([Message::new().set_data("a")]).await;
    let mut stream = place.stream().await;
    let Handler::ExactlyOnce(handler) = next(&mut stream).await.1 else { panic!("not exactly-once") };
    emulator.fail_next(Method::Acknowledge, Code::Unavailable, 1);
    timeout(LONG, handler.confirmed_ack()).await.unwrap().unwrap();
    assert_eq!(emulator.counts().failed(Method::Acknowledge), 1);
    assert_eq!(emulator.backlog(&place.subscription), Some((0, 0)));
}

#[tokio::test]
async fn a_stream_of_nothing_is_a_lasting_error() {
    let emulator = emulator();
    let place = Place::new(&emulator.endpoint()).await;
    let mut stream = place.subscriber().await.subscribe("projects/p/subscriptions/none").build();
    let error = timeout(LONG, stream.next()).await.unwrap().unwrap().unwrap_err();
    assert!(format!("{error:?}").contains("NotFound"), "{error:?}");
    let ended = timeout(Duration::from_secs(10), stream.next()).await.unwrap();
    assert!(ended.is_none());
}
