//! `sprag dex-sim`: plays an exchange that publishes its blocks.
//!
//! Never: heights that an earlier run may have used; a run begins with a snapshot, above them.

use super::{Failure, runtime};
use crate::{exit::Exit, run::unix_ns};
use anyhow::{Context, Result};
use clap::Args;
use connectors::{
    neutron_dex::generator::{DexGenerator, DexOptions, GeneratedBatch},
    pubsub::{
        client::{PubSubAddress, SubscriptionName, SubscriptionOptions, TopicName},
        header::{BatchHeader, Encoding},
        publish::{PublishBounds, Publishing, publish_batch},
    },
};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Heights begin at so many for each second since 1970, so that a later run is above an earlier one of up to four blocks
/// a second.
const HEIGHTS_PER_SECOND: u64 = 4;

/// Least time between two blocks, milliseconds; see [`HEIGHTS_PER_SECOND`].
const EVERY_MS_MIN: u64 = 250;

#[derive(Debug, Args)]
pub(super) struct DexSimArgs {
    /// Topic to publish to, projects/PROJECT/topics/NAME. PUBSUB_EMULATOR_HOST names an emulator.
    #[arg(long, value_name = "NAME")]
    topic: TopicName,
    /// Name of the stream.
    #[arg(long, default_value = "neutron-1")]
    stream: String,
    /// Seed of everything random; one seed gives one market.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pairs of tokens.
    #[arg(long, default_value_t = 8)]
    pairs: usize,
    /// Tick updates in a block, about.
    #[arg(long, default_value_t = 400)]
    events: usize,
    /// Milliseconds between two blocks; 250 at the least.
    #[arg(long, default_value_t = 500)]
    every_ms: u64,
    /// End after so many blocks.
    #[arg(long)]
    blocks: Option<u64>,
    /// Make the topic where it is missing.
    #[arg(long)]
    create: bool,
    /// With --create: a subscription to make as well, so that nothing is published before somebody can keep it.
    #[arg(long, value_name = "NAME", requires = "create")]
    subscription: Option<SubscriptionName>,
}

pub(super) fn dex_sim(args: &DexSimArgs) -> std::result::Result<(), Failure> {
    runtime()?.block_on(play(args)).map_err(|error| Failure::new(Exit::Network, error))
}

async fn play(args: &DexSimArgs) -> Result<()> {
    let address = PubSubAddress::from_env(None)?;
    match (&args.subscription, args.create) {
        (Some(subscription), true) => {
            address.ensure(&args.topic, subscription, &SubscriptionOptions::default()).await?;
        }
        (None, true) => drop(address.ensure_topic(&args.topic).await?),
        (_, false) => {}
    }
    let publishing = Publishing::new(address.publisher(&args.topic).await?, PublishBounds::default());
    let start_height = unix_ns() / 1_000_000_000 * HEIGHTS_PER_SECOND;
    let options = DexOptions {
        seed: args.seed,
        pairs: args.pairs,
        events_per_block: args.events,
        start_height: start_height.saturating_add(1),
        start_time_ns: unix_ns(),
        ..DexOptions::default()
    };
    let mut generator = DexGenerator::new(options);
    publish(args, &publishing, generator.snapshot()).await?;
    println!("publishing {} blocks to {}; the first is {}", args.stream, args.topic, start_height.saturating_add(1));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut every = tokio::time::interval(Duration::from_millis(args.every_ms.max(EVERY_MS_MIN)));
    let mut left = args.blocks.unwrap_or(u64::MAX);
    while left > 0 {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = every.tick() => {}
        }
        let Some(batch) = generator.next() else { break };
        publish(args, &publishing, batch).await?;
        left -= 1;
    }
    Ok(())
}

/// Publishes a batch as made now.
async fn publish(args: &DexSimArgs, publishing: &Publishing, batch: GeneratedBatch) -> Result<()> {
    let GeneratedBatch { name, content, .. } = batch;
    let header = BatchHeader {
        stream: args.stream.as_str().into(),
        kind: name.kind,
        height: name.height,
        previous: name.previous,
        id: name.id,
        encoding: Encoding::Zstd,
        block_time_ns: unix_ns(),
        part: 0,
        parts: 1,
    };
    let published = publish_batch(publishing, &header, content.into()).await;
    published.with_context(|| format!("height {} is not published", name.height))?;
    Ok(())
}
