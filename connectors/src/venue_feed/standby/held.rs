//! Changes of one leg's book that wait for the checksum which the venue sends behind them, in a message of its own: an event
//! that comes in several messages is told as one, and none of it over a book that turns out to be wrong.
//!
//! A venue may send its checksums seldom. So they are only waited for while they come at once.
//!
//! Never: a change that waits longer than one behind a hole does.

use crate::venue_feed::number::LevelText;
use market::Side;

/// So long a change waits for its checksum at most, in nanoseconds of the receive time: as one behind a hole.
const WAIT_NS_MAX: u64 = 250_000_000;

/// A checksum that comes later than this after the first change that it covers is not worth waiting for: half a frame.
const PROMPT_NS_MAX: u64 = 20_000_000;

/// Checksums in a row that came at once, after which they are waited for again.
const PROMPT_MIN: u32 = 20;

/// Changes that wait at most: what an event could change of the longest book that can be subscribed to, 250 levels a side.
const CHANGES_MAX: usize = 500;

/// One change, in the venue's spelling.
#[derive(Debug)]
pub(super) struct Row {
    side: Side,
    price: Box<str>,
    quantity: Box<str>,
}

impl Row {
    pub(super) fn of(level: LevelText<'_>) -> Self {
        Self { side: level.side, price: level.price.into(), quantity: level.quantity.into() }
    }

    pub(super) fn text(&self) -> LevelText<'_> {
        LevelText { side: self.side, price: &self.price, quantity: &self.quantity }
    }
}

/// Those of one book.
#[derive(Debug, Default)]
pub(super) struct Held {
    rows: Vec<Row>,
    /// When the first change since the last checksum came, Unix nanoseconds.
    since_ns: Option<u64>,
    /// After one that came late: how many came at once since.
    prompt: Option<u32>,
}

impl Held {
    /// A change came. Whether it is to wait.
    pub(super) fn waits(&mut self, now_ns: u64) -> bool {
        self.since_ns.get_or_insert(now_ns);
        self.prompt.is_none() || !self.rows.is_empty()
    }

    /// Keeps changes until [`Held::take`].
    pub(super) fn keep<'a>(&mut self, levels: impl Iterator<Item = LevelText<'a>>) {
        self.rows.extend(levels.map(Row::of));
    }

    /// When those that wait have waited long enough; none if none does.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.since_ns.filter(|_| !self.rows.is_empty()).map(|since_ns| since_ns.saturating_add(WAIT_NS_MAX))
    }

    /// Whether no more may wait, for time or number.
    pub(super) fn is_full(&self, now_ns: u64) -> bool {
        self.rows.len() >= CHANGES_MAX || self.due_ns().is_some_and(|due_ns| now_ns >= due_ns)
    }

    /// A checksum came.
    pub(super) fn checked(&mut self, now_ns: u64) {
        let Some(since_ns) = self.since_ns.take() else { return };
        if now_ns > since_ns.saturating_add(PROMPT_NS_MAX) {
            self.prompt = Some(0);
        } else {
            self.prompt = self.prompt.map(|prompt| prompt + 1).filter(|prompt| *prompt < PROMPT_MIN);
        }
    }

    /// No checksum came in time.
    pub(super) fn missed(&mut self) {
        self.prompt = Some(0);
    }

    /// Takes what waits.
    pub(super) fn take(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn row(held: &mut Held, now_ns: u64) -> bool {
        let waits = held.waits(now_ns);
        if waits {
            held.keep([LevelText { side: Side::Bid, price: "1", quantity: "2" }].into_iter());
        }
        waits
    }

    #[test]
    fn checksums_are_waited_for_while_they_come_at_once() {
        let mut held = Held::default();
        assert!(row(&mut held, 0) && row(&mut held, 20 * MS));
        assert_eq!(held.due_ns(), Some(250 * MS), "from the first on");
        held.checked(20 * MS);
        assert_eq!((held.take().len(), held.due_ns()), (2, None));
        assert!(row(&mut held, 100 * MS), "that was in time");
        held.checked(121 * MS);
        assert_eq!(held.take().len(), 1);
        for at in 0..u64::from(PROMPT_MIN) {
            assert!(!row(&mut held, (200 + at) * MS), "that was not");
            held.checked((200 + at) * MS);
        }
        assert!(row(&mut held, 300 * MS));
    }

    #[test]
    fn what_waits_is_bounded_in_time_and_number() {
        let mut held = Held::default();
        row(&mut held, 0);
        assert!(!held.is_full(WAIT_NS_MAX - 1) && held.is_full(WAIT_NS_MAX));
        assert!((1..CHANGES_MAX).all(|_| !held.is_full(0) && row(&mut held, 0)));
        assert!(held.is_full(0));
        held.missed();
        assert!(row(&mut held, 0), "nothing overtakes what waits");
        held.take();
        assert!(!row(&mut held, 0));
    }
}
