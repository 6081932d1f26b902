//! `sprag dlq`: the messages of batch streams that could not be taken.
//!
//! Never: a letter changed that was not named beyond doubt.

use super::{
    Failure, Settings, in_store,
    table::{self, Format, age, printable, table, time},
};
use crate::{exit::Exit, run::unix_ns, store::Store};
use anyhow::anyhow;
use clap::{Args, Subcommand};
use connectors::clickhouse::{
    BatchLogError,
    batch_log::{DEAD_LETTERS_MAX, DeadFilter, DeadHead, DeadLetter, DeadLetters, DeadState},
};
use serde_json::{Value, json};
use std::{fmt::Write, path::PathBuf};

/// Digits of an id that a list shows; enough to name a letter by.
const SHORT_ID: usize = 12;
/// Letters that are named where a prefix fits several.
const AMBIGUOUS_MAX: usize = 10;
/// First bytes of a letter that are shown.
const BYTES_SHOWN: usize = 256;
/// Bytes on a line of them.
const BYTES_A_LINE: usize = 16;

#[derive(Debug, Args)]
pub(super) struct DlqArgs {
    #[command(subcommand)]
    ask: Ask,
}

#[derive(Debug, Subcommand)]
enum Ask {
    /// List letters, the latest change first.
    List(ListArgs),
    /// Show one letter: why it could not be taken, its attributes, its size and first bytes.
    Show(ShowArgs),
    /// Have letters tried again: by the running server within a second or two, or at its next start.
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    settings: Settings,
    /// Only those in this state: dead, replay or replayed.
    #[arg(long, value_parser = state)]
    state: Option<DeadState>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=DEAD_LETTERS_MAX))]
    limit: u64,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    settings: Settings,
    /// The letter's id, or the beginning of it.
    id: String,
    /// Write its bytes to this file, or to standard output with `-`, and show nothing else there.
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
struct ReplayArgs {
    #[command(flatten)]
    settings: Settings,
    /// Ids of letters, or the beginnings of them.
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All that are dead.
    #[arg(long)]
    all: bool,
}

fn state(text: &str) -> Result<DeadState, String> {
    let known = DeadState::ALL.into_iter().find(|state| state.name() == text);
    known.ok_or_else(|| format!("one of {} is meant", DeadState::ALL.map(DeadState::name).join(", ")))
}

pub(super) fn dlq(args: &DlqArgs) -> Result<(), Failure> {
    match &args.ask {
        Ask::List(args) => list(args),
        Ask::Show(args) => show(args),
        Ask::Replay(args) => replay(args),
    }
}

fn failed(error: BatchLogError) -> Failure {
    Failure::new(Exit::Store, error)
}

fn letters(store: &Store) -> DeadLetters {
    DeadLetters::new(store.address().client())
}

fn short(id: &str) -> &str {
    id.get(..SHORT_ID).unwrap_or(id)
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let filter = DeadFilter { state: args.state, limit: Some(args.limit), ..DeadFilter::default() };
    let heads = in_store(&args.settings, async |store| letters(store).list(filter).await.map_err(failed))?;
    match args.format {
        Format::Json => table::print_json(&heads.iter().map(as_json).collect()),
        Format::Table if heads.is_empty() => table::print(b"No dead letters.\n"),
        Format::Table => table::print(as_table(&heads, unix_ns()).as_bytes()),
    }
}

fn as_table(heads: &[DeadHead], now_ns: u64) -> String {
    let row = |head: &DeadHead| {
        [
            short(&head.id).to_owned(),
            head.state.to_string(),
            format!("{}/{}", head.venue, head.stream),
            head.height.to_string(),
            head.attempts.to_string(),
            age(now_ns, head.received_ns),
            head.reason.to_string(),
        ]
    };
    let columns = ["ID", "STATE", "STREAM", "HEIGHT", "ATTEMPTS", "AGE", "REASON"];
    table(columns, &heads.iter().map(row).collect::<Vec<_>>())
}

fn as_json(head: &DeadHead) -> Value {
    json!({
        "id": head.id, "state": head.state.name(), "venue": head.venue, "stream": head.stream, "height": head.height,
        "message_id": head.message_id, "attributes": head.attributes, "reason": head.reason, "attempts": head.attempts,
        "published_at": time(head.published_ns), "received_at": time(head.received_ns),
        "changed_at": time(head.changed_ns),
    })
}

/// The letter whose id begins so.
async fn one(letters: &DeadLetters, prefix: &str) -> Result<DeadHead, Failure> {
    let usage = |words: String| Failure::new(Exit::Usage, anyhow!(words));
    if prefix.is_empty() {
        return Err(usage("an empty id names no letter".to_owned()));
    }
    let limit = u64::try_from(AMBIGUOUS_MAX + 1).ok();
    let mut found = letters.list(DeadFilter { prefix, limit, ..DeadFilter::default() }).await.map_err(failed)?;
    if found.len() > 1 {
        let more = if found.len() > AMBIGUOUS_MAX { ", and more" } else { "" };
        let named = |head: &DeadHead| format!("\n  {}  {}", head.id, printable(&head.reason));
        let names: String = found.iter().take(AMBIGUOUS_MAX).map(named).collect();
        return Err(usage(format!("several letters begin with {prefix}{more}:{names}")));
    }
    found.pop().ok_or_else(|| usage(format!("no dead letter begins with {prefix:?}; `sprag dlq list` shows them")))
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let letter = in_store(&args.settings, async |store| {
        let letters = letters(store);
        let head = one(&letters, &args.id).await?;
        let gone = || Failure::new(Exit::Store, anyhow!("dead letter {} was removed meanwhile", head.id));
        letters.read(&head.id).await.map_err(failed)?.ok_or_else(gone)
    })?;
    match &args.payload {
        Some(file) if file.as_os_str() == "-" => table::print(&letter.payload),
        Some(file) => {
            let written = std::fs::write(file, &letter.payload);
            let unwritten = |error| {
                let about = format!("cannot write {}", file.display());
                Failure::new(Exit::Internal, anyhow::Error::new(error).context(about))
            };
            written.map_err(unwritten)?;
            table::print(format!("{} bytes are in {}\n", letter.payload.len(), file.display()).as_bytes())
        }
        None => match args.format {
            Format::Table => table::print(as_text(&letter, unix_ns()).as_bytes()),
            Format::Json => {
                let mut answer = as_json(&letter.head);
                answer["bytes"] = letter.payload.len().into();
                answer["first_bytes_hex"] = hex(shown(&letter.payload)).into();
                table::print_json(&answer)
            }
        },
    }
}

fn shown(payload: &[u8]) -> &[u8] {
    payload.get(..BYTES_SHOWN).unwrap_or(payload)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn as_text(letter: &DeadLetter, now_ns: u64) -> String {
    let DeadLetter { head, payload } = letter;
    let rows = [
        ["id", &head.id],
        ["state", &format!("{} for {}", head.state, age(now_ns, head.changed_ns))],
        ["reason", &head.reason],
        ["attempts", &head.attempts.to_string()],
        ["stream", &format!("{}/{}", head.venue, head.stream)],
        ["height", &head.height.to_string()],
        ["message", &head.message_id],
        ["published", &time(head.published_ns)],
        ["received", &format!("{} ({} ago)", time(head.received_ns), age(now_ns, head.received_ns))],
        ["size", &format!("{} bytes", payload.len())],
    ];
    let rows = rows.map(|row| row.map(ToOwned::to_owned));
    let attributes = head.attributes.iter().map(|(name, value)| [format!("  {name}"), value.clone()]);
    let head = ["attributes".to_owned(), head.attributes.len().to_string()];
    let rows: Vec<_> = rows.into_iter().chain(std::iter::once(head)).chain(attributes).collect();
    let mut text = table(["", ""], &rows).trim_start().to_owned();
    if !payload.is_empty() {
        text.push_str("first bytes\n");
    }
    for (at, line) in shown(payload).chunks(BYTES_A_LINE).enumerate() {
        let readable =
            line.iter().map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' });
        let digits = line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let (width, readable) = (BYTES_A_LINE * 3, readable.collect::<String>());
        text.push_str(&format!("  {:04x}  {digits:width$} {readable}\n", at * BYTES_A_LINE));
    }
    text
}

fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let told = in_store(&args.settings, async |store| {
        let letters = letters(store);
        let mut wanted = Vec::new();
        if args.all {
            let filter = DeadFilter { state: Some(DeadState::Dead), ..DeadFilter::default() };
            wanted = letters.list(filter).await.map_err(failed)?;
        }
        // All of them are looked up first, so that a misspelt one changes nothing.
        for id in &args.ids {
            wanted.push(one(&letters, id).await?);
        }
        let mut told = String::new();
        for head in &wanted {
            let set = letters.set_state(&head.id, DeadState::Replay, None, None, unix_ns()).await.map_err(failed)?;
            let what = if set { "will be tried again" } else { "was removed meanwhile" };
            told.push_str(&format!(
                "{}  {}/{} height {}: {what}\n",
                short(&head.id),
                head.venue,
                head.stream,
                head.height
            ));
        }
        Ok(told)
    })?;
    let told = if told.is_empty() { "No dead letters.\n".to_owned() } else { told };
    table::print(told.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn head() -> DeadHead {
        DeadHead {
            id: "0123456789abcdef".repeat(4).into(),
            venue: "neutron_dex".into(),
            stream: "neutron-1".into(),
            height: 7,
            message_id: "m-1".into(),
            attributes: BTreeMap::from([("kind".to_owned(), "block".to_owned())]),
            reason: "digest\u{1b}[31m".into(),
            attempts: 3,
            state: DeadState::Dead,
            published_ns: 0,
            received_ns: 1_700_000_000_000_000_000,
            changed_ns: 1_700_000_000_000_000_000,
        }
    }

    #[test]
    fn a_letter_is_shown_without_what_a_terminal_would_obey() {
        let letter = DeadLetter { head: head(), payload: b"{\"height\":\"7\"\n\xff}".to_vec() };
        let text = as_text(&letter, 1_700_000_061_000_000_000);
        assert!(text.starts_with("id "), "{text}");
        for line in
            ["state       dead for 1 min 1 s", "reason      digest\\u{1b}[31m", "published   -", "  kind      block"]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(
            text.ends_with("  0000  7b 22 68 65 69 67 68 74 22 3a 22 37 22 0a ff 7d  {\"height\":\"7\"..}\n"),
            "{text}"
        );
        assert!(
            as_table(&[head()], 0)
                .lines()
                .nth(1)
                .unwrap()
                .starts_with("0123456789ab  dead   neutron_dex/neutron-1  7 ")
        );
    }

    #[test]
    fn only_the_first_bytes_are_shown() {
        let letter = DeadLetter { head: head(), payload: vec![0; 10_000_000] };
        assert_eq!(as_text(&letter, 0).lines().filter(|line| line.starts_with("  00")).count(), 16);
        assert_eq!(hex(shown(&letter.payload)).len(), 512);
        assert!(state("undead").unwrap_err().contains("dead, replay, replayed"));
    }
}
