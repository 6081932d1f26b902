//! The baseline: plain inserts of what a block leaves in the store, by the official client, into tables of the same
//! definition in a database of their own, in the same engine.
//!
//! Never: rows that differ from those of the block; they are read from the store first.

use super::{PATIENCE, chain::Prepared, stage::STREAM, usage};
use crate::bench::ticks::{Tick, insert_rows};
use anyhow::{Context, Result, ensure};
use clickhouse::{Client, Row};
use connectors::{
    clickhouse::{StoreAddress, schema},
    pubsub::header::{hex, kind_name},
};
use cpu_time::ThreadTime;
use market::Venue;
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

/// The database of the baseline: the whole schema once more, so with the views that follow `tick_updates`.
const DATABASE: &str = "bench";

/// A table like `tick_updates` that no view follows.
const ALONE: &str = "tick_updates_alone";

/// What an insert took.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainCost {
    /// Until it was confirmed.
    pub(super) wall: Duration,
    /// Processor time of the client and of the engine.
    pub(super) cpu: Duration,
}

/// What the plain inserts of a block took.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainCosts {
    /// The rows, into a table that no view follows.
    pub(super) alone: PlainCost,
    /// The rows, into a table that the three views follow, as in the store itself.
    pub(super) rows: PlainCost,
    /// The content, as one row of a table like `raw_events`.
    pub(super) content: PlainCost,
}

/// A row of `raw_events`.
#[derive(Row, Serialize)]
struct Content<'a> {
    venue: &'a str,
    stream: &'a str,
    height: u64,
    previous_height: u64,
    part: u32,
    parts: u32,
    message_id: &'a str,
    kind: &'a str,
    batch_id: String,
    payload: &'a str,
    updated_at: i64,
    published_at: i64,
    ingestion_timestamp: i64,
}

/// Who inserts plainly. All of the client's work is on the thread that calls, which so knows its processor time.
pub(super) struct Plain {
    runtime: Runtime,
    store: Client,
    scratch: Client,
    engine: u32,
}

impl Plain {
    /// Makes the tables in the engine of a server.
    pub(super) fn new(store: &StoreAddress, engine: u32) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let address = StoreAddress { database: DATABASE.to_owned(), ..store.clone() };
        let scratch = address.client();
        runtime.block_on(async {
            schema::apply(&address).await?;
            let copy = format!("CREATE TABLE {ALONE} AS tick_updates");
            scratch.query(&copy).execute().await.context("the table of the baseline")
        })?;
        Ok(Self { runtime, store: store.client(), scratch, engine })
    }

    /// Inserts what a block left in the store, which is durable, and says what that takes.
    pub(super) fn insert(&self, block: &Prepared) -> Result<PlainCosts> {
        let rows = self.runtime.block_on(self.rows(block))?;
        ensure!(rows.len() == block.ticks, "{} rows of {} ticks", rows.len(), block.ticks);
        let alone = self.timed(insert_rows(&self.scratch, ALONE, &rows))?;
        let with_views = self.timed(insert_rows(&self.scratch, "tick_updates", &rows))?;
        let content = self.timed(insert_content(&self.scratch, block))?;
        Ok(PlainCosts { alone, rows: with_views, content })
    }

    /// The rows of a block, in its order.
    async fn rows(&self, block: &Prepared) -> Result<Vec<Tick>> {
        let query = "SELECT ?fields FROM tick_updates WHERE startsWith(raw_id, ?) ORDER BY version";
        let of = format!("{STREAM}/{}/", block.header.height);
        self.store.query(query).bind(of).fetch_all().await.context("the rows of the block")
    }

    fn timed(&self, insert: impl Future<Output = Result<()>>) -> Result<PlainCost> {
        let engine = usage::cpu(self.engine)?;
        let (begin, client) = (Instant::now(), ThreadTime::now());
        let inserted = self.runtime.block_on(async { timeout(PATIENCE, insert).await });
        let (wall, client) = (begin.elapsed(), client.elapsed());
        inserted.context("the plain insert does not get on")??;
        Ok(PlainCost { wall, cpu: client + usage::cpu(self.engine)?.saturating_sub(engine) })
    }
}

async fn insert_content(client: &Client, block: &Prepared) -> Result<()> {
    let header = &block.header;
    let row = Content {
        venue: Venue::NeutronDex.name(),
        stream: &header.stream,
        height: header.height,
        previous_height: header.previous,
        part: 0,
        parts: 1,
        message_id: "1",
        kind: kind_name(header.kind),
        batch_id: hex(header.id),
        payload: std::str::from_utf8(&block.content)?,
        updated_at: i64::try_from(header.block_time_ns)?,
        published_at: 0,
        ingestion_timestamp: 0,
    };
    let mut insert = client.insert::<Content<'_>>("raw_events").await?;
    insert.write(&row).await?;
    insert.end().await.context("an insert into raw_events")
}
