//! Makes the store's tables, brings those of earlier releases up to date, and compares what exists with what the program
//! expects, before any data.
//!
//! Never: a change of a table that differs from what any release made; a difference is an error that names the fix.

mod check;
mod difference;
mod expected;
mod migrations;
mod script;

pub use difference::Difference;
pub use migrations::SCHEMA_NUMBER;

use super::StoreAddress;
use check::Found;
use script::statements;

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
        "table {database}.{table} differs: {difference}. Nothing was written. To mend it: {fix}. Or configure another database"
    )]
    Differs {
        /// The database.
        database: Box<str>,
        /// The table.
        table: &'static str,
        /// What differs.
        difference: Difference,
        /// What mends it.
        fix: Box<str>,
    },
    /// The tables are those of a later release.
    #[error(
        "database {database} has schema {found}, and this release knows schemas up to {SCHEMA_NUMBER}. Nothing was written. Run \
         the release that made it, or configure another database"
    )]
    Newer {
        /// The database.
        database: Box<str>,
        /// Its number.
        found: u32,
    },
}

/// Makes the store ready: checks what is there, brings it up to date, creates what is missing, and checks all. Idempotent,
/// wherever an earlier attempt was cut off.
///
/// # Errors
/// [`SchemaError`]; nothing is changed if an existing table differs from what an earlier release made.
pub async fn apply(address: &StoreAddress) -> Result<(), SchemaError> {
    let server = address.server_client();
    let found = Found::read(&server, &address.database).await?;
    let pending = migrations::pending(address, &found).await?;
    found.check(false, &pending)?;
    let create = server.query("CREATE DATABASE IF NOT EXISTS ?");
    let created = create.bind(clickhouse::sql::Identifier(&address.database)).execute().await;
    created.map_err(failed("create the database"))?;
    migrations::perform(address, &found, &pending).await?;
    let client = address.client();
    for statement in statements(SCHEMA_SQL) {
        let what = statement.lines().find(|line| line.starts_with("CREATE")).unwrap_or("apply a statement");
        client.query_raw(statement).execute().await.map_err(failed(what))?;
    }
    let made = Found::read(&server, &address.database).await?;
    made.check(true, &[])?;
    for warning in made.warnings() {
        tracing::warn!("{warning}");
    }
    migrations::write_down(address).await
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

#[cfg(test)]
mod tests {
    use super::{expected::EXPECTED, *};

    #[test]
    fn the_script_makes_what_is_expected() {
        let made = statements(SCHEMA_SQL);
        assert_eq!(made.len(), EXPECTED.len());
        for expected in &EXPECTED {
            let head = format!(" IF NOT EXISTS {}", expected.table);
            let makes = |statement: &&&str| {
                let line = statement.lines().find(|line| line.starts_with("CREATE")).unwrap_or_default();
                line.split_once(&head).is_some_and(|(_, rest)| !rest.starts_with('_'))
            };
            assert_eq!(made.iter().filter(makes).count(), 1, "{}", expected.table);
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
}
