//! `sprag publish`: batches from files to a topic.
//!
//! Never: a batch whose content was changed on the way.

use super::{Failure, runtime};
use crate::exit::Exit;
use anyhow::{Context, anyhow};
use bytes::Bytes;
use clap::Args;
use connectors::pubsub::{
    client::{PubSubAddress, TopicName},
    content::{self, ContentError},
    header::{self, BatchHeader, CONTENT_BYTES_MAX, Encoding, HeaderError, UnknownKind},
    publish::{PublishBounds, Publishing, publish_batch},
};
use market::batch::{BatchKind, HEIGHT_MAX};
use serde::Deserialize;
use std::{
    fs::File,
    io::{Read, Write, stdout},
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A file is a document as the venue gives it: for a block a CometBFT /block_results answer, for a snapshot\n\
{\"height\":\"H\",\"ticks\":[...]}. Files whose names end in .zst or .gz are decompressed first.\n\
\n\
Each batch names the height of the batch before it: that of the file before, --previous-height for the first\n\
file, and without it the height below. A batch over the message limit goes in numbered parts.\n\
\n\
Credentials are those of the environment (GOOGLE_APPLICATION_CREDENTIALS and so on); with PUBSUB_EMULATOR_HOST\n\
or an http:// endpoint there are none.")]
pub(super) struct PublishArgs {
    /// Batches, in the order of their heights.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The topic, as projects/PROJECT/topics/NAME.
    #[arg(long)]
    topic: TopicName,
    /// The stream that the batches are of.
    #[arg(long, default_value = "neutron-1", value_parser = stream)]
    stream: String,
    /// The height, where the document does not tell the right one; of a single file.
    #[arg(long, value_name = "HEIGHT", value_parser = clap::value_parser!(u64).range(..=HEIGHT_MAX))]
    height: Option<u64>,
    /// The height of the batch before the first file.
    #[arg(long, value_name = "HEIGHT", value_parser = clap::value_parser!(u64).range(..=HEIGHT_MAX))]
    previous_height: Option<u64>,
    /// What the files hold: block or snapshot.
    #[arg(long, default_value = "block", value_parser = kind)]
    kind: BatchKind,
    /// How contents are compressed: zstd, gzip or identity.
    #[arg(long, default_value = "zstd")]
    encoding: Encoding,
    /// The block's own time in RFC 3339, where it is known; of a single file.
    #[arg(long, value_name = "TIME", value_parser = block_time)]
    block_time: Option<u64>,
    /// Make the topic if it is not there.
    #[arg(long)]
    create: bool,
    /// The Pub/Sub server, if it is not Google's; PUBSUB_EMULATOR_HOST goes before it.
    #[arg(long, value_name = "ADDRESS")]
    endpoint: Option<String>,
}

fn kind(text: &str) -> Result<BatchKind, UnknownKind> {
    header::kind_of(text)
}

fn block_time(text: &str) -> Result<u64, HeaderError> {
    header::block_time(text)
}

fn stream(text: &str) -> Result<String, HeaderError> {
    header::check_stream(text).map(|()| text.to_owned())
}

/// One file's content and where it stands in its stream.
struct Batch {
    content: Bytes,
    height: u64,
    previous: u64,
}

pub(super) fn publish(args: &PublishArgs) -> Result<(), Failure> {
    if args.files.len() > 1 && (args.height.is_some() || args.block_time.is_some()) {
        return Err(Failure::new(Exit::Usage, anyhow!("--height and --block-time are of a single file")));
    }
    let address =
        PubSubAddress::from_env(args.endpoint.as_deref()).map_err(|error| Failure::new(Exit::Usage, error))?;
    runtime()?.block_on(send(args, &address))
}

async fn send(args: &PublishArgs, address: &PubSubAddress) -> Result<(), Failure> {
    let network = |error: anyhow::Error| Failure::new(Exit::Network, error);
    if args.create {
        address.ensure_topic(&args.topic).await.map_err(|error| network(error.into()))?;
    }
    let publisher = address.publisher(&args.topic).await.map_err(|error| network(error.into()))?;
    let publishing = Publishing::new(publisher, PublishBounds::default());
    let mut before = args.previous_height;
    for path in &args.files {
        let batch = read(path, args, before).map_err(|error| {
            let exit = if error.is::<Misplaced>() { Exit::Usage } else { Exit::Input };
            Failure::new(exit, error.context(path.display().to_string()))
        })?;
        let header = BatchHeader {
            stream: args.stream.as_str().into(),
            kind: args.kind,
            height: batch.height,
            previous: batch.previous,
            id: content::batch_id(&batch.content),
            encoding: args.encoding,
            block_time_ns: args.block_time.unwrap_or(0),
            part: 0,
            parts: 1,
        };
        let content_bytes = batch.content.len();
        let published = publish_batch(&publishing, &header, batch.content).await;
        let published = published.with_context(|| path.display().to_string()).map_err(network)?;
        let line = format!(
            "height={} previous={} batch={} parts={} bytes={} content_bytes={content_bytes} messages={}",
            header.height,
            header.previous,
            header::hex(header.id),
            published.message_ids.len(),
            published.bytes,
            published.message_ids.join(","),
        );
        writeln!(stdout(), "{line}").map_err(|error| Failure::new(Exit::Internal, error))?;
        before = Some(header.height);
    }
    Ok(())
}

/// The file does not stand where it should; the command line is wrong.
#[derive(Debug, thiserror::Error)]
#[error("height {height} does not come after {previous}: files go in the order of their heights")]
struct Misplaced {
    height: u64,
    previous: u64,
}

fn read(path: &Path, args: &PublishArgs, before: Option<u64>) -> Result<Batch, anyhow::Error> {
    let content = document(path)?;
    let height = match args.height {
        Some(height) => height,
        None => height_of(&content).context("no height in the document; --height tells it")?,
    };
    let previous = previous(args.kind, height, before)?;
    Ok(Batch { content: content.into(), height, previous })
}

/// The height before; a snapshot is its own.
fn previous(kind: BatchKind, height: u64, before: Option<u64>) -> Result<u64, Misplaced> {
    let previous = before.unwrap_or(height.saturating_sub(1));
    match kind {
        BatchKind::Snapshot => Ok(height),
        BatchKind::Block if previous < height => Ok(previous),
        BatchKind::Block => Err(Misplaced { height, previous }),
    }
}

/// The file's content without compression, within the bound of a batch.
fn document(path: &Path) -> Result<Vec<u8>, anyhow::Error> {
    let encoding = match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => Encoding::Zstd,
        Some("gz") => Encoding::Gzip,
        _ => Encoding::Identity,
    };
    let mut raw = Vec::new();
    let limit = u64::try_from(CONTENT_BYTES_MAX)?.saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut raw)?;
    if raw.len() > CONTENT_BYTES_MAX {
        return Err(ContentError::TooLarge { max: CONTENT_BYTES_MAX }.into());
    }
    Ok(content::unpack(encoding, &raw, CONTENT_BYTES_MAX)?)
}

/// Where a document tells its height: a block's with or without the envelope of the answer, a snapshot's.
#[derive(Deserialize)]
struct Document {
    height: Option<Height>,
    result: Option<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    height: Option<Height>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Height {
    Text(String),
    Number(u64),
}

fn height_of(content: &[u8]) -> Result<u64, anyhow::Error> {
    let document: Document = serde_json::from_slice(content)?;
    let height = document.result.and_then(|answer| answer.height).or(document.height);
    let height = match height.context("neither result.height nor height")? {
        Height::Text(text) => text.parse()?,
        Height::Number(number) => number,
    };
    if height > HEIGHT_MAX { Err(anyhow!("height {height} is out of range")) } else { Ok(height) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_height_is_found_in_every_shape() {
        for document in [
            r#"{"jsonrpc":"2.0","id":-1,"result":{"height":"42","txs_results":null}}"#,
            r#"{"height":"42","txs_results":[]}"#,
            r#"{"height":42,"ticks":[]}"#,
        ] {
            assert_eq!(height_of(document.as_bytes()).unwrap(), 42, "{document}");
        }
        for document in ["", "[]", "{}", r#"{"height":"x"}"#, r#"{"height":-1}"#, r#"{"height":"17179869184"}"#] {
            assert!(height_of(document.as_bytes()).is_err(), "{document}");
        }
    }

    #[test]
    fn a_batch_names_the_one_before() {
        assert_eq!(previous(BatchKind::Block, 7, None).unwrap(), 6);
        assert_eq!(previous(BatchKind::Block, 7, Some(3)).unwrap(), 3);
        assert_eq!(previous(BatchKind::Snapshot, 7, Some(9)).unwrap(), 7);
        assert!(previous(BatchKind::Block, 7, Some(7)).is_err());
        assert!(previous(BatchKind::Block, 0, None).is_err());
    }

    #[test]
    fn documents_are_decompressed_by_their_names() {
        let directory = tempfile::tempdir().unwrap();
        for (name, encoding) in
            [("a.json", Encoding::Identity), ("a.json.zst", Encoding::Zstd), ("a.json.gz", Encoding::Gzip)]
        {
            let path = directory.path().join(name);
            std::fs::write(&path, &content::pack(b"{}", encoding, 1_000).unwrap()[0]).unwrap();
            assert_eq!(document(&path).unwrap(), b"{}", "{name}");
        }
    }
}
