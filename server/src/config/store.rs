//! `[store]`: ClickHouse, a server elsewhere or the engine inside.
//!
//! Never: a password that can be printed.

use super::{
    error::Problems,
    secret::{MASK, Secret},
};
use serde::{Deserialize, Serialize, Serializer};
use std::path::PathBuf;

/// Longest URL, user or password, in bytes.
const TEXT_BYTES_MAX: usize = 2048;

/// Where every admitted change is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Keep history at all; without it there is no cold start and no analyst query.
    pub enabled: bool,
    /// `http://` or `https://` address of a ClickHouse server, without user and password; at most 2,048 bytes.
    /// Empty = the embedded engine.
    #[serde(serialize_with = "without_credentials")]
    pub url: String,
    /// User at that server; at most 2,048 bytes. Empty = the server's default user.
    pub user: String,
    /// Password of that user; at most 2,048 bytes.
    pub password: Secret,
    /// Database, made if missing; letters, digits and `_`, 1 to 64 of them, the first no digit.
    pub database: String,
    /// Rows of one insert; 1 to 1,000,000.
    pub batch_rows: usize,
    /// Bytes of one insert; 65,536 to 268,435,456.
    pub batch_bytes: usize,
    /// Milliseconds that a row waits for its insert; 1 to 60,000.
    pub batch_age_ms: u64,
    /// Bytes of changes that wait for the store; `batch_bytes` to 17,179,869,184. Beyond it of every tick only the newest
    /// change is kept, in twice as many bytes at the most, and the history is thinner, as `history_gaps` tells. An eighth
    /// more is for trades, a quarter for messages of venues.
    pub pending_bytes: usize,
    /// Keep every message of a venue as it arrived, in `raw_events`.
    pub raw_venue_messages: bool,
    /// Path of the engine's library; empty = the fetched one.
    pub engine_library: PathBuf,
    /// Bytes of memory that the embedded engine may use; 268,435,456 to 1,099,511,627,776.
    pub engine_memory_bytes: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            enabled: true,
            url: String::new(),
            user: String::new(),
            password: Secret::default(),
            database: "sprag".to_owned(),
            batch_rows: 50_000,
            batch_bytes: 16 << 20,
            batch_age_ms: 200,
            pending_bytes: 128 << 20,
            raw_venue_messages: false,
            engine_library: PathBuf::new(),
            engine_memory_bytes: 2_000_000_000,
        }
    }
}

impl Store {
    /// Whether the engine inside is meant.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.url.is_empty()
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        problems.unless(
            self.url.is_empty() || is_plain_address(&self.url),
            "store.url",
            &masked(&self.url),
            &"empty, or http:// or https:// and a host, without user and password (these are store.user and \
              store.password), at most 2048 bytes",
        );
        let texts = [("store.user", self.user.len()), ("store.password", self.password.reveal().len())];
        for (field, bytes) in texts {
            let limit = format_args!("at most {TEXT_BYTES_MAX} bytes");
            problems.unless(bytes <= TEXT_BYTES_MAX, field, &format_args!("({bytes} bytes)"), &limit);
        }
        problems.unless(
            is_identifier(&self.database),
            "store.database",
            &format_args!("{:?}", self.database),
            &"1 to 64 letters, digits and underscores, the first no digit",
        );
        problems.range("store.batch_rows", self.batch_rows, 1..=1_000_000);
        problems.range("store.batch_bytes", self.batch_bytes, 65_536..=256 << 20);
        problems.range("store.batch_age_ms", self.batch_age_ms, 1..=60_000);
        problems.range("store.pending_bytes", self.pending_bytes, self.batch_bytes..=16 << 30);
        problems.range("store.engine_memory_bytes", self.engine_memory_bytes, 256 << 20..=1 << 40);
    }
}

/// The part of an address between the scheme and the first `/`, if the scheme is one of the two.
fn authority(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    rest.split(['/', '?', '#']).next()
}

fn is_plain_address(url: &str) -> bool {
    let host = authority(url).is_some_and(|host| !host.is_empty() && !host.contains('@'));
    host && url.len() <= TEXT_BYTES_MAX && !url.contains(char::is_whitespace)
}

fn is_identifier(text: &str) -> bool {
    let right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(right) && !text.starts_with(|first: char| first.is_ascii_digit())
}

/// An address that may hold credentials is not shown at all.
fn masked(url: &str) -> &str {
    if url.contains('@') { MASK } else { url }
}

fn without_credentials<S: Serializer>(url: &str, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(masked(url))
}
