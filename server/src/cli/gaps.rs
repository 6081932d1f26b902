//! `sprag gaps`: what is missing in batch streams, and accepting a loss.
//!
//! Never: a loss accepted without a note and a name.

use super::{
    Failure, Settings, in_store,
    table::{self, Format, age, table, time},
};
use crate::{exit::Exit, run::unix_ns};
use anyhow::anyhow;
use clap::{Args, Subcommand};
use connectors::clickhouse::{
    BatchLog, BatchLogError,
    batch_log::{GapState, StreamGap, all_gaps},
};
use market::{Venue, batch::Hole};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct GapsArgs {
    #[command(subcommand)]
    ask: Ask,
}

#[derive(Debug, Subcommand)]
enum Ask {
    /// List the gaps that are open, and the accepted losses that are not healed yet.
    List(ListArgs),
    /// Accept that the batches of an open gap are lost: the stream goes on without them, and what it shows may be wrong
    /// until a snapshot comes or the batches come after all. This stays on record.
    Accept(AcceptArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    settings: Settings,
    /// Those that are over too.
    #[arg(long)]
    all: bool,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
struct AcceptArgs {
    #[command(flatten)]
    settings: Settings,
    /// The last height before the gap, as `sprag gaps list` shows it.
    after: u64,
    /// The last height of the gap.
    through: u64,
    /// Why the loss is accepted.
    #[arg(long, value_name = "TEXT")]
    note: String,
    /// Who accepts it; without it the value of USER.
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// The stream, where several have such a gap.
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
}

pub(super) fn gaps(args: &GapsArgs) -> Result<(), Failure> {
    match &args.ask {
        Ask::List(args) => list(args),
        Ask::Accept(args) => accept(args),
    }
}

fn failed(error: BatchLogError) -> Failure {
    let exit = if matches!(error, BatchLogError::NotOpen { .. }) { Exit::Usage } else { Exit::Store };
    Failure::new(exit, error)
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let gaps =
        in_store(&args.settings, async |store| all_gaps(&store.address().client(), args.all).await.map_err(failed))?;
    match args.format {
        Format::Json => table::print_json(&gaps.iter().map(as_json).collect()),
        Format::Table if gaps.is_empty() => table::print(b"Nothing is missing.\n"),
        Format::Table => table::print(as_table(&gaps, unix_ns()).as_bytes()),
    }
}

fn as_table(gaps: &[StreamGap], now_ns: u64) -> String {
    let heads = ["STREAM", "AFTER", "THROUGH", "STATE", "SINCE", "AGE", "OPERATOR", "NOTE"];
    let row = |found: &StreamGap| {
        let StreamGap { venue, stream, gap } = found;
        [
            format!("{venue}/{stream}"),
            gap.after.to_string(),
            gap.through.to_string(),
            gap.state.to_string(),
            time(gap.since_ns),
            age(now_ns, gap.since_ns),
            gap.operator.to_string(),
            gap.note.to_string(),
        ]
    };
    table(heads, &gaps.iter().map(row).collect::<Vec<_>>())
}

fn as_json(found: &StreamGap) -> Value {
    let StreamGap { venue, stream, gap } = found;
    json!({
        "venue": venue, "stream": stream, "after": gap.after, "through": gap.through, "state": gap.state.name(),
        "since": time(gap.since_ns), "changed_at": time(gap.changed_ns), "operator": gap.operator, "note": gap.note,
    })
}

fn accept(args: &AcceptArgs) -> Result<(), Failure> {
    let usage = |words: &str| Failure::new(Exit::Usage, anyhow!("{words}"));
    let operator = args.operator.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    if operator.trim().is_empty() {
        return Err(usage("who accepts the loss? Name yourself with --operator"));
    }
    if args.note.trim().is_empty() {
        return Err(usage("why is the loss accepted? The note is on record and must not be empty"));
    }
    let hole = Hole { after: args.after, through: args.through };
    let (venue, gap) = in_store(&args.settings, async |store| {
        let client = store.address().client();
        let gaps = all_gaps(&client, true).await.map_err(failed)?;
        let (venue, stream) = stream_of(&gaps, hole, args.stream.as_deref())?;
        let log = BatchLog::new(client, venue, &stream);
        let gap = log.accept_gap(hole, &operator, &args.note, unix_ns()).await.map_err(failed)?;
        Ok((format!("{venue}/{stream}"), gap))
    })?;
    let told = format!(
        "{venue}: the loss after {} through {} is accepted by {}. A running server goes on within a few seconds; its \
         instruments stay GAPPED until they are right again.\n",
        gap.after,
        gap.through,
        table::printable(&gap.operator)
    );
    table::print(told.as_bytes())
}

/// The stream that has a gap open; where none has, one that has it at all, which tells what it is.
fn stream_of(gaps: &[StreamGap], hole: Hole, wanted: Option<&str>) -> Result<(Venue, Box<str>), Failure> {
    let usage = |words: String| Failure::new(Exit::Usage, anyhow!(words));
    let same = |found: &&StreamGap| {
        let it = Hole { after: found.gap.after, through: found.gap.through } == hole;
        it && wanted.is_none_or(|wanted| *found.stream == *wanted)
    };
    let having: Vec<&StreamGap> = gaps.iter().filter(same).collect();
    let open: Vec<&StreamGap> = having.iter().copied().filter(|found| found.gap.state == GapState::Open).collect();
    let found = match (open.as_slice(), having.first()) {
        ([one], _) => one,
        ([], Some(any)) => any,
        ([], None) => {
            let Hole { after, through } = hole;
            let words =
                format!("no gap after {after} through {through} is on record; `sprag gaps list` shows those that are");
            return Err(usage(words));
        }
        (several, _) => {
            let names = several.iter().map(|found| &*found.stream).collect::<Vec<_>>().join(", ");
            return Err(usage(format!("several streams have this gap: {names}; name one with --stream")));
        }
    };
    let venue = found.venue.parse::<Venue>().map_err(|error| Failure::new(Exit::Store, error))?;
    Ok((venue, found.stream.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::clickhouse::batch_log::Gap;

    fn gap(stream: &str, after: u64, state: GapState) -> StreamGap {
        let gap = Gap {
            after,
            through: after + 1,
            state,
            operator: "ann".into(),
            note: "a\nb".into(),
            since_ns: 1_700_000_000_000_000_000,
            changed_ns: 1_700_000_000_000_000_001,
        };
        StreamGap { venue: "neutron_dex".into(), stream: stream.into(), gap }
    }

    #[test]
    fn the_stream_of_a_gap_is_the_one_that_has_it_open() {
        let gaps = [
            gap("a", 1, GapState::Open),
            gap("b", 1, GapState::Filled),
            gap("a", 5, GapState::Open),
            gap("b", 5, GapState::Open),
            gap("b", 8, GapState::Filled),
        ];
        let stream = |after, wanted| {
            let found = stream_of(&gaps, Hole { after, through: after + 1 }, wanted);
            found.map(|(_, stream)| stream.into_string()).map_err(|failure| failure.error.to_string())
        };
        assert_eq!(stream(1, None), Ok("a".to_owned()));
        assert_eq!(stream(1, Some("b")), Ok("b".to_owned()), "the log says that it is not open");
        assert_eq!(stream(5, Some("b")), Ok("b".to_owned()));
        assert!(stream(5, None).unwrap_err().contains("a, b; name one with --stream"));
        assert_eq!(stream(8, None), Ok("b".to_owned()));
        assert!(stream(9, None).unwrap_err().contains("no gap after 9 through 10 is on record"));
    }

    #[test]
    fn a_gap_is_one_line_with_its_age() {
        let text = as_table(&[gap("a", 1, GapState::Open)], 1_700_000_090_000_000_000);
        let line = text.lines().nth(1).unwrap();
        assert!(line.ends_with("1 min 30 s  ann       a\\nb"), "{line}");
        assert_eq!(as_json(&gap("a", 1, GapState::Open))["since"], "2023-11-14T22:13:20Z");
    }
}
