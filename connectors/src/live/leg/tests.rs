//! A leg's connection, told as what happened when, in virtual time.
//!
//! Never: a socket, or a real moment.

mod handles;
mod hourly;
mod life;
mod standing;

use super::*;
use market::Venue;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const BTC: &str = "BTC/USD";

struct Told {
    leg: Leg,
    now_ns: u64,
}

impl Told {
    fn new(venue: Venue, symbols: &[&str]) -> Self {
        Self::speaking(super::super::protocol::protocol(venue).unwrap(), symbols)
    }

    fn speaking(protocol: &'static dyn Protocol, symbols: &[&str]) -> Self {
        let symbols: Vec<Box<str>> = symbols.iter().map(|symbol| (*symbol).into()).collect();
        let leg = Leg::new(protocol, &symbols, 0, 0);
        let mut told = Self { leg, now_ns: 0 };
        assert_eq!(told.actions(), [Action::Connect]);
        told.leg.opened(0);
        told
    }

    fn kraken(symbols: &[&str]) -> Self {
        Self::new(Venue::KrakenSpot, symbols)
    }

    fn actions(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        while let Some(action) = self.leg.poll(self.now_ns) {
            let last = matches!(action, Action::Drop(_));
            all.push(action);
            if last {
                break;
            }
        }
        all
    }

    /// Lets time pass to a moment, stopping at every deadline; everything that was to be done meanwhile, and when.
    fn until(&mut self, to_ns: u64) -> Vec<(u64, Action)> {
        let mut all = Vec::new();
        loop {
            let now_ns = self.now_ns;
            all.extend(self.actions().into_iter().map(|action| (now_ns / MS, action)));
            let dropped = matches!(all.last(), Some((_, Action::Drop(_))));
            match self.leg.deadline_ns().filter(|at_ns| *at_ns <= to_ns && !dropped) {
                Some(at_ns) => self.now_ns = at_ns.max(self.now_ns),
                None => break,
            }
        }
        if !matches!(all.last(), Some((_, Action::Drop(_)))) {
            self.now_ns = to_ns;
        }
        all
    }

    /// The connection ends, and another is made once it may be.
    fn again(&mut self) {
        self.leg.ended(self.now_ns, 0, None);
        self.now_ns = self.leg.deadline_ns().unwrap().max(self.now_ns);
        assert_eq!(self.actions(), [Action::Connect]);
        self.leg.opened(self.now_ns);
    }

    /// What was sent within some seconds.
    fn sent_within(&mut self, seconds: u64) -> Vec<String> {
        self.sent(self.now_ns + seconds * S)
    }

    fn sent(&mut self, to_ns: u64) -> Vec<String> {
        let sent = |(_, action)| if let Action::Send(text) = action { Some(text) } else { None };
        self.until(to_ns).into_iter().filter_map(sent).collect()
    }

    fn hear(&mut self, text: &str) {
        self.leg.message(self.now_ns, text);
    }

    fn acknowledge(&mut self, method: &str, id: u64, symbol: &str) {
        self.hear(&format!(
            r#"{{"method":"{method}","req_id":{id},"result":{{"channel":"book","symbol":"{symbol}"}},"success":true}}"#
        ));
    }

    fn snapshot(&mut self, symbol: &str) {
        self.hear(&format!(r#"{{"channel":"book","type":"snapshot","data":[{{"symbol":"{symbol}"}}]}}"#));
    }

    /// Heartbeats every second up to a moment; what was to be done meanwhile.
    fn alive_until(&mut self, to_ns: u64) -> Vec<(u64, Action)> {
        let mut all = Vec::new();
        while self.now_ns < to_ns && !matches!(all.last(), Some((_, Action::Drop(_)))) {
            self.hear(r#"{"channel":"heartbeat"}"#);
            all.extend(self.until((self.now_ns + S).min(to_ns)));
        }
        all
    }

    /// A connection on which everything is subscribed to, acknowledged and proven.
    fn settled(symbols: &[&str]) -> Self {
        let mut told = Self::kraken(symbols);
        assert_eq!(told.sent(S).len(), 2);
        for symbol in symbols {
            told.acknowledge("subscribe", 1, symbol);
            told.acknowledge("subscribe", 2, symbol);
            told.snapshot(symbol);
        }
        assert_eq!(told.until(2 * S), []);
        told
    }
}

#[test]
fn the_set_is_replayed_on_each_connection() {
    let mut told = Told::kraken(&[BTC, "ETH/USD"]);
    let first = told.sent(S);
    assert!(first[0].contains(r#"["BTC/USD","ETH/USD"]"#) && first[1].contains("trade"), "{first:?}");
    for _ in 0..3 {
        told.leg.ended(told.now_ns, 0, None);
        assert_eq!(told.actions(), [Action::Connect]);
        told.leg.opened(told.now_ns);
        let again = told.sent(told.now_ns + S);
        assert_eq!(again.len(), 2, "each request once: {again:?}");
        assert!(again[0].contains(r#"["BTC/USD","ETH/USD"]"#), "{again:?}");
    }
}

#[test]
fn large_sets_go_out_in_batches_at_the_venues_pace() {
    let symbols: Vec<String> = (0..250).map(|number| format!("A{number}USDT")).collect();
    let symbols: Vec<&str> = symbols.iter().map(|symbol| &**symbol).collect();
    let mut told = Told::new(Venue::BinanceSpot, &symbols);
    let times: Vec<_> = told.until(2 * S).into_iter().map(|(ms, _)| ms).collect();
    assert_eq!(times, [0, 250, 500]);
}

#[test]
fn the_back_off_grows_until_a_connection_has_proved_itself() {
    let mut told = Told::kraken(&[BTC]);
    let mut waits_ms = Vec::new();
    for _ in 0..4 {
        told.leg.ended(told.now_ns, u64::MAX, None);
        let retry_ns = told.leg.deadline_ns().unwrap();
        waits_ms.push((retry_ns - told.now_ns) / MS);
        assert_eq!(told.actions(), []);
        told.now_ns = retry_ns;
        assert_eq!(told.actions(), [Action::Connect]);
        told.leg.opened(told.now_ns);
    }
    assert_eq!(waits_ms, [250, 500, 1_000, 2_000]);
    told.sent(told.now_ns + S);
    told.snapshot(BTC);
    told.now_ns += 11 * S;
    told.leg.ended(told.now_ns, u64::MAX, Some(7_000));
    assert_eq!(told.leg.deadline_ns(), Some(told.now_ns + 7 * S), "what the venue asks for counts");
    told.leg.ended(told.now_ns, u64::MAX, None);
    assert_eq!(told.leg.deadline_ns(), Some(told.now_ns + 500 * MS), "and the failures before are forgotten");
}

#[test]
fn a_connection_that_is_not_made_in_time_is_given_up() {
    let mut leg = Leg::new(super::super::protocol::protocol(Venue::KrakenSpot).unwrap(), &[BTC.into()], 1, 0);
    assert_eq!(leg.poll(STAGGER_MS * MS - 1), None, "the second leg begins later");
    assert_eq!(leg.poll(STAGGER_MS * MS), Some(Action::Connect));
    let deadline_ns = (STAGGER_MS + CONNECT_MS_MAX) * MS;
    assert_eq!(leg.deadline_ns(), Some(deadline_ns));
    assert_eq!(leg.poll(deadline_ns - 1), None);
    assert_eq!(leg.poll(deadline_ns), Some(Action::Drop(Fault::ConnectDeadline)));
}

#[test]
fn silence_ends_a_connection_and_any_frame_breaks_it() {
    let mut told = Told::settled(&[BTC]);
    assert_eq!(told.alive_until(60 * S), []);
    // A ping is life as well.
    told.now_ns += 8 * S;
    assert_eq!(told.actions(), []);
    told.leg.heard(told.now_ns);
    let heard_ns = told.now_ns;
    let ended = told.until(heard_ns + 100 * S);
    assert_eq!(ended, [((heard_ns + 10 * S) / MS, Action::Drop(Fault::Silent))]);
}

#[test]
fn a_request_without_an_answer_ends_the_connection() {
    let mut told = Told::kraken(&[BTC, "ETH/USD"]);
    told.sent(S);
    told.acknowledge("subscribe", 1, BTC);
    told.snapshot(BTC);
    told.acknowledge("subscribe", 2, BTC);
    told.acknowledge("subscribe", 2, "ETH/USD");
    let ended = told.alive_until(60 * S);
    assert_eq!(ended, [(10_000, Action::Drop(Fault::Unanswered))]);
}

#[test]
fn an_acknowledgement_is_not_life() {
    let mut told = Told::kraken(&[BTC]);
    told.sent(S);
    told.acknowledge("subscribe", 1, BTC);
    told.acknowledge("subscribe", 2, BTC);
    let ended = told.alive_until(60 * S);
    assert_eq!(ended, [(11_000, Action::Drop(Fault::NoData))]);
}

#[test]
fn an_instrument_without_data_is_subscribed_to_anew_alone() {
    let mut told = Told::kraken(&[BTC, "ETH/USD"]);
    told.sent(S);
    for symbol in [BTC, "ETH/USD"] {
        told.acknowledge("subscribe", 1, symbol);
        told.acknowledge("subscribe", 2, symbol);
    }
    told.snapshot(BTC);
    let done = told.alive_until(12 * S);
    let [(11_000, Action::Note(Note::Dataless(1))), (_, Action::Note(Note::Resubscribed(1))), (_, Action::Send(left))] =
        &done[..]
    else {
        panic!("{done:?}")
    };
    assert!(left.contains("unsubscribe") && left.contains(r#"["ETH/USD"]"#), "{left}");
    told.acknowledge("unsubscribe", 3, "ETH/USD");
    let joined = told.sent(13 * S);
    assert!(joined.len() == 1 && joined[0].contains(r#""method":"subscribe""#), "{joined:?}");
    told.acknowledge("subscribe", 4, "ETH/USD");
    told.snapshot("ETH/USD");
    assert_eq!(told.alive_until(60 * S), []);
}

#[test]
fn a_refused_instrument_is_asked_for_again_ever_more_rarely_and_disturbs_no_other() {
    let mut told = Told::kraken(&[BTC, "NO/SUCH"]);
    told.sent(S);
    told.acknowledge("subscribe", 1, BTC);
    told.acknowledge("subscribe", 2, BTC);
    told.snapshot(BTC);
    let refuse = |told: &mut Told, id: u64, method: &str| {
        told.hear(&format!(
            r#"{{"error":"Currency pair not supported","method":"{method}","req_id":{id},"success":false,"symbol":"NO/SUCH"}}"#
        ));
    };
    refuse(&mut told, 1, "subscribe");
    refuse(&mut told, 2, "subscribe");
    let mut asked = 0;
    for _ in 0..120 {
        let done = told.alive_until(told.now_ns + S);
        for (_, action) in done {
            match action {
                Action::Send(text) => {
                    asked += 1;
                    let id = text.rsplit_once(r#""req_id":"#).unwrap().1.trim_end_matches('}').parse().unwrap();
                    refuse(&mut told, id, if text.contains("unsubscribe") { "unsubscribe" } else { "subscribe" });
                }
                Action::Note(Note::Refused(1, _) | Note::Resubscribed(1) | Note::Insisted(1)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!((10..=24).contains(&asked), "{asked} messages in two minutes");
}

#[test]
fn one_instrument_is_resubscribed_once_at_a_time_and_ever_more_rarely() {
    let mut told = Told::settled(&[BTC]);
    let (mut pauses_ms, mut alarms) = (Vec::new(), 0);
    for time in 0..8 {
        // The book breaks as soon as it is there.
        for _ in 0..3 {
            assert_eq!(told.leg.resubscribe(told.now_ns, BTC), time == 0, "later it is paused, and so not served now");
        }
        let since_ns = told.now_ns;
        let mut done = Vec::new();
        while !done.iter().any(|(_, action)| matches!(action, Action::Send(_))) {
            done.extend(told.alive_until(told.now_ns + 50 * MS));
        }
        pauses_ms.push((told.now_ns - since_ns) / MS - 50);
        alarms += done.iter().filter(|(_, action)| matches!(action, Action::Note(Note::Insisted(0)))).count();
        assert!(told.leg.resubscribe(told.now_ns, BTC), "it is under way");
        told.acknowledge("unsubscribe", time * 2 + 3, BTC);
        assert_eq!(told.sent(told.now_ns + 100 * MS).len(), 1);
        told.acknowledge("subscribe", time * 2 + 4, BTC);
        told.snapshot(BTC);
    }
    assert!(pauses_ms.is_sorted() && pauses_ms[0] == 0 && pauses_ms[7] > 15_000, "{pauses_ms:?}");
    assert_eq!(alarms, 1);
    told.leg.ended(told.now_ns, 0, None);
    assert!(!told.leg.resubscribe(told.now_ns, BTC), "nothing to subscribe on");
    assert!(!Told::settled(&[BTC]).leg.resubscribe(0, "ETH/USD"), "not in the set");
}

#[test]
fn a_connection_that_is_not_read_is_not_silent_but_given_up_at_its_bound() {
    let mut told = Told::settled(&[BTC]);
    told.leg.held(told.now_ns);
    told.now_ns += 4 * S;
    assert_eq!(told.actions(), []);
    told.leg.released(told.now_ns);
    assert_eq!(told.alive_until(told.now_ns + 20 * S), [], "it was read again in time");
    let held_ns = told.now_ns;
    told.leg.held(held_ns);
    let ended = told.until(held_ns + 60 * S);
    assert_eq!(ended, [((held_ns + HELD_MS_MAX * MS) / MS, Action::Drop(Fault::HeldUp))]);
}

#[test]
fn snapshots_are_asked_for_with_the_first_message_or_after_a_quiet_second() {
    let mut told = Told::new(Venue::BinanceSpot, &["BTCUSDT", "ETHUSDT"]);
    assert_eq!(told.sent(100 * MS).len(), 1);
    told.hear(r#"{"stream":"btcusdt@trade","data":{}}"#);
    assert_eq!(told.actions(), [], "a trade is not the book's stream");
    told.hear(r#"{"stream":"btcusdt@depth@100ms","data":{}}"#);
    told.hear(r#"{"stream":"btcusdt@depth@100ms","data":{}}"#);
    assert_eq!(told.actions(), [Action::Carried(0)]);
    told.hear(r#"{"result":null,"id":1}"#);
    assert_eq!(told.until(5 * S), [(1_100, Action::Carried(1))]);
    told.hear(r#"{"stream":"ethusdt@depth@100ms","data":{}}"#);
    assert_eq!(told.actions(), []);
}

#[test]
fn a_server_that_goes_away_is_left_before_one_leg_after_the_other() {
    let mut leave_s = Vec::new();
    for index in 0..2 {
        let mut leg =
            Leg::new(super::super::protocol::protocol(Venue::BinanceSpot).unwrap(), &["BTCUSDT".into()], index, 0);
        assert_eq!(leg.poll(S * 60), Some(Action::Connect));
        leg.opened(S * 60);
        let mut told = Told { leg, now_ns: S * 60 };
        told.sent(S * 61);
        told.hear(r#"{"result":null,"id":1}"#);
        told.hear(r#"{"stream":"btcusdt@depth@100ms","data":{}}"#);
        told.hear(r#"{"e":"serverShutdown","E":1770123456789}"#);
        let done = told.until(S * 90);
        let Some((ms, Action::Drop(Fault::Leaving))) = done.last() else { panic!("{done:?}") };
        leave_s.push(ms / 1_000);
    }
    assert_eq!(leave_s, [61, 76]);
}

#[test]
fn nothing_that_a_venue_says_is_out_of_place() {
    let mut told = Told::kraken(&[BTC]);
    told.sent(S);
    for text in ["", "{", "null", r#"{"method":"subscribe","success":true}"#] {
        told.hear(text);
    }
    told.acknowledge("subscribe", 99, BTC);
    told.acknowledge("subscribe", 1, "ETH/USD");
    told.acknowledge("unsubscribe", 1, BTC);
    told.snapshot("ETH/USD");
    told.leg.ended(told.now_ns, 0, None);
    told.acknowledge("subscribe", 1, BTC);
    told.snapshot(BTC);
    told.leg.released(told.now_ns);
    assert_eq!(told.actions(), [Action::Connect]);
}
