//! A message as JSON for the golden manifest: every integer as a decimal string.
//!
//! Never: a JSON number.

use crate::samples::Message;
use market::{BestSide, Feed, Level, Scale, Trade, Version, ViewValue, quote::Exact, view::ViewNumber};
use serde_json::{Value, json};
use wire::{Block, ChainKind, Channel, Frame, Subscription, ToServer, ToTerminal};

/// The message as JSON.
pub(crate) fn message(message: &Message) -> Value {
    match message {
        Message::ToTerminal(message) => to_terminal(message),
        Message::ToServer(message) => to_server(message),
    }
}

fn text(value: impl std::fmt::Display) -> Value {
    Value::String(value.to_string())
}

fn to_terminal(message: &ToTerminal) -> Value {
    match message {
        ToTerminal::Hello(hello) => json!({
            "kind": "hello", "wire_version": text(hello.wire_version), "generation": text(hello.generation),
            "build": hello.build, "frame_ms": text(hello.frame_ms), "heartbeat_ms": text(hello.heartbeat_ms),
            "simulated": hello.simulated,
        }),
        ToTerminal::Dictionary(dictionary) => json!({
            "kind": "dictionary", "generation": text(dictionary.generation),
            "instruments": dictionary.instruments.iter().map(|entry| json!({
                "id": text(entry.id), "venue": entry.venue.name(), "symbol": entry.symbol,
                "asset_0": entry.asset_0, "asset_1": entry.asset_1, "pair": text(entry.pair),
            })).collect::<Vec<_>>(),
            "pairs": dictionary.pairs.iter().map(|entry| json!({
                "id": text(entry.id), "asset_0": entry.asset_0, "asset_1": entry.asset_1,
            })).collect::<Vec<_>>(),
        }),
        ToTerminal::Frame(value) => frame(value),
        ToTerminal::Answer(answer) => {
            json!({"kind": "answer", "request": text(answer.request), "matched": text(answer.matched)})
        }
        ToTerminal::Error(error) => json!({
            "kind": "error", "request": error.request.map(text), "code": text(error.code.code()), "text": error.text,
        }),
        ToTerminal::Gap(gap) => json!({"kind": "gap", "entries": entries(&gap.entries)}),
        ToTerminal::Views(list) => json!({
            "kind": "views", "generation": text(list.generation),
            "views": list.views.iter().map(|view| json!({
                "name": view.name, "kind": view.rule.name(), "ppm": view.rule.band().map(|band| text(band.ppm())),
            })).collect::<Vec<_>>(),
        }),
    }
}

fn to_server(message: &ToServer) -> Value {
    match message {
        ToServer::Subscribe(value) => subscription("subscribe", value),
        ToServer::Unsubscribe(value) => subscription("unsubscribe", value),
        ToServer::Resync(value) => json!({"kind": "resync", "items": entries(&value.items)}),
    }
}

fn subscription(kind: &str, value: &Subscription) -> Value {
    let items: Vec<_> =
        value.items.iter().map(|item| json!({"channel": item.channel.name(), "pattern": item.pattern})).collect();
    json!({"kind": kind, "request": text(value.request), "items": items})
}

fn entries(entries: &[(Channel, u32)]) -> Value {
    entries.iter().map(|(channel, id)| json!({"channel": channel.name(), "id": text(id)})).collect()
}

fn frame(frame: &Frame) -> Value {
    let chain = match frame.chain {
        ChainKind::Conflated => "conflated",
        ChainKind::Priority => "priority",
    };
    json!({
        "kind": "frame", "chain": chain, "frame": text(frame.frame), "at_ms": text(frame.at_ms),
        "blocks": frame.blocks.iter().map(block).collect::<Vec<_>>(),
    })
}

fn block(block: &Block) -> Value {
    match block {
        Block::BookSnapshot(value) => json!({
            "kind": "book_snapshot", "id": text(value.id), "version": version(value.version),
            "scale": scale(value.scale), "feed": feed(value.feed), "age_ms": text(value.age_ms),
            "horizon": value.horizon.map(|price| price.map(text)),
            "bids": value.bids.iter().map(level).collect::<Vec<_>>(),
            "asks": value.asks.iter().map(level).collect::<Vec<_>>(),
        }),
        Block::BookDelta(value) => json!({
            "kind": "book_delta", "id": text(value.id), "base": version(value.base),
            "version": version(value.version), "feed": feed(value.feed),
            "changes": value.changes.iter().map(|change| json!({
                "side": change.side.name(), "tick_index": text(change.level.tick_index),
                "quantity": text(change.level.quantity),
            })).collect::<Vec<_>>(),
        }),
        Block::Quote(value) => json!({
            "kind": "quote", "id": text(value.id), "version": version(value.version), "scale": scale(value.scale),
            "bid": value.quote.bid.as_ref().map(level), "ask": value.quote.ask.as_ref().map(level),
            "feed": feed(value.feed), "age_ms": text(value.age_ms),
        }),
        Block::Trades(value) => json!({
            "kind": "trades", "id": text(value.id), "scale": scale(value.scale),
            "trades": value.trades.iter().map(trade).collect::<Vec<_>>(),
        }),
        Block::Best(value) => json!({
            "kind": "best", "pair": text(value.pair),
            "bid": value.best.bid.map(best_side), "ask": value.best.ask.map(best_side),
        }),
        Block::Status(value) => json!({
            "kind": "status", "id": text(value.id), "version": value.version.map(version),
            "feed": feed(value.feed), "age_ms": text(value.age_ms),
        }),
        Block::Digest(value) => json!({
            "kind": "digest", "id": text(value.id), "version": version(value.version), "crc": text(value.crc),
        }),
        Block::View(value) => json!({
            "kind": "view", "id": text(value.id), "value": value.value.as_ref().map(view_value),
        }),
    }
}

fn version(version: Version) -> Value {
    json!({"epoch": text(version.epoch), "seq": text(version.seq)})
}

fn scale(scale: Scale) -> Value {
    json!({"price": text(scale.price), "quantity": text(scale.quantity)})
}

fn feed(feed: Feed) -> Value {
    json!({"state": feed.state.name(), "flags": feed.flags.names()})
}

fn level(level: &Level) -> Value {
    json!({"tick_index": text(level.tick_index), "quantity": text(level.quantity)})
}

fn trade(trade: &Trade) -> Value {
    json!({
        "id": trade.id, "order": text(trade.order), "tick_index": text(trade.tick_index),
        "quantity": text(trade.quantity), "taker": trade.taker.name(), "venue_ns": text(trade.venue_ns),
    })
}

fn best_side(side: BestSide) -> Value {
    json!({"price": exact(side.price), "quantity": exact(side.quantity), "venue": side.venue.name()})
}

fn view_value(value: &ViewValue) -> Value {
    let number = match value.number {
        ViewNumber::Reserves { bids, asks } => json!({"kind": "reserves", "bids": exact(bids), "asks": exact(asks)}),
        ViewNumber::Imbalance(imbalance) => json!({"kind": "imbalance", "ppm": text(imbalance.ppm())}),
        ViewNumber::Spread(spread) => {
            json!({"kind": "spread", "negative": spread.is_negative(), "magnitude": exact(spread.magnitude())})
        }
        ViewNumber::Nothing => json!({"kind": "nothing"}),
        ViewNumber::Overflow => json!({"kind": "overflow"}),
    };
    json!({"number": number, "partial": value.partial, "instruments": text(value.instruments)})
}

fn exact(value: Exact) -> Value {
    json!({"steps": text(value.steps()), "exponent": text(value.exponent())})
}
