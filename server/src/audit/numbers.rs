//! What the audits counted and found, for metrics and for people.
//!
//! Never: a finding kept for ever; the store has them all.

use connectors::clickhouse::audit::{self, Action, AuditRecord, Comparison, Verdict, explain};
use market::Instrument;
use serde::Serialize;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Findings that are told over HTTP; the store has more.
pub(super) const FINDINGS_MAX: usize = 100;

/// Why an instrument could not be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It has no book yet.
    NoBook,
    /// Its book was kept over the start and is not proven yet.
    Syncing,
    /// Its batch stream lacks a batch.
    Gapped,
    /// Its lane did not answer in time.
    Unanswered,
    /// What it shows was not durable in time.
    NotDurable,
    /// A live tick has a tranche without a name.
    Unnamed,
    /// It shares its keys in the store with another instrument.
    SharedKeys,
}

impl Skip {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::NoBook,
        Self::Syncing,
        Self::Gapped,
        Self::Unanswered,
        Self::NotDurable,
        Self::Unnamed,
        Self::SharedKeys,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoBook => "no_book",
            Self::Syncing => "syncing",
            Self::Gapped => "gapped",
            Self::Unanswered => "unanswered",
            Self::NotDurable => "not_durable",
            Self::Unnamed => "unnamed",
            Self::SharedKeys => "shared_keys",
        }
    }
}

/// A finding for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// When it was found, Unix nanoseconds as text.
    pub found_ns: String,
    /// The instrument.
    pub instrument: String,
    /// How live book and store differed.
    pub kind: &'static str,
    /// Who is wrong.
    pub verdict: &'static str,
    /// What was done.
    pub action: &'static str,
    /// The sentence.
    pub explanation: String,
}

impl Finding {
    /// A finding of an instrument.
    #[must_use]
    pub fn of(found_ns: u64, instrument: &Instrument, finding: &audit::Finding) -> Self {
        Self {
            found_ns: found_ns.to_string(),
            instrument: instrument.text.to_string(),
            kind: finding.suspect.kind.name(),
            verdict: finding.ruling.verdict().name(),
            action: Action::of(finding.ruling).name(),
            explanation: explain(instrument, finding),
        }
    }
}

/// All of it at one moment; counts since the start.
#[derive(Clone, Debug, Default)]
pub struct AuditView {
    /// Audits that ended.
    pub audits: u64,
    /// Reads and writes of the store that failed.
    pub failures: u64,
    /// Ticks compared.
    pub compared: u64,
    /// Ticks that changed meanwhile.
    pub skipped_ticks: u64,
    /// Ticks that differed, in the order of [`Verdict::ALL`].
    pub divergent: [u64; 2],
    /// Ticks written again.
    pub corrected: u64,
    /// Findings that were only counted.
    pub unkept: u64,
    /// Instruments not compared, in the order of [`Skip::ALL`].
    pub skipped: [u64; 7],
    /// When counting began, or the last audit ended: Unix nanoseconds.
    pub since_ns: u64,
    /// The last audit that ended.
    pub last: Option<AuditRecord>,
    /// The last findings, the latest first.
    pub findings: VecDeque<Finding>,
}

impl AuditView {
    /// Divergent ticks in a million compared ones of the last audit; a part of one counts as one.
    #[must_use]
    pub fn divergent_ppm(&self) -> u64 {
        let Some(last) = &self.last else { return 0 };
        let millionfold = u128::from(last.divergent_ticks) * 1_000_000;
        u64::try_from(millionfold.div_ceil(u128::from(last.compared_ticks.max(1)))).unwrap_or(u64::MAX)
    }

    /// How long the last audit took, milliseconds.
    #[must_use]
    pub fn duration_ms(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| u64::try_from((last.ended_at - last.begun_at) / 1_000_000).unwrap_or(0))
    }
}

/// The numbers of a server's audits.
#[derive(Debug, Default)]
pub struct AuditNumbers {
    view: Mutex<AuditView>,
}

impl AuditNumbers {
    /// Numbers of audits that begin to be due at a time.
    #[must_use]
    pub fn since(now_ns: u64) -> Self {
        Self { view: Mutex::new(AuditView { since_ns: now_ns, ..AuditView::default() }) }
    }

    fn locked(&self) -> MutexGuard<'_, AuditView> {
        // Numbers are right one by one, whoever panicked over them.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it.
    #[must_use]
    pub fn view(&self) -> AuditView {
        self.locked().clone()
    }

    pub(super) fn failed(&self) {
        self.locked().failures += 1;
    }

    pub(super) fn skipped(&self, reason: Skip) {
        let mut view = self.locked();
        for (count, _) in view.skipped.iter_mut().zip(Skip::ALL).filter(|(_, known)| *known == reason) {
            *count += 1;
        }
    }

    pub(super) fn compared(&self, comparison: &Comparison) {
        let mut view = self.locked();
        view.compared += comparison.compared;
        view.skipped_ticks += comparison.skipped;
    }

    pub(super) fn found(&self, findings: &[audit::Finding], corrected: u64) {
        let mut view = self.locked();
        view.corrected += corrected;
        for (count, verdict) in view.divergent.iter_mut().zip(Verdict::ALL) {
            let of = findings.iter().filter(|finding| finding.ruling.verdict() == verdict).count();
            *count += u64::try_from(of).unwrap_or(u64::MAX);
        }
    }

    pub(super) fn tell(&self, finding: Finding) {
        let mut view = self.locked();
        view.findings.push_front(finding);
        view.findings.truncate(FINDINGS_MAX);
    }

    pub(super) fn end(&self, record: AuditRecord, ended_ns: u64, unkept: u64) {
        let mut view = self.locked();
        view.audits += 1;
        view.unkept += unkept;
        view.since_ns = ended_ns;
        view.last = Some(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_rounded_to_nothing_and_findings_are_bounded() {
        let numbers = AuditNumbers::since(5);
        let record = AuditRecord {
            compared_ticks: 3_000_000,
            divergent_ticks: 1,
            begun_at: 1_000_000,
            ended_at: 9_500_000,
            ..AuditRecord::default()
        };
        assert_eq!((numbers.view().divergent_ppm(), numbers.view().since_ns), (0, 5));
        numbers.end(record, 77, 2);
        for at in 0..FINDINGS_MAX + 5 {
            let text = String::new();
            let (kind, verdict, action) = ("changed", "store_wrong", "rewritten");
            let (instrument, explanation) = (text.clone(), text);
            numbers.tell(Finding { found_ns: at.to_string(), instrument, kind, verdict, action, explanation });
        }
        numbers.skipped(Skip::Gapped);
        let view = numbers.view();
        assert_eq!((view.divergent_ppm(), view.duration_ms(), view.since_ns, view.unkept), (1, 8, 77, 2));
        assert_eq!((view.findings.len(), &*view.findings[0].found_ns), (FINDINGS_MAX, "104"));
        assert_eq!(view.skipped, [0, 0, 1, 0, 0, 0, 0]);
        let empty = AuditRecord { divergent_ticks: 0, ..AuditRecord::default() };
        numbers.end(empty, 78, 0);
        assert_eq!(numbers.view().divergent_ppm(), 0);
    }
}
