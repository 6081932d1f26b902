//! How a table can differ from what is expected, and what mends it.
//!
//! Never: a difference without its fix.

use super::expected::Expected;

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
    /// Its partitions tear apart what belongs together: rows that replace each other, or those of one insert.
    #[error("its partition key uses column {column}, which may differ within what must stay in one partition")]
    Partition {
        /// The column.
        column: Box<str>,
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
        /// As it should be.
        expected: &'static str,
    },
    /// A column that nobody expects.
    #[error("column {name} is not expected")]
    ColumnUnexpected {
        /// The column.
        name: Box<str>,
    },
    /// A setting under which rows are lost, come twice or live again.
    #[error("setting {name} is {found}, under which {consequence}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value, or that it is not set.
        found: Box<str>,
        /// What would happen.
        consequence: &'static str,
        /// A value that is right; `None` where it must not be set.
        right: Option<&'static str>,
    },
    /// Rows that fade away, so that the ones which they replaced live again.
    #[error("it has a TTL, under which rows that were replaced live again")]
    Ttl,
    /// A view that makes other rows of what is inserted.
    #[error("it selects {found}")]
    Select {
        /// What it selects.
        found: Box<str>,
    },
}

impl Difference {
    /// What an operator can do: statements where statements do.
    #[must_use]
    pub(super) fn fix(&self, database: &str, expected: &Expected) -> String {
        let table = format!("{database}.{}", expected.table);
        let anew = |what: &str| {
            format!(
                "make the table anew {what}: RENAME TABLE {table} TO {table}_old, start again, and copy its rows with INSERT \
                 INTO {table} SELECT … FROM {table}_old"
            )
        };
        match self {
            Self::Missing => "start again; it is created when it is not there".to_owned(),
            Self::Engine { expected: engine, .. } => anew(&format!("with ENGINE = {engine}")),
            Self::SortingKey { expected: key, .. } => anew(&format!("with ORDER BY ({key})")),
            Self::Partition { .. } => anew("without PARTITION BY, or with one by asset_0, asset_1 and venue alone"),
            Self::ColumnType { name, expected, .. } => {
                format!(
                    "ALTER TABLE {table} MODIFY COLUMN {name} {expected}; a column of the key: {}",
                    anew("as schema.sql says")
                )
            }
            Self::ColumnMissing { name, expected } => {
                format!("a database of another version, or ALTER TABLE {table} ADD COLUMN {name} {expected}")
            }
            Self::ColumnUnexpected { name } => format!("ALTER TABLE {table} DROP COLUMN {name}"),
            Self::Setting { name, right: Some(right), .. } => {
                format!("ALTER TABLE {table} MODIFY SETTING {name} = {right}")
            }
            Self::Setting { name, right: None, .. } => format!("ALTER TABLE {table} RESET SETTING {name}"),
            Self::Ttl => format!("ALTER TABLE {table} REMOVE TTL"),
            Self::Select { .. } => format!("DROP VIEW {table} while nothing is inserted, and start again"),
        }
    }
}
