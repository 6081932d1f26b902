//! Subscriptions that the venue names by handles of the connection, as Bitfinex does.
//!
//! Never: a socket, or a real moment.

use super::{super::answers::EARLY_MAX, *};

const BTC: &str = "tBTCUSD";
const ETH: &str = "tETHUSD";

impl Told {
    fn bitfinex(symbols: &[&str]) -> Self {
        Self::new(Venue::Bitfinex, symbols)
    }

    fn named(&mut self, channel: &str, symbol: &str, id: u64) {
        self.hear(&format!(r#"{{"event":"subscribed","channel":"{channel}","chanId":{id},"symbol":"{symbol}"}}"#));
    }

    fn whole(&mut self, id: u64) {
        self.hear(&format!("[{id},[[1,1,1],[2,1,-1]],7]"));
    }

    /// Pongs every second for some seconds; what was to be done meanwhile but for pings.
    fn ponging(&mut self, seconds: u64) -> Vec<Action> {
        let mut all = Vec::new();
        for _ in 0..seconds {
            self.hear(r#"{"event":"pong"}"#);
            all.extend(self.until(self.now_ns + S).into_iter().map(|(_, action)| action));
        }
        all.retain(|action| !matches!(action, Action::Send(text) if text.contains(r#""ping""#)));
        all
    }

    /// A connection with everything subscribed to; the books' handles are 10, 11, …
    fn all_named(symbols: &[&str]) -> Self {
        let mut told = Self::bitfinex(symbols);
        told.name_all(symbols);
        told
    }

    fn name_all(&mut self, symbols: &[&str]) {
        self.sent(self.now_ns + 900 * MS);
        for (id, symbol) in (10..).zip(symbols) {
            // As in the recordings, the trades are named first.
            self.named("trades", symbol, id + 100);
            self.named("book", symbol, id);
            self.whole(id);
        }
        assert_eq!(self.ponging(1), []);
    }
}

/// The texts among some actions.
trait Sent {
    fn sent(&self) -> Vec<&str>;
}

impl Sent for [Action] {
    fn sent(&self) -> Vec<&str> {
        self.iter().filter_map(|action| if let Action::Send(text) = action { Some(&**text) } else { None }).collect()
    }
}

#[test]
fn each_channel_is_asked_for_on_its_own_after_the_greeting() {
    let mut told = Told::bitfinex(&[BTC, ETH]);
    for _ in 0..3 {
        let sent = told.sent(told.now_ns + 900 * MS);
        let of: Vec<_> = sent
            .iter()
            .map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap())
            .map(|value| format!("{} {} {}", value["event"], value["channel"], value["symbol"]).replace('"', ""))
            .collect();
        let right = [
            "conf null null",
            "subscribe book tBTCUSD",
            "subscribe trades tBTCUSD",
            "subscribe book tETHUSD",
            "subscribe trades tETHUSD",
        ];
        assert_eq!(of, right);
        told.again();
    }
}

#[test]
fn a_resubscription_ends_the_channel_and_gets_another_one() {
    let mut told = Told::all_named(&[BTC, ETH]);
    assert!(told.leg.resubscribe(told.now_ns, ETH));
    let done = told.ponging(1);
    assert_eq!(done[0], Action::Note(Note::Resubscribed(1)));
    assert_eq!(done.sent(), [r#"{"chanId":11,"event":"unsubscribe"}"#], "that channel alone");
    told.hear(r#"{"event":"unsubscribed","status":"OK","chanId":11}"#);
    let done = told.ponging(1);
    assert!(done.len() == 1 && done.sent()[0].contains(r#""channel":"book""#), "{done:?}");
    assert!(done.sent()[0].contains(ETH), "{done:?}");
    told.named("book", ETH, 77);
    told.whole(11);
    assert!(matches!(told.leg.subscriptions[1].stage, Stage::Acknowledged { .. }), "the old channel proves nothing");
    told.whole(77);
    assert_eq!(told.leg.subscriptions[1].stage, Stage::Verified);
    assert_eq!(told.ponging(60), []);
    assert_eq!(told.leg.by_handle.len(), 2, "exactly one handle each");
    assert!(told.leg.resubscribe(told.now_ns, ETH));
    assert_eq!(told.ponging(1).sent(), [r#"{"chanId":77,"event":"unsubscribe"}"#]);
    assert!(told.leg.resubscribe(told.now_ns, BTC));
    assert_eq!(told.ponging(1).sent(), [r#"{"chanId":10,"event":"unsubscribe"}"#]);
}

#[test]
fn trades_that_are_named_first_answer_for_no_book() {
    let mut told = Told::bitfinex(&[BTC]);
    told.sent(900 * MS);
    told.named("trades", BTC, 5);
    told.hear("[5,[[1,1618665870435,1,2]],1]");
    assert_eq!(told.leg.subscriptions[0].stage, Stage::Asked);
    assert_eq!(told.leg.asked.len(), 1, "the book's request waits");
    told.named("book", BTC, 6);
    let done = told.ponging(11);
    assert!(matches!(&done[..], [Action::Note(Note::Dataless(0)), Action::Note(_), Action::Send(_)]), "{done:?}");
}

#[test]
fn data_may_come_before_the_channel_is_named() {
    let mut told = Told::bitfinex(&[BTC]);
    told.sent(900 * MS);
    told.named("trades", BTC, 5);
    (100..100 + u64::try_from(EARLY_MAX).unwrap()).for_each(|id| told.whole(id));
    told.whole(6);
    assert_eq!(told.leg.early.len(), EARLY_MAX, "what is remembered is bounded");
    told.named("book", BTC, 6);
    assert_eq!(told.leg.subscriptions[0].stage, Stage::Verified);
    assert_eq!(told.ponging(60), []);
}

#[test]
fn a_channel_that_the_venue_ends_begins_anew_ever_more_rarely() {
    let mut told = Told::all_named(&[BTC, ETH]);
    let mut pauses = Vec::new();
    for id in 20..26 {
        let handle = told.leg.handle(0).unwrap().to_owned();
        told.hear(&format!(r#"{{"event":"unsubscribed","status":"OK","chanId":{handle}}}"#));
        let from_ns = told.now_ns;
        let sent = loop {
            let done = told.ponging(1);
            if !done.sent().is_empty() {
                break done;
            }
        };
        assert!(sent.sent()[0].contains(r#""subscribe""#), "there is nothing to be ended: {sent:?}");
        pauses.push((told.now_ns - from_ns) / S);
        told.named("book", BTC, id);
        told.whole(id);
    }
    assert_eq!(pauses, [1, 1, 1, 1, 1, 4]);
}

#[test]
fn a_refused_channel_disturbs_no_other() {
    let mut told = Told::bitfinex(&[BTC, "tNOSUCH"]);
    told.sent(900 * MS);
    told.named("trades", BTC, 110);
    told.named("book", BTC, 10);
    told.whole(10);
    let refuse = |told: &mut Told, channel: &str| {
        told.hear(&format!(
            r#"{{"channel":"{channel}","symbol":"tNOSUCH","event":"error","msg":"symbol: invalid","code":10300}}"#
        ));
    };
    refuse(&mut told, "book");
    refuse(&mut told, "trades");
    let mut asked = 0;
    for second in 0..120 {
        for action in told.ponging(1) {
            match action {
                Action::Send(text) => {
                    assert!(text.contains("tNOSUCH") && text.contains(r#""subscribe""#), "{text}");
                    asked += 1;
                    refuse(&mut told, "book");
                }
                Action::Note(Note::Refused(1, reason)) => assert_eq!(&*reason, "symbol: invalid (10300)"),
                Action::Note(Note::Resubscribed(1) | Note::Insisted(1)) => {}
                other => panic!("{other:?} after {second} s"),
            }
        }
    }
    assert!((5..=12).contains(&asked), "{asked} requests in two minutes");
}

#[test]
fn a_channel_that_is_none_is_asked_for_again() {
    let mut told = Told::all_named(&[BTC]);
    assert!(told.leg.resubscribe(told.now_ns, BTC));
    assert_eq!(told.ponging(1).sent().len(), 1);
    told.hear(r#"{"event":"error","msg":"unsubscribe: invalid","code":10400,"chanId":10}"#);
    let done = told.ponging(1);
    assert!(done.len() == 1 && done.sent()[0].contains(r#""subscribe""#), "{done:?}");
}

#[test]
fn three_reconnections_keep_exactly_the_set() {
    let symbols = [BTC, ETH, "tLTCUSD", "tXRPUSD"];
    let mut told = Told::all_named(&symbols);
    for _ in 0..3 {
        told.again();
        assert!(told.leg.by_handle.is_empty(), "handles are of one connection");
        told.name_all(&symbols);
        assert_eq!((told.leg.by_handle.len(), told.leg.asked.len()), (4, 0));
    }
    assert_eq!(told.ponging(30), []);
}

#[test]
fn connections_are_as_far_apart_as_the_venue_wants() {
    let mut told = Told::bitfinex(&[BTC]);
    told.leg = told.leg.among(2);
    let mut times = Vec::new();
    for _ in 0..20 {
        told.again();
        times.push(told.now_ns / S);
    }
    let minute = times.iter().filter(|second| **second <= 60 + times[0]).count();
    assert!(minute <= 11, "{times:?}: with the other leg's as many some 20 a minute");
}
