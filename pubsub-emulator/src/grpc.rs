//! The calls of `Publisher` and `Subscriber` over gRPC; the REST half goes through the same methods.
//!
//! Never: a decision about a message; that is `state` and below.

use crate::{
    error::Refusal,
    faults::Method,
    generated::{publisher_server::Publisher, subscriber_server::Subscriber},
    state::Shared,
    stream::{ANSWERS_MAX, PULL_WAIT, Pulling, look_again, received},
    subscription::Want,
    terms::extension,
};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use std::{pin::pin, sync::Arc, time::Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Both services; a handle to what they share.
#[derive(Clone)]
pub(crate) struct Services(pub(crate) Arc<Shared>);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Publisher for Services {
    async fn create_topic(&self, request: Request<pb::Topic>) -> Answer<pb::Topic> {
        self.0.admit(Method::CreateTopic)?;
        Ok(Response::new(self.0.create_topic(request.into_inner())?))
    }

    async fn get_topic(&self, request: Request<pb::GetTopicRequest>) -> Answer<pb::Topic> {
        self.0.admit(Method::GetTopic)?;
        let name = request.into_inner().topic;
        let found = self.0.lock().topics.get(&name).map(|topic| topic.config.clone());
        Ok(Response::new(found.ok_or_else(|| Refusal::not_found(&name))?))
    }

    async fn list_topics(&self, request: Request<pb::ListTopicsRequest>) -> Answer<pb::ListTopicsResponse> {
        self.0.admit(Method::ListTopics)?;
        let prefix = format!("{}/", request.into_inner().project);
        let state = self.0.lock();
        let topics = state.topics.values().map(|topic| &topic.config).filter(|topic| topic.name.starts_with(&prefix));
        let topics = topics.cloned().collect();
        Ok(Response::new(pb::ListTopicsResponse { topics, next_page_token: String::new() }))
    }

    async fn list_topic_subscriptions(
        &self,
        request: Request<pb::ListTopicSubscriptionsRequest>,
    ) -> Answer<pb::ListTopicSubscriptionsResponse> {
        self.0.admit(Method::ListTopicSubscriptions)?;
        let topic = request.into_inner().topic;
        let state = self.0.lock();
        if !state.topics.contains_key(&topic) {
            return Err(Refusal::not_found(&topic).into());
        }
        let all = state.subscriptions.values().map(|subscription| &subscription.config);
        let subscriptions = all.filter(|config| config.topic == topic).map(|config| config.name.clone()).collect();
        Ok(Response::new(pb::ListTopicSubscriptionsResponse { subscriptions, next_page_token: String::new() }))
    }

    async fn delete_topic(&self, request: Request<pb::DeleteTopicRequest>) -> Answer<()> {
        self.0.admit(Method::DeleteTopic)?;
        Ok(Response::new(self.0.delete_topic(&request.into_inner().topic)?))
    }

    async fn publish(&self, request: Request<pb::PublishRequest>) -> Answer<pb::PublishResponse> {
        self.0.admit(Method::Publish)?;
        let request = request.into_inner();
        let message_ids = self.0.publish(&request.topic, request.messages)?;
        Ok(Response::new(pb::PublishResponse { message_ids }))
    }
}

#[tonic::async_trait]
impl Subscriber for Services {
    async fn create_subscription(&self, request: Request<pb::Subscription>) -> Answer<pb::Subscription> {
        self.0.admit(Method::CreateSubscription)?;
        Ok(Response::new(self.0.create_subscription(request.into_inner())?))
    }

    async fn get_subscription(&self, request: Request<pb::GetSubscriptionRequest>) -> Answer<pb::Subscription> {
        self.0.admit(Method::GetSubscription)?;
        let name = request.into_inner().subscription;
        let found = self.0.lock().subscriptions.get(&name).map(|subscription| subscription.config.clone());
        Ok(Response::new(found.ok_or_else(|| Refusal::not_found(&name))?))
    }

    async fn list_subscriptions(
        &self,
        request: Request<pb::ListSubscriptionsRequest>,
    ) -> Answer<pb::ListSubscriptionsResponse> {
        self.0.admit(Method::ListSubscriptions)?;
        let prefix = format!("{}/", request.into_inner().project);
        let state = self.0.lock();
        let all = state.subscriptions.values().map(|subscription| &subscription.config);
        let subscriptions = all.filter(|config| config.name.starts_with(&prefix)).cloned().collect();
        Ok(Response::new(pb::ListSubscriptionsResponse { subscriptions, next_page_token: String::new() }))
    }

    async fn delete_subscription(&self, request: Request<pb::DeleteSubscriptionRequest>) -> Answer<()> {
        self.0.admit(Method::DeleteSubscription)?;
        Ok(Response::new(self.0.delete_subscription(&request.into_inner().subscription)?))
    }

    async fn modify_ack_deadline(&self, request: Request<pb::ModifyAckDeadlineRequest>) -> Answer<()> {
        self.0.admit(Method::ModifyAckDeadline)?;
        let request = request.into_inner();
        let from_now = extension(request.ack_deadline_seconds)?;
        let stale = self.0.modify(&request.subscription, &request.ack_ids, from_now)?;
        self.confirm(&request.subscription, stale)
    }

    async fn acknowledge(&self, request: Request<pb::AcknowledgeRequest>) -> Answer<()> {
        self.0.admit(Method::Acknowledge)?;
        let request = request.into_inner();
        let stale = self.0.acknowledge(&request.subscription, &request.ack_ids)?;
        self.confirm(&request.subscription, stale)
    }

    async fn pull(&self, request: Request<pb::PullRequest>) -> Answer<pb::PullResponse> {
        self.0.admit(Method::Pull)?;
        let request = request.into_inner();
        let Some(answer_max) = usize::try_from(request.max_messages).ok().filter(|&max| max > 0) else {
            let value = request.max_messages.into();
            let refusal = Refusal::OutOfRange { field: "max_messages", value, lowest: 1, highest: i32::MAX.into() };
            return Err(refusal.into());
        };
        let (lease, changed) = self.0.own_lease(&request.subscription)?;
        let want = Want { stream: None, lease, messages_max: None, bytes_max: None, answer_max };
        let end = Instant::now() + PULL_WAIT;
        loop {
            let mut woken = pin!(changed.notified());
            woken.as_mut().enable();
            let (handed, again) = self.0.hand_out(&request.subscription, &want)?;
            if !handed.is_empty() || Instant::now() >= end {
                let received_messages = handed.into_iter().map(received).collect();
                return Ok(Response::new(pb::PullResponse { received_messages }));
            }
            let until = again.map_or(end, |again| again.min(end));
            tokio::select! {
                () = woken => {}
                () = look_again(Some(until)) => {}
            }
        }
    }

    type StreamingPullStream = ReceiverStream<Result<pb::StreamingPullResponse, Status>>;

    async fn streaming_pull(
        &self,
        request: Request<Streaming<pb::StreamingPullRequest>>,
    ) -> Answer<Self::StreamingPullStream> {
        self.0.admit(Method::StreamingPull)?;
        let mut requests = request.into_inner();
        let first = requests.message().await?.ok_or(Refusal::Unreadable { field: "subscription" })?;
        let pulling = Pulling::open(&self.0, &first)?;
        let (answers, stream) = mpsc::channel(ANSWERS_MAX);
        tokio::spawn(pulling.run(requests, answers));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl Services {
    /// Where a subscription is exactly-once, a stale ack id is an error, so that the reader knows that its ack failed.
    fn confirm(&self, name: &str, stale: Vec<String>) -> Answer<()> {
        let state = self.0.lock();
        let exact = state.subscriptions.get(name).is_some_and(|found| found.config.enable_exactly_once_delivery);
        if exact && !stale.is_empty() {
            return Err(Refusal::Stale { ack_ids: stale }.into());
        }
        Ok(Response::new(()))
    }
}
