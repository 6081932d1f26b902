//! Pings, what the venue wants answered, connections that miss a message.
//!
//! Never: a socket, or a real moment.

use super::*;
use crate::{
    live::{
        backoff::CAP_MS,
        protocol::{Answer, Listed, RestRequest, Terms},
    },
    venue_feed::Undecodable,
};
use std::borrow::Cow;

const TERMS: Terms = Terms {
    socket_url: "",
    rest_url: "",
    silence_ms: 20_000,
    answer_ms: 10_000,
    data_ms: 10_000,
    data_each: true,
    pace_ms: 100,
    batch: 10,
    instruments_max: 10,
    weight_per_minute: 60,
    ping_ms: 5_000,
    requests_per_hour: None,
    too_often: None,
};

/// A venue that says words.
struct Words;

impl Protocol for Words {
    fn venue(&self) -> Venue {
        Venue::Deribit
    }

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    fn greeting(&self, id: u64) -> Vec<String> {
        vec![format!("hello {id}"), "again".to_owned()]
    }

    fn ping(&self, id: u64) -> Option<String> {
        Some(format!("ping {id}"))
    }

    fn subscribe(&self, symbols: &[&str], id: u64) -> String {
        format!("subscribe {} {id}", symbols.join(","))
    }

    fn unsubscribe(&self, symbol: &str, _handle: Option<&str>, id: u64) -> String {
        format!("unsubscribe {symbol} {id}")
    }

    fn subscribe_beside(&self, _symbols: &[&str], _id: u64) -> Option<String> {
        None
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        match text.split_once(' ') {
            Some(("data", key)) => Answer::Data(key.into()),
            Some(("done", id)) => Answer::Reply { request: id.parse().ok(), key: None, refusal: None },
            Some(("alive?", token)) => Answer::Respond(format!("alive {token}")),
            _ => Answer::Life,
        }
    }

    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        RestRequest { path: String::new(), weight: 1 }
    }

    fn listed(&self, _body: &str) -> Result<Vec<Listed>, Undecodable> {
        Ok(Vec::new())
    }
}

fn words() -> Told {
    let mut told = Told::speaking(&Words, &["A", "B"]);
    assert_eq!(told.sent(S), ["hello 1", "again", "subscribe A,B 3"]);
    told.hear("done 3");
    told.hear("data A");
    told.hear("data B");
    told
}

#[test]
fn what_is_said_first_goes_first_on_each_connection_and_counts_for_the_pace() {
    let mut told = Told::speaking(&Words, &["A"]);
    for _ in 0..3 {
        let begun_ns = told.now_ns;
        let sent: Vec<_> = told.until(begun_ns + S).into_iter().map(|(ms, _)| ms - begun_ns / MS).collect();
        assert_eq!(sent, [0, 0, 200]);
        told.again();
    }
}

#[test]
fn a_ping_goes_out_only_in_silence_and_its_answer_is_life() {
    let mut told = words();
    for _ in 0..10 {
        told.now_ns += 4 * S;
        told.hear("anything");
        assert_eq!(told.until(told.now_ns), [], "it is not silent");
    }
    let heard_ns = told.now_ns;
    let pinged = told.until(heard_ns + 6 * S);
    let right = |id: u64, after_s: u64| ((heard_ns + after_s * S) / MS, Action::Send(format!("ping {id}")));
    assert_eq!(pinged, [right(4, 5)]);
    told.hear("pong");
    assert_eq!(told.until(heard_ns + 11 * S), [right(5, 11)], "counted from the answer");
    let answered_ns = told.now_ns;
    told.hear("pong");
    let ended = told.until(answered_ns + 60 * S);
    let times: Vec<_> = ended.iter().map(|(ms, _)| (ms * MS - answered_ns) / S).collect();
    assert_eq!(times, [5, 10, 15, 20], "pings, and the end");
    assert_eq!(ended.last().map(|(_, action)| action), Some(&Action::Drop(Fault::Silent)));
}

#[test]
fn what_the_venue_asks_is_answered_at_once_whatever_the_pace() {
    let mut told = Told::speaking(&Words, &["A"]);
    told.hear("alive? 7");
    let sent = told.sent(told.now_ns);
    assert_eq!(sent, ["hello 1", "again", "alive 7"]);
    assert_eq!(told.leg.deadline_ns(), Some(200 * MS), "the subscription waits for its turn");
    told.sent(S);
    told.hear("alive? 8");
    assert_eq!(told.leg.deadline_ns(), Some(0));
    assert_eq!(told.sent(told.now_ns), ["alive 8"]);
}

#[test]
fn a_connection_that_missed_a_message_is_made_anew_after_a_while() {
    let mut told = words();
    let mut waits_ms = Vec::new();
    for _ in 0..4 {
        told.leg.give_up(told.now_ns);
        assert_eq!(told.leg.deadline_ns(), Some(told.now_ns));
        assert_eq!(told.actions(), [Action::Drop(Fault::Missing)]);
        told.leg.ended(told.now_ns, u64::MAX, None);
        told.leg.give_up(told.now_ns);
        assert_eq!(told.actions(), [], "it ended already");
        let retry_ns = told.leg.deadline_ns().unwrap();
        waits_ms.push((retry_ns - told.now_ns) / MS);
        told.now_ns = retry_ns;
        assert_eq!(told.actions(), [Action::Connect]);
        told.leg.opened(told.now_ns);
        assert_eq!(told.sent(told.now_ns + S).len(), 3, "the whole set, once");
    }
    assert_eq!(waits_ms, [250, 500, 1_000, 2_000]);
}

#[test]
fn a_missing_message_counts_though_nothing_is_read() {
    let mut told = words();
    told.leg.held(told.now_ns);
    told.leg.give_up(told.now_ns);
    assert_eq!(told.actions(), [Action::Drop(Fault::Missing)]);
}

#[test]
fn legs_that_fail_together_come_back_apart_though_they_wait_as_long_as_they_may() {
    let legs = 200_u64;
    let mut waits_ms: Vec<u64> = (0..legs)
        .map(|number| {
            let mut leg = Leg::new(&Words, &["A".into()], 0, 0);
            let mut random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            for _ in 0..20 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                leg.ended(0, random, None);
            }
            leg.deadline_ns().unwrap() / MS
        })
        .collect();
    waits_ms.sort_unstable();
    let greatest = *waits_ms.last().unwrap();
    assert!(greatest <= CAP_MS && greatest > CAP_MS * 9 / 10, "{greatest} ms");
    assert!(waits_ms[0] < CAP_MS / 10, "{} ms", waits_ms[0]);
    for tenth in 0..10 {
        let within = |ms: &&u64| (CAP_MS * tenth / 10..CAP_MS * (tenth + 1) / 10).contains(*ms);
        let there = waits_ms.iter().filter(within).count();
        assert!((8..=35).contains(&there), "{there} of {legs} in tenth {tenth}");
    }
}
