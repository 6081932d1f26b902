//! Neutron's exchange module by its published source: every `TickUpdate` of a block that did not fail sets what rests at one
//! tick, absolute, in the order of BeginBlock, transactions, EndBlock.
//!
//! The books are of ticks, not of levels: in the place of the price is `TickIndex maker`, of lower index first, which is the
//! better for who takes on both sides. The maker is `fee N` or `tranche KEY`.
//!
//! Never: fast; a number that is not text.

use super::decimal::Decimal;
use super::{FinalBook, Line, Reconstruction, Rules, Stats};
use anyhow::{Context, Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::collections::BTreeMap;

/// Bits of the place that count a block's events.
const ORDINAL_BITS: u32 = 30;

/// Type of the events that count.
const KIND: &str = "TickUpdate";

/// What rests on one side: by TickIndex and maker.
type Side = BTreeMap<(i64, String), String>;

/// One pair.
#[derive(Clone, Debug, Default)]
struct Pair {
    bids: Side,
    asks: Side,
    place: u64,
    blocks: u64,
}

/// The chain so far.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    pairs: BTreeMap<String, Pair>,
    height: Option<u64>,
}

/// What one block came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events of all kinds.
    pub events: u64,
    /// `TickUpdate`s that counted.
    pub ticks: u64,
    /// Transactions that failed.
    pub failed: u64,
}

impl Chain {
    /// Applies the next block; one whose height is not above the last one's changes nothing.
    ///
    /// # Errors
    /// When the document is none.
    pub fn apply(&mut self, document: &str) -> Result<Counts> {
        let document: Value = serde_json::from_str(document)?;
        let results = document.get("result").unwrap_or(&document);
        let height: u64 = results["height"].as_str().context("height")?.parse()?;
        let mut counts = Counts::default();
        if self.height.is_some_and(|last| height <= last) {
            return Ok(counts);
        }
        self.height = Some(height);
        let mut touched = BTreeMap::new();
        for (event, failed) in in_order(results, &mut counts) {
            let ordinal = counts.events;
            counts.events += 1;
            if failed || event["type"].as_str() != Some(KIND) {
                continue;
            }
            let attributes = attributes(event)?;
            let get = |key: &str| attributes.get(key).with_context(|| format!("no {key} in event {ordinal}"));
            if get("module")? != "dex" {
                continue;
            }
            counts.ticks += 1;
            let symbol = format!("{}<>{}", get("TokenZero")?, get("TokenOne")?);
            let pair = self.pairs.entry(symbol.clone()).or_default();
            let side = match get("TokenIn")? {
                token if token == get("TokenZero")? => &mut pair.asks,
                token if token == get("TokenOne")? => &mut pair.bids,
                other => bail!("{other} is no token of {symbol}"),
            };
            let maker = match attributes.get("TrancheKey") {
                Some(tranche) => format!("tranche {tranche}"),
                None => format!("fee {}", get("Fee")?),
            };
            let key = (get("TickIndex")?.parse()?, maker);
            let reserves = Decimal::read(attributes.get("ReservesDec").map_or_else(|| get("Reserves"), Ok)?)?;
            if reserves.is_zero() {
                side.remove(&key);
            } else {
                side.insert(key, reserves.canonical());
            }
            pair.place = height << ORDINAL_BITS | ordinal;
            touched.insert(symbol, ());
        }
        for symbol in touched.keys() {
            self.pairs.entry(symbol.clone()).or_default().blocks += 1;
        }
        Ok(counts)
    }

    /// What rests now, by pair.
    #[must_use]
    pub fn books(&self) -> BTreeMap<String, FinalBook> {
        let rows = |side: &Side| {
            side.iter().map(|((index, maker), reserves)| (format!("{index} {maker}"), reserves.clone())).collect()
        };
        let book = |(symbol, pair): (&String, &Pair)| {
            let last_update_id = Some(pair.place.to_string());
            let book =
                FinalBook { bids: rows(&pair.bids), asks: rows(&pair.asks), last_update_id, applied: pair.blocks };
            (symbol.clone(), book)
        };
        self.pairs.iter().map(book).collect()
    }
}

/// All events in their order, each with whether its transaction failed.
fn in_order<'a>(results: &'a Value, counts: &mut Counts) -> Vec<(&'a Value, bool)> {
    let list = |name: &str| results[name].as_array().map_or(&[][..], Vec::as_slice);
    let before = |event: &&Value| {
        // In this shape names have never been in base64.
        let mut modes = event["attributes"].as_array().into_iter().flatten().filter(|at| at["key"] == "mode");
        modes.next_back().is_some_and(|mode| mode["value"] == "BeginBlock" || mode["value"] == "PreBlock")
    };
    let (begin, end): (Vec<_>, Vec<_>) = list("finalize_block_events").iter().partition(before);
    let mut all: Vec<(&Value, bool)> =
        list("begin_block_events").iter().chain(begin).map(|event| (event, false)).collect();
    for transaction in list("txs_results") {
        let failed = transaction["code"].as_u64().unwrap_or(0) != 0;
        counts.failed += u64::from(failed);
        let events = transaction["events"].as_array().map_or(&[][..], Vec::as_slice);
        all.extend(events.iter().map(|event| (event, failed)));
    }
    all.extend(list("end_block_events").iter().chain(end).map(|event| (event, false)));
    all
}

/// The attributes by name, the last of each; of base64 where the names are.
fn attributes(event: &Value) -> Result<BTreeMap<String, String>> {
    let decoded = |text: &str| -> Result<String> { Ok(String::from_utf8(BASE64_STANDARD.decode(text)?)?) };
    let listed = event["attributes"].as_array().map_or(&[][..], Vec::as_slice);
    let texts = listed.iter().filter_map(|at| at["key"].as_str().zip(at["value"].as_str()));
    let texts: Vec<(&str, &str)> = texts.collect();
    let coded = texts.iter().any(|(key, _)| decoded(key).is_ok_and(|name| name == "module" || name == "TokenZero"));
    texts
        .into_iter()
        .map(|(key, value)| Ok(if coded { (decoded(key)?, decoded(value)?) } else { (key.into(), value.into()) }))
        .collect()
}

/// A capture of block results.
#[derive(Default)]
pub(super) struct Venue {
    chain: Chain,
    stats: Stats,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.raw.as_deref().filter(|_| matches!(&*line.kind, "ws" | "http")) else { return Ok(()) };
        let counts = self.chain.apply(raw)?;
        self.stats.depth_events += counts.ticks;
        self.stats.applied += counts.ticks;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        Ok(Reconstruction { books: self.chain.books(), stats: self.stats })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;

    fn event(index: i64, reserves: &str, maker: (&str, &str)) -> String {
        let attributes = [("module", "dex"), ("TokenZero", "a"), ("TokenOne", "b"), ("TokenIn", "b")];
        let own = [("TickIndex", &*index.to_string()), ("Fee", "7"), ("ReservesDec", reserves), maker]
            .map(|(key, value)| format!(r#"{{"key":"{key}","value":"{value}"}}"#));
        let all = attributes.map(|(key, value)| format!(r#"{{"key":"{key}","value":"{value}"}}"#));
        format!(r#"{{"type":"TickUpdate","attributes":[{},{}]}}"#, all.join(","), own.join(","))
    }

    #[test]
    fn blocks_apply_in_their_order_and_failed_transactions_not_at_all() {
        let mut chain = Chain::default();
        let block = format!(
            r#"{{"height":"2","end_block_events":[{}],"txs_results":[{{"code":1,"events":[{}]}},{{"events":[{},{}]}}]}}"#,
            event(4, "0.50", ("Fee", "1")),
            event(9, "1", ("Fee", "1")),
            event(4, "8", ("Fee", "1")),
            event(-3, "2", ("TrancheKey", "t")),
        );
        let counts = chain.apply(&block).unwrap();
        assert_eq!(counts, Counts { events: 4, ticks: 3, failed: 1 });
        let books = chain.books();
        assert_eq!(books["a<>b"].bids, [pair("-3 tranche t", "2"), pair("4 fee 1", "0.5")]);
        assert_eq!(books["a<>b"].last_update_id.as_deref(), Some((2_u64 << 30 | 3).to_string().as_str()));
        assert_eq!(chain.apply(&block).unwrap(), Counts::default(), "once more");
    }
}
