//! The REST half of the protocol: topics and subscriptions as JSON over HTTP/1.1, which is how the official Rust library
//! administers them, on the same port as gRPC.
//!
//! Never: messages; those go over gRPC alone.

use crate::{
    control,
    error::{Refusal, code_texts},
    generated::{publisher_server::Publisher, subscriber_server::Subscriber},
    grpc::Services,
};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{Method, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tonic::{Request, Status};

/// Everything over HTTP/1.1: the administration, and the emulator's own paths for faults.
pub(crate) fn router(services: Services, control: control::Control) -> Router {
    let own = Router::new()
        .route("/faults", get(control::report))
        .route("/backlog", get(control::backlog))
        .route("/fault/{fault}", post(control::arm))
        .with_state(control);
    own.fallback_service(Router::new().fallback(administer).with_state(services))
}

async fn administer(State(services): State<Services>, method: Method, uri: Uri, body: Bytes) -> Response {
    match call(&services, &method, uri.path(), &body).await {
        Ok(answer) => answered(StatusCode::OK, &answer),
        Err(status) => {
            let (name, http) = code_texts(status.code());
            let error = json!({"error": {"code": http, "message": status.message(), "status": name}});
            answered(StatusCode::from_u16(http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &error)
        }
    }
}

/// An answer in JSON.
pub(crate) fn answered(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn call(services: &Services, method: &Method, path: &str, body: &[u8]) -> Result<Value, Status> {
    let unknown = || Status::from(Refusal::Unimplemented { what: "this method of this path" });
    let name = path.strip_prefix("/v1/").ok_or_else(unknown)?;
    let parts: Vec<_> = name.split('/').collect();
    let name = name.to_owned();
    match (method.as_str(), parts.as_slice()) {
        ("PUT", ["projects", _, "topics", _]) => {
            let TopicJson { labels, .. } = read(body)?;
            let topic = pb::Topic { name, labels: labels.into_iter().collect(), ..pb::Topic::default() };
            services.create_topic(Request::new(topic)).await.map(|topic| topic_json(topic.get_ref()))
        }
        ("GET", ["projects", _, "topics", _]) => {
            let request = Request::new(pb::GetTopicRequest { topic: name });
            services.get_topic(request).await.map(|topic| topic_json(topic.get_ref()))
        }
        ("DELETE", ["projects", _, "topics", _]) => {
            let request = Request::new(pb::DeleteTopicRequest { topic: name });
            services.delete_topic(request).await.map(|_| json!({}))
        }
        ("PUT", ["projects", _, "subscriptions", _]) => {
            let config = read::<SubscriptionJson>(body)?.config(name)?;
            services.create_subscription(Request::new(config)).await.map(|config| subscription_json(config.get_ref()))
        }
        ("GET", ["projects", _, "subscriptions", _]) => {
            let request = Request::new(pb::GetSubscriptionRequest { subscription: name });
            services.get_subscription(request).await.map(|config| subscription_json(config.get_ref()))
        }
        ("DELETE", ["projects", _, "subscriptions", _]) => {
            let request = Request::new(pb::DeleteSubscriptionRequest { subscription: name });
            services.delete_subscription(request).await.map(|_| json!({}))
        }
        ("GET", ["projects", project, "topics"]) => {
            let project = format!("projects/{project}");
            let request = Request::new(pb::ListTopicsRequest { project, ..Default::default() });
            let listed = services.list_topics(request).await?.into_inner();
            Ok(json!({"topics": listed.topics.iter().map(topic_json).collect::<Vec<_>>()}))
        }
        ("GET", ["projects", project, "subscriptions"]) => {
            let project = format!("projects/{project}");
            let request = Request::new(pb::ListSubscriptionsRequest { project, ..Default::default() });
            let listed = services.list_subscriptions(request).await?.into_inner();
            Ok(json!({"subscriptions": listed.subscriptions.iter().map(subscription_json).collect::<Vec<_>>()}))
        }
        ("GET", ["projects", project, "topics", topic, "subscriptions"]) => {
            let topic = format!("projects/{project}/topics/{topic}");
            let request = Request::new(pb::ListTopicSubscriptionsRequest { topic, ..Default::default() });
            let listed = services.list_topic_subscriptions(request).await?.into_inner();
            Ok(json!({"subscriptions": listed.subscriptions}))
        }
        _ => Err(unknown()),
    }
}

/// A body; none at all is an empty object.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|_| Refusal::Unreadable { field: "the body" })
}

type Labels = std::collections::BTreeMap<String, String>;

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct TopicJson {
    name: String,
    labels: Labels,
}

/// What the emulator knows of a subscription. What it would have to refuse is read too, and refused.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct SubscriptionJson {
    name: String,
    topic: String,
    ack_deadline_seconds: i32,
    enable_message_ordering: bool,
    enable_exactly_once_delivery: bool,
    labels: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter_policy: Option<DeadLetterJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_policy: Option<RetryJson>,
    #[serde(skip_serializing)]
    filter: String,
    #[serde(skip_serializing)]
    push_config: PushJson,
    #[serde(skip_serializing)]
    bigquery_config: Option<Value>,
    #[serde(skip_serializing)]
    cloud_storage_config: Option<Value>,
    #[serde(skip_serializing)]
    message_transforms: Vec<Value>,
    state: i32,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct DeadLetterJson {
    dead_letter_topic: String,
    max_delivery_attempts: i32,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct RetryJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_backoff: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum_backoff: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PushJson {
    push_endpoint: String,
}

impl SubscriptionJson {
    fn config(self, name: String) -> Result<pb::Subscription, Refusal> {
        let duration = |field, text: Option<String>| match text {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| Refusal::Unreadable { field }),
        };
        let retry_policy = match self.retry_policy {
            None => None,
            Some(policy) => Some(pb::RetryPolicy {
                minimum_backoff: duration("minimum_backoff", policy.minimum_backoff)?,
                maximum_backoff: duration("maximum_backoff", policy.maximum_backoff)?,
            }),
        };
        let dead_letter_policy = self.dead_letter_policy.map(|policy| pb::DeadLetterPolicy {
            dead_letter_topic: policy.dead_letter_topic,
            max_delivery_attempts: policy.max_delivery_attempts,
        });
        if !self.message_transforms.is_empty() {
            return Err(Refusal::Unimplemented { what: "message transforms" });
        }
        Ok(pb::Subscription {
            name,
            topic: self.topic,
            ack_deadline_seconds: self.ack_deadline_seconds,
            enable_message_ordering: self.enable_message_ordering,
            enable_exactly_once_delivery: self.enable_exactly_once_delivery,
            labels: self.labels.into_iter().collect(),
            dead_letter_policy,
            retry_policy,
            filter: self.filter,
            push_config: Some(pb::PushConfig { push_endpoint: self.push_config.push_endpoint, ..Default::default() }),
            bigquery_config: self.bigquery_config.map(|_| pb::BigQueryConfig::default()),
            cloud_storage_config: self.cloud_storage_config.map(|_| pb::CloudStorageConfig::default()),
            ..pb::Subscription::default()
        })
    }
}

fn topic_json(topic: &pb::Topic) -> Value {
    json!({"name": topic.name, "labels": topic.labels})
}

fn subscription_json(config: &pb::Subscription) -> Value {
    let duration = |duration: Option<prost_types::Duration>| duration.map(|duration| duration.to_string());
    let shown = SubscriptionJson {
        name: config.name.clone(),
        topic: config.topic.clone(),
        ack_deadline_seconds: config.ack_deadline_seconds,
        enable_message_ordering: config.enable_message_ordering,
        enable_exactly_once_delivery: config.enable_exactly_once_delivery,
        labels: config.labels.clone().into_iter().collect(),
        dead_letter_policy: config.dead_letter_policy.as_ref().map(|policy| DeadLetterJson {
            dead_letter_topic: policy.dead_letter_topic.clone(),
            max_delivery_attempts: policy.max_delivery_attempts,
        }),
        retry_policy: config.retry_policy.as_ref().map(|policy| RetryJson {
            minimum_backoff: duration(policy.minimum_backoff),
            maximum_backoff: duration(policy.maximum_backoff),
        }),
        state: config.state,
        ..SubscriptionJson::default()
    };
    json!(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_survives_json() {
        let text = r#"{"topic":"projects/p/topics/t","ackDeadlineSeconds":60,"enableMessageOrdering":true,
            "deadLetterPolicy":{"deadLetterTopic":"projects/p/topics/d","maxDeliveryAttempts":7},
            "retryPolicy":{"minimumBackoff":"0.250s","maximumBackoff":"600s"},"unknown":1}"#;
        let config =
            read::<SubscriptionJson>(text.as_bytes()).unwrap().config("projects/p/subscriptions/s".into()).unwrap();
        let policy = config.retry_policy.unwrap();
        assert_eq!(policy.minimum_backoff, Some(prost_types::Duration { seconds: 0, nanos: 250_000_000 }));
        let shown = subscription_json(&config);
        assert_eq!(shown["deadLetterPolicy"]["maxDeliveryAttempts"], 7);
        assert_eq!(shown["retryPolicy"]["minimumBackoff"], "0.250s");
        assert_eq!(shown["ackDeadlineSeconds"], 60);
        let again = read::<SubscriptionJson>(shown.to_string().as_bytes()).unwrap();
        assert_eq!(again.config(config.name.clone()).unwrap(), config);
    }

    #[test]
    fn a_body_that_cannot_be_read_is_named() {
        assert!(read::<TopicJson>(b"").is_ok());
        assert_eq!(read::<TopicJson>(b"[").err(), Some(Refusal::Unreadable { field: "the body" }));
        let wrong = SubscriptionJson {
            retry_policy: Some(RetryJson { minimum_backoff: Some("soon".into()), maximum_backoff: None }),
            ..SubscriptionJson::default()
        };
        assert_eq!(wrong.config(String::new()), Err(Refusal::Unreadable { field: "minimum_backoff" }));
    }
}
