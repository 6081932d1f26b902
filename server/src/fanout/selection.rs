//! A terminal's selection: patterns, and the entries that they match now. Patterns are state: an instrument that is
//! listed later and matches is added without being asked for.
//!
//! Never: more entries than the terminal may hold.

use super::Entry;
use globset::{Glob, GlobMatcher};
use market::Directory;
use std::{collections::BTreeSet, sync::Arc};
use wire::{Channel, ErrorCode, SubscriptionItem};

/// Patterns that one terminal may hold.
const PATTERNS_MAX: usize = 4_096;

#[derive(Debug)]
struct Pattern {
    item: SubscriptionItem,
    /// None for a plain name. `*` and `?` match a `/` too: symbols and assets may have them.
    glob: Option<GlobMatcher>,
}

/// What a terminal selected.
#[derive(Debug, Default)]
pub(super) struct Selection {
    patterns: Vec<Pattern>,
    entries: BTreeSet<Entry>,
    /// Instruments and pairs that the patterns were held against.
    seen: (u32, u32),
}

impl Selection {
    /// Adds items; gives how many subscriptions they name. Nothing is added on an error.
    pub(super) fn add(
        &mut self,
        items: &[SubscriptionItem],
        directory: &Directory,
        entries_max: usize,
    ) -> Result<usize, ErrorCode> {
        let mut patterns = Vec::with_capacity(items.len());
        for item in items {
            patterns.push(Pattern::new(item, directory)?);
        }
        let mut matched = BTreeSet::new();
        patterns.iter().for_each(|pattern| pattern.collect(directory, (0, 0), &mut matched));
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
        self.patterns.iter().for_each(|pattern| pattern.collect(directory, (0, 0), &mut entries));
        self.entries = entries;
        self.entries.len()
    }

    /// Holds the patterns against what is new in the directory; whether something was added.
    pub(super) fn refresh(&mut self, directory: &Directory) -> bool {
        let before = self.entries.len();
        let (seen, mut entries) = (self.seen, std::mem::take(&mut self.entries));
        self.patterns.iter().for_each(|pattern| pattern.collect(directory, seen, &mut entries));
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
    fn new(item: &SubscriptionItem, directory: &Directory) -> Result<Self, ErrorCode> {
        let plain = !item.pattern.contains(['*', '?', '[', '{', '\\']);
        let glob = if plain { None } else { Glob::new(&item.pattern).ok().map(|glob| glob.compile_matcher()) };
        // What is no glob may still be a name.
        if !plain && glob.is_none() && !named(item, directory) {
            return Err(ErrorCode::PatternInvalid);
        }
        Ok(Self { item: item.clone(), glob })
    }

    /// A name always matches itself, whatever its characters mean in a glob.
    fn matches(&self, text: &str) -> bool {
        *self.item.pattern == *text || self.glob.as_ref().is_some_and(|glob| glob.is_match(text))
    }

    /// Adds what matches among the instruments or pairs from the given numbers on.
    fn collect(&self, directory: &Directory, from: (u32, u32), out: &mut BTreeSet<Entry>) {
        let channel = self.item.channel;
        if channel == Channel::Best {
            let pairs = directory.pairs_from(from.1);
            out.extend(pairs.iter().filter(|pair| self.matches(&pair.text)).map(|pair| (channel, pair.id.0)));
        } else {
            let instruments = directory.instruments_from(from.0);
            let matching = instruments.iter().filter(|instrument| self.matches(&instrument.text));
            out.extend(matching.map(|instrument| (channel, instrument.id.0)));
        }
    }
}

/// Whether an item's pattern is the name of an instrument or pair that is known.
fn named(item: &SubscriptionItem, directory: &Directory) -> bool {
    if item.channel == Channel::Best {
        directory.pairs_from(0).iter().any(|pair| *pair.text == *item.pattern)
    } else {
        directory.find(&item.pattern).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
