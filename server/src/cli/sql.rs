//! `sprag sql`: asks the store, of a server that runs beside us or by opening it.
//!
//! Never: a change of the schema.

use super::{Failure, Settings, runtime, start_log};
use crate::{
    exit::Exit,
    store::{Sharing, Store},
};
use clap::Args;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub(super) struct SqlArgs {
    #[command(flatten)]
    settings: Settings,
    /// The query.
    query: String,
    /// Output format, any of ClickHouse's.
    #[arg(long, default_value = "PrettyCompactMonoBlock")]
    format: String,
}

pub(super) fn sql(args: &SqlArgs) -> Result<(), Failure> {
    let config = args.settings.load(Vec::new())?;
    start_log(&config.log.quiet())?;
    runtime()?.block_on(async {
        let store = Store::connect(&config, Sharing::Join).await.map_err(|error| Failure::new(error.exit(), error))?;
        let asked = ask(&store, args).await;
        store.close().await;
        asked
    })
}

async fn ask(store: &Store, args: &SqlArgs) -> Result<(), Failure> {
    let failed = |error: clickhouse::error::Error| Failure::new(Exit::Store, error);
    let query = store.address().client().query_raw(&args.query);
    let mut answer = query.fetch_bytes(&args.format).map_err(failed)?;
    let mut out = io::stdout().lock();
    let unwritten = |error: io::Error| Failure::new(Exit::Internal, error);
    while let Some(chunk) = answer.next().await.map_err(failed)? {
        out.write_all(&chunk).map_err(unwritten)?;
    }
    out.flush().map_err(unwritten)
}
