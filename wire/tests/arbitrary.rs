//! Arbitrary messages within what the wire allows.
//!
//! Never: a message that the encoder would refuse.

use market::{
    Best, BestSide, Feed, FeedState, Flags, Level, LevelChange, Quote, Scale, Side, Trade, U256, Venue, Version,
    ViewRule, ViewValue,
    quote::Exact,
    view::{Band, Imbalance, SignedExact, ViewNumber, WHOLE_PPM},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use wire::{
    Answer, BestBlock, Block, BookDelta, BookSnapshot, ChainKind, Channel, Dictionary, DictionaryInstrument,
    DictionaryPair, DigestBlock, ErrorCode, Frame, Gap, Hello, ListedView, QuoteBlock, Resync, ServerError,
    StatusBlock, Subscription, SubscriptionItem, ToServer, ToTerminal, TradesBlock, ViewBlock, ViewList, sort_changes,
};

/// Numbers with the ones that break others: beyond 2^53, and the limits.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..300_u64, select(vec![u64::MAX, 8_389_765_929_445_198_309, 9_007_199_254_740_993])]
}

fn price() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -300..300_i64, select(vec![i64::MIN, i64::MAX])]
}

fn quantity() -> impl Strategy<Value = U256> {
    prop_oneof![
        any::<[u64; 4]>().prop_map(U256::from_limbs),
        number().prop_map(U256::from),
        Just(U256::MAX),
        Just(U256::ZERO)
    ]
}

fn level() -> impl Strategy<Value = Level> {
    (price(), quantity()).prop_map(|(tick_index, quantity)| Level { tick_index, quantity: quantity.max(U256::ONE) })
}

fn version() -> impl Strategy<Value = Version> {
    (number(), number()).prop_map(|(epoch, seq)| Version::new(epoch, seq))
}

fn scale() -> impl Strategy<Value = Scale> {
    (any::<i8>(), any::<i8>()).prop_map(|(price, quantity)| Scale { price, quantity })
}

fn feed() -> impl Strategy<Value = Feed> {
    (select(FeedState::ALL.to_vec()), 0..16_u8)
        .prop_map(|(state, bits)| Feed { state, flags: Flags::from_bits(bits).unwrap_or_default() })
}

fn side() -> impl Strategy<Value = Side> {
    select(Side::BOTH.to_vec())
}

fn levels(side: Side) -> impl Strategy<Value = Vec<Level>> {
    vec(level(), 0..20).prop_map(move |mut levels| {
        levels.sort_by_key(|level| std::cmp::Reverse(side.rank(level.tick_index)));
        levels.dedup_by_key(|level| level.tick_index);
        levels
    })
}

fn snapshot() -> impl Strategy<Value = Block> {
    let head = (any::<u32>(), version(), scale(), feed(), number());
    let horizon = (option::of(price()), option::of(price()));
    (head, horizon, levels(Side::Bid), levels(Side::Ask)).prop_map(
        |((id, version, scale, feed, age_ms), horizon, bids, asks)| {
            Block::BookSnapshot(BookSnapshot { id, version, scale, feed, age_ms, horizon: horizon.into(), bids, asks })
        },
    )
}

fn delta() -> impl Strategy<Value = Block> {
    let change = (side(), price(), quantity())
        .prop_map(|(side, tick_index, quantity)| LevelChange { side, level: Level { tick_index, quantity } });
    let changes = vec(change, 0..20).prop_map(|mut changes| {
        sort_changes(&mut changes);
        changes.dedup_by_key(|change| (change.side, change.level.tick_index));
        changes
    });
    let versions = (version(), version()).prop_filter_map("a delta leads on", |(a, b)| match a.cmp(&b) {
        std::cmp::Ordering::Less => Some((a, b)),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some((b, a)),
    });
    (any::<u32>(), versions, feed(), changes).prop_map(|(id, (base, version), feed, changes)| {
        Block::BookDelta(BookDelta { id, base, version, feed, changes })
    })
}

fn trade() -> impl Strategy<Value = Trade> {
    let id = option::of("[a-z0-9]{0,64}");
    (id, number(), price(), quantity(), side(), number()).prop_map(
        |(id, order, tick_index, quantity, taker, venue_ns)| {
            let id = id.unwrap_or_else(|| order.to_string()).into();
            Trade { id, order, tick_index, quantity, taker, venue_ns }
        },
    )
}

fn exact() -> impl Strategy<Value = Exact> {
    (quantity(), any::<i8>()).prop_map(|(steps, exponent)| Exact::new(steps, exponent))
}

fn view() -> impl Strategy<Value = Block> {
    let number = prop_oneof![
        (exact(), exact()).prop_map(|(bids, asks)| ViewNumber::Reserves { bids, asks }),
        (-1_000_000..=1_000_000).prop_filter_map("within the whole", Imbalance::of_ppm).prop_map(ViewNumber::Imbalance),
        (any::<bool>(), exact()).prop_map(|(negative, size)| ViewNumber::Spread(SignedExact::new(negative, size))),
        Just(ViewNumber::Nothing),
        Just(ViewNumber::Overflow),
    ];
    let value = (number, any::<bool>(), any::<u32>()).prop_map(|(number, partial, instruments)| ViewValue {
        number,
        partial,
        instruments,
    });
    (any::<u32>(), option::of(value)).prop_map(|(id, value)| Block::View(ViewBlock { id, value }))
}

fn views() -> impl Strategy<Value = ViewList> {
    let band = || (1..=WHOLE_PPM).prop_filter_map("a width", Band::of_ppm);
    let rule = prop_oneof![
        band().prop_map(ViewRule::ReservesWithin),
        band().prop_map(ViewRule::ImbalanceWithin),
        Just(ViewRule::Spread)
    ];
    let view = (".{0,12}", rule).prop_map(|(name, rule)| ListedView { name: name.into(), rule });
    (number(), vec(view, 0..6)).prop_map(|(generation, views)| ViewList { generation, views })
}

fn best_side() -> impl Strategy<Value = BestSide> {
    (exact(), exact(), select(Venue::ALL.to_vec())).prop_map(|(price, quantity, venue)| BestSide {
        price,
        quantity,
        venue,
    })
}

fn block() -> impl Strategy<Value = Block> {
    let quote = (any::<u32>(), version(), scale(), option::of(level()), option::of(level()), feed(), number())
        .prop_map(|(id, version, scale, bid, ask, feed, age_ms)| {
            Block::Quote(QuoteBlock { id, version, scale, quote: Quote { bid, ask }, feed, age_ms })
        });
    let trades = (any::<u32>(), scale(), vec(trade(), 0..5))
        .prop_map(|(id, scale, trades)| Block::Trades(TradesBlock { id, scale, trades }));
    let best = (any::<u32>(), option::of(best_side()), option::of(best_side()))
        .prop_map(|(pair, bid, ask)| Block::Best(BestBlock { pair, best: Best { bid, ask } }));
    let status = (any::<u32>(), option::of(version()), feed(), number())
        .prop_map(|(id, version, feed, age_ms)| Block::Status(StatusBlock { id, version, feed, age_ms }));
    let digest = (any::<u32>(), version(), any::<u32>())
        .prop_map(|(id, version, crc)| Block::Digest(DigestBlock { id, version, crc }));
    prop_oneof![snapshot(), delta(), quote, trades, best, status, digest, view()]
}

fn entries() -> impl Strategy<Value = Vec<(Channel, u32)>> {
    vec((select(Channel::ALL.to_vec()), any::<u32>()), 0..10)
}

fn dictionary() -> impl Strategy<Value = Dictionary> {
    let text = || ".{0,12}".prop_map(String::into_boxed_str);
    let instruments = vec((select(Venue::ALL.to_vec()), text(), text(), text(), any::<u32>()), 0..5);
    let pairs = vec((text(), text()), 0..5);
    (number(), 0..u32::MAX - 5, instruments, pairs).prop_map(|(generation, first, instruments, pairs)| Dictionary {
        generation,
        instruments: (first..)
            .zip(instruments)
            .map(|(id, (venue, symbol, asset_0, asset_1, pair))| DictionaryInstrument {
                id,
                venue,
                symbol,
                asset_0,
                asset_1,
                pair,
            })
            .collect(),
        pairs: (first..).zip(pairs).map(|(id, (asset_0, asset_1))| DictionaryPair { id, asset_0, asset_1 }).collect(),
    })
}

/// Any message to a terminal.
pub(crate) fn to_terminal() -> impl Strategy<Value = ToTerminal> {
    let hello = (any::<u16>(), number(), ".{0,20}", any::<u16>(), any::<u32>(), any::<bool>()).prop_map(
        |(wire_version, generation, build, frame_ms, heartbeat_ms, simulated)| {
            let build = build.into();
            ToTerminal::Hello(Hello { wire_version, generation, build, frame_ms, heartbeat_ms, simulated })
        },
    );
    let chain = select(vec![ChainKind::Conflated, ChainKind::Priority]);
    let frame = (chain, number(), number(), vec(block(), 0..6))
        .prop_map(|(chain, frame, at_ms, blocks)| ToTerminal::Frame(Frame { chain, frame, at_ms, blocks }));
    let answer = any::<(u32, u32)>().prop_map(|(request, matched)| ToTerminal::Answer(Answer { request, matched }));
    let error = (option::of(any::<u32>()), select(ErrorCode::ALL.to_vec()), ".{0,40}")
        .prop_map(|(request, code, text)| ToTerminal::Error(ServerError { request, code, text: text.into() }));
    let gap = entries().prop_map(|entries| ToTerminal::Gap(Gap { entries }));
    prop_oneof![1 => hello, 1 => dictionary().prop_map(ToTerminal::Dictionary), 4 => frame, 1 => answer, 1 => error, 1 => gap, 1 => views().prop_map(ToTerminal::Views)]
}

/// Any message to the server.
pub(crate) fn to_server() -> impl Strategy<Value = ToServer> {
    let item = (select(Channel::ALL.to_vec()), ".{0,30}")
        .prop_map(|(channel, pattern)| SubscriptionItem { channel, pattern: pattern.into() });
    let subscription = (any::<u32>(), vec(item, 0..6), any::<bool>()).prop_map(|(request, items, add)| {
        let subscription = Subscription { request, items };
        if add { ToServer::Subscribe(subscription) } else { ToServer::Unsubscribe(subscription) }
    });
    prop_oneof![subscription, entries().prop_map(|items| ToServer::Resync(Resync { items }))]
}
