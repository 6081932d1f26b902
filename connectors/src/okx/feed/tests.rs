//! Chains of ids, checksums, generations and maintenances, told message by message.
//!
//! Never: a checksum taken from the code under test but by the same rule over the books that the test names.

mod numbers;
mod order;

use super::*;
use crate::raw::{RawFrame, RawKind, RawPayload};
use market::{Sequence, Snapshot};
use proptest::prelude::*;

const BTC: &str = "BTC-USDT";

type Levels<'a> = &'a [(&'a str, &'a str)];

pub(super) struct Wire {
    pub(super) feed: Feed,
    pub(super) events: Vec<Event>,
    position: u64,
}

/// A message of one book.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    symbol: &'a str,
    channel: &'a str,
    action: &'a str,
    bids: Levels<'a>,
    /// `prevSeqId` and `seqId`.
    ids: Option<(i64, u64)>,
    checksum: i64,
}

impl<'a> Said<'a> {
    fn snapshot(symbol: &'a str, bids: Levels<'a>) -> Self {
        Self { symbol, channel: "books", action: "snapshot", bids, ids: None, checksum: 0 }
    }

    fn update(symbol: &'a str, bids: Levels<'a>) -> Self {
        Self { action: "update", ..Self::snapshot(symbol, bids) }
    }

    fn ids(self, prev: i64, last: u64) -> Self {
        Self { ids: Some((prev, last)), ..self }
    }

    /// With the checksum of these bids, the best first.
    fn sums(self, held: Levels<'_>) -> Self {
        let text: Vec<_> = held.iter().map(|(price, size)| format!("{price}:{size}")).collect();
        Self { checksum: crc32fast::hash(text.join(":").as_bytes()).cast_signed().into(), ..self }
    }

    fn entry(&self) -> String {
        let rows: Vec<_> = self.bids.iter().map(|(price, size)| format!(r#"["{price}","{size}","0","1"]"#)).collect();
        let ids = self.ids.map_or_else(String::new, |(prev, last)| format!(r#","seqId":{last},"prevSeqId":{prev}"#));
        format!(r#"{{"asks":[],"bids":[{}],"ts":"1626995750044","checksum":{}{ids}}}"#, rows.join(","), self.checksum)
    }

    fn text(&self) -> String {
        let Self { channel, symbol, action, .. } = self;
        let entry = self.entry();
        format!(r#"{{"arg":{{"channel":"{channel}","instId":"{symbol}"}},"action":"{action}","data":[{entry}]}}"#)
    }
}

impl Wire {
    pub(super) fn new() -> Self {
        Self::listed(Listings::new(Arc::default()))
    }

    fn listed(listings: Listings) -> Self {
        Self { feed: Feed::new(Arc::new(listings)), events: Vec::new(), position: 0 }
    }

    fn frame(&mut self, leg: u16, kind: RawKind, raw: &str) -> Result<(), Undecodable> {
        self.position += 1;
        let raw = RawPayload::Text(raw.into());
        let frame = RawFrame { ts_ns: 7, kind, conn: "0".into(), url: None, raw };
        let arrival = Arrival { frame: &frame, position: self.position, leg: LegId(leg) };
        self.feed.decode(arrival, &mut self.events)
    }

    pub(super) fn say(&mut self, leg: u16, raw: &str) -> Result<(), Undecodable> {
        self.frame(leg, RawKind::Ws, raw)
    }

    fn book(&mut self, leg: u16, said: Said<'_>) {
        self.say(leg, &said.text()).unwrap();
    }

    /// What was told of books since the last time: kind, symbol, order and number of levels.
    fn told(&mut self) -> Vec<(&'static str, u32, Option<Sequence>, usize)> {
        let of = |event: Event| match event.body {
            Body::Snapshot(Snapshot { sequence, ticks, .. }) => {
                Some(("snapshot", event.symbol.0, Some(sequence), ticks.len()))
            }
            Body::Delta(delta) => Some(("delta", event.symbol.0, Some(delta.sequence), delta.changes.len())),
            Body::Broken(_) => Some(("broken", event.symbol.0, None, 0)),
            _ => None,
        };
        self.events.drain(..).filter_map(of).collect()
    }
}

pub(super) const fn venue(first: u64, last: u64) -> Option<Sequence> {
    Some(Sequence::Venue { first, last })
}

#[test]
fn answers_and_other_channels_are_counted_and_nothing_else() {
    let mut wire = Wire::new();
    for text in [
        "pong",
        r#"{"event":"subscribe","arg":{"channel":"books","instId":"BTC-USDT"},"connId":"a4d3ae55"}"#,
        r#"{"id":"7","event":"error","code":"60018","msg":"Wrong URL or channel:books,instId:X doesn't exist."}"#,
        r#"{"event":"notice","code":"64008","msg":"The connection will soon be closed"}"#,
        r#"{"arg":{"channel":"tickers","instId":"BTC-USDT"},"data":[{"last":"1","bidPx":"","askPx":"0"}]}"#,
        r#"{"arg":{"channel":"bbo-tbt","instId":"BTC-USDT"},"data":[{"asks":[],"bids":[]}]}"#,
    ] {
        wire.say(0, text).unwrap();
    }
    assert_eq!((wire.feed.counts().ignored, wire.events.len()), (6, 0));
}

#[test]
fn what_is_not_of_the_documented_shape_is_refused_by_type() {
    let mut wire = Wire::new();
    for text in
        ["", "{", "7", r#"{"arg":7}"#, r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update","data":{}}"#]
    {
        assert!(matches!(wire.say(0, text), Err(Undecodable::Json { .. })), "{text}");
    }
    for (text, name) in [
        ("{}", "arg"),
        (r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update"}"#, "data"),
        (r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update","data":[]}"#, "data"),
        (r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"data":[{}]}"#, "action"),
        (r#"{"arg":{"channel":"books"},"action":"update","data":[{}]}"#, "instId"),
        (r#"{"arg":{"channel":"trades"},"data":[{}]}"#, "instId"),
    ] {
        let error = wire.say(0, text).unwrap_err();
        assert!(matches!(error, Undecodable::Field { field, .. } if field == name), "{text}: {error}");
    }
    assert!(wire.events.is_empty());
}

#[test]
fn a_maintenance_of_the_whole_market_halts_it_until_all_of_them_end() {
    let mut wire = Wire::new();
    let status = |service: &str, state: &str, env: &str| {
        format!(
            r#"{{"arg":{{"channel":"status"}},"data":[{{"begin":"1672823400000","end":"1672825980000","state":"{state}","serviceType":"{service}","env":"{env}","title":"x","ts":"1672826038470"}}]}}"#
        )
    };
    let said = [
        ("0", "scheduled", "1"),
        ("5", "ongoing", "2"),
        ("9", "ongoing", "1"),
        ("5", "ongoing", "1"),
        ("0", "ongoing", "1"),
        ("5", "pre_open", "1"),
        ("5", "completed", "1"),
        ("0", "canceled", "1"),
        ("0", "completed", "1"),
    ];
    let mut told = Vec::new();
    for (at, (service, state, env)) in said.into_iter().enumerate() {
        wire.say(1, &status(service, state, env)).unwrap();
        told.extend(wire.events.drain(..).map(|event| (at, event.leg.0, event.body)));
    }
    assert_eq!(told, [(3, 1, Body::Halted), (7, 1, Body::Resumed)]);
    wire.say(1, &status("5", "ongoing", "1")).unwrap();
    wire.frame(1, RawKind::Open, "").unwrap();
    wire.say(1, &status("5", "ongoing", "1")).unwrap();
    let halted = wire.events.iter().filter(|event| event.body == Body::Halted).count();
    assert_eq!(halted, 2, "a connection anew is told anew");
}

#[test]
fn a_symbol_is_kept_to_the_letter_and_one_that_nobody_asked_for_is_refused_by_name() {
    let mut wire = Wire::new();
    wire.book(0, Said::snapshot("kPEPE-USDT", &[("1", "1")]).ids(-1, 5));
    wire.book(0, Said::snapshot("KPEPE-USDT", &[("1", "1")]).ids(-1, 5));
    let snapshots = wire.told().into_iter().filter(|(kind, ..)| *kind == "snapshot");
    assert_eq!(snapshots.map(|(_, symbol, ..)| symbol).collect::<Vec<_>>(), [0, 1]);
    let unknown = wire.say(0, &Said::snapshot("WHAT", &[]).ids(-1, 5).text());
    assert!(matches!(unknown, Err(Undecodable::Symbol { .. })), "{unknown:?}");
    let mut wire = Wire::listed(Listings::new(Arc::default()).with_only(VENUE, [BTC]));
    for said in [Said::snapshot("ETH-USDT", &[]).ids(-1, 5), Said::snapshot("ETH-USDT", &[])] {
        let unlisted = wire.say(0, &said.text());
        assert!(matches!(unlisted, Err(Undecodable::Unlisted { .. })), "{unlisted:?}");
    }
    assert!(wire.feed.known.is_empty() && wire.events.is_empty());
    assert_eq!(wire.feed.counts().undecodable, 2);
}

/// Whole messages to begin with.
fn real() -> [String; 8] {
    let bids: Levels<'static> = &[("0.335", "5"), ("0.3345", "300")];
    [
        Said::snapshot(BTC, bids).ids(-1, 10).sums(bids).text(),
        Said::update(BTC, bids).ids(10, 15).text(),
        Said::update(BTC, &[]).ids(15, 15).text(),
        Said::update(BTC, bids).ids(15, 3).text(),
        Said::snapshot("ETH-USDT", bids).sums(bids).text(),
        Said::update("ETH-USDT", bids).sums(bids).text(),
        r#"{"arg":{"channel":"trades","instId":"BTC-USDT"},"data":[{"instId":"BTC-USDT","tradeId":"3435655","px":"0.000000454","sz":"11.83","side":"sell","ts":"1626995753055"}]}"#.to_owned(),
        r#"{"arg":{"channel":"status"},"data":[{"state":"ongoing","serviceType":"0","env":"1"}]}"#.to_owned(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_whatsoever_panics(texts in prop::collection::vec(any::<String>(), 1..4)) {
        use crate::live::protocol::Protocol;
        let mut wire = Wire::new();
        for text in texts {
            crate::okx::live::Okx.understand(&text);
            drop(wire.say(0, &text));
        }
    }

    #[test]
    fn a_changed_real_message_never_panics_and_what_it_tells_is_listed(
        changes in prop::collection::vec((0..8_usize, any::<prop::sample::Index>(), any::<u8>(), 0..3_u16), 1..24)
    ) {
        use crate::live::protocol::Protocol;
        let (mut wire, real) = (Wire::new(), real());
        for (at, place, byte, leg) in changes {
            let mut bytes = real[at].clone().into_bytes();
            // Now and then one is left as it is.
            if byte % 4 > 0 {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let text = String::from_utf8_lossy(&bytes);
            crate::okx::live::Okx.understand(&text);
            drop(wire.say(leg, &text));
        }
        let mut listed = Vec::new();
        for event in &wire.events {
            match event.body {
                Body::Listing(_) => listed.push(event.symbol),
                Body::Halted | Body::Resumed => {}
                _ => prop_assert!(listed.contains(&event.symbol)),
            }
        }
    }
}
