//! `sprag run`.
//!
//! Never: settings that a configuration file could not hold as well.

use super::{Failure, Settings, runtime, start_log, venue};
use crate::{
    config::{Live, live_text},
    exit::Exit,
    run,
};
use clap::Args;
use market::Venue;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
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
    /// The venue to connect to, or the one that the captures are of.
    #[arg(long, value_parser = venue)]
    venue: Option<Venue>,
    /// Connect to these instruments of --venue, in its own spelling, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "venue", conflicts_with = "capture")]
    instrument: Vec<String>,
    /// Connections that each carry all of --instrument; with two or more, one takes over for another.
    #[arg(long, requires = "instrument", default_value_t = 1)]
    legs: usize,
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
            instruments: self.instrument.clone(),
            legs: self.legs,
            ws_url: self.ws_url.clone().unwrap_or_default(),
            rest_url: self.rest_url.clone().unwrap_or_default(),
        })
    }
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
        let started = |address: std::net::SocketAddr| {
            println!("sprag is up: http://{address}/");
            println!("  watch a book:   sprag watch binance_spot/BTCUSDT --url ws://{address}/v1/stream");
            println!("  ask the store:  sprag sql \"SELECT count() FROM tick_updates\"");
        };
        run::run(&config, stop, started).await.map_err(|error| Failure::new(error.exit(), error))
    })
}
