//! Live connections: subscriptions to books, trades and the platform's state. The venue's rules:
//!
//! 1. A subscription to a book brings the snapshot. Only who has an account gets the `raw` interval; all others get what
//!    changed in 100 ms, which is one chain of ids with it.
//! 2. A request is answered as a whole with the channels that were subscribed to; one that does not exist is left out without
//!    a word, so only data prove a subscription.
//! 3. Once heartbeats are asked for, one comes each interval, of 10 seconds at the least. A `test_request` among them must be
//!    answered, or the connection ends at once.
//! 4. Subscriptions are limited to 3.3 requests a second, 10 at once.
//!
//! Never: a channel that needs an account.

use super::message::Envelope;
use crate::{
    live::protocol::{Answer, Listed, Protocol, RestRequest, Terms, halted},
    venue_feed::{
        self, Undecodable, excerpt,
        number::{finest, told},
    },
};
use market::Venue;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::borrow::Cow;

const VENUE: Venue = Venue::Deribit;

const TERMS: Terms = Terms {
    socket_url: "wss://www.deribit.com/ws/api/v2",
    rest_url: "https://www.deribit.com",
    // Rule 3, three times.
    silence_ms: 30_000,
    answer_ms: 10_000,
    // Rules 1 and 2.
    data_ms: 10_000,
    data_each: true,
    // Rule 4.
    pace_ms: 310,
    batch: 100,
    // No number is documented; more than this is too much for one connection to catch up with after it ended.
    instruments_max: 500,
    // The list of instruments is all that is asked by REST.
    weight_per_minute: 60,
    ping_ms: 0,
    // None is documented.
    requests_per_hour: None,
    too_often: None,
};

/// Rule 3, in seconds.
const HEARTBEAT_S: u32 = 10;

/// The id of answers to `test_request`; those of other requests begin at 1.
const TEST_ID: u64 = 0;

/// The start of a notification, as the venue writes it; the channel follows.
const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"subscription","params":{"channel":""#;

/// The start of the channel of a book; the instrument follows.
const BOOK: &str = "book.";

/// What follows the channel in a snapshot, mostly.
const SNAPSHOT: &str = r#","data":{"type":"snapshot""#;

/// What follows the channel in a change, mostly.
const CHANGE: &str = r#","data":{"type":"change""#;

/// What makes any notification of a book a snapshot.
const IS_SNAPSHOT: &str = r#""type":"snapshot""#;

/// Deribit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deribit;

impl Deribit {
    fn request(method: &str, params: &Value, id: u64) -> String {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    }
}

fn book_of(symbol: &str) -> String {
    format!("{BOOK}{symbol}.100ms")
}

impl Protocol for Deribit {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    fn subscribe(&self, symbols: &[&str], id: u64) -> String {
        let both = |symbol: &&str| [book_of(symbol), format!("trades.{symbol}.100ms")];
        let channels: Vec<_> = symbols.iter().flat_map(both).collect();
        Self::request("public/subscribe", &json!({ "channels": channels }), id)
    }

    fn greeting(&self, id: u64) -> Vec<String> {
        let state = json!({ "channels": ["platform_state"] });
        vec![
            Self::request("public/set_heartbeat", &json!({ "interval": HEARTBEAT_S }), id),
            Self::request("public/subscribe", &state, id.saturating_add(1)),
        ]
    }

    fn unsubscribe(&self, symbol: &str, _handle: Option<&str>, id: u64) -> String {
        Self::request("public/unsubscribe", &json!({ "channels": [book_of(symbol)] }), id)
    }

    fn subscribe_beside(&self, _symbols: &[&str], _id: u64) -> Option<String> {
        None
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        if let Some(rest) = text.strip_prefix(NOTIFICATION) {
            let Some((symbol, rest)) = rest.strip_prefix(BOOK).and_then(|rest| rest.split_once('.')) else {
                return Answer::Life;
            };
            let (_, data) = rest.split_once('"').unwrap_or_default();
            let snapshot = data.starts_with(SNAPSHOT) || !data.starts_with(CHANGE) && data.contains(IS_SNAPSHOT);
            return if snapshot { Answer::Data(symbol.into()) } else { Answer::Life };
        }
        let Ok(envelope) = serde_json::from_str::<Envelope<'a>>(text) else { return Answer::Life };
        match (envelope.method.as_deref(), envelope.params, envelope.id) {
            (Some("heartbeat"), Some(params), _) if params.kind.as_deref() == Some("test_request") => {
                Answer::Respond(Self::request("public/test", &json!({}), TEST_ID))
            }
            (Some("subscription"), Some(params), _) => {
                // The same in another order of fields.
                let data = params.data.filter(|data| data.get().contains(IS_SNAPSHOT));
                let symbol = params.channel.as_deref().and_then(|channel| channel.strip_prefix(BOOK)?.split_once('.'));
                match (data, symbol) {
                    (Some(_), Some((symbol, _))) => Answer::Data(symbol.to_owned().into()),
                    _ => Answer::Life,
                }
            }
            (None, _, request) if envelope.error.is_some() || envelope.result.is_some() => {
                Answer::Reply { request, key: None, refusal: envelope.error.map(|error| excerpt(error.get())) }
            }
            _ => Answer::Life,
        }
    }

    /// Rule 1.
    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        RestRequest { path: "/api/v2/public/get_instruments?currency=any&expired=false".to_owned(), weight: 1 }
    }

    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        let instruments: Instruments<'_> = venue_feed::json(VENUE, body)?;
        Ok(instruments.result.iter().filter_map(listed).collect())
    }
}

/// Contracts are assets of their own; combinations are not taken. The step of prices may depend on the price, and amounts
/// are multiples of one of two numbers, by the kind of contract: the finest of them holds all.
fn listed(instrument: &Instrument<'_>) -> Option<Listed> {
    let base = match &*instrument.kind {
        "spot" => &instrument.base,
        "future" | "option" => &instrument.symbol,
        _ => return None,
    };
    let above: Vec<Above<'_>> =
        instrument.tick_size_steps.and_then(|above| serde_json::from_str(above.get()).ok()).unwrap_or_default();
    let prices = above.iter().filter_map(|above| above.tick_size);
    let inactive = instrument.is_active.is_some_and(|active| active.get() == "false");
    Some(Listed {
        symbol: (&*instrument.symbol).into(),
        asset_0: (&**base).into(),
        asset_1: (&*instrument.quote).into(),
        price_step: told(finest(instrument.tick_size.into_iter().chain(prices))),
        quantity_step: told(finest(instrument.min_trade_amount.into_iter().chain(instrument.contract_size))),
        halted: halted(instrument.state, "open").or_else(|| inactive.then(|| "inactive".into())),
    })
}

#[derive(Deserialize)]
struct Instruments<'a> {
    #[serde(borrow)]
    result: Vec<Instrument<'a>>,
}

#[derive(Deserialize)]
struct Instrument<'a> {
    #[serde(borrow, rename = "instrument_name")]
    symbol: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, rename = "base_currency")]
    base: Cow<'a, str>,
    /// That of the price: the coin for its options, US dollars for its inverse futures.
    #[serde(borrow, rename = "quote_currency")]
    quote: Cow<'a, str>,
    #[serde(borrow, default)]
    tick_size: Option<&'a RawValue>,
    /// Other steps above certain prices.
    #[serde(borrow, default)]
    tick_size_steps: Option<&'a RawValue>,
    #[serde(borrow, default)]
    min_trade_amount: Option<&'a RawValue>,
    #[serde(borrow, default)]
    contract_size: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_active: Option<&'a RawValue>,
    /// Of the book.
    #[serde(borrow, default)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Above<'a> {
    #[serde(borrow, default)]
    tick_size: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::leg::{Action, Leg, Note};

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn requests_are_the_documented_ones() {
        assert_eq!(
            value(&Deribit.subscribe(&["BTC-PERPETUAL", "ETH-7MAY21-2100-C"], 7)),
            json!({"jsonrpc":"2.0","id":7,"method":"public/subscribe","params":{"channels":[
                "book.BTC-PERPETUAL.100ms","trades.BTC-PERPETUAL.100ms",
                "book.ETH-7MAY21-2100-C.100ms","trades.ETH-7MAY21-2100-C.100ms"]}})
        );
        assert_eq!(
            value(&Deribit.unsubscribe("BTC-PERPETUAL", None, 8)),
            json!({"jsonrpc":"2.0","id":8,"method":"public/unsubscribe","params":{"channels":["book.BTC-PERPETUAL.100ms"]}})
        );
        let greeting: Vec<_> = Deribit.greeting(1).iter().map(|text| value(text)).collect();
        assert_eq!(
            greeting,
            [
                json!({"jsonrpc":"2.0","id":1,"method":"public/set_heartbeat","params":{"interval":10}}),
                json!({"jsonrpc":"2.0","id":2,"method":"public/subscribe","params":{"channels":["platform_state"]}}),
            ]
        );
        assert_eq!(Deribit.subscribe_beside(&["BTC-PERPETUAL"], 9), None);
        assert_eq!(Deribit.snapshot("BTC-PERPETUAL"), None);
        assert_eq!(Deribit.listing().path, "/api/v2/public/get_instruments?currency=any&expired=false");
    }

    #[test]
    fn answers_are_told_apart() {
        let book = |kind: &str| format!(r#"{NOTIFICATION}book.BTC-PERPETUAL.100ms","data":{kind}}}}}"#);
        let data = || Answer::Data("BTC-PERPETUAL".into());
        assert_eq!(Deribit.understand(&book(r#"{"type":"snapshot","change_id":1}"#)), data());
        assert_eq!(Deribit.understand(&book(r#"{"change_id":1,"type":"snapshot"}"#)), data());
        assert_eq!(Deribit.understand(&book(r#"{"type":"change","change_id":2}"#)), Answer::Life);
        assert_eq!(Deribit.understand(&book(r#"{"change_id":2,"type":"change"}"#)), Answer::Life);
        let turned = r#"{"method":"subscription","jsonrpc":"2.0","params":{"data":{"type":"snapshot"},"channel":"book.BTC-PERPETUAL.100ms"}}"#;
        assert_eq!(Deribit.understand(turned), data());
        let trade = format!(r#"{NOTIFICATION}trades.BTC-PERPETUAL.100ms","data":[{{"type":"snapshot"}}]}}}}"#);
        assert_eq!(Deribit.understand(&trade), Answer::Life);
        let reply =
            |request, refusal: Option<&str>| Answer::Reply { request, key: None, refusal: refusal.map(Into::into) };
        let taken = r#"{"jsonrpc":"2.0","id":7,"result":["book.BTC-PERPETUAL.100ms"],"usIn":1,"usOut":2,"usDiff":1,"testnet":false}"#;
        assert_eq!(Deribit.understand(taken), reply(Some(7), None));
        let refused = r#"{"jsonrpc":"2.0","id":7,"error":{"code":13778,"message":"raw_subscriptions_not_available"}}"#;
        let said = r#"{"code":13778,"message":"raw_subscriptions_not_available"}"#;
        assert_eq!(Deribit.understand(refused), reply(Some(7), Some(said)));
    }

    #[test]
    fn a_test_request_is_answered_and_a_heartbeat_is_life() {
        let test = r#"{"jsonrpc":"2.0","method":"heartbeat","params":{"type":"test_request"}}"#;
        let Answer::Respond(text) = Deribit.understand(test) else { panic!("{test}") };
        assert_eq!(value(&text), json!({"jsonrpc":"2.0","id":0,"method":"public/test","params":{}}));
        let heartbeat = r#"{"jsonrpc":"2.0","method":"heartbeat","params":{"type":"heartbeat"}}"#;
        assert_eq!(Deribit.understand(heartbeat), Answer::Life);
    }

    /// What a leg sends now, what it notes left out.
    fn sent(leg: &mut Leg, now_ns: u64) -> Vec<String> {
        let text = |action| match action {
            Action::Send(text) => Some(text),
            Action::Connect | Action::Note(Note::Resubscribed(_)) => None,
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| leg.poll(now_ns)).filter_map(text).collect()
    }

    #[test]
    fn a_leg_subscribes_answers_and_begins_one_instrument_anew() {
        const SECOND: u64 = 1_000_000_000;
        let symbols = ["BTC-PERPETUAL".into(), "ETH-PERPETUAL".into()];
        let mut leg = Leg::new(&Deribit, &symbols, 0, 0);
        assert!(sent(&mut leg, 0).is_empty());
        leg.opened(1);
        let subscribed = Deribit.subscribe(&["BTC-PERPETUAL", "ETH-PERPETUAL"], 3);
        assert_eq!(sent(&mut leg, 1), Deribit.greeting(1));
        leg.message(2, r#"{"jsonrpc":"2.0","id":1,"result":"ok"}"#);
        leg.message(2, r#"{"jsonrpc":"2.0","id":2,"result":["platform_state"]}"#);
        assert_eq!(sent(&mut leg, SECOND), [subscribed]);
        leg.message(SECOND, r#"{"jsonrpc":"2.0","id":3,"result":["book.BTC-PERPETUAL.100ms"]}"#);
        for symbol in ["BTC-PERPETUAL", "ETH-PERPETUAL"] {
            leg.message(SECOND, &format!(r#"{NOTIFICATION}book.{symbol}.100ms{SNAPSHOT}}}}}}}"#));
        }
        leg.message(SECOND, r#"{"jsonrpc":"2.0","method":"heartbeat","params":{"type":"test_request"}}"#);
        assert_eq!(sent(&mut leg, 2 * SECOND), [Deribit::request("public/test", &json!({}), TEST_ID)]);
        leg.message(2 * SECOND, r#"{"jsonrpc":"2.0","id":0,"result":{"version":"1.2.26"}}"#);
        assert!(leg.resubscribe(2 * SECOND, "ETH-PERPETUAL"));
        assert_eq!(sent(&mut leg, 2 * SECOND), [Deribit.unsubscribe("ETH-PERPETUAL", None, 4)]);
        leg.message(2 * SECOND, r#"{"jsonrpc":"2.0","id":4,"result":["book.ETH-PERPETUAL.100ms"]}"#);
        assert_eq!(sent(&mut leg, 3 * SECOND), [Deribit.subscribe(&["ETH-PERPETUAL"], 5)]);
    }

    #[test]
    fn understanding_is_total() {
        let open = format!("{NOTIFICATION}book.");
        let instrument = format!("{NOTIFICATION}book.X.");
        for text in ["", "{", "[]", "null", "{}", NOTIFICATION, &open, &instrument, r#"{"id":-1}"#, r#"{"params":7}"#] {
            assert_eq!(Deribit.understand(text), Answer::Life, "{text}");
        }
    }

    #[test]
    fn assets_are_the_venues_own() {
        let one = |symbol: &str, kind: &str, base: &str, quote: &str| json!({"instrument_name":symbol,"kind":kind,"base_currency":base,"quote_currency":quote,"is_active":true});
        let body = json!({"jsonrpc":"2.0","result":[
            one("BTC-PERPETUAL", "future", "BTC", "USD"), one("BTC-25MAR22-50000-C", "option", "BTC", "BTC"),
            one("SOL_USDC-PERPETUAL", "future", "SOL", "USDC"), one("BTC_USDC", "spot", "BTC", "USDC"),
            one("BTC-FS-27SEP24_PERP", "future_combo", "BTC", "USD")]});
        let listed = Deribit.listed(&body.to_string()).unwrap();
        let pairs: Vec<_> = listed.iter().map(|one| (&*one.symbol, &*one.asset_0, &*one.asset_1)).collect();
        let right = [
            ("BTC-PERPETUAL", "BTC-PERPETUAL", "USD"),
            ("BTC-25MAR22-50000-C", "BTC-25MAR22-50000-C", "BTC"),
            ("SOL_USDC-PERPETUAL", "SOL_USDC-PERPETUAL", "USDC"),
            ("BTC_USDC", "BTC", "USDC"),
        ];
        assert_eq!(pairs, right);
        for (symbol, base, quote) in right {
            let by_name =
                super::super::message::assets(symbol).map(|(base, quote)| (base.into_owned(), quote.into_owned()));
            assert_eq!(by_name, Some((base.to_owned(), quote.to_owned())), "the name says the same");
        }
        assert!(Deribit.listed("{}").is_err());
    }

    #[test]
    fn steps_are_the_finest_that_are_told_and_a_closed_book_is_named() {
        let names = r#""kind":"option","base_currency":"BTC","quote_currency":"BTC""#;
        for (told, right) in [
            (
                r#""tick_size":0.5,"tick_size_steps":[],"min_trade_amount":10,"contract_size":10,"is_active":true,"state":"open""#,
                (Some("0.5"), Some("10"), None),
            ),
            (
                r#""tick_size":0.0005,"tick_size_steps":[{"above_price":120,"tick_size":0.001}],"min_trade_amount":0.1,"contract_size":1.0,"is_active":true"#,
                (Some("0.0005"), Some("0.1"), None),
            ),
            (
                r#""tick_size":0.001,"tick_size_steps":[{"above_price":1,"tick_size":5e-05}],"contract_size":1e1"#,
                (Some("5e-05"), Some("1e1"), None),
            ),
            (r#""is_active":false"#, (None, None, Some("inactive"))),
            (r#""is_active":false,"state":"settlement","tick_size_steps":7"#, (None, None, Some("settlement"))),
        ] {
            let body = format!(r#"{{"result":[{{"instrument_name":"X",{names},{told}}}]}}"#);
            let [one] = &Deribit.listed(&body).unwrap()[..] else { panic!("{body}") };
            assert_eq!(
                (one.price_step.as_deref(), one.quantity_step.as_deref(), one.halted.as_deref()),
                right,
                "{told}"
            );
        }
    }
}
