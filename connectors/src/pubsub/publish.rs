//! Batches are published: each compressed once, cut into messages, and sent with few of them in flight.
//!
//! Never: a message over the service's limit on its way; more in flight than the bounds.

use super::{
    content::{self, ContentError},
    header::{BatchHeader, CONTENT_BYTES_MAX, MESSAGE_BYTES_MAX},
};
use bytes::Bytes;
use futures_util::future::try_join_all;
use google_cloud_pubsub::{client::Publisher, model::Message};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What may be on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishBounds {
    /// Messages, at least one.
    pub messages: u32,
    /// Bytes of data and attributes; a single message always goes.
    pub bytes: u32,
}

impl Default for PublishBounds {
    /// Four messages keep a connection busy; their copies are what memory is spent on.
    fn default() -> Self {
        Self { messages: 4, bytes: 40_000_000 }
    }
}

/// A batch could not be published, or not all of it: publish it again, its messages are the same.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// It cannot be packed.
    #[error("the batch cannot be packed")]
    Content(#[from] ContentError),
    /// Larger than a message may be.
    #[error("a message of {bytes} bytes, of at most {MESSAGE_BYTES_MAX}")]
    MessageTooLarge {
        /// Data and attributes.
        bytes: usize,
    },
    /// The server refused it, or did not answer for too long.
    #[error("the Pub/Sub server did not take the message")]
    Refused(#[source] google_cloud_pubsub::error::PublishError),
    /// The process ends.
    #[error("the process ends")]
    Ended,
}

/// A batch that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The server's names of its messages, in the order of the parts.
    pub message_ids: Vec<Box<str>>,
    /// Bytes of data that were sent.
    pub bytes: usize,
}

/// Publishes to one topic, within bounds.
#[derive(Debug)]
pub struct Publishing {
    publisher: Publisher,
    bounds: PublishBounds,
    messages: Semaphore,
    bytes: Semaphore,
}

impl Publishing {
    /// Publishes by a client, within bounds.
    #[must_use]
    pub fn new(publisher: Publisher, bounds: PublishBounds) -> Self {
        let bounds = PublishBounds { messages: bounds.messages.max(1), bytes: bounds.bytes.max(1) };
        let permits = |bound: u32| Semaphore::new(usize::try_from(bound).unwrap_or(Semaphore::MAX_PERMITS));
        Self { publisher, bounds, messages: permits(bounds.messages), bytes: permits(bounds.bytes) }
    }

    /// Publishes one message and waits until the server has it; gives the server's name of it.
    ///
    /// # Errors
    /// [`PublishError`], but for its contents.
    pub async fn message(&self, attributes: Vec<(String, String)>, data: Bytes) -> Result<Box<str>, PublishError> {
        let bytes = data.len() + attributes_bytes(&attributes);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(PublishError::MessageTooLarge { bytes });
        }
        let _room = self.room(bytes).await?;
        let message = Message::new().set_data(data).set_attributes(attributes);
        let id = self.publisher.publish(message).await.map_err(PublishError::Refused)?;
        Ok(id.into())
    }

    async fn room(&self, bytes: usize) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), PublishError> {
        let message = self.messages.acquire().await.map_err(|_| PublishError::Ended)?;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bounds.bytes);
        Ok((message, self.bytes.acquire_many(bytes).await.map_err(|_| PublishError::Ended)?))
    }
}

/// Publishes a batch and waits until the server has all of it. The header's id must be the content's
/// ([`content::batch_id`]); its part and parts are set here.
///
/// # Errors
/// [`PublishError`]; then some of its parts may be there.
pub async fn publish_batch(
    publishing: &Publishing,
    header: &BatchHeader,
    content: Bytes,
) -> Result<Published, PublishError> {
    if content.len() > CONTENT_BYTES_MAX {
        return Err(ContentError::TooLarge { max: CONTENT_BYTES_MAX }.into());
    }
    // The longest that the attributes can be.
    let longest = BatchHeader { part: 10, parts: 11, ..header.clone() };
    let room = MESSAGE_BYTES_MAX.saturating_sub(attributes_bytes(&longest.attributes()));
    let encoding = header.encoding;
    let packed = tokio::task::spawn_blocking(move || content::pack(&content, encoding, room)).await;
    let packed = packed.map_err(|_| PublishError::Ended)??;
    let bytes = packed.iter().map(Bytes::len).sum();
    // At most 64, by the packing.
    let parts = u32::try_from(packed.len()).unwrap_or(u32::MAX);
    let sent = (0..).zip(packed).map(|(part, data)| {
        let header = BatchHeader { part, parts, ..header.clone() };
        publishing.message(header.attributes(), data)
    });
    Ok(Published { message_ids: try_join_all(sent).await?, bytes })
}

fn attributes_bytes(attributes: &[(String, String)]) -> usize {
    // Each with the few bytes that its lengths take.
    attributes.iter().map(|(name, value)| name.len() + value.len() + 16).sum()
}
