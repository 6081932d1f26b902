//! Prometheus metrics, made from the tape's and the store's own numbers when they are asked for.
//!
//! Never: a number kept twice.

use crate::{
    audit::{AuditNumbers, Skip},
    batches::BatchNumbers,
    checkpoint::CheckpointView,
    legs::LegRow,
    source::{SourceNumbers, SourceView},
    tape::TapeStats,
};
use connectors::{
    clickhouse::{Counters, audit::Verdict},
    live::numbers::VenueNumbers,
    venue_feed::FeedCounts,
};
use market::FeedState;
use prometheus::{Encoder, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// The metrics cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the metrics cannot be written")]
pub struct MetricsError(#[from] prometheus::Error);

/// What a scrape is made from.
#[derive(Clone, Copy)]
pub struct Numbers<'a> {
    /// The tape.
    pub tape: &'a TapeStats,
    /// The source.
    pub source: &'a SourceNumbers,
    /// The store's writer, if there is a store, and how often the source waited for it.
    pub store: Option<(&'a Counters, u64)>,
    /// The batch stream, if there is one.
    pub batches: Option<&'a BatchNumbers>,
    /// The audits, if there are any.
    pub audit: Option<&'a AuditNumbers>,
    /// The checkpoints, and the present in Unix nanoseconds.
    pub checkpoints: (&'a CheckpointView, u64),
}

struct Page {
    registry: Registry,
}

/// The metrics as text.
///
/// # Errors
/// [`MetricsError`] if a name or value is not what Prometheus takes, which a test would show.
pub fn text(numbers: Numbers<'_>) -> Result<String, MetricsError> {
    let page = Page { registry: Registry::new() };
    let tape = numbers.tape;
    page.counters("sprag_lane_events_total", "What happened in the lanes", "event", &tape.lanes.values())?;
    page.counters("sprag_fanout_events_total", "What happened in the fan-out", "event", &tape.fanout.values())?;
    let source = numbers.source;
    let view = source.view();
    page.counters(
        "sprag_source_events_total",
        "What the source decoded",
        "event",
        &[
            ("frames", source.frames.load(Relaxed)),
            ("dead_letters", source.dead_letters.load(Relaxed)),
            ("dead_letters_unkept", view.unkept),
            ("checksums_matched", source.checksums_matched.load(Relaxed)),
            ("checksums_failed", source.checksums_failed.load(Relaxed)),
        ],
    )?;
    page.counters(
        "sprag_tape_events_total",
        "What the tape did",
        "event",
        &[("cuts", tape.cuts), ("credit_waits", tape.credit_waits), ("inconsistent_groups", tape.inconsistent)],
    )?;
    page.gauges("sprag_terminals", "Terminals and what they hold", "what", &sizes(tape))?;
    let states: Vec<_> = FeedState::ALL.iter().zip(tape.states).map(|(state, count)| (state.name(), count)).collect();
    page.gauges("sprag_instruments", "Instruments by feed state", "state", &states)?;
    let quantiles: Vec<_> = tape.close_lag_us.iter().map(|(quantile, lag)| (quantile.to_string(), *lag)).collect();
    let quantiles: Vec<_> = quantiles.iter().map(|(quantile, lag)| (quantile.as_str(), *lag)).collect();
    let help = "Microseconds from the end of a cut until it was complete";
    page.gauges("sprag_cut_lag_microseconds", help, "quantile", &quantiles)?;
    page.gauges("sprag_tape", "State of the tape", "what", &state(tape))?;
    let (checkpoints, now_ns) = numbers.checkpoints;
    page.counters("sprag_checkpoint_events_total", "What became of checkpoints", "event", &checkpoints.counts())?;
    page.gauges("sprag_checkpoint", "The last checkpoint of this run", "what", &checkpoints.last(now_ns))?;
    let ignored: Vec<_> = checkpoints.ignored().map(|reason| (reason, 1)).into_iter().collect();
    page.gauges(
        "sprag_checkpoint_ignored",
        "Why the file that was there at the start was not used",
        "reason",
        &ignored,
    )?;
    page.venues(source.live())?;
    page.feeds(&view)?;
    page.legs(&tape.legs)?;
    if let Some((counters, waits)) = numbers.store {
        page.store(counters, waits)?;
    }
    if let Some(batches) = numbers.batches {
        page.batches(batches)?;
    }
    if let Some(audit) = numbers.audit {
        page.audit(audit, now_ns)?;
    }
    let mut out = Vec::new();
    TextEncoder::new().encode(&page.registry.gather(), &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn sizes(tape: &TapeStats) -> [(&'static str, u64); 3] {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    [
        ("connected", number(tape.terminals)),
        ("groups", number(tape.groups)),
        ("subscriptions", number(tape.subscriptions)),
    ]
}

fn state(tape: &TapeStats) -> [(&'static str, u64); 3] {
    [
        ("frontier_lag_ms", tape.frontier_lag_ms),
        ("in_flight_bytes", tape.in_flight_bytes),
        ("store_backlog_events", u64::try_from(tape.store_backlog).unwrap_or(u64::MAX)),
    ]
}

fn feed_values(counts: &FeedCounts) -> [(&'static str, u64); 10] {
    [
        ("frames", counts.frames),
        ("ignored", counts.ignored),
        ("undecodable", counts.undecodable),
        ("checksums_matched", counts.checksums_matched),
        ("checksums_failed", counts.checksums_failed),
        ("checks_put_aside", counts.checks_put_aside),
        ("switches", counts.switches),
        ("missing", counts.missing),
        ("suppressed", counts.suppressed),
        ("passed", counts.passed),
    ]
}

impl Page {
    fn counters(&self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> Result<(), prometheus::Error> {
        let counters = IntCounterVec::new(Opts::new(name, help), &[label])?;
        for (value, count) in values {
            counters.with_label_values(&[*value]).inc_by(*count);
        }
        self.registry.register(Box::new(counters))
    }

    fn gauges(&self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> Result<(), prometheus::Error> {
        let gauges = IntGaugeVec::new(Opts::new(name, help), &[label])?;
        for (value, number) in values {
            gauges.with_label_values(&[*value]).set(i64::try_from(*number).unwrap_or(i64::MAX));
        }
        self.registry.register(Box::new(gauges))
    }

    fn venues(&self, venues: &[Arc<VenueNumbers>]) -> Result<(), prometheus::Error> {
        let opts = Opts::new("sprag_venue_events_total", "What happened on the connections to venues");
        let counters = IntCounterVec::new(opts, &["venue", "event"])?;
        let opts = Opts::new("sprag_venue_legs", "Open connections to venues");
        let legs = IntGaugeVec::new(opts, &["venue"])?;
        for numbers in venues {
            let venue = numbers.venue().name();
            for (event, count) in numbers.values() {
                counters.with_label_values(&[venue, event]).inc_by(count);
            }
            legs.with_label_values(&[venue]).set(i64::try_from(numbers.legs_open.load(Relaxed)).unwrap_or(i64::MAX));
        }
        self.registry.register(Box::new(counters))?;
        self.registry.register(Box::new(legs))
    }

    /// What the decoders counted, and the dead letters, per venue.
    fn feeds(&self, view: &SourceView) -> Result<(), prometheus::Error> {
        let opts = Opts::new("sprag_feed_events_total", "What the decoders of the venues met");
        let feeds = IntCounterVec::new(opts, &["venue", "event"])?;
        for (venue, counts) in &view.feeds {
            for (event, count) in feed_values(counts) {
                feeds.with_label_values(&[venue.name(), event]).inc_by(count);
            }
        }
        let opts = Opts::new("sprag_dead_letters_total", "Messages that could not be decoded");
        let letters = IntCounterVec::new(opts, &["venue", "reason"])?;
        for (venue, reason, count) in &view.dead_letters {
            letters.with_label_values(&[venue.name(), *reason]).inc_by(*count);
        }
        self.registry.register(Box::new(feeds))?;
        self.registry.register(Box::new(letters))
    }

    fn legs(&self, rows: &[LegRow]) -> Result<(), prometheus::Error> {
        let opts = Opts::new("sprag_leg_events_total", "What each connection to a venue brought");
        let events = IntCounterVec::new(opts, &["venue", "leg", "event"])?;
        let opts =
            Opts::new("sprag_leg_lead_microseconds_total", "Sum of the leads of each connection over the next one");
        let sums = IntCounterVec::new(opts, &["venue", "leg"])?;
        let opts = Opts::new("sprag_leg_lead_microseconds", "How long a connection was ahead of the next one");
        let leads = IntGaugeVec::new(opts, &["venue", "leg", "quantile"])?;
        for row in rows {
            let (venue, leg) = (row.venue.name(), &*row.leg);
            for (event, count) in row.values() {
                events.with_label_values(&[venue, leg, event]).inc_by(count);
            }
            sums.with_label_values(&[venue, leg]).inc_by(row.lead_us_sum());
            for (quantile, lead_us) in &row.lead_us {
                let lead_us = i64::try_from(*lead_us).unwrap_or(i64::MAX);
                leads.with_label_values(&[venue, leg, &quantile.to_string()]).set(lead_us);
            }
        }
        self.registry.register(Box::new(events))?;
        self.registry.register(Box::new(sums))?;
        self.registry.register(Box::new(leads))
    }

    fn batches(&self, batches: &BatchNumbers) -> Result<(), prometheus::Error> {
        self.counters("sprag_batch_events_total", "What happened to the batch stream", "event", &batches.values())?;
        let state = batches.state();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let values = [
            ("position", state.position),
            ("cursor", state.cursor),
            ("waiting", number(state.waiting)),
            ("memory_bytes", number(state.memory_bytes)),
            ("hole", u64::from(state.hole.is_some())),
            ("lossy", u64::from(state.lossy)),
            ("up", u64::from(state.up)),
            ("caught_up", u64::from(state.caught_up)),
        ];
        self.gauges("sprag_batch_stream", "State of the batch stream", "what", &values)
    }

    fn audit(&self, audit: &AuditNumbers, now_ns: u64) -> Result<(), prometheus::Error> {
        let view = audit.view();
        let ticks = [("compared", view.compared), ("skipped", view.skipped_ticks), ("corrected", view.corrected)];
        self.counters("sprag_audit_ticks_total", "What became of ticks in audits", "what", &ticks)?;
        let divergent: Vec<_> = Verdict::ALL.iter().map(|verdict| verdict.name()).zip(view.divergent).collect();
        let help = "Ticks of which live book and store differed";
        self.counters("sprag_audit_divergent_ticks_total", help, "verdict", &divergent)?;
        let events = [("audits", view.audits), ("failures", view.failures), ("unkept_evidence", view.unkept)];
        self.counters("sprag_audit_events_total", "What happened in audits", "event", &events)?;
        let skipped: Vec<_> = Skip::ALL.iter().map(|reason| reason.name()).zip(view.skipped).collect();
        let help = "Times that an instrument could not be compared";
        self.counters("sprag_audit_skipped_instruments_total", help, "reason", &skipped)?;
        let last = view.last.clone().unwrap_or_default();
        let values = [
            ("age_seconds", now_ns.saturating_sub(view.since_ns) / 1_000_000_000),
            ("duration_ms", view.duration_ms()),
            ("instruments", u64::from(last.instruments)),
            ("compared_ticks", last.compared_ticks),
            ("divergent_ticks", last.divergent_ticks),
            ("divergent_ppm", view.divergent_ppm()),
        ];
        self.gauges("sprag_audit", "The last audit", "what", &values)
    }

    fn store(&self, counters: &Counters, waits: u64) -> Result<(), prometheus::Error> {
        self.counters(
            "sprag_store_events_total",
            "What the store's writer did",
            "event",
            &[
                ("rows_pushed", counters.rows_pushed),
                ("rows_inserted", counters.rows_inserted),
                ("batches_inserted", counters.batches_inserted),
                ("retries", counters.retries),
                ("loads", counters.loads),
                ("tombstones", counters.tombstones),
                ("source_waits", waits),
            ],
        )?;
        let lag_ms = counters.lag_ns / 1_000_000;
        let values = [("pending_bytes", counters.pending_bytes), ("lag_ms", lag_ms)];
        self.gauges("sprag_store", "State of the store's writer", "what", &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow::cut::LegCounts;
    use market::Venue;

    #[test]
    fn every_number_has_its_place() {
        let row = LegRow {
            venue: Venue::BinanceSpot,
            leg: "a".into(),
            messages: 7,
            counts: LegCounts { wins: 5, leads: 2, lead_ns: 13_000_000, ..LegCounts::default() },
            lead_us: vec![(0.5, 6_003)],
        };
        let (tape, source) = (TapeStats { legs: vec![row], ..TapeStats::default() }, SourceNumbers::default());
        let counters = Counters::default();
        let view = CheckpointView::default();
        let batches = BatchNumbers::default();
        let (store, batches) = (Some((&counters, 3)), Some(&batches));
        let audit = AuditNumbers::since(0);
        let (audit, checkpoints) = (Some(&audit), (&view, 7_000_000_000));
        let numbers = Numbers { tape: &tape, source: &source, store, batches, audit, checkpoints };
        let text = text(numbers).unwrap();
        for line in [
            r#"sprag_lane_events_total{event="regressions"} 0"#,
            r#"sprag_batch_events_total{event="late"} 0"#,
            r#"sprag_batch_stream{what="hole"} 0"#,
            r#"sprag_fanout_events_total{event="priority_gaps"} 0"#,
            r#"sprag_store_events_total{event="source_waits"} 3"#,
            r#"sprag_audit_divergent_ticks_total{verdict="store_wrong"} 0"#,
            r#"sprag_audit_skipped_instruments_total{reason="not_durable"} 0"#,
            r#"sprag_audit{what="age_seconds"} 7"#,
            r#"sprag_instruments{state="GAPPED"} 0"#,
            r#"sprag_checkpoint_events_total{event="written"} 0"#,
            r#"sprag_leg_events_total{event="messages",leg="a",venue="binance_spot"} 7"#,
            r#"sprag_leg_events_total{event="wins",leg="a",venue="binance_spot"} 5"#,
            r#"sprag_leg_events_total{event="resyncs",leg="a",venue="binance_spot"} 0"#,
            r#"sprag_leg_lead_microseconds_total{leg="a",venue="binance_spot"} 13000"#,
            r#"sprag_leg_lead_microseconds{leg="a",quantile="0.5",venue="binance_spot"} 6003"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
