//! Batches of every size that a message must or cannot have.
//!
//! Never: a batch that comes out otherwise than it went in.

use crate::bench::{Bench, message, options};
use bytes::Bytes;
use connectors::pubsub::{
    client::SubscriptionOptions,
    content::{self, ContentError},
    header::{BatchHeader, CONTENT_BYTES_MAX, Encoding, MESSAGE_BYTES_MAX},
    parts::{Parts, PartsOffer},
    publish::{PublishError, publish_batch},
    pull::Pull,
};
use market::batch::BatchKind;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Text that compresses to half.
fn content(bytes: usize) -> Bytes {
    let mut random = ChaCha8Rng::seed_from_u64(u64::try_from(bytes).unwrap());
    let digits: Vec<u8> = (0..bytes).map(|_| b"0123456789abcdef"[random.random_range(0..16)]).collect();
    digits.into()
}

fn header(content: &Bytes, height: u64, encoding: Encoding) -> BatchHeader {
    BatchHeader {
        stream: "neutron-1".into(),
        kind: BatchKind::Block,
        height,
        previous: height - 1,
        id: content::batch_id(content),
        encoding,
        block_time_ns: 1_682_942_418_345_000_000,
        part: 0,
        parts: 1,
    }
}

/// The next batch; its messages are acknowledged.
async fn batch(pull: &mut Pull, parts: &mut Parts<connectors::pubsub::pull::Lease>) -> (BatchHeader, Vec<u8>) {
    loop {
        let pulled = message(pull).await;
        let header = BatchHeader::parse(|name| pulled.attributes.get(name).map(String::as_str)).unwrap();
        match parts.offer(&header, pulled.data, pulled.lease) {
            PartsOffer::Waiting => {}
            PartsOffer::Complete { data, messages } => {
                let content = content::open(&header, &data, CONTENT_BYTES_MAX).unwrap();
                messages.into_iter().for_each(connectors::pubsub::pull::Lease::ack);
                return (header, content);
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn there_and_back(encoding: Encoding, sizes: &[(usize, usize)]) {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    let mut pull = bench.pull(options());
    let mut parts = Parts::new(100 << 20);
    for ((bytes, expected), height) in sizes.iter().zip(1..) {
        let content = content(*bytes);
        let sent = header(&content, height, encoding);
        let published = publish_batch(&bench.publishing, &sent, content.clone()).await.unwrap();
        assert_eq!(published.message_ids.len(), *expected, "{bytes} bytes, {}", encoding.name());
        let (got, whole) = batch(&mut pull, &mut parts).await;
        assert_eq!(got.name(), sent.name());
        assert_eq!(got.block_time_ns, sent.block_time_ns);
        assert!(whole == content, "{bytes} bytes differ");
    }
    bench.drained().await;
    pull.shutdown().await;
}

const MESSAGE_OF_MANY_SERVERS: usize = (4 << 20) + 1;

#[tokio::test]
async fn plain_batches_go_in_as_many_parts_as_they_need() {
    let sizes = [(1, 1), (MESSAGE_OF_MANY_SERVERS, 1), (9_400_000, 1), (10_000_000, 2), (25_000_000, 3)];
    there_and_back(Encoding::Identity, &sizes).await;
}

#[tokio::test]
async fn zstd_batches_go_in_as_many_parts_as_they_need() {
    let sizes = [(1, 1), (MESSAGE_OF_MANY_SERVERS, 1), (9_400_000, 1), (10_000_000, 1), (25_000_000, 2)];
    there_and_back(Encoding::Zstd, &sizes).await;
}

#[tokio::test]
async fn gzip_batches_go_in_as_many_parts_as_they_need() {
    there_and_back(Encoding::Gzip, &[(1, 1), (10_000_000, 1), (25_000_000, 2)]).await;
}

/// The last byte that fits, attributes included, and what does not fit is never sent.
#[tokio::test]
async fn nothing_over_the_limit_is_sent() {
    let bench = Bench::new(&SubscriptionOptions::default()).await;
    let message = |bytes| bench.publishing.message(Vec::new(), Bytes::from(vec![0; bytes]));
    assert!(message(MESSAGE_BYTES_MAX).await.is_ok());
    let refused = message(MESSAGE_BYTES_MAX + 1).await;
    assert!(matches!(refused, Err(PublishError::MessageTooLarge { bytes }) if bytes == MESSAGE_BYTES_MAX + 1));
    let huge = Bytes::from(vec![0; CONTENT_BYTES_MAX + 1]);
    let refused = publish_batch(&bench.publishing, &header(&huge, 1, Encoding::Zstd), huge).await;
    assert!(matches!(refused, Err(PublishError::Content(ContentError::TooLarge { max: CONTENT_BYTES_MAX }))));
    assert_eq!(bench.emulator.published(crate::bench::TOPIC), Some(1));
}
