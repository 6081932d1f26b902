//! Makes the servers' traits of `Publisher` and `Subscriber` from the names of their calls: no `.proto`, no `protoc`. The
//! messages are those of `googleapis-tonic-google-pubsub-v1`, which has no servers.
//!
//! Never: a call that the emulator does not answer; tonic answers those with UNIMPLEMENTED.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

const MESSAGES: &str = "googleapis_tonic_google_pubsub_v1::google::pubsub::v1";

/// `google.protobuf.Empty` is `()` in prost; the generator wants a path.
const EMPTY: &str = "crate::generated::Empty";

fn message(name: &str) -> String {
    if name.is_empty() { EMPTY.to_owned() } else { format!("{MESSAGES}::{name}") }
}

fn method(name: &str, route: &str, input: &str, output: &str) -> MethodBuilder {
    let named = Method::builder().name(name).route_name(route).codec_path("tonic_prost::ProstCodec");
    named.input_type(message(input)).output_type(message(output))
}

fn main() {
    let publisher = [
        ("create_topic", "CreateTopic", "Topic", "Topic"),
        ("get_topic", "GetTopic", "GetTopicRequest", "Topic"),
        ("list_topics", "ListTopics", "ListTopicsRequest", "ListTopicsResponse"),
        (
            "list_topic_subscriptions",
            "ListTopicSubscriptions",
            "ListTopicSubscriptionsRequest",
            "ListTopicSubscriptionsResponse",
        ),
        ("delete_topic", "DeleteTopic", "DeleteTopicRequest", ""),
        ("publish", "Publish", "PublishRequest", "PublishResponse"),
    ];
    let subscriber = [
        ("create_subscription", "CreateSubscription", "Subscription", "Subscription"),
        ("get_subscription", "GetSubscription", "GetSubscriptionRequest", "Subscription"),
        ("list_subscriptions", "ListSubscriptions", "ListSubscriptionsRequest", "ListSubscriptionsResponse"),
        ("delete_subscription", "DeleteSubscription", "DeleteSubscriptionRequest", ""),
        ("modify_ack_deadline", "ModifyAckDeadline", "ModifyAckDeadlineRequest", ""),
        ("acknowledge", "Acknowledge", "AcknowledgeRequest", ""),
        ("pull", "Pull", "PullRequest", "PullResponse"),
    ];
    let mut publishers = Service::builder().name("Publisher").package("google.pubsub.v1");
    for (name, route, input, output) in publisher {
        publishers = publishers.method(method(name, route, input, output).build());
    }
    let mut subscribers = Service::builder().name("Subscriber").package("google.pubsub.v1");
    for (name, route, input, output) in subscriber {
        subscribers = subscribers.method(method(name, route, input, output).build());
    }
    let streaming = method("streaming_pull", "StreamingPull", "StreamingPullRequest", "StreamingPullResponse");
    subscribers = subscribers.method(streaming.client_streaming().server_streaming().build());
    Builder::new().build_client(false).compile(&[publishers.build(), subscribers.build()]);
}
