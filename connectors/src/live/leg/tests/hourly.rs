//! A venue that counts the requests of an hour, and instruments that it refuses or keeps quiet.
//!
//! Never: a socket, or a real moment.

use super::*;
use serde_json::Value;

const GOOD: &str = "BTC-USDT";

/// OKX at the other end: what is sent is answered at once.
struct Okx {
    told: Told,
    /// When each request was sent, in nanoseconds, and what for.
    sent: Vec<(u64, String, String)>,
}

impl Okx {
    fn new(symbols: &[&str]) -> Self {
        Self { told: Told::new(Venue::Okx, symbols), sent: Vec::new() }
    }

    fn says(&mut self, id: &str, event: &str, symbol: &str) {
        self.told
            .hear(&format!(r#"{{"id":"{id}","event":"{event}","arg":{{"channel":"books","instId":"{symbol}"}}}}"#));
    }

    fn snapshot(&mut self, symbol: &str) {
        let arg = format!(r#"{{"channel":"books","instId":"{symbol}"}}"#);
        self.told.hear(&format!(r#"{{"arg":{arg},"action":"snapshot","data":[]}}"#));
    }

    /// What the leg wants to send now, each with its id, op and instruments.
    fn wants(&mut self) -> Vec<(String, String, Vec<String>)> {
        let mut wants = Vec::new();
        for action in self.told.actions() {
            let Action::Send(text) = action else {
                assert!(matches!(action, Action::Note(_)), "{action:?}");
                continue;
            };
            let Ok(request) = serde_json::from_str::<Value>(&text) else { continue };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let args = request["args"].as_array().unwrap();
            let books: Vec<String> =
                args.iter().filter(|arg| arg["channel"] == "books").map(|arg| text(&arg["instId"])).collect();
            wants.push((text(&request["id"]), text(&request["op"]), books));
        }
        for (_, op, books) in &wants {
            self.sent.push((self.told.now_ns, op.clone(), books.join(",")));
        }
        wants
    }

    /// Time passes; good instruments are served, others refused.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.told.hear("pong");
            for (id, op, books) in self.wants() {
                for symbol in &books {
                    match (&*op, symbol.starts_with("NO-")) {
                        (_, false) => self.says(&id, &op, symbol),
                        (_, true) => {
                            let msg = format!("Wrong URL or channel:books,instId:{symbol} doesn't exist.");
                            self.told.hear(&format!(r#"{{"id":"{id}","event":"error","code":"60018","msg":"{msg}"}}"#));
                        }
                    }
                    if op == "subscribe" && symbol.starts_with("BTC") {
                        self.snapshot(symbol);
                    }
                }
            }
            self.told.now_ns += S / 2;
        }
    }

    fn most_in_an_hour(&self) -> usize {
        let within = |from_ns: u64| {
            let inside = |(at_ns, ..): &&(u64, String, String)| (from_ns..from_ns + 3_600 * S).contains(at_ns);
            self.sent.iter().filter(inside).count()
        };
        self.sent.iter().map(|(at_ns, ..)| within(*at_ns)).max().unwrap()
    }
}

#[test]
fn refused_and_quiet_instruments_leave_the_hours_requests_to_repairs() {
    let mut symbols = vec![GOOD.to_owned()];
    symbols.extend((0..40).flat_map(|number| [format!("NO-{number}"), format!("QUIET-{number}")]));
    let mut okx = Okx::new(&symbols.iter().map(|symbol| &**symbol).collect::<Vec<_>>());
    okx.pass(3_600);
    assert!((190..=400).contains(&okx.most_in_an_hour()), "{}", okx.most_in_an_hour());
    // A gap is repaired at once all the same.
    let from_ns = okx.told.now_ns;
    assert!(okx.told.leg.resubscribe(from_ns, GOOD));
    okx.pass(3);
    let repairs = okx.sent.iter().filter(|(at_ns, _, books)| *at_ns >= from_ns && books == GOOD).count();
    assert_eq!(repairs, 2, "{:?}", okx.sent.last());
    okx.pass(7_200);
    assert!(okx.most_in_an_hour() <= 400, "{}", okx.most_in_an_hour());
}

#[test]
fn what_is_refused_is_asked_for_every_half_hour_in_the_end() {
    let mut okx = Okx::new(&[GOOD, "NO-1"]);
    okx.pass(7_200);
    let before = okx.sent.len();
    okx.pass(7_200);
    assert!((6..=10).contains(&(okx.sent.len() - before)), "{}", okx.sent.len() - before);
}

#[test]
fn past_the_hours_requests_even_repairs_wait_and_none_is_lost() {
    let mut okx = Okx::new(&[GOOD]);
    let mut refused_at_s = None;
    for second in 0..3_500 {
        // A book that breaks every six seconds, on a leg without pauses between them.
        if second % 6 == 5 {
            okx.told.leg.subscriptions[0].insistence = Default::default();
            let served = okx.told.leg.resubscribe(okx.told.now_ns, GOOD);
            if !served {
                refused_at_s.get_or_insert(second);
            }
        }
        okx.pass(1);
    }
    assert_eq!(okx.sent.len(), 400);
    assert!(refused_at_s.is_some_and(|second| second > 1_000), "{refused_at_s:?}");
    let free_ns = okx.told.leg.budget.free_ns(false);
    okx.told.hear("pong");
    assert!(okx.told.leg.deadline_ns().is_some_and(|at_ns| at_ns <= free_ns), "it wakes in time");
    okx.pass(200);
    assert!(okx.sent.len() > 400 && okx.most_in_an_hour() == 400, "{}", okx.sent.len());
    okx.told.again();
    okx.sent.clear();
    okx.pass(2);
    assert_eq!(okx.sent.len(), 2, "another connection has its own number");
}

#[test]
fn an_end_that_was_refused_for_the_number_of_requests_is_none() {
    let mut okx = Okx::new(&[GOOD]);
    okx.pass(2);
    assert!(okx.told.leg.resubscribe(okx.told.now_ns, GOOD));
    let wants = okx.wants();
    let [(id, op, _)] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(op, "unsubscribe");
    okx.told.hear(&format!(r#"{{"id":"{id}","event":"error","code":"60014","msg":"Requests too frequent"}}"#));
    okx.told.now_ns += S;
    let wants = okx.wants();
    assert!(matches!(&wants[..], [(_, op, _)] if op == "unsubscribe"), "its end is asked for again: {wants:?}");
}
