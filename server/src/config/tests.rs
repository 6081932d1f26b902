//! The documented file, the layers and the limits, tested.
//!
//! Never: this process's own environment; one is always given.

use super::*;
use connectors::{
    live::dialect::Dialect,
    simulator::{LEVELS_MAX, LEVELS_MIN},
};
use figment::value::{Dict, Value};
use std::iter;

fn from_text(text: &str) -> Result<Config, ConfigError> {
    Config::from_layers(iter::once(Layer::text("test.toml".to_owned(), text)?))
}

fn from_environment(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::load_with(None, owned(pairs).into_iter(), &[])
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn leaves(prefix: &str, dict: &Dict, into: &mut Vec<String>) {
    for (key, value) in dict {
        match value {
            Value::Dict(_, inner) => leaves(&format!("{prefix}{key}."), inner, into),
            _ => into.push(format!("{prefix}{key}")),
        }
    }
}

fn leaves_of(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    leaves("", value.as_dict().expect("a table"), &mut found);
    found
}

#[test]
fn documented_file_is_the_default_and_names_every_field() {
    assert_eq!(from_text(Config::documented()).unwrap(), Config::default());
    let documented: toml::Table = Config::documented().parse().unwrap();
    let all = leaves_of(&Value::serialize(Config::default()).unwrap());
    assert_eq!(leaves_of(&Value::serialize(documented).unwrap()), all);
    assert!(all.len() > 40, "{all:?}");
}

#[test]
fn documented_instrument_block_is_right_once_uncommented() {
    let (_, block) = Config::documented().split_once("# [[instrument]]").unwrap();
    let lines = block.lines().map(|line| line.trim_start_matches("# ")).filter(|line| line.contains(" = \""));
    let config = from_text(&format!("[[instrument]]\n{}", lines.collect::<Vec<_>>().join("\n"))).unwrap();
    let [table] = &config.instrument[..] else { panic!("{:?}", config.instrument) };
    assert_eq!((table.venue, &*table.symbol), (market::Venue::BinanceSpot, "BTCUSDT"));
    assert_eq!((table.assets(), table.steps()), (Some(("BTC", "USDT")), [Some(-2), Some(-5)]));
    assert_eq!(from_text(&config.print().unwrap()).unwrap(), config);
}

#[test]
fn an_instrument_may_have_a_step_alone_and_what_is_no_step_is_named() {
    let table = |more: &str| from_text(&format!("[[instrument]]\nvenue = 'okx'\nsymbol = 'X-Y'\n{more}"));
    let one = table("price_step = '2.5e-05'").unwrap();
    assert_eq!((one.instrument[0].assets(), one.instrument[0].steps()), (None, [Some(-6), None]));
    for (more, field, limit) in [
        ("price_step = '0'", "instrument okx/X-Y price_step", "above zero"),
        ("price_step = '-0.1'", "instrument okx/X-Y price_step", "above zero"),
        ("price_step = '1e-19'", "instrument okx/X-Y price_step", "must be -18 to 38"),
        ("quantity_step = '1e-39'", "instrument okx/X-Y quantity_step", "must be -38 to 38"),
        ("quantity_step = '0,01'", "instrument okx/X-Y quantity_step", "not a decimal number"),
        ("", "instrument okx/X-Y", "given with its assets, or a step"),
        ("asset_1 = 'Y'", "instrument okx/X-Y asset_0", "1 to 128 bytes"),
    ] {
        let Err(ConfigError::Limits(problems)) = table(more) else { panic!("{more}") };
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(&*problem.field, field, "{more}");
        assert!(problem.limit.contains(limit), "{problem}");
    }
}

#[test]
fn documented_live_block_is_right_once_uncommented() {
    let (_, block) = Config::documented().split_once("# [[live]]").unwrap();
    let (block, _) = block.split_once("\n\n").unwrap();
    let lines = block.lines().map(|line| line.trim_start_matches("# ")).filter(|line| line.contains(" = "));
    let text = lines.filter(|line| !line.contains("://")).collect::<Vec<_>>().join("\n");
    let config = from_text(&format!("[source]\nkind = 'live'\n[[live]]\n{text}")).unwrap();
    let [live] = &config.live[..] else { panic!("{:?}", config.live) };
    assert_eq!((live.venue, live.legs), (market::Venue::BinanceSpot, 1));
    assert_eq!(live.instruments, ["BTCUSDT", "ETHUSDT"]);
    assert_eq!((&*live.ws_url, &*live.rest_url), ("", ""));
    assert_eq!(from_text(&config.print().unwrap()).unwrap(), config);
}

#[test]
fn live_venues_can_be_given_as_text() {
    let venue = |venue, instruments: &[&str]| Live {
        venue,
        protocol: None,
        instruments: instruments.iter().map(|&symbol| symbol.to_owned()).collect(),
        legs: 2,
        ws_url: "ws://127.0.0.1:9/x".to_owned(),
        rest_url: "http://127.0.0.1:9/y".to_owned(),
        history: History::Every,
    };
    let live =
        [venue(market::Venue::KrakenSpot, &["BTC/USD", "ETH/USD"]), venue(market::Venue::BinanceSpot, &["A\"B"])];
    let overrides = [("source.kind".to_owned(), "live".to_owned()), ("live".to_owned(), live_text(&live).unwrap())];
    assert_eq!(Config::load_with(None, iter::empty(), &overrides).unwrap().live, live);
    let chosen = [Live { protocol: Some(Dialect::Exchange), ..venue(market::Venue::Coinbase, &["BTC-USD"]) }];
    let overrides = [("source.kind".to_owned(), "live".to_owned()), ("live".to_owned(), live_text(&chosen).unwrap())];
    assert_eq!(Config::load_with(None, iter::empty(), &overrides).unwrap().live, chosen);
    for text in ["", "many", "[{ venue = 'kraken_spot' }]", "[{ venue = 'kraken_spot', instruments = [], leg = 1 }]"] {
        let message = from_text(&format!("live = {text:?}")).unwrap_err().to_string();
        assert!(message.contains("live"), "{message}");
    }
}

#[test]
fn a_protocol_is_one_of_the_venue_s() {
    let of = |venue: &str, protocol: &str| {
        let table = format!("[[live]]\nvenue = '{venue}'\ninstruments = ['BTC-USD']\nprotocol = '{protocol}'");
        from_text(&format!("[source]\nkind = 'live'\n{table}"))
    };
    for (name, protocol) in
        [("", None), ("exchange", Some(Dialect::Exchange)), ("advanced_trade", Some(Dialect::AdvancedTrade))]
    {
        let config = of("coinbase", name).unwrap();
        assert_eq!(config.live.iter().map(|live| live.protocol).collect::<Vec<_>>(), [protocol]);
        assert_eq!(config.live.iter().map(|live| live.connection().dialect).collect::<Vec<_>>(), [protocol]);
    }
    let unknown = of("coinbase", "pro").unwrap_err().to_string();
    assert!(unknown.contains("advanced_trade, exchange"), "{unknown}");
    let Err(ConfigError::Limits(problems)) = of("kraken_spot", "exchange") else { panic!("no limits broken") };
    let told: Vec<_> = problems.iter().map(|problem| (&*problem.field, &*problem.limit)).collect();
    assert_eq!(told, [("live kraken_spot protocol", "empty, or one of the venue's: none")]);
}

#[test]
fn live_venues_have_limits() {
    let text = "[source]\nkind = 'live'\n\
        [[live]]\nvenue = 'binance_spot'\ninstruments = ['A', 'A', 'B C', '']\nlegs = 9\nws_url = 'https://x'\n\
        rest_url = 'http://me:hunter2@x'\n\
        [[live]]\nvenue = 'binance_spot'\ninstruments = []";
    let Err(ConfigError::Limits(problems)) = from_text(text) else { panic!("no limits broken") };
    let fields: Vec<_> = problems.iter().map(|problem| &*problem.field).collect();
    let right = [
        "live binance_spot instruments",
        "live binance_spot instruments",
        "live binance_spot instruments",
        "live binance_spot legs",
        "live binance_spot ws_url",
        "live binance_spot rest_url",
        "live binance_spot",
        "live binance_spot instruments (count)",
    ];
    assert_eq!(fields, right);
    assert!(!format!("{problems:?}").contains("hunter2"), "{problems:?}");
    let Err(ConfigError::Limits(problems)) = from_text("[source]\nkind = 'live'") else { panic!("nothing to do") };
    assert_eq!(&*problems[0].field, "live");
}

#[test]
fn a_stream_and_its_snapshots_come_from_one_source() {
    let ws = "ws_url = 'ws://127.0.0.1:9/x'";
    let rest = "rest_url = 'http://127.0.0.1:9/y'";
    let loaded = |venue: &str, urls: &str| {
        from_text(&format!("[source]\nkind = 'live'\n[[live]]\nvenue = '{venue}'\ninstruments = ['A']\n{urls}"))
    };
    for (urls, missing) in [(ws, "rest_url"), (rest, "ws_url")] {
        let Err(ConfigError::Limits(problems)) = loaded("binance_spot", urls) else { panic!("{urls} is taken") };
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(*problem.field, *format!("live binance_spot {missing}"));
        assert!(problem.to_string().contains("come from one source"), "{problem}");
        // A book that comes whole over its stream needs nothing else.
        assert!(loaded("kraken_spot", urls).is_ok(), "{urls}");
    }
    for venue in ["binance_spot", "kraken_spot"] {
        assert!(loaded(venue, "").is_ok() && loaded(venue, &format!("{ws}\n{rest}")).is_ok(), "{venue}");
    }
}

#[test]
fn simulated_books_have_the_levels_that_the_simulator_makes() {
    let levels = |levels: u32| from_text(&format!("[sim]\nbook_levels = {levels}"));
    for right in [LEVELS_MIN, LEVELS_MAX] {
        assert_eq!(levels(right).unwrap().sim.book_levels, right);
    }
    for wrong in [0, LEVELS_MIN - 1, LEVELS_MAX + 1] {
        let message = levels(wrong).unwrap_err().to_string();
        assert_eq!(message, format!("configuration: sim.book_levels = {wrong}: must be 20 to 600"));
    }
}

#[test]
fn unknown_key_is_refused_by_name_and_origin() {
    for text in ["[server]\nprot = 1", "[sever]\nport = 1", "prot = 1"] {
        let message = from_text(text).unwrap_err().to_string();
        let name = if text.contains("sever") { "sever" } else { "prot" };
        assert!(message.contains(name) && message.contains("test.toml"), "{message}");
    }
    let message = from_environment(&[("SPRAG_SERVER__PROT", "1")]).unwrap_err().to_string();
    assert!(message.contains("prot") && message.contains("the environment"), "{message}");
    let message = from_text("[[instrument]]\nvenue='binance_spot'\nsymbol='A'\nasset_0='B'\nasset_2='C'").unwrap_err();
    assert!(message.to_string().contains("asset_2"), "{message}");
}

#[test]
fn wrong_type_names_the_key() {
    let message = from_text("[server]\nport = 70000").unwrap_err().to_string();
    assert!(message.contains("server.port") && message.contains("70000"), "{message}");
    for text in ["70000", "-1", "1.5", "many", ""] {
        let message = from_environment(&[("SPRAG_SERVER__PORT", text)]).unwrap_err().to_string();
        assert!(message.contains("\"server.port\" in the environment"), "{message}");
    }
    let message = from_text("[sim]\nvenues = ['nowhere']").unwrap_err().to_string();
    assert!(message.contains("sim.venues") && message.contains("nowhere"), "{message}");
    let message = from_text("[server\n").unwrap_err().to_string();
    assert!(message.contains("test.toml") && message.contains("line 1"), "{message}");
}

/// The documented block, uncommented.
fn documented_view() -> String {
    let (_, block) = Config::documented().split_once("# [[view]]").unwrap();
    let (block, _) = block.split_once("# [[instrument]]").unwrap();
    let field =
        |line: &&str| ["name = ", "kind = ", "percent = ", "pairs = "].iter().any(|name| line.starts_with(name));
    let lines: Vec<_> = block.lines().map(|line| line.trim_start_matches("# ")).filter(field).collect();
    format!("[[view]]\n{}\n", lines.join("\n"))
}

#[test]
fn documented_view_block_is_right_once_uncommented() {
    let config = from_text(&documented_view()).unwrap();
    let [view] = &config.view[..] else { panic!("{:?}", config.view) };
    assert_eq!((&*view.name, view.kind, view.pairs.len()), ("depth1", ViewKind::ReservesWithin, 2));
    assert_eq!(view.rule().and_then(|rule| rule.band()).map(|band| band.ppm()), Some(10_000));
    assert_eq!(from_text(&config.print().unwrap()).unwrap(), config);
}

#[test]
fn views_are_named_once_and_have_an_exact_width_and_pairs() {
    let problems = |text: &str| -> Vec<String> {
        let Err(ConfigError::Limits(problems)) = from_text(text) else { panic!("right: {text}") };
        problems.iter().map(ToString::to_string).collect()
    };
    let view = |name: &str, rest: &str| format!("[[view]]\nname = '{name}'\npairs = ['*']\n{rest}\n");
    for (percent, why) in
        [("", "empty"), ("0", "not more than 0"), ("100.1", "100"), ("0.00001", "0.0001"), ("x", "not a")]
    {
        let found = problems(&view("a", &format!("kind = 'imbalance_within'\npercent = '{percent}'")));
        assert!(found[0].starts_with("view a percent = ") && found[0].contains(why), "{found:?}");
    }
    assert_eq!(
        problems(&view("s", "kind = 'spread'\npercent = '1'")),
        ["view s percent = \"1\": must be empty for a spread"]
    );
    for name in ["", "Depth", "a b", "a/b", &"x".repeat(65)] {
        assert!(problems(&view(name, "kind = 'spread'"))[0].contains("1 to 64 of a-z, 0-9 and _"), "{name}");
    }
    let twice = view("a", "kind = 'spread'").repeat(2);
    assert_eq!(problems(&twice), ["view a name = given twice: must be given once"]);
    let many: String = (0..33).map(|at| view(&format!("v{at}"), "kind = 'spread'")).collect();
    assert_eq!(problems(&many), ["view (count) = 33: must be 0 to 32"]);
    let pairs = |pairs: &str| format!("[[view]]\nname = 'a'\nkind = 'spread'\npairs = {pairs}");
    assert_eq!(problems(&pairs("[]")), ["view a pairs (count) = 0: must be 1 to 256"]);
    assert_eq!(problems(&pairs("['BTC/USDT', '{']"))[0], "view a pairs = \"{\": must be a glob of 1 to 512 bytes");
    for wrong in ["kind = 'depth'", "kind = 'spread'\nother = 1", ""] {
        assert!(matches!(from_text(&view("a", wrong)), Err(ConfigError::Shape(_))), "{wrong}");
    }
}

#[test]
fn environment_wins_over_the_file_and_the_command_line_over_both() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sprag.toml");
    std::fs::write(&path, "[server]\nport = 1\nring_frames = 8\n[log]\nlevel = 'debug'").unwrap();
    let environment = owned(&[("SPRAG_SERVER__PORT", "2"), ("SPRAG_SERVER__RING_FRAMES", "9"), ("HOME", "/nowhere")]);
    let overrides = owned(&[("server.port", "3")]);
    let config = Config::load_with(Some(&path), environment.into_iter(), &overrides).unwrap();
    assert_eq!((config.server.port, config.server.ring_frames, config.log.level.as_str()), (3, 9, "debug"));
}

#[test]
fn text_from_outside_takes_its_field_s_type() {
    let config = from_environment(&[
        ("SPRAG_STORE__PASSWORD", "0123"),
        ("SPRAG_STORE__ENABLED", "false"),
        ("SPRAG_CAPTURE__FILES", "a.zst, b.zst"),
        ("SPRAG_CAPTURE__VENUE", "kraken_spot"),
        ("SPRAG_CAPTURE__SPEED", "0"),
        ("SPRAG_SOURCE__KIND", "capture"),
        ("SPRAG_SIM__VENUES", "kraken_spot"),
    ])
    .unwrap();
    assert_eq!(config.store.password.reveal(), "0123");
    assert!(!config.store.enabled);
    assert_eq!(config.capture.files, [PathBuf::from("a.zst"), PathBuf::from("b.zst")]);
    assert_eq!((config.capture.venue, config.source.kind), (Some(market::Venue::KrakenSpot), SourceKind::Capture));
    assert_eq!(config.sim.venues, [market::Venue::KrakenSpot]);
}

#[test]
fn aliases_yield_to_the_full_names() {
    let short = [("CLICKHOUSE_URL", "http://db:8123"), ("SPRAG_DATA_DIR", "elsewhere"), ("SPRAG_CORPUS", "corpus")];
    let config = from_environment(&short).unwrap();
    assert_eq!((config.store.url.as_str(), config.data_dir.to_str()), ("http://db:8123", Some("elsewhere")));
    assert!(!config.store.is_embedded());
    let both = [("SPRAG_STORE__URL", "http://full:8123"), ("CLICKHOUSE_URL", "http://short:8123")];
    assert_eq!(from_environment(&both).unwrap().store.url, "http://full:8123");
}

#[test]
fn missing_file_is_named() {
    let message = Config::load_with(Some(Path::new("no/such.toml")), iter::empty(), &[]).unwrap_err().to_string();
    assert!(message.contains("no/such.toml"), "{message}");
}

#[test]
fn every_limit_is_checked_and_named() {
    let text = "data_dir = ''\n\
        [server]\nhost = 'a b'\nmax_terminals = 0\nring_bytes = 1\n\
        [http]\nwaiting_max = 65537\nstore_questions_max = 0\nstore_timeout_ms = 99\n\
        [pipeline]\nworkers = 65\ncuts_per_frame = 7\nfrontier_exit_ms = 2000\n\
        [source]\nkind = 'capture'\n\
        [sim]\npairs = 0\nvenues = []\n\
        [capture]\nspeed = -1.0\n\
        [store]\nurl = 'ftp://x'\ndatabase = '1; DROP'\npending_bytes = 1\nengine_memory_bytes = 1\n\
        [log]\nlevel = 'inof'\n\
        [[instrument]]\nvenue = 'binance_spot'\nsymbol = 'X'\nasset_0 = 'A'\nasset_1 = 'A'";
    let Err(ConfigError::Limits(problems)) = from_text(text) else { panic!("no limits broken") };
    let fields: Vec<_> = problems.iter().map(|problem| &*problem.field).collect();
    assert_eq!(
        fields,
        [
            "data_dir",
            "server.host",
            "server.max_terminals",
            "server.ring_bytes",
            "http.waiting_max",
            "http.store_questions_max",
            "http.store_timeout_ms",
            "pipeline.workers",
            "pipeline.cuts_per_frame",
            "pipeline.frontier_exit_ms",
            "sim.pairs",
            "sim.venues",
            "capture.speed",
            "capture.files",
            "capture.venue",
            "store.url",
            "store.database",
            "store.pending_bytes",
            "store.engine_memory_bytes",
            "log.level",
            "instrument binance_spot/X asset_1",
        ]
    );
    assert_eq!(problems[2].to_string(), "server.max_terminals = 0: must be 1 to 100000");
}

#[test]
fn infinite_and_undefined_speeds_are_refused() {
    for speed in ["nan", "inf", "-inf"] {
        let message = from_text(&format!("[capture]\nspeed = {speed}")).unwrap_err().to_string();
        assert!(message.contains("capture.speed"), "{message}");
    }
}

#[test]
fn print_hides_secrets_and_reads_back() {
    let mut config = Config::default();
    assert_eq!(from_text(&config.print().unwrap()).unwrap(), config);
    config.store.password = Secret::from("hunter2");
    config.store.url = "http://me:hunter2@db:8123".to_owned();
    let shown = format!("{}{config:?}", config.print().unwrap());
    assert!(shown.contains(MASK));
    assert!(!config.print().unwrap().contains("hunter2"));
    assert!(!format!("{:?}", config.store.password).contains("hunter2"));
    let problems = config.check().unwrap_err();
    assert!(!format!("{problems:?}").contains("hunter2"), "{problems:?}");
}

#[test]
fn a_password_given_wrongly_is_not_repeated() {
    for text in ["[store]\npassword = 424242", "[store]\npassword = \"424242", "[store]\npassword = ['424242']"] {
        let error = from_text(text).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("test.toml") && !format!("{message}{error:?}").contains("424242"), "{error:?}");
    }
}

#[test]
fn a_cut_is_four_milliseconds_by_default() {
    assert_eq!(Config::default().pipeline.cut(), std::time::Duration::from_millis(4));
}

#[test]
fn history_by_frames_is_a_venues_own_and_never_a_batch_streams() {
    let live = "[source]\nkind = 'live'\n[[live]]\nvenue = 'kraken_spot'\ninstruments = ['BTC/USD']\nhistory = 'frames'\n\
                [[live]]\nvenue = 'okx'\ninstruments = ['BTC-USDT']";
    let frames = from_text(live).unwrap().frame_history().unwrap();
    assert_eq!((frames.venues, frames.frame_ns), (vec![market::Venue::KrakenSpot], 40_000_000));
    let sim = from_text("[sim]\nhistory = 'frames'\n[capture]\nhistory = 'frames'").unwrap();
    assert_eq!(sim.frame_history().unwrap().venues, sim.sim.venues);
    assert_eq!(Config::default().frame_history(), None);
    for text in [
        "[pubsub]\nhistory = 'frames'",
        "[capture]\nvenue = 'neutron_dex'\nhistory = 'frames'",
        "[sim]\nhistory = 'few'",
    ] {
        assert!(from_text(text).is_err(), "{text}");
    }
}
