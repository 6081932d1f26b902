//! Answers that name every subscription of the connection and no request, as Coinbase gives them.
//!
//! Never: a socket, or a real moment.

use super::{super::answers::UNNAMED_REFUSAL, *};

const BTC: &str = "BTC-USD";
const ETH: &str = "ETH-USD";

impl Told {
    fn coinbase(symbols: &[&str]) -> Self {
        Self::new(Venue::Coinbase, symbols)
    }

    /// The venue names everything that is subscribed to.
    fn stands(&mut self, books: &[&str], trades: &[&str]) {
        let named = serde_json::json!({ "level2": books, "market_trades": trades, "heartbeats": ["heartbeats"] });
        self.hear(&format!(
            r#"{{"channel":"subscriptions","client_id":"","timestamp":"2026-01-01T00:00:00Z","sequence_num":0,"events":[{{"subscriptions":{named}}}]}}"#
        ));
    }

    fn begins(&mut self, symbol: &str) {
        self.hear(&format!(
            r#"{{"channel":"l2_data","client_id":"","timestamp":"2026-01-01T00:00:00Z","sequence_num":0,"events":[{{"type":"snapshot","product_id":"{symbol}","updates":[]}}]}}"#
        ));
    }

    /// Heartbeats every second for some seconds; what was to be done meanwhile.
    fn beating(&mut self, seconds: u64) -> Vec<Action> {
        let mut all = Vec::new();
        for _ in 0..seconds {
            self.hear(r#"{"channel":"heartbeats","sequence_num":3,"events":[]}"#);
            all.extend(self.until(self.now_ns + S).into_iter().map(|(_, action)| action));
        }
        all
    }

    fn standing(symbols: &[&str]) -> Self {
        let mut told = Self::coinbase(symbols);
        told.stand(symbols);
        told
    }

    fn stand(&mut self, symbols: &[&str]) {
        assert_eq!(self.sent_within(1).len(), 3, "heartbeats, books, trades");
        self.stands(&[], &[]);
        symbols.iter().for_each(|symbol| self.begins(symbol));
        self.stands(symbols, &[]);
        self.stands(symbols, symbols);
        assert_eq!(self.beating(1), []);
        assert_eq!(self.leg.asked.len(), 0);
    }
}

fn only(actions: &[Action]) -> &str {
    let [Action::Send(text)] = actions else { panic!("{actions:?}") };
    text
}

#[test]
fn the_greeting_goes_first_on_each_connection() {
    let mut told = Told::coinbase(&[BTC, ETH]);
    for _ in 0..3 {
        let sent = told.sent_within(1);
        assert!(sent[0].contains("heartbeats") && sent[1].contains("level2") && sent[2].contains("market_trades"));
        assert_eq!(sent.len(), 3);
        told.again();
    }
}

#[test]
fn the_greeting_s_own_answer_is_nobody_s() {
    let mut told = Told::coinbase(&[BTC]);
    told.sent_within(1);
    told.stands(&[], &[]);
    assert_eq!(told.leg.asked.len(), 2);
    assert_eq!(told.actions(), []);
}

#[test]
fn one_is_subscribed_to_anew_alone_and_reconnections_keep_the_set() {
    let symbols = [BTC, ETH, "LTC-USD", "SOL-USD"];
    let mut told = Told::standing(&symbols);
    assert!(told.leg.resubscribe(told.now_ns, ETH));
    let done = told.beating(1);
    assert!(only(&done[1..]).contains("unsubscribe") && only(&done[1..]).contains(r#"["ETH-USD"]"#), "{done:?}");
    let without = [BTC, "LTC-USD", "SOL-USD"];
    told.stands(&symbols, &symbols);
    assert_eq!(told.actions(), [], "it is not ended yet");
    told.stands(&without, &symbols);
    let done = told.beating(1);
    assert!(only(&done).contains(r#""type":"subscribe""#) && only(&done).contains(r#"["ETH-USD"]"#), "{done:?}");
    told.stands(&symbols, &symbols);
    told.begins(ETH);
    assert_eq!(told.beating(60), []);
    for _ in 0..3 {
        told.again();
        told.stand(&symbols);
    }
    assert_eq!(told.beating(60), []);
    assert!(told.leg.subscriptions.iter().all(|one| one.stage == Stage::Verified));
}

#[test]
fn what_is_not_named_is_refused_and_disturbs_no_other() {
    let mut told = Told::coinbase(&[BTC, "NO-SUCH"]);
    told.sent_within(1);
    told.stands(&[BTC], &[]);
    told.begins(BTC);
    told.stands(&[BTC], &[BTC]);
    let (mut asked, mut refused) = (0, 0);
    for _ in 0..120 {
        for action in told.beating(1) {
            match action {
                Action::Send(text) => {
                    assert!(text.contains(r#"["NO-SUCH"]"#), "{text}");
                    asked += 1;
                    told.stands(&[BTC], &[BTC]);
                }
                Action::Note(Note::Refused(1, reason)) => {
                    assert_eq!(&*reason, UNNAMED_REFUSAL);
                    refused += 1;
                }
                Action::Note(Note::Resubscribed(1) | Note::Insisted(1)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!((10..=24).contains(&asked) && refused >= 6, "{asked} messages and {refused} refusals in two minutes");
}

#[test]
fn an_error_that_names_nobody_is_the_first_request_s_and_each_is_asked_for_alone() {
    let mut told = Told::coinbase(&[BTC, "NO-SUCH"]);
    told.sent_within(1);
    told.hear(r#"{"type":"error","message":"Failed to subscribe","reason":"NO-SUCH is not a valid product"}"#);
    told.stands(&[], &[BTC]);
    let done = told.beating(2);
    let sent: Vec<_> = done.iter().filter(|action| matches!(action, Action::Send(_))).collect();
    assert_eq!(sent.len(), 2, "{done:?}");
    assert!(format!("{sent:?}").matches("unsubscribe").count() == 2, "each alone: {sent:?}");
    told.stands(&[], &[BTC]);
    told.stands(&[], &[BTC]);
    assert_eq!(told.beating(1).len(), 2);
    told.stands(&[BTC], &[BTC]);
    told.begins(BTC);
    assert_eq!(told.leg.subscriptions[0].stage, Stage::Verified);
}

#[test]
fn an_acknowledgement_of_all_without_data_ends_the_connection() {
    let mut told = Told::standing(&[BTC, ETH]);
    // The venue closes, and the next connection is acknowledged and silent but for heartbeats.
    told.again();
    told.sent_within(1);
    told.stands(&[BTC, ETH], &[]);
    told.stands(&[BTC, ETH], &[BTC, ETH]);
    let acknowledged_ns = told.now_ns;
    let mut done = Vec::new();
    while done.is_empty() {
        done = told.beating(1);
    }
    assert_eq!(done, [Action::Drop(Fault::NoData)]);
    assert_eq!((told.now_ns - acknowledged_ns) / S, 10);
}
