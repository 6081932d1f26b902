//! OKX v5's public WebSocket and its instrument list.
//!
//! Books carry `seqId` and `prevSeqId` and a checksum of 0, as the venue sends them since June 2026; a capture from before
//! is passed on with its checksums, and its snapshots are worded in its form. A book's whole depth is served, and every
//! book channel tells every change at once.
//!
//! Never: a checksum that is not of the kept book.

use super::{
    bus::Bus,
    dialect::{Act, Carries, Dialect, Levels, Piece, Said, Told, Trade, Unread, View, replaced, step},
    hall::{Instrument, Stock},
    http::{Reply, unix_ms},
    reference::{Book, Change, Level, PriceKey, Side, is_zero},
    session::Session,
};
use crate::simulator::SimInstrument;
use market::Venue;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeSet, fmt::Write, sync::Arc};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Channels with a snapshot and then changes; they differ in pace and depth, which are not simulated.
const BOOKS: [&str; 3] = ["books", "books-l2-tbt", "books50-l2-tbt"];
/// Channels of trades.
const TRADES: [&str; 2] = ["trades", "trades-all"];
/// The checksum covers this many best levels of each side.
const CHECKSUM_LEVELS: usize = 25;
/// What the venue calls a connection; its acknowledgements repeat it.
const CONN_ID: &str = "a4d3ae55";
const NS_PER_MS: u64 = 1_000_000;

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arg: Option<Arg<'a>>,
    #[serde(borrow, default)]
    action: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Vec<&'a serde_json::value::RawValue>,
}

#[derive(Deserialize)]
struct Arg<'a> {
    #[serde(borrow)]
    channel: Cow<'a, str>,
    #[serde(borrow, default, rename = "instId")]
    symbol: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct BookData<'a> {
    #[serde(borrow)]
    asks: Vec<Vec<&'a str>>,
    #[serde(borrow)]
    bids: Vec<Vec<&'a str>>,
    #[serde(default)]
    checksum: i64,
    #[serde(default, rename = "seqId")]
    id: Option<i64>,
    #[serde(default, rename = "prevSeqId")]
    previous: Option<i64>,
}

impl<'a> BookData<'a> {
    /// None when a price is no number.
    fn levels(&self) -> Option<Levels<'a>> {
        let mut changes = Vec::with_capacity(self.asks.len() + self.bids.len());
        for (side, levels) in [(Side::Bid, &self.bids), (Side::Ask, &self.asks)] {
            for level in levels {
                let (price, quantity) = (*level.first()?, *level.get(1)?);
                changes.push(Change { side, key: PriceKey::read(price)?, price, quantity });
            }
        }
        Some(Levels {
            changes,
            id: self.id.and_then(|id| u64::try_from(id).ok()),
            previous: self.previous.and_then(|id| u64::try_from(id).ok()),
            // Zero says that there is none.
            checksum: Some(self.checksum).filter(|checksum| *checksum != 0),
        })
    }
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow, rename = "tradeId")]
    id: &'a str,
    #[serde(borrow, rename = "px")]
    price: &'a str,
    #[serde(borrow, rename = "sz")]
    quantity: &'a str,
    #[serde(borrow)]
    side: &'a str,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Option<Value>,
    op: String,
    args: Vec<Wanted>,
}

#[derive(Deserialize)]
struct Wanted {
    channel: String,
    #[serde(default, rename = "instId")]
    symbol: Option<String>,
}

impl Wanted {
    fn arg(&self) -> String {
        match &self.symbol {
            Some(symbol) => json!({"channel": self.channel, "instId": symbol}).to_string(),
            None => json!({"channel": self.channel}).to_string(),
        }
    }
}

/// The venue.
#[derive(Debug, Default)]
pub(super) struct Okx {
    /// Channels besides books and trades that a capture has.
    others: BTreeSet<String>,
}

impl Dialect for Okx {
    fn venue(&self) -> Venue {
        Venue::Okx
    }

    fn addresses(&self) -> (&'static [&'static str], &'static str) {
        (&["/ws/v5/public"], "/api/v5")
    }

    fn open(&self, path: &str, _query: &str) -> Option<Session> {
        matches!(path, "/ws/v5/public" | "/ws/v5/public/").then(|| Session::at(0))
    }

    fn rest(&mut self, path: &str, query: &str, stock: &Stock, _bus: &mut Bus) -> Reply {
        match path {
            "/api/v5/public/time" => done(&json!([{"ts": unix_ms().to_string()}])),
            "/api/v5/public/instruments" => instruments(query, stock),
            _ => Reply::json(404, json!({"msg": "Invalid request path", "code": "404"}).to_string()),
        }
    }

    fn failed(&self, status: u16) -> Reply {
        match status {
            429 => refused(429, "50011", "Too Many Requests"),
            _ => refused(status, "50001", "Service temporarily unavailable. Please try again later."),
        }
    }

    fn list(&self, symbol: &str) -> Option<SimInstrument> {
        let mut parts = symbol.split('-');
        let (base, quote) = (parts.next()?, parts.next()?);
        Some(SimInstrument {
            venue: Venue::Okx,
            symbol: symbol.to_owned(),
            asset_0: base.to_owned(),
            asset_1: quote.to_owned(),
            price_decimals: 0,
            quantity_decimals: 0,
        })
    }

    fn carries(&self, channel: &str) -> Carries {
        if BOOKS.contains(&channel) {
            Carries::Book
        } else if TRADES.contains(&channel) {
            Carries::Trades
        } else {
            Carries::Other
        }
    }

    fn read<'a>(&mut self, _conn: &Arc<str>, text: &'a str) -> Result<Option<Piece<'a>>, Unread> {
        if text == "pong" {
            return Ok(None);
        }
        let frame: Frame<'a> = serde_json::from_str(text).map_err(|_| Unread)?;
        let Some(arg) = frame.arg.filter(|_| frame.event.is_none()) else {
            return if frame.event.is_some() { Ok(None) } else { Err(Unread) };
        };
        let Some(symbol) = arg.symbol else { return Ok(None) };
        let said = match (self.carries(&arg.channel), frame.action.as_deref(), frame.data.first()) {
            (Carries::Book, Some(action), Some(data)) => {
                let book: BookData<'a> = serde_json::from_str(data.get()).map_err(|_| Unread)?;
                let levels = book.levels().ok_or(Unread)?;
                match action {
                    "snapshot" => Said::Snapshot(levels),
                    "update" => Said::Update(levels),
                    _ => return Err(Unread),
                }
            }
            (Carries::Trades, _, Some(data)) => {
                let trade: TradeData<'a> = serde_json::from_str(data.get()).map_err(|_| Unread)?;
                Said::Trade(Trade {
                    id: trade.id.parse().map_err(|_| Unread)?,
                    sold: trade.side == "sell",
                    price: trade.price,
                    quantity: trade.quantity,
                })
            }
            (Carries::Book, ..) => return Err(Unread),
            _ => {
                if !self.others.contains(&*arg.channel) {
                    self.others.insert(arg.channel.to_string());
                }
                Said::Other
            }
        };
        Ok(Some(Piece { channel: arg.channel, symbol, text, what: said }))
    }

    fn receive(&mut self, session: &mut Session, stock: &Stock, text: &str) -> Vec<Act> {
        if text == "ping" {
            return vec![Act::Pong("pong".to_owned())];
        }
        let Ok(request) = serde_json::from_str::<Request>(text) else {
            return vec![error(None, "60012", &format!("Invalid request: {text}"))];
        };
        let id = request.id.as_ref();
        match request.op.as_str() {
            "subscribe" => request.args.iter().flat_map(|arg| self.subscribe(session, stock, id, arg)).collect(),
            "unsubscribe" => request.args.iter().map(|arg| unsubscribe(session, id, arg)).collect(),
            _ => vec![error(id, "60012", &format!("Invalid request: {text}"))],
        }
    }

    fn keepalive(&self, channel: &str, view: &View<'_>) -> Option<Utf8Bytes> {
        view.id?;
        Some(message(channel, view, "update", "", ""))
    }

    fn snapshot(&self, channel: &str, view: &View<'_>) -> Vec<Utf8Bytes> {
        let side = |side| {
            let mut out = String::new();
            for Level { price, quantity, .. } in view.book.ladder(side).best_first() {
                level(&mut out, price, quantity);
            }
            out
        };
        let view = View { previous: None, ..*view };
        vec![message(channel, &view, "snapshot", &side(Side::Ask), &side(Side::Bid))]
    }

    fn update(&self, channel: &str, view: &View<'_>, told: &[Told<'_>]) -> Vec<Utf8Bytes> {
        let side = |side| {
            let mut out = String::new();
            for told in told.iter().filter(|told| told.side == side) {
                level(&mut out, told.price, told.quantity);
            }
            out
        };
        vec![message(channel, view, "update", &side(Side::Ask), &side(Side::Bid))]
    }

    fn trade(&self, channel: &str, view: &View<'_>, trade: &Trade<'_>) -> Vec<Utf8Bytes> {
        let (symbol, side) = (&view.listed.symbol, if trade.sold { "sell" } else { "buy" });
        let text = format!(
            "{{\"arg\":{{\"channel\":\"{channel}\",\"instId\":\"{symbol}\"}},\"data\":[{{\"instId\":\"{symbol}\",\
            \"tradeId\":\"{}\",\"px\":\"{}\",\"sz\":\"{}\",\"side\":\"{side}\",\"ts\":\"{}\",\"count\":\"1\",\
            \"source\":\"0\"}}]}}",
            trade.id,
            trade.price,
            trade.quantity,
            view.at_ns / NS_PER_MS
        );
        vec![text.into()]
    }

    fn pass(&self, recorded: &str, wanted: &str, text: &str) -> Option<Utf8Bytes> {
        if recorded == wanted {
            return Some(text.into());
        }
        let name = |channel: &str| format!("\"channel\":\"{channel}\"");
        (BOOKS.contains(&recorded) && BOOKS.contains(&wanted))
            .then(|| text.replacen(&name(recorded), &name(wanted), 1).into())
    }

    fn numbers(&self) -> bool {
        true
    }

    fn chains_over_reset(&self) -> bool {
        true
    }

    fn renumber(&self, text: &str, id: u64, previous: Option<u64>) -> String {
        let number = |name, with: Option<u64>, text: String| {
            with.and_then(|with| replaced(&text, name, |_| Some(with.to_string()))).unwrap_or(text)
        };
        number("\"prevSeqId\":", previous, number("\"seqId\":", Some(id), text.to_owned()))
    }

    fn checks(&self) -> bool {
        true
    }

    fn checksum(&self, book: &Book) -> Option<i64> {
        Some(i64::from(checksum(book)))
    }

    fn corrupt(&self, payload: &str) -> Option<String> {
        replaced(payload, "\"checksum\":", |number| match number.parse::<i32>() {
            Ok(0) | Err(_) => None,
            Ok(number) => Some((number ^ 1).to_string()),
        })
    }
}

impl Okx {
    fn subscribe(&self, session: &mut Session, stock: &Stock, id: Option<&Value>, wanted: &Wanted) -> Vec<Act> {
        let carries = self.carries(&wanted.channel);
        let known = carries != Carries::Other || self.others.contains(&wanted.channel);
        let Some(symbol) = wanted.symbol.as_deref().filter(|symbol| known && stock.get(symbol).is_some()) else {
            let asked = wanted.symbol.as_deref().map(|symbol| format!(",instId:{symbol}")).unwrap_or_default();
            let words = format!(
                "Wrong URL or channel:{}{asked} doesn't exist. Please use the correct URL, channel and parameters \
                referring to API document.",
                wanted.channel
            );
            return vec![error(id, "60018", &words)];
        };
        let name = name(&wanted.channel, symbol);
        // A second subscription is acknowledged as well, and gets another snapshot.
        session.add(&name, &wanted.channel, symbol, 0);
        let mut acts = vec![event(id, "subscribe", wanted)];
        if carries == Carries::Book {
            acts.push(Act::Show(name.into()));
        }
        acts
    }
}

fn name(channel: &str, symbol: &str) -> String {
    format!("{channel}:{symbol}")
}

fn unsubscribe(session: &mut Session, id: Option<&Value>, wanted: &Wanted) -> Act {
    let name = name(&wanted.channel, wanted.symbol.as_deref().unwrap_or_default());
    session.remove(|known| *known.name == *name);
    event(id, "unsubscribe", wanted)
}

/// The beginning of an answer: the request's id, where it had one.
fn head(id: Option<&Value>) -> String {
    id.map(|id| format!("\"id\":{id},")).unwrap_or_default()
}

fn event(id: Option<&Value>, event: &str, wanted: &Wanted) -> Act {
    Act::Say(format!("{{{}\"event\":\"{event}\",\"arg\":{},\"connId\":\"{CONN_ID}\"}}", head(id), wanted.arg()))
}

fn error(id: Option<&Value>, code: &str, words: &str) -> Act {
    let words = Value::from(words);
    Act::Say(format!(
        "{{{}\"event\":\"error\",\"code\":\"{code}\",\"msg\":{words},\"connId\":\"{CONN_ID}\"}}",
        head(id)
    ))
}

fn level(out: &mut String, price: &str, quantity: &str) {
    let (comma, orders) = (if out.is_empty() { "" } else { "," }, if is_zero(quantity) { "0" } else { "1" });
    // Writing to a string cannot fail.
    let _written = write!(out, "{comma}[\"{price}\",\"{quantity}\",\"0\",\"{orders}\"]");
}

/// A message of a book, in the form of its time: with ids and no checksum, or with a checksum and no ids.
fn message(channel: &str, view: &View<'_>, action: &str, asks: &str, bids: &str) -> Utf8Bytes {
    let tail = match view.id {
        Some(id) => {
            let previous = view.previous.map_or_else(|| "-1".to_owned(), |previous| previous.to_string());
            format!("\"checksum\":0,\"seqId\":{id},\"prevSeqId\":{previous}")
        }
        None => format!("\"checksum\":{}", checksum(view.book)),
    };
    let text = format!(
        "{{\"arg\":{{\"channel\":\"{channel}\",\"instId\":\"{}\"}},\"action\":\"{action}\",\"data\":[{{\"asks\":[{asks}],\
        \"bids\":[{bids}],\"ts\":\"{}\",{tail}}}]}}",
        view.listed.symbol,
        view.at_ns / NS_PER_MS
    );
    text.into()
}

/// The best bids and asks in turn, as texts joined by colons: CRC-32, read as a signed number.
fn checksum(book: &Book) -> i32 {
    let mut text = String::new();
    for rank in 0..CHECKSUM_LEVELS {
        for side in [Side::Bid, Side::Ask] {
            if let Some(level) = book.ladder(side).ranked(rank) {
                let colon = if text.is_empty() { "" } else { ":" };
                // Writing to a string cannot fail.
                let _written = write!(text, "{colon}{}:{}", level.price, level.quantity);
            }
        }
    }
    i32::from_ne_bytes(crc32fast::hash(text.as_bytes()).to_ne_bytes())
}

fn done(data: &Value) -> Reply {
    Reply::json(200, json!({"code": "0", "msg": "", "data": data}).to_string())
}

fn refused(status: u16, code: &str, words: &str) -> Reply {
    Reply::json(status, json!({"code": code, "msg": words, "data": []}).to_string())
}

/// The kind of an instrument, by the parts of its name.
fn kind(symbol: &str) -> &'static str {
    match (symbol.split('-').count(), symbol.ends_with("-SWAP")) {
        (_, true) => "SWAP",
        (0..=2, _) => "SPOT",
        (3, _) => "FUTURES",
        _ => "OPTION",
    }
}

fn instruments(query: &str, stock: &Stock) -> Reply {
    let parameter = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
    };
    let Some(wanted) = parameter("instType").filter(|kind| !kind.is_empty()) else {
        return refused(400, "50014", "Parameter instType can not be empty.");
    };
    if !["SPOT", "MARGIN", "SWAP", "FUTURES", "OPTION"].contains(&wanted.as_str()) {
        return refused(400, "51000", "Parameter instType error");
    }
    let one = parameter("instId");
    let listed = stock.all().iter().filter(|instrument| {
        let symbol = &instrument.listed.symbol;
        kind(symbol) == wanted && one.as_ref().is_none_or(|one| one == symbol)
    });
    let data: Vec<Value> = listed.map(listing).collect();
    if data.is_empty() && one.is_some() {
        return refused(400, "51001", "Instrument ID, Instrument ID code, or Spread ID doesn't exist.");
    }
    done(&Value::from(data))
}

fn listing(instrument: &Instrument) -> Value {
    let listed = &instrument.listed;
    let (kind, base, quote) = (kind(&listed.symbol), listed.asset_0.as_str(), listed.asset_1.as_str());
    let (spot, lot) = (kind == "SPOT", step(listed.quantity_decimals));
    let family = if spot { String::new() } else { format!("{base}-{quote}") };
    // Inverse contracts are settled in the base asset.
    let settled = match (spot, quote) {
        (true, _) => "",
        (false, "USD") => base,
        (false, quote) => quote,
    };
    json!({
        "instType": kind,
        "instId": listed.symbol,
        "uly": family,
        "instFamily": family,
        "baseCcy": if spot { base } else { "" },
        "quoteCcy": if spot { quote } else { "" },
        "settleCcy": settled,
        "ctVal": if spot { "" } else { "1" },
        "ctMult": if spot { "" } else { "1" },
        "ctValCcy": match (spot, quote) { (true, _) => "", (false, "USD") => "USD", (false, _) => base },
        "tickSz": step(listed.price_decimals),
        "lotSz": lot,
        "minSz": lot,
        "state": "live",
        "ruleType": "normal",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_checksum_is_confirmed_and_falsified() {
        let text = "{\"arg\":{\"channel\":\"books\",\"instId\":\"A-B\"},\"action\":\"snapshot\",\"data\":[{\"asks\":\
            [[\"3366.8\",\"9\",\"10\",\"3\"],[\"3368\",\"8\",\"3\",\"4\"]],\"bids\":[[\"3366.1\",\"7\",\"0\",\"3\"]],\
            \"ts\":\"1\",\"checksum\":-5}]}";
        let mut okx = Okx::default();
        let piece = okx.read(&"a".into(), text).unwrap().unwrap();
        let Said::Snapshot(levels) = piece.what else { panic!("it is a snapshot") };
        let mut book = Book::new();
        for change in &levels.changes {
            book.apply(change);
        }
        let expected = crc32fast::hash(b"3366.1:7:3366.8:9:3368:8");
        assert_eq!(checksum(&book).to_ne_bytes(), expected.to_ne_bytes());
        assert_eq!(okx.corrupt(text).unwrap(), text.replace(":-5}", ":-6}"));
        assert_eq!(okx.corrupt(&text.replace("-5", "0")), None);
        assert_eq!(okx.pass("books", "books-l2-tbt", text).unwrap(), text.replace("\"books\"", "\"books-l2-tbt\""));
        assert!(okx.pass("books", "trades", text).is_none());
    }

    #[test]
    fn the_kind_follows_from_the_name() {
        let kinds = ["BTC-USDT", "XMR-USDT-SWAP", "BTC-USD-210924", "BTC-USD-210924-66000-C"].map(kind);
        assert_eq!(kinds, ["SPOT", "SWAP", "FUTURES", "OPTION"]);
    }
}
