//! The gaps of batch streams, on record: what is missing, since when, and who accepted it as lost.
//!
//! Never: a change of a gap that is older than the one before it, whatever the clocks of two hosts say.

use super::{
    BatchLog, BatchLogError, READ_MAX,
    error::{failed, in_time, ns},
    send,
};
use crate::clickhouse::rows::time;
use clickhouse::{Client, Row};
use market::batch::Hole;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Gaps that a read gives at most: all that still matter come first, then the latest.
pub const GAPS_MAX: u64 = 10_000;

/// What became of missing batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapState {
    /// They are missing, and what comes after them waits.
    Open,
    /// They came, or a snapshot made them unnecessary.
    Filled,
    /// An operator accepted that they are lost; what is shown may be wrong.
    Accepted,
    /// They were accepted as lost, and what is shown is right again.
    Healed,
}

impl GapState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Open, Self::Filled, Self::Accepted, Self::Healed];

    /// The column's text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Filled => "filled",
            Self::Accepted => "accepted",
            Self::Healed => "healed",
        }
    }

    /// Whether what is shown still suffers from it.
    #[must_use]
    pub const fn matters(self) -> bool {
        matches!(self, Self::Open | Self::Accepted)
    }
}

impl fmt::Display for GapState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for GapState {
    type Err = BatchLogError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|state| state.name() == text);
        known.ok_or_else(|| BatchLogError::UnknownText { column: "batch_gaps.state", text: text.into() })
    }
}

/// Missing batches of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last height before it.
    pub after: u64,
    /// Its last height.
    pub through: u64,
    /// What became of it.
    pub state: GapState,
    /// Who accepted it; empty if nobody.
    pub operator: Box<str>,
    /// Why.
    pub note: Box<str>,
    /// When it was noticed, Unix nanoseconds.
    pub since_ns: u64,
    /// When its state became this one, Unix nanoseconds.
    pub changed_ns: u64,
}

/// A gap with the stream that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGap {
    /// Name of the venue.
    pub venue: Box<str>,
    /// The stream.
    pub stream: Box<str>,
    /// The gap.
    pub gap: Gap,
}

#[derive(Row, Serialize, Deserialize)]
struct GapRow<'a> {
    venue: &'a str,
    stream: &'a str,
    after: u64,
    through: u64,
    state: &'a str,
    operator: &'a str,
    note: &'a str,
    since: i64,
    changed_at: i64,
}

#[derive(Row, Deserialize)]
struct StoredGap {
    venue: Box<str>,
    stream: Box<str>,
    after: u64,
    through: u64,
    state: String,
    operator: Box<str>,
    note: Box<str>,
    since: i64,
    changed_at: i64,
}

impl StoredGap {
    fn gap(self) -> Result<StreamGap, BatchLogError> {
        let gap = Gap {
            after: self.after,
            through: self.through,
            state: self.state.parse()?,
            operator: self.operator,
            note: self.note,
            since_ns: ns(self.since),
            changed_ns: ns(self.changed_at),
        };
        Ok(StreamGap { venue: self.venue, stream: self.stream, gap })
    }
}

/// The bound cuts off what is over, the oldest first.
const ORDER: &str = "ORDER BY state IN ('open', 'accepted') DESC, changed_at DESC, venue, stream, after, through";

/// The gaps of all streams, by venue, stream and height; those that are over only if asked for. At most [`GAPS_MAX`].
///
/// # Errors
/// [`BatchLogError`].
pub async fn all_gaps(client: &Client, over_too: bool) -> Result<Vec<StreamGap>, BatchLogError> {
    let over = u8::from(over_too);
    let sql = format!(
        "SELECT ?fields FROM batch_gaps FINAL WHERE {over} = 1 OR state NOT IN ('filled', 'healed') {ORDER} LIMIT {GAPS_MAX}"
    );
    let rows = in_time("read the gaps", READ_MAX, client.query(&sql).fetch_all::<StoredGap>()).await?;
    sorted(rows)
}

fn sorted(rows: Vec<StoredGap>) -> Result<Vec<StreamGap>, BatchLogError> {
    let mut gaps = rows.into_iter().map(StoredGap::gap).collect::<Result<Vec<_>, _>>()?;
    let key = |one: &StreamGap| (one.venue.clone(), one.stream.clone(), one.gap.after, one.gap.through);
    gaps.sort_by_cached_key(key);
    Ok(gaps)
}

impl BatchLog {
    /// The stream's gaps by height, those that are over too. At most [`GAPS_MAX`].
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn gaps(&self) -> Result<Vec<Gap>, BatchLogError> {
        let sql =
            format!("SELECT ?fields FROM batch_gaps FINAL WHERE venue = ? AND stream = ? {ORDER} LIMIT {GAPS_MAX}");
        let rows = self.rows::<StoredGap>("read the gaps", &sql, &[]).await?;
        Ok(sorted(rows)?.into_iter().map(|found| found.gap).collect())
    }

    /// The gap of a hole, if it is on record.
    ///
    /// # Errors
    /// [`BatchLogError`].
    pub async fn gap(&self, hole: Hole) -> Result<Option<Gap>, BatchLogError> {
        let sql = "SELECT ?fields FROM batch_gaps FINAL WHERE venue = ? AND stream = ? AND after = ? AND through = ?";
        let mut rows = self.rows::<StoredGap>("read a gap", sql, &[hole.after, hole.through]).await?;
        rows.pop().map(|row| row.gap().map(|found| found.gap)).transpose()
    }

    /// Puts a gap on record as it is now. It replaces what was recorded of the same hole, also where that has a later
    /// time, as another host's clock may give it.
    ///
    /// # Errors
    /// [`BatchLogError`]; the outcome is unknown then, and the same call again is right.
    pub async fn note_gap(&self, gap: &Gap) -> Result<(), BatchLogError> {
        let known = self.gap(Hole { after: gap.after, through: gap.through }).await?;
        let changed_ns = known.map_or(gap.changed_ns, |known| gap.changed_ns.max(known.changed_ns.saturating_add(1)));
        let row = GapRow {
            venue: self.venue.name(),
            stream: &self.stream,
            after: gap.after,
            through: gap.through,
            state: gap.state.name(),
            operator: &gap.operator,
            note: &gap.note,
            since: time(gap.since_ns),
            changed_at: time(changed_ns),
        };
        send::<GapRow<'_>>(&self.client, "batch_gaps", &row, None).await.map_err(failed("note a gap"))
    }

    /// Puts a hole on record as open, unless it is on record as open or accepted already; gives what is on record. So a
    /// start does not take back what an operator accepted meanwhile, nor the time since when it is open.
    ///
    /// # Errors
    /// [`BatchLogError`]; the same call again is right.
    pub async fn open_gap(&self, hole: Hole, now_ns: u64) -> Result<Gap, BatchLogError> {
        if let Some(known) = self.gap(hole).await?.filter(|known| known.state.matters()) {
            return Ok(known);
        }
        let gap = Gap {
            after: hole.after,
            through: hole.through,
            state: GapState::Open,
            operator: "".into(),
            note: "".into(),
            since_ns: now_ns,
            changed_ns: now_ns,
        };
        self.note_gap(&gap).await?;
        Ok(gap)
    }

    /// An operator accepts that the batches of an open gap are lost.
    ///
    /// # Errors
    /// [`BatchLogError::NotOpen`] if it is not on record as open, and [`BatchLogError`].
    pub async fn accept_gap(&self, hole: Hole, operator: &str, note: &str, now_ns: u64) -> Result<Gap, BatchLogError> {
        let known = self.gap(hole).await?;
        let state = known.as_ref().map(|known| known.state);
        let Some(known) = known.filter(|known| known.state == GapState::Open) else {
            let Hole { after, through } = hole;
            return Err(BatchLogError::NotOpen { stream: self.stream.clone(), after, through, state });
        };
        let accepted = Gap {
            state: GapState::Accepted,
            operator: operator.into(),
            note: note.into(),
            changed_ns: now_ns.max(known.changed_ns.saturating_add(1)),
            ..known
        };
        self.note_gap(&accepted).await?;
        Ok(accepted)
    }
}
