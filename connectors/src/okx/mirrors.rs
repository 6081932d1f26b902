//! The books of one instrument as single legs told them, where a book that is merged from all legs has a checksum too: a
//! checksum is over what one connection has sent, so it can be held against nothing else.
//!
//! Never: a mirror that nobody states checksums for; a mirror held against a checksum after its leg missed a message.

use super::book::matches;
use crate::venue_feed::{
    FeedCounts,
    check::{Check, Evidence},
    number::LevelText,
    standby::judge,
    text_book::TextBook,
};
use market::LegId;

/// What a message says about the book after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stated {
    /// Its id.
    pub(super) last: u64,
    /// Levels a side.
    pub(super) depth: u32,
    /// 0 for none.
    pub(super) checksum: i64,
}

#[derive(Debug)]
struct Mirror {
    leg: LegId,
    text: TextBook,
    /// The id that it stands at; none while its leg's next snapshot is awaited.
    at: Option<u64>,
    /// Of this leg alone: another's matches say nothing about its failures.
    check: Check,
}

impl Mirror {
    fn drop_text(&mut self) {
        self.text.clear();
        self.at = None;
    }

    /// Brings it to where a message leads, and says whether the message may be used.
    fn advance<'a>(
        &mut self,
        evidence: Evidence,
        stated: Stated,
        mut levels: impl Iterator<Item = LevelText<'a>>,
        counts: &mut FeedCounts,
    ) -> bool {
        if levels.any(|level| self.text.apply(level).is_err()) {
            // Every text was parsed before, so an error cannot be met; the next snapshot mends it.
            self.drop_text();
            return true;
        }
        self.text.truncate(usize::try_from(stated.depth).unwrap_or(usize::MAX));
        self.at = Some(stated.last);
        let good = judge(&mut self.check, evidence, matches(&self.text, stated.checksum), counts);
        if !good {
            self.drop_text();
        }
        good
    }
}

/// All legs of one instrument.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    legs: Vec<Mirror>,
}

impl Mirrors {
    /// A leg's whole book; whether it may be used.
    pub(super) fn snapshot<'a>(
        &mut self,
        leg: LegId,
        stated: Stated,
        levels: impl Iterator<Item = LevelText<'a>>,
        counts: &mut FeedCounts,
    ) -> bool {
        let known = self.legs.iter().position(|mirror| mirror.leg == leg);
        if stated.checksum == 0 {
            self.forget(leg);
            return true;
        }
        let at = known.unwrap_or_else(|| {
            self.legs.push(Mirror { leg, text: TextBook::default(), at: None, check: Check::default() });
            self.legs.len() - 1
        });
        let Some(mirror) = self.legs.get_mut(at) else { return true };
        mirror.drop_text();
        mirror.advance(Evidence::Whole, stated, levels, counts)
    }

    /// Changes of a leg's book, which follow the id `prev`; whether they may be used.
    pub(super) fn update<'a>(
        &mut self,
        leg: LegId,
        prev: u64,
        stated: Stated,
        levels: impl Iterator<Item = LevelText<'a>>,
        counts: &mut FeedCounts,
    ) -> bool {
        let Some(mirror) = self.legs.iter_mut().find(|mirror| mirror.leg == leg) else { return true };
        if mirror.at == Some(prev) {
            return mirror.advance(Evidence::Change, stated, levels, counts);
        }
        if mirror.at != Some(stated.last) {
            mirror.drop_text();
        }
        true
    }

    /// What a leg says from now on follows nothing.
    pub(super) fn forget(&mut self, leg: LegId) {
        self.legs.iter_mut().filter(|mirror| mirror.leg == leg).for_each(Mirror::drop_text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::Side;

    const ASK: LevelText<'static> = LevelText { side: Side::Ask, price: "0.0025", quantity: "20" };
    const NEXT: LevelText<'static> = LevelText { side: Side::Ask, price: "0.003", quantity: "1506" };
    /// Of both levels.
    const RIGHT: i64 = 1_483_419_732;

    fn stated(last: u64, checksum: i64) -> Stated {
        Stated { last, depth: 400, checksum }
    }

    #[test]
    fn each_leg_is_held_against_what_it_told_itself() {
        let (mut mirrors, mut counts) = (Mirrors::default(), FeedCounts::default());
        let both = [ASK, NEXT];
        assert!(mirrors.snapshot(LegId(0), stated(5, RIGHT), both.into_iter(), &mut counts));
        assert!(!mirrors.snapshot(LegId(1), stated(5, RIGHT), [ASK].into_iter(), &mut counts));
        assert!(
            mirrors.update(LegId(1), 5, stated(6, 77), [NEXT].into_iter(), &mut counts),
            "not held against anything"
        );
        assert!(mirrors.update(LegId(0), 5, stated(6, RIGHT), [ASK].into_iter(), &mut counts));
        assert!(!mirrors.update(LegId(0), 6, stated(7, 77), [].into_iter(), &mut counts));
        assert_eq!((counts.checksums_matched, counts.checksums_failed), (2, 2));
    }

    #[test]
    fn what_follows_a_missed_message_is_not_held_against_a_checksum() {
        let (mut mirrors, mut counts) = (Mirrors::default(), FeedCounts::default());
        assert!(mirrors.snapshot(LegId(0), stated(5, RIGHT), [ASK, NEXT].into_iter(), &mut counts));
        assert!(mirrors.update(LegId(0), 5, stated(6, RIGHT), [].into_iter(), &mut counts));
        assert!(mirrors.update(LegId(0), 5, stated(6, RIGHT), [].into_iter(), &mut counts), "the same again");
        assert!(mirrors.update(LegId(0), 6, stated(9, RIGHT), [].into_iter(), &mut counts));
        assert!(mirrors.update(LegId(0), 11, stated(12, 77), [].into_iter(), &mut counts));
        assert!(mirrors.update(LegId(0), 12, stated(13, 77), [].into_iter(), &mut counts));
        assert_eq!((counts.checksums_matched, counts.checksums_failed), (3, 0));
    }

    #[test]
    fn nothing_is_kept_where_no_checksum_is_stated() {
        let (mut mirrors, mut counts) = (Mirrors::default(), FeedCounts::default());
        assert!(mirrors.snapshot(LegId(0), stated(5, 0), [ASK].into_iter(), &mut counts));
        assert!(mirrors.update(LegId(0), 5, stated(6, 0), [NEXT].into_iter(), &mut counts));
        assert!(mirrors.legs.is_empty());
        assert_eq!(counts, FeedCounts::default());
    }
}
