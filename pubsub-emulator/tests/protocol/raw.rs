//! The protocol's calls without a library's retries and leases.
//!
//! Never: an assertion.

use crate::LONG;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    AcknowledgeRequest, ModifyAckDeadlineRequest, PublishRequest, PubsubMessage, ReceivedMessage, StreamingPullRequest,
    StreamingPullResponse, Subscription, Topic, publisher_client::PublisherClient, subscriber_client::SubscriberClient,
};
use pubsub_emulator::Emulator;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};

pub(crate) const TOPIC: &str = "projects/p/topics/batches";
pub(crate) const SUBSCRIPTION: &str = "projects/p/subscriptions/batches";

/// An emulator with one topic and one subscription, and a connection to it.
pub(crate) struct Raw {
    pub(crate) emulator: Emulator,
    pub(crate) publisher: PublisherClient<Channel>,
    pub(crate) subscriber: SubscriberClient<Channel>,
}

/// An open stream.
pub(crate) struct Pulled {
    pub(crate) requests: mpsc::Sender<StreamingPullRequest>,
    answers: Streaming<StreamingPullResponse>,
    waiting: std::collections::VecDeque<ReceivedMessage>,
}

impl Raw {
    pub(crate) async fn new() -> Self {
        Self::with(Emulator::start(([127, 0, 0, 1], 0).into()).unwrap(), |_| {}).await
    }

    pub(crate) async fn with(emulator: Emulator, change: impl FnOnce(&mut Subscription)) -> Self {
        let channel = Channel::from_shared(emulator.endpoint()).unwrap().connect().await.unwrap();
        let mut publisher = PublisherClient::new(channel.clone());
        let mut subscriber = SubscriberClient::new(channel).max_decoding_message_size(usize::MAX);
        publisher.create_topic(Topic { name: TOPIC.into(), ..Topic::default() }).await.unwrap();
        let mut subscription =
            Subscription { name: SUBSCRIPTION.into(), topic: TOPIC.into(), ..Subscription::default() };
        change(&mut subscription);
        subscriber.create_subscription(subscription).await.unwrap();
        Self { emulator, publisher, subscriber }
    }

    /// Publishes in one request; the ids.
    pub(crate) async fn publish(&mut self, messages: Vec<PubsubMessage>) -> Result<Vec<String>, Status> {
        let request = PublishRequest { topic: TOPIC.into(), messages };
        Ok(self.publisher.publish(request).await?.into_inner().message_ids)
    }

    pub(crate) async fn publish_texts(&mut self, texts: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
        self.publish(texts.into_iter().map(|text| message(text.to_string())).collect()).await.unwrap()
    }

    pub(crate) async fn pull(&self, request: StreamingPullRequest) -> Result<Pulled, Status> {
        let (requests, received) = mpsc::channel(16);
        requests.send(request).await.unwrap();
        let answers = self.subscriber.clone().streaming_pull(ReceiverStream::new(received)).await?.into_inner();
        Ok(Pulled { requests, answers, waiting: std::collections::VecDeque::new() })
    }

    pub(crate) async fn ack(&mut self, ids: &[&str]) -> Result<(), Status> {
        let ack_ids = ids.iter().map(ToString::to_string).collect();
        let request = AcknowledgeRequest { subscription: SUBSCRIPTION.into(), ack_ids };
        self.subscriber.acknowledge(request).await.map(|_| ())
    }

    pub(crate) async fn modify(&mut self, ids: &[&str], seconds: i32) -> Result<(), Status> {
        let ack_ids = ids.iter().map(ToString::to_string).collect();
        let subscription = SUBSCRIPTION.into();
        let request = ModifyAckDeadlineRequest { subscription, ack_ids, ack_deadline_seconds: seconds };
        self.subscriber.modify_ack_deadline(request).await.map(|_| ())
    }

    /// A request over HTTP/1.1; status and body.
    pub(crate) async fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(self.emulator.address()).await.unwrap();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(LONG, socket.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Pulled {
    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<ReceivedMessage, Status> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(message);
            }
            let answer = timeout(LONG, self.answers.message()).await.expect("a message in time")?;
            self.waiting.extend(answer.expect("an open stream").received_messages);
        }
    }

    /// The next messages' data as text.
    pub(crate) async fn texts(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        while texts.len() < count {
            texts.push(text(&self.next().await.unwrap()));
        }
        texts
    }

    /// Whether nothing comes for a while, not even an end.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        self.waiting.is_empty() && timeout(crate::QUIET, self.answers.message()).await.is_err()
    }
}

pub(crate) fn message(data: impl Into<Vec<u8>>) -> PubsubMessage {
    PubsubMessage { data: data.into().into(), ..PubsubMessage::default() }
}

pub(crate) fn text(received: &ReceivedMessage) -> String {
    String::from_utf8(received.message.as_ref().unwrap().data.to_vec()).unwrap()
}

/// The first request of a stream without flow control, its leases as short as they can be.
pub(crate) fn first() -> StreamingPullRequest {
    let subscription = SUBSCRIPTION.into();
    StreamingPullRequest { subscription, stream_ack_deadline_seconds: 10, ..StreamingPullRequest::default() }
}
