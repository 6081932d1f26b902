//! Audits on record: one row of each, and one row of each tick that differed.
//!
//! Never: evidence without its sentence.

use super::explain::{Action, Finding, explain};
use crate::clickhouse::{
    read::ReadError,
    rows::{asset_in, from_store, time, to_store},
};
use clickhouse::{Client, Row, types::UInt256};
use market::{Instrument, U256, Version};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What an audit compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Row, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number, which is when it began in Unix nanoseconds.
    pub audit: u64,
    /// The host that audited.
    pub host: String,
    /// When it began, Unix nanoseconds.
    pub begun_at: i64,
    /// When it ended, Unix nanoseconds.
    pub ended_at: i64,
    /// Instruments that were compared.
    pub instruments: u32,
    /// Instruments that could not be.
    pub instruments_skipped: u32,
    /// Ticks that were compared.
    pub compared_ticks: u64,
    /// Ticks that changed while they were to be compared.
    pub skipped_ticks: u64,
    /// Ticks of which live book and store differed.
    pub divergent_ticks: u64,
    /// Of these, those that were written again or removed.
    pub corrected_ticks: u64,
}

/// A finding on its way into the record.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The audit.
    pub audit: u64,
    /// The host that audited.
    pub host: Arc<str>,
    /// When it was found, Unix nanoseconds.
    pub found_ns: u64,
    /// The instrument.
    pub instrument: Arc<Instrument>,
    /// What was found.
    pub finding: Finding,
}

#[derive(Row, Serialize)]
struct EvidenceRow<'a> {
    audit: u64,
    host: &'a str,
    found_at: i64,
    venue: &'a str,
    symbol: &'a str,
    asset_0: &'a str,
    asset_1: &'a str,
    asset_in: &'a str,
    tick_index: i64,
    fee: u32,
    tranche_key: &'a str,
    live_version: u128,
    live_reserves: UInt256,
    state_version: u128,
    state_reserves: UInt256,
    history_version: u128,
    history_reserves: UInt256,
    kind: &'a str,
    verdict: &'a str,
    action: &'a str,
    explanation: String,
}

impl<'a> From<&'a Evidence> for EvidenceRow<'a> {
    fn from(evidence: &'a Evidence) -> Self {
        let Evidence { audit, host, found_ns, instrument, finding } = evidence;
        let suspect = &finding.suspect;
        let state = suspect.state.map_or((Version::default(), U256::ZERO), |row| (row.version, row.reserves));
        let history = finding.history.shown(suspect.live);
        let history = history.map_or((Version::default(), U256::ZERO), |(version, reserves, _)| (version, reserves));
        Self {
            audit: *audit,
            host,
            found_at: time(*found_ns),
            venue: instrument.venue.name(),
            symbol: &instrument.symbol,
            asset_0: &instrument.asset_0,
            asset_1: &instrument.asset_1,
            asset_in: asset_in(instrument, suspect.name.side),
            tick_index: suspect.name.key.tick_index,
            fee: suspect.name.key.fee,
            tranche_key: suspect.name.key.tranche_key(),
            live_version: finding.version.to_u128(),
            live_reserves: to_store(suspect.live),
            state_version: state.0.to_u128(),
            state_reserves: to_store(state.1),
            history_version: history.0.to_u128(),
            history_reserves: to_store(history.1),
            kind: suspect.kind.name(),
            verdict: finding.ruling.verdict().name(),
            action: Action::of(finding.ruling).name(),
            explanation: explain(instrument, finding),
        }
    }
}

fn unkept(source: clickhouse::error::Error) -> ReadError {
    ReadError::Store { what: "(or keep) the record of audits", source }
}

/// Keeps the record of an audit that has ended.
///
/// # Errors
/// [`ReadError`].
pub async fn keep_audit(client: &Client, record: &AuditRecord) -> Result<(), ReadError> {
    let keeping = async {
        let mut insert = client.insert::<AuditRecord>("audits").await?;
        insert.write(record).await?;
        insert.end().await
    };
    keeping.await.map_err(unkept)
}

/// Keeps evidence.
///
/// # Errors
/// [`ReadError`].
pub async fn keep_evidence(client: &Client, evidence: &[Evidence]) -> Result<(), ReadError> {
    let keeping = async {
        let mut insert = client.insert::<EvidenceRow<'_>>("audit_evidence").await?;
        for evidence in evidence {
            insert.write(&evidence.into()).await?;
        }
        insert.end().await
    };
    if evidence.is_empty() { Ok(()) } else { keeping.await.map_err(unkept) }
}

/// The last audits of all hosts, the latest first.
///
/// # Errors
/// [`ReadError`].
pub async fn audits(client: &Client, last: u64) -> Result<Vec<AuditRecord>, ReadError> {
    let query = "SELECT ?fields FROM audits ORDER BY begun_at DESC, host LIMIT ?";
    client.query(query).bind(last).fetch_all().await.map_err(unkept)
}

/// Evidence as it is on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvidence {
    /// The audit.
    pub audit: u64,
    /// The host that audited.
    pub host: Box<str>,
    /// When it was found, Unix nanoseconds.
    pub found_ns: u64,
    /// Name of the venue.
    pub venue: Box<str>,
    /// The venue's own spelling of the instrument.
    pub symbol: Box<str>,
    /// The asset that rests at the tick.
    pub asset_in: Box<str>,
    /// Its price in steps.
    pub tick_index: i64,
    /// Its fee.
    pub fee: u32,
    /// Name of its tranche; empty if it has none.
    pub tranche_key: Box<str>,
    /// Versions and reserves of live book, state and history.
    pub said: [(Version, U256); 3],
    /// See [`super::Kind`].
    pub kind: Box<str>,
    /// See [`super::Verdict`].
    pub verdict: Box<str>,
    /// See [`Action`].
    pub action: Box<str>,
    /// The sentence.
    pub explanation: Box<str>,
}

#[derive(Row, Deserialize)]
struct StoredRow {
    audit: u64,
    host: Box<str>,
    found_at: i64,
    venue: Box<str>,
    symbol: Box<str>,
    asset_in: Box<str>,
    tick_index: i64,
    fee: u32,
    tranche_key: Box<str>,
    live_version: u128,
    live_reserves: UInt256,
    state_version: u128,
    state_reserves: UInt256,
    history_version: u128,
    history_reserves: UInt256,
    kind: Box<str>,
    verdict: Box<str>,
    action: Box<str>,
    explanation: Box<str>,
}

impl From<StoredRow> for StoredEvidence {
    fn from(row: StoredRow) -> Self {
        let said = [
            (row.live_version, row.live_reserves),
            (row.state_version, row.state_reserves),
            (row.history_version, row.history_reserves),
        ];
        Self {
            audit: row.audit,
            host: row.host,
            found_ns: u64::try_from(row.found_at).unwrap_or(0),
            venue: row.venue,
            symbol: row.symbol,
            asset_in: row.asset_in,
            tick_index: row.tick_index,
            fee: row.fee,
            tranche_key: row.tranche_key,
            said: said.map(|(version, reserves)| (Version::from_u128(version), from_store(reserves))),
            kind: row.kind,
            verdict: row.verdict,
            action: row.action,
            explanation: row.explanation,
        }
    }
}

/// The last evidence of all hosts, the latest first.
///
/// # Errors
/// [`ReadError`].
pub async fn evidence(client: &Client, last: u64) -> Result<Vec<StoredEvidence>, ReadError> {
    let query =
        "SELECT ?fields FROM audit_evidence ORDER BY found_at DESC, venue, symbol, asset_in, tick_index LIMIT ?";
    let rows = client.query(query).bind(last).fetch_all::<StoredRow>().await.map_err(unkept)?;
    Ok(rows.into_iter().map(Into::into).collect())
}
