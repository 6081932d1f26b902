//! Books as a reader of the lines has them.
//!
//! Never: a line out of its order accepted.

use serde_json::Value;
use std::collections::BTreeMap;

/// A decimal without the zeros that do not count.
pub(crate) fn canonical(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

/// A comparable form of a non-negative decimal: integer digits and fraction, padded.
fn sortable(text: &str) -> (usize, String, String) {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    (whole.len(), whole.to_owned(), fraction.trim_end_matches('0').to_owned())
}

type BookSide = BTreeMap<(usize, String, String), (String, String)>;

/// Price and quantity, best first.
pub(crate) type Rows = Vec<(String, String)>;

/// One instrument as a reader of the lines has it.
#[derive(Default)]
pub(crate) struct Reader {
    sides: [BookSide; 2],
    pub(crate) seq: String,
    /// Epoch and sequence; none before the first book.
    pub(crate) version: Option<(u64, u64)>,
    pub(crate) state: String,
    /// Lines that say that something was missed.
    pub(crate) gapped: u64,
    pub(crate) crossed: u64,
    pub(crate) snapshots: u64,
    pub(crate) deltas: u64,
}

/// Rebuilds every book from the lines alone, checking what the format promises.
pub(crate) fn read(lines: &[u8]) -> BTreeMap<String, Reader> {
    let mut readers: BTreeMap<String, Reader> = BTreeMap::new();
    let mut order: Option<(u64, String, u8)> = None;
    for line in std::str::from_utf8(lines).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (kind, instrument) = (line["type"].as_str().unwrap(), line["instrument"].as_str().unwrap().to_owned());
        let rank = ["snapshot", "delta", "status", "trade", "quote"].iter().position(|known| *known == kind).unwrap();
        let place = (line["frame"].as_u64().unwrap(), instrument.clone(), u8::try_from(rank).unwrap());
        assert!(order.as_ref().is_none_or(|before| *before <= place), "{place:?} after {order:?}");
        order = Some(place);
        let reader = readers.entry(instrument).or_default();
        if let Some(state) = line["state"].as_str() {
            state.clone_into(&mut reader.state);
            reader.gapped += u64::from(state == "GAPPED");
        }
        if rank < 2 {
            reader.book(&line, kind == "snapshot");
        }
    }
    readers
}

impl Reader {
    fn book(&mut self, line: &Value, snapshot: bool) {
        self.seq = line["seq"].as_str().unwrap().to_owned();
        let version = Some((line["epoch"].as_u64().unwrap(), self.seq.parse().unwrap()));
        assert!(version > self.version, "{version:?} after {:?}", self.version);
        self.version = version;
        self.snapshots += u64::from(snapshot);
        self.deltas += u64::from(!snapshot);
        for (side, name) in self.sides.iter_mut().zip(["bids", "asks"]) {
            if snapshot {
                side.clear();
            }
            for row in line[name].as_array().unwrap() {
                let (price, quantity) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
                if quantity == "0" {
                    assert!(side.remove(&sortable(price)).is_some(), "{price} was removed but not there");
                } else {
                    side.insert(sortable(price), (canonical(price), canonical(quantity)));
                }
            }
        }
        let best = (self.sides[0].keys().next_back(), self.sides[1].keys().next());
        self.crossed += u64::from(matches!(best, (Some(bid), Some(ask)) if bid >= ask));
    }

    pub(crate) fn levels(&self) -> (Rows, Rows) {
        let [bids, asks] = &self.sides;
        (bids.values().rev().cloned().collect(), asks.values().cloned().collect())
    }
}
