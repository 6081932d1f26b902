//! Venues in a configuration file, by the names people use.
//!
//! Never: a venue that this build does not know.

use market::Venue;
use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// One venue, as in `"kraken_spot"`.
pub(super) mod one {
    use super::*;

    pub(in crate::config) fn serialize<S: Serializer>(venue: &Venue, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(venue.name())
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Venue, D::Error> {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}

/// One venue or `""` for none.
pub(super) mod optional {
    use super::*;

    pub(in crate::config) fn serialize<S: Serializer>(venue: &Option<Venue>, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(venue.map_or("", Venue::name))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Venue>, D::Error> {
        let name = String::deserialize(input)?;
        if name.is_empty() { Ok(None) } else { name.parse().map(Some).map_err(D::Error::custom) }
    }
}

/// A list of venues.
pub(super) mod list {
    use super::*;

    pub(in crate::config) fn serialize<S: Serializer>(venues: &[Venue], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(venues.iter().map(|venue| venue.name()))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Venue>, D::Error> {
        let names = Vec::<String>::deserialize(input)?;
        names.iter().map(|name| name.parse().map_err(D::Error::custom)).collect()
    }
}
