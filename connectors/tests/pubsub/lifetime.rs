//! Leases, stops, outages and silence.
//!
//! Never: a message that is lost.

use crate::bench::{Bench, PATIENCE, SUBSCRIPTION, event, message, messages, numbers, options, topic};
use connectors::pubsub::{
    client::{ENSURE_LIMIT, Ensured, PubSubAddress, SubscriptionOptions},
    pull::{PullError, PullEvent, PullOptions},
};
use std::time::{Duration, Instant};
use tokio::time::timeout;

fn ten_seconds() -> SubscriptionOptions {
    SubscriptionOptions { ack_deadline: Duration::from_secs(10), ..SubscriptionOptions::default() }
}

#[tokio::test]
async fn what_is_there_is_not_made_again() {
    let bench = Bench::without_subscription().await;
    let ensure = || async {
        let subscription = SUBSCRIPTION.parse().unwrap();
        bench.address.ensure(&topic(), &subscription, &SubscriptionOptions::default()).await.unwrap()
    };
    assert_eq!(ensure().await, Ensured { topic_made: false, subscription_made: true });
    assert_eq!(ensure().await, Ensured { topic_made: false, subscription_made: false });
}

/// The client by itself would try for a minute.
#[tokio::test]
async fn a_server_that_is_not_there_is_told_in_time() {
    // Reserved, and nobody listens there.
    let address = PubSubAddress::new(Some("127.0.0.1:1"), None).unwrap();
    let limit = ENSURE_LIMIT + Duration::from_secs(10);
    let (topic, subscription, options) = (topic(), SUBSCRIPTION.parse().unwrap(), SubscriptionOptions::default());
    let asked = address.ensure(&topic, &subscription, &options);
    assert!(timeout(limit, asked).await.expect("no end").is_err());
}

#[tokio::test]
async fn a_message_comes_as_it_was_published() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    let attributes = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "é".to_owned())];
    let id = bench.publishing.message(attributes.clone(), "data".into()).await.unwrap();
    let mut pull = bench.pull(options());
    assert!(matches!(event(&mut pull).await, PullEvent::Up));
    let pulled = message(&mut pull).await;
    assert_eq!(pulled.attributes.into_iter().collect::<Vec<_>>(), attributes);
    assert_eq!((&pulled.data[..], pulled.message_id, pulled.received_ns), (&b"data"[..], id, 7));
    assert!(pulled.published_ns > 1_600_000_000_000_000_000);
    pulled.lease.ack();
    bench.drained().await;
    let counts = pull.meter().read();
    assert_eq!((counts.pulled, counts.pulled_bytes, counts.acked, counts.nacked, counts.held), (1, 4, 1, 0, 0));
    pull.shutdown().await;
    assert_eq!(bench.delivered(), 1);
}

/// Acknowledgements are sent every 100 ms; a stop sends those that wait.
#[tokio::test]
async fn a_stop_sends_the_last_acknowledgements() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    bench.publish(0..200).await;
    let mut pull = bench.pull(PullOptions { messages: 200, ..options() });
    for pulled in messages(&mut pull, 200).await {
        pulled.lease.ack();
    }
    pull.shutdown().await;
    assert_eq!(bench.emulator.backlog(SUBSCRIPTION), Some((0, 0)));
}

#[tokio::test]
async fn nacked_and_dropped_messages_come_again() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    bench.publish(0..2).await;
    let mut pull = bench.pull(options());
    message(&mut pull).await.lease.nack();
    drop(message(&mut pull).await);
    let again = messages(&mut pull, 2).await;
    assert_eq!(numbers(&again), [0, 1]);
    again.into_iter().for_each(|pulled| pulled.lease.ack());
    bench.drained().await;
    assert_eq!(bench.delivered(), 4);
    pull.shutdown().await;
}

/// Processing stalls for 21 s at a deadline of 10 s: leases are extended, in the queue too, and nothing comes twice.
#[tokio::test]
async fn leases_are_extended_while_processing_stalls() {
    let bench = Bench::new(&ten_seconds()).await;
    bench.publish(0..6).await;
    let mut pull = bench.pull(PullOptions { lease_extension: Duration::from_secs(10), ..options() });
    let first = message(&mut pull).await;
    tokio::time::sleep(Duration::from_secs(21)).await;
    let mut all = vec![first];
    all.extend(messages(&mut pull, 5).await);
    assert_eq!(numbers(&all), [0, 1, 2, 3, 4, 5]);
    all.into_iter().for_each(|pulled| pulled.lease.ack());
    bench.drained().await;
    assert_eq!(bench.delivered(), 6);
    pull.shutdown().await;
}

#[tokio::test]
async fn no_more_is_handed_out_than_the_bounds() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    bench.publish(0..12).await;
    let mut pull = bench.pull(PullOptions { messages: 4, ..options() });
    let mut got = messages(&mut pull, 4).await;
    for _ in 4..12 {
        let counts = pull.meter().read();
        assert_eq!(counts.held, 4);
        assert_eq!(bench.emulator.backlog(SUBSCRIPTION).unwrap().1, 4, "leased");
        got.remove(0).lease.ack();
        got.push(message(&mut pull).await);
    }
    got.into_iter().for_each(|pulled| pulled.lease.ack());
    bench.drained().await;
    pull.shutdown().await;

    bench.publish(100..112).await;
    let mut pull = bench.pull(PullOptions { bytes: 9, ..options() });
    let got = messages(&mut pull, 3).await;
    assert_eq!(pull.meter().read().held_bytes, 9);
    assert!(timeout(Duration::from_millis(300), pull.next()).await.is_err(), "three of three bytes are nine");
    drop(got);
    pull.shutdown().await;
}

/// At a deploy the next process has what was prefetched by this one at once, not when the leases end a minute later.
#[tokio::test]
async fn what_was_prefetched_is_with_the_next_at_once() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    bench.publish(0..60).await;
    let mut pull = bench.pull(options());
    let mut got = messages(&mut pull, 10).await;
    timeout(PATIENCE, bench.emulator.until_backlog(SUBSCRIPTION, |_, leased| leased == 60)).await.unwrap();
    let kept = got.split_off(4);
    got.into_iter().for_each(|pulled| pulled.lease.ack());
    let meter = pull.meter();
    let stopping = Instant::now();
    pull.shutdown().await;
    let stopped = stopping.elapsed();
    let mut next = bench.pull(options());
    let again = messages(&mut next, 56).await;
    let gap = stopping.elapsed();
    println!("stopped after {stopped:?}, all with the next after {gap:?}");
    assert!(gap < Duration::from_secs(5), "{gap:?}");
    assert_eq!(bench.delivered(), 60 + 56, "nothing went to the closed stream again");
    kept.into_iter().for_each(|pulled| pulled.lease.ack());
    let counts = meter.read();
    assert_eq!((counts.acked, counts.nacked, counts.late, counts.held), (4, 56, 6, 0));
    again.into_iter().for_each(|pulled| pulled.lease.ack());
    bench.drained().await;
    next.shutdown().await;
}

/// What is in work may still be acknowledged while a stop waits for it.
#[tokio::test]
async fn a_stop_waits_for_what_is_in_work() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    bench.publish(0..3).await;
    let mut pull = bench.pull(PullOptions { drain: PATIENCE, ..options() });
    let got = messages(&mut pull, 3).await;
    let meter = pull.meter();
    let stopping = tokio::spawn(pull.shutdown());
    tokio::time::sleep(Duration::from_millis(200)).await;
    got.into_iter().for_each(|pulled| pulled.lease.ack());
    timeout(PATIENCE, stopping).await.unwrap().unwrap();
    assert_eq!((meter.read().acked, bench.emulator.backlog(SUBSCRIPTION)), (3, Some((0, 0))));
}

/// 5,000 messages under lease at a stop: none is lost, and only what was not acknowledged comes again, once.
#[tokio::test]
async fn thousands_under_lease_at_a_stop() {
    const ALL: u32 = 5_000;
    const DONE: usize = 2_000;
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    bench.publish(0..ALL).await;
    let options = PullOptions { messages: 5_000, ..options() };
    let mut pull = bench.pull(options.clone());
    let mut got = messages(&mut pull, 4_500).await;
    let mut seen = Vec::new();
    let rest = got.split_off(DONE);
    seen.extend(numbers(&got));
    got.into_iter().for_each(|pulled| pulled.lease.ack());
    pull.shutdown().await;
    drop(rest);
    let mut next = bench.pull(options);
    let again = messages(&mut next, 3_000).await;
    seen.extend(numbers(&again));
    again.into_iter().for_each(|pulled| pulled.lease.ack());
    bench.drained().await;
    next.shutdown().await;
    seen.sort_unstable();
    assert_eq!(seen, (0..ALL).collect::<Vec<_>>());
    assert_eq!(bench.delivered(), 8_000);
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    let bench = Bench::new(&ten_seconds()).await;
    let options = PullOptions { silent: Duration::from_secs(2), ..options() };
    let mut pull = bench.pull(options);
    let mut seen = Vec::new();
    for round in 0..3 {
        bench.publish(round * 10..round * 10 + 10).await;
        let got = messages(&mut pull, 10).await;
        seen.extend(numbers(&got));
        got.into_iter().for_each(|pulled| pulled.lease.ack());
        bench.drained().await;
        bench.emulator.kill().unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.emulator.restart().unwrap();
    }
    assert_eq!(seen, (0..30).collect::<Vec<_>>());
    pull.shutdown().await;
}

/// A connection that nobody closes and on which nothing comes: the client would wait on it for ever.
#[tokio::test]
async fn a_silent_stream_is_made_anew() {
    let bench = Bench::new(&ten_seconds()).await;
    let mut pull = bench.pull(PullOptions { silent: Duration::from_secs(2), ..options() });
    bench.publish(0..1).await;
    message(&mut pull).await.lease.ack();
    bench.drained().await;
    bench.emulator.silence_streams();
    bench.publish(1..2).await;
    let down = event(&mut pull).await;
    assert!(matches!(down, PullEvent::Down(PullError::Silent(_))), "{down:?}");
    assert!(matches!(event(&mut pull).await, PullEvent::Up));
    let again = message(&mut pull).await;
    assert_eq!(&again.data[..], b"1");
    again.lease.ack();
    bench.drained().await;
    let counts = pull.meter().read();
    assert!(counts.silent >= 1 && counts.streams >= 2, "{counts:?}");
    pull.shutdown().await;
}

#[tokio::test]
async fn a_subscription_that_is_made_later_is_found() {
    let bench = Bench::without_subscription().await;
    let mut pull = bench.pull(options());
    let down = event(&mut pull).await;
    assert!(matches!(down, PullEvent::Down(PullError::Refused(_))), "{down:?}");
    bench.subscribe(&SubscriptionOptions::default()).await;
    bench.publish(0..1).await;
    message(&mut pull).await.lease.ack();
    bench.drained().await;
    assert!(pull.meter().read().refused >= 1);
    pull.shutdown().await;
}

/// Nobody has to wait for a stop.
#[tokio::test]
async fn what_is_dropped_is_nacked() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    bench.publish(0..5).await;
    let mut pull = bench.pull(options());
    let one = message(&mut pull).await;
    drop(pull);
    let mut next = bench.pull(options());
    let again = messages(&mut next, 5).await;
    drop(one);
    assert_eq!(numbers(&again), [0, 1, 2, 3, 4]);
    again.into_iter().for_each(|pulled| pulled.lease.ack());
    bench.drained().await;
    next.shutdown().await;
}
