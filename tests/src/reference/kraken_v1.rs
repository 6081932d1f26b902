//! Kraken spot v1 by its published rule: a snapshot replaces; all maps of an update apply; then both sides are truncated
//! to the subscribed depth, which the channel's name says, and the checksum in the last map is compared.
//!
//! Never: a number that was parsed.

use super::books::{Books, Row, put_rows};
use super::crc::{crc32, kraken_text};
use super::{Line, Reconstruction, Rules};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "as")]
    snapshot_asks: Option<Vec<Row>>,
    #[serde(rename = "bs")]
    snapshot_bids: Option<Vec<Row>>,
    #[serde(default, rename = "a")]
    asks: Vec<Row>,
    #[serde(default, rename = "b")]
    bids: Vec<Row>,
    #[serde(rename = "c")]
    checksum: Option<String>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message().filter(|raw| raw.starts_with('[')) else { return Ok(()) };
        let parts: Vec<&RawValue> = serde_json::from_str(raw)?;
        let [_, payloads @ .., channel, pair] = parts.as_slice() else { return Ok(()) };
        let channel: &str = serde_json::from_str(channel.get())?;
        let Some(depth) = channel.strip_prefix("book-") else { return Ok(()) };
        let pair: String = serde_json::from_str(pair.get())?;
        let payloads: Vec<Payload> =
            payloads.iter().map(|payload| serde_json::from_str(payload.get())).collect::<Result<_, _>>()?;
        self.book(&pair, depth.parse().context("a depth")?, &payloads)
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        self.books.finish()
    }
}

impl Venue {
    fn book(&mut self, pair: &str, depth: usize, payloads: &[Payload]) -> Result<()> {
        if let Some(Payload { snapshot_asks: Some(asks), snapshot_bids: Some(bids), .. }) = payloads.first() {
            return self.books.snapshot(pair, None, bids, asks);
        }
        self.books.stats.depth_events += 1;
        self.books.update(pair, None, |book, stats| {
            for payload in payloads {
                put_rows(&mut book.asks, &payload.asks)?;
                put_rows(&mut book.bids, &payload.bids)?;
            }
            book.truncate(depth);
            if let Some(told) = payloads.last().and_then(|payload| payload.checksum.as_deref()) {
                stats.checksums += 1;
                stats.checksum_matches += u64::from(crc32(kraken_text(book).as_bytes()) == told.parse::<u32>()?);
            }
            Ok(())
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fed, pair};
    use super::*;

    #[test]
    fn two_maps_are_one_update_and_levels_that_leave_the_depth_are_gone() {
        // Asks 1.1 x 2, 1.2 x 3; bids 1.0 x 0.5, 0.9 x 1.
        let crc = crc32(b"11212310591");
        let update =
            format!(r#"[7,{{"a":[["1.1","2","1.0","r"]]}},{{"b":[["1.0","0.5","1.0"]],"c":"{crc}"}},"book-2","X/Y"]"#);
        let lines = [
            ("ws", r#"{"event":"heartbeat"}"#),
            (
                "ws",
                r#"[7,{"as":[["1.2","3","1.0"],["1.3","4","1.0"]],"bs":[["0.9","1","1.0"],["0.8","1","1.0"]]},"book-2","X/Y"]"#,
            ),
            ("ws", &update),
            ("ws", r#"[7,{"b":[["0.9","0.000","1.0"]],"c":"1"},"book-2","X/Y"]"#),
            ("ws", r#"[7,[["5541.20000","0.15850568","1534614057.321597","s","l",""]],"trade","X/Y"]"#),
        ];
        let whole = fed(Venue::default(), &lines);
        assert_eq!(whole.books["X/Y"].asks, [pair("1.1", "2"), pair("1.2", "3")]);
        assert_eq!(whole.books["X/Y"].bids, [pair("1", "0.5")]);
        assert_eq!((whole.stats.checksums, whole.stats.checksum_matches, whole.stats.applied), (2, 1, 2));
    }
}
