//! A terminal's selection: patterns, and the entries that they match now. Patterns are state: an instrument that is
//! listed later and matches is added without being asked for.
//!
//! Never: more entries than the terminal may hold.

use super::Entry;
use crate::{name_glob::NameGlob, views::ViewTable};
use market::Directory;
use std::{collections::BTreeSet, sync::Arc};
use wire::{Channel, ErrorCode, SubscriptionItem};

/// Patterns that one terminal may hold.
const PATTERNS_MAX: usize = 4_096;

#[derive(Debug)]
struct Pattern {
    item: SubscriptionItem,
    glob: NameGlob,
}

/// What a terminal selected.
#[derive(Debug, Default)]
pub(super) struct Selection {
    views: Arc<ViewTable>,
    patterns: Vec<Pattern>,
    entries: BTreeSet<Entry>,
    /// Instruments and pairs that the patterns were held against.
    seen: (u32, u32),
}

impl Selection {
    /// Nothing selected, of instruments, pairs and these views.
    pub(super) fn new(views: Arc<ViewTable>) -> Self {
        Self { views, ..Self::default() }
    }

    /// Adds items; gives how many subscriptions they name. Nothing is added on an error.
    pub(super) fn add(
        &mut self,
        items: &[SubscriptionItem],
        directory: &Directory,
        entries_max: usize,
    ) -> Result<usize, ErrorCode> {
        let mut patterns = Vec::with_capacity(items.len());
        for item in items {
            patterns.push(Pattern::new(item, directory, &self.views)?);
        }
        let mut matched = BTreeSet::new();
        patterns.iter().for_each(|pattern| pattern.collect(directory, &self.views, (0, 0), &mut matched));
        let known = |pattern: &Pattern| self.patterns.iter().any(|held| held.item == pattern.item);
        let new: Vec<_> = patterns.into_iter().filter(|pattern| !known(pattern)).collect();
        if self.patterns.len() + new.len() > PATTERNS_MAX {
            return Err(ErrorCode::TooManyPatterns);
        }
        if self.entries.union(&matched).count() > entries_max {
            return Err(ErrorCode::TooManySubscriptions);
        }
        let count = matched.len();
        self.entries.append(&mut matched);
        self.patterns.extend(new);
        self.refresh(directory);
        Ok(count)
    }

    /// Removes items by channel and pattern text; gives how many subscriptions are left.
    pub(super) fn remove(&mut self, items: &[SubscriptionItem], directory: &Directory) -> usize {
        self.patterns.retain(|pattern| !items.contains(&pattern.item));
        self.entries.clear();
        let mut entries = BTreeSet::new();
        self.patterns.iter().for_each(|pattern| pattern.collect(directory, &self.views, (0, 0), &mut entries));
        self.entries = entries;
        self.entries.len()
    }

    /// Holds the patterns against what is new in the directory; whether something was added.
    pub(super) fn refresh(&mut self, directory: &Directory) -> bool {
        let before = self.entries.len();
        let (seen, mut entries) = (self.seen, std::mem::take(&mut self.entries));
        self.patterns.iter().for_each(|pattern| pattern.collect(directory, &self.views, seen, &mut entries));
        self.entries = entries;
        let pairs = directory.pairs_from(seen.1).len();
        let instruments = directory.instruments_from(seen.0).len();
        let add = |seen: u32, more: usize| seen.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.seen = (add(seen.0, instruments), add(seen.1, pairs));
        self.entries.len() > before
    }

    /// The entries, sorted.
    pub(super) fn entries(&self) -> Arc<[Entry]> {
        self.entries.iter().copied().collect()
    }
}

impl Pattern {
    fn new(item: &SubscriptionItem, directory: &Directory, views: &ViewTable) -> Result<Self, ErrorCode> {
        let glob = NameGlob::new(&item.pattern);
        // What is no glob may still be a name.
        if !glob.is_pattern() && !named(item, directory, views) {
            return Err(ErrorCode::PatternInvalid);
        }
        Ok(Self { item: item.clone(), glob })
    }

    /// Adds what matches among the instruments, pairs, or views of pairs from the given numbers on.
    fn collect(&self, directory: &Directory, views: &ViewTable, from: (u32, u32), out: &mut BTreeSet<Entry>) {
        let channel = self.item.channel;
        match channel {
            Channel::Best => {
                let pairs = directory.pairs_from(from.1);
                out.extend(pairs.iter().filter(|pair| self.glob.matches(&pair.text)).map(|pair| (channel, pair.id.0)));
            }
            Channel::View => {
                let pairs = directory.pairs_from(from.1);
                let named = pairs.iter().flat_map(|pair| views.of_pair(pair));
                out.extend(named.filter(|(_, name)| self.glob.matches(name)).map(|(key, _)| (channel, key.number())));
            }
            _ => {
                let instruments = directory.instruments_from(from.0);
                let matching = instruments.iter().filter(|instrument| self.glob.matches(&instrument.text));
                out.extend(matching.map(|instrument| (channel, instrument.id.0)));
            }
        }
    }
}

/// Whether an item's pattern is the name of an instrument, a pair, or a view of a pair that is known.
fn named(item: &SubscriptionItem, directory: &Directory, views: &ViewTable) -> bool {
    match item.channel {
        Channel::Best => directory.find_pair(&item.pattern).is_some(),
        Channel::View => {
            let pair = item.pattern.split_once('/').and_then(|(_, pair)| directory.find_pair(pair));
            pair.is_some_and(|pair| views.of_pair(&pair).any(|(_, name)| *name == *item.pattern))
        }
        _ => directory.find(&item.pattern).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, ViewKind};
    use market::Venue;

    fn item(channel: Channel, pattern: &str) -> SubscriptionItem {
        SubscriptionItem { channel, pattern: pattern.into() }
    }

    #[test]
    fn patterns_match_now_and_later_and_are_bounded() {
        let directory = Directory::default();
        directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
        let mut selection = Selection::default();
        let added = selection.add(
            &[item(Channel::Book, "binance_spot/*"), item(Channel::Best, "BTC/USDT"), item(Channel::Quote, "none/X")],
            &directory,
            3,
        );
        assert_eq!(added, Ok(2));
        assert_eq!(selection.entries.iter().copied().collect::<Vec<_>>(), [(Channel::Book, 0), (Channel::Best, 0)]);
        directory.intern(Venue::BinanceSpot, "ETHUSDT", "ETH", "USDT").unwrap();
        assert!(selection.refresh(&directory));
        assert!(!selection.refresh(&directory));
        let more = selection.add(&[item(Channel::Quote, "*")], &directory, 3);
        assert_eq!(more, Err(ErrorCode::TooManySubscriptions));
        assert_eq!(selection.entries.len(), 3, "a refused request changes nothing");
        assert_eq!(selection.add(&[item(Channel::Quote, "{")], &directory, 9), Err(ErrorCode::PatternInvalid));
        assert_eq!(selection.remove(&[item(Channel::Book, "binance_spot/*")], &directory), 1);
    }

    /// How many instruments, or pairs for `best`, a pattern names.
    fn count(directory: &Directory, channel: Channel, pattern: &str) -> Result<usize, ErrorCode> {
        Selection::default().add(&[item(channel, pattern)], directory, 99)
    }

    fn view(name: &str, kind: ViewKind, pairs: &[&str]) -> config::View {
        let percent = if kind == ViewKind::Spread { String::new() } else { "1".to_owned() };
        let pairs = pairs.iter().map(|pattern| (*pattern).to_owned()).collect();
        config::View { name: name.to_owned(), kind, percent, pairs }
    }

    #[test]
    fn views_match_by_their_name_and_pair_where_they_are_declared() {
        let declared = [
            view("depth1", ViewKind::ReservesWithin, &["BTC/USDT", "ETH/*"]),
            view("spread", ViewKind::Spread, &["*"]),
        ];
        let directory = Directory::default();
        directory.intern(Venue::BinanceSpot, "BTCUSDT", "BTC", "USDT").unwrap();
        directory.intern(Venue::BinanceSpot, "SOLUSDT", "SOL", "USDT").unwrap();
        let mut selection = Selection::new(Arc::new(ViewTable::of(&declared)));
        let mut add = |pattern: &str| selection.add(&[item(Channel::View, pattern)], &directory, 99);
        assert_eq!(add("depth1/*"), Ok(1), "of the pairs that it is declared for");
        assert_eq!(add("depth1/SOL/USDT"), Ok(0));
        assert_eq!(add("spread/SOL/USDT"), Ok(1));
        assert_eq!(add("*/BTC/USDT"), Ok(2));
        assert_eq!(add("none/*"), Ok(0));
        assert_eq!(add("spread/{"), Err(ErrorCode::PatternInvalid));
        // View 0 and 1 of pair 0, view 1 of pair 1.
        let entries = |selection: &Selection| selection.entries.iter().map(|(_, id)| *id).collect::<Vec<_>>();
        assert_eq!(entries(&selection), [0, 1, 33]);
        directory.intern(Venue::KrakenSpot, "ETH/USD", "ETH", "USD").unwrap();
        assert!(selection.refresh(&directory));
        assert_eq!(entries(&selection), [0, 1, 33, 64]);
    }

    #[test]
    fn symbols_with_slashes_and_brackets_match() {
        let directory = Directory::default();
        let factory = "factory/neutron1ug740qrkquxzrk2hh29qrlx3sktkfml3je7juusc2te7xmvsscns0n2wry/wstETH";
        for (zero, one) in [("ibc/ABC", "untrn"), (factory, "ibc/ABC"), ("untrn", "uusdc")] {
            directory.intern(Venue::NeutronDex, &format!("{zero}<>{one}"), zero, one).unwrap();
        }
        directory.intern(Venue::BinanceSpot, "NTRNUSDT", "NTRN", "USDT").unwrap();
        let books = |pattern: &str| count(&directory, Channel::Book, pattern).unwrap();
        assert_eq!(books("neutron_dex/*"), 3);
        assert_eq!(books("neutron_dex/ibc/ABC<>untrn"), 1);
        assert_eq!(books("neutron_dex/ibc/*"), 1);
        assert_eq!(books("neutron_dex/*<>ibc/ABC"), 1);
        assert_eq!(books("neutron_dex/*untrn*"), 2);
        assert_eq!(books("neutron_dex/ibc?ABC<>untrn"), 1);
        assert_eq!(books("neutron_dex/{ibc/ABC<>untrn,untrn<>uusdc}"), 2);
        assert_eq!(books(&format!("neutron_dex/{factory}<>ibc/ABC")), 1);
        assert_eq!(books("*/*"), 4);
        assert_eq!(books("neutron_dex/ibc"), 0);
        assert_eq!(count(&directory, Channel::Best, "ibc/ABC/untrn"), Ok(1));
        assert_eq!(count(&directory, Channel::Best, "*/ibc/ABC"), Ok(1));
    }

    #[test]
    fn a_name_matches_itself_whatever_it_would_mean_as_a_glob() {
        let directory = Directory::default();
        for asset in ["a[b]", "a{b", "a*", "ab", "a\\b"] {
            directory.intern(Venue::NeutronDex, &format!("{asset}<>z"), asset, "z").unwrap();
        }
        let books = |pattern: &str| count(&directory, Channel::Book, pattern);
        assert_eq!(books("neutron_dex/a[b]<>z"), Ok(2), "itself, and `ab` by the class");
        assert_eq!(books("neutron_dex/a{b<>z"), Ok(1), "no glob, but a name");
        assert_eq!(count(&directory, Channel::Best, "a{b/z"), Ok(1));
        assert_eq!(books("neutron_dex/a\\b<>z"), Ok(2), "itself, and `ab` by the escape");
        assert_eq!(books("neutron_dex/a[*]<>z"), Ok(1), "a class makes a character plain");
        assert_eq!(books("neutron_dex/c{b<>z"), Err(ErrorCode::PatternInvalid));
    }
}
