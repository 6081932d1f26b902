//! The venues' own text and the real decoders: what a leg carries, spelled as the venue would, and decoded again.
//!
//! Never: the code under test used to spell what it shall decode.

use super::{
    agenda::Said,
    leg::LegState,
    truth::{SCALE, Truth},
};
use connectors::{
    decoder::{Decoder, Repair},
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::{Undecodable, listings::Listings},
};
use foldhash::HashMap;
use market::{Event, Level, Side, TickChange, U256};
use std::{fmt::Write, sync::Arc};

/// Levels that the venue's checksum covers, best first, asks before bids.
const CHECKSUM_LEVELS: usize = 10;

/// The real decoders of one process.
pub(super) struct Texts {
    decoder: Decoder,
    /// When each connection told of each symbol last.
    said_ns: HashMap<(Arc<str>, String), u64>,
}

/// So long an instrument must have been quiet on a leg at least before another that ticks may take over from it.
const QUIET_NS: u64 = 2_000_000_000;

fn conn(leg: &LegState) -> Arc<str> {
    format!("leg {}", leg.id.0).into()
}

impl Texts {
    /// Decoders that number the legs as the scenario does.
    ///
    /// # Errors
    /// [`Undecodable`].
    pub(super) fn new(listings: Listings, legs: &[LegState]) -> Result<Self, Undecodable> {
        let mut texts = Self { decoder: Decoder::new(Arc::new(listings)), said_ns: HashMap::default() };
        for leg in legs {
            texts.decode(0, 0, leg, RawKind::Send, None, String::new())?;
        }
        Ok(texts)
    }

    /// A leg's connection begins or ends.
    ///
    /// # Errors
    /// [`Undecodable`].
    pub(super) fn life(
        &mut self,
        now_ns: u64,
        position: u64,
        leg: &LegState,
        up: bool,
    ) -> Result<Vec<Event>, Undecodable> {
        let kind = if up { RawKind::Open } else { RawKind::Close };
        self.decode(now_ns, position, leg, kind, None, String::new())
    }

    /// What a venue says on a leg.
    ///
    /// # Errors
    /// [`Undecodable`].
    pub(super) fn said(
        &mut self,
        now_ns: u64,
        position: u64,
        leg: &LegState,
        said: &Said,
        truths: &[Truth],
    ) -> Result<Vec<Event>, Undecodable> {
        let text = match said {
            Said::Heartbeat => return self.decode(now_ns, position, leg, RawKind::Alive, None, String::new()),
            Said::Changed(market, _) | Said::Whole(market, _) => {
                let Some(truth) = truths.get(*market) else { return Ok(Vec::new()) };
                self.said_ns.insert((conn(leg), truth.symbol.clone()), now_ns);
                spell(said, truth)
            }
        };
        self.decode(now_ns, position, leg, RawKind::Ws, None, text)
    }

    /// A REST answer.
    ///
    /// # Errors
    /// [`Undecodable`].
    pub(super) fn reply(
        &mut self,
        now_ns: u64,
        leg: &LegState,
        symbol: &str,
        id: u64,
        ticks: &[TickChange],
    ) -> Result<Vec<Event>, Undecodable> {
        let url = format!("https://venue/api/v3/depth?symbol={symbol}&limit=1000");
        let [bids, asks] = pairs(ticks);
        let text = format!(r#"{{"lastUpdateId":{id},"bids":[{bids}],"asks":[{asks}]}}"#);
        self.decode(now_ns, 0, leg, RawKind::Http, Some(url), text)
    }

    fn decode(
        &mut self,
        ts_ns: u64,
        position: u64,
        leg: &LegState,
        kind: RawKind,
        url: Option<String>,
        text: String,
    ) -> Result<Vec<Event>, Undecodable> {
        let (conn, url, raw) = (conn(leg), url.map(Into::into), RawPayload::Text(text));
        let mut events = Vec::new();
        self.decoder.decode(leg.venue, &RawFrame { ts_ns, kind, conn, url, raw }, position, &mut events)?;
        Ok(events)
    }

    /// Whether some book must be subscribed to anew although its leg told of it lately.
    pub(super) fn repairs(&mut self, now_ns: u64) -> bool {
        let lately = |repair: &Repair| {
            let said = self.said_ns.get(&(Arc::clone(&repair.conn), repair.symbol.to_string()));
            said.is_some_and(|said_ns| now_ns < said_ns + QUIET_NS)
        };
        self.decoder.repairs().iter().any(lately)
    }
}

fn spell(said: &Said, truth: &Truth) -> String {
    match said {
        Said::Changed(_, changed) if truth.numbered() => {
            let [bids, asks] = pairs(&changed.changes);
            let (symbol, stream) = (&truth.symbol, truth.symbol.to_lowercase());
            let (first, last) = (changed.first, changed.last);
            format!(
                r#"{{"stream":"{stream}@depth@100ms","data":{{"e":"depthUpdate","E":1800000000000,"s":"{symbol}","U":{first},"u":{last},"b":[{bids}],"a":[{asks}]}}}}"#
            )
        }
        Said::Changed(_, changed) => window("update", truth, &changed.changes, changed.to),
        Said::Whole(_, whole) => window("snapshot", truth, &whole.ticks, whole.at),
        Said::Heartbeat => String::new(),
    }
}

/// A message of the venue without ids, with the checksum of the book that it leads to.
fn window(kind: &str, truth: &Truth, ticks: &[TickChange], at: usize) -> String {
    let rows = |side| {
        let rows = ticks.iter().filter(|tick| tick.side == side).map(|tick| {
            let (price, quantity) = decimals(tick.key.tick_index, tick.reserves);
            format!(r#"{{"price":{price},"qty":{quantity}}}"#)
        });
        rows.collect::<Vec<_>>().join(",")
    };
    let (symbol, checksum) = (&truth.symbol, checksum(&truth.levels_at(at)));
    let (bids, asks) = (rows(Side::Bid), rows(Side::Ask));
    format!(
        r#"{{"channel":"book","type":"{kind}","data":[{{"symbol":"{symbol}","bids":[{bids}],"asks":[{asks}],"checksum":{checksum}}}]}}"#
    )
}

fn pairs(ticks: &[TickChange]) -> [String; 2] {
    Side::BOTH.map(|side| {
        let rows = ticks.iter().filter(|tick| tick.side == side).map(|tick| {
            let (price, quantity) = decimals(tick.key.tick_index, tick.reserves);
            format!(r#"["{price}","{quantity}"]"#)
        });
        rows.collect::<Vec<_>>().join(",")
    })
}

/// With all the decimals of the scale, as the venues send them.
fn decimals(tick_index: i64, quantity: U256) -> (String, String) {
    let point = |digits: String, exponent: i8| {
        let decimals = usize::from(exponent.unsigned_abs());
        let digits = format!("{digits:0>width$}", width = decimals + 1);
        let (whole, part) = digits.split_at(digits.len() - decimals);
        format!("{whole}.{part}")
    };
    (point(tick_index.to_string(), SCALE.price), point(quantity.to_string(), SCALE.quantity))
}

fn checksum([bids, asks]: &[Vec<Level>; 2]) -> u32 {
    let mut text = String::new();
    for level in asks.iter().take(CHECKSUM_LEVELS).chain(bids.iter().take(CHECKSUM_LEVELS)) {
        // Without point and leading zeros that is the number in steps.
        write!(text, "{}{}", level.tick_index, level.quantity).unwrap_or_default();
    }
    crc32fast::hash(text.as_bytes())
}
