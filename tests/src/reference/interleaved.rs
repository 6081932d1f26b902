//! OKX v5 and Bitget v1 by their published rules: a snapshot replaces, also without notice; updates apply; then the signed
//! checksum over the 25 best levels of each side, interleaved, is compared, from the texts as they were sent.
//!
//! Several sockets may carry the same books: each is rebuilt by itself, the one whose snapshot came first is reported, and
//! wherever two of them have told the same message the books must be the same.
//!
//! Never: messages of two sockets in one book.

use super::books::{Books, Row, put_rows};
use super::crc::{crc32, interleaved_text};
use super::{Line, Reconstruction, Rules, book::Book};
use anyhow::Result;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The books of one socket.
#[derive(Default)]
struct Socket {
    books: Books,
    /// Each instrument's book after each message, by its time and checksum.
    after: BTreeMap<(String, String, i32), String>,
}

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    sockets: BTreeMap<String, Socket>,
    /// The socket whose book of an instrument came first.
    first: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Argument {
    channel: String,
    /// Bitget's two markets call different instruments by one name.
    #[serde(rename = "instType")]
    market: Option<String>,
    #[serde(rename = "instId")]
    instrument: String,
}

#[derive(Deserialize)]
struct Data {
    asks: Vec<Row>,
    bids: Vec<Row>,
    ts: String,
    checksum: i32,
}

#[derive(Deserialize)]
struct Message {
    arg: Argument,
    action: String,
    data: Vec<Data>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message() else { return Ok(()) };
        if !raw.contains(r#""channel":"books"#) || !raw.contains(r#""action":"#) {
            return Ok(());
        }
        let message: Message = serde_json::from_str(raw)?;
        debug_assert!(message.arg.channel.starts_with("books"));
        let symbol = match message.arg.market.as_deref() {
            None | Some("sp") => message.arg.instrument,
            Some(market) => format!("{market}:{}", message.arg.instrument),
        };
        let socket = self.sockets.entry(line.conn.clone()).or_default();
        for data in &message.data {
            if message.action == "snapshot" {
                self.first.entry(symbol.clone()).or_insert_with(|| line.conn.clone());
                socket.books.snapshot(&symbol, None, &[], &[])?;
            } else {
                socket.books.stats.depth_events += 1;
            }
            socket.apply(&symbol, data, message.action == "snapshot")?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        let mut whole = Reconstruction::default();
        let mut known: BTreeMap<(String, String, i32), String> = BTreeMap::new();
        for (conn, socket) in self.sockets {
            for (message, book) in socket.after {
                match known.get(&message) {
                    Some(other) => {
                        whole.stats.leg_comparisons += 1;
                        whole.stats.leg_mismatches += u64::from(*other != book);
                    }
                    None => drop(known.insert(message, book)),
                }
            }
            let Reconstruction { books, stats } = socket.books.finish()?;
            whole.stats += stats;
            whole.books.extend(books.into_iter().filter(|(symbol, _)| self.first.get(symbol) == Some(&conn)));
        }
        Ok(whole)
    }
}

impl Socket {
    fn apply(&mut self, symbol: &str, data: &Data, snapshot: bool) -> Result<()> {
        let Self { books, after } = self;
        let set = |book: &mut Book, stats: &mut super::Stats| {
            put_rows(&mut book.asks, &data.asks)?;
            put_rows(&mut book.bids, &data.bids)?;
            stats.checksums += 1;
            let right = crc32(interleaved_text(book).as_bytes()).cast_signed();
            stats.checksum_matches += u64::from(right == data.checksum);
            Ok(())
        };
        let changed = match snapshot {
            true => books.fill(symbol, set)?,
            false => books.update(symbol, None, set)?,
        };
        if let Some(book) = changed {
            after
                .insert((symbol.to_owned(), data.ts.clone(), data.checksum), format!("{:?}", (&book.bids, &book.asks)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;

    fn frame(conn: &str, action: &str, ts: u64, bids: &str, text: &str) -> Line {
        let crc = crc32(text.as_bytes()).cast_signed();
        let raw = format!(
            r#"{{"arg":{{"channel":"books","instId":"X-Y"}},"action":"{action}","data":[{{"asks":[],"bids":[{bids}],"ts":"{ts}","checksum":{crc}}}]}}"#
        );
        Line { conn: conn.into(), ..Line::of("ws", &raw) }
    }

    #[test]
    fn a_second_snapshot_replaces_and_sockets_are_held_against_each_other() {
        let mut venue = Box::new(Venue::default());
        for line in [
            frame("a", "snapshot", 1, r#"["1.20","3","0","1"],["1","4","0","1"]"#, "1.20:3:1:4"),
            frame("b", "snapshot", 1, r#"["1.20","3","0","1"],["1","4","0","1"],["0.5","1","0","1"]"#, "1.20:3:1:4"),
            frame("a", "snapshot", 2, r#"["1.30","5","0","1"]"#, "1.30:5"),
            frame("a", "update", 3, r#"["1.30","0","0","0"],["1.2","2.0","0","1"]"#, "wrong"),
        ] {
            venue.frame(&line).unwrap();
        }
        let whole = venue.finish().unwrap();
        assert_eq!(whole.books["X-Y"].bids, [pair("1.2", "2")]);
        assert_eq!((whole.stats.snapshots, whole.stats.applied), (3, 1));
        // The second socket's first message is told of another book.
        assert_eq!((whole.stats.checksums, whole.stats.checksum_matches), (4, 2));
        assert_eq!((whole.stats.leg_comparisons, whole.stats.leg_mismatches), (1, 1));
    }
}
