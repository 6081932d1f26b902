//! The offset of every price, on one leg: which of a message's levels are news (rule 3).
//!
//! Dead levels keep their offset, or an older message would raise them. They are bounded: beyond [`DEAD_LEVELS_MAX`] the
//! half with the lower offsets is forgotten, and from then on a price that is not known takes nothing at or below the
//! greatest offset that was forgotten. So what is forgotten can never bring an old level back; only a level that is new
//! and thousands of offsets late would be left out, and no message is that late.
//!
//! Never: a level over one with a greater offset.

use super::message::{self, Book, Changes};
use crate::venue_feed::{
    Undecodable,
    number::{LevelText, Subject, token},
    row::Row,
};
use foldhash::HashMap;
use market::{Side, Venue, quote::Exact};
use std::collections::VecDeque;

/// Dead levels whose offsets are kept, of one book. Offsets came up to 57 back in the captures.
const DEAD_LEVELS_MAX: usize = 8_192;

/// Messages that are kept in case a whole book comes after them although it was sent before. None can be more messages
/// ahead of it: the book's own message would count as lost.
const RECENT_MESSAGES_MAX: usize = 64;

/// What is known of one price.
#[derive(Clone, Copy, Debug)]
struct Known {
    offset: u64,
    live: bool,
}

/// Levels of one message under one offset.
#[derive(Clone, Debug)]
struct Message {
    offset: u64,
    levels: Vec<Kept>,
}

/// A level whose text outlives its frame.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    side: Side,
    price: Box<str>,
    size: Box<str>,
}

impl Kept {
    pub(super) fn text(&self) -> LevelText<'_> {
        LevelText { side: self.side, price: &self.price, quantity: &self.size }
    }
}

/// The offsets of one book on one leg.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    known: HashMap<(Side, Exact), Known>,
    dead: usize,
    /// The greatest offset that was forgotten.
    forgotten: u64,
    recent: VecDeque<Message>,
}

/// What is new of a message.
#[derive(Debug)]
pub(super) struct News<L> {
    pub(super) levels: Vec<L>,
    /// So many levels were older than what is known.
    pub(super) suppressed: u64,
}

impl Offsets {
    /// A whole book replaces what is known, but for messages that came before it and are newer: their levels.
    ///
    /// # Errors
    /// [`Undecodable`]; the offsets are worth nothing then.
    pub(super) fn whole(&mut self, subject: Subject<'_>, book: &Book<'_>) -> Result<Vec<Kept>, Undecodable> {
        self.known.clear();
        (self.dead, self.forgotten) = (0, 0);
        let mut greatest = 0;
        for (side, levels) in [(Side::Bid, &book.bids), (Side::Ask, &book.asks)] {
            for level in levels {
                let offset = message::offset(level.offset)?;
                greatest = greatest.max(offset);
                self.set((side, subject.exact(token(level.price))?), offset, subject.exact(token(level.size))?);
            }
        }
        let mut newer = Vec::new();
        for Message { offset, levels } in &self.recent.clone() {
            for kept in levels {
                let key = (kept.side, subject.exact(&kept.price)?);
                // What the book does not have was gone when it was made, unless it came later.
                let known = self.known.get(&key).map_or(greatest, |known| known.offset);
                if *offset > known {
                    self.set(key, *offset, subject.exact(&kept.size)?);
                    newer.push(kept.clone());
                }
            }
        }
        self.forget();
        Ok(newer)
    }

    /// The levels of changes that are news; those of all parts are of one message.
    ///
    /// # Errors
    /// [`Undecodable`]; the offsets are worth nothing then.
    pub(super) fn news<'m>(
        &mut self,
        subject: Subject<'_>,
        parts: &'m [Changes<'_>],
    ) -> Result<News<LevelText<'m>>, Undecodable> {
        let mut news = News { levels: Vec::new(), suppressed: 0 };
        for part in parts {
            let offset = message::offset(part.offset)?;
            let mut kept = Vec::with_capacity(part.bids.len().saturating_add(part.asks.len()));
            for (side, rows) in [(Side::Bid, &part.bids), (Side::Ask, &part.asks)] {
                for Row([price, size]) in rows {
                    let (key, value) = ((side, subject.exact(price)?), subject.exact(size)?);
                    kept.push(Kept { side, price: (*price).into(), size: (*size).into() });
                    if self.is_news(key, offset) {
                        self.set(key, offset, value);
                        news.levels.push(LevelText { side, price, quantity: size });
                    } else {
                        news.suppressed += 1;
                    }
                }
            }
            if self.recent.len() >= RECENT_MESSAGES_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(Message { offset, levels: kept });
        }
        self.forget();
        Ok(news)
    }

    fn is_news(&self, key: (Side, Exact), offset: u64) -> bool {
        match self.known.get(&key) {
            Some(known) => offset > known.offset,
            None => offset > self.forgotten || self.forgotten == 0,
        }
    }

    fn set(&mut self, key: (Side, Exact), offset: u64, size: Exact) {
        let live = !size.steps().is_zero();
        let before = self.known.insert(key, Known { offset, live });
        self.dead -= usize::from(before.is_some_and(|before| !before.live));
        self.dead += usize::from(!live);
    }

    fn forget(&mut self) {
        if self.dead <= DEAD_LEVELS_MAX {
            return;
        }
        let mut dead: Vec<u64> = self.known.values().filter(|known| !known.live).map(|known| known.offset).collect();
        let middle = dead.len() / 2;
        let (_, middle, _) = dead.select_nth_unstable(middle);
        let forgotten = *middle;
        self.known.retain(|_, known| known.live || known.offset > forgotten);
        self.dead = self.known.values().filter(|known| !known.live).count();
        self.forgotten = self.forgotten.max(forgotten);
    }
}

/// The name under which offsets are read.
pub(super) fn subject(symbol: &str) -> Subject<'_> {
    Subject { venue: Venue::DydxV3, symbol }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(offsets: &mut Offsets, text: &str) -> Vec<String> {
        let book: Book<'_> = serde_json::from_str(text).unwrap();
        offsets.whole(subject("X"), &book).unwrap().iter().map(|kept| format!("{}x{}", kept.price, kept.size)).collect()
    }

    /// What is new of one bid, and how many levels are not.
    fn bid(offsets: &mut Offsets, offset: u64, price: &str, size: &str) -> (Vec<String>, u64) {
        let text = format!(r#"[{{"offset":"{offset}","bids":[["{price}","{size}"]],"asks":[]}}]"#);
        let parts: Vec<Changes<'_>> = serde_json::from_str(&text).unwrap();
        let news = offsets.news(subject("X"), &parts).unwrap();
        (news.levels.iter().map(|level| format!("{}x{}", level.price, level.quantity)).collect(), news.suppressed)
    }

    const BOOK: &str =
        r#"{"bids":[{"price":"10","offset":"100","size":"1"},{"price":"9","offset":"105","size":"0"}],"asks":[]}"#;

    #[test]
    fn a_level_takes_only_what_is_newer_than_itself() {
        let mut offsets = Offsets::default();
        whole(&mut offsets, BOOK);
        assert_eq!(bid(&mut offsets, 100, "10.0", "5"), (vec![], 1), "the same offset is no news");
        assert_eq!(bid(&mut offsets, 104, "9", "5"), (vec![], 1), "a dead level keeps its offset");
        assert_eq!(bid(&mut offsets, 104, "10", "0"), (vec!["10x0".to_owned()], 0), "each price has its own");
        assert_eq!(bid(&mut offsets, 103, "10", "7"), (vec![], 1));
        assert_eq!(bid(&mut offsets, 50, "8", "7"), (vec!["8x7".to_owned()], 0), "a price that is not known");
    }

    #[test]
    fn a_message_that_overtook_its_book_is_not_lost() {
        let mut offsets = Offsets::default();
        bid(&mut offsets, 106, "9", "2");
        bid(&mut offsets, 99, "10", "7");
        bid(&mut offsets, 104, "8", "4");
        bid(&mut offsets, 107, "7", "3");
        assert_eq!(whole(&mut offsets, BOOK), ["9x2", "7x3"]);
        assert_eq!(bid(&mut offsets, 105, "9", "5").1, 1);
    }

    #[test]
    fn what_is_forgotten_never_comes_back() {
        let mut offsets = Offsets::default();
        whole(&mut offsets, BOOK);
        let levels = u64::try_from(DEAD_LEVELS_MAX).unwrap();
        for price in 0..levels {
            bid(&mut offsets, 1_000 + price, &(100 + price).to_string(), "0");
        }
        assert!(offsets.dead <= DEAD_LEVELS_MAX && offsets.forgotten > 1_000);
        assert_eq!(bid(&mut offsets, 999, "100", "5").1, 1, "a forgotten level");
        assert_eq!(bid(&mut offsets, 101, "10", "5"), (vec!["10x5".to_owned()], 0), "live ones are not forgotten");
        assert_eq!(bid(&mut offsets, 1_000 + levels, "100", "5").1, 0);
        assert!(offsets.recent.len() <= RECENT_MESSAGES_MAX);
    }
}
