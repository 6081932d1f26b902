//! Text that is used and not shown.
//!
//! Never: its content in a log line, an error or `config print`.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, IgnoredAny},
};
use std::fmt;

/// What stands for a secret wherever one would be shown.
pub const MASK: &str = "***";

/// A password. Shown as `***`, or as nothing where it is empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// The text itself, for the one who must send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn shown(&self) -> &'static str {
        if self.0.is_empty() { "" } else { MASK }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.shown())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.shown())
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// A value of another type is refused without being repeated.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Text(Box<str>),
            Other(IgnoredAny),
        }
        match Given::deserialize(input)? {
            Given::Text(text) => Ok(Self(text)),
            Given::Other(IgnoredAny) => Err(D::Error::custom("a password is text, between quotes")),
        }
    }
}
