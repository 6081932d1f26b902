//! Batches of every size, through everything.
//!
//! Never: a large batch that is shown in pieces.

use super::{
    chain::{Chain, options},
    stage::{Stage, durable, header, kept, number, told},
    watchers::Watchers,
};
use anyhow::Result;
use connectors::{
    neutron_dex::generator::{DexOptions, GeneratedBatch},
    pubsub::{content, header::Encoding},
};
use market::FeedState;

/// Makes a document that long: blanks behind it say nothing.
fn padded(batch: &mut GeneratedBatch, bytes: usize) {
    assert!(batch.content.len() <= bytes, "{} bytes", batch.content.len());
    batch.content.resize(bytes, b' ');
    batch.name.id = content::batch_id(&batch.content);
}

#[test]
fn batches_of_4_10_and_25_megabytes_come_through_whole() -> Result<()> {
    // Real text of 25 MB in the last block; the others are filled up.
    let mut chain = Chain::of(options(51), 3);
    let big = Chain::of(DexOptions { bytes_target: 24_000_000, events_per_block: 4_000, ..options(51) }, 1);
    padded(&mut chain.batches[0], (4 << 20) + 1);
    padded(&mut chain.batches[1], 10_000_000);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    let watchers = Watchers::start(&stage.runtime, &server.stream_url(), 1, Some(&chain.truth))?;
    assert_eq!(stage.publish_as(&header(&chain.batches[0], Encoding::Identity), &chain.batches[0].content)?, 1);
    assert_eq!(stage.publish_as(&header(&chain.batches[1], Encoding::Identity), &chain.batches[1].content)?, 2);
    stage.publish(&chain.batches[2..])?;
    stage.shown(&watchers, &chain.after(2), FeedState::Live)?;
    told(&server, &chain.after(2))?;
    durable(&server, chain.height(2))?;
    kept(data.path(), &chain.after(2))?;
    assert_eq!(number(data.path(), "SELECT parts FROM raw_events WHERE length(payload) = 10000000")?, 2);
    stage.drained()?;
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());
    drop(server);

    let mut big = big;
    padded(&mut big.batches[0], 25_000_000);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    let watchers = Watchers::start(&stage.runtime, &server.stream_url(), 1, Some(&big.truth))?;
    assert_eq!(stage.publish_as(&header(&big.batches[0], Encoding::Identity), &big.batches[0].content)?, 3);
    stage.shown(&watchers, &big.after(0), FeedState::Live)?;
    told(&server, &big.after(0))?;
    durable(&server, big.height(0))?;
    kept(data.path(), &big.after(0))?;
    assert_eq!(number(data.path(), "SELECT length(payload) FROM raw_events")?, 25_000_000);
    stage.drained()?;
    assert_eq!(watchers.end(&stage.runtime).broken, Vec::<String>::new());
    Ok(())
}
