//! Where Pub/Sub is and how to speak to it: Google's service with the credentials of the environment, or a server that
//! is named, such as an emulator.
//!
//! Never: credentials on a connection without TLS; a wait without end for an answer.

mod name;

pub use name::{NameError, SubscriptionName, TopicName};

use google_cloud_auth::credentials::{Credentials, anonymous};
use google_cloud_gax::{client_builder, error::rpc::Code, retry_policy::RetryPolicyExt};
use google_cloud_pubsub::{
    client::{Publisher, Subscriber, SubscriptionAdmin, TopicAdmin},
    model::RetryPolicy,
    retry_policy::RetryableErrors,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::{env, time::Duration};

/// What tells where an emulator is, as `host:port` or as an address with its scheme.
pub const EMULATOR_VARIABLE: &str = "PUBSUB_EMULATOR_HOST";

/// Google's own.
pub const GOOGLE: &str = "https://pubsub.googleapis.com";

/// How long making a topic or a subscription may take; the client by itself tries for a minute when nobody answers.
pub const ENSURE_LIMIT: Duration = Duration::from_secs(10);

/// How long one message is tried; whoever publishes decides what then.
const PUBLISH_LIMIT: Duration = Duration::from_secs(60);

/// A client's builder with the address and its credentials; the builders share no trait.
macro_rules! aimed {
    ($address:expr, $builder:expr) => {{
        let mut builder = $builder;
        if let Some(endpoint) = &$address.endpoint {
            builder = builder.with_endpoint(endpoint.to_string());
        }
        if let Some(credentials) = $address.credentials() {
            builder = builder.with_credentials(credentials);
        }
        builder
    }};
}

/// Where Pub/Sub is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PubSubAddress {
    /// `http://…` or `https://…` without a slash at the end; `None` is Google's.
    endpoint: Option<Box<str>>,
}

/// What is no address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no address of a Pub/Sub server: host:port, http://host:port or https://host is meant")]
pub struct AddressError;

impl PubSubAddress {
    /// That of an emulator if there is one, else the configured one, else Google's. Without a scheme, an emulator's is
    /// `http` and a configured one's `https`.
    ///
    /// # Errors
    /// [`AddressError`] if what is given is none.
    pub fn new(emulator: Option<&str>, configured: Option<&str>) -> Result<Self, AddressError> {
        let given = |text: &&str| !text.trim().is_empty();
        let emulator = emulator.filter(given).map(|text| endpoint(text.trim(), "http"));
        let endpoint = emulator.or_else(|| configured.filter(given).map(|text| endpoint(text.trim(), "https")));
        endpoint.transpose().map(|endpoint| Self { endpoint })
    }

    /// The same, with the emulator that [`EMULATOR_VARIABLE`] names.
    ///
    /// # Errors
    /// [`AddressError`] if what is given is none.
    pub fn from_env(configured: Option<&str>) -> Result<Self, AddressError> {
        let emulator = env::var_os(EMULATOR_VARIABLE).map(|text| text.into_string().map_err(|_| AddressError));
        Self::new(emulator.transpose()?.as_deref(), configured)
    }

    /// The address, with its scheme.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_deref().unwrap_or(GOOGLE)
    }

    /// Whether it is spoken to without TLS, and so without credentials.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.endpoint().starts_with("http://")
    }

    /// `None` for those of the environment.
    fn credentials(&self) -> Option<Credentials> {
        self.is_plain().then(|| anonymous::Builder::new().build())
    }

    /// A client to pull with; it connects when it is first used.
    ///
    /// # Errors
    /// [`ClientError`] if there are no credentials.
    pub async fn subscriber(&self) -> Result<Subscriber, ClientError> {
        install_provider();
        // One connection: what is closed and what is nacked after it come to the server in this order.
        aimed!(self, Subscriber::builder().with_grpc_subchannel_count(1)).build().await.map_err(ClientError)
    }

    /// A client to publish with, each message by itself.
    ///
    /// # Errors
    /// [`ClientError`] if there are no credentials.
    pub async fn publisher(&self, topic: &TopicName) -> Result<Publisher, ClientError> {
        install_provider();
        let builder = Publisher::builder(topic.as_str())
            .set_message_count_threshold(1)
            .with_retry_policy(RetryableErrors.with_time_limit(PUBLISH_LIMIT));
        aimed!(self, builder).build().await.map_err(ClientError)
    }

    /// Makes the topic if it is not there.
    ///
    /// # Errors
    /// [`EnsureError`], after at most [`ENSURE_LIMIT`].
    pub async fn ensure_topic(&self, topic: &TopicName) -> Result<Ensured, EnsureError> {
        within_limit(self.make_topic(topic)).await
    }

    /// Makes the topic and the subscription if they are not there; what is there stays as it is.
    ///
    /// # Errors
    /// [`EnsureError`], after at most [`ENSURE_LIMIT`].
    pub async fn ensure(
        &self,
        topic: &TopicName,
        subscription: &SubscriptionName,
        options: &SubscriptionOptions,
    ) -> Result<Ensured, EnsureError> {
        let made = async {
            let Ensured { topic_made, .. } = self.make_topic(topic).await?;
            let subscription_made = self.make_subscription(topic, subscription, options).await?;
            Ok(Ensured { topic_made, subscription_made })
        };
        within_limit(made).await
    }

    async fn make_topic(&self, topic: &TopicName) -> Result<Ensured, EnsureError> {
        install_provider();
        let admin = aimed!(self, TopicAdmin::builder()).build().await.map_err(ClientError)?;
        let made = made(admin.create_topic().set_name(topic.as_str()).send().await)?;
        Ok(Ensured { topic_made: made, subscription_made: false })
    }

    async fn make_subscription(
        &self,
        topic: &TopicName,
        subscription: &SubscriptionName,
        options: &SubscriptionOptions,
    ) -> Result<bool, EnsureError> {
        let admin = aimed!(self, SubscriptionAdmin::builder()).build().await.map_err(ClientError)?;
        let retry = RetryPolicy::new()
            .set_minimum_backoff(duration(options.retry_min))
            .set_maximum_backoff(duration(options.retry_max));
        let seconds = options.ack_deadline.as_secs().clamp(10, 600);
        let request = admin
            .create_subscription()
            .set_name(subscription.as_str())
            .set_topic(topic.as_str())
            .set_ack_deadline_seconds(i32::try_from(seconds).unwrap_or(600))
            .set_message_retention_duration(duration(options.retention))
            .set_retry_policy(retry);
        made(request.send().await)
    }
}

/// How a subscription is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// How long a message stays leased without a word, 10 to 600 s in whole seconds.
    pub ack_deadline: Duration,
    /// How soon a nacked message comes again the first time.
    pub retry_min: Duration,
    /// How late it comes again at most.
    pub retry_max: Duration,
    /// How long what nobody acknowledges is kept, 10 minutes to 31 days.
    pub retention: Duration,
}

impl Default for SubscriptionOptions {
    fn default() -> Self {
        Self {
            ack_deadline: Duration::from_secs(60),
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
            retention: Duration::from_secs(7 * 24 * 3_600),
        }
    }
}

/// What had to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ensured {
    /// The topic was not there.
    pub topic_made: bool,
    /// The subscription was not there.
    pub subscription_made: bool,
}

/// A client cannot be made: no credentials, or an address that it does not take. A person has to look.
#[derive(Debug, thiserror::Error)]
#[error("the Pub/Sub client cannot be made")]
pub struct ClientError(#[source] client_builder::Error);

/// A topic or a subscription is not there and could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// No client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server refused, or could not be reached.
    #[error("the Pub/Sub server does not make the topic or the subscription")]
    Refused(#[source] Box<google_cloud_pubsub::Error>),
    /// No answer in time.
    #[error("the Pub/Sub server does not answer within {} s", .0.as_secs())]
    Silent(Duration),
}

fn made<T>(answer: google_cloud_pubsub::Result<T>) -> Result<bool, EnsureError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_some_and(|status| status.code == Code::AlreadyExists) => Ok(false),
        Err(error) => Err(EnsureError::Refused(Box::new(error))),
    }
}

async fn within_limit<T>(work: impl Future<Output = Result<T, EnsureError>>) -> Result<T, EnsureError> {
    tokio::time::timeout(ENSURE_LIMIT, work).await.unwrap_or(Err(EnsureError::Silent(ENSURE_LIMIT)))
}

fn duration(duration: Duration) -> google_cloud_wkt::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    google_cloud_wkt::Duration::clamp(seconds, i32::try_from(duration.subsec_nanos()).unwrap_or(0))
}

/// Google's client asks the process for its signature provider, even for an address without TLS. It is the one that all
/// other connections name.
fn install_provider() {
    if CryptoProvider::get_default().is_none() && aws_lc_rs::default_provider().install_default().is_err() {
        tracing::debug!("another thread has just installed the signature provider");
    }
}

fn endpoint(text: &str, scheme: &str) -> Result<Box<str>, AddressError> {
    let (scheme, host) = text.split_once("://").unwrap_or((scheme, text));
    let host = host.strip_suffix('/').unwrap_or(host);
    let uri: hyper::Uri = format!("{scheme}://{host}").parse().map_err(|_| AddressError)?;
    let good = matches!(scheme, "http" | "https")
        && uri.authority().is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
        && uri.authority().is_some_and(|authority| has_port(authority.as_str()))
        && uri.path() == "/"
        && uri.query().is_none();
    if good { Ok(format!("{scheme}://{host}").into()) } else { Err(AddressError) }
}

/// Whether what stands behind the last colon, if one does, is a port; a colon in brackets is of an address.
fn has_port(authority: &str) -> bool {
    let port = authority.rsplit_once(':').filter(|(_, rest)| !rest.contains(']'));
    port.is_none_or(|(_, port)| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(emulator: Option<&str>, configured: Option<&str>) -> Result<(String, bool), AddressError> {
        PubSubAddress::new(emulator, configured).map(|address| (address.endpoint().to_owned(), address.is_plain()))
    }

    #[test]
    fn an_emulator_goes_before_what_is_configured() {
        let told = |endpoint: &str, plain| Ok((endpoint.to_owned(), plain));
        assert_eq!(address(None, None), told(GOOGLE, false));
        assert_eq!(address(Some(""), Some("")), told(GOOGLE, false));
        assert_eq!(address(Some("localhost:8085"), None), told("http://localhost:8085", true));
        assert_eq!(address(Some("http://[::1]:8085/"), Some("x")), told("http://[::1]:8085", true));
        assert!(!address(None, Some("europe-west3-pubsub.googleapis.com")).unwrap().1);
        assert_eq!(address(None, Some("http://127.0.0.1:8085")), told("http://127.0.0.1:8085", true));
        assert_eq!(address(Some("https://emulator.test"), None), told("https://emulator.test", false));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["http://", "ftp://host", "host:port", "http://host/path", "http://user@host", "a b", "http://h?x"]
        {
            assert_eq!(address(Some(text), None), Err(AddressError), "{text}");
            assert_eq!(address(None, Some(text)), Err(AddressError), "{text}");
        }
    }

    /// Credentials never go over a connection that anybody can read.
    #[test]
    fn plain_addresses_get_no_credentials() {
        for (endpoint, plain) in [("http://host:1", true), ("https://host", false)] {
            let address = PubSubAddress::new(None, Some(endpoint)).unwrap();
            assert_eq!(address.credentials().is_some(), plain);
        }
    }

    /// Nothing but credentials is missing here to speak to the service: both kinds of client find TLS and the roots.
    #[tokio::test]
    async fn clients_with_tls_can_be_made() {
        install_provider();
        let credentials = || anonymous::Builder::new().build();
        let subscriber = Subscriber::builder().with_credentials(credentials()).build().await;
        assert!(subscriber.is_ok(), "{:?}", subscriber.err());
        let admin = TopicAdmin::builder().with_credentials(credentials()).build().await;
        assert!(admin.is_ok(), "{:?}", admin.err());
    }
}
