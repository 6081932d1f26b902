//! Coinbase's Advanced Trade WebSocket: the envelope with `sequence_num`, which counts every message of a connection.
//!
//! Never: a message in an envelope without a number; a product in a heartbeat.

use super::{
    coinbase::{by_channel, maker, time},
    dialect::{Act, Told, View},
    hall::{Stock, Traded},
    http::unix_ns,
    reference::{SIDES, Side},
    session::{Marks, Session},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;

/// What a book's messages are delivered as; it is subscribed to as [`ASKED`].
pub(super) const BOOK: &str = "l2_data";
/// What a book is subscribed to as.
const ASKED: &str = "level2";
pub(super) const TRADES: &str = "market_trades";
const HEARTBEATS: &str = "heartbeats";
/// Where an envelope's number goes.
const NUMBER: &str = "\"sequence_num\":";
/// The events of a snapshot have no time.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

#[derive(Deserialize)]
struct Request {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    product_ids: Vec<String>,
    channel: String,
}

/// A message whose number is still open.
fn envelope(channel: &str, at_ns: u64, events: &str) -> String {
    format!("{{\"channel\":\"{channel}\",\"timestamp\":\"{}\",{NUMBER},\"events\":[{events}]}}", time(at_ns))
}

/// A message with the connection's next number; none where it has no envelope.
pub(super) fn numbered(marks: &mut Marks, text: &str) -> Option<String> {
    let (head, tail) = text.split_once(NUMBER)?;
    let number = marks.sequence;
    marks.sequence += 1;
    Some(format!("{head}{NUMBER}{number}{tail}"))
}

fn level(out: &mut String, side: Side, at: &str, price: &str, quantity: &str) {
    let comma = if out.is_empty() { "" } else { "," };
    let side = if side == Side::Bid { "bid" } else { "offer" };
    // Writing to a string cannot fail.
    let _written = write!(
        out,
        "{comma}{{\"side\":\"{side}\",\"event_time\":\"{at}\",\"price_level\":\"{price}\",\"new_quantity\":\"{quantity}\"}}"
    );
}

fn book(kind: &str, view: &View<'_>, updates: &str) -> String {
    let symbol = &view.listed.symbol;
    let event = format!("{{\"type\":\"{kind}\",\"product_id\":\"{symbol}\",\"updates\":[{updates}]}}");
    envelope(BOOK, view.at_ns, &event)
}

pub(super) fn snapshot(view: &View<'_>) -> String {
    let mut updates = String::new();
    for side in SIDES {
        for known in view.book.ladder(side).best_first() {
            level(&mut updates, side, NO_TIME, &known.price, &known.quantity);
        }
    }
    book("snapshot", view, &updates)
}

pub(super) fn update(view: &View<'_>, told: &[Told<'_>]) -> String {
    let (mut updates, at) = (String::new(), time(view.at_ns));
    for told in told {
        level(&mut updates, told.side, &at, told.price, told.quantity);
    }
    book("update", view, &updates)
}

pub(super) fn trades<'a>(kind: &str, symbol: &str, trades: impl IntoIterator<Item = &'a Traded>, at_ns: u64) -> String {
    let mut list = String::new();
    for trade in trades {
        let comma = if list.is_empty() { "" } else { "," };
        let side = maker(trade.sold).to_ascii_uppercase();
        // Writing to a string cannot fail.
        let _written = write!(
            list,
            "{comma}{{\"product_id\":\"{symbol}\",\"trade_id\":\"{}\",\"price\":\"{}\",\"size\":\"{}\",\
            \"time\":\"{}\",\"side\":\"{side}\"}}",
            trade.id,
            trade.price,
            trade.quantity,
            time(trade.at_ns)
        );
    }
    envelope(TRADES, at_ns, &format!("{{\"type\":\"{kind}\",\"trades\":[{list}]}}"))
}

/// The heartbeat of a connection that asked for it.
pub(super) fn beat(session: &mut Session) -> Vec<Act> {
    if !session.all().any(|known| &*known.channel == HEARTBEATS) {
        return Vec::new();
    }
    let (now, count) = (unix_ns(), session.marks.handles);
    session.marks.handles += 1;
    let event = format!("{{\"current_time\":\"{}\",\"heartbeat_counter\":{count}}}", time(now));
    vec![Act::Say(envelope(HEARTBEATS, now, &event))]
}

fn error(message: &str) -> Vec<Act> {
    vec![Act::Say(json!({"type": "error", "message": message}).to_string())]
}

pub(super) fn receive(session: &mut Session, stock: &Stock, text: &str) -> Vec<Act> {
    let Ok(request) = serde_json::from_str::<Request>(text) else { return error("failure to parse the request") };
    let channel = match request.channel.as_str() {
        ASKED => BOOK,
        TRADES => TRADES,
        HEARTBEATS => HEARTBEATS,
        other => return error(&format!("channel {other} is not supported")),
    };
    // The connection's heartbeats are of no product.
    let whole = [String::new()];
    let products = if channel == HEARTBEATS { whole.as_slice() } else { request.product_ids.as_slice() };
    let mut acts = match request.kind.as_str() {
        "subscribe" => {
            if products.is_empty() {
                return error("no product ids provided");
            }
            let unknown = |product: &&String| !product.is_empty() && stock.get(product).is_none();
            if let Some(product) = products.iter().find(unknown) {
                return error(&format!("{product} is not a valid product"));
            }
            products
                .iter()
                .filter_map(|product| subscribe(session, stock, &request.channel, channel, product))
                .collect()
        }
        "unsubscribe" => {
            session.remove(|known| {
                let meant = products.is_empty() || products.iter().any(|product| **product == *known.symbol);
                meant && *known.channel == *channel
            });
            Vec::new()
        }
        _ => return error("type has to be either subscribe or unsubscribe"),
    };
    acts.push(subscriptions(session));
    acts
}

/// What a new subscription begins with: it comes before the acknowledgement.
fn subscribe(session: &mut Session, stock: &Stock, asked: &str, channel: &str, product: &str) -> Option<Act> {
    let name = format!("{asked}:{product}");
    if !session.add(&name, channel, product, 0) {
        return None;
    }
    match channel {
        BOOK => Some(Act::Show(name.into())),
        TRADES => Some(Act::Say(trades("snapshot", product, stock.get(product)?.trades(), unix_ns()))),
        _ => None,
    }
}

fn subscriptions(session: &Session) -> Act {
    let listed = by_channel(session).into_iter().map(|(name, products)| match name {
        HEARTBEATS => (name.to_owned(), json!([HEARTBEATS])),
        _ => (name.to_owned(), Value::from(products)),
    });
    let event = json!({"subscriptions": listed.collect::<serde_json::Map<String, Value>>()});
    Act::Say(envelope("subscriptions", unix_ns(), &event.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_envelope_takes_the_next_number() {
        let (mut marks, open) = (Marks::default(), envelope("heartbeats", 0, "{\"heartbeat_counter\":3}"));
        for number in 0..3 {
            let value: Value = serde_json::from_str(&numbered(&mut marks, &open).unwrap()).unwrap();
            assert_eq!((value["sequence_num"].as_u64(), value["channel"].as_str()), (Some(number), Some("heartbeats")));
        }
        assert_eq!(numbered(&mut marks, "{\"type\":\"error\"}"), None);
        assert_eq!(marks.sequence, 3);
    }
}
