//! Names of topics and subscriptions, as the service spells them.
//!
//! Never: a name that would be part of another address.

use std::{fmt, str::FromStr};

/// Characters of a topic's or subscription's own name, by the service's rules.
const CHARS_MAX: usize = 255;

/// Not a full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("projects/PROJECT/{collection}/NAME is meant")]
pub struct NameError {
    collection: &'static str,
}

/// A topic: `projects/P/topics/T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicName(Box<str>);

/// A subscription: `projects/P/subscriptions/S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionName(Box<str>);

impl TopicName {
    /// The full name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SubscriptionName {
    /// The full name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for TopicName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        full_name(text, "topics").map(Self)
    }
}

impl FromStr for SubscriptionName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        full_name(text, "subscriptions").map(Self)
    }
}

fn full_name(text: &str, collection: &'static str) -> Result<Box<str>, NameError> {
    let mut parts = text.split('/');
    let word = |part: Option<&str>| {
        part.is_some_and(|part| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~+%:".contains(&byte);
            (1..=CHARS_MAX).contains(&part.len()) && part.bytes().all(known)
        })
    };
    let good = parts.next() == Some("projects")
        && word(parts.next())
        && parts.next() == Some(collection)
        && word(parts.next())
        && parts.next().is_none();
    if good { Ok(text.into()) } else { Err(NameError { collection }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_alone_are_names() {
        assert_eq!("projects/p/topics/batches".parse::<TopicName>().unwrap().as_str(), "projects/p/topics/batches");
        assert!("projects/a.com:p/subscriptions/s-1".parse::<SubscriptionName>().is_ok());
        for text in [
            "",
            "t",
            "projects/p/topics",
            "projects/p/topics/",
            "projects//topics/t",
            "projects/p/topics/t/u",
            "projects/p/subscriptions/t",
            "projects/p/topics/a b",
            "projects/p/topics/t?x",
        ] {
            assert!(text.parse::<TopicName>().is_err(), "{text}");
        }
        assert!("projects/p/topics/t".parse::<SubscriptionName>().is_err());
    }
}
