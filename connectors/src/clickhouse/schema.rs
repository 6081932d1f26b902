//! Creates the tables and compares what exists with what the program expects, before any data.
//!
//! Never: a change of an existing table; a difference is an error that names the fix.

use super::StoreAddress;
use clickhouse::{Client, Row};
use serde::Deserialize;

/// The tables, views and their settings, as shipped.
pub const SCHEMA_SQL: &str = include_str!("../../../schema.sql");

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The store did not answer as it should.
    #[error("cannot {action} in the store")]
    Store {
        /// What was tried.
        action: Box<str>,
        /// The client's error.
        #[source]
        source: clickhouse::error::Error,
    },
    /// A table is not what the program expects.
    #[error(
        "table {database}.{table} differs: {difference}. Nothing was written. Rename or drop the table, or configure another database"
    )]
    Differs {
        /// The database.
        database: Box<str>,
        /// The table.
        table: &'static str,
        /// What differs.
        difference: Difference,
    },
}

/// How a table differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// Not there after it should have been created.
    #[error("it is missing")]
    Missing,
    /// Its engine, with the engine's columns.
    #[error("engine {found}, expected {expected}")]
    Engine {
        /// As it is.
        found: Box<str>,
        /// As it should be.
        expected: &'static str,
    },
    /// Its sorting key.
    #[error("sorting key ({found}), expected ({expected})")]
    SortingKey {
        /// As it is.
        found: Box<str>,
        /// As it should be.
        expected: &'static str,
    },
    /// A column with another type.
    #[error("column {name} is {found}, expected {expected}")]
    ColumnType {
        /// The column.
        name: Box<str>,
        /// As it is.
        found: Box<str>,
        /// As it should be.
        expected: &'static str,
    },
    /// A column that should be there.
    #[error("column {name} is missing")]
    ColumnMissing {
        /// The column.
        name: &'static str,
    },
    /// A column that nobody expects.
    #[error("column {name} is not expected")]
    ColumnUnexpected {
        /// The column.
        name: Box<str>,
    },
}

struct Expected {
    table: &'static str,
    /// Beginning of `engine_full`; the settings behind it may be tuned by the operator.
    engine: &'static str,
    sorting_key: &'static str,
    /// In lists, so that tables can have one in common.
    columns: &'static [&'static [(&'static str, &'static str)]],
}

const NAME: &str = "LowCardinality(String)";
const TIME: &str = "DateTime64(9, 'UTC')";
const EXACT: &str = "Nullable(Decimal(76, 38))";

const TICK_COLUMNS: &[(&str, &str)] = &[
    ("venue", NAME),
    ("symbol", NAME),
    ("asset_0", NAME),
    ("asset_1", NAME),
    ("asset_in", NAME),
    ("tick_index", "Int64"),
    ("fee", "UInt32"),
    ("tranche_key", "String"),
    ("reserves", "UInt256"),
    ("reserves_zero", "UInt8"),
    ("version", "UInt128"),
    ("price_exponent", "Int8"),
    ("quantity_exponent", "Int8"),
    ("updated_at", TIME),
    ("ingestion_timestamp", TIME),
    ("price", EXACT),
    ("quantity", EXACT),
];

/// What names a tick.
const KEY_COLUMNS: &[(&str, &str)] = &[
    ("asset_0", NAME),
    ("asset_1", NAME),
    ("venue", NAME),
    ("asset_in", NAME),
    ("tick_index", "Int64"),
    ("fee", "UInt32"),
    ("tranche_key", "String"),
];

/// What names an instrument.
const NAME_COLUMNS: &[(&str, &str)] = &[("venue", NAME), ("symbol", NAME), ("asset_0", NAME), ("asset_1", NAME)];

const INSTRUMENT_COLUMNS: &[(&str, &str)] =
    &[("venue", NAME), ("symbol", NAME), ("asset_0", NAME), ("asset_1", NAME), ("version", "UInt128")];

const STREAM_COLUMNS: &[(&str, &str)] = &[("venue", NAME), ("stream", NAME)];

const TIME_COLUMNS: &[(&str, &str)] = &[("updated_at", TIME), ("ingestion_timestamp", TIME)];

const EXPECTED: [Expected; 28] = [
    Expected {
        table: "raw_events",
        engine: "MergeTree",
        sorting_key: "venue, stream, height, part",
        columns: &[&[
            ("venue", NAME),
            ("stream", NAME),
            ("height", "UInt64"),
            ("previous_height", "UInt64"),
            ("part", "UInt32"),
            ("parts", "UInt32"),
            ("message_id", "String"),
            ("kind", NAME),
            ("batch_id", "String"),
            ("payload", "String"),
            ("updated_at", TIME),
            ("published_at", TIME),
            ("ingestion_timestamp", TIME),
        ]],
    },
    Expected {
        table: "tick_updates",
        engine: "MergeTree",
        sorting_key: "asset_0, asset_1, venue, version, asset_in, tick_index",
        columns: &[TICK_COLUMNS, &[("whole", "UInt8"), ("shown_at", TIME), ("raw_id", "String")]],
    },
    Expected {
        table: "tick_state",
        engine: "ReplacingMergeTree(version, reserves_zero)",
        sorting_key: "asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key",
        columns: &[TICK_COLUMNS],
    },
    Expected {
        table: "instrument_version",
        engine: "ReplacingMergeTree(version)",
        sorting_key: "asset_0, asset_1, venue, symbol",
        columns: &[INSTRUMENT_COLUMNS, &[("price_exponent", "Int8"), ("quantity_exponent", "Int8")], TIME_COLUMNS],
    },
    Expected {
        table: "book_snapshots",
        engine: "ReplacingMergeTree(version)",
        sorting_key: "asset_0, asset_1, venue, symbol",
        columns: &[INSTRUMENT_COLUMNS, TIME_COLUMNS],
    },
    Expected {
        table: "trades",
        engine: "ReplacingMergeTree",
        sorting_key: "asset_0, asset_1, venue, trade_id",
        columns: &[&[
            ("venue", NAME),
            ("symbol", NAME),
            ("asset_0", NAME),
            ("asset_1", NAME),
            ("trade_id", "String"),
            ("trade_order", "UInt64"),
            ("taker", NAME),
            ("tick_index", "Int64"),
            ("quantity_steps", "UInt256"),
            ("price_exponent", "Int8"),
            ("quantity_exponent", "Int8"),
            ("traded_at", TIME),
            ("ingestion_timestamp", TIME),
            ("price", EXACT),
            ("quantity", EXACT),
        ]],
    },
    Expected {
        table: "epoch_blocks",
        engine: "MergeTree",
        sorting_key: "first",
        columns: &[&[
            ("first", "UInt64"),
            ("identity", "String"),
            ("host", "String"),
            ("owner", "String"),
            ("reserved_at", TIME),
        ]],
    },
    Expected {
        table: "batch_cursors",
        engine: "ReplacingMergeTree(height)",
        sorting_key: "venue, stream",
        columns: &[STREAM_COLUMNS, &[("height", "UInt64"), ("moved_at", TIME)]],
    },
    Expected {
        table: "batch_gaps",
        engine: "ReplacingMergeTree(changed_at)",
        sorting_key: "venue, stream, after, through",
        columns: &[
            STREAM_COLUMNS,
            &[
                ("after", "UInt64"),
                ("through", "UInt64"),
                ("state", NAME),
                ("operator", "String"),
                ("note", "String"),
                ("since", TIME),
                ("changed_at", TIME),
            ],
        ],
    },
    Expected {
        table: "dead_letters",
        engine: "ReplacingMergeTree(changed_at)",
        sorting_key: "id",
        columns: &[
            STREAM_COLUMNS,
            &[
                ("id", "String"),
                ("height", "UInt64"),
                ("message_id", "String"),
                ("attributes", "Map(String, String)"),
                ("payload", "String"),
                ("reason", "String"),
                ("attempts", "UInt32"),
                ("state", NAME),
                ("published_at", TIME),
                ("ingestion_timestamp", TIME),
                ("changed_at", TIME),
            ],
        ],
    },
    Expected {
        table: "tick_floors",
        engine: "ReplacingMergeTree(version)",
        sorting_key: "asset_0, asset_1, venue, symbol",
        columns: &[INSTRUMENT_COLUMNS, &[("set_at", TIME)]],
    },
    Expected {
        table: "swept_rows",
        engine: "MergeTree",
        sorting_key: "sweep, newest, asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key, version",
        columns: &[KEY_COLUMNS, &[("sweep", "UInt64"), ("version", "UInt128"), ("newest", "UInt8")]],
    },
    Expected {
        table: "history_gaps",
        engine: "MergeTree",
        sorting_key: "asset_0, asset_1, venue, symbol, after",
        columns: &[
            NAME_COLUMNS,
            &[
                ("after", "UInt128"),
                ("through", "UInt128"),
                ("changes", "UInt64"),
                ("reason", NAME),
                ("noted_at", TIME),
            ],
        ],
    },
    Expected {
        table: "audits",
        engine: "MergeTree",
        sorting_key: "begun_at, host, audit",
        columns: &[&[
            ("audit", "UInt64"),
            ("host", NAME),
            ("begun_at", TIME),
            ("ended_at", TIME),
            ("instruments", "UInt32"),
            ("instruments_skipped", "UInt32"),
            ("compared_ticks", "UInt64"),
            ("skipped_ticks", "UInt64"),
            ("divergent_ticks", "UInt64"),
            ("corrected_ticks", "UInt64"),
        ]],
    },
    Expected {
        table: "audit_evidence",
        engine: "MergeTree",
        sorting_key: "found_at, venue, symbol, asset_in, tick_index, fee, tranche_key",
        columns: &[
            KEY_COLUMNS,
            &[
                ("audit", "UInt64"),
                ("host", NAME),
                ("found_at", TIME),
                ("symbol", NAME),
                ("live_version", "UInt128"),
                ("live_reserves", "UInt256"),
                ("state_version", "UInt128"),
                ("state_reserves", "UInt256"),
                ("history_version", "UInt128"),
                ("history_reserves", "UInt256"),
                ("kind", NAME),
                ("verdict", NAME),
                ("action", NAME),
                ("explanation", "String"),
            ],
        ],
    },
    Expected {
        table: "schema_migrations",
        engine: "ReplacingMergeTree(applied_at)",
        sorting_key: "number",
        columns: &[&[("number", "UInt32"), ("name", "String"), ("applied_by", "String"), ("applied_at", TIME)]],
    },
    Expected { table: "tick_state_fill", engine: "MaterializedView", sorting_key: "", columns: &[] },
    Expected { table: "instrument_version_fill", engine: "MaterializedView", sorting_key: "", columns: &[] },
    Expected { table: "book_snapshots_fill", engine: "MaterializedView", sorting_key: "", columns: &[] },
    Expected { table: "candles", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "live_ticks", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_depth", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_as_of", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_at_version", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "version_shown_at", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_shown_at", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "state_changes", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "candles_of", engine: "View", sorting_key: "", columns: &[] },
];

/// Makes the store ready: checks what is there, creates what is missing, and checks all. Idempotent.
///
/// # Errors
/// [`SchemaError`]; nothing is created if an existing table differs.
pub async fn apply(address: &StoreAddress) -> Result<(), SchemaError> {
    let server = address.server_client();
    check(&server, &address.database, false).await?;
    let create = server.query("CREATE DATABASE IF NOT EXISTS ?");
    let created = create.bind(clickhouse::sql::Identifier(&address.database)).execute().await;
    created.map_err(failed("create the database"))?;
    let client = address.client();
    for statement in statements(SCHEMA_SQL) {
        let what = statement.lines().find(|line| line.starts_with("CREATE")).unwrap_or("apply a statement");
        client.query_raw(statement).execute().await.map_err(failed(what))?;
    }
    check(&server, &address.database, true).await
}

/// What a view selects from `tick_updates`; empty if the script makes no such view.
pub(super) fn view_select(view: &str) -> &'static str {
    let head = format!("CREATE MATERIALIZED VIEW IF NOT EXISTS {view} TO ");
    let made = statements(SCHEMA_SQL).into_iter().find_map(|statement| statement.split_once(&head));
    made.and_then(|(_, rest)| rest.split_once(" AS\n")).map_or("", |(_, select)| select)
}

fn failed(action: &str) -> impl FnOnce(clickhouse::error::Error) -> SchemaError {
    move |source| SchemaError::Store { action: action.into(), source }
}

#[derive(Row, Deserialize)]
struct FoundTable {
    name: String,
    engine_full: String,
    sorting_key: String,
}

#[derive(Row, Deserialize)]
struct FoundColumn {
    table: String,
    name: String,
    r#type: String,
}

async fn check(server: &Client, database: &str, complete: bool) -> Result<(), SchemaError> {
    let tables = server
        .query(
            "SELECT name, if(engine_full = '', engine, engine_full) AS engine_full, sorting_key \
             FROM system.tables WHERE database = ?",
        )
        .bind(database)
        .fetch_all::<FoundTable>()
        .await
        .map_err(failed("read the tables"))?;
    let columns = server
        .query("SELECT table, name, type FROM system.columns WHERE database = ? ORDER BY table, position")
        .bind(database)
        .fetch_all::<FoundColumn>()
        .await
        .map_err(failed("read the columns"))?;
    for expected in &EXPECTED {
        let difference = match tables.iter().find(|found| found.name == expected.table) {
            Some(found) => {
                let columns: Vec<_> = columns.iter().filter(|column| column.table == expected.table).collect();
                expected.difference(found, &columns)
            }
            None => complete.then_some(Difference::Missing),
        };
        if let Some(difference) = difference {
            return Err(SchemaError::Differs { database: database.into(), table: expected.table, difference });
        }
    }
    Ok(())
}

impl Expected {
    fn difference(&self, found: &FoundTable, columns: &[&FoundColumn]) -> Option<Difference> {
        // `engine_full` goes on with clauses that an operator may tune, and with the sorting key, compared below.
        let clauses = [" PARTITION BY ", " PRIMARY KEY ", " ORDER BY ", " TTL ", " SETTINGS "];
        let end = clauses.iter().filter_map(|clause| found.engine_full.find(clause)).min();
        let engine = found.engine_full.get(..end.unwrap_or(found.engine_full.len())).unwrap_or_default();
        if !engine_fits(engine, self.engine) {
            return Some(Difference::Engine { found: engine.into(), expected: self.engine });
        }
        if found.sorting_key != self.sorting_key {
            return Some(Difference::SortingKey {
                found: found.sorting_key.as_str().into(),
                expected: self.sorting_key,
            });
        }
        if self.columns.is_empty() {
            return None;
        }
        for (name, expected) in self.columns.iter().copied().flatten() {
            let Some(column) = columns.iter().find(|column| column.name == *name) else {
                return Some(Difference::ColumnMissing { name });
            };
            if column.r#type != *expected {
                let (name, found) = (column.name.as_str().into(), column.r#type.as_str().into());
                return Some(Difference::ColumnType { name, found, expected });
            }
        }
        let expected = || self.columns.iter().copied().flatten();
        let known = |column: &FoundColumn| expected().any(|(name, _)| *name == column.name);
        let unexpected = columns.iter().find(|column| !known(column))?;
        Some(Difference::ColumnUnexpected { name: unexpected.name.as_str().into() })
    }
}

/// The same engine, or its replicated or shared form with the same columns at the end.
fn engine_fits(found: &str, expected: &str) -> bool {
    let (kind, columns) = expected.split_once('(').unwrap_or((expected, ""));
    let (found_kind, found_columns) = found.split_once('(').unwrap_or((found, ""));
    if found_kind == kind {
        return found_columns == columns;
    }
    let distributed = ["Replicated", "Shared"].iter().any(|form| found_kind.strip_prefix(form) == Some(kind));
    distributed && (columns.is_empty() || found_columns.ends_with(&format!(", {columns}")))
}

/// Splits a script at semicolons outside of quotes and comments; comments are kept, empty statements left out.
fn statements(script: &str) -> Vec<&str> {
    let bytes = script.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match rest {
            [b';', ..] => {
                found.push(script.get(start..at).unwrap_or_default());
                start = at + 1;
                1
            }
            [b'-', b'-', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => {
                rest.windows(2).skip(2).position(|pair| pair == b"*/").map_or(rest.len(), |end| end + 4)
            }
            [quote @ (b'\'' | b'"' | b'`'), ..] => quoted_length(rest, *quote),
            _ => 1,
        };
        at += length;
    }
    found.push(script.get(start..).unwrap_or_default());
    found.into_iter().map(str::trim).filter(|statement| !only_comments(statement)).collect()
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        at += match byte {
            b'\\' => 2,
            byte if *byte == quote => return at + 1,
            _ => 1,
        };
    }
    rest.len()
}

fn only_comments(statement: &str) -> bool {
    statement.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_split_at_real_semicolons_only() {
        let script =
            "-- a; comment\nCREATE a ';' ; /* ; */ CREATE \"b;\" -- it's\n;\n CREATE 'it\\';s', `c;`;; -- end;\n";
        let right = ["-- a; comment\nCREATE a ';'", "/* ; */ CREATE \"b;\" -- it's", "CREATE 'it\\';s', `c;`"];
        assert_eq!(statements(script), right);
        assert_eq!(statements(""), [""; 0]);
    }

    #[test]
    fn the_script_makes_what_is_expected() {
        let made = statements(SCHEMA_SQL);
        assert_eq!(made.len(), EXPECTED.len());
        for (statement, expected) in made.iter().zip(["raw_events", "tick_updates", "tick_state", "tick_state_fill"]) {
            assert!(statement.contains(&format!("IF NOT EXISTS {expected}")), "{statement}");
        }
    }

    #[test]
    fn a_views_select_is_found_in_the_script() {
        for view in ["tick_state_fill", "instrument_version_fill", "book_snapshots_fill"] {
            let select = view_select(view);
            assert!(select.starts_with("SELECT") && select.contains("FROM tick_updates"), "{view}: {select}");
        }
        assert_eq!(view_select("tick_state"), "");
    }

    #[test]
    fn engines_are_compared_with_their_columns() {
        assert!(engine_fits("MergeTree", "MergeTree"));
        assert!(engine_fits("ReplacingMergeTree(version)", "ReplacingMergeTree(version)"));
        assert!(engine_fits("ReplicatedReplacingMergeTree('/p', '{r}', version)", "ReplacingMergeTree(version)"));
        assert!(engine_fits("SharedMergeTree('/p', '{r}')", "MergeTree"));
        assert!(!engine_fits("ReplacingMergeTree", "ReplacingMergeTree(version)"));
        assert!(!engine_fits("ReplacingMergeTree(version, reserves_zero)", "ReplacingMergeTree(version)"));
        assert!(!engine_fits("ReplacingMergeTree", "MergeTree"));
    }
}
