//! Deribit's JSON-RPC over WebSocket and its instrument list.
//!
//! A book's whole depth is served; `raw`, `agg2` and `100ms` tell every change at once, and `raw` needs no login. Recorded
//! frames are passed on, under the interval that was asked for.
//!
//! Never: a change whose verb the kept book does not bear out.

use super::{
    bus::Bus,
    dialect::{Act, Carries, Dialect, Levels, Piece, Said, Told, Trade, Unread, View, replaced, step},
    hall::{Instrument, Stock},
    http::{Reply, unix_ms, unix_ns},
    reference::{Change, Level, PriceKey, Side, is_zero},
    session::{Pulse, Session},
};
use crate::simulator::SimInstrument;
use market::Venue;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::Write,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The intervals of a channel.
const INTERVALS: [&str; 3] = ["raw", "100ms", "agg2"];
/// Heartbeats cannot be asked for more often, in seconds.
const HEARTBEAT_S_MIN: u64 = 10;
/// The close code for a connection that answers no test.
const UNANSWERED: u16 = 1000;
const NS_PER_MS: u64 = 1_000_000;
/// What the venue says of itself.
const VERSION: &str = "1.2.26";
/// Currencies that spot pairs and linear contracts are quoted in.
const QUOTES: [&str; 5] = ["USDC", "USDT", "USD", "EURR", "BTC"];
/// The code and the words of parameters that are wrong.
const INVALID_PARAMS: (i32, &str) = (-32_602, "Invalid params");

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<Notified<'a>>,
}

#[derive(Deserialize)]
struct Notified<'a> {
    #[serde(borrow, default)]
    channel: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BookData<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    change_id: u64,
    #[serde(default)]
    prev_change_id: Option<u64>,
    #[serde(borrow)]
    bids: Vec<[&'a RawValue; 3]>,
    #[serde(borrow)]
    asks: Vec<[&'a RawValue; 3]>,
}

impl<'a> BookData<'a> {
    /// None when a price is no number.
    fn levels(&self) -> Option<Levels<'a>> {
        let mut changes = Vec::with_capacity(self.asks.len() + self.bids.len());
        for (side, levels) in [(Side::Bid, &self.bids), (Side::Ask, &self.asks)] {
            for [verb, price, quantity] in levels {
                let (price, quantity) = (price.get(), quantity.get());
                let quantity = if verb.get() == "\"delete\"" { "0.0" } else { quantity };
                changes.push(Change { side, key: PriceKey::read(price)?, price, quantity });
            }
        }
        Some(Levels { changes, id: Some(self.change_id), previous: self.prev_change_id, checksum: None })
    }
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow)]
    trade_id: &'a str,
    #[serde(borrow)]
    price: &'a RawValue,
    #[serde(borrow)]
    amount: &'a RawValue,
    #[serde(borrow)]
    direction: &'a str,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Value,
    method: String,
    #[serde(default)]
    params: Value,
}

/// The venue.
#[derive(Debug, Default)]
pub(super) struct Deribit {
    /// Kinds of channels besides books and trades that a capture has.
    others: BTreeSet<String>,
}

/// Kind, instrument and interval of a channel: `book.BTC_USDC.100ms`. Books with a depth of their own are not served.
fn parts(channel: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = channel.split_once('.')?;
    let (symbol, interval) = rest.rsplit_once('.')?;
    (!symbol.contains('.')).then_some((kind, symbol, interval))
}

impl Dialect for Deribit {
    fn venue(&self) -> Venue {
        Venue::Deribit
    }

    fn addresses(&self) -> (&'static [&'static str], &'static str) {
        (&["/ws/api/v2"], "/api/v2")
    }

    fn open(&self, path: &str, _query: &str) -> Option<Session> {
        matches!(path, "/ws/api/v2" | "/ws/api/v2/").then(|| Session::at(0))
    }

    fn rest(&mut self, path: &str, query: &str, stock: &Stock, _bus: &mut Bus) -> Reply {
        let begun = unix_ns();
        let answer = |result: &Value| {
            let body = format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},{}}}", tail(begun));
            Reply::json(200, body)
        };
        let parameter = |name: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
        };
        match path {
            "/api/v2/public/get_time" => answer(&Value::from(unix_ms())),
            "/api/v2/public/test" => answer(&json!({"version": VERSION})),
            "/api/v2/public/get_instruments" => match parameter("currency") {
                Some(currency) => answer(&instruments(&currency, parameter("kind").as_deref(), stock)),
                None => refused(400, INVALID_PARAMS, Some("currency"), begun),
            },
            _ => refused(400, (-32_601, "Method not found"), None, begun),
        }
    }

    fn failed(&self, status: u16) -> Reply {
        match status {
            429 => refused(status, (10_028, "too_many_requests"), None, unix_ns()),
            _ => refused(status, (11_094, "internal_server_error"), None, unix_ns()),
        }
    }

    fn list(&self, symbol: &str) -> Option<SimInstrument> {
        let listed = |base: &str, quote: &str| SimInstrument {
            venue: Venue::Deribit,
            symbol: symbol.to_owned(),
            asset_0: base.to_owned(),
            asset_1: quote.to_owned(),
            price_decimals: 0,
            quantity_decimals: 0,
        };
        // `BTC_USDC`, `SOL_USDC-PERPETUAL`; `BTC-PERPETUAL` is quoted in dollars, `ETH-7MAY21-2100-C` in its base.
        let (pair, contract) = symbol.split_once('-').map_or((symbol, None), |(pair, rest)| (pair, Some(rest)));
        Some(match (pair.split_once('_'), contract) {
            (Some((base, quote)), _) => listed(base, quote),
            (None, Some(contract)) if contract.contains('-') => listed(pair, pair),
            (None, Some(_)) => listed(pair, "USD"),
            (None, None) => return None,
        })
    }

    fn carries(&self, channel: &str) -> Carries {
        match parts(channel) {
            Some(("book", _, interval)) if INTERVALS.contains(&interval) => Carries::Book,
            Some(("trades", _, interval)) if INTERVALS.contains(&interval) => Carries::Trades,
            _ => Carries::Other,
        }
    }

    /// As the venue's JSON has it: always with a point, `12.0`.
    fn spell<'a>(&self, decimal: &'a str) -> Cow<'a, str> {
        if decimal.contains('.') { Cow::Borrowed(decimal) } else { Cow::Owned(format!("{decimal}.0")) }
    }

    fn read<'a>(&mut self, _conn: &Arc<str>, text: &'a str) -> Result<Option<Piece<'a>>, Unread> {
        let frame: Frame<'a> = serde_json::from_str(text).map_err(|_| Unread)?;
        if frame.method.as_deref() != Some("subscription") {
            return Ok(None);
        }
        let Some(Notified { channel: Some(channel), data: Some(data) }) = frame.params else { return Err(Unread) };
        let Some((kind, symbol, _)) = parts(&channel) else { return Ok(None) };
        let symbol = Cow::Owned(symbol.to_owned());
        let said = match self.carries(&channel) {
            Carries::Book => {
                let book: BookData<'a> = serde_json::from_str(data.get()).map_err(|_| Unread)?;
                let levels = book.levels().ok_or(Unread)?;
                if book.kind == "snapshot" { Said::Snapshot(levels) } else { Said::Update(levels) }
            }
            Carries::Trades => {
                let trades: Vec<TradeData<'a>> = serde_json::from_str(data.get()).map_err(|_| Unread)?;
                let trade = trades.first().ok_or(Unread)?;
                let digits = trade.trade_id.trim_start_matches(|byte: char| !byte.is_ascii_digit());
                Said::Trade(Trade {
                    id: digits.parse().map_err(|_| Unread)?,
                    sold: trade.direction == "sell",
                    price: trade.price.get(),
                    quantity: trade.amount.get(),
                })
            }
            Carries::Other => {
                if !self.others.contains(kind) {
                    self.others.insert(kind.to_owned());
                }
                Said::Other
            }
        };
        Ok(Some(Piece { channel, symbol, text, what: said }))
    }

    fn receive(&mut self, session: &mut Session, stock: &Stock, text: &str) -> Vec<Act> {
        let begun = unix_ns();
        let Ok(request) = serde_json::from_str::<Request>(text) else {
            return vec![error(&Value::Null, (-32_700, "Parse error"), None, begun)];
        };
        let Request { id, method, params } = &request;
        let done = |result: Value| vec![result_of(id, &result, begun)];
        match method.as_str() {
            "public/subscribe" => self.subscribe(session, stock, &request, begun),
            "public/unsubscribe" => match channels(params) {
                Some(channels) => {
                    let gone = session.remove(|known| channels.iter().any(|channel| **channel == *known.name));
                    done(gone.iter().map(|gone| Value::from(&*gone.name)).collect())
                }
                None => vec![error(id, INVALID_PARAMS, Some("channels"), begun)],
            },
            "public/unsubscribe_all" => {
                session.remove(|_| true);
                done("ok".into())
            }
            "public/set_heartbeat" => match params.get("interval").and_then(Value::as_u64) {
                Some(seconds) if seconds >= HEARTBEAT_S_MIN => {
                    let every = Duration::from_secs(seconds);
                    session.marks.pulse = Some(Pulse { every, due: Instant::now() + every, unanswered: false });
                    done("ok".into())
                }
                _ => vec![error(id, INVALID_PARAMS, Some("interval"), begun)],
            },
            "public/disable_heartbeat" => {
                session.marks.pulse = None;
                done("ok".into())
            }
            "public/test" => {
                if let Some(pulse) = &mut session.marks.pulse {
                    pulse.unanswered = false;
                }
                vec![Act::Pong(answer(id, &json!({"version": VERSION}), begun))]
            }
            "public/hello" => done(json!({"version": VERSION})),
            "public/get_time" => done(unix_ms().into()),
            "public/get_instruments" => match params.get("currency").and_then(Value::as_str) {
                Some(currency) => done(instruments(currency, params.get("kind").and_then(Value::as_str), stock)),
                None => vec![error(id, INVALID_PARAMS, Some("currency"), begun)],
            },
            _ => vec![error(id, (-32_601, "Method not found"), None, begun)],
        }
    }

    fn beat(&mut self, session: &mut Session, _stock: &Stock) -> Vec<Act> {
        let now = Instant::now();
        let Some(pulse) = session.marks.pulse.as_mut().filter(|pulse| pulse.due <= now) else { return Vec::new() };
        if pulse.unanswered {
            return vec![Act::End(UNANSWERED, "")];
        }
        pulse.due = now + pulse.every;
        pulse.unanswered = true;
        let notice = |kind: &str| {
            Act::Say(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"heartbeat\",\"params\":{{\"type\":\"{kind}\"}}}}"))
        };
        vec![notice("heartbeat"), notice("test_request")]
    }

    fn snapshot(&self, channel: &str, view: &View<'_>) -> Vec<Utf8Bytes> {
        let side = |side| {
            let mut out = String::new();
            for Level { price, quantity, .. } in view.book.ladder(side).best_first() {
                level(&mut out, "new", price, quantity);
            }
            out
        };
        let view = View { previous: None, ..*view };
        vec![message(channel, &view, "snapshot", &side(Side::Bid), &side(Side::Ask))]
    }

    fn update(&self, channel: &str, view: &View<'_>, told: &[Told<'_>]) -> Vec<Utf8Bytes> {
        let side = |side| {
            let mut out = String::new();
            for told in told.iter().filter(|told| told.side == side) {
                let verb = match (is_zero(told.quantity), told.existed) {
                    (true, true) => "delete",
                    // Born and dead within one update: the venue says nothing of it.
                    (true, false) => continue,
                    (false, true) => "change",
                    (false, false) => "new",
                };
                level(&mut out, verb, told.price, told.quantity);
            }
            out
        };
        vec![message(channel, view, "change", &side(Side::Bid), &side(Side::Ask))]
    }

    fn trade(&self, channel: &str, view: &View<'_>, trade: &Trade<'_>) -> Vec<Utf8Bytes> {
        let (symbol, direction) = (&view.listed.symbol, if trade.sold { "sell" } else { "buy" });
        let price = trade.price;
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"subscription\",\"params\":{{\"channel\":\"{channel}\",\"data\":[{{\
            \"trade_seq\":{},\"trade_id\":\"{}\",\"timestamp\":{},\"tick_direction\":0,\"price\":{price},\
            \"mark_price\":{price},\"instrument_name\":\"{symbol}\",\"index_price\":{price},\
            \"direction\":\"{direction}\",\"amount\":{}}}]}}}}",
            trade.id,
            trade.id,
            view.at_ns / NS_PER_MS,
            trade.quantity
        );
        vec![text.into()]
    }

    fn pass(&self, recorded: &str, wanted: &str, text: &str) -> Option<Utf8Bytes> {
        if recorded == wanted {
            return Some(text.into());
        }
        let (known, asked) = (parts(recorded)?, parts(wanted)?);
        ((known.0, known.1) == (asked.0, asked.1))
            .then(|| text.replacen(&format!("\"{recorded}\""), &format!("\"{wanted}\""), 1).into())
    }

    fn numbers(&self) -> bool {
        true
    }

    fn renumber(&self, text: &str, id: u64, previous: Option<u64>) -> String {
        let number = |name, with: Option<u64>, text: String| {
            with.and_then(|with| replaced(&text, name, |_| Some(with.to_string()))).unwrap_or(text)
        };
        number("\"prev_change_id\":", previous, number("\"change_id\":", Some(id), text.to_owned()))
    }
}

impl Deribit {
    /// The result names the channels that exist; snapshots follow it.
    fn subscribe(&self, session: &mut Session, stock: &Stock, request: &Request, begun: u64) -> Vec<Act> {
        let Some(channels) = channels(&request.params) else {
            return vec![error(&request.id, INVALID_PARAMS, Some("channels"), begun)];
        };
        let (mut taken, mut shown) = (Vec::new(), Vec::new());
        for channel in channels {
            let carries = self.carries(channel);
            let Some((_, symbol, _)) = parts(channel).filter(|(kind, symbol, interval)| {
                let known = carries != Carries::Other || self.others.contains(*kind);
                known && INTERVALS.contains(interval) && stock.get(symbol).is_some()
            }) else {
                continue;
            };
            taken.push(Value::from(channel));
            if session.add(channel, channel, symbol, 0) && carries == Carries::Book {
                shown.push(Act::Show(channel.into()));
            }
        }
        let mut acts = vec![result_of(&request.id, &Value::from(taken), begun)];
        acts.extend(shown);
        acts
    }
}

fn channels(params: &Value) -> Option<Vec<&str>> {
    params.get("channels")?.as_array()?.iter().map(Value::as_str).collect()
}

/// When the venue took a request, and when it answered, in microseconds.
fn tail(begun_ns: u64) -> String {
    let (taken, out) = (begun_ns / 1_000, unix_ns() / 1_000);
    format!("\"usIn\":{taken},\"usOut\":{out},\"usDiff\":{},\"testnet\":false", out.saturating_sub(taken))
}

fn answer(id: &Value, result: &Value, begun_ns: u64) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result},{}}}", tail(begun_ns))
}

fn result_of(id: &Value, result: &Value, begun_ns: u64) -> Act {
    Act::Say(answer(id, result, begun_ns))
}

fn wrong((code, words): (i32, &str), parameter: Option<&str>) -> Value {
    match parameter {
        Some(name) => json!({"code": code, "message": words, "data": {"reason": "invalid value", "param": name}}),
        None => json!({"code": code, "message": words}),
    }
}

fn error(id: &Value, what: (i32, &str), parameter: Option<&str>, begun_ns: u64) -> Act {
    let wrong = wrong(what, parameter);
    Act::Say(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{wrong},{}}}", tail(begun_ns)))
}

fn refused(status: u16, what: (i32, &str), parameter: Option<&str>, begun_ns: u64) -> Reply {
    let wrong = wrong(what, parameter);
    Reply::json(status, format!("{{\"jsonrpc\":\"2.0\",\"error\":{wrong},{}}}", tail(begun_ns)))
}

fn level(out: &mut String, verb: &str, price: &str, quantity: &str) {
    let comma = if out.is_empty() { "" } else { "," };
    // Writing to a string cannot fail.
    let _written = write!(out, "{comma}[\"{verb}\",{price},{quantity}]");
}

fn message(channel: &str, view: &View<'_>, kind: &str, bids: &str, asks: &str) -> Utf8Bytes {
    let previous = view.previous.map(|previous| format!("\"prev_change_id\":{previous},")).unwrap_or_default();
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"subscription\",\"params\":{{\"channel\":\"{channel}\",\"data\":{{\
        \"type\":\"{kind}\",\"timestamp\":{},{previous}\"instrument_name\":\"{}\",\"change_id\":{},\"bids\":[{bids}],\
        \"asks\":[{asks}]}}}}}}",
        view.at_ns / NS_PER_MS,
        view.listed.symbol,
        view.id.unwrap_or(0)
    );
    text.into()
}

/// The kind of an instrument, by its name.
fn kind(symbol: &str) -> &'static str {
    match symbol.split('-').count() {
        0 | 1 => "spot",
        2 => "future",
        _ => "option",
    }
}

fn instruments(currency: &str, wanted: Option<&str>, stock: &Stock) -> Value {
    let meant = |instrument: &&Instrument| {
        let listed = &instrument.listed;
        // Linear instruments are found under the currency that they are settled in, others under their base.
        let group = if QUOTES.contains(&listed.asset_1.as_str()) && listed.symbol.contains('_') {
            &listed.asset_1
        } else {
            &listed.asset_0
        };
        (currency == "any" || currency == group || currency == listed.asset_0)
            && wanted.is_none_or(|wanted| wanted == kind(&listed.symbol))
    };
    stock.all().iter().filter(meant).enumerate().map(|(number, instrument)| listing(number, instrument)).collect()
}

fn listing(number: usize, instrument: &Instrument) -> Value {
    let listed = &instrument.listed;
    let kind = kind(&listed.symbol);
    // A step is a JSON number; one that ends in .1 and the like survives the way through a float.
    let number_of = |decimals| serde_json::from_str::<Value>(&step(decimals)).unwrap_or(Value::Null);
    let counter = if listed.symbol.contains('_') { listed.asset_1.as_str() } else { "USD" };
    json!({
        "instrument_id": number,
        "instrument_name": listed.symbol,
        "kind": kind,
        "base_currency": listed.asset_0,
        "quote_currency": listed.asset_1,
        "counter_currency": counter,
        "settlement_currency": if kind == "spot" { Value::Null } else { listed.asset_0.as_str().into() },
        "price_index": format!("{}_{}", listed.asset_0.to_ascii_lowercase(), counter.to_ascii_lowercase()),
        "tick_size": number_of(listed.price_decimals),
        "tick_size_steps": [],
        "min_trade_amount": number_of(listed.quantity_decimals),
        "contract_size": number_of(listed.quantity_decimals),
        "is_active": true,
        "state": "open",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::hall::Hall, *};

    #[test]
    fn assets_follow_from_the_name() {
        let assets = |symbol| Deribit::default().list(symbol).map(|listed| (listed.asset_0, listed.asset_1));
        let pair = |base: &str, quote: &str| Some((base.to_owned(), quote.to_owned()));
        assert_eq!(assets("BTC_USDC"), pair("BTC", "USDC"));
        assert_eq!(assets("SOL_USDC-PERPETUAL"), pair("SOL", "USDC"));
        assert_eq!(assets("BTC-PERPETUAL"), pair("BTC", "USD"));
        assert_eq!(assets("ETH-7MAY21-2100-C"), pair("ETH", "ETH"));
        assert_eq!(assets("NOTHING"), None);
        assert_eq!(["BTC_USDC", "BTC-PERPETUAL", "ETH-7MAY21-2100-C"].map(kind), ["spot", "future", "option"]);
    }

    #[test]
    fn only_ids_are_renumbered_and_only_the_interval_is_renamed() {
        let text = "{\"params\":{\"channel\":\"book.A_B.raw\",\"data\":{\"type\":\"change\",\"prev_change_id\":5,\
            \"change_id\":7,\"bids\":[],\"asks\":[]}}}";
        let deribit = Deribit::default();
        assert_eq!(
            deribit.renumber(text, 2, Some(1)),
            text.replace("prev_change_id\":5", "prev_change_id\":1").replace("\"change_id\":7", "\"change_id\":2")
        );
        let passed = deribit.pass("book.A_B.raw", "book.A_B.100ms", text).unwrap();
        assert_eq!(passed, text.replace(".raw", ".100ms"));
        assert!(deribit.pass("book.A_B.raw", "book.A_C.raw", text).is_none());
        assert_eq!((deribit.spell("12"), deribit.spell("0.5")), ("12.0".into(), "0.5".into()));
    }

    #[test]
    fn a_test_that_is_not_answered_ends_the_connection() {
        let hall = Hall::new(Box::new(Deribit::default()), []);
        let (mut deribit, mut session) = (Deribit::default(), Session::at(0));
        assert!(deribit.beat(&mut session, hall.stock()).is_empty());
        let ask = "{\"id\":1,\"method\":\"public/set_heartbeat\",\"params\":{\"interval\":10}}";
        deribit.receive(&mut session, hall.stock(), ask);
        assert!(deribit.beat(&mut session, hall.stock()).is_empty(), "not yet");
        let mut beat = |answered| {
            session.marks.pulse.as_mut().unwrap().due = Instant::now();
            let acts = deribit.beat(&mut session, hall.stock());
            if answered {
                deribit.receive(&mut session, hall.stock(), "{\"id\":2,\"method\":\"public/test\"}");
            }
            acts
        };
        assert!(matches!(&beat(true)[..], [Act::Say(_), Act::Say(asked)] if asked.contains("test_request")));
        assert_eq!(beat(false).len(), 2, "it was answered");
        assert!(matches!(beat(false)[..], [Act::End(UNANSWERED, "")]));
    }
}
