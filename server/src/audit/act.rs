//! What is done about ticks that differ: witnesses heard, rows removed or written again, sources asked, evidence kept.
//!
//! Never: a correction that the evidence does not tell.

use super::{Audit, AuditError, Compared, Running, in_time, numbers};
use connectors::clickhouse::{
    CorrectedTick, Correction, SinkInput,
    audit::{self, Action, Evidence, Facts, Finding, Kind, Memory, Ruling, TickName},
};
use market::{Instrument, SymbolId};
use std::sync::Arc;

/// Rows that are removed for one instrument in one audit: each is a mutation of a table, and the rest is found again.
const REMOVALS_MAX: usize = 20;

impl Audit {
    /// Judges and acts.
    pub(super) async fn act(&mut self, compared: Compared, running: &mut Running) -> Result<(), AuditError> {
        let Compared { copied, comparison, after } = compared;
        let instrument = Arc::clone(&copied.instrument);
        let facts = Facts {
            symbol: instrument.id,
            scale: copied.live.scale,
            states: [copied.state, after],
            rebuilds: copied.rebuilds,
            others_from: self.others_from,
        };
        let names: Vec<TickName> = comparison.suspects.iter().map(|suspect| suspect.name.clone()).collect();
        let version = copied.live.version;
        let mut witnesses = in_time(audit::witnesses(&self.client, &instrument, version, &names)).await?;
        let before: Memory = self.memory.recall(instrument.id);
        let mut findings = Vec::with_capacity(comparison.suspects.len());
        let mut removals = 0;
        for mut suspect in comparison.suspects {
            let witness = witnesses.remove(&suspect.name).unwrap_or_default();
            // Of what FINAL does not show, the row is known only now.
            if matches!(suspect.kind, Kind::Missing | Kind::Ahead) {
                suspect.state = witness.state.or(suspect.state);
            }
            let mut ruling = audit::rule(&suspect, &witness.history, &facts, &before, &mut self.memory);
            removals += usize::from(ruling == Ruling::Remove);
            if ruling == Ruling::Remove && removals > REMOVALS_MAX {
                ruling = Ruling::Watch;
            }
            let scale = copied.live.scale;
            findings.push(Finding { suspect, version, scale, history: witness.history, ruling });
        }
        self.remove(&instrument, &findings).await?;
        let corrected = self.correct(instrument.id, &findings).await?;
        self.resync(&instrument, &findings).await?;
        let divergent = u64::try_from(findings.len()).unwrap_or(u64::MAX);
        running.record.divergent_ticks += divergent;
        running.record.corrected_ticks += corrected;
        self.numbers.found(&findings, corrected);
        let found_ns = (self.now_ns)();
        for finding in &findings {
            let told = numbers::Finding::of(found_ns, &instrument, finding);
            tracing::warn!(
                kind = told.kind,
                action = told.action,
                explanation = told.explanation,
                "the audit found a tick"
            );
            self.numbers.tell(told);
        }
        let (audit, host) = (running.record.audit, &self.options.host);
        let evidence = |finding| Evidence {
            audit,
            host: Arc::clone(host),
            found_ns,
            instrument: Arc::clone(&instrument),
            finding,
        };
        self.keep(findings.into_iter().map(evidence).collect(), running).await
    }

    async fn remove(&self, instrument: &Instrument, findings: &[Finding]) -> Result<(), AuditError> {
        for finding in findings.iter().filter(|finding| finding.ruling == Ruling::Remove) {
            let Some(row) = finding.suspect.state else { continue };
            let (name, in_history) = (&finding.suspect.name, finding.history.has_row);
            in_time(audit::remove(&self.client, instrument, name, row.version, in_history)).await?;
        }
        Ok(())
    }

    /// Hands what is to be written again to the writer; gives how many ticks that is.
    async fn correct(&self, symbol: SymbolId, findings: &[Finding]) -> Result<u64, AuditError> {
        let wrong = |finding: &&Finding| matches!(Action::of(finding.ruling), Action::Rewritten | Action::Removed);
        let mut version = None;
        let mut ticks = Vec::new();
        for finding in findings.iter().filter(wrong) {
            version = Some(finding.version);
            let suspect = &finding.suspect;
            // A tombstone keeps the steps of the row that it buries.
            let scale = suspect.state.filter(|_| suspect.live.is_zero()).map_or(finding.scale, |row| row.scale);
            let (side, key) = (suspect.name.side, suspect.name.key.clone());
            ticks.push(CorrectedTick { side, key, reserves: suspect.live, scale });
        }
        let Some(version) = version else { return Ok(0) };
        let corrected = u64::try_from(ticks.len()).unwrap_or(u64::MAX);
        let correction = Correction { symbol, version, found_ns: (self.now_ns)(), ticks };
        self.queue.send(SinkInput::Correction(correction)).await.map_err(|_| AuditError::Ended)?;
        Ok(corrected)
    }

    /// Marks an instrument that is in doubt, and has its source asked for the book.
    async fn resync(&mut self, instrument: &Instrument, findings: &[Finding]) -> Result<(), AuditError> {
        if !findings.iter().any(|finding| finding.ruling == Ruling::Resync) {
            return Ok(());
        }
        // First the wish, which may find no room: a book that is marked and not wished for would stay marked.
        let rebuilds = self.rebuilds.as_ref().filter(|_| instrument.venue.sends_batches());
        if let Some(Err(error)) = rebuilds.map(|rebuilds| rebuilds.try_send((*instrument.symbol).into())) {
            tracing::error!(%error, instrument = %instrument.text, "the batch stream takes no wish for a book now; the next audit tries again");
            drop(self.memory.recall(instrument.id));
            return Ok(());
        }
        if !self.lanes.doubt(instrument.id).await? {
            tracing::error!(instrument = %instrument.text, "a lane could not be told of a doubt; the next audit tries again");
            drop(self.memory.recall(instrument.id));
        }
        Ok(())
    }
}
