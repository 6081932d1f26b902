//! Live connections: subscriptions to `books`, `trades` and `status` of the public WebSocket. The venue's rules:
//!
//! 1. A subscription to `books` brings the snapshot; there is no other way to it.
//! 2. Each channel of a request is answered on its own, with the request's `id`. One that does not exist is answered with an
//!    error that names it in its text; the others of the request hold.
//! 3. A connection that was silent for 30 seconds ends. `ping` is answered with `pong`.
//! 4. A connection takes 480 subscriptions and endings an hour, and 64 KB of channels in one request.
//! 5. `notice` with code 64008 says that the connection ends within a minute.
//!
//! The venue lists each kind of instruments on its own, and options by what they are about.
//!
//! Never: a request that the venue would cut.

use super::message::{self, Envelope};
use crate::{
    live::protocol::{Answer, Listed, Protocol, RestRequest, Terms, halted},
    venue_feed::{
        self, Undecodable, excerpt,
        number::{token, told},
    },
};
use market::Venue;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{borrow::Cow, collections::BTreeSet};

const VENUE: Venue = Venue::Okx;

const TERMS: Terms = Terms {
    socket_url: "wss://ws.okx.com:8443/ws/v5/public",
    rest_url: "https://www.okx.com",
    // Rule 3.
    silence_ms: 30_000,
    answer_ms: 10_000,
    // Rule 1.
    data_ms: 10_000,
    data_each: true,
    // No number is documented for a second; faster than this is of no use.
    pace_ms: 350,
    // Rule 4, with the longest symbols that are taken at all.
    batch: 150,
    instruments_max: 1_500,
    // The list of instruments is all that is asked by REST.
    weight_per_minute: 60,
    // Rule 3, with time for the answer.
    ping_ms: 20_000,
    // Rule 4, with a sixth to spare for an hour that the venue counts otherwise.
    requests_per_hour: Some(400),
    // Code 60014.
    too_often: Some("Requests too frequent"),
};

/// The channel of books.
const BOOKS: &str = "books";

/// The start of a message of books, as the venue writes it; the instrument follows.
const BOOK: &str = r#"{"arg":{"channel":"books","instId":""#;

/// What follows the instrument in a snapshot.
const SNAPSHOT: &str = r#"},"action":"snapshot""#;

/// What follows the instrument in an update.
const UPDATE: &str = r#"},"action":"update""#;

/// The start of other messages that say nothing but that the connection lives.
const DATA: [&str; 2] = [r#"{"arg":{"channel":"trades""#, r#"{"arg":{"channel":"status""#];

/// The code of the notice that the connection ends.
const LEAVING: &str = "64008";

/// OKX v5.
#[derive(Clone, Copy, Debug, Default)]
pub struct Okx;

impl Okx {
    fn request(op: &str, args: &[Value], id: u64) -> String {
        json!({ "id": id.to_string(), "op": op, "args": args }).to_string()
    }
}

impl Protocol for Okx {
    fn venue(&self) -> Venue {
        VENUE
    }

    fn terms(&self) -> &'static Terms {
        &TERMS
    }

    fn key<'a>(&self, symbol: &'a str) -> Cow<'a, str> {
        symbol.into()
    }

    /// Books first: the first of them says how an instrument is ordered.
    fn subscribe(&self, symbols: &[&str], id: u64) -> String {
        let arg = |channel| move |symbol: &&str| json!({ "channel": channel, "instId": symbol });
        let args: Vec<_> = symbols.iter().map(arg(BOOKS)).chain(symbols.iter().map(arg("trades"))).collect();
        Self::request("subscribe", &args, id)
    }

    fn greeting(&self, id: u64) -> Vec<String> {
        vec![Self::request("subscribe", &[json!({ "channel": "status" })], id)]
    }

    fn ping(&self, _id: u64) -> Option<String> {
        Some("ping".to_owned())
    }

    fn unsubscribe(&self, symbol: &str, _handle: Option<&str>, id: u64) -> String {
        Self::request("unsubscribe", &[json!({ "channel": BOOKS, "instId": symbol })], id)
    }

    fn subscribe_beside(&self, _symbols: &[&str], _id: u64) -> Option<String> {
        None
    }

    fn understand<'a>(&self, text: &'a str) -> Answer<'a> {
        if DATA.iter().any(|start| text.starts_with(start)) || text == "pong" {
            return Answer::Life;
        }
        if let Some((symbol, rest)) = text.strip_prefix(BOOK).and_then(|rest| rest.split_once('"')) {
            if rest.starts_with(UPDATE) {
                return Answer::Life;
            }
            if rest.starts_with(SNAPSHOT) {
                return Answer::Data(symbol.into());
            }
        }
        let Ok(envelope) = serde_json::from_str::<Envelope<'a>>(text) else { return Answer::Life };
        let request = envelope.id.as_deref().and_then(|id| id.parse().ok());
        let books = envelope.arg.filter(|arg| arg.channel == BOOKS).and_then(|arg| arg.instrument);
        match (envelope.event.as_deref(), books) {
            (None, Some(symbol)) if envelope.action.as_deref() == Some("snapshot") => Answer::Data(symbol),
            (Some("subscribe" | "unsubscribe"), Some(symbol)) => {
                Answer::Reply { request, key: Some(symbol), refusal: None }
            }
            (Some("error"), _) => {
                let said = envelope.msg.as_deref().unwrap_or(text);
                let key = named(said).map(|symbol| symbol.to_owned().into());
                Answer::Reply { request, key, refusal: Some(excerpt(said)) }
            }
            (Some("notice"), _) if envelope.code.map(token) == Some(LEAVING) => Answer::Leaving,
            _ => Answer::Life,
        }
    }

    /// Rule 1.
    fn snapshot(&self, _symbol: &str) -> Option<RestRequest> {
        None
    }

    fn listing(&self) -> RestRequest {
        instruments("SPOT")
    }

    fn listings(&self, symbols: &[Box<str>]) -> Vec<RestRequest> {
        let kinds: BTreeSet<_> = symbols.iter().map(|symbol| kind(symbol)).collect();
        kinds.iter().map(|kind| instruments(kind)).collect()
    }

    fn listed(&self, body: &str) -> Result<Vec<Listed>, Undecodable> {
        let instruments: Instruments<'_> = venue_feed::json(VENUE, body)?;
        Ok(instruments.data.into_iter().filter_map(listed).collect())
    }
}

fn instruments(kind: &str) -> RestRequest {
    RestRequest { path: format!("/api/v5/public/instruments?instType={kind}"), weight: 1 }
}

/// The kind of an instrument as a list of its kind is asked for.
fn kind(symbol: &str) -> Cow<'static, str> {
    let parts: Vec<&str> = symbol.split('-').collect();
    match &*parts {
        [base, quote, _, _, "C" | "P"] => {
            let family: String = form_urlencoded::byte_serialize(format!("{base}-{quote}").as_bytes()).collect();
            format!("OPTION&instFamily={family}").into()
        }
        [_, _, "SWAP"] => "SWAP".into(),
        [_, _, _] => "FUTURES".into(),
        _ => "SPOT".into(),
    }
}

/// Rule 2: the instrument that an error names.
fn named(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("instId:")?;
    let part_of_symbol = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    let end = rest.find(|character| !part_of_symbol(character)).unwrap_or(rest.len());
    rest.get(..end).filter(|symbol| !symbol.is_empty())
}

/// Only spot has assets of its own in the venue's words.
fn listed(instrument: Instrument<'_>) -> Option<Listed> {
    let (asset_0, asset_1) = match (instrument.base.is_empty(), instrument.quote.is_empty()) {
        (false, false) => (instrument.base, instrument.quote),
        _ => message::assets(&instrument.symbol)?,
    };
    Some(Listed {
        symbol: (&*instrument.symbol).into(),
        asset_0: (*asset_0).into(),
        asset_1: (*asset_1).into(),
        price_step: told(instrument.price_step),
        quantity_step: told(instrument.quantity_step),
        halted: halted(instrument.state, "live"),
    })
}

#[derive(Deserialize)]
struct Instruments<'a> {
    #[serde(borrow)]
    data: Vec<Instrument<'a>>,
}

#[derive(Deserialize)]
struct Instrument<'a> {
    #[serde(borrow, rename = "instId")]
    symbol: Cow<'a, str>,
    /// Empty for contracts.
    #[serde(borrow, rename = "baseCcy", default)]
    base: Cow<'a, str>,
    #[serde(borrow, rename = "quoteCcy", default)]
    quote: Cow<'a, str>,
    #[serde(borrow, rename = "tickSz", default)]
    price_step: Option<&'a RawValue>,
    /// In the base, or in contracts, as the book has it.
    #[serde(borrow, rename = "lotSz", default)]
    quantity_step: Option<&'a RawValue>,
    #[serde(borrow, default)]
    state: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::leg::{Action, Leg, Note};

    #[test]
    fn requests_are_the_documented_ones() {
        let value = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        assert_eq!(
            value(Okx.subscribe(&["BTC-USDT", "BTC-USDT-SWAP"], 7)),
            json!({"id":"7","op":"subscribe","args":[
                {"channel":"books","instId":"BTC-USDT"},{"channel":"books","instId":"BTC-USDT-SWAP"},
                {"channel":"trades","instId":"BTC-USDT"},{"channel":"trades","instId":"BTC-USDT-SWAP"}]})
        );
        assert_eq!(
            value(Okx.unsubscribe("BTC-USDT", None, 8)),
            json!({"id":"8","op":"unsubscribe","args":[{"channel":"books","instId":"BTC-USDT"}]})
        );
        let greeting: Vec<_> = Okx.greeting(1).into_iter().map(value).collect();
        assert_eq!(greeting, [json!({"id":"1","op":"subscribe","args":[{"channel":"status"}]})]);
        assert_eq!(Okx.ping(9).as_deref(), Some("ping"));
        assert_eq!(Okx.subscribe_beside(&["BTC-USDT"], 9), None);
        let symbols =
            ["BTC-USDT", "BTC-USDT-SWAP", "ETH-USDT", "BTC-USD-210924", "BTC-USD-210924-66000-C"].map(Box::from);
        let paths: Vec<_> = Okx.listings(&symbols).into_iter().map(|request| request.path).collect();
        let kinds = ["FUTURES", "OPTION&instFamily=BTC-USD", "SPOT", "SWAP"];
        assert_eq!(paths, kinds.map(|kind| format!("/api/v5/public/instruments?instType={kind}")));
        assert_eq!(Okx.listings(&symbols[..1]), [Okx.listing()]);
        assert_eq!(Okx.snapshot("BTC-USDT"), None);
    }

    #[test]
    fn a_request_is_never_longer_than_the_venue_takes() {
        // An instrument that is configured has no more; only on chains names are longer.
        let symbol = "X".repeat(128);
        let most = Okx.subscribe(&vec![&*symbol; TERMS.batch], u64::MAX);
        assert!(most.len() <= 64 << 10, "{}", most.len());
        const { assert!(TERMS.ping_ms + 5_000 <= TERMS.silence_ms) };
    }

    #[test]
    fn answers_are_told_apart() {
        let reply =
            |request, key: &'static str| Answer::Reply { request, key: Some(Cow::Borrowed(key)), refusal: None };
        for (text, right) in [
            (
                r#"{"id":"7","event":"subscribe","arg":{"channel":"books","instId":"BTC-USDT"},"connId":"a4d3ae55"}"#,
                reply(Some(7), "BTC-USDT"),
            ),
            (r#"{"event":"subscribe","arg":{"channel":"books","instId":"BTC-USDT"}}"#, reply(None, "BTC-USDT")),
            (
                r#"{"id":"8","event":"unsubscribe","arg":{"channel":"books","instId":"BTC-USDT"}}"#,
                reply(Some(8), "BTC-USDT"),
            ),
            (r#"{"id":"7","event":"subscribe","arg":{"channel":"trades","instId":"BTC-USDT"}}"#, Answer::Life),
            (r#"{"id":"1","event":"subscribe","arg":{"channel":"status"}}"#, Answer::Life),
            (
                r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"snapshot","data":[{}]}"#,
                Answer::Data("BTC-USDT".into()),
            ),
            (
                r#"{"action":"snapshot","arg":{"instId":"BTC-USDT","channel":"books"},"data":[{}]}"#,
                Answer::Data("BTC-USDT".into()),
            ),
            (r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update","data":[{}]}"#, Answer::Life),
            (r#"{"arg":{"channel":"books5","instId":"BTC-USDT"},"action":"snapshot","data":[{}]}"#, Answer::Life),
            (r#"{"arg":{"channel":"trades","instId":"BTC-USDT"},"data":[{}]}"#, Answer::Life),
            (
                r#"{"event":"notice","code":"64008","msg":"The connection will soon be closed for a service upgrade. Please reconnect.","connId":"a4d3ae55"}"#,
                Answer::Leaving,
            ),
            (r#"{"event":"notice","code":"1","msg":"hello"}"#, Answer::Life),
            ("pong", Answer::Life),
        ] {
            assert_eq!(Okx.understand(text), right, "{text}");
        }
    }

    #[test]
    fn a_refusal_names_its_instrument_where_the_venue_does() {
        let one = r#"{"id":"7","event":"error","code":"60018","msg":"Wrong URL or channel:books,instId:FOO-BAR doesn't exist. Please use the correct URL, channel and parameters referring to API document.","connId":"a4d3ae55"}"#;
        let Answer::Reply { request, key, refusal } = Okx.understand(one) else { panic!("{one}") };
        assert_eq!((request, key.as_deref()), (Some(7), Some("FOO-BAR")));
        assert!(refusal.is_some_and(|said| said.starts_with("Wrong URL or channel:books")));
        let all =
            r#"{"event":"error","code":"60012","msg":"Invalid request: {\"op\": \"subscribe\"}","connId":"a4d3ae55"}"#;
        let Answer::Reply { request: None, key: None, refusal: Some(said) } = Okx.understand(all) else {
            panic!("{all}")
        };
        assert!(said.starts_with("Invalid request"));
    }

    #[test]
    fn understanding_is_total() {
        for text in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            "ping",
            BOOK,
            r#"{"arg":{"channel":"books","instId":"X""#,
            r#"{"event":1}"#,
            r#"{"arg":null}"#,
        ] {
            assert_eq!(Okx.understand(text), Answer::Life, "{text}");
        }
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
    fn a_leg_subscribes_and_begins_one_instrument_anew() {
        const SECOND: u64 = 1_000_000_000;
        let symbols = ["BTC-USDT".into(), "ETH-USDT".into()];
        let mut leg = Leg::new(&Okx, &symbols, 0, 0);
        assert!(sent(&mut leg, 0).is_empty());
        leg.opened(1);
        assert_eq!(sent(&mut leg, 1), Okx.greeting(1));
        assert_eq!(sent(&mut leg, SECOND), [Okx.subscribe(&["BTC-USDT", "ETH-USDT"], 2)]);
        // One answer without the request's id among them.
        for (id, channel, symbol) in [
            (r#""id":"2","#, "books", "BTC-USDT"),
            ("", "books", "ETH-USDT"),
            (r#""id":"2","#, "trades", "BTC-USDT"),
            (r#""id":"2","#, "trades", "ETH-USDT"),
        ] {
            let arg = format!(r#"{{"channel":"{channel}","instId":"{symbol}"}}"#);
            leg.message(SECOND, &format!(r#"{{{id}"event":"subscribe","arg":{arg}}}"#));
        }
        for symbol in ["BTC-USDT", "ETH-USDT"] {
            leg.message(SECOND, &format!(r#"{BOOK}{symbol}"}},"action":"snapshot","data":[]}}"#));
        }
        assert!(leg.resubscribe(2 * SECOND, "ETH-USDT"));
        assert_eq!(sent(&mut leg, 2 * SECOND), [Okx.unsubscribe("ETH-USDT", None, 3)]);
        leg.message(2 * SECOND, r#"{"id":"3","event":"unsubscribe","arg":{"channel":"books","instId":"ETH-USDT"}}"#);
        assert_eq!(sent(&mut leg, 3 * SECOND), [Okx.subscribe(&["ETH-USDT"], 4)]);
        leg.message(3 * SECOND, r#"{"id":"4","event":"subscribe","arg":{"channel":"books","instId":"ETH-USDT"}}"#);
        leg.message(3 * SECOND, &format!(r#"{BOOK}ETH-USDT"}},"action":"snapshot","data":[]}}"#));
        assert_eq!(sent(&mut leg, 23 * SECOND), ["ping"]);
    }

    #[test]
    fn a_listing_has_the_venues_own_assets_or_those_of_the_name() {
        let body = r#"{"code":"0","data":[
            {"instId":"ABC-XYZ","baseCcy":"ABC","quoteCcy":"XYZ","instType":"SPOT","tickSz":"0.1","lotSz":"0.00000001","minSz":"0.00001","state":"live","expTime":""},
            {"instId":"BTC-USD-210924-66000-C","baseCcy":"","quoteCcy":"","settleCcy":"BTC","instType":"OPTION","tickSz":"","state":"preopen"},
            {"instId":"WHAT","baseCcy":"","quoteCcy":""}],"msg":""}"#;
        let of = |symbol: &str, base: &str, quote: &str| Listed {
            symbol: symbol.into(),
            asset_0: base.into(),
            asset_1: quote.into(),
            price_step: None,
            quantity_step: None,
            halted: None,
        };
        let (price_step, quantity_step) = (Some("0.1".into()), Some("0.00000001".into()));
        let option = of("BTC-USD-210924-66000-C", "BTC-USD-210924-66000-C", "BTC");
        let right = [
            Listed { price_step, quantity_step, ..of("ABC-XYZ", "ABC", "XYZ") },
            Listed { halted: Some("preopen".into()), ..option },
        ];
        assert_eq!(Okx.listed(body).unwrap(), right);
        assert!(Okx.listed("{}").is_err());
    }
}
