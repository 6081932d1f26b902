//! Every fault does what it says, and is counted when it fires.
//!
//! Never: a fault that is armed and not asserted.

use crate::{
    LONG,
    raw::{Raw, SUBSCRIPTION, first, message, text},
};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::StreamingPullRequest;
use pubsub_emulator::{Code, Method};
use tokio::{net::TcpStream, time::timeout};

#[tokio::test]
async fn calls_fail_as_often_as_told() {
    let mut raw = Raw::new().await;
    raw.emulator.fail_next(Method::Publish, Code::Unavailable, 2);
    raw.emulator.fail_next(Method::StreamingPull, Code::Internal, 1);
    for _ in 0..2 {
        assert_eq!(raw.publish(vec![message("a")]).await.unwrap_err().code(), Code::Unavailable);
    }
    raw.publish(vec![message("a")]).await.unwrap();
    assert_eq!(raw.pull(first()).await.err().unwrap().code(), Code::Internal);
    raw.pull(first()).await.unwrap();
    let counts = raw.emulator.counts();
    assert_eq!((counts.failed(Method::Publish), counts.failed(Method::StreamingPull)), (2, 1));
}

#[tokio::test]
async fn a_reset_ends_the_streams_that_are_open() {
    let mut raw = Raw::new().await;
    let (mut one, mut two) = (raw.pull(first()).await.unwrap(), raw.pull(first()).await.unwrap());
    raw.emulator.reset_streams();
    assert_eq!(one.next().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(two.next().await.unwrap_err().code(), Code::Unavailable);
    let mut three = raw.pull(first()).await.unwrap();
    raw.publish_texts(["a"]).await;
    three.next().await.unwrap();
    assert_eq!(raw.emulator.counts().streams_reset, 2);
}

#[tokio::test]
async fn held_streams_are_silent_until_they_are_let_go() {
    let mut raw = Raw::new().await;
    let mut stream = raw.pull(first()).await.unwrap();
    raw.emulator.hold_streams(true);
    raw.publish_texts(["a"]).await;
    assert!(stream.is_quiet().await);
    assert!(raw.pull(first()).await.unwrap().is_quiet().await);
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((1, 0)));
    assert!(raw.emulator.counts().streams_held > 0);
    raw.emulator.hold_streams(false);
    stream.next().await.unwrap();
}

#[tokio::test]
async fn a_silenced_stream_stays_silent_while_a_new_one_works() {
    let mut raw = Raw::new().await;
    let mut silent = raw.pull(first()).await.unwrap();
    raw.emulator.silence_streams();
    raw.publish_texts(["a"]).await;
    assert!(silent.is_quiet().await);
    raw.pull(first()).await.unwrap().next().await.unwrap();
    raw.emulator.reset_streams();
    assert!(silent.is_quiet().await, "not even an end reaches it");
    assert_eq!(raw.emulator.counts().streams_silenced, 1);
}

#[tokio::test]
async fn a_duplicate_is_the_same_message_under_another_ack_id() {
    let mut raw = Raw::new().await;
    raw.emulator.duplicate_next(2);
    raw.publish_texts(["a", "b", "c"]).await;
    let mut stream = raw.pull(first()).await.unwrap();
    let mut got = Vec::new();
    for _ in 0..5 {
        got.push(stream.next().await.unwrap());
    }
    let texts: Vec<_> = got.iter().map(text).collect();
    assert_eq!(texts, ["a", "a", "b", "b", "c"]);
    assert_ne!(got[0].ack_id, got[1].ack_id);
    assert_eq!(got[0].message, got[1].message);
    assert_eq!(raw.emulator.counts().duplicated, 2);
    raw.modify(&[&got[2].ack_id], 0).await.unwrap();
    assert!(stream.is_quiet().await, "the other lease of b stands");
    raw.ack(&[&got[0].ack_id, &got[3].ack_id, &got[4].ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 0)));
}

async fn shuffled(seed: u64) -> (Vec<String>, u64) {
    let mut raw = Raw::new().await;
    raw.emulator.shuffle(Some(seed));
    let mut stream = raw.pull(first()).await.unwrap();
    for text in 0..48 {
        raw.publish_texts([text]).await;
    }
    (stream.texts(48).await, raw.emulator.counts().reordered)
}

#[tokio::test]
async fn a_shuffle_loses_nothing_and_reorders_even_what_is_taken_at_once() {
    let (texts, reordered) = shuffled(7).await;
    let mut sorted: Vec<u64> = texts.iter().map(|text| text.parse().unwrap()).collect();
    assert!(reordered > 0 && !sorted.is_sorted());
    sorted.sort_unstable();
    assert_eq!(sorted, (0..48).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_seed_gives_one_order() {
    let mut orders = Vec::new();
    for seed in [1, 1, 2] {
        let mut raw = Raw::new().await;
        raw.emulator.shuffle(Some(seed));
        raw.publish_texts(0..64).await;
        orders.push(raw.pull(first()).await.unwrap().texts(64).await);
    }
    assert_eq!(orders[0], orders[1]);
    assert_ne!(orders[0], orders[2]);
}

#[tokio::test]
async fn stalled_acks_are_answered_and_forgotten() {
    let mut raw = Raw::new().await;
    raw.publish_texts(["a"]).await;
    let mut stream = raw.pull(first()).await.unwrap();
    raw.emulator.stall_acks(true);
    let got = stream.next().await.unwrap();
    raw.ack(&[&got.ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 1)));
    assert_eq!(raw.emulator.counts().acks_forgotten, 1);
    raw.emulator.stall_acks(false);
    raw.ack(&[&got.ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 0)));
}

#[tokio::test]
async fn a_corrupted_delivery_leaves_the_message_right() {
    let mut raw = Raw::new().await;
    raw.emulator.corrupt_next(1);
    raw.publish(vec![message(vec![0; 9])]).await.unwrap();
    let mut stream = raw.pull(first()).await.unwrap();
    let wrong = stream.next().await.unwrap();
    assert_eq!(wrong.message.unwrap().data[..], [0x55, 0, 0, 0, 0x55, 0, 0, 0, 0x55]);
    raw.modify(&[&wrong.ack_id], 0).await.unwrap();
    assert_eq!(stream.next().await.unwrap().message.unwrap().data[..], [0; 9]);
    assert_eq!(raw.emulator.counts().corrupted, 1);
}

#[tokio::test]
async fn what_is_shared_outlives_a_kill() {
    let mut raw = Raw::new().await;
    let before = raw.publish_texts(["a", "b"]).await;
    let mut stream = raw.pull(StreamingPullRequest { max_outstanding_messages: 1, ..first() }).await.unwrap();
    let leased = stream.next().await.unwrap();
    raw.emulator.kill().unwrap();
    assert!(stream.next().await.is_err());
    assert!(TcpStream::connect(raw.emulator.address()).await.is_err(), "the address refuses");
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((1, 1)));
    raw.emulator.restart().unwrap();
    let mut stream = raw.pull(first()).await.unwrap();
    assert_eq!(text(&stream.next().await.unwrap()), "b");
    raw.ack(&[&leased.ack_id]).await.unwrap();
    assert_eq!(raw.emulator.backlog(SUBSCRIPTION), Some((0, 1)), "a lease from before can be acknowledged");
    let after = raw.publish_texts(["c"]).await;
    assert!(!before.contains(&after[0]));
    let counts = raw.emulator.counts();
    assert_eq!((counts.kills, counts.restarts), (1, 1));
}

#[tokio::test]
async fn another_process_arms_faults_and_reads_counts() {
    let mut raw = Raw::new().await;
    let armed = [
        ("fail_next", r#"{"method":"Publish","code":"UNAVAILABLE","times":1}"#),
        ("duplicate_next", r#"{"times":1}"#),
        ("corrupt_next", r#"{"times":1}"#),
        ("shuffle", r#"{"seed":1}"#),
        ("shuffle", r#"{"seed":null}"#),
        ("hold_streams", r#"{"on":true}"#),
        ("hold_streams", r#"{"on":false}"#),
        ("stall_acks", r#"{"on":true}"#),
        ("reset_streams", ""),
        ("silence_streams", "{}"),
    ];
    for (fault, body) in armed {
        assert_eq!(raw.http("POST", &format!("/fault/{fault}"), body).await, (200, "{}".to_owned()), "{fault}");
    }
    assert!(raw.publish(vec![message("a")]).await.is_err());
    raw.publish(vec![message("a")]).await.unwrap();
    let mut stream = raw.pull(first()).await.unwrap();
    let got = (stream.next().await.unwrap(), stream.next().await.unwrap());
    raw.ack(&[&got.0.ack_id]).await.unwrap();
    let (_, counts) = raw.http("GET", "/faults", "").await;
    for fired in [r#""failed.Publish":1"#, r#""duplicated":1"#, r#""corrupted":1"#, r#""acks_forgotten":1"#] {
        assert!(counts.contains(fired), "{counts}");
    }
    let (_, backlog) = raw.http("GET", "/backlog", "").await;
    assert!(backlog.contains(r#""leased":1"#) && backlog.contains(r#""published":1"#), "{backlog}");
    let wrong =
        [("x", "{}", 404), ("fail_next", "{}", 400), ("shuffle", "[]", 400), ("outage", r#"{"for_ms":1e9}"#, 400)];
    for (fault, body, status) in wrong {
        assert_eq!(raw.http("POST", &format!("/fault/{fault}"), body).await.0, status, "{fault}");
    }
}

#[tokio::test]
async fn an_outage_ends_by_itself() {
    let mut raw = Raw::new().await;
    let mut stream = raw.pull(first()).await.unwrap();
    assert_eq!(raw.http("POST", "/fault/outage", r#"{"for_ms":300}"#).await.0, 200);
    assert!(stream.next().await.is_err());
    let back = async {
        while raw.publish(vec![message("a")]).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, back).await.unwrap();
    assert_eq!(raw.emulator.counts().kills, 1);
    assert_eq!(raw.emulator.counts().restarts, 1);
}
