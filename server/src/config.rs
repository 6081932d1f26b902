//! What the server is told: every setting with its unit and its limit.
//!
//! Layers, a later one wins: the defaults, the file, the environment (`SPRAG_SERVER__PORT` is `server.port`;
//! `CLICKHOUSE_URL` is `store.url`; `SPRAG_DATA_DIR` is `data_dir`), the command line.
//!
//! Never: an unknown key passed over, a setting without a limit, a password in print.

mod analysts;
mod audit;
mod error;
mod history;
mod http;
mod layers;
mod live;
mod log;
mod pipeline;
mod pubsub;
mod retention;
mod secret;
mod server;
mod source;
mod store;
mod venue;
mod view;

#[cfg(test)]
mod tests;

pub use analysts::Analysts;
pub use audit::Audit;
pub use error::{ConfigError, ConfigProblem};
pub use history::History;
pub use http::Http;
pub use live::{Live, live_text};
pub use log::{Log, LogFormat};
pub use pipeline::Pipeline;
pub use pubsub::PubSub;
pub use retention::Retention;
pub use secret::{MASK, Secret};
pub use server::Server;
pub use source::{Capture, InstrumentTable, Sim, Source, SourceKind};
pub use store::Store;
pub use view::{View, ViewKind};

use error::Problems;
use figment::Figment;
use layers::Layer;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where everything that outlives the process is kept; one process at a time, 1 to 4,096 bytes.
    pub data_dir: PathBuf,
    /// Where terminals connect.
    pub server: Server,
    /// HTTP beside the terminals.
    pub http: Http,
    /// Lanes, cuts and frames.
    pub pipeline: Pipeline,
    /// Which source feeds the pipeline.
    pub source: Source,
    /// The market simulator.
    pub sim: Sim,
    /// Recorded connections.
    pub capture: Capture,
    /// Venues to connect to; each at most once.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "live::deserialize")]
    pub live: Vec<Live>,
    /// Batches by Pub/Sub.
    pub pubsub: PubSub,
    /// ClickHouse.
    pub store: Store,
    /// How long the store keeps what.
    pub retention: Retention,
    /// Its listener for analysts.
    pub analysts: Analysts,
    /// The audit of the store.
    pub audit: Audit,
    /// The process's own log.
    pub log: Log,
    /// Standing views; at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub view: Vec<View>,
    /// Assets and steps of instruments, whatever their venues say; at most as many as there can be instruments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instrument: Vec<InstrumentTable>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("data"),
            server: Server::default(),
            http: Http::default(),
            pipeline: Pipeline::default(),
            source: Source::default(),
            sim: Sim::default(),
            capture: Capture::default(),
            live: Vec::new(),
            pubsub: PubSub::default(),
            store: Store::default(),
            retention: Retention::default(),
            analysts: Analysts::default(),
            audit: Audit::default(),
            log: Log::default(),
            view: Vec::new(),
            instrument: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the file, if one is named, then this process's environment, then `overrides`: `(dotted name, text)`
    /// pairs such as `("server.port", "0")`. Lists are given as text separated by commas. The limits are checked.
    ///
    /// # Errors
    ///
    /// An unreadable file, an unknown key, a value of another type, or values outside their limits, all of them named.
    pub fn load(path: Option<&Path>, overrides: &[(String, String)]) -> Result<Self, ConfigError> {
        let environment =
            std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        Self::load_with(path, environment, overrides)
    }

    /// The same with an environment that is given.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn load_with(
        path: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        overrides: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let file = path.map(Layer::file).transpose()?;
        Self::from_layers(file.into_iter().chain([Layer::environment(environment), Layer::overrides(overrides)]))
    }

    /// Verifies every limit.
    ///
    /// # Errors
    ///
    /// Every value outside its limit, in the order of the file.
    pub fn check(&self) -> Result<(), Vec<ConfigProblem>> {
        let mut problems = Problems::default();
        let bytes = self.data_dir.as_os_str().len();
        let shown = format_args!("{:?}", self.data_dir);
        problems.unless((1..=4096).contains(&bytes), "data_dir", &shown, &"a path of 1 to 4096 bytes");
        self.server.check(&mut problems);
        self.http.check(&mut problems);
        self.pipeline.check(&mut problems);
        self.sim.check(&mut problems);
        self.capture.check(self.source.kind, &mut problems);
        live::check(&self.live, self.source.kind == SourceKind::Live, &mut problems);
        let batches = self.source.kind == SourceKind::PubSub;
        self.pubsub.check(batches, self.store.enabled, &mut problems);
        self.store.check(&mut problems);
        self.retention.check(&mut problems);
        self.analysts.check(&mut problems);
        self.audit.check(&mut problems);
        self.log.check(&mut problems);
        view::check_views(&self.view, &mut problems);
        source::check_instruments(&self.instrument, &mut problems);
        problems.into_result()
    }

    /// The default configuration with every field explained, a file to start from.
    #[must_use]
    pub fn documented() -> &'static str {
        include_str!("../sprag.toml")
    }

    /// This configuration as a file, secrets shown as `***`.
    ///
    /// # Errors
    ///
    /// A path that is not UTF-8 has no spelling in TOML.
    pub fn print(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    fn from_layers(layers: impl Iterator<Item = Layer>) -> Result<Self, ConfigError> {
        let joined = layers.fold(Figment::new(), |joined, layer| joined.merge(layer));
        let config: Self = joined.extract().map_err(|error| ConfigError::Shape(Box::new(error)))?;
        config.check().map_err(ConfigError::Limits)?;
        Ok(config)
    }
}
