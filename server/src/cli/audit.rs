//! `sprag audit`: what the audits of the store compared, what they found, and what was done about it.
//!
//! Never: an audit of its own; a running server does that.

use super::{
    Failure, Settings, in_store,
    table::{self, Format, age, table, time},
};
use crate::{exit::Exit, run::unix_ns};
use clap::Args;
use connectors::clickhouse::{
    ReadError,
    audit::{AuditRecord, StoredEvidence, audits, evidence},
};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    settings: Settings,
    /// So many audits, and so many ticks that they found, the latest first.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    last: u64,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn audit(args: &AuditArgs) -> Result<(), Failure> {
    let failed = |error: ReadError| Failure::new(Exit::Store, error);
    let (audits, found) = in_store(&args.settings, async |store| {
        let client = store.address().client();
        let audits = audits(&client, args.last).await.map_err(failed)?;
        Ok((audits, evidence(&client, args.last).await.map_err(failed)?))
    })?;
    match args.format {
        Format::Json => {
            let (audits, found): (Vec<_>, Vec<_>) =
                (audits.iter().map(audit_json).collect(), found.iter().map(found_json).collect());
            table::print_json(&json!({ "audits": audits, "findings": found }))
        }
        Format::Table if audits.is_empty() => table::print(b"There was no audit yet.\n"),
        Format::Table => table::print(as_text(&audits, &found, unix_ns()).as_bytes()),
    }
}

fn ns(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

fn as_text(audits: &[AuditRecord], found: &[StoredEvidence], now_ns: u64) -> String {
    let heads =
        ["BEGUN", "AGE", "HOST", "INSTRUMENTS", "SKIPPED", "COMPARED TICKS", "CHANGED SINCE", "DIVERGENT", "CORRECTED"];
    let row = |audit: &AuditRecord| {
        [
            time(ns(audit.begun_at)),
            age(now_ns, ns(audit.begun_at)),
            audit.host.clone(),
            audit.instruments.to_string(),
            audit.instruments_skipped.to_string(),
            audit.compared_ticks.to_string(),
            audit.skipped_ticks.to_string(),
            audit.divergent_ticks.to_string(),
            audit.corrected_ticks.to_string(),
        ]
    };
    let mut text = table(heads, &audits.iter().map(row).collect::<Vec<_>>());
    if found.is_empty() {
        text.push_str("\nThey found nothing.\n");
        return text;
    }
    let row = |found: &StoredEvidence| {
        [
            time(found.found_ns),
            found.kind.to_string(),
            found.verdict.to_string(),
            found.action.to_string(),
            found.explanation.to_string(),
        ]
    };
    text.push('\n');
    text.push_str(&table(["FOUND", "KIND", "VERDICT", "ACTION", "WHAT"], &found.iter().map(row).collect::<Vec<_>>()));
    text
}

fn audit_json(audit: &AuditRecord) -> Value {
    json!({
        "audit": audit.audit.to_string(), "host": audit.host, "begun_at": time(ns(audit.begun_at)),
        "ended_at": time(ns(audit.ended_at)), "instruments": audit.instruments,
        "instruments_skipped": audit.instruments_skipped, "compared_ticks": audit.compared_ticks,
        "skipped_ticks": audit.skipped_ticks, "divergent_ticks": audit.divergent_ticks,
        "corrected_ticks": audit.corrected_ticks,
    })
}

fn found_json(found: &StoredEvidence) -> Value {
    let [live, state, history] = found.said.map(|(version, reserves)| {
        json!({ "epoch": version.epoch.to_string(), "seq": version.seq.to_string(), "reserves": reserves.to_string() })
    });
    json!({
        "audit": found.audit.to_string(), "host": found.host, "found_at": time(found.found_ns), "venue": found.venue,
        "symbol": found.symbol, "asset_in": found.asset_in, "tick_index": found.tick_index.to_string(),
        "fee": found.fee, "tranche_key": found.tranche_key, "live": live, "state": state, "history": history,
        "kind": found.kind, "verdict": found.verdict, "action": found.action, "explanation": found.explanation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::{U256, Version};

    #[test]
    fn audits_and_findings_are_lines() {
        let begun_at = 1_700_000_000_000_000_000;
        let audit = AuditRecord { audit: 1, host: "h".into(), begun_at, compared_ticks: 7, ..AuditRecord::default() };
        let now_ns = ns(begun_at) + 90_000_000_000;
        let quiet = as_text(std::slice::from_ref(&audit), &[], now_ns);
        assert!(quiet.contains("1 min 30 s  h") && quiet.ends_with("They found nothing.\n"), "{quiet}");
        let found = StoredEvidence {
            audit: 1,
            host: "h".into(),
            found_ns: ns(begun_at),
            venue: "binance_spot".into(),
            symbol: "BTCUSDT".into(),
            asset_in: "USDT".into(),
            tick_index: 5,
            fee: 0,
            tranche_key: "".into(),
            said: [(Version::new(1, 2), U256::ONE); 3],
            kind: "changed".into(),
            verdict: "store_wrong".into(),
            action: "rewritten".into(),
            explanation: "a sentence\n.".into(),
        };
        let text = as_text(&[audit], std::slice::from_ref(&found), now_ns);
        assert!(text.lines().last().unwrap().ends_with("changed  store_wrong  rewritten  a sentence\\n."), "{text}");
        assert_eq!(found_json(&found)["live"]["seq"], "2");
        assert_eq!(found_json(&found)["tick_index"], "5");
    }
}
