//! What a Binance connection is subscribed to, and what may be asked on it.
//!
//! Never: an error that the venue words otherwise, where its words are published.

use crate::simulator::serve::{
    bus::{Bus, Subscriptions},
    outbox::End,
};
use market::Venue;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Streams of one connection, at most.
const STREAMS_MAX: usize = 1_024;
/// The span that requests are counted over.
const SECOND: Duration = Duration::from_secs(1);
/// The close code of a broken rule.
const POLICY: u16 = 1008;
/// Characters of a request's id, if it is text.
const ID_CHARS_MAX: usize = 36;
/// Streams that exist for a symbol, before any `_` or `@` that follows.
const KINDS: [&str; 14] = [
    "depth",
    "depth5",
    "depth10",
    "depth20",
    "trade",
    "aggTrade",
    "bookTicker",
    "ticker",
    "miniTicker",
    "avgPrice",
    "kline",
    "continuousKline",
    "markPrice",
    "forceOrder",
];

/// Messages that a connection may send per second; the venue closes one that sends more.
const fn requests_max(venue: Venue) -> u32 {
    match venue {
        Venue::BinanceUsdm => 10,
        _ => 5,
    }
}

/// The streams of a connection.
#[derive(Debug)]
pub(in crate::simulator::serve) struct Streams {
    /// By what they carry, each under the names that were asked for.
    by_key: BTreeMap<String, Vec<String>>,
    count: usize,
    combined: bool,
    second: Instant,
    requests: u32,
}

/// What a stream carries, whichever speed its name asks for.
pub(super) fn key(stream: &str) -> String {
    match stream.split_once('@') {
        Some((symbol, kind)) if super::is_depth(kind) => format!("{symbol}@depth"),
        _ => stream.to_owned(),
    }
}

/// `<symbol>@<kind>…`, with a kind that the venue has.
fn is_stream(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'@' | b'!');
    let kind = |kind: &str| KINDS.contains(&kind.split(['@', '_']).next().unwrap_or_default());
    let all_markets = |kind: &str| matches!(kind, "arr");
    name.bytes().all(plain)
        && name.split_once('@').is_some_and(|(symbol, rest)| {
            if symbol.starts_with('!') { all_markets(rest) } else { !symbol.is_empty() && kind(rest) }
        })
}

impl Streams {
    /// Those in the path of a connection. Names that are no streams are never served.
    pub(in crate::simulator::serve) fn new(combined: bool, names: &[&str]) -> Self {
        let mut streams = Self { by_key: BTreeMap::new(), count: 0, combined, second: Instant::now(), requests: 0 };
        for name in names.iter().take(STREAMS_MAX) {
            streams.add(name);
        }
        streams
    }

    fn add(&mut self, name: &str) {
        let names = self.by_key.entry(key(name)).or_default();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
            self.count += 1;
        }
    }

    fn remove(&mut self, name: &str) {
        let key = key(name);
        let Some(names) = self.by_key.get_mut(&key) else { return };
        let before = names.len();
        names.retain(|known| known != name);
        self.count -= before - names.len();
        if names.is_empty() {
            self.by_key.remove(&key);
        }
    }

    pub(in crate::simulator::serve) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_key.values().flatten().map(String::as_str)
    }

    pub(in crate::simulator::serve) const fn len(&self) -> usize {
        self.count
    }

    /// The names under which a stream is subscribed to.
    pub(super) fn named(&self, key: &str) -> &[String] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether messages come in an envelope.
    pub(super) const fn combined(&self) -> bool {
        self.combined
    }

    /// Counts a message from the connection; false when it sends too many.
    fn counts(&mut self, max: u32) -> bool {
        if self.second.elapsed() >= SECOND {
            self.second = Instant::now();
            self.requests = 0;
        }
        self.requests += 1;
        self.requests <= max
    }
}

/// A request as far as it can be read.
#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    method: Option<Value>,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    id: Option<Value>,
}

/// The code and the words of a refusal.
struct Refused(u8, String);

fn invalid(words: &str) -> Refused {
    Refused(2, format!("Invalid request: {words}"))
}

/// A text message, or a ping where there is no text.
pub(in crate::simulator::serve) fn receive(bus: &mut Bus, venue: Venue, number: u64, text: Option<&str>) {
    let Some(connection) = bus.connection(venue, number) else { return };
    let Subscriptions::Binance(streams) = &mut connection.subscriptions else { return };
    if !streams.counts(requests_max(venue)) {
        connection.outbox.end(End::Close(POLICY, "Too many requests"));
        return;
    }
    let Some(text) = text else { return };
    let (id, result) = match serde_json::from_str::<Request>(text) {
        Ok(request) => answer(streams, &request),
        Err(error) => {
            let words = format!("Invalid JSON: {error}");
            (Value::Null, Err(Refused(3, words)))
        }
    };
    let reply = match result {
        Ok(result) => format!("{{\"result\":{result},\"id\":{id}}}"),
        Err(Refused(code, words)) => {
            format!("{{\"error\":{{\"code\":{code},\"msg\":{}}},\"id\":{id}}}", Value::String(words))
        }
    };
    bus.reply(venue, number, reply);
}

fn answer(streams: &mut Streams, request: &Request) -> (Value, Result<Value, Refused>) {
    let id = request.id.clone().unwrap_or(Value::Null);
    let fits = match &id {
        Value::Null => true,
        Value::Number(number) => number.is_i64(),
        Value::String(text) => {
            text.len() <= ID_CHARS_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        }
        _ => false,
    };
    if !fits {
        let refused = invalid("request ID must be an unsigned integer");
        return (Value::Null, Err(refused));
    }
    let result = perform(streams, request);
    (id, result)
}

fn perform(streams: &mut Streams, request: &Request) -> Result<Value, Refused> {
    let method = match &request.method {
        Some(Value::String(method)) => method.as_str(),
        Some(other) => return Err(invalid(&format!("invalid type: {other}, expected a string"))),
        None => return Err(invalid("missing field `method`")),
    };
    let params = request.params.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let names = || -> Result<Vec<&str>, Refused> {
        let name = |value| -> Result<&str, Refused> {
            Value::as_str(value).filter(|name| is_stream(name)).ok_or_else(|| invalid("invalid stream"))
        };
        if params.is_empty() {
            return Err(invalid("missing field `params`"));
        }
        params.iter().map(name).collect()
    };
    match method {
        "SUBSCRIBE" => {
            let names = names()?;
            if streams.len() + names.len() > STREAMS_MAX {
                return Err(invalid("too many parameters"));
            }
            names.into_iter().for_each(|name| streams.add(name));
            Ok(Value::Null)
        }
        "UNSUBSCRIBE" => {
            names()?.into_iter().for_each(|name| streams.remove(name));
            Ok(Value::Null)
        }
        "LIST_SUBSCRIPTIONS" => Ok(streams.names().map(Value::from).collect()),
        "SET_PROPERTY" => match (property(params)?, params.get(1)) {
            (_, Some(Value::Bool(combined))) => {
                streams.combined = *combined;
                Ok(Value::Null)
            }
            (_, _) => Err(Refused(1, "Invalid value type: expected Boolean".to_owned())),
        },
        "GET_PROPERTY" => property(params).map(|()| Value::Bool(streams.combined)),
        other => Err(invalid(&format!(
            "unknown variant `{other}`, expected one of `SUBSCRIBE`, `UNSUBSCRIBE`, `LIST_SUBSCRIPTIONS`, \
            `SET_PROPERTY`, `GET_PROPERTY`"
        ))),
    }
}

/// The only property is `combined`.
fn property(params: &[Value]) -> Result<(), Refused> {
    match params.first() {
        Some(Value::String(name)) if name == "combined" => Ok(()),
        Some(Value::String(_)) => Err(Refused(0, "Unknown property".to_owned())),
        _ => Err(invalid("property name must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_streams_that_exist_are_taken() {
        for name in ["btcusdt@depth@100ms", "btcusdt@trade", "1inchusdt@kline_1m", "btcusdt@depth20", "!ticker@arr"] {
            assert!(is_stream(name), "{name}");
        }
        for name in ["btcusdt", "@depth", "btcusdt@nonsense", "not asdfads", "btcusdt@"] {
            assert!(!is_stream(name), "{name}");
        }
    }

    #[test]
    fn a_stream_has_one_key_at_either_speed() {
        let mut streams = Streams::new(true, &["btcusdt@depth", "btcusdt@depth@100ms", "btcusdt@depth@100ms"]);
        assert_eq!(streams.len(), 2);
        assert_eq!(streams.named(&key("btcusdt@depth@1000ms")), ["btcusdt@depth", "btcusdt@depth@100ms"]);
        streams.remove("btcusdt@depth");
        streams.remove("btcusdt@depth");
        assert_eq!(streams.names().collect::<Vec<_>>(), ["btcusdt@depth@100ms"]);
        streams.remove("btcusdt@depth@100ms");
        assert_eq!(streams.len(), 0);
    }
}
