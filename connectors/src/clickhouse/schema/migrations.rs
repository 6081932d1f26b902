//! What brings a database of an earlier release to this one, by number.
//!
//! Never: a statement that does harm when it is run again, or on tables that are as new as it makes them; a change of a
//! migration that was released.

use super::{SchemaError, check::Found, failed, script::statements};
use crate::clickhouse::StoreAddress;
use clickhouse::Row;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of `schema.sql`.
pub const SCHEMA_NUMBER: u32 = 4;

/// The last number that was not written into the database.
const UNWRITTEN: u32 = 3;

/// The table that says which were applied.
const TABLE: &str = "schema_migrations";

/// One step.
pub(super) struct Migration {
    pub(super) number: u32,
    name: &'static str,
    script: &'static str,
    /// Columns that it adds.
    pub(super) columns: &'static [(&'static str, &'static str)],
    /// Views that it changes.
    pub(super) views: &'static [&'static str],
}

/// All of them, in order, up to [`SCHEMA_NUMBER`].
static MIGRATIONS: [Migration; 1] = [Migration {
    number: 4,
    name: "current state",
    script: include_str!("../migrations/0004_current_state.sql"),
    columns: &[("tick_updates", "shown_at")],
    views: &["tick_state_fill"],
}];

#[derive(Row, Serialize, Deserialize)]
struct MigrationRow<'a> {
    number: u32,
    name: &'a str,
    applied_by: &'a str,
    applied_at: i64,
}

/// The migrations that a database has not seen; none if nothing of ours is in it yet.
pub(super) async fn pending(address: &StoreAddress, found: &Found) -> Result<Vec<&'static Migration>, SchemaError> {
    let number = number(address, found).await?;
    if number > SCHEMA_NUMBER {
        return Err(SchemaError::Newer { database: address.database.as_str().into(), found: number });
    }
    Ok(MIGRATIONS.iter().filter(|migration| migration.number > number).collect())
}

/// The number of a database; this release's own if nothing is there.
async fn number(address: &StoreAddress, found: &Found) -> Result<u32, SchemaError> {
    if !found.any() {
        return Ok(SCHEMA_NUMBER);
    }
    if !found.has(TABLE) {
        return Ok(UNWRITTEN);
    }
    let query = address.client().query("SELECT max(number) FROM schema_migrations");
    let number: u32 = query.fetch_one().await.map_err(failed("read the schema's number"))?;
    // A creation that was cut off has written none; what it made is as new as this, and a step does it no harm.
    Ok(if number == 0 { UNWRITTEN } else { number })
}

/// Performs migrations. One that was cut off begins anew.
pub(super) async fn perform(address: &StoreAddress, found: &Found, pending: &[&Migration]) -> Result<(), SchemaError> {
    let client = address.client();
    for migration in pending {
        tracing::info!(number = migration.number, name = migration.name, "the store is brought to a newer schema");
        for statement in statements(migration.script) {
            // What is not there will be created as it should be.
            let absent = altered(statement).is_some_and(|table| !found.has(table));
            if !absent {
                client.query_raw(statement).execute().await.map_err(failed(first_line(statement)))?;
            }
        }
    }
    Ok(())
}

/// Writes down that a database has this release's schema, if it does not say so.
pub(super) async fn write_down(address: &StoreAddress) -> Result<(), SchemaError> {
    let client = address.client();
    let query = client.query("SELECT max(number) FROM schema_migrations");
    let written: u32 = query.fetch_one().await.map_err(failed("read the schema's number"))?;
    if written == SCHEMA_NUMBER {
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let row = MigrationRow {
        number: SCHEMA_NUMBER,
        name: MIGRATIONS.last().map_or("", |migration| migration.name),
        applied_by: concat!("sprag ", env!("CARGO_PKG_VERSION")),
        applied_at: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX),
    };
    let insert = async {
        let mut insert = client.insert::<MigrationRow<'_>>(TABLE).await?;
        insert.write(&row).await?;
        insert.end().await
    };
    insert.await.map_err(failed("write down the schema's number"))
}

/// The first line that says something.
fn first_line(statement: &str) -> &str {
    let mut lines = statement.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with("--")).unwrap_or_default()
}

/// The table that a statement alters.
fn altered(statement: &str) -> Option<&str> {
    first_line(statement).strip_prefix("ALTER TABLE ")?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_rise_to_the_schemas_own() {
        let numbers: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (UNWRITTEN + 1..=SCHEMA_NUMBER).collect::<Vec<_>>());
    }

    #[test]
    fn an_altered_table_is_found() {
        assert_eq!(altered("-- why\n\nALTER TABLE a ADD COLUMN b UInt8"), Some("a"));
        assert_eq!(altered("CREATE TABLE a"), None);
    }
}
