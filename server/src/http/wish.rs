//! What a request for books asks: the part of the address behind the `?`.
//!
//! Never: a word passed over that nobody understands; a reader would take the answer for what he asked.

use super::reads::WAIT_MAX;
use market::Version;
use std::time::Duration;

/// Where a book comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
    /// As it is shown.
    #[default]
    Memory,
    /// As it is stored.
    Store,
}

impl Source {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Store => "store",
        }
    }
}

/// A version that a reader has; of a pair it names its instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) instrument: Option<Box<str>>,
    pub(super) version: Version,
}

/// All that can be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// The best levels of each side only.
    pub(super) depth: Option<usize>,
    pub(super) source: Source,
    pub(super) since: Vec<Since>,
    /// How long to wait for a change.
    pub(super) wait: Option<Duration>,
}

/// A request that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WishError {
    #[error("unknown parameter {name:?}; there are depth, source, since and wait_ms")]
    Unknown { name: Box<str> },
    #[error("{name} is given twice")]
    Twice { name: &'static str },
    #[error("depth={text:?} is no number of levels")]
    Depth { text: Box<str> },
    #[error("source={text:?} is neither memory nor store")]
    Source { text: Box<str> },
    #[error("since={text:?} is no version, which is EPOCH:SEQ or EPOCH.SEQ")]
    Since { text: Box<str> },
    #[error("wait_ms={text:?} is no number of milliseconds up to {}", WAIT_MAX.as_millis())]
    Wait { text: Box<str> },
    #[error("{name} has no meaning here")]
    Meaningless { name: &'static str },
    #[error("since is missing; begin with a book, and give its version")]
    NoSince,
}

fn version(text: &str) -> Option<Version> {
    let (epoch, seq) = text.split_once([':', '.'])?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (plain(epoch) && plain(seq)).then_some(Version::new(epoch.parse().ok()?, seq.parse().ok()?))
}

fn once<T>(place: &mut Option<T>, name: &'static str, value: T) -> Result<(), WishError> {
    if place.replace(value).is_some() { Err(WishError::Twice { name }) } else { Ok(()) }
}

impl Wish {
    /// Reads the parameters.
    pub(super) fn of(parameters: &[(String, String)]) -> Result<Self, WishError> {
        let mut wish = Self::default();
        let mut source = None;
        for (name, value) in parameters {
            let text = || value.as_str().into();
            match name.as_str() {
                "depth" => {
                    let depth = value.parse().map_err(|_| WishError::Depth { text: text() })?;
                    once(&mut wish.depth, "depth", depth)?;
                }
                "source" => {
                    let named = [Source::Memory, Source::Store].into_iter().find(|source| source.name() == value);
                    once(&mut source, "source", named.ok_or_else(|| WishError::Source { text: text() })?)?;
                }
                "since" => {
                    // A symbol may hold an @, a version does not.
                    let (instrument, told) = match value.rsplit_once('@') {
                        Some((instrument, told)) => (Some(instrument.into()), told),
                        None => (None, value.as_str()),
                    };
                    let version = version(told).ok_or_else(|| WishError::Since { text: text() })?;
                    wish.since.push(Since { instrument, version });
                }
                "wait_ms" => {
                    let wait = value.parse().ok().map(Duration::from_millis).filter(|wait| *wait <= WAIT_MAX);
                    once(&mut wish.wait, "wait_ms", wait.ok_or_else(|| WishError::Wait { text: text() })?)?;
                }
                _ => return Err(WishError::Unknown { name: name.as_str().into() }),
            }
        }
        wish.source = source.unwrap_or_default();
        Ok(wish)
    }

    /// The same, if nothing of it is for changes alone.
    pub(super) fn of_book(self) -> Result<Self, WishError> {
        match (self.since.is_empty(), self.wait) {
            (false, _) => Err(WishError::Meaningless { name: "since" }),
            (true, Some(_)) => Err(WishError::Meaningless { name: "wait_ms" }),
            (true, None) => Ok(self),
        }
    }

    /// The version of the one instrument that is asked for.
    pub(super) fn of_changes(&self) -> Result<Version, WishError> {
        if self.depth.is_some() {
            return Err(WishError::Meaningless { name: "depth" });
        }
        if self.source == Source::Store && self.wait.is_some() {
            return Err(WishError::Meaningless { name: "wait_ms" });
        }
        match &self.since[..] {
            [] => Err(WishError::NoSince),
            [Since { instrument: None, version }] => Ok(*version),
            [_] => Err(WishError::Meaningless { name: "an instrument in since" }),
            _ => Err(WishError::Twice { name: "since" }),
        }
    }

    /// The version of an instrument of the pair that is asked for; none if he has none of it.
    pub(super) fn since_of(&self, instrument: &str) -> Option<Version> {
        let named = |since: &&Since| since.instrument.as_deref() == Some(instrument);
        self.since.iter().find(named).map(|since| since.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(parameters: &[(&str, &str)]) -> Result<Wish, WishError> {
        let owned: Vec<_> = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Wish::of(&owned)
    }

    #[test]
    fn a_version_is_told_with_either_sign_between_its_parts() {
        let right = Version::new(2, 9_007_199_254_740_993);
        for text in ["2:9007199254740993", "2.9007199254740993"] {
            assert_eq!(wish(&[("since", text)]).unwrap().of_changes(), Ok(right));
        }
        for text in ["", "2", "2:", ":1", "2:-1", "+2:1", "2:1:1", "2:18446744073709551616", "a:b"] {
            assert!(matches!(wish(&[("since", text)]), Err(WishError::Since { .. })), "{text}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        assert_eq!(wish(&[]).unwrap().of_changes(), Err(WishError::NoSince));
        assert_eq!(wish(&[("depth", "1"), ("depth", "2")]), Err(WishError::Twice { name: "depth" }));
        for (name, value) in [("depth", "-1"), ("source", "disk"), ("wait_ms", "30001"), ("Depth", "1")] {
            assert!(wish(&[(name, value)]).is_err(), "{name}={value}");
        }
        assert!(wish(&[("since", "1:1")]).unwrap().of_book().is_err());
        assert!(wish(&[("wait_ms", "30000")]).unwrap().of_book().is_err());
        for more in [("depth", "1"), ("since", "1:2"), ("source", "store")] {
            let asked = wish(&[("since", "1:1"), ("wait_ms", "1"), more]).unwrap();
            assert!(asked.of_changes().is_err(), "{more:?}");
        }
    }

    #[test]
    fn a_pair_s_versions_name_their_instruments() {
        let asked = wish(&[("since", "a/X@1:5"), ("since", "b/Y@Z@2:6")]).unwrap();
        assert_eq!(asked.since_of("a/X"), Some(Version::new(1, 5)));
        assert_eq!(asked.since_of("b/Y@Z"), Some(Version::new(2, 6)));
        assert_eq!(asked.since_of("c"), None);
    }
}
