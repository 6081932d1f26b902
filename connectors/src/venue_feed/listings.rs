//! Listings: how a venue's symbol becomes an instrument with assets, in which steps its numbers begin, and in which epoch
//! its first book opens.
//!
//! Never: a guess about a symbol that no rule splits; it is refused by name.

use super::{Undecodable, assets, excerpt, number};
use crate::live::protocol::Listed;
use foldhash::{HashMap, HashSet};
use market::{
    Body, Directory, Event, Instrument, LegId, Listing, PairId, PairViews, Scale, Tranches, Venue, Views,
    feed::SILENT_INTERVALS,
};
use std::{borrow::Cow, sync::Arc};

/// Longest symbol taken from a venue, in bytes: two on-chain denominations of 128, and what stands between them.
pub const SYMBOL_BYTES_MAX: usize = 264;

/// Quote assets by which a symbol without separator is split, tried longest first.
const QUOTE_ASSETS: [&str; 40] = [
    "FDUSD", "USDT", "USDC", "TUSD", "BUSD", "USDS", "USDP", "USD1", "EURI", "AEUR", "IDRT", "BIDR", "BVND", "BKRW",
    "DOGE", "GYEN", "BTC", "ETH", "BNB", "TRY", "EUR", "GBP", "BRL", "RUB", "AUD", "UAH", "NGN", "ZAR", "DAI", "PAX",
    "XRP", "TRX", "DOT", "VAI", "PLN", "RON", "ARS", "JPY", "MXN", "USD",
];

/// Warnings about steps that cannot be taken; the count goes on.
const STEP_WARNINGS_MAX: u64 = 20;

/// Base and quote asset.
type Assets = (Box<str>, Box<str>);

/// What is known about instruments before their first message.
#[derive(Debug, Default)]
pub struct Listings {
    directory: Arc<Directory>,
    /// The names of limit-order tranches, of venues that have such.
    tranches: Arc<Tranches>,
    /// Assets of symbols that no rule splits, or splits wrongly.
    assets: HashMap<(Venue, Box<str>), Assets>,
    /// Powers of ten of the steps in which prices and quantities begin.
    steps: HashMap<(Venue, Box<str>), [Option<i8>; 2]>,
    /// Steps of venues that could not be taken.
    refused_steps: u64,
    /// Epochs that instruments reached before, by `venue/symbol`.
    epochs: HashMap<Box<str>, u64>,
    /// First epoch of the block that is reserved for this start.
    block: u64,
    /// The epoch of a numbered stream of which nothing is known.
    unknown: u64,
    /// The symbols that were subscribed to, of venues where that is known.
    only: HashMap<Venue, HashSet<Box<str>>>,
    /// See [`Listings::with_silent_intervals`].
    silent_intervals: Option<u64>,
    /// The standing views, if there are any.
    views: Option<Arc<dyn PairViews>>,
}

impl Listings {
    /// Listings that fill the given directory.
    #[must_use]
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory, ..Self::default() }
    }

    /// Says where tranches get their numbers; else the listings have a place of their own for them.
    #[must_use]
    pub fn with_tranches(self, tranches: Arc<Tranches>) -> Self {
        Self { tranches, ..self }
    }

    /// The names of tranches.
    #[must_use]
    pub fn tranches(&self) -> &Arc<Tranches> {
        &self.tranches
    }

    /// Names the assets of a symbol.
    #[must_use]
    pub fn with_assets(mut self, venue: Venue, symbol: &str, asset_0: &str, asset_1: &str) -> Self {
        self.assets.insert((venue, symbol.into()), (asset_0.into(), asset_1.into()));
        self
    }

    /// Says in which steps a symbol's prices and quantities begin, by their powers of ten ([`number::price_step`],
    /// [`number::quantity_step`]). Finer numbers refine them. What was said before stays.
    #[must_use]
    pub fn with_steps(mut self, venue: Venue, symbol: &str, price: Option<i8>, quantity: Option<i8>) -> Self {
        let [known_price, known_quantity] = self.steps.entry((venue, symbol.into())).or_default();
        *known_price = known_price.or(price);
        *known_quantity = known_quantity.or(quantity);
        self
    }

    /// Takes what a venue says about one of its symbols; what was given by [`Listings::with_assets`] and
    /// [`Listings::with_steps`] stays. Steps that cannot be taken are counted, and those that are seen decide.
    #[must_use]
    pub fn with_listed(mut self, venue: Venue, listed: &Listed) -> Self {
        let symbol = &listed.symbol;
        let assets = || (listed.asset_0.clone(), listed.asset_1.clone());
        self.assets.entry((venue, symbol.clone())).or_insert_with(assets);
        let price = listed.price_step.as_deref().map(|text| (text, number::price_step(text)));
        let quantity = listed.quantity_step.as_deref().map(|text| (text, number::quantity_step(text)));
        let [price, quantity] = [price, quantity].map(|step| {
            let (text, step) = step?;
            let taken = step.inspect_err(|error| {
                self.refused_steps += 1;
                if self.refused_steps <= STEP_WARNINGS_MAX {
                    let step = excerpt(text);
                    tracing::warn!(%venue, %symbol, %step, %error, "the venue tells a step that cannot be taken");
                }
            });
            taken.ok()
        });
        self.with_steps(venue, symbol, price, quantity)
    }

    /// How many steps of venues could not be taken.
    #[must_use]
    pub fn refused_steps(&self) -> u64 {
        self.refused_steps
    }

    /// The steps in which a symbol's numbers begin; the coarsest where nothing is known.
    pub(crate) fn scale(&self, venue: Venue, symbol: &str) -> Scale {
        let [price, quantity] = self.steps.get(&(venue, symbol.into())).copied().unwrap_or_default();
        let coarsest = Scale::default();
        Scale { price: price.unwrap_or(coarsest.price), quantity: quantity.unwrap_or(coarsest.quantity) }
    }

    /// Says which epochs instruments reached before, and the first epoch of the block that is reserved for this start.
    #[must_use]
    pub fn with_epochs(mut self, epochs: HashMap<Box<str>, u64>, block: u64) -> Self {
        self.epochs = epochs;
        self.block = block;
        self
    }

    /// Says that there were starts before: a numbered stream of which nothing was kept may have been shown, nobody knows
    /// how far, so it begins above all of them.
    #[must_use]
    pub fn after_others(self) -> Self {
        Self { unknown: self.block, ..self }
    }

    /// Says which symbols of a venue were subscribed to; others are refused by name.
    #[must_use]
    pub fn with_only<'a>(mut self, venue: Venue, symbols: impl IntoIterator<Item = &'a str>) -> Self {
        self.only.entry(venue).or_default().extend(symbols.into_iter().map(Box::from));
        self
    }

    /// Says how many of its median intervals an instrument may be silent before another leg takes over; 0 for never, and
    /// then no subscription counts as dead either.
    #[must_use]
    pub fn with_silent_intervals(mut self, intervals: u64) -> Self {
        self.silent_intervals = Some(intervals);
        self
    }

    /// The same as it holds.
    pub(crate) fn silent_intervals(&self) -> u64 {
        self.silent_intervals.unwrap_or(SILENT_INTERVALS)
    }

    /// Says which standing views a pair is in.
    #[must_use]
    pub fn with_views(self, views: Arc<dyn PairViews>) -> Self {
        Self { views: Some(views), ..self }
    }

    /// The standing views of a pair.
    #[must_use]
    pub fn views_of(&self, pair: PairId) -> Views {
        let pair = self.views.as_ref().and_then(|views| Some((views, self.directory.pair(pair)?)));
        pair.map_or(Views::NONE, |(views, pair)| views.of(&pair.text))
    }

    /// The directory that is filled.
    #[must_use]
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// An instrument that will be connected to, and the event that introduces it before its venue has said anything; the
    /// one of its first message then tells nothing new.
    ///
    /// # Errors
    /// [`Undecodable::Symbol`] if no rule splits the symbol; [`Undecodable::Full`] if there is no room for it.
    pub fn introduce(&self, venue: Venue, symbol: &str, now_ns: u64) -> Result<(Arc<Instrument>, Event), Undecodable> {
        let anchored = venue.numbers_updates();
        self.list(Request { venue, symbol, anchored, leg: LegId(0), received_ns: now_ns })
    }

    /// The instrument of a symbol, and the event that introduces it if it is new to the caller.
    pub(crate) fn list(&self, request: Request<'_>) -> Result<(Arc<Instrument>, Event), Undecodable> {
        let Request { venue, symbol, anchored, leg, received_ns } = request;
        let unknown = || Undecodable::Symbol { venue, symbol: excerpt(symbol) };
        if symbol.is_empty() || symbol.len() > SYMBOL_BYTES_MAX {
            return Err(unknown());
        }
        if self.only.get(&venue).is_some_and(|only| !only.contains(symbol)) {
            return Err(Undecodable::Unlisted { venue, symbol: excerpt(symbol) });
        }
        let named = self.assets.get(&(venue, symbol.into()));
        let named = named.map(|(base, quote)| (Cow::Borrowed(&**base), Cow::Borrowed(&**quote)));
        let (asset_0, asset_1) = named.or_else(|| assets(venue, symbol)).ok_or_else(unknown)?;
        let instrument = self.directory.intern(venue, symbol, &asset_0, &asset_1)?;
        let reached = self.epochs.get(&*instrument.text).copied();
        let epoch = match (anchored, reached) {
            (true, reached) => reached.unwrap_or(self.unknown),
            // A synthesized stream starts anew with each start, so above all that was ever shown.
            (false, reached) => self.block.max(reached.map_or(0, |epoch| epoch.saturating_add(1))),
        };
        let views = self.views_of(instrument.pair);
        let listing = Listing { venue, pair: instrument.pair, epoch, block: self.block, views };
        let event = Event::of(instrument.id, leg, received_ns, 0, Body::Listing(listing));
        Ok((instrument, event))
    }
}

/// What a feed asks for when it meets a symbol for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) venue: Venue,
    pub(crate) symbol: &'a str,
    /// The venue numbers the stream's updates itself.
    pub(crate) anchored: bool,
    pub(crate) leg: LegId,
    pub(crate) received_ns: u64,
}

/// Splits `BASE/QUOTE`, or by another separator: at its first place.
pub(crate) fn separated(symbol: &str, separator: char) -> Option<super::Assets<'_>> {
    let (base, quote) = symbol.split_once(separator)?;
    (!base.is_empty() && !quote.is_empty()).then_some((base.into(), quote.into()))
}

/// Splits `BASEQUOTE` by a known quote asset.
pub(crate) fn joined(symbol: &str) -> Option<super::Assets<'_>> {
    if symbol.contains('/') {
        return None;
    }
    joined_by(symbol, &QUOTE_ASSETS)
}

/// Splits `BASEQUOTE` by the longest of these quote assets.
pub(crate) fn joined_by<'a>(symbol: &'a str, quotes: &[&'static str]) -> Option<super::Assets<'a>> {
    let of = |quote: &'static str| symbol.strip_suffix(quote).map(|base| (base, quote));
    let splits = quotes.iter().filter_map(|quote| of(quote)).filter(|(base, _)| !base.is_empty());
    splits.max_by_key(|(_, quote)| quote.len()).map(|(base, quote)| (base.into(), quote.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venue_feed::wire::Wire;
    use market::ViewId;

    #[test]
    fn symbols_split_by_separator_or_longest_quote_asset() {
        for (symbol, right) in [
            ("BTCUSDT", Some(("BTC", "USDT"))),
            ("SWRVBUSD", Some(("SWRV", "BUSD"))),
            ("BUSDTRY", Some(("BUSD", "TRY"))),
            ("AAVEUPUSDT", Some(("AAVEUP", "USDT"))),
            ("RUNEEUR", Some(("RUNE", "EUR"))),
            ("BTC/USD", Some(("BTC", "USD"))),
            ("USDT", None),
            ("WHAT", None),
            ("/USD", None),
        ] {
            let right = right.map(|(base, quote)| (base.into(), quote.into()));
            assert_eq!(assets(Venue::BinanceSpot, symbol), right, "{symbol}");
        }
    }

    #[test]
    fn what_was_not_subscribed_to_is_refused_by_name() {
        let listings = Listings::new(Arc::default()).with_only(Venue::BinanceSpot, ["BTCUSDT"]);
        listings.introduce(Venue::BinanceSpot, "BTCUSDT", 5).unwrap();
        listings.introduce(Venue::KrakenSpot, "ETH/USD", 5).unwrap();
        let other = listings.introduce(Venue::BinanceSpot, "ETHUSDT", 5);
        assert!(matches!(other, Err(Undecodable::Unlisted { .. })), "{other:?}");
    }

    #[test]
    fn an_instrument_is_introduced_as_its_feed_would_list_it() {
        let reached = [("binance_spot/BTCUSDT", 7), ("kraken_spot/BTC/USD", 7)];
        let epochs = reached.into_iter().map(|(name, epoch)| (name.into(), epoch)).collect();
        let listings = Listings::new(Arc::default()).with_epochs(epochs, 100);
        for (venue, symbol, epoch) in [
            (Venue::BinanceSpot, "BTCUSDT", 7),
            (Venue::BinanceSpot, "ETHUSDT", 0),
            (Venue::KrakenSpot, "BTC/USD", 100),
            (Venue::KrakenSpot, "ETH/USD", 100),
        ] {
            let (instrument, event) = listings.introduce(venue, symbol, 5).unwrap();
            let right = Listing { venue, pair: instrument.pair, epoch, block: 100, views: Views::NONE };
            assert_eq!(event, Event::of(instrument.id, LegId(0), 5, 0, Body::Listing(right)), "{symbol}");
        }
        let unknown = listings.introduce(Venue::BinanceSpot, "WHAT", 5);
        assert!(matches!(unknown, Err(Undecodable::Symbol { .. })), "{unknown:?}");
    }

    /// Views by the length of the base.
    #[derive(Debug)]
    struct ByLength;

    impl PairViews for ByLength {
        fn of(&self, pair: &str) -> Views {
            let base = pair.split('/').next().map_or(0, str::len);
            ViewId::new(base).map_or(Views::NONE, |view| Views::NONE.with(view))
        }
    }

    #[test]
    fn a_listing_carries_the_views_of_its_pair_as_it_is_named_across_venues() {
        let listings = Listings::new(Arc::default()).with_views(Arc::new(ByLength));
        let views = |event: &Event| if let Body::Listing(listing) = &event.body { Some(listing.views) } else { None };
        let three = Views::NONE.with(ViewId::new(3).unwrap());
        let (instrument, event) = listings.introduce(Venue::KrakenSpot, "XXBT/USD", 5).unwrap();
        assert_eq!(views(&event), Some(three), "BTC/USD");
        assert_eq!(listings.views_of(instrument.pair), three);
        assert_eq!(Listings::new(Arc::default()).views_of(instrument.pair), Views::NONE);
    }

    /// A whole book with one bid of a venue whose updates have ids, and of one without.
    fn whole(venue: Venue, price: &str) -> String {
        match venue {
            Venue::Deribit => format!(
                r#"{{"jsonrpc":"2.0","method":"subscription","params":{{"channel":"book.BTC-PERPETUAL.100ms","data":{{"type":"snapshot","timestamp":1618677817000,"instrument_name":"BTC-PERPETUAL","change_id":7,"bids":[["new",{price},30.0]],"asks":[]}}}}}}"#
            ),
            _ => format!(
                r#"{{"type":"snapshot","product_id":"BTC-USD","asks":[],"bids":[["{price}","30"]],"time":"2021-04-17T16:43:37.075687Z"}}"#
            ),
        }
    }

    /// The steps of the first book of a start.
    fn first_scale(venue: Venue, listings: Listings, price: &str) -> Scale {
        let mut wire = Wire::listed(venue, listings);
        wire.say(0, &whole(venue, price)).unwrap();
        let scale =
            |event: &Event| if let Body::Snapshot(snapshot) = &event.body { Some(snapshot.scale) } else { None };
        wire.events.iter().find_map(scale).unwrap()
    }

    #[test]
    fn a_first_book_is_in_the_steps_that_are_known_whatever_its_own_numbers_need() {
        for (venue, symbol) in [(Venue::Deribit, "BTC-PERPETUAL"), (Venue::Coinbase, "BTC-USD")] {
            let listed = Listed {
                symbol: symbol.into(),
                asset_0: "BTC".into(),
                asset_1: "USD".into(),
                price_step: Some("0.01".into()),
                quantity_step: Some("1e-08".into()),
                halted: None,
            };
            let told = || Listings::new(Arc::default()).with_listed(venue, &listed);
            let table = || Listings::new(Arc::default()).with_steps(venue, symbol, Some(-1), None);
            let right = Scale { price: -2, quantity: -8 };
            assert_eq!(first_scale(venue, told(), "100"), right, "{venue}");
            assert_eq!(
                first_scale(venue, told(), "100.25"),
                right,
                "{venue}: so a restart finds the steps that it left"
            );
            assert_eq!(first_scale(venue, told(), "100.125"), Scale { price: -3, ..right }, "{venue}: never coarser");
            let overridden = table().with_listed(venue, &listed);
            assert_eq!(first_scale(venue, overridden, "100"), Scale { price: -1, ..right }, "{venue}");
            let unknown = Listings::new(Arc::default());
            assert_eq!(first_scale(venue, unknown, "100"), Scale { price: 2, quantity: 1 }, "{venue}");
        }
    }

    #[test]
    fn a_table_overrides_the_venue_and_an_absurd_step_is_counted() {
        let listed = |symbol: &str, price: Option<&str>, quantity: Option<&str>| Listed {
            symbol: symbol.into(),
            asset_0: "ABC".into(),
            asset_1: "XYZ".into(),
            price_step: price.map(Into::into),
            quantity_step: quantity.map(Into::into),
            halted: None,
        };
        let venue = Venue::BinanceSpot;
        let listings = Listings::new(Arc::default())
            .with_assets(venue, "A", "A", "Z")
            .with_steps(venue, "A", Some(-3), None)
            .with_listed(venue, &listed("A", Some("0.01"), Some("0.25")))
            .with_listed(venue, &listed("B", Some("1e-19"), Some("2.5e-05")))
            .with_listed(venue, &listed("C", Some("0"), Some("much")))
            .with_listed(venue, &listed("D", None, None));
        assert_eq!(listings.refused_steps(), 3);
        let coarsest = Scale::default();
        for (symbol, price, quantity) in [
            ("A", -3, -2),
            ("B", coarsest.price, -6),
            ("C", coarsest.price, coarsest.quantity),
            ("D", coarsest.price, coarsest.quantity),
            ("E", coarsest.price, coarsest.quantity),
        ] {
            assert_eq!(listings.scale(venue, symbol), Scale { price, quantity }, "{symbol}");
        }
        let assets = |symbol| {
            let instrument = listings.introduce(venue, symbol, 1).unwrap().0;
            (instrument.asset_0.to_string(), instrument.asset_1.to_string())
        };
        assert_eq!(assets("A"), ("A".to_owned(), "Z".to_owned()));
        assert_eq!(assets("B"), ("ABC".to_owned(), "XYZ".to_owned()));
    }

    #[test]
    fn a_table_overrides_the_rule_and_an_unknown_symbol_is_named() {
        let listings = Listings::new(Arc::default()).with_assets(Venue::BinanceSpot, "ABCXYZ", "ABC", "XYZ");
        let request =
            |symbol| Request { venue: Venue::BinanceSpot, symbol, anchored: true, leg: LegId(0), received_ns: 1 };
        let (instrument, _) = listings.list(request("ABCXYZ")).unwrap();
        assert_eq!((&*instrument.asset_0, &*instrument.asset_1), ("ABC", "XYZ"));
        let unknown = listings.list(request("ABCXYW")).unwrap_err();
        assert!(matches!(&unknown, Undecodable::Symbol { symbol, .. } if &**symbol == "ABCXYW"), "{unknown}");
    }
}
