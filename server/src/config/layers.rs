//! The layers a configuration is put together from: the file, the environment, the command line; a later one wins.
//!
//! Never: a value guessed from its look. Text from outside is read as the type that its field has, so that a
//! password of digits stays text.

use super::{Config, ConfigError};
use figment::{
    Metadata, Profile, Provider,
    util::nest,
    value::{Dict, Map, Value},
};
use std::path::Path;

/// Start of every variable that names a field: `SPRAG_SERVER__PORT` is `server.port`.
const PREFIX: &str = "SPRAG_";

/// Between section and field, for field names hold single underscores.
const SEPARATOR: &str = "__";

/// Variables with a name of their own, and the field each one sets. The `SPRAG_…__…` spelling wins over these.
const ALIASES: [(&str, &str); 2] = [("CLICKHOUSE_URL", "store.url"), ("SPRAG_DATA_DIR", "data_dir")];

/// One origin of values.
pub(super) struct Layer {
    name: String,
    values: Dict,
}

impl Layer {
    /// Reads a TOML file.
    pub(super) fn file(path: &Path) -> Result<Self, ConfigError> {
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::text(path.display().to_string(), &text)
    }

    /// Reads TOML text. A fault is told by its line's number and not by the line, which may hold a password.
    pub(super) fn text(name: String, text: &str) -> Result<Self, ConfigError> {
        let table: toml::Table = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let error = figment::Error::from(format!("{} at line {line} of {name}", error.message()));
            ConfigError::Shape(Box::new(error))
        })?;
        let value = Value::serialize(table).map_err(|error| ConfigError::Shape(Box::new(error)))?;
        Ok(Self { name, values: value.into_dict().unwrap_or_default() })
    }

    /// Takes what concerns Sprag from a process environment; the rest is passed over.
    pub(super) fn environment(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut fields: Vec<(bool, String, String)> = variables.filter_map(|(name, text)| named(&name, text)).collect();
        fields.sort();
        let pairs = fields.into_iter().map(|(_, field, text)| (field, text));
        Self { name: "the environment".to_owned(), values: typed(pairs) }
    }

    /// Takes `(dotted name, text)` pairs from the command line.
    pub(super) fn overrides(pairs: &[(String, String)]) -> Self {
        Self { name: "the command line".to_owned(), values: typed(pairs.iter().cloned()) }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone()).interpolater(|_, keys| keys.join("."))
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// The field a variable names: (is it no alias, field, text).
fn named(name: &str, text: String) -> Option<(bool, String, String)> {
    if let Some((_, field)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Some((false, (*field).to_owned(), text));
    }
    let (section, field) = name.strip_prefix(PREFIX)?.split_once(SEPARATOR)?;
    Some((true, format!("{section}.{field}").to_lowercase(), text))
}

fn typed(pairs: impl Iterator<Item = (String, String)>) -> Dict {
    let defaults = Value::serialize(Config::default()).ok();
    let mut values = Dict::new();
    for (field, text) in pairs {
        let sample = defaults.as_ref().and_then(|defaults| defaults.find_ref(&field));
        if let Some(nested) = nest(&field, as_sample(sample, text)).into_dict() {
            join(&mut values, nested);
        }
    }
    values
}

/// Reads text as the kind of value that the field's default is; text for an unknown field, which is refused later.
fn as_sample(sample: Option<&Value>, text: String) -> Value {
    match sample {
        Some(Value::Bool(..)) => text.parse::<bool>().map_or_else(|_| Value::from(text), Value::from),
        Some(Value::Num(..)) => number(&text).unwrap_or_else(|| Value::from(text)),
        Some(Value::Array(..)) => {
            Value::from(text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>())
        }
        _ => Value::from(text),
    }
}

fn number(text: &str) -> Option<Value> {
    let whole = text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from));
    whole.or_else(|_| text.parse::<f64>().map(Value::from)).ok()
}

fn join(into: &mut Dict, from: Dict) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Dict(_, inner)), Value::Dict(_, more)) => join(inner, more),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}
