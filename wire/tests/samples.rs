//! One sample of everything that the wire can say, the extremes included; the golden files are their bytes.
//!
//! Never: a changed sample of a released version; new ones are added.

use market::{
    Best, BestSide, Feed, FeedState, Flags, Level, LevelChange, Quote, Scale, Side, Trade, U256, Venue, Version,
    ViewRule, ViewValue,
    quote::Exact,
    view::{Band, Imbalance, SignedExact, ViewNumber},
};
use wire::{
    Answer, BestBlock, Block, BookDelta, BookSnapshot, ChainKind, Channel, Dictionary, DictionaryInstrument,
    DictionaryPair, DigestBlock, ErrorCode, Frame, Gap, Hello, ListedView, QuoteBlock, Resync, ServerError,
    StatusBlock, Subscription, SubscriptionItem, ToServer, ToTerminal, TradesBlock, ViewBlock, ViewList,
};

/// A message of either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Server to terminal.
    ToTerminal(ToTerminal),
    /// Terminal to server.
    ToServer(ToServer),
}

/// A named message.
pub(crate) struct Sample {
    /// Name of the golden file, without its ending.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) description: &'static str,
    /// The message.
    pub(crate) message: Message,
}

impl Message {
    /// Its bytes.
    pub(crate) fn encode(&self) -> bytes::Bytes {
        match self {
            Self::ToTerminal(message) => message.encode().unwrap(),
            Self::ToServer(message) => message.encode().unwrap(),
        }
    }

    /// The message of the bytes, in the direction of this one.
    pub(crate) fn decode_like(&self, bytes: &[u8]) -> Result<Self, wire::DecodeError> {
        match self {
            Self::ToTerminal(_) => ToTerminal::decode(bytes).map(Self::ToTerminal),
            Self::ToServer(_) => ToServer::decode(bytes).map(Self::ToServer),
        }
    }
}

const SCALE: Scale = Scale { price: -2, quantity: -8 };
const AT_MS: u64 = 1_717_430_400_040;

pub(crate) fn live() -> Feed {
    Feed { state: FeedState::Live, flags: Flags::default() }
}

pub(crate) fn level(tick_index: i64, quantity: u64) -> Level {
    Level { tick_index, quantity: U256::from(quantity) }
}

pub(crate) fn change(side: Side, tick_index: i64, quantity: u64) -> LevelChange {
    LevelChange { side, level: level(tick_index, quantity) }
}

fn frame(blocks: Vec<Block>) -> Message {
    Message::ToTerminal(ToTerminal::Frame(Frame { chain: ChainKind::Conflated, frame: 4_711, at_ms: AT_MS, blocks }))
}

fn sample(name: &'static str, description: &'static str, message: Message) -> Sample {
    Sample { name, description, message }
}

/// Every sample.
pub(crate) fn samples() -> Vec<Sample> {
    [opening(), books(), market_data(), small(), requests(), powers(), views()].into_iter().flatten().collect()
}

fn opening() -> Vec<Sample> {
    let hello = Hello {
        wire_version: 1,
        generation: 9_007_199_254_740_993,
        build: "sprag 0.1.0".into(),
        frame_ms: 40,
        heartbeat_ms: 1_000,
        simulated: false,
    };
    let instrument = |id, venue, symbol: &str, asset_0: &str, asset_1: &str, pair| DictionaryInstrument {
        id,
        venue,
        symbol: symbol.into(),
        asset_0: asset_0.into(),
        asset_1: asset_1.into(),
        pair,
    };
    let dictionary = Dictionary {
        generation: hello.generation,
        instruments: vec![
            instrument(0, Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT", 0),
            instrument(1, Venue::KrakenSpot, "XBT/USDT", "XBT", "USDT", 0),
        ],
        pairs: vec![DictionaryPair { id: 0, asset_0: "BTC".into(), asset_1: "USDT".into() }],
    };
    let additions = Dictionary {
        generation: hello.generation,
        instruments: vec![instrument(2, Venue::BinanceSpot, "ΔUSDT", "Δ", "USDT", 1)],
        pairs: vec![DictionaryPair { id: 1, asset_0: "Δ".into(), asset_1: "USDT".into() }],
    };
    let extreme = Hello {
        wire_version: u16::MAX,
        generation: u64::MAX,
        build: "".into(),
        frame_ms: u16::MAX,
        heartbeat_ms: u32::MAX,
        simulated: true,
    };
    let terminal = Message::ToTerminal;
    vec![
        sample("hello", "the first message, a generation beyond 2^53", terminal(ToTerminal::Hello(hello))),
        sample("hello-extremes", "every field at its limit, simulated", terminal(ToTerminal::Hello(extreme))),
        sample("dictionary", "two instruments of one pair", terminal(ToTerminal::Dictionary(dictionary))),
        sample(
            "dictionary-additions",
            "later entries, dense from their first number; a symbol beyond ASCII",
            terminal(ToTerminal::Dictionary(additions)),
        ),
        sample("heartbeat", "a frame without blocks", frame(vec![])),
    ]
}

/// A book of three levels a side whose bids have a horizon.
pub(crate) fn snapshot() -> BookSnapshot {
    BookSnapshot {
        id: 0,
        version: Version::new(1, 52_478_818_287),
        scale: SCALE,
        feed: live(),
        age_ms: 12,
        horizon: [Some(6_173_700), None],
        bids: vec![level(6_173_763, 50_000_000), level(6_173_762, 1_250_000), level(6_173_700, 300)],
        asks: vec![level(6_173_764, 75_000_000), level(6_173_800, 100_000_000), level(6_174_000, 1)],
    }
}

/// The delta that follows it.
pub(crate) fn delta() -> BookDelta {
    BookDelta {
        id: 0,
        base: Version::new(1, 52_478_818_287),
        version: Version::new(1, 52_478_818_331),
        feed: live(),
        changes: vec![
            change(Side::Bid, 6_173_700, 0),
            change(Side::Bid, 6_173_763, 48_000_000),
            change(Side::Ask, 6_173_764, 0),
            change(Side::Ask, 6_173_765, 20_000_000),
        ],
    }
}

fn books() -> Vec<Sample> {
    let empty = BookSnapshot { horizon: [None, None], bids: vec![], asks: vec![], ..snapshot() };
    let all = Flags { crossed: true, locked: true, one_sided: true, exhausted: true };
    let extreme = BookSnapshot {
        id: u32::MAX,
        version: Version::new(u64::MAX, u64::MAX),
        scale: Scale { price: i8::MIN, quantity: i8::MAX },
        feed: Feed { state: FeedState::Gapped, flags: all },
        age_ms: u64::MAX,
        horizon: [Some(i64::MIN), Some(i64::MAX)],
        bids: vec![Level { tick_index: i64::MAX, quantity: U256::MAX }, level(i64::MIN, 1)],
        asks: vec![level(i64::MIN, u64::MAX), Level { tick_index: i64::MAX, quantity: U256::MAX }],
    };
    let epoch = BookDelta {
        id: 1,
        base: Version::new(1, u64::MAX),
        version: Version::new(2, 8_389_765_929_445_198_309),
        feed: Feed { state: FeedState::Stale, flags: Flags { one_sided: true, ..Flags::default() } },
        changes: vec![change(Side::Ask, i64::MIN, 0), change(Side::Ask, i64::MAX, u64::MAX)],
    };
    let unchanged = BookDelta { changes: vec![], ..delta() };
    let priority =
        Frame { chain: ChainKind::Priority, frame: u64::MAX, at_ms: AT_MS, blocks: vec![Block::BookDelta(delta())] };
    vec![
        sample("snapshot", "three levels a side, bids with a horizon", frame(vec![Block::BookSnapshot(snapshot())])),
        sample("snapshot-empty", "an explicit empty book", frame(vec![Block::BookSnapshot(empty)])),
        sample("snapshot-extremes", "every number at its limit", frame(vec![Block::BookSnapshot(extreme)])),
        sample("delta", "two removals and two new quantities", frame(vec![Block::BookDelta(delta())])),
        sample("delta-unchanged", "only the version moves", frame(vec![Block::BookDelta(unchanged)])),
        sample("delta-epoch", "a step into the next epoch, to a lower sequence", frame(vec![Block::BookDelta(epoch)])),
        sample(
            "priority-delta",
            "the same delta on the priority chain",
            Message::ToTerminal(ToTerminal::Frame(priority)),
        ),
    ]
}

/// A quote of both sides.
pub(crate) fn quote() -> QuoteBlock {
    QuoteBlock {
        id: 0,
        version: Version::new(1, 52_478_818_331),
        scale: SCALE,
        quote: Quote { bid: Some(level(6_173_763, 48_000_000)), ask: Some(level(6_173_765, 20_000_000)) },
        feed: live(),
        age_ms: 3,
    }
}

/// Trades with ids that no 53-bit or 64-bit number holds.
pub(crate) fn trades() -> TradesBlock {
    let trade = |id: &str, order, tick_index, quantity, taker, venue_ns| Trade {
        id: id.into(),
        order,
        tick_index,
        quantity,
        taker,
        venue_ns,
    };
    let (one, day) = (U256::from(1_u64), 1_717_430_400_000_000_000);
    TradesBlock {
        id: 0,
        scale: SCALE,
        trades: vec![
            trade("3624000011", 3_624_000_011, 6_173_764, U256::from(150_000_u64), Side::Bid, day),
            trade("3624000012", 3_624_000_012, 6_173_763, one, Side::Ask, day + 1_000_000),
            trade("8389765929445198309", 8_389_765_929_445_198_309, i64::MIN, U256::MAX, Side::Bid, u64::MAX),
            trade("100155647470219567721", 9_007_199_254_740_993, i64::MAX, one, Side::Ask, 0),
        ],
    }
}

/// The digest of [`snapshot`].
pub(crate) fn digest() -> DigestBlock {
    let book = snapshot();
    let crc = wire::digest_of(book.scale, book.bids.iter().copied(), book.asks.iter().copied()).unwrap();
    DigestBlock { id: book.id, version: book.version, crc }
}

/// A best of two venues.
pub(crate) fn best() -> BestBlock {
    let exact = |steps: u64, exponent| Exact::new(U256::from(steps), exponent);
    let bid = BestSide { price: exact(6_173_763, -2), quantity: exact(48, -2), venue: Venue::BinanceSpot };
    let ask = BestSide { price: exact(61_738, 0), quantity: exact(5, -1), venue: Venue::KrakenSpot };
    BestBlock { pair: 0, best: Best { bid: Some(bid), ask: Some(ask) } }
}

fn market_data() -> Vec<Sample> {
    let one_sided = QuoteBlock {
        quote: Quote { bid: None, ask: Some(Level { tick_index: -5, quantity: U256::MAX }) },
        feed: Feed { state: FeedState::Live, flags: Flags { one_sided: true, ..Flags::default() } },
        ..quote()
    };
    let status = |version, state, age_ms| {
        Block::Status(StatusBlock { id: 1, version, feed: Feed { state, flags: Flags::default() }, age_ms })
    };
    let wide = BestSide { price: Exact::new(U256::MAX, -38), quantity: Exact::new(U256::MAX, 38), ..bid_of(best()) };
    let half = BestBlock { pair: u32::MAX, best: Best { bid: Some(wide), ask: None } };
    let mixed = vec![
        Block::BookDelta(delta()),
        Block::Quote(quote()),
        Block::Trades(trades()),
        Block::Best(best()),
        status(Some(Version::new(1, 7)), FeedState::Stale, 2_000),
    ];
    vec![
        sample("quote", "both sides", frame(vec![Block::Quote(quote())])),
        sample("quote-one-sided", "no bid, a negative price, all 256 bits", frame(vec![Block::Quote(one_sided)])),
        sample("trades", "ids beyond 2^53 and 2^64", frame(vec![Block::Trades(trades())])),
        sample("best", "bid and ask of two venues", frame(vec![Block::Best(best())])),
        sample("best-one-sided", "no ask, numbers of 256 bits", frame(vec![Block::Best(half)])),
        sample("status-syncing", "no book yet", frame(vec![status(None, FeedState::Syncing, 0)])),
        sample("status-stale", "an old book", frame(vec![status(Some(Version::new(3, 9)), FeedState::Stale, 61_000)])),
        sample("digest", "of the book that `snapshot` shows", frame(vec![Block::Digest(digest())])),
        sample(
            "digest-empty",
            "of an explicit empty book, in steps of 1",
            frame(vec![Block::Digest(digest_of_nothing())]),
        ),
        sample("frame-mixed", "every small block in one frame", frame(mixed)),
    ]
}

fn digest_of_nothing() -> DigestBlock {
    let (none, scale) = (|| std::iter::empty(), Scale { price: 0, quantity: 0 });
    let crc = wire::digest_of(scale, none(), none()).unwrap();
    DigestBlock { id: 1, version: Version::new(u64::MAX, u64::MAX), crc }
}

fn bid_of(block: BestBlock) -> BestSide {
    block.best.bid.unwrap()
}

const ATOM: &str = "ibc/C4CFF46FD6DE35CA4CF4CE031E643C8FDC9BA4B99AE598E9B0ED98FE3A2319F9";

/// A book of a venue whose prices are powers, its quantities in steps of 10^-27.
fn dex() -> BookSnapshot {
    let level = |tick_index, quantity: &str| Level { tick_index, quantity: quantity.parse().unwrap() };
    BookSnapshot {
        id: 3,
        version: Version::new(1, (12_345_678 << 30) | 41),
        scale: Scale { price: market::scale::PRICE_POWERS, quantity: -27 },
        feed: live(),
        age_ms: 1_100,
        horizon: [None, None],
        bids: vec![
            level(26_040, "1999999999999999999999999999999999999"),
            level(26_035, "1"),
            Level { tick_index: -559_680, quantity: U256::MAX },
        ],
        asks: vec![level(26_041, "250000000000000000000000000"), level(559_680, "1000000000000000000000000000")],
    }
}

fn powers() -> Vec<Sample> {
    let instrument = DictionaryInstrument {
        id: 3,
        venue: Venue::NeutronDex,
        symbol: format!("{ATOM}<>untrn").into(),
        asset_0: ATOM.into(),
        asset_1: "untrn".into(),
        pair: 2,
    };
    let pair = DictionaryPair { id: 2, asset_0: ATOM.into(), asset_1: "untrn".into() };
    let dictionary = Dictionary { generation: 9_007_199_254_740_993, instruments: vec![instrument], pairs: vec![pair] };
    let book = dex();
    let crc = wire::digest_of(book.scale, book.bids.iter().copied(), book.asks.iter().copied()).unwrap();
    let delta = BookDelta {
        id: book.id,
        base: book.version,
        version: Version::new(1, 12_345_679 << 30),
        feed: live(),
        changes: vec![change(Side::Bid, 26_035, 0), change(Side::Ask, 26_041, u64::MAX)],
    };
    let quote = Quote { bid: book.bids.first().copied(), ask: book.asks.first().copied() };
    let (version, scale) = (book.version, book.scale);
    let quote = QuoteBlock { id: book.id, version, scale, quote, feed: live(), age_ms: 0 };
    let digest = Block::Digest(DigestBlock { id: book.id, version, crc });
    let item = SubscriptionItem { channel: Channel::Book, pattern: format!("neutron_dex/{ATOM}<>untrn").into() };
    let longest = format!("neutron_dex/{{{},b}}<>*", "a".repeat(wire::bounds::PATTERN_BYTES_MAX - 19));
    let longest = SubscriptionItem { channel: Channel::Quote, pattern: longest.into() };
    let subscription = Subscription { request: 8, items: vec![item, longest] };
    vec![
        sample(
            "dex-dictionary",
            "a symbol of two denominations, one with a slash",
            Message::ToTerminal(ToTerminal::Dictionary(dictionary)),
        ),
        sample(
            "dex-snapshot",
            "prices that are powers of 1.0001, quantities in steps of 10^-27",
            frame(vec![Block::BookSnapshot(book)]),
        ),
        sample(
            "dex-frame",
            "delta, quote and digest of prices that are powers",
            frame(vec![Block::BookDelta(delta), Block::Quote(quote), digest]),
        ),
        sample(
            "dex-subscribe",
            "an exact name with a slash and brackets, and the longest pattern",
            Message::ToServer(ToServer::Subscribe(subscription)),
        ),
    ]
}

fn views() -> Vec<Sample> {
    let exact = |steps: u64, exponent| Exact::new(U256::from(steps), exponent);
    let band = |ppm| Band::of_ppm(ppm).unwrap();
    let listed = |name: &str, rule| ListedView { name: name.into(), rule };
    let list = ViewList {
        generation: 9_007_199_254_740_993,
        views: vec![
            listed("depth1", ViewRule::ReservesWithin(band(10_000))),
            listed("tilt", ViewRule::ImbalanceWithin(band(1_000_000))),
            listed("spread", ViewRule::Spread),
        ],
    };
    let longest = "v".repeat(wire::bounds::VIEW_NAME_BYTES_MAX);
    let most = ViewList { generation: u64::MAX, views: vec![listed(&longest, ViewRule::ReservesWithin(band(1)))] };
    let none = ViewList { generation: 0, views: vec![] };
    let value = |number, partial, instruments| Some(ViewValue { number, partial, instruments });
    let block = |id, value| Block::View(ViewBlock { id, value });
    let spread = |negative, size| ViewNumber::Spread(SignedExact::new(negative, size));
    let reserves = ViewNumber::Reserves { bids: exact(125, -1), asks: exact(3, 0) };
    let wide = ViewNumber::Reserves { bids: Exact::new(U256::MAX, -38), asks: Exact::new(U256::MAX, 38) };
    let imbalance = |ppm| ViewNumber::Imbalance(Imbalance::of_ppm(ppm).unwrap());
    let all = vec![
        block(0, None),
        block(1, value(imbalance(-250_000), false, 2)),
        block(1, value(imbalance(1_000_000), true, 1)),
        block(2, value(spread(true, exact(1, -1)), false, 3)),
        block(2, value(spread(false, exact(0, 0)), false, 2)),
        block(34, value(ViewNumber::Nothing, false, 1)),
        block(33, value(ViewNumber::Overflow, true, 2)),
        block(u32::MAX, value(wide, true, u32::MAX)),
    ];
    let items = vec![
        SubscriptionItem { channel: Channel::View, pattern: "depth1/BTC/USDT".into() },
        SubscriptionItem { channel: Channel::View, pattern: "*/ETH/*".into() },
    ];
    let terminal = Message::ToTerminal;
    vec![
        sample("views", "one of each kind", terminal(ToTerminal::Views(list))),
        sample("views-extremes", "the longest name, the least width", terminal(ToTerminal::Views(most))),
        sample("views-none", "a server without standing views", terminal(ToTerminal::Views(none))),
        sample(
            "view",
            "reserves of pair 3 in view 0, of two books, partial",
            frame(vec![block(96, value(reserves, true, 2))]),
        ),
        sample("view-kinds", "every kind of value, the extremes included", frame(all)),
        sample(
            "view-subscribe",
            "a view of a pair, and all views of some",
            Message::ToServer(ToServer::Subscribe(Subscription { request: 9, items })),
        ),
        sample(
            "view-gap",
            "a view of a pair lost frames",
            terminal(ToTerminal::Gap(Gap { entries: vec![(Channel::View, 96)] })),
        ),
        sample(
            "view-resync",
            "the view of a pair again",
            Message::ToServer(ToServer::Resync(Resync { items: vec![(Channel::View, 96)] })),
        ),
    ]
}

fn small() -> Vec<Sample> {
    let terminal = Message::ToTerminal;
    let error = |request, code, text: &str| ToTerminal::Error(ServerError { request, code, text: text.into() });
    let entries = vec![(Channel::Book, 0), (Channel::Quote, u32::MAX), (Channel::Best, 0)];
    vec![
        sample("answer", "a request matched 300", terminal(ToTerminal::Answer(Answer { request: 7, matched: 300 }))),
        sample("error", "a refused request", terminal(error(Some(8), ErrorCode::PatternInvalid, "unclosed class"))),
        sample("error-connection", "an error of no request", terminal(error(None, ErrorCode::Malformed, ""))),
        sample("gap", "three chains lost frames", terminal(ToTerminal::Gap(Gap { entries }))),
    ]
}

fn requests() -> Vec<Sample> {
    let item = |channel, pattern: &str| SubscriptionItem { channel, pattern: pattern.into() };
    let items = vec![
        item(Channel::Book, "binance_spot/BTC*"),
        item(Channel::Priority, "kraken_spot/XBT/USDT"),
        item(Channel::Trades, "*/*"),
        item(Channel::Best, "BTC/USDT"),
        item(Channel::Status, "*"),
        item(Channel::Digest, "binance_spot/BTC*"),
    ];
    let quote = vec![item(Channel::Quote, "*")];
    let server = Message::ToServer;
    vec![
        sample("subscribe", "six channels", server(ToServer::Subscribe(Subscription { request: 7, items }))),
        sample(
            "unsubscribe",
            "one item, the greatest request number",
            server(ToServer::Unsubscribe(Subscription { request: u32::MAX, items: quote })),
        ),
        sample(
            "resync",
            "two chains",
            server(ToServer::Resync(Resync { items: vec![(Channel::Book, 300), (Channel::Priority, 1)] })),
        ),
    ]
}
