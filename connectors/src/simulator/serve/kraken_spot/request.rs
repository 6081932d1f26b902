//! What a Kraken connection is subscribed to, and what may be asked on it.
//!
//! Never: one answer for several symbols; the venue answers each.

use super::{DEPTHS, Kraken, VENUE};
use crate::simulator::{
    serve::{
        bus::{Bus, Kind, Subscriptions},
        faults::Stale,
        http::unix_ns,
    },
    text,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tokio_tungstenite::tungstenite::Message;

/// The depth of a book that is not named.
const DEPTH_DEFAULT: u64 = 10;
/// What a request takes inside the venue, by its own stamps.
const WORK_NS: u64 = 42_000;
/// Connection ids are beyond 2^53, as the venue's are.
const CONNECTION_ID_BASE: u64 = 13_000_000_000_000_000_000;

/// One book.
#[derive(Debug)]
struct BookSubscription {
    depth: usize,
    /// The snapshot is still owed: no book is known yet.
    waiting: bool,
}

/// What a connection is subscribed to.
#[derive(Debug, Default)]
pub(in crate::simulator::serve) struct Channels {
    books: BTreeMap<String, BookSubscription>,
    /// Channel and symbol.
    others: BTreeSet<(String, String)>,
}

impl Channels {
    pub(in crate::simulator::serve) fn names(&self) -> Vec<String> {
        let books = self.books.iter().map(|(symbol, book)| format!("book:{symbol}:{}", book.depth));
        books.chain(self.others.iter().map(|(channel, symbol)| format!("{channel}:{symbol}"))).collect()
    }

    pub(in crate::simulator::serve) fn is_empty(&self) -> bool {
        self.books.is_empty() && self.others.is_empty()
    }
}

/// Index, number and depth of every connection that gets a message of a book: a snapshot comes to those that wait for
/// it as well, and they wait no more.
pub(super) fn subscribed(bus: &mut Bus, symbol: &str, snapshot: bool) -> Vec<(usize, u64, usize)> {
    let mut found = Vec::new();
    for (index, connection) in bus.connections.iter_mut().enumerate() {
        let Subscriptions::Kraken(channels) = &mut connection.subscriptions else { continue };
        let Some(book) = channels.books.get_mut(symbol) else { continue };
        book.waiting &= !snapshot;
        if !book.waiting {
            found.push((index, connection.number, book.depth));
        }
    }
    found
}

/// Indices of the connections that are subscribed to another channel of a symbol.
pub(super) fn listening(bus: &Bus, channel: &str, symbol: &str) -> Vec<usize> {
    let key = (channel.to_owned(), symbol.to_owned());
    let hears = |subscriptions: &Subscriptions| matches!(subscriptions, Subscriptions::Kraken(channels) if channels.others.contains(&key));
    let connections = bus.connections.iter().enumerate();
    connections.filter(|(_, connection)| hears(&connection.subscriptions)).map(|(index, _)| index).collect()
}

/// A request as far as it can be read.
#[derive(Deserialize)]
struct Request {
    method: String,
    #[serde(default)]
    params: Option<Params>,
    #[serde(default)]
    req_id: Option<i64>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    symbol: Vec<String>,
    #[serde(default)]
    depth: Option<u64>,
    #[serde(default)]
    snapshot: Option<bool>,
}

impl Kraken {
    /// The first message of a connection.
    pub(in crate::simulator::serve) fn greet(bus: &mut Bus, number: u64) {
        let id = CONNECTION_ID_BASE.wrapping_add(unix_ns() >> 16).wrapping_add(number);
        let status = format!(
            "{{\"channel\":\"status\",\"type\":\"update\",\"data\":[{{\"version\":\"2.0.10\",\"system\":\"online\",\
            \"api_version\":\"v2\",\"connection_id\":{id}}}]}}"
        );
        bus.reply(VENUE, number, status);
    }

    /// A heartbeat, once something is subscribed.
    pub(in crate::simulator::serve) fn beat(bus: &mut Bus, number: u64) {
        if bus.connection(VENUE, number).is_some_and(|connection| !connection.subscriptions.is_empty()) {
            bus.reply(VENUE, number, "{\"channel\":\"heartbeat\"}");
        }
    }

    /// A text message.
    pub(in crate::simulator::serve) fn receive(&mut self, bus: &mut Bus, number: u64, text: &str) {
        let time_in = self.stamp(0);
        let Ok(request) = serde_json::from_str::<Request>(text) else {
            let method = serde_json::from_str::<Value>(text).ok().and_then(|value| {
                value.get("method").and_then(Value::as_str).filter(|method| known(method)).map(str::to_owned)
            });
            self.refuse(
                bus,
                number,
                &Asked { method: method.as_deref().unwrap_or("error"), req_id: None, time_in },
                "Malformed request",
                None,
            );
            return;
        };
        let asked = Asked { method: &request.method, req_id: request.req_id, time_in };
        match (request.method.as_str(), &request.params) {
            ("ping", _) => {
                let pong = format!(
                    "{{\"method\":\"pong\",{}\"time_in\":\"{}\",\"time_out\":\"{}\"}}",
                    asked.req_id(),
                    asked.time_in,
                    self.stamp(WORK_NS)
                );
                bus.answer(VENUE, number, Message::Text(pong.into()));
            }
            ("subscribe", Some(params)) => self.subscribe(bus, number, &asked, params),
            ("unsubscribe", Some(params)) => self.unsubscribe(bus, number, &asked, params),
            (method, _) => {
                let error = if known(method) { "Malformed request" } else { "Method not supported" };
                self.refuse(bus, number, &asked, error, None);
            }
        }
    }

    /// The time now and a little, as the venue writes it.
    fn stamp(&mut self, after_ns: u64) -> String {
        let mut out = Vec::new();
        self.calendar.write(&mut out, unix_ns().saturating_add(after_ns));
        text::take(&mut out)
    }

    fn refuse(&mut self, bus: &mut Bus, number: u64, asked: &Asked<'_>, error: &str, symbol: Option<&str>) {
        let symbol = symbol.map(|symbol| format!("\"symbol\":{},", Value::from(symbol))).unwrap_or_default();
        let reply = format!(
            "{{\"error\":{},\"method\":{},{}\"success\":false,{symbol}\"time_in\":\"{}\",\"time_out\":\"{}\"}}",
            Value::from(error),
            Value::from(asked.method),
            asked.req_id(),
            asked.time_in,
            self.stamp(WORK_NS)
        );
        bus.reply(VENUE, number, reply);
    }

    fn acknowledge(&mut self, bus: &mut Bus, number: u64, asked: &Asked<'_>, result: &str) {
        let reply = format!(
            "{{\"method\":\"{}\",{}\"result\":{{{result}}},\"success\":true,\"time_in\":\"{}\",\"time_out\":\"{}\"}}",
            asked.method,
            asked.req_id(),
            asked.time_in,
            self.stamp(WORK_NS)
        );
        bus.reply(VENUE, number, reply);
    }

    /// The channel of a request, and its depth where it has one.
    fn channel<'a>(&self, params: &'a Params) -> Result<(&'a str, usize), &'static str> {
        let channel = params.channel.as_deref().ok_or("Malformed request")?;
        if params.symbol.is_empty() {
            return Err("Malformed request");
        }
        match channel {
            "book" => {
                let depth = usize::try_from(params.depth.unwrap_or(DEPTH_DEFAULT)).unwrap_or(usize::MAX);
                DEPTHS.contains(&depth).then_some((channel, depth)).ok_or("Subscription depth not supported")
            }
            "trade" => Ok((channel, 0)),
            other if self.channels.contains(other) => Ok((channel, 0)),
            _ => Err("Subscription name invalid"),
        }
    }

    fn subscribe(&mut self, bus: &mut Bus, number: u64, asked: &Asked<'_>, params: &Params) {
        let (channel, depth) = match self.channel(params) {
            Ok(found) => found,
            Err(error) => return self.refuse(bus, number, asked, error, None),
        };
        let is_book = channel == "book";
        let snapshot = params.snapshot.unwrap_or(channel != "trade");
        let mut owed = Vec::new();
        for symbol in &params.symbol {
            let Some(instrument) = self.instrument(symbol) else {
                self.refuse(bus, number, asked, &format!("Currency pair not supported {symbol}"), Some(symbol));
                continue;
            };
            let waiting = snapshot && instrument.book().is_none();
            let Some(connection) = bus.connection(VENUE, number) else { return };
            let Subscriptions::Kraken(channels) = &mut connection.subscriptions else { return };
            let new = if is_book {
                let new = !channels.books.contains_key(symbol);
                channels.books.entry(symbol.clone()).or_insert(BookSubscription { depth, waiting });
                new
            } else {
                channels.others.insert((channel.to_owned(), symbol.clone()))
            };
            if !new {
                self.refuse(bus, number, asked, "Already subscribed", Some(symbol));
                continue;
            }
            let depth = if is_book { format!("\"depth\":{depth},") } else { String::new() };
            let result = format!("\"channel\":\"{channel}\",{depth}\"snapshot\":{snapshot},\"symbol\":\"{symbol}\"");
            self.acknowledge(bus, number, asked, &result);
            owed.push(symbol);
        }
        for symbol in owed.into_iter().filter(|_| snapshot) {
            self.send_snapshot(bus, number, channel, symbol, depth);
        }
    }

    fn send_snapshot(&self, bus: &mut Bus, number: u64, channel: &str, symbol: &str, depth: usize) {
        let Some(instrument) = self.instrument(symbol) else { return };
        let text = match channel {
            "book" if instrument.book().is_some() => match bus.faults.stale(VENUE, symbol) {
                Some(Stale::Kept(kept)) => Some(instrument.snapshot_of(&kept.book, depth)),
                Some(Stale::Ago(updates)) => {
                    instrument.ago(updates).map(|kept| instrument.snapshot_of(&kept.book, depth))
                }
                None => instrument.snapshot(depth),
            },
            "trade" => {
                let trades: Vec<&str> = instrument.trades.iter().map(|trade| &**trade).collect();
                Some(format!("{{\"channel\":\"trade\",\"type\":\"snapshot\",\"data\":[{}]}}", trades.join(",")))
            }
            _ => None,
        };
        let found = bus.connections.iter().position(|at| at.venue == VENUE && at.number == number);
        if let (Some(text), Some(index)) = (text, found) {
            let kind = if channel == "book" { Kind::Snapshot } else { Kind::Other };
            bus.data(index, symbol, kind, text.into());
        }
    }

    fn unsubscribe(&mut self, bus: &mut Bus, number: u64, asked: &Asked<'_>, params: &Params) {
        let channel = match self.channel(params) {
            Ok((channel, _)) => channel,
            Err(error) => return self.refuse(bus, number, asked, error, None),
        };
        for symbol in &params.symbol {
            if self.instrument(symbol).is_none() {
                self.refuse(bus, number, asked, &format!("Currency pair not supported {symbol}"), Some(symbol));
                continue;
            }
            let Some(connection) = bus.connection(VENUE, number) else { return };
            let Subscriptions::Kraken(channels) = &mut connection.subscriptions else { return };
            let result = if channel == "book" {
                let meant = channels.books.get(symbol).map(|book| book.depth).filter(|held| {
                    params.depth.is_none_or(|depth| usize::try_from(depth).is_ok_and(|depth| depth == *held))
                });
                meant.map(|depth| {
                    channels.books.remove(symbol);
                    format!("\"channel\":\"book\",\"depth\":{depth},\"symbol\":\"{symbol}\"")
                })
            } else {
                let removed = channels.others.remove(&(channel.to_owned(), symbol.clone()));
                removed.then(|| format!("\"channel\":\"{channel}\",\"symbol\":\"{symbol}\""))
            };
            match result {
                Some(result) => self.acknowledge(bus, number, asked, &result),
                None => self.refuse(bus, number, asked, "Subscription Not Found", Some(symbol)),
            }
        }
    }
}

/// What every answer repeats.
struct Asked<'a> {
    method: &'a str,
    req_id: Option<i64>,
    time_in: String,
}

impl Asked<'_> {
    fn req_id(&self) -> String {
        self.req_id.map(|id| format!("\"req_id\":{id},")).unwrap_or_default()
    }
}

fn known(method: &str) -> bool {
    matches!(method, "subscribe" | "unsubscribe" | "ping")
}
