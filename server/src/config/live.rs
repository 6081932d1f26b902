//! `[[live]]`: venues that are connected to.
//!
//! Never: credentials; public market data need none.

use super::{History, error::Problems, secret::MASK, venue};
use connectors::live::{
    LEGS_MAX, LiveVenue,
    address::{check_rest_url, check_socket_url},
    dialect::{Dialect, dialects, names},
    protocol::{Protocol, protocol, spoken},
};
use market::Venue;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use std::{collections::BTreeSet, fmt};

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// Longest symbol, in bytes.
const SYMBOL_BYTES_MAX: usize = 128;

/// One venue to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// The venue; each at most once.
    #[serde(with = "venue::one")]
    pub venue: Venue,
    /// Which of the venue's protocols: of `coinbase` `advanced_trade`, which notices what it lost, or `exchange`; empty =
    /// the first of them. Other venues have one alone.
    #[serde(default, with = "dialect")]
    pub protocol: Option<Dialect>,
    /// Instruments in the venue's own spelling, each once; at least one, and at most what the venue's connections carry: 512
    /// of `binance_spot` and of `binance_usdm`, 2,000 of `kraken_spot`, 1,500 of `okx`, 500 of `deribit`, 200 of
    /// `coinbase`, 12 of `bitfinex`.
    pub instruments: Vec<String>,
    /// Connections that each carry all of them; 1 to 8.
    #[serde(default = "one")]
    pub legs: usize,
    /// `ws://` or `wss://` URL of its WebSocket; empty = the venue's own. Of `binance_spot` and `binance_usdm`, whose
    /// snapshots come by REST, both URLs or none.
    #[serde(default, serialize_with = "without_credentials")]
    pub ws_url: String,
    /// `http://` or `https://` base of its REST paths; empty = the venue's own.
    #[serde(default, serialize_with = "without_credentials")]
    pub rest_url: String,
    /// `"every"` admitted change becomes a row, or of a tick the last one of each frame, `"frames"`.
    #[serde(default)]
    pub history: History,
}

const fn one() -> usize {
    1
}

impl Live {
    /// As the connectors take it.
    #[must_use]
    pub fn connection(&self) -> LiveVenue {
        let told = |url: &String| (!url.is_empty()).then(|| url.clone());
        LiveVenue {
            venue: self.venue,
            dialect: self.protocol,
            instruments: self.instruments.iter().map(|symbol| symbol.as_str().into()).collect(),
            legs: self.legs,
            socket_url: told(&self.ws_url),
            rest_url: told(&self.rest_url),
        }
    }

    fn check(&self, field: &str, problems: &mut Problems) {
        let Some(protocol) = self.speaks(field, problems) else { return };
        let instruments_max = protocol.terms().instruments_max;
        problems.range(&format!("{field} instruments (count)"), self.instruments.len(), 1..=instruments_max);
        let mut seen = BTreeSet::new();
        for symbol in &self.instruments {
            let plain = (1..=SYMBOL_BYTES_MAX).contains(&symbol.len()) && !symbol.contains(char::is_whitespace);
            let limit = format_args!("1 to {SYMBOL_BYTES_MAX} bytes without spaces, and named once");
            problems.unless(
                plain && seen.insert(symbol),
                &format!("{field} instruments"),
                &format_args!("{symbol:?}"),
                &limit,
            );
        }
        problems.range(&format!("{field} legs"), self.legs, 1..=LEGS_MAX);
        let urls = [
            ("ws_url", &self.ws_url, check_socket_url(&self.ws_url), "ws:// or wss://"),
            ("rest_url", &self.rest_url, check_rest_url(&self.rest_url), "http:// or https://"),
        ];
        for (name, url, checked, scheme) in urls {
            let right = url.is_empty() || (url.len() <= URL_BYTES_MAX && checked.is_ok());
            let limit =
                format_args!("empty, or {scheme} and a host, without credentials, at most {URL_BYTES_MAX} bytes");
            problems.unless(right, &format!("{field} {name}"), &masked(url), &limit);
        }
        self.check_together(field, problems);
    }

    /// The protocol that is spoken, if there is such.
    fn speaks(&self, field: &str, problems: &mut Problems) -> Option<&'static dyn Protocol> {
        let own = protocol(self.venue);
        problems.unless(own.is_some(), &format!("{field} venue"), &self.venue, &"one that can be connected to");
        let spoken = spoken(self.venue, self.protocol);
        if let Some(dialect) = self.protocol.filter(|_| own.is_some()) {
            let limit = format_args!("empty, or one of the venue's: {}", names(dialects(self.venue)));
            problems.unless(spoken.is_some(), &format!("{field} protocol"), &dialect, &limit);
        }
        spoken
    }

    /// Where snapshots come by REST, they must be of the market that the stream is of.
    fn check_together(&self, field: &str, problems: &mut Problems) {
        if protocol(self.venue).is_none_or(|protocol| protocol.snapshot("").is_none()) {
            return;
        }
        let (missing, given) = match (self.ws_url.is_empty(), self.rest_url.is_empty()) {
            (true, false) => ("ws_url", "rest_url"),
            (false, true) => ("rest_url", "ws_url"),
            _ => return,
        };
        let limit = format_args!("given where {given} is: the stream and its snapshots come from one source");
        problems.unless(false, &format!("{field} {missing}"), &"\"\"", &limit);
    }
}

/// A protocol by its name, or `""` for the venue's first.
mod dialect {
    use super::*;

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(dialect: &Option<Dialect>, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(dialect.map_or("", Dialect::name))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Dialect>, D::Error> {
        let name = String::deserialize(input)?;
        if name.is_empty() { Ok(None) } else { name.parse().map(Some).map_err(D::Error::custom) }
    }
}

/// A URL that may hold credentials is not shown at all.
fn masked(url: &str) -> &str {
    if url.contains('@') { MASK } else { url }
}

fn without_credentials<S: Serializer>(url: &str, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(masked(url))
}

/// Checks the whole `[[live]]` list.
pub(super) fn check(list: &[Live], wanted: bool, problems: &mut Problems) {
    if wanted {
        problems.unless(!list.is_empty(), "live", &"[]", &"given where source.kind is \"live\"");
    }
    let mut seen = BTreeSet::new();
    for live in list {
        let field = format!("live {}", live.venue);
        problems.unless(seen.insert(live.venue), &field, &"given twice", &"given once");
        live.check(&field, problems);
    }
}

/// The tables of a file, or from outside of it their text as one line of TOML: `[{ venue = "…", instruments = […] }]`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Live>, D::Error> {
    struct Tables;

    impl<'de> Visitor<'de> for Tables {
        type Value = Vec<Live>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("tables, or their text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            #[derive(Deserialize)]
            struct Text {
                live: Vec<Live>,
            }
            toml::from_str::<Text>(&format!("live = {text}")).map(|text| text.live).map_err(|error| {
                // Without the line itself.
                E::custom(error.message())
            })
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    input.deserialize_any(Tables)
}

/// Tables as such a text, for the command line.
///
/// # Errors
/// What has no spelling in TOML; there is no such table.
pub fn live_text(list: &[Live]) -> Result<String, toml::ser::Error> {
    toml::Value::try_from(list).map(|value| value.to_string())
}
