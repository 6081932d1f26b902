//! The dead letters: messages that could not be taken, as they came, with the reason, until an operator wants them tried
//! again.
//!
//! Never: two rows of one letter under FINAL, however often it was buried; a payload read where only its head is asked for.

use super::{
    BatchLog, BatchLogError, READ_MAX,
    content::{CONTENT_BYTES_MAX, blob},
    error::{failed, in_time, ns},
    send,
};
use crate::clickhouse::{
    fetch::hex,
    rows::{Payload, put_text, time},
};
use clickhouse::{Client, Row};
use market::Venue;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Letters that one read gives at most; the latest ones.
pub const DEAD_LETTERS_MAX: u64 = 10_000;

/// Beginnings of attributes that say how a message travelled and not what it is: Pub/Sub and its libraries add them, and
/// they differ each time.
const TRAVEL_ATTRIBUTES: [&str; 2] = ["googclient_", "CloudPubSubDeadLetterSource"];

/// What an operator wants with a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadState {
    /// Nothing.
    Dead,
    /// That it is tried again.
    Replay,
    /// Nothing more: it was tried again and taken.
    Replayed,
}

impl DeadState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Dead, Self::Replay, Self::Replayed];

    /// The column's text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Replay => "replay",
            Self::Replayed => "replayed",
        }
    }
}

impl fmt::Display for DeadState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for DeadState {
    type Err = BatchLogError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|state| state.name() == text);
        known.ok_or_else(|| BatchLogError::UnknownText { column: "dead_letters.state", text: text.into() })
    }
}

/// A dead letter without what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadHead {
    /// [`dead_letter_id`].
    pub id: Box<str>,
    /// Name of the venue.
    pub venue: Box<str>,
    /// The stream.
    pub stream: Box<str>,
    /// The height that its attributes name; 0 if they name none.
    pub height: u64,
    /// Id of the message, or of the first of its messages.
    pub message_id: Box<str>,
    /// Its attributes, all of them.
    pub attributes: BTreeMap<String, String>,
    /// Why it could not be taken.
    pub reason: Box<str>,
    /// How often it was tried.
    pub attempts: u32,
    /// What is wanted with it.
    pub state: DeadState,
    /// When it was published, Unix nanoseconds.
    pub published_ns: u64,
    /// When it was received, Unix nanoseconds.
    pub received_ns: u64,
    /// When its state became this one, Unix nanoseconds.
    pub changed_ns: u64,
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// All but the bytes.
    pub head: DeadHead,
    /// Its bytes as they came.
    pub payload: Vec<u8>,
}

/// The id of a dead letter: SHA-256 of what it is, so that the same one has the same id however often it comes.
#[must_use]
pub fn dead_letter_id(venue: Venue, stream: &str, attributes: &BTreeMap<String, String>, payload: &[u8]) -> Box<str> {
    let mut hash = Sha256::new();
    for text in ["dead letter", venue.name(), stream] {
        put_text(&mut hash, text);
    }
    let travels = |name: &str| TRAVEL_ATTRIBUTES.iter().any(|beginning| name.starts_with(beginning));
    for (name, value) in attributes.iter().filter(|(name, _)| !travels(name)) {
        put_text(&mut hash, name);
        put_text(&mut hash, value);
    }
    put_text(&mut hash, "");
    hash.update(payload);
    hex(&hash.finalize()).into()
}

/// Which letters are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadFilter<'a> {
    /// Of this venue and stream alone.
    pub stream: Option<(Venue, &'a str)>,
    /// In this state alone.
    pub state: Option<DeadState>,
    /// Whose ids begin so; empty for all.
    pub prefix: &'a str,
    /// At most so many, and never more than [`DEAD_LETTERS_MAX`].
    pub limit: Option<u64>,
}

#[derive(Row, Serialize)]
struct LetterRow<'a> {
    id: &'a str,
    venue: &'a str,
    stream: &'a str,
    height: u64,
    message_id: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
    payload: Payload<'a>,
    reason: &'a str,
    attempts: u32,
    state: &'a str,
    published_at: i64,
    ingestion_timestamp: i64,
    changed_at: i64,
}

#[derive(Row, Deserialize)]
struct HeadRow {
    id: Box<str>,
    venue: Box<str>,
    stream: Box<str>,
    height: u64,
    message_id: Box<str>,
    attributes: Vec<(String, String)>,
    reason: Box<str>,
    attempts: u32,
    state: String,
    published_at: i64,
    ingestion_timestamp: i64,
    changed_at: i64,
}

impl HeadRow {
    fn head(self) -> Result<DeadHead, BatchLogError> {
        Ok(DeadHead {
            id: self.id,
            venue: self.venue,
            stream: self.stream,
            height: self.height,
            message_id: self.message_id,
            attributes: self.attributes.into_iter().collect(),
            reason: self.reason,
            attempts: self.attempts,
            state: self.state.parse()?,
            published_ns: ns(self.published_at),
            received_ns: ns(self.ingestion_timestamp),
            changed_ns: ns(self.changed_at),
        })
    }
}

/// The dead letters of all streams.
#[derive(Clone)]
pub struct DeadLetters {
    client: Client,
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DeadLetters")
    }
}

impl DeadLetters {
    /// Those behind a client of [`crate::clickhouse::StoreAddress::client`]; the schema must have been applied.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Keeps a letter. It replaces what was kept of the same one, also where that has a later time.
    ///
    /// # Errors
    /// [`BatchLogError`]; the outcome is unknown then, and the same call again is right.
    pub async fn bury(&self, letter: &DeadLetter) -> Result<(), BatchLogError> {
        let DeadLetter { head, payload } = letter;
        if payload.len() > CONTENT_BYTES_MAX {
            return Err(BatchLogError::LetterTooLarge { id: head.id.clone(), limit: CONTENT_BYTES_MAX });
        }
        let known = self.head(&head.id).await?;
        let row = LetterRow {
            id: &head.id,
            venue: &head.venue,
            stream: &head.stream,
            height: head.height,
            message_id: &head.message_id,
            attributes: head.attributes.iter().map(|(name, value)| (&**name, &**value)).collect(),
            payload: Payload(payload),
            reason: &head.reason,
            attempts: head.attempts,
            state: head.state.name(),
            published_at: time(head.published_ns),
            ingestion_timestamp: time(head.received_ns),
            changed_at: time(later(head.changed_ns, known.as_ref())),
        };
        let sent = send::<LetterRow<'_>>(&self.client, "dead_letters", &row, None).await;
        sent.map_err(failed("keep a dead letter"))
    }

    /// Letters without their bytes, the latest change first.
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn list(&self, filter: DeadFilter<'_>) -> Result<Vec<DeadHead>, BatchLogError> {
        let limit = filter.limit.unwrap_or(DEAD_LETTERS_MAX).min(DEAD_LETTERS_MAX);
        let state = filter.state.map_or("", DeadState::name);
        let (venue, stream) = filter.stream.map_or(("", ""), |(venue, stream)| (venue.name(), stream));
        let sql = format!(
            "SELECT ?fields FROM dead_letters FINAL WHERE (? = '' OR state = ?) \
             AND (? = '' OR (venue = ? AND stream = ?)) AND startsWith(id, ?) ORDER BY changed_at DESC, id LIMIT {limit}"
        );
        let query = self.client.query(&sql).bind(state).bind(state);
        let query = query.bind(venue).bind(venue).bind(stream).bind(filter.prefix);
        let rows = in_time("read the dead letters", READ_MAX, query.fetch_all::<HeadRow>()).await?;
        rows.into_iter().map(HeadRow::head).collect()
    }

    /// A letter without its bytes.
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn head(&self, id: &str) -> Result<Option<DeadHead>, BatchLogError> {
        let query = self.client.query("SELECT ?fields FROM dead_letters FINAL WHERE id = ?").bind(id);
        let row = in_time("read a dead letter", READ_MAX, query.fetch_optional::<HeadRow>()).await?;
        row.map(HeadRow::head).transpose()
    }

    /// A letter.
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn read(&self, id: &str) -> Result<Option<DeadLetter>, BatchLogError> {
        let Some(head) = self.head(id).await? else { return Ok(None) };
        let query = self.client.query("SELECT payload FROM dead_letters FINAL WHERE id = ?").bind(id);
        let payload = blob("read a dead letter", query, CONTENT_BYTES_MAX).await?;
        let too_large = || BatchLogError::LetterTooLarge { id: id.into(), limit: CONTENT_BYTES_MAX };
        Ok(Some(DeadLetter { head, payload: payload.ok_or_else(too_large)? }))
    }

    /// Changes a letter's state and, where given, its reason and the number of attempts; gives whether it is there. Its
    /// bytes stay in the store.
    ///
    /// # Errors
    /// [`BatchLogError`]; the outcome is unknown then, and the same call again is right.
    pub async fn set_state(
        &self,
        id: &str,
        state: DeadState,
        reason: Option<&str>,
        attempts: Option<u32>,
        now_ns: u64,
    ) -> Result<bool, BatchLogError> {
        let Some(known) = self.head(id).await? else { return Ok(false) };
        let changed_ns = later(now_ns, Some(&known));
        let sql = "INSERT INTO dead_letters (id, venue, stream, height, message_id, attributes, payload, reason, \
             attempts, state, published_at, ingestion_timestamp, changed_at) \
             SELECT id, venue, stream, height, message_id, attributes, payload, ?, toUInt32(?), ?, published_at, \
             ingestion_timestamp, fromUnixTimestamp64Nano(toInt64(?), 'UTC') FROM dead_letters FINAL WHERE id = ?";
        let query = self.client.query(sql).bind(reason.unwrap_or(&known.reason));
        let query = query.bind(attempts.unwrap_or(known.attempts)).bind(state.name()).bind(time(changed_ns)).bind(id);
        let query = query.with_setting("async_insert", "0").with_setting("insert_deduplicate", "0");
        in_time("change a dead letter", READ_MAX, query.execute()).await?;
        Ok(true)
    }
}

/// A time of a change that replaces what is known.
fn later(now_ns: u64, known: Option<&DeadHead>) -> u64 {
    known.map_or(now_ns, |known| now_ns.max(known.changed_ns.saturating_add(1)))
}

impl BatchLog {
    /// [`DeadLetters::bury`].
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn bury(&self, letter: &DeadLetter) -> Result<(), BatchLogError> {
        self.dead_letters().bury(letter).await
    }

    /// The stream's letters in a state, without their bytes, the latest change first; at most [`DEAD_LETTERS_MAX`].
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn dead(&self, state: Option<DeadState>) -> Result<Vec<DeadHead>, BatchLogError> {
        let stream = Some((self.venue, &*self.stream));
        self.dead_letters().list(DeadFilter { stream, state, ..DeadFilter::default() }).await
    }

    /// [`DeadLetters::read`].
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn dead_letter(&self, id: &str) -> Result<Option<DeadLetter>, BatchLogError> {
        self.dead_letters().read(id).await
    }

    /// [`DeadLetters::set_state`].
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn set_dead_state(
        &self,
        id: &str,
        state: DeadState,
        reason: Option<&str>,
        attempts: Option<u32>,
        now_ns: u64,
    ) -> Result<bool, BatchLogError> {
        self.dead_letters().set_state(id, state, reason, attempts, now_ns).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letters_id_is_what_it_is_and_not_how_it_travelled() {
        let attributes = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let id = |list: &[(&str, &str)], payload: &[u8]| {
            dead_letter_id(Venue::NeutronDex, "neutron-1", &attributes(list), payload)
        };
        let one = id(&[("height", "7"), ("kind", "block")], b"x");
        assert_eq!(one.len(), 64);
        let travelled = [
            ("kind", "block"),
            ("googclient_traceparent", "00-1"),
            ("height", "7"),
            ("CloudPubSubDeadLetterSourceDeliveryCount", "5"),
        ];
        assert_eq!(id(&travelled, b"x"), one);
        let others = [
            id(&[("height", "8"), ("kind", "block")], b"x"),
            id(&[("height", "7"), ("kind", "block")], b"y"),
            id(&[("height", "7"), ("kind", "block"), ("part", "0")], b"x"),
            id(&[("height7", ""), ("kind", "block")], b"x"),
            dead_letter_id(Venue::NeutronDex, "other", &attributes(&[("height", "7"), ("kind", "block")]), b"x"),
        ];
        assert!(others.iter().all(|other| *other != one));
    }
}
