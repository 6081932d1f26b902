//! The answers of `sprag why`, for people and for programs.
//!
//! Never: a number that a program would round; those beyond 53 bits are texts.

use super::{
    Event, InstrumentAnswer, TickAnswer,
    read::{Change, Instrument, Key, TickValue},
};
use crate::cli::table::{age, printable, table, time};
use market::{
    Scale, Version,
    batch::{height_of, ordinal_of},
    scale::PRICE_POWERS,
};
use serde_json::{Value, json};

/// A tick as it is named on the command line.
pub(super) fn key_text(key: &Key) -> String {
    let Key { side, tick_index, fee, tranche } = key;
    let place = format!("{}:{tick_index}", side.name());
    match (fee, &**tranche) {
        (0, "") => place,
        (fee, "") => format!("{place}:fee={fee}"),
        (_, tranche) => format!("{place}:tranche={tranche}"),
    }
}

fn price(scale: Scale, tick_index: i64) -> String {
    if scale.price == PRICE_POWERS { format!("1.0001^{tick_index}") } else { scale.price_text(tick_index) }
}

/// A version, and the event's place where the venue's events have one.
fn version_text(instrument: &Instrument, version: Version) -> String {
    if instrument.venue.sends_batches() {
        let (height, ordinal) = (height_of(version.seq), ordinal_of(version.seq));
        format!("{version} (epoch {}, height {height}, ordinal {ordinal})", version.epoch)
    } else {
        format!("{version} (epoch {}, seq {})", version.epoch, version.seq)
    }
}

fn head(instrument: &Instrument, now_ns: u64) -> String {
    let Instrument { venue, symbol, asset_0, asset_1, .. } = instrument;
    format!(
        "{venue}/{}  base {}, quote {}\nversion   {}\nchanged   {}, received {} ago\n",
        printable(symbol),
        printable(asset_0),
        printable(asset_1),
        version_text(instrument, instrument.version),
        time(instrument.updated_ns),
        age(now_ns, instrument.received_ns),
    )
}

fn event_text(instrument: &Instrument, change: &Change, event: &Event) -> String {
    match event {
        Event::Unnamed if change.whole => "source    a whole book, which has no single event\n".to_owned(),
        Event::Unnamed if !instrument.venue.sends_batches() => {
            format!(
                "source    {} names no event: this venue sends messages, which are kept only where store.raw_venue_messages says so\n",
                instrument.venue
            )
        }
        Event::Unnamed => "source    the row names no event\n".to_owned(),
        Event::NotLogged(place) => {
            format!("source    {}; the log does not have block {} any more\n", printable(&change.raw_id), place.height)
        }
        Event::NotFound(place) => {
            format!("source    {}; block {} in the log has no such event\n", printable(&change.raw_id), place.height)
        }
        Event::Found(place, located) => {
            let transaction = located.transaction.map(|at| format!(" {at}")).unwrap_or_default();
            let failed = if located.failed { ", which failed" } else { "" };
            format!(
                "source    {}\nevent     block {}, {}{transaction}{failed}, event {} in it, {} in the block\n{}\n",
                printable(&change.raw_id),
                place.height,
                located.part.name(),
                located.event,
                place.ordinal,
                pretty(&located.json)
            )
        }
    }
}

/// The event's own text, readable; its numbers and their order stay as they are.
fn pretty(json: &str) -> String {
    let value: Result<Value, _> = serde_json::from_str(json);
    let text = value.map_or_else(|_| json.to_owned(), |value| format!("{value:#}"));
    text.lines().map(|line| format!("  {}", printable(line))).collect::<Vec<_>>().join("\n")
}

pub(super) fn instrument(answer: &InstrumentAnswer, now_ns: u64) -> String {
    let InstrumentAnswer { instrument, last, live, best } = answer;
    let mut text = head(instrument, now_ns);
    match last {
        Some((change, event)) => {
            text.push_str(&format!("by        {}\n", printable(&key_text(&change.key))));
            text.push_str(&event_text(instrument, change, event));
        }
        None => text.push_str("by        no change of this version is in tick_updates\n"),
    }
    let [asks, bids] = live;
    text.push_str(&format!("live      {asks} asks, {bids} bids\n"));
    let rows: Vec<_> = best.iter().flatten().map(best_row).collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(["BEST", "PRICE", "QUANTITY", "VERSION"], &rows));
    }
    text
}

fn best_row(tick: &TickValue) -> [String; 4] {
    let version = Version::from_u128(tick.version).to_string();
    [key_text(&tick.key), price(tick.scale, tick.key.tick_index), tick.scale.quantity_text(tick.reserves), version]
}

pub(super) fn tick(answer: &TickAnswer, now_ns: u64) -> String {
    let TickAnswer { instrument, key, present, replaced, origin, history } = answer;
    let mut text = head(instrument, now_ns);
    text.push_str(&format!(
        "tick      {}, price {}\n",
        printable(&key_text(key)),
        price(instrument.scale, key.tick_index)
    ));
    let present = match (present, replaced) {
        (Some(tick), _) => format!(
            "{} since {}",
            tick.scale.quantity_text(tick.reserves),
            version_text(instrument, Version::from_u128(tick.version))
        ),
        (None, Some(version)) => {
            format!(
                "dead: the whole book at {} does not name it",
                version_text(instrument, Version::from_u128(*version))
            )
        }
        (None, None) => "dead".to_owned(),
    };
    text.push_str(&format!("now       {present}\n"));
    match origin {
        Some((change, event)) => {
            let quantity = change.scale.quantity_text(change.reserves);
            text.push_str(&format!("by        {quantity} at {}\n", version_text(instrument, change.version)));
            if history.first().is_some_and(|last| last.whole && last.reserves != change.reserves) {
                text.push_str("note      a whole book said otherwise after that event; its rows name no event\n");
            }
            text.push_str(&event_text(instrument, change, event));
        }
        None => text.push_str("by        whole books alone; no single event is in tick_updates\n"),
    }
    text.push('\n');
    let rows: Vec<_> = history.iter().map(|change| history_row(instrument, change)).collect();
    text.push_str(&table(["VERSION", "HEIGHT", "ORDINAL", "QUANTITY", "VENUE TIME", "SOURCE"], &rows));
    text
}

fn history_row(instrument: &Instrument, change: &Change) -> [String; 6] {
    let seq = change.version.seq;
    let [height, ordinal] = if !instrument.venue.sends_batches() {
        ["-".to_owned(), "-".to_owned()]
    } else if change.whole {
        [height_of(seq).to_string(), "end".to_owned()]
    } else {
        [height_of(seq).to_string(), ordinal_of(seq).to_string()]
    };
    let source = match (change.whole, &*change.raw_id) {
        (true, _) => "whole book",
        (false, "") => "-",
        (false, raw_id) => raw_id,
    };
    let quantity = change.scale.quantity_text(change.reserves);
    [change.version.to_string(), height, ordinal, quantity, time(change.updated_ns), source.to_owned()]
}

fn instrument_value(instrument: &Instrument) -> Value {
    json!({
        "venue": instrument.venue.name(), "symbol": instrument.symbol, "asset_0": instrument.asset_0,
        "asset_1": instrument.asset_1, "version": version_value(instrument, instrument.version),
        "updated_at": time(instrument.updated_ns), "received_at": time(instrument.received_ns),
    })
}

fn version_value(instrument: &Instrument, version: Version) -> Value {
    let mut value = json!({ "epoch": version.epoch.to_string(), "seq": version.seq.to_string() });
    if instrument.venue.sends_batches() {
        value["height"] = height_of(version.seq).into();
        value["ordinal"] = ordinal_of(version.seq).into();
    }
    value
}

fn key_value(key: &Key, scale: Scale) -> Value {
    json!({
        "side": key.side.name(), "tick_index": key.tick_index, "fee": key.fee, "tranche_key": key.tranche,
        "price": price(scale, key.tick_index),
    })
}

fn tick_value(instrument: &Instrument, tick: &TickValue) -> Value {
    json!({
        "tick": key_value(&tick.key, tick.scale), "quantity": tick.scale.quantity_text(tick.reserves),
        "reserves": tick.reserves.to_string(), "version": version_value(instrument, Version::from_u128(tick.version)),
    })
}

fn change_value(instrument: &Instrument, change: &Change) -> Value {
    json!({
        "tick": key_value(&change.key, change.scale), "quantity": change.scale.quantity_text(change.reserves),
        "reserves": change.reserves.to_string(), "version": version_value(instrument, change.version),
        "whole": change.whole, "updated_at": time(change.updated_ns), "received_at": time(change.received_ns),
        "raw_id": change.raw_id,
    })
}

fn event_value(event: &Event) -> Value {
    match event {
        Event::Unnamed => json!({ "known": "unnamed" }),
        Event::NotLogged(place) => json!({ "known": "not logged", "stream": place.stream, "height": place.height }),
        Event::NotFound(place) => {
            json!({ "known": "not in its block", "stream": place.stream, "height": place.height })
        }
        Event::Found(place, located) => {
            json!({
                "known": "found", "stream": place.stream, "height": place.height, "ordinal": place.ordinal,
                "part": located.part.name(), "transaction": located.transaction, "failed": located.failed,
                "event": located.event, "json": serde_json::from_str::<Value>(&located.json).unwrap_or_default(),
            })
        }
    }
}

fn cause_value(instrument: &Instrument, cause: Option<&(Change, Event)>) -> Value {
    cause.map_or(Value::Null, |(change, event)| {
        let mut value = change_value(instrument, change);
        value["source"] = event_value(event);
        value
    })
}

pub(super) fn instrument_json(answer: &InstrumentAnswer) -> Value {
    let InstrumentAnswer { instrument, last, live: [asks, bids], best } = answer;
    let best: Vec<Value> = best.iter().flatten().map(|tick| tick_value(instrument, tick)).collect();
    json!({
        "instrument": instrument_value(instrument), "last_change": cause_value(instrument, last.as_ref()),
        "live": { "asks": asks, "bids": bids }, "best": best,
    })
}

pub(super) fn tick_json(answer: &TickAnswer) -> Value {
    let TickAnswer { instrument, key, present, replaced, origin, history } = answer;
    let replaced = replaced.map(|version| version_value(instrument, Version::from_u128(version)));
    let history: Vec<Value> = history.iter().map(|change| change_value(instrument, change)).collect();
    json!({
        "instrument": instrument_value(instrument), "tick": key_value(key, instrument.scale),
        "present": present.as_ref().map(|tick| tick_value(instrument, tick)),
        "replaced_by_whole_book": replaced, "origin": cause_value(instrument, origin.as_ref()), "history": history,
    })
}
