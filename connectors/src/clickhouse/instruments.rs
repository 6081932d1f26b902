//! What names an instrument in the store, and statements about some of them that read only their rows.
//!
//! Never: a condition on a version without the key columns before it, which would read the whole history.

use clickhouse::{Client, Row, query::Query};
use serde::Deserialize;

/// Instruments that one statement names. More of them make the server compare every part of its index with every one;
/// fewer make more statements.
pub(super) const INSTRUMENTS_PER_STATEMENT: usize = 100;

/// An instrument by its names, in the order of the tables' keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Row, Deserialize)]
pub(super) struct Named {
    pub(super) asset_0: Box<str>,
    pub(super) asset_1: Box<str>,
    pub(super) venue: Box<str>,
    pub(super) symbol: Box<str>,
}

impl Named {
    /// The part that is the beginning of every key.
    pub(super) fn key(&self) -> [&str; 3] {
        [&self.asset_0, &self.asset_1, &self.venue]
    }
}

/// An instrument, and the version above which its rows are meant; `None` for all of them.
pub(super) type Above<'a> = (&'a Named, Option<u128>);

/// A statement with `{rows}` in place of its condition on instruments, which must be ordered by name.
///
/// One thread: what is left to read is little, and more of them would each go through the index.
pub(super) fn statement_on(client: &Client, template: &str, instruments: &[Above<'_>]) -> Query {
    let one = |(_, above): &Above<'_>| match above {
        Some(_) => "(asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ? AND version > toUInt128(?))",
        None => "(asset_0 = ? AND asset_1 = ? AND venue = ? AND symbol = ?)",
    };
    let each = instruments.iter().map(one).collect::<Vec<_>>().join(" OR ");
    let places = template.matches("{rows}").count();
    let condition = format!("asset_0 >= ? AND asset_0 <= ? AND ({each})");
    let mut query = client.query(&template.replace("{rows}", &condition)).with_setting("max_threads", "1");
    for _ in 0..places {
        for end in [instruments.first(), instruments.last()] {
            query = query.bind(end.map_or("", |(named, _)| &*named.asset_0));
        }
        for (named, above) in instruments {
            query = query.bind(&*named.asset_0).bind(&*named.asset_1).bind(&*named.venue).bind(&*named.symbol);
            if let Some(above) = above {
                query = query.bind(above.to_string());
            }
        }
    }
    query
}
