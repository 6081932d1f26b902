//! Where the store is, and the official client for it with the settings that every request needs.
//!
//! Never: a setting that servers before 23.2 lack; a password in a log line.

use clickhouse::Client;
use std::fmt;

/// Database that the tables live in unless another is configured.
pub const DATABASE_DEFAULT: &str = "sprag";

/// Settings under which one insert is one block, and so one part: it is there whole or not at all, in the table and in
/// each view. The bounds of the writer's batches are far below these.
pub const ONE_BLOCK: [(&str, &str); 3] = [
    ("max_insert_block_size", "1000000000"),
    ("min_insert_block_size_rows", "1000000000"),
    ("min_insert_block_size_bytes", "1000000000000"),
];

/// A server, the credentials for it, and the database of the tables.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAddress {
    /// `http://host:port` or `https://…`.
    pub url: String,
    /// Database of the tables.
    pub database: String,
    /// User name, where the server asks for one.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
}

impl StoreAddress {
    /// The default database at a URL, without credentials.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), database: DATABASE_DEFAULT.to_owned(), user: None, password: None }
    }

    /// A client for the database of the tables.
    ///
    /// `async_insert` is off because newer servers turn it on, and an insert must be durable when it is answered;
    /// the deduplication of what the views write is on because older servers leave it off.
    #[must_use]
    pub fn client(&self) -> Client {
        self.server_client().with_database(&self.database)
    }

    /// A client that names no database, for creating it.
    #[must_use]
    pub fn server_client(&self) -> Client {
        let mut client = Client::default()
            .with_url(&self.url)
            .with_setting("async_insert", "0")
            .with_setting("deduplicate_blocks_in_dependent_materialized_views", "1");
        if let Some(user) = &self.user {
            client = client.with_user(user);
        }
        if let Some(password) = &self.password {
            client = client.with_password(password);
        }
        client
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StoreAddress")
            .field("url", &self.url)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .finish()
    }
}
