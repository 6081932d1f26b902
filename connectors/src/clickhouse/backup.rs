//! The store's tables to files and back, by the engine's own BACKUP and RESTORE: each table as it is at one moment, one
//! group of tables after the other, while rows come in.
//!
//! The groups are in an order that leaves a restored store in a state which a start knows how to heal:
//! 1. cursors: nothing that a cursor stands for may be missing in what is taken later;
//! 2. what views fill: a start compares it with the history and adds what it lacks, but takes nothing away;
//! 3. the history, which so has every row that the second group has;
//! 4. the log of batches, which is replayed from the cursor on, and what is only ever added to;
//! 5. the views, whose tables must be there before them.
//!
//! Never: a table of the database left out; a restore into one that is there.

use super::{StoreAddress, schema::SCHEMA_SQL};
use clickhouse::{Client, Row, sql::Identifier};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Groups in their order. Tables that no list names are of the second.
const GROUPS: [(&str, &[&str]); 5] = [
    ("1-cursors", &["batch_cursors"]),
    ("2-state", &[]),
    ("3-history", &["tick_updates"]),
    ("4-log", &["raw_events", "dead_letters", "tick_floors", "swept_rows", "epoch_blocks", "schema_migrations"]),
    ("5-views", &[]),
];

/// A table in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUpTable {
    /// Its name.
    pub name: String,
    /// Rows in its parts, those that others replace included; 0 of a view.
    pub rows: u64,
}

/// A group of tables in a directory of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUpGroup {
    /// The directory's name.
    pub directory: String,
    /// Its tables.
    pub tables: Vec<BackedUpTable>,
}

/// The tables cannot be backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store did not do what it was asked.
    #[error("cannot {action}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The client's error.
        #[source]
        source: clickhouse::error::Error,
    },
    /// Files of the backup cannot be read.
    #[error("cannot read the backup at {}", path.display())]
    Files {
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A path that cannot stand in a statement.
    #[error("the path {} holds characters that the engine's statements cannot name", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// The database has no tables.
    #[error("database {database} has no tables: there is nothing to back up")]
    Nothing {
        /// The database.
        database: Box<str>,
    },
    /// The database to restore into has tables.
    #[error("database {database} is not empty; restore into a new data directory")]
    NotEmpty {
        /// The database.
        database: Box<str>,
    },
    /// A restored table is not what was backed up.
    #[error("table {table} has {found} rows after the restore, and had {expected}; the backup is damaged")]
    Rows {
        /// The table.
        table: Box<str>,
        /// As restored.
        found: u64,
        /// As backed up.
        expected: u64,
    },
    /// The checksums of a restored table's parts are wrong.
    #[error("table {table} does not pass the engine's check after the restore; the backup is damaged")]
    Damaged {
        /// The table.
        table: Box<str>,
    },
}

fn failed(action: &'static str) -> impl FnOnce(clickhouse::error::Error) -> BackupError {
    move |source| BackupError::Store { action, source }
}

/// The number of the schema that this program makes.
#[must_use]
pub fn schema_number() -> u32 {
    let words = SCHEMA_SQL.lines().next().unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    words.filter_map(|digits| digits.parse().ok()).next().unwrap_or(0)
}

#[derive(Row, Deserialize)]
struct FoundTable {
    name: String,
    engine: String,
}

async fn tables(client: &Client, database: &str) -> Result<Vec<FoundTable>, BackupError> {
    let query = client.query("SELECT name, engine FROM system.tables WHERE database = ? ORDER BY name").bind(database);
    query.fetch_all().await.map_err(failed("read the tables"))
}

/// Writes every table to a directory, which the engine must be allowed to write to and which is not there yet.
///
/// # Errors
/// [`BackupError`]; what was written by then stays.
pub async fn back_up(address: &StoreAddress, directory: &Path) -> Result<Vec<BackedUpGroup>, BackupError> {
    let client = address.server_client();
    let found = tables(&client, &address.database).await?;
    if found.is_empty() {
        return Err(BackupError::Nothing { database: address.database.as_str().into() });
    }
    let mut groups = Vec::new();
    for (index, (name, _)) in GROUPS.iter().enumerate() {
        let of_group: Vec<&str> =
            found.iter().filter(|table| group_of(table) == index).map(|table| table.name.as_str()).collect();
        if of_group.is_empty() {
            continue;
        }
        let at = directory.join(name);
        let list = vec!["TABLE ?.?"; of_group.len()].join(", ");
        let mut backup =
            client.query(&format!("BACKUP {list} TO File({}) SETTINGS deduplicate_files = 0", quoted(&at)?));
        for table in &of_group {
            backup = backup.bind(Identifier(&address.database)).bind(Identifier(table));
        }
        backup.execute().await.map_err(failed("back up tables"))?;
        let of_database = at.join("data").join(&address.database);
        let table = |name: &&str| Ok(BackedUpTable { name: (*name).to_owned(), rows: rows(&of_database.join(name))? });
        let tables = of_group.iter().map(table).collect::<Result<_, BackupError>>()?;
        groups.push(BackedUpGroup { directory: (*name).to_owned(), tables });
    }
    Ok(groups)
}

fn group_of(table: &FoundTable) -> usize {
    if table.engine.ends_with("View") {
        return GROUPS.len() - 1;
    }
    GROUPS.iter().position(|(_, tables)| tables.contains(&table.name.as_str())).unwrap_or(1)
}

/// The rows of a table in a backup: each part tells its own.
fn rows(table: &Path) -> Result<u64, BackupError> {
    let unread = |path: &Path| {
        let path = path.to_path_buf();
        move |source| BackupError::Files { path, source }
    };
    let parts = match fs::read_dir(table) {
        Ok(parts) => parts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(unread(table)(error)),
    };
    let mut rows = 0_u64;
    for part in parts {
        let count = part.map_err(unread(table))?.path().join("count.txt");
        let text = match fs::read_to_string(&count) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unread(&count)(error)),
        };
        let counted = text.trim().parse::<u64>();
        let counted = counted.map_err(|error| unread(&count)(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        rows = rows.saturating_add(counted);
    }
    Ok(rows)
}

/// Makes the database of what `back_up` wrote, and checks that every table has its rows, no more of them than can have been
/// replaced missing, and that their checksums are right.
///
/// # Errors
/// [`BackupError`]; after one the database is of no use.
pub async fn restore_backup(
    address: &StoreAddress,
    directory: &Path,
    groups: &[BackedUpGroup],
) -> Result<(), BackupError> {
    let client = address.server_client();
    if !tables(&client, &address.database).await?.is_empty() {
        return Err(BackupError::NotEmpty { database: address.database.as_str().into() });
    }
    let create = client.query("CREATE DATABASE IF NOT EXISTS ?").bind(Identifier(&address.database));
    create.execute().await.map_err(failed("create the database"))?;
    for group in groups {
        let restore = format!("RESTORE ALL FROM File({})", quoted(&directory.join(&group.directory))?);
        client.query(&restore).execute().await.map_err(failed("restore tables"))?;
    }
    let made = tables(&client, &address.database).await?;
    let views = GROUPS.last().map_or("", |(name, _)| name);
    for table in groups.iter().filter(|group| group.directory != views).flat_map(|group| &group.tables) {
        let name = || Identifier(&table.name);
        // Where rows are replaced by others, the first merge may have come already.
        let replaces = made.iter().any(|found| found.name == table.name && found.engine.contains("Replacing"));
        let count = client.query("SELECT count() FROM ?.?").bind(Identifier(&address.database)).bind(name());
        let found = count.fetch_one::<u64>().await.map_err(failed("count restored rows"))?;
        let fits = if replaces { found <= table.rows && (found > 0) == (table.rows > 0) } else { found == table.rows };
        if !fits {
            return Err(BackupError::Rows { table: table.name.as_str().into(), found, expected: table.rows });
        }
        let check = client.query("CHECK TABLE ?.?").bind(Identifier(&address.database)).bind(name());
        let check = check.with_setting("check_query_single_value_result", "1");
        if check.fetch_one::<u8>().await.map_err(failed("check a restored table"))? != 1 {
            return Err(BackupError::Damaged { table: table.name.as_str().into() });
        }
    }
    Ok(())
}

/// A path as a text of SQL.
fn quoted(path: &Path) -> Result<String, BackupError> {
    let text = path.to_str().filter(|text| !text.chars().any(|c| c.is_control() || matches!(c, '\'' | '\\' | '?')));
    text.map(|text| format!("'{text}'")).ok_or_else(|| BackupError::Path { path: path.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_group() {
        let of = |name: &str, engine: &str| {
            GROUPS[group_of(&FoundTable { name: name.to_owned(), engine: engine.to_owned() })].0
        };
        assert_eq!(of("batch_cursors", "ReplacingMergeTree"), "1-cursors");
        assert_eq!(of("tick_state", "ReplacingMergeTree"), "2-state");
        assert_eq!(of("a_table_of_tomorrow", "MergeTree"), "2-state");
        assert_eq!(of("tick_updates", "MergeTree"), "3-history");
        assert_eq!(of("raw_events", "MergeTree"), "4-log");
        assert_eq!(of("tick_state_fill", "MaterializedView"), "5-views");
        assert_eq!(of("candles", "View"), "5-views");
    }

    #[test]
    fn the_schema_has_a_number() {
        assert!(schema_number() >= 4);
    }

    #[test]
    fn a_path_that_could_end_its_text_is_refused() {
        assert_eq!(quoted(Path::new("/a b/c")).unwrap(), "'/a b/c'");
        for path in ["/a'b", "/a\\", "/a\n", "/a?b"] {
            assert!(quoted(Path::new(path)).is_err(), "{path}");
        }
    }
}
