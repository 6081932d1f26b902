//! The machine under a clock of the tests' own.
//!
//! Never: a wait.

use super::*;
use crate::{terms::Backoff, topic::Held};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::PubsubMessage;

const LEASE: Duration = Duration::from_secs(10);

struct Bench {
    backlog: Backlog,
    held: Held,
    start: Instant,
    now: Instant,
    expired: u64,
}

impl Bench {
    fn new(terms: Terms) -> Self {
        let start = Instant::now();
        Self { backlog: Backlog::new(terms), held: Held::default(), start, now: start, expired: 0 }
    }

    fn publish(&mut self, text: &str, key: &str) {
        let message = PubsubMessage {
            data: text.to_owned().into_bytes().into(),
            ordering_key: key.into(),
            ..PubsubMessage::default()
        };
        self.backlog.publish(Arc::new(Stored::new(message, &self.held)), self.now);
    }

    fn take(&mut self, want: &Want) -> Vec<(String, LeaseId)> {
        self.twisted(want, &mut Twist::default())
    }

    fn twisted(&mut self, want: &Want, twist: &mut Twist) -> Vec<(String, LeaseId)> {
        let taken = self.backlog.take(self.now, want, twist);
        taken.deliveries.into_iter().map(|delivery| (text(&delivery.entry), delivery.lease)).collect()
    }

    /// Moves to so many milliseconds after the start; the dead letters.
    fn at(&mut self, millis: u64) -> Vec<String> {
        self.now = self.start + Duration::from_millis(millis);
        self.backlog.advance(self.now, &mut self.expired).iter().map(text).collect()
    }

    fn nack(&mut self, lease: LeaseId) -> Option<String> {
        self.backlog.give_back(lease, self.now).as_ref().map(text)
    }

    fn due(&self) -> Option<u128> {
        self.backlog.next_due().map(|due| due.duration_since(self.start).as_millis())
    }
}

fn text(entry: &Entry) -> String {
    String::from_utf8(entry.message.message.data.to_vec()).unwrap()
}

fn texts(taken: &[(String, LeaseId)]) -> Vec<&str> {
    taken.iter().map(|(text, _)| text.as_str()).collect()
}

fn want(stream: u64) -> Want {
    Want { stream: Some(stream), lease: LEASE, messages_max: None, bytes_max: None, answer_max: 100 }
}

fn ordered() -> Terms {
    Terms { ordered: true, ..Terms::default() }
}

#[test]
fn a_lease_ends_at_its_deadline_and_not_before() {
    let mut bench = Bench::new(Terms::default());
    bench.publish("a", "");
    let leased = bench.take(&want(0));
    assert_eq!((bench.backlog.counts(), bench.due()), ((0, 1), Some(10_000)));
    bench.at(9_999);
    assert_eq!(bench.backlog.counts(), (0, 1));
    bench.at(10_000);
    assert_eq!((bench.backlog.counts(), bench.expired, bench.due()), ((1, 0), 1, None));
    assert!(!bench.backlog.ack(leased[0].1), "too late");
    let again = bench.take(&want(0));
    assert_ne!(again[0].1, leased[0].1);
    assert!(bench.backlog.ack(again[0].1));
    assert_eq!((bench.backlog.counts(), bench.due(), bench.held.bytes()), ((0, 0), None, 0));
}

#[test]
fn a_deadline_moves_both_ways() {
    let mut bench = Bench::new(Terms::default());
    bench.publish("a", "");
    let lease = bench.take(&want(0))[0].1;
    assert!(bench.backlog.extend(lease, bench.start + 6 * LEASE));
    bench.at(59_999);
    assert_eq!(bench.backlog.counts(), (0, 1));
    assert!(bench.backlog.extend(lease, bench.now));
    bench.at(59_999);
    assert_eq!(bench.backlog.counts(), (1, 0));
    assert!(!bench.backlog.extend(lease, bench.now + LEASE));
    assert_eq!(bench.nack(lease), None);
}

#[test]
fn a_nack_without_a_policy_is_ready_at_once_in_its_old_place() {
    let mut bench = Bench::new(Terms::default());
    bench.publish("a", "");
    bench.publish("b", "");
    let lease = bench.take(&Want { answer_max: 1, ..want(0) })[0].1;
    assert_eq!(bench.nack(lease), None);
    assert_eq!(texts(&bench.take(&want(0))), ["a", "b"]);
}

#[test]
fn backoff_holds_a_message_back_after_nack_and_expiry() {
    let backoff = Backoff { least: Duration::from_secs(1), most: Duration::from_secs(3) };
    let mut bench = Bench::new(Terms { backoff: Some(backoff), ..Terms::default() });
    bench.publish("a", "");
    let lease = bench.take(&want(0))[0].1;
    bench.nack(lease);
    assert_eq!((bench.backlog.counts(), bench.due()), ((1, 0), Some(1_000)));
    bench.at(999);
    assert!(bench.take(&want(0)).is_empty());
    bench.at(1_000);
    assert_eq!(bench.take(&want(0)).len(), 1);
    bench.at(11_000);
    assert_eq!((bench.expired, bench.due()), (1, Some(13_000)));
    bench.at(13_000);
    let lease = bench.take(&want(0))[0].1;
    bench.nack(lease);
    assert_eq!(bench.due(), Some(16_000), "never longer than the most");
}

#[test]
fn the_last_delivery_that_fails_is_a_dead_letter() {
    let mut bench = Bench::new(Terms { attempts_max: Some(3), ..Terms::default() });
    bench.publish("a", "");
    for _ in 0..2 {
        let lease = bench.take(&want(0))[0].1;
        assert_eq!(bench.nack(lease), None);
    }
    assert_eq!(bench.take(&want(0)).len(), 1);
    assert_eq!(bench.at(10_000), ["a"]);
    assert_eq!((bench.backlog.counts(), bench.held.bytes()), ((0, 0), 0));
}

#[test]
fn a_dead_letter_that_is_kept_is_delivered_again() {
    let mut bench = Bench::new(Terms { attempts_max: Some(1), ..Terms::default() });
    bench.publish("a", "");
    bench.publish("b", "");
    let lease = bench.take(&Want { answer_max: 1, ..want(0) })[0].1;
    let dead = bench.backlog.give_back(lease, bench.now).unwrap();
    bench.backlog.keep(dead, bench.now);
    assert_eq!(texts(&bench.take(&want(0))), ["b", "a"]);
}

#[test]
fn flow_control_is_per_stream_and_follows_every_end_of_a_lease() {
    let mut bench = Bench::new(Terms::default());
    (0..9).for_each(|number| bench.publish(&number.to_string(), ""));
    bench.backlog.open_stream(0);
    bench.backlog.open_stream(1);
    let two = Want { messages_max: Some(2), ..want(0) };
    let first = bench.take(&two);
    assert_eq!(texts(&first), ["0", "1"]);
    assert!(bench.take(&two).is_empty());
    assert_eq!(bench.take(&Want { messages_max: Some(2), ..want(1) }).len(), 2, "another stream has its own");
    bench.backlog.ack(first[0].1);
    assert_eq!(texts(&bench.take(&two)), ["4"]);
    bench.nack(first[1].1);
    assert_eq!(texts(&bench.take(&two)), ["1"]);
    bench.at(10_000);
    assert_eq!(bench.take(&two).len(), 2);
    bench.backlog.close_stream(0);
    bench.backlog.open_stream(0);
    assert_eq!(bench.take(&two).len(), 2, "a stream of the same number begins with nothing");
}

#[test]
fn bytes_bound_a_stream_and_an_answer() {
    let mut bench = Bench::new(Terms::default());
    bench.backlog.open_stream(0);
    (0..4).for_each(|_| bench.publish(&"x".repeat(1_000), ""));
    assert_eq!(bench.take(&Want { bytes_max: Some(2_999), ..want(0) }).len(), 2);
    assert!(bench.take(&Want { bytes_max: Some(2_999), ..want(0) }).is_empty());
    let mut bench = Bench::new(Terms::default());
    bench.backlog.open_stream(0);
    (0..4).for_each(|_| bench.publish(&"x".repeat(4_000_000), ""));
    assert_eq!(bench.take(&want(0)).len(), 2, "an answer is no greater than the service's");
    let alone = Want { bytes_max: Some(1), ..want(1) };
    bench.backlog.open_stream(1);
    assert_eq!(bench.take(&alone).len(), 1, "what is greater than all a stream wants comes alone");
    assert!(bench.take(&alone).is_empty());
}

#[test]
fn a_key_stays_with_one_stream_and_in_order() {
    let mut bench = Bench::new(ordered());
    for (text, key) in [("a1", "a"), ("b1", "b"), ("a2", "a"), ("free", "")] {
        bench.publish(text, key);
    }
    bench.backlog.open_stream(0);
    bench.backlog.open_stream(1);
    let first = bench.take(&Want { answer_max: 1, ..want(0) });
    assert_eq!(texts(&first), ["a1"]);
    assert_eq!(texts(&bench.take(&want(1))), ["b1", "free"]);
    assert_eq!(texts(&bench.take(&want(0))), ["a2"]);
    bench.publish("a3", "a");
    bench.backlog.ack(first[0].1);
    assert!(bench.take(&want(1)).is_empty());
    assert_eq!(texts(&bench.take(&want(0))), ["a3"]);
}

#[test]
fn what_is_given_back_takes_the_later_ones_of_its_key_with_it() {
    let mut bench = Bench::new(ordered());
    for (text, key) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")] {
        bench.publish(text, key);
    }
    let taken = bench.take(&want(0));
    bench.nack(taken[1].1);
    assert_eq!(bench.backlog.counts(), (2, 2));
    assert!(!bench.backlog.ack(taken[3].1), "a3 was taken back");
    assert_eq!(texts(&bench.take(&want(0))), ["a2", "a3"]);
}

#[test]
fn a_key_waits_for_the_backoff_of_its_first() {
    let backoff = Backoff { least: Duration::from_secs(1), most: Duration::from_secs(1) };
    let mut bench = Bench::new(Terms { ordered: true, backoff: Some(backoff), ..Terms::default() });
    for (text, key) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        bench.publish(text, key);
    }
    let lease = bench.take(&Want { answer_max: 1, ..want(0) })[0].1;
    bench.nack(lease);
    assert_eq!(texts(&bench.take(&want(0))), ["b1"]);
    bench.at(1_000);
    assert_eq!(texts(&bench.take(&want(0))), ["a1", "a2"]);
}

#[test]
fn a_duplicate_is_a_second_lease_of_one_message() {
    let mut bench = Bench::new(Terms::default());
    bench.publish("a", "");
    bench.publish("b", "");
    let mut twist = Twist { duplicates: 2, ..Twist::default() };
    let taken = bench.twisted(&want(0), &mut twist);
    assert_eq!(texts(&taken), ["a", "a", "b", "b"]);
    assert_eq!((twist.duplicates, twist.duplicated), (0, 2));
    assert!(bench.backlog.ack(taken[0].1));
    assert!(!bench.backlog.ack(taken[1].1), "one ack is enough");
    bench.nack(taken[2].1);
    assert_eq!(bench.backlog.counts(), (0, 1));
    bench.nack(taken[3].1);
    assert_eq!((bench.backlog.counts(), bench.due()), ((1, 0), None));
}

#[test]
fn a_shuffle_follows_the_seed_within_full_blocks() {
    let order = |seed| {
        let mut bench = Bench::new(Terms::default());
        (0..32).for_each(|number| bench.publish(&number.to_string(), ""));
        let mut twist = Twist { shuffle: Some(seed), ..Twist::default() };
        let taken = bench.twisted(&want(0), &mut twist);
        assert!(twist.reordered > 0);
        taken.into_iter().map(|(text, _)| text.parse().unwrap()).collect::<Vec<u64>>()
    };
    let one = order(1);
    assert_eq!(one, order(1));
    assert_ne!(one, order(2));
    let (mut low, mut high) = (one[..16].to_vec(), one[16..].to_vec());
    low.sort_unstable();
    high.sort_unstable();
    assert_eq!((low, high), ((0..16).collect(), (16..32).collect()));
}

#[test]
fn a_block_that_does_not_fill_waits_for_so_long_only() {
    let mut bench = Bench::new(Terms::default());
    let mut twist = Twist { shuffle: Some(1), ..Twist::default() };
    (0..3).for_each(|number| bench.publish(&number.to_string(), ""));
    let taken = bench.backlog.take(bench.now, &want(0), &mut twist);
    assert!(taken.deliveries.is_empty());
    assert_eq!(taken.look_again, Some(bench.start + SHUFFLE_HOLD));
    bench.at(50);
    let taken = bench.twisted(&want(0), &mut twist);
    assert_eq!(taken.len(), 3);
    bench.nack(taken[0].1);
    assert_eq!(bench.twisted(&want(0), &mut twist).len(), 1, "what comes again does not wait");
}
