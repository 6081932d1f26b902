//! What a story may let happen at the venues and on the legs.
//!
//! Never: something that happens by chance, unless the story asks for it by name.

use super::{
    World,
    agenda::Said,
    note,
    setup::{Leg, LegLink, Market, Rest},
    truth::Truth,
};
use market::{Body, Event, LegId, TickChange, guard::BreakReason};
use std::sync::Arc;

impl World {
    /// The venue makes changes and says so in one message on every leg.
    pub fn change(&mut self, market: Market, changes: &[TickChange]) {
        let Some(truth) = self.truths.get_mut(market) else { return };
        changes.iter().for_each(|change| truth.change(*change));
        self.tell(market);
    }

    /// The venue makes so many changes, each in a message of its own.
    pub fn changes_by_chance(&mut self, market: Market, count: usize) {
        for _ in 0..count {
            if let Some(truth) = self.truths.get_mut(market) {
                truth.change_by_chance(&mut self.venue_chance);
            }
            self.tell(market);
        }
    }

    /// The id of the venue's last change.
    #[must_use]
    pub fn venue_id(&self, market: Market) -> u64 {
        self.truths.get(market).map_or(0, Truth::id)
    }

    /// The venue's counter starts anew at an id; its book stays.
    pub fn restart_ids(&mut self, market: Market, id: u64) {
        self.tell(market);
        let Some(truth) = self.truths.get_mut(market) else { return };
        truth.restart_ids(id);
        note!(self, "venue {} restarts its ids at {id}", truth.name);
    }

    /// What is shown of an instrument is no longer held against its venue, for stories in which the venue tells two
    /// truths; one book per version and no step back are demanded all the same.
    pub fn forgive(&mut self, market: Market) {
        self.checker.forgive(market);
    }

    /// The same, but one leg goes on with the former ids until [`World::follow_ids`] or its next opening: a venue's servers
    /// restart one after another.
    pub fn restart_ids_but_on(&mut self, market: Market, id: u64, leg: Leg) {
        self.restart_ids(market, id);
        self.former_ids.push((market, leg));
    }

    /// The leg that went on with the former ids takes the new ones.
    pub fn follow_ids(&mut self, market: Market, leg: Leg) {
        note!(self, "leg {leg} follows with the ids of {market}");
        self.former_ids.retain(|lagging| *lagging != (market, leg));
    }

    /// The venue tells another change than it made: what it then shows at that id is not its book.
    pub fn tell_wrongly(&mut self, market: Market, change: TickChange, told: TickChange) {
        let Some(truth) = self.truths.get_mut(market) else { return };
        truth.change(change);
        if let Some(mut changed) = truth.tell() {
            note!(self, "venue {} tells {} wrongly", truth.name, changed.last);
            changed.changes = vec![told];
            self.say(market, &Said::Changed(market, Arc::new(changed)));
        }
    }

    /// How the venue answers when a snapshot is asked for.
    pub fn rest(&mut self, market: Market, rest: Rest) {
        if let Some(held) = self.rests.get_mut(market) {
            *held = rest;
        }
    }

    /// The next messages of a leg are lost.
    pub fn lose(&mut self, leg: Leg, messages: u32) {
        if let Some(leg) = self.legs.get_mut(leg) {
            leg.lose = messages;
        }
    }

    /// A leg stays open, but nothing comes on it any longer, or again.
    pub fn mute(&mut self, leg: Leg, mute: bool) {
        if let Some(leg) = self.legs.get_mut(leg) {
            leg.mute = mute;
        }
    }

    /// The quality of a leg from now on.
    pub fn link(&mut self, leg: Leg, link: LegLink) {
        if let Some(leg) = self.legs.get_mut(leg) {
            leg.link = link;
        }
    }

    /// A leg ends and stays down until [`World::open_leg`].
    pub fn close_leg(&mut self, at: Leg) {
        if let Some(leg) = self.legs.get_mut(at) {
            leg.barred = true;
        }
        self.end_leg(at);
    }

    /// A leg may be opened again, and is.
    pub fn open_leg(&mut self, at: Leg) {
        if let Some(leg) = self.legs.get_mut(at) {
            leg.barred = false;
        }
        self.plan_open(at);
    }

    /// The connector knows that it lost something of an instrument.
    pub fn overflow(&mut self, market: Market) {
        let now_ns = self.now_ns;
        let Some(server) = &mut self.server else { return };
        let Some(symbol) = server.symbols.get(market).copied() else { return };
        note!(self, "connector overflow {market}");
        server.take(Event::of(symbol, LegId(0), now_ns, 0, Body::Broken(BreakReason::Missing)));
        self.look_ahead();
    }
}
