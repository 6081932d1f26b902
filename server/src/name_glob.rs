//! A pattern over names: a glob, or a name. A name always matches itself, whatever its characters mean in a glob. `*` and `?`
//! match a `/` too: symbols and assets may have them.
//!
//! Never: a pattern that is neither taken for one.

use globset::{Glob, GlobMatcher};

/// Characters that make a text more than a name.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

/// One pattern.
#[derive(Clone, Debug)]
pub struct NameGlob {
    text: Box<str>,
    /// None for a plain name, and for what is no glob.
    glob: Option<GlobMatcher>,
    plain: bool,
}

impl NameGlob {
    /// The pattern of a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let plain = !text.contains(SPECIAL);
        let glob = if plain { None } else { Glob::new(text).ok().map(|glob| glob.compile_matcher()) };
        Self { text: text.into(), glob, plain }
    }

    /// Whether it is a plain name or a glob; what is neither can still be the name of something.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        self.plain || self.glob.is_some()
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        *self.text == *name || self.glob.as_ref().is_some_and(|glob| glob.is_match(name))
    }
}
