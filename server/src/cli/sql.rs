//! `sprag sql`: asks the store, of a server that runs beside us or by opening it.
//!
//! Never: a statement that could change anything, unless `--write` says so; half a result under the name of a whole one.

use super::{Failure, Settings, runtime, start_log};
use crate::{
    config::Config,
    exit::Exit,
    store::{Sharing, Store},
};
use clap::Args;
use clickhouse::{Client, error::Error as StoreFault};
use connectors::clickhouse::running_analysts_url;
use std::{
    fs::{self, File},
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

/// Accounts, limits and quota of analysts on a server of one's own.
const ACCOUNT_SQL: &str = include_str!("account.sql");

/// Longest query; the listener takes no longer one.
const QUERY_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct SqlArgs {
    #[command(flatten)]
    settings: Settings,
    /// The query; `-`, or nothing, reads it from standard input.
    query: Option<String>,
    /// Read the query from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    file: Option<PathBuf>,
    /// How the result is written: table, csv, tsv, json, jsonl, parquet, arrow, or the name of any of ClickHouse's formats.
    #[arg(long, default_value = "table", value_parser = format)]
    format: String,
    /// Write the result to a file, which is there whole or not at all.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Value of a parameter that the query has as {NAME:Type}; may be repeated.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parameter)]
    params: Vec<(String, String)>,
    /// Use the account that may change the store.
    #[arg(long)]
    write: bool,
    /// Print the statements that make an account for analysts on a ClickHouse server of your own, and ask nothing.
    #[arg(long, conflicts_with_all = ["query", "file", "output", "write"])]
    print_account: bool,
}

/// A format by our name for it, or by ClickHouse's.
fn format(name: &str) -> Result<String, String> {
    let known = match name {
        "table" => "PrettyCompactMonoBlock",
        "csv" => "CSVWithNames",
        "tsv" => "TSVWithNames",
        "json" => "JSON",
        "jsonl" => "JSONEachRow",
        "parquet" => "Parquet",
        "arrow" => "Arrow",
        other if !other.is_empty() && other.bytes().all(|byte| byte.is_ascii_alphanumeric()) => other,
        _ => return Err("a name of letters and digits is meant".to_owned()),
    };
    Ok(known.to_owned())
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is meant")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Whether a format's bytes are no text.
fn is_binary(format: &str) -> bool {
    let starts =
        ["Parquet", "Arrow", "ORC", "Avro", "Native", "RowBinary", "MsgPack", "Npy", "BSON", "Protobuf", "CapnProto"];
    starts.iter().any(|start| format.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)))
}

pub(super) fn sql(args: &SqlArgs) -> Result<(), Failure> {
    if args.print_account {
        print!("{ACCOUNT_SQL}");
        return Ok(());
    }
    if args.output.is_none() && is_binary(&args.format) && io::stdout().is_terminal() {
        let refused = anyhow::anyhow!("{} is not for a terminal: give --output FILE, or pipe it on", args.format);
        return Err(Failure::new(Exit::Usage, refused));
    }
    let query = query(args)?;
    let config = args.settings.load(Vec::new())?;
    start_log(&config.log.quiet())?;
    runtime()?.block_on(async {
        let store = Store::connect(&config, Sharing::Join).await.map_err(|error| Failure::new(error.exit(), error))?;
        let asked = ask(&store, &config, args, &query).await;
        store.close().await;
        asked
    })
}

/// The query's text, from wherever it comes.
fn query(args: &SqlArgs) -> Result<String, Failure> {
    let (read, from): (Box<dyn Read>, _) = match (&args.file, args.query.as_deref()) {
        (None, Some(query)) if query != "-" => return Ok(query.to_owned()),
        (Some(path), _) => {
            let opened = File::open(path);
            let unread =
                |error| Failure::new(Exit::Input, anyhow::Error::new(error).context(path.display().to_string()));
            (Box::new(opened.map_err(unread)?), path.display().to_string())
        }
        (None, _) => (Box::new(io::stdin()), "standard input".to_owned()),
    };
    let mut text = String::new();
    let read = read.take(QUERY_BYTES_MAX + 1).read_to_string(&mut text);
    let unread = |error| Failure::new(Exit::Input, anyhow::Error::new(error).context(from.clone()));
    read.map_err(unread)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > QUERY_BYTES_MAX {
        return Err(Failure::new(Exit::Input, anyhow::anyhow!("{from}: a query has at most {QUERY_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// The client that the query goes through.
fn client(store: &Store, config: &Config, write: bool) -> Result<Client, Failure> {
    if write {
        return Ok(store.address().client());
    }
    let address = store.address();
    let plain = |url: &str| Client::default().with_url(url).with_database(&address.database);
    if !config.store.is_embedded() {
        let client = plain(&address.url).with_setting("readonly", "1");
        let client = address.user.iter().fold(client, |client, user| client.with_user(user));
        return Ok(address.password.iter().fold(client, |client, password| client.with_password(password)));
    }
    let url = running_analysts_url(&config.data_dir).ok_or_else(|| {
        let why = "the listener that only reads is off (analysts.enabled); --write uses the other one";
        Failure::new(Exit::Store, anyhow::anyhow!(why))
    })?;
    let client = plain(&url).with_user(&config.analysts.user);
    let password = config.analysts.password.reveal();
    Ok(if password.is_empty() { client } else { client.with_password(password) })
}

/// What a failure of the store means: an answer that says no is the query's fault, anything else the store's.
fn failed(error: StoreFault) -> Failure {
    let exit = if matches!(error, StoreFault::BadResponse(_)) { Exit::Usage } else { Exit::Store };
    Failure::new(exit, error)
}

async fn ask(store: &Store, config: &Config, args: &SqlArgs, query: &str) -> Result<(), Failure> {
    let unwritten = |error: io::Error| Failure::new(Exit::Internal, error);
    let mut asked = client(store, config, args.write)?.query_raw(query);
    for (name, value) in &args.params {
        asked = asked.param(name, value);
    }
    let mut answer = asked.fetch_bytes(&args.format).map_err(failed)?;
    let mut out = match &args.output {
        Some(path) => Out::aside(path).map_err(unwritten)?,
        None => Out::Standard(io::stdout()),
    };
    while let Some(chunk) = answer.next().await.map_err(failed)? {
        out.write(&chunk).map_err(unwritten)?;
    }
    out.finish().map_err(unwritten)
}

/// Where a result goes.
enum Out {
    Standard(io::Stdout),
    /// Aside, until it is whole.
    File {
        file: File,
        aside: PathBuf,
        path: PathBuf,
        whole: bool,
    },
}

impl Out {
    fn aside(path: &Path) -> io::Result<Self> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".{}.part", std::process::id()));
        let aside = PathBuf::from(aside);
        Ok(Self::File { file: File::create(&aside)?, aside, path: path.to_path_buf(), whole: false })
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.write_all(chunk),
            Self::File { file, .. } => file.write_all(chunk),
        }
    }

    fn finish(mut self) -> io::Result<()> {
        match &mut self {
            Self::Standard(out) => out.flush(),
            Self::File { file, aside, path, whole } => {
                file.sync_all()?;
                fs::rename(aside, path)?;
                *whole = true;
                Ok(())
            }
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if let Self::File { aside, whole: false, .. } = self
            && let Err(error) = fs::remove_file(&*aside)
        {
            tracing::warn!(%error, file = %aside.display(), "a part of a result is left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_short_names() {
        assert_eq!(format("table").unwrap(), "PrettyCompactMonoBlock");
        assert_eq!(format("JSONCompactEachRow").unwrap(), "JSONCompactEachRow");
        assert!(format("").is_err() && format("CSV; DROP").is_err());
        assert!(is_binary("Parquet") && is_binary("ArrowStream") && is_binary("native") && !is_binary("CSV"));
    }

    #[test]
    fn a_result_is_there_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.csv");
        let mut out = Out::aside(&path).unwrap();
        out.write(b"a").unwrap();
        drop(out);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let mut out = Out::aside(&path).unwrap();
        out.write(b"a").unwrap();
        out.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_printed_account_is_the_documented_one() {
        assert!(include_str!("../../../docs/ANALYSTS.md").contains(ACCOUNT_SQL));
    }
}
