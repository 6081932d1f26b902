//! Deribit by its published rule: a snapshot replaces; a change names the change before it, else the book is in doubt until
//! another snapshot; rows are verb, price and amount.
//!
//! Never: an update over a hole.

use super::book::{Book, Side, put};
use super::books::{Books, Row, at};
use super::{Line, Reconstruction, Rules, Stats};
use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The capture so far.
#[derive(Default)]
pub(super) struct Venue {
    books: Books,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    channel: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "type")]
    kind: String,
    instrument_name: String,
    change_id: u64,
    prev_change_id: Option<u64>,
    bids: Vec<Row>,
    asks: Vec<Row>,
}

impl Rules for Venue {
    fn frame(&mut self, line: &Line) -> Result<()> {
        let Some(raw) = line.message().filter(|raw| raw.contains(r#""method":"subscription""#)) else { return Ok(()) };
        let Message { params } = serde_json::from_str(raw)?;
        if !params.channel.starts_with("book.") {
            return Ok(());
        }
        let data: Data = serde_json::from_str(params.data.get())?;
        let (symbol, id) = (data.instrument_name.as_str(), Some(data.change_id));
        match data.kind.as_str() {
            "snapshot" => {
                let mut book = Book::default();
                rows(&mut book.bids, &data.bids, &mut self.books.stats)?;
                rows(&mut book.asks, &data.asks, &mut self.books.stats)?;
                self.books.replace(symbol, id, book);
            }
            "change" => {
                self.books.stats.depth_events += 1;
                if self.books.is_live(symbol) && self.books.last(symbol) != data.prev_change_id {
                    self.books.gap(symbol);
                    return Ok(());
                }
                self.books.update(symbol, id, |book, stats| {
                    rows(&mut book.bids, &data.bids, stats)?;
                    rows(&mut book.asks, &data.asks, stats)
                })?;
            }
            other => bail!("a book of the kind {other:?}"),
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Reconstruction> {
        self.books.finish()
    }
}

fn rows(side: &mut Side, rows: &[Row], stats: &mut Stats) -> Result<()> {
    for row in rows {
        let before = side.len();
        match at(row, 0)? {
            "delete" => {
                put(side, at(row, 1)?, "0")?;
                stats.unknown += u64::from(side.len() == before);
            }
            "new" | "change" => put(side, at(row, 1)?, at(row, 2)?)?,
            other => bail!("a row that says {other:?}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fed, pair};
    use super::*;

    #[test]
    fn changes_chain_and_a_missing_one_is_a_gap() {
        let frame = |kind: &str, ids: &str, bids: &str| {
            format!(
                r#"{{"method":"subscription","params":{{"channel":"book.X.raw","data":{{"type":"{kind}",{ids},"instrument_name":"X","bids":[{bids}],"asks":[]}}}}}}"#
            )
        };
        let lines = [
            frame("snapshot", r#""change_id":5"#, r#"["new",0.083,5.0],["new",0.08,2.0e3]"#),
            frame("change", r#""prev_change_id":5,"change_id":9"#, r#"["delete",0.083,0.0],["delete",0.1,0.0]"#),
            frame("change", r#""prev_change_id":10,"change_id":11"#, ""),
        ];
        let lines: Vec<_> = lines.iter().map(|raw| ("ws", raw.as_str())).collect();
        let whole = fed(Venue::default(), &lines[..2]);
        assert_eq!(whole.books["X"].bids, [pair("0.08", "2000")]);
        assert_eq!(whole.books["X"].last_update_id.as_deref(), Some("9"));
        assert_eq!((whole.stats.unknown, whole.stats.gaps), (1, 0));
        assert_eq!(fed(Venue::default(), &lines).stats.gaps, 1);
    }
}
