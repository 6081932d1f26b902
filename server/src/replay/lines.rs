//! The lines of `replay`: one JSON object per published event, as `docs/REPLAY.md` specifies.
//!
//! Never: a float; a field that depends on the number of workers.

use crate::{
    hub::{Frame, Update},
    row::{Row, tick_index},
};
use dataflow::cut::BookCut;
use market::{BestSide, Directory, Feed, Instrument, Level, LevelChange, Scale, Side, Trade, Version};
use serde::Serialize;
use std::{
    io::{self, Write},
    str::FromStr,
    sync::Arc,
};

/// A kind of line that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayChannel {
    /// `snapshot` and `delta`.
    Book,
    /// `status`.
    Status,
    /// `trade`.
    Trades,
    /// `quote`.
    Quote,
    /// `best`, of pairs across venues.
    Best,
}

/// No channel of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown channel {name:?}: one of book, status, trades, quote, best is meant")]
pub struct UnknownChannel {
    name: Box<str>,
}

impl FromStr for ReplayChannel {
    type Err = UnknownChannel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "book" => Ok(Self::Book),
            "status" => Ok(Self::Status),
            "trades" => Ok(Self::Trades),
            "quote" => Ok(Self::Quote),
            "best" => Ok(Self::Best),
            _ => Err(UnknownChannel { name: name.into() }),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Kind {
    Snapshot(BookFields),
    Delta(BookFields),
    Status {
        #[serde(flatten)]
        version: Option<VersionFields>,
        #[serde(flatten)]
        feed: FeedFields,
    },
    Trade {
        id: String,
        price: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        tick_index: Option<String>,
        quantity: String,
        taker: &'static str,
        venue_ns: String,
    },
    Quote {
        #[serde(flatten)]
        version: VersionFields,
        bid: Option<Row>,
        ask: Option<Row>,
        #[serde(flatten)]
        feed: FeedFields,
    },
    Best {
        bid: Option<BestRow>,
        ask: Option<BestRow>,
    },
}

#[derive(Serialize)]
struct BookFields {
    #[serde(flatten)]
    version: VersionFields,
    bids: Vec<Row>,
    asks: Vec<Row>,
    #[serde(flatten)]
    feed: FeedFields,
}

#[derive(Clone, Copy)]
struct VersionFields(Version);

impl Serialize for VersionFields {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("epoch", &self.0.epoch)?;
        map.serialize_entry("seq", &self.0.seq.to_string())?;
        map.end()
    }
}

#[derive(Clone, Serialize)]
struct FeedFields {
    state: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flags: Vec<&'static str>,
}

impl FeedFields {
    fn of(feed: Feed) -> Self {
        Self { state: feed.state.name(), flags: feed.flags.names() }
    }
}

#[derive(Serialize)]
struct BestRow {
    price: String,
    quantity: String,
    venue: &'static str,
}

impl BestRow {
    fn of(side: BestSide) -> Self {
        let (price, quantity) = (side.price.decimal().to_string(), side.quantity.decimal().to_string());
        Self { price, quantity, venue: side.venue.name() }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    frame: u64,
    ts_ns: String,
    instrument: &'a str,
    #[serde(flatten)]
    kind: Kind,
}

/// Writes frames as lines.
pub(super) struct LineWriter<'a> {
    out: &'a mut dyn Write,
    directory: &'a Directory,
    channels: &'a [ReplayChannel],
    instruments: Vec<Arc<Instrument>>,
    buffer: Vec<u8>,
    lines: u64,
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write, directory: &'a Directory, channels: &'a [ReplayChannel]) -> Self {
        Self { out, directory, channels, instruments: Vec::new(), buffer: Vec::new(), lines: 0 }
    }

    fn wants(&self, channel: ReplayChannel) -> bool {
        if self.channels.is_empty() { channel != ReplayChannel::Best } else { self.channels.contains(&channel) }
    }

    /// Writes a frame's lines by instrument, then type.
    pub(super) fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        let known = u32::try_from(self.instruments.len()).unwrap_or(u32::MAX);
        self.instruments.extend(self.directory.instruments_from(known));
        let mut updates: Vec<(Arc<Instrument>, &Update)> = frame
            .updates
            .iter()
            .filter_map(|update| {
                let at = usize::try_from(update.symbol.0).unwrap_or(usize::MAX);
                self.instruments.get(at).map(|instrument| (Arc::clone(instrument), update))
            })
            .collect();
        updates.sort_by(|(a, _), (b, _)| a.text.cmp(&b.text));
        for (instrument, update) in updates {
            self.update(frame.frame, &instrument.text, update)?;
        }
        if self.wants(ReplayChannel::Best) {
            self.best(frame)?;
        }
        if self.buffer.len() >= 1 << 16 { self.drain() } else { Ok(()) }
    }

    fn update(&mut self, frame: u64, instrument: &str, update: &Update) -> io::Result<()> {
        let ts_ns = update.received_ns.to_string();
        let mut kinds: Vec<Kind> = Vec::new();
        if self.wants(ReplayChannel::Book) {
            kinds.extend(book(update));
        }
        if self.wants(ReplayChannel::Status) && update.feed_changed {
            let version = update.version.map(VersionFields);
            kinds.push(Kind::Status { version, feed: FeedFields::of(update.feed) });
        }
        if self.wants(ReplayChannel::Trades) {
            kinds.extend(update.trades.iter().map(|(scale, trade)| trade_line(*scale, trade)));
        }
        if let (true, Some(quote), Some(version)) = (self.wants(ReplayChannel::Quote), update.quote, update.version) {
            let row = |level: Option<Level>| level.map(|level| Row::of(update.scale, level));
            kinds.push(Kind::Quote {
                version: VersionFields(version),
                bid: row(quote.bid),
                ask: row(quote.ask),
                feed: FeedFields::of(update.feed),
            });
        }
        kinds.into_iter().try_for_each(|kind| self.line(&Line { frame, ts_ns: ts_ns.clone(), instrument, kind }))
    }

    fn best(&mut self, frame: &Frame) -> io::Result<()> {
        let mut pairs: Vec<_> = frame
            .best
            .iter()
            .filter_map(|(pair, best)| self.directory.pair(*pair).map(|pair| (pair, best.unwrap_or_default())))
            .collect();
        pairs.sort_by(|(a, _), (b, _)| a.text.cmp(&b.text));
        for (pair, best) in pairs {
            let kind = Kind::Best { bid: best.bid.map(BestRow::of), ask: best.ask.map(BestRow::of) };
            self.line(&Line { frame: frame.frame, ts_ns: frame.at_ns.to_string(), instrument: &pair.text, kind })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.buffer, line)?;
        self.buffer.push(b'\n');
        self.lines += 1;
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.buffer);
        self.buffer.clear();
        written
    }

    /// Writes what is left; gives the number of lines.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.drain()?;
        self.out.flush()?;
        Ok(self.lines)
    }
}

fn book(update: &Update) -> Option<Kind> {
    let version = VersionFields(update.version?);
    let feed = FeedFields::of(update.feed);
    match &update.book {
        BookCut::Unchanged => None,
        BookCut::Snapshot { bids, asks, .. } => {
            let rows = |levels: &[Level]| levels.iter().map(|level| Row::of(update.scale, *level)).collect();
            Some(Kind::Snapshot(BookFields { version, bids: rows(bids), asks: rows(asks), feed }))
        }
        BookCut::Delta { changes, .. } => {
            let rows = |side: Side| {
                let of_side = |change: &&LevelChange| change.side == side;
                changes.iter().filter(of_side).map(|change| Row::of(update.scale, change.level)).collect()
            };
            Some(Kind::Delta(BookFields { version, bids: rows(Side::Bid), asks: rows(Side::Ask), feed }))
        }
    }
}

fn trade_line(scale: Scale, trade: &Trade) -> Kind {
    Kind::Trade {
        id: trade.id.to_string(),
        price: scale.price_text(trade.tick_index),
        tick_index: tick_index(scale, trade.tick_index),
        quantity: scale.quantity_text(trade.quantity),
        taker: match trade.taker {
            Side::Bid => "buy",
            Side::Ask => "sell",
        },
        venue_ns: trade.venue_ns.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::{FeedState, Flags, Quote, U256, Venue, scale::PRICE_POWERS};

    /// The lines of one frame of one instrument of the DEX.
    fn lines(update: impl FnOnce(&Instrument) -> Update) -> Vec<String> {
        let directory = Directory::default();
        let instrument = directory.intern(Venue::NeutronDex, "ibc/AB<>untrn", "ibc/AB", "untrn").unwrap();
        let frame = Frame {
            frame: 3,
            cut: 3,
            at_ns: 9,
            updates: vec![update(&instrument)],
            best: Vec::new(),
            views: Vec::new(),
        };
        let mut out = Vec::new();
        let mut writer = LineWriter::new(&mut out, &directory, &[]);
        writer.frame(&frame).unwrap();
        writer.finish().unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn prices_that_are_powers_have_their_tick_index_beside_them() {
        let level = |tick_index, quantity: u64| Level { tick_index, quantity: U256::from(quantity) };
        let scale = Scale { price: PRICE_POWERS, quantity: -27 };
        let (taker, id) = (Side::Bid, "7".into());
        let trade = Trade { id, order: 7, tick_index: 2, quantity: U256::from(1_u64), taker, venue_ns: 5 };
        let lines = lines(|instrument| Update {
            symbol: instrument.id,
            version: Some(Version::new(1, 5 << 30)),
            received_ns: 8,
            scale,
            book: BookCut::Snapshot { bids: vec![level(-1, 2)], asks: vec![level(1, 3)], horizon: [None, None] },
            quote: Some(Quote { bid: Some(level(-1, 2)), ask: None }),
            feed: Feed { state: FeedState::Live, flags: Flags::default() },
            feed_changed: false,
            trades: vec![(scale, trade)],
        });
        let head = r#"{"frame":3,"ts_ns":"8","instrument":"neutron_dex/ibc/AB<>untrn","type":"#;
        let bid = r#"["0.999900009999000100","0.000000000000000000000000002","-1"]"#;
        let ask = r#"["1.00010000000000000","0.000000000000000000000000003","1"]"#;
        let version = r#""epoch":1,"seq":"5368709120""#;
        let snapshot = format!(r#"{head}"snapshot",{version},"bids":[{bid}],"asks":[{ask}],"state":"LIVE"}}"#);
        let numbers = r#""price":"1.00020001000000000","tick_index":"2","quantity":"0.000000000000000000000000001""#;
        let trade = format!(r#"{head}"trade","id":"7",{numbers},"taker":"buy","venue_ns":"5"}}"#);
        let quote = format!(r#"{head}"quote",{version},"bid":{bid},"ask":null,"state":"LIVE"}}"#);
        assert_eq!(lines, [snapshot, trade, quote]);
    }
}
