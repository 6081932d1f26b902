//! What each kind of block does to a session.
//!
//! Never: a block applied to an instrument that the present dictionary does not name.

use super::{InstrumentState, Session, SessionError, ShownQuote};
use crate::{
    guard::{Check, Outcome},
    notice::Notice,
};
use market::{Feed, Version, trade::TradeVerdict};
use std::sync::Arc;
use wire::{BestBlock, Block, ChainKind, Channel, DigestBlock, QuoteBlock, TradesBlock};

impl Session {
    pub(super) fn take_block(
        &mut self,
        kind: ChainKind,
        block: Block,
        now_ms: u64,
        notices: &mut Vec<Notice>,
    ) -> Result<(), SessionError> {
        match block {
            Block::BookSnapshot(snapshot) => {
                let Some(state) = self.named(snapshot.id, notices) else { return Ok(()) };
                let outcome = state.books.snapshot(kind, &snapshot);
                state.hear(kind, now_ms);
                state.observe(snapshot.feed, snapshot.age_ms, now_ms, notices);
                self.tell_book(kind, snapshot.id, outcome, true, notices);
            }
            Block::BookDelta(delta) => {
                let Some(state) = self.named(delta.id, notices) else { return Ok(()) };
                let outcome = state.books.delta(kind, &delta, now_ms);
                if matches!(outcome, Outcome::Shown(_) | Outcome::Behind | Outcome::Refused { .. }) {
                    state.hear(kind, now_ms);
                    state.observe(delta.feed, 0, now_ms, notices);
                }
                self.tell_book(kind, delta.id, outcome, false, notices);
            }
            Block::Quote(quote) => self.take_quote(&quote, now_ms, notices),
            Block::Trades(trades) => self.take_trades(trades, now_ms, notices),
            Block::Best(best) => self.take_best(&best, notices),
            Block::Status(status) => {
                if let Some(state) = self.named(status.id, notices) {
                    state.observe(status.feed, status.age_ms, now_ms, notices);
                }
            }
            Block::Digest(digest) => self.take_digest(&digest, now_ms, notices),
            Block::View(view) => self.take_view(&view, notices)?,
        }
        Ok(())
    }

    fn named(&mut self, id: u32, notices: &mut Vec<Notice>) -> Option<&mut InstrumentState> {
        match self.lookup(Channel::Book, id) {
            Some(at) => self.instruments.get_mut(at),
            None => {
                self.unknown(id, notices);
                None
            }
        }
    }

    fn tell_book(&mut self, kind: ChainKind, id: u32, outcome: Outcome, whole: bool, notices: &mut Vec<Notice>) {
        let channel = match kind {
            ChainKind::Conflated => Channel::Book,
            ChainKind::Priority => Channel::Priority,
        };
        let Some(instrument) = self.named(id, notices).map(|state| Arc::clone(&state.name)) else { return };
        match outcome {
            Outcome::Shown(version) => notices.push(Notice::BookChanged { instrument, version }),
            Outcome::Refused { offered, shown } if whole => {
                self.regressed(channel, instrument, offered, shown, notices);
            }
            Outcome::Behind | Outcome::Refused { .. } => {}
            Outcome::Ask => {
                self.counters.deltas_refused = self.counters.deltas_refused.saturating_add(1);
                self.ask(channel, id);
                notices.push(Notice::NeedsResync { channel, instrument });
            }
            Outcome::Waiting => self.counters.deltas_refused = self.counters.deltas_refused.saturating_add(1),
        }
    }

    fn ask(&mut self, channel: Channel, id: u32) {
        self.counters.resyncs = self.counters.resyncs.saturating_add(1);
        if let Some(attachment) = &mut self.attachment {
            attachment.resyncs.insert((channel, id));
        }
    }

    /// A digest is about the conflated chain alone, and about its present version.
    fn take_digest(&mut self, digest: &DigestBlock, now_ms: u64, notices: &mut Vec<Notice>) {
        let Some(state) = self.named(digest.id, notices) else { return };
        let check = state.books.check(digest.version, digest.crc, now_ms);
        let instrument = Arc::clone(&state.name);
        let counter = match check {
            Check::Right => &mut self.counters.digests_matched,
            Check::Wrong => &mut self.counters.digests_failed,
            Check::Skipped => &mut self.counters.digests_skipped,
        };
        *counter = counter.saturating_add(1);
        if check == Check::Wrong {
            self.ask(Channel::Book, digest.id);
            notices.push(Notice::DigestMismatch { instrument, version: digest.version });
        }
    }

    fn regressed(
        &mut self,
        channel: Channel,
        instrument: Arc<str>,
        offered: Version,
        shown: Version,
        notices: &mut Vec<Notice>,
    ) {
        self.counters.regressions_refused = self.counters.regressions_refused.saturating_add(1);
        notices.push(Notice::RegressionRefused { channel, instrument, offered, shown });
    }

    /// A quote of the shown version may still differ: feed and flags move without it.
    fn take_quote(&mut self, block: &QuoteBlock, now_ms: u64, notices: &mut Vec<Notice>) {
        let Some(state) = self.named(block.id, notices) else { return };
        state.observe(block.feed, block.age_ms, now_ms, notices);
        let instrument = Arc::clone(&state.name);
        let offered = ShownQuote { version: block.version, scale: block.scale, quote: block.quote };
        match state.quote {
            Some(shown) if offered.version < shown.version => {
                self.regressed(Channel::Quote, instrument, offered.version, shown.version, notices);
            }
            Some(shown) if shown == offered => state.quote_kept = false,
            _ => {
                state.quote = Some(offered);
                state.quote_kept = false;
                notices.push(Notice::QuoteChanged { instrument, version: offered.version });
            }
        }
    }

    fn take_trades(&mut self, block: TradesBlock, now_ms: u64, notices: &mut Vec<Notice>) {
        let generation = self.hello().map_or(0, |hello| hello.generation);
        let Some(state) = self.named(block.id, notices) else { return };
        let (mut late, mut repeated) = (0_u64, 0_u64);
        for trade in block.trades {
            match state.trades.offer(block.scale, &trade, generation, now_ms) {
                TradeVerdict::Shown => {
                    let instrument = Arc::clone(&state.name);
                    notices.push(Notice::Traded { instrument, scale: block.scale, trade });
                }
                TradeVerdict::Duplicate => repeated += 1,
                TradeVerdict::Late => late += 1,
            }
        }
        self.counters.trades_repeated = self.counters.trades_repeated.saturating_add(repeated);
        self.counters.trades_late = self.counters.trades_late.saturating_add(late);
    }

    fn take_best(&mut self, block: &BestBlock, notices: &mut Vec<Notice>) {
        let at = self.lookup(Channel::Best, block.pair);
        let Some(pair) = at.and_then(|at| self.pairs.get_mut(at)) else {
            self.unknown(block.pair, notices);
            return;
        };
        if pair.best != Some(block.best) {
            pair.best = Some(block.best);
            notices.push(Notice::BestChanged { pair: Arc::clone(&pair.name) });
        }
    }
}

impl InstrumentState {
    fn hear(&mut self, kind: ChainKind, now_ms: u64) {
        if kind == ChainKind::Priority {
            self.priority_at_ms = Some(now_ms);
        }
    }

    fn observe(&mut self, feed: Feed, age_ms: u64, now_ms: u64, notices: &mut Vec<Notice>) {
        self.heard = Some((age_ms, now_ms));
        self.feed_told = true;
        if self.feed != feed {
            self.feed = feed;
            notices.push(Notice::StatusChanged { instrument: Arc::clone(&self.name), feed });
        }
    }
}
