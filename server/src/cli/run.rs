//! `sprag run`.
//!
//! Never: settings that a configuration file could not hold as well.

use super::{Failure, Settings, runtime, start_log, venue};
use crate::{
    config::{Config, History, Live, SourceKind, live_text},
    exit::Exit,
    run,
};
use clap::{ArgGroup, Args};
use connectors::live::dialect::{Dialect, UnknownDialect};
use market::Venue;
use std::{net::SocketAddr, path::PathBuf};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("of_venue").args(["capture", "instrument"]))]
pub(super) struct RunArgs {
    #[command(flatten)]
    settings: Settings,
    /// TCP port; 0 for any free one.
    #[arg(long)]
    port: Option<u16>,
    /// Dataflow workers.
    #[arg(long)]
    workers: Option<usize>,
    /// Serve these captures instead of the simulated market; needs --venue.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "venue")]
    capture: Vec<PathBuf>,
    /// The venue to connect to, or the one that the captures are of; needs --instrument or --capture.
    #[arg(long, value_parser = venue, requires = "of_venue")]
    venue: Option<Venue>,
    /// Connect to these instruments of --venue, in its own spelling, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "venue")]
    instrument: Vec<String>,
    /// Connections that each carry all of --instrument; with two or more, one takes over for another.
    #[arg(long, requires = "instrument", default_value_t = 1)]
    legs: usize,
    /// Which of the venue's protocols to speak: of coinbase advanced_trade, which notices what it lost, or exchange.
    #[arg(long, value_name = "NAME", value_parser = protocol, requires = "instrument")]
    protocol: Option<Dialect>,
    /// Connect to this WebSocket instead of the venue's own.
    #[arg(long, value_name = "URL", requires = "instrument")]
    ws_url: Option<String>,
    /// Ask this base URL instead of the venue's own for what comes by REST.
    #[arg(long, value_name = "URL", requires = "instrument")]
    rest_url: Option<String>,
    /// Times the recorded pace; 0 for as fast as possible.
    #[arg(long)]
    speed: Option<f64>,
    /// Begin the captures anew at their end.
    #[arg(long)]
    repeat: bool,
    /// Take batches from this subscription, projects/PROJECT/subscriptions/NAME, and nothing else. PUBSUB_EMULATOR_HOST names
    /// an emulator.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["capture", "instrument"])]
    subscription: Option<String>,
    /// Make topic and subscription where they are missing.
    #[arg(long, value_name = "NAME", requires = "subscription")]
    topic: Option<String>,
    /// Name of the batches' stream.
    #[arg(long, value_name = "NAME", requires = "subscription")]
    stream: Option<String>,
    /// Keep no history.
    #[arg(long)]
    no_store: bool,
}

impl RunArgs {
    fn overrides(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut overrides = Vec::new();
        let mut set = |name: &str, value: Option<String>| {
            overrides.extend(value.map(|value| (name.to_owned(), value)));
        };
        set("server.port", self.port.map(|port| port.to_string()));
        set("pipeline.workers", self.workers.map(|workers| workers.to_string()));
        set("capture.venue", self.venue.map(|venue| venue.to_string()));
        set("capture.speed", self.speed.map(|speed| speed.to_string()));
        set("capture.repeat", self.repeat.then(|| "true".to_owned()));
        set("source.kind", self.subscription.is_some().then(|| "pubsub".to_owned()));
        set("pubsub.subscription", self.subscription.clone());
        set("pubsub.topic", self.topic.clone());
        set("pubsub.stream", self.stream.clone());
        set("store.enabled", self.no_store.then(|| "false".to_owned()));
        if !self.capture.is_empty() {
            let files: Vec<_> = self.capture.iter().map(|file| file.display().to_string()).collect();
            set("source.kind", Some("capture".to_owned()));
            set("capture.files", Some(files.join(",")));
        }
        if let Some(live) = self.live() {
            set("source.kind", Some("live".to_owned()));
            set("live", Some(live_text(&[live]).map_err(|error| Failure::new(Exit::Usage, error))?));
        }
        Ok(overrides)
    }

    /// The venue to connect to, if one is meant.
    fn live(&self) -> Option<Live> {
        let venue = self.venue.filter(|_| !self.instrument.is_empty())?;
        Some(Live {
            venue,
            protocol: self.protocol,
            instruments: self.instrument.clone(),
            legs: self.legs,
            ws_url: self.ws_url.clone().unwrap_or_default(),
            rest_url: self.rest_url.clone().unwrap_or_default(),
            history: History::default(),
        })
    }
}

/// A protocol by name.
fn protocol(name: &str) -> Result<Dialect, UnknownDialect> {
    name.parse()
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let config = args.settings.load(args.overrides()?)?;
    start_log(&config.log)?;
    let signals = |kind| signal(kind).map_err(|error| Failure::new(Exit::Internal, error));
    runtime()?.block_on(async {
        let (mut interrupt, mut terminate) = (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            eprintln!("ending; the store gets what is left");
        };
        let started = |address: SocketAddr| {
            println!("sprag is up: http://{address}/");
            hints(&config, address).iter().for_each(|hint| println!("  {hint}"));
        };
        run::run(&config, stop, started).await.map_err(|error| Failure::new(error.exit(), error))
    })
}

/// What to try next.
fn hints(config: &Config, address: SocketAddr) -> Vec<String> {
    let instrument = example(config).map_or_else(|| EVERY_INSTRUMENT.to_owned(), |name| quoted(&name));
    let mut hints = vec![format!("watch a book:   sprag watch {instrument} --url ws://{address}/v1/stream")];
    if config.store.enabled {
        let elsewhere = config.data_dir != Config::default().data_dir;
        let directory = elsewhere.then(|| format!(" --data-dir {}", quoted(&config.data_dir.display().to_string())));
        let directory = directory.unwrap_or_default();
        hints.push(format!("ask the store:  sprag sql{directory} \"SELECT count() FROM tick_updates\""));
    }
    hints
}

/// A glob of all instruments, as a shell takes it.
const EVERY_INSTRUMENT: &str = "'*/*'";

/// An instrument that the source has, if one is known beforehand.
fn example(config: &Config) -> Option<String> {
    let venue = Venue::BinanceSpot;
    let there = match config.source.kind {
        SourceKind::Live => {
            let live = config.live.first()?;
            return live.instruments.first().map(|symbol| format!("{}/{symbol}", live.venue));
        }
        SourceKind::Sim => config.sim.venues.contains(&venue),
        SourceKind::Capture => config.capture.venue == Some(venue),
        SourceKind::PubSub => false,
    };
    there.then(|| format!("{venue}/BTCUSDT"))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:".contains(letter);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints_of(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        hints(&config, SocketAddr::from(([127, 0, 0, 1], 8410))).join("\n")
    }

    fn live(venue: Venue, symbol: &str) -> Live {
        let instruments = vec![symbol.to_owned(), "ETHUSDT".to_owned()];
        Live {
            venue,
            protocol: None,
            instruments,
            legs: 1,
            ws_url: String::new(),
            rest_url: String::new(),
            history: History::default(),
        }
    }

    #[test]
    fn hints_name_an_instrument_that_is_there() {
        let url = "--url ws://127.0.0.1:8410/v1/stream";
        let watched = |change: &dyn Fn(&mut Config), right: &str| {
            let hints = hints_of(change);
            assert!(hints.contains(&format!("sprag watch {right} {url}")), "{hints}");
        };
        watched(&|_| {}, "binance_spot/BTCUSDT");
        watched(&|config| config.sim.venues = vec![Venue::KrakenSpot], "'*/*'");
        watched(
            &|config| {
                config.source.kind = SourceKind::Live;
                config.live = vec![live(Venue::KrakenSpot, "BTC/USD"), live(Venue::BinanceSpot, "BTCUSDT")];
            },
            "kraken_spot/BTC/USD",
        );
        watched(
            &|config| {
                config.source.kind = SourceKind::Live;
                config.live = vec![live(Venue::BinanceSpot, "A'B")];
            },
            r"'binance_spot/A'\''B'",
        );
        for (venue, right) in [(Venue::BinanceSpot, "binance_spot/BTCUSDT"), (Venue::KrakenSpot, "'*/*'")] {
            let change = |config: &mut Config| {
                config.source.kind = SourceKind::Capture;
                config.capture.venue = Some(venue);
            };
            watched(&change, right);
        }
    }

    #[test]
    fn hints_ask_the_store_that_is_used() {
        assert!(hints_of(|_| {}).contains("sprag sql \"SELECT"));
        assert!(hints_of(|config| config.data_dir = "data/live".into()).contains("sprag sql --data-dir data/live \""));
        assert!(hints_of(|config| config.data_dir = "my data".into()).contains("sql --data-dir 'my data' \""));
        assert!(!hints_of(|config| config.store.enabled = false).contains("sprag sql"));
    }
}
