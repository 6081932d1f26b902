//! `sprag venue-sim`.
//!
//! Never: anything of the pipeline; it is the other side.

use super::{Failure, runtime, start_log, venue};
use crate::exit::Exit;
use clap::{Args, value_parser};
use connectors::simulator::{
    LEVELS_MAX, LEVELS_MIN, SimulatorConfig, VenueSim, VenueSimError, VenueSimOptions, VenueSimSource,
};
use market::Venue;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::signal::unix::{SignalKind, signal};

/// What the options cannot say.
const AFTER_HELP: &str = r#"Without --capture a market is simulated at the venues, from this moment on. With --capture the frames of these files
are served as they were recorded; REST and new subscriptions are answered from books that are kept beside it.

One address has it all, each venue below its name as the venue has it: /binance_spot/stream, /binance_usdm/stream,
/kraken_spot/v2, /okx/ws/v5/public, /deribit/ws/api/v2, /coinbase/advanced, /coinbase/ for the Exchange protocol, and
/bitfinex/ws/2. A venue's REST begins at http://ADDRESS/VENUE. What is served is printed at the start: binance_spot and
kraken_spot, unless --venues names others of these.

For tests: GET /sim/books and /sim/state; POST /sim/pause and /sim/resume; POST /sim/faults with one of
  {"fault":"disconnect","venue":"okx","connection":1,"ending":"normal"}   or "going_away", "abort", "reset"
  {"fault":"half_open","venue":"okx","connection":1,"for_ms":5000}
  {"fault":"refuse_connections","venue":"kraken_spot","for_ms":2000}
  {"fault":"fail_rest","venue":"binance_spot","count":1,"status":429,"retry_after_s":2}
  {"fault":"drop_depth","venue":"binance_spot","symbol":"BTCUSDT","count":1,"connection":2}
  {"fault":"duplicate","venue":"okx","symbol":"BTC-USDT","count":1,"connection":2}   "reorder" alike
  {"fault":"garbage","venue":"okx","count":1,"kind":"truncated","seed":1}   or "random", "binary"
  {"fault":"oversized","venue":"okx","connection":1}
  {"fault":"delay","venue":"okx","connection":1,"min_ms":6,"max_ms":9,"seed":1,"for_ms":60000}
  {"fault":"silence","venue":"kraken_spot","symbol":"BTC/USD","for_ms":5000}
  {"fault":"ping_flood","venue":"binance_spot","every_ms":10,"for_ms":3000}
  {"fault":"corrupt_checksum","venue":"kraken_spot","symbol":"BTC/USD","count":1}
  {"fault":"stale_snapshots","venue":"binance_spot","symbol":"BTCUSDT","count":3,"updates_ago":20}
  {"fault":"reset_ids","venue":"binance_spot","symbol":"BTCUSDT","next_id":624086}
  {"fault":"chaos","venue":"okx","seed":1,"for_ms":60000,
   "per_10000":{"drop":10,"duplicate":10,"reorder":10,"garbage":10,"reset":1}}
A connection is meant by its order of opening at its venue, from 1; without one, all are meant. Without a symbol, where
one may be left out, all are meant too. Checksums are there to be falsified at kraken_spot, okx and bitfinex, ids to be
reset at binance_spot, binance_usdm, okx and deribit. A count is 1 unless named; without for_ms, where it may be left out,
a fault lasts until DELETE /sim/faults ends all of them. GET /sim/faults tells how often each fired."#;

#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct VenueSimArgs {
    /// Address to listen on; beyond loopback, whoever reaches it can set faults.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// TCP port; 0 for any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Everything random of the simulated market follows from this.
    #[arg(long, default_value_t = 1, conflicts_with = "capture")]
    seed: u64,
    /// Number of simulated pairs, each at every venue.
    #[arg(long, default_value_t = 12, conflicts_with = "capture")]
    pairs: u32,
    /// The venues of the simulated market.
    #[arg(long, value_delimiter = ',', value_parser = venue, default_values_t = connectors::simulator::SIMULATED, conflicts_with = "capture")]
    venues: Vec<Venue>,
    /// Simulated book messages per second, over all instruments.
    #[arg(long, default_value_t = 200, conflicts_with = "capture")]
    updates_per_second: u32,
    /// Levels per side that simulated books tend to, 20 to 600.
    #[arg(
        long, default_value_t = 200, conflicts_with = "capture",
        value_parser = value_parser!(u32).range(i64::from(LEVELS_MIN)..=i64::from(LEVELS_MAX))
    )]
    book_levels: u32,
    /// Serve these captures, merged by receive time; needs --venue.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "venue")]
    capture: Vec<PathBuf>,
    /// The venue that the captures are of.
    #[arg(long, value_parser = venue, requires = "capture")]
    venue: Option<Venue>,
    /// Only the frames of these connections, by the captures' own ids; REST replies always count.
    #[arg(long, value_delimiter = ',', requires = "capture")]
    leg: Vec<String>,
    /// Times the recorded pace; 0 for as fast as the connections take it.
    #[arg(long, default_value_t = 1.0, requires = "capture")]
    speed: f64,
    /// Begin the captures anew at their end, as a venue does that restarts: connections are closed, and ids go back.
    #[arg(long, requires = "capture")]
    repeat: bool,
    /// Serve nothing before so many connections have subscribed to something.
    #[arg(long, value_name = "N", default_value_t = 0)]
    wait_for_subscribers: usize,
    /// Seconds between the pings that Binance sends.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = value_parser!(u64).range(1..))]
    ping_every: u64,
    /// Request weight per minute that Binance's REST allows.
    #[arg(long, default_value_t = 6_000)]
    request_weight: u32,
}

impl VenueSimArgs {
    fn options(self) -> Result<VenueSimOptions, Failure> {
        let source = match self.venue {
            Some(venue) => VenueSimSource::Captures {
                files: self.capture,
                venue,
                legs: self.leg,
                speed: self.speed,
                repeat: self.repeat,
            },
            None => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = now.map_err(|error| Failure::new(Exit::Internal, error))?;
                VenueSimSource::Market(SimulatorConfig {
                    seed: self.seed,
                    pairs: self.pairs,
                    venues: self.venues,
                    updates_per_second: self.updates_per_second,
                    book_levels: self.book_levels,
                    start_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
                    ..SimulatorConfig::default()
                })
            }
        };
        Ok(VenueSimOptions {
            address: SocketAddr::new(self.host, self.port),
            beyond_loopback: !self.host.is_loopback(),
            wait_for_subscribers: self.wait_for_subscribers,
            ping_interval: Duration::from_secs(self.ping_every),
            request_weight: self.request_weight,
            ..VenueSimOptions::new(source)
        })
    }
}

fn not_started(error: VenueSimError) -> Failure {
    let exit = match &error {
        VenueSimError::Listen { .. } => Exit::Network,
        VenueSimError::Capture(_) => Exit::Input,
        VenueSimError::Scan(_) => Exit::Internal,
        VenueSimError::BeyondLoopback(_)
        | VenueSimError::NotSpoken(_)
        | VenueSimError::Nothing
        | VenueSimError::Speed
        | VenueSimError::Interval => Exit::Usage,
    };
    Failure::new(exit, error)
}

pub(super) fn venue_sim(args: VenueSimArgs) -> Result<(), Failure> {
    start_log(&crate::config::Log::default())?;
    let options = args.options()?;
    let signals = |kind| signal(kind).map_err(|error| Failure::new(Exit::Internal, error));
    runtime()?.block_on(async {
        let (mut interrupt, mut terminate) = (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
        let served = VenueSim::start(options).await.map_err(not_started)?;
        println!("sprag venue-sim is up: http://{}/", served.address());
        for line in served.addresses().lines() {
            println!("  {line}");
        }
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        served.stop().await;
        Ok(())
    })
}
