//! What can be wrong with a configuration, each problem naming its field, its value and its limit.
//!
//! Never: the text of a password.

use std::{fmt, ops::RangeInclusive, path::PathBuf};

/// No configuration could be made; the process ends with [`crate::exit::Exit::Usage`].
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file named on the command line could not be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file as named.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of another type; the text names the key and where it was set.
    #[error("configuration: {0}")]
    Shape(Box<figment::Error>),
    /// Values of the right type outside their limits.
    #[error("configuration: {}", lines(.0))]
    Limits(Vec<ConfigProblem>),
}

/// One value outside its limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: must be {limit}")]
pub struct ConfigProblem {
    /// The dotted name, as in `server.port`.
    pub field: Box<str>,
    /// The value as given, `***` for what may hold a secret.
    pub value: Box<str>,
    /// What would be right.
    pub limit: Box<str>,
}

fn lines(problems: &[ConfigProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<ConfigProblem>);

impl Problems {
    /// Notes a problem unless the value is `right`.
    pub(super) fn unless(&mut self, right: bool, field: &str, value: &dyn fmt::Display, limit: &dyn fmt::Display) {
        if !right {
            let (value, limit) = (value.to_string().into(), limit.to_string().into());
            self.0.push(ConfigProblem { field: field.into(), value, limit });
        }
    }

    /// Notes a problem unless the value lies within the limits, both included.
    pub(super) fn range<T: Copy + PartialOrd + fmt::Display>(
        &mut self,
        field: &str,
        value: T,
        limits: RangeInclusive<T>,
    ) {
        let right = limits.contains(&value);
        self.unless(right, field, &value, &format_args!("{} to {}", limits.start(), limits.end()));
    }

    /// `Ok` when nothing was noted.
    pub(super) fn into_result(self) -> Result<(), Vec<ConfigProblem>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}
