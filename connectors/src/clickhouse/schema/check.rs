//! Compares the tables that exist with those that are expected.
//!
//! Never: a refusal for what only costs time; that is a warning.

use super::{
    SchemaError,
    difference::Difference,
    expected::{EXPECTED, Expected},
    failed,
    migrations::Migration,
    view_select,
};
use clickhouse::{Client, Row};
use serde::Deserialize;

/// Fewest insert tokens that a table must remember: a retry comes within far fewer inserts.
const TOKENS_MIN: u64 = 1_000;

/// What the server calls a function that it does not know.
const UNKNOWN_FUNCTION: &str = "Code: 46.";

#[derive(Row, Deserialize)]
struct FoundTable {
    name: String,
    engine_full: String,
    sorting_key: String,
    as_select: String,
}

#[derive(Row, Deserialize)]
struct FoundColumn {
    table: String,
    name: String,
    r#type: String,
    is_in_partition_key: u8,
}

/// What there is in a database.
pub(super) struct Found {
    database: Box<str>,
    tables: Vec<FoundTable>,
    columns: Vec<FoundColumn>,
    /// By view, what it should select, as the server formats it; empty if the server does not format.
    selects: Vec<(&'static str, String)>,
}

impl Found {
    /// Reads it.
    pub(super) async fn read(server: &Client, database: &str) -> Result<Self, SchemaError> {
        let tables = server
            .query(
                "SELECT name, if(engine_full = '', engine, engine_full) AS engine_full, sorting_key, as_select \
                 FROM system.tables WHERE database = ?",
            )
            .bind(database)
            .fetch_all()
            .await
            .map_err(failed("read the tables"))?;
        let columns = server
            .query(
                "SELECT table, name, type, is_in_partition_key FROM system.columns WHERE database = ? \
                 ORDER BY table, position",
            )
            .bind(database)
            .fetch_all()
            .await
            .map_err(failed("read the columns"))?;
        Ok(Self { database: database.into(), tables, columns, selects: selects(server).await? })
    }

    /// Whether there is a table or view of this name.
    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|found| found.name == table)
    }

    /// Whether any of ours is there.
    pub(super) fn any(&self) -> bool {
        EXPECTED.iter().any(|expected| self.has(expected.table))
    }

    /// Compares all. Before the tables are created a missing one is right, and so is what the pending migrations mend.
    pub(super) fn check(&self, complete: bool, pending: &[&Migration]) -> Result<(), SchemaError> {
        for expected in &EXPECTED {
            let difference = match self.tables.iter().find(|found| found.name == expected.table) {
                Some(found) => self.difference(expected, found, pending),
                None => complete.then_some(Difference::Missing),
            };
            if let Some(difference) = difference {
                let fix = difference.fix(&self.database, expected).into();
                let (database, table) = (self.database.clone(), expected.table);
                return Err(SchemaError::Differs { database, table, difference, fix });
            }
        }
        Ok(())
    }

    fn difference(&self, expected: &Expected, found: &FoundTable, pending: &[&Migration]) -> Option<Difference> {
        let engine = Engine::of(&found.engine_full);
        if !engine_fits(engine.engine, expected.engine) {
            return Some(Difference::Engine { found: engine.engine.into(), expected: expected.engine });
        }
        if found.sorting_key != expected.sorting_key {
            let found = found.sorting_key.as_str().into();
            return Some(Difference::SortingKey { found, expected: expected.sorting_key });
        }
        let select = || {
            let (_, right) = self.selects.iter().find(|(view, _)| *view == expected.table)?;
            let selected = unqualified(&found.as_select, &self.database);
            let told = pending.iter().any(|migration| migration.views.contains(&expected.table));
            (selected != *right && !told).then(|| Difference::Select { found: found.as_select.as_str().into() })
        };
        self.of_columns(expected, pending).or_else(|| of_settings(expected, &engine)).or_else(select)
    }

    fn of_columns(&self, expected: &Expected, pending: &[&Migration]) -> Option<Difference> {
        let columns = || self.columns.iter().filter(|column| column.table == expected.table);
        if let Some(allowed) = expected.partition_columns() {
            let torn = |column: &&FoundColumn| column.is_in_partition_key != 0 && !allowed.contains(&&*column.name);
            if let Some(column) = columns().find(torn) {
                return Some(Difference::Partition { column: column.name.as_str().into() });
            }
        }
        if expected.columns.is_empty() {
            return None;
        }
        for (name, right) in expected.columns() {
            let Some(column) = columns().find(|column| column.name == name) else {
                if pending.iter().any(|migration| migration.columns.contains(&(expected.table, name))) {
                    continue;
                }
                return Some(Difference::ColumnMissing { name, expected: right });
            };
            if column.r#type != right {
                let (name, found) = (column.name.as_str().into(), column.r#type.as_str().into());
                return Some(Difference::ColumnType { name, found, expected: right });
            }
        }
        let known = |column: &&FoundColumn| expected.columns().any(|(name, _)| name == column.name);
        let unexpected = columns().find(|column| !known(column))?;
        Some(Difference::ColumnUnexpected { name: unexpected.name.as_str().into() })
    }

    /// What is right but slower than it could be, each with its fix.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for expected in EXPECTED.iter().filter(|expected| expected.replaces()) {
            let Some(found) = self.tables.iter().find(|found| found.name == expected.table) else { continue };
            let (engine, table) = (Engine::of(&found.engine_full), format!("{}.{}", self.database, expected.table));
            if engine.number("min_age_to_force_merge_seconds").unwrap_or(0) == 0 {
                warnings.push(format!(
                    "{table} does not merge its old parts, so FINAL is slow: ALTER TABLE {table} MODIFY SETTING \
                     min_age_to_force_merge_seconds = 600"
                ));
            }
            if expected.table == "tick_state" && engine.number("index_granularity").is_none_or(|rows| rows > 1024) {
                warnings.push(format!(
                    "{table} has an index_granularity above 1024, so a pair's book reads more than it needs: make the table \
                     anew as schema.sql says"
                ));
            }
        }
        warnings
    }
}

/// What the materialized views should select, as this server formats it.
async fn selects(server: &Client) -> Result<Vec<(&'static str, String)>, SchemaError> {
    let mut selects = Vec::new();
    for view in EXPECTED.iter().filter(|expected| expected.engine == "MaterializedView") {
        let query = server.query("SELECT formatQuerySingleLine(?)").bind(view_select(view.table));
        match query.fetch_one::<String>().await {
            Ok(select) => selects.push((view.table, select)),
            // Servers before 23.10; there a view is compared by its name alone.
            Err(clickhouse::error::Error::BadResponse(text)) if text.contains(UNKNOWN_FUNCTION) => break,
            Err(error) => return Err(failed("format a view")(error)),
        }
    }
    Ok(selects)
}

/// The server names the database of each table in a view.
fn unqualified(select: &str, database: &str) -> String {
    select.replace(&format!("{database}."), "").replace(&format!("`{database}`."), "")
}

/// `engine_full` in its parts.
struct Engine<'a> {
    engine: &'a str,
    settings: &'a str,
    ttl: bool,
}

impl<'a> Engine<'a> {
    fn of(engine_full: &'a str) -> Self {
        // The engine is followed by clauses in this order; the keys among them are compared by their own columns.
        let clauses = [" PARTITION BY ", " PRIMARY KEY ", " ORDER BY ", " TTL ", " SETTINGS "];
        let end = clauses.iter().filter_map(|clause| engine_full.find(clause)).min();
        let settings = engine_full.rsplit_once(" SETTINGS ").map_or("", |(_, settings)| settings);
        Self {
            engine: engine_full.get(..end.unwrap_or(engine_full.len())).unwrap_or_default(),
            settings,
            ttl: engine_full.contains(" TTL "),
        }
    }

    fn setting(&self, name: &str) -> Option<&'a str> {
        let pairs = self.settings.split(", ").filter_map(|pair| pair.split_once(" = "));
        pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value.trim_matches('\''))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// Of a cluster: it remembers tokens by itself.
    fn is_distributed(&self) -> bool {
        ["Replicated", "Shared"].iter().any(|form| self.engine.starts_with(form))
    }
}

/// Settings that remove the rows of dead ticks in a merge.
const CLEANUP: [&str; 3] = [
    "allow_experimental_replacing_merge_with_cleanup",
    "enable_replacing_merge_with_cleanup_for_min_age_to_force_merge",
    "clean_deleted_rows",
];

fn of_settings(expected: &Expected, engine: &Engine<'_>) -> Option<Difference> {
    if expected.remembers_tokens() {
        let (name, enough) = if engine.is_distributed() {
            ("replicated_deduplication_window", engine.number("replicated_deduplication_window") != Some(0))
        } else {
            let name = "non_replicated_deduplication_window";
            (name, engine.number(name).is_some_and(|tokens| tokens >= TOKENS_MIN))
        };
        if !enough {
            let found = engine.setting(name).unwrap_or("not set").into();
            let consequence = "an insert that is repeated adds its rows again";
            return Some(Difference::Setting { name, found, consequence, right: Some("10000") });
        }
    }
    if !expected.replaces() {
        return None;
    }
    let cleanup = |name: &&str| engine.setting(name).is_some_and(|value| !matches!(value, "0" | "false" | "Never"));
    if let Some(name) = CLEANUP.into_iter().find(|name| cleanup(name)) {
        let found = engine.setting(name).unwrap_or_default().into();
        let consequence = "a merge removes dead ticks, and what they replaced lives again";
        return Some(Difference::Setting { name, found, consequence, right: None });
    }
    // Of trades nothing is replaced by anything else, so that they may fade away.
    (engine.ttl && expected.table != "trades").then_some(Difference::Ttl)
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_engine_comes_apart_in_its_clauses() {
        let full = "ReplacingMergeTree(a) PARTITION BY b ORDER BY (c, d) TTL e + toIntervalDay(1) SETTINGS \
                    index_granularity = 1024, clean_deleted_rows = 'Always'";
        let engine = Engine::of(full);
        assert_eq!((engine.engine, engine.ttl), ("ReplacingMergeTree(a)", true));
        assert_eq!(engine.number("index_granularity"), Some(1024));
        assert_eq!(engine.setting("clean_deleted_rows"), Some("Always"));
        assert_eq!(engine.setting("granularity"), None);
        assert_eq!(Engine::of("View").engine, "View");
    }

    #[test]
    fn a_cluster_remembers_tokens_by_itself() {
        let state = EXPECTED.iter().find(|expected| expected.table == "tick_state").unwrap();
        let of = |full: &str| of_settings(state, &Engine::of(full)).map(|difference| difference.to_string());
        assert_eq!(of("ReplicatedReplacingMergeTree('/p', 'r', version, reserves_zero) ORDER BY a"), None);
        let off = "ReplicatedReplacingMergeTree('/p', 'r', a) ORDER BY a SETTINGS replicated_deduplication_window = 0";
        assert!(of(off).unwrap().contains("replicated_deduplication_window is 0"));
        assert!(of("ReplacingMergeTree(a) ORDER BY a").unwrap().contains("is not set"));
    }
}
