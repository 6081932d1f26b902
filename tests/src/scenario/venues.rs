//! The venues' side of a scenario: what they say, and what of it reaches the server.
//!
//! Never: a message to a server that is not there.

use super::{
    World,
    agenda::{Action, Said},
    connector::{self, Told},
    note,
    setup::{Leg, Market, MarketKind, Rest, SECOND},
    truth::Whole,
};
use connectors::venue_feed::Undecodable;
use market::{Body, Event};
use std::sync::Arc;

/// A question without an answer is given up after this time.
const GIVE_UP_NS: u64 = SECOND;

/// Least and greatest time to open a connection, nanoseconds.
const OPEN_NS: (u64, u64) = (10_000_000, 40_000_000);

impl World {
    pub(super) fn tell(&mut self, market: Market) {
        let Some(changed) = self.truths.get_mut(market).and_then(super::truth::Truth::tell) else { return };
        note!(self, "venue {market} tells {}..={} up to {}", changed.first, changed.last, changed.to);
        self.say(market, &Said::Changed(market, Arc::new(changed)));
    }

    /// Says something of an instrument on every leg of its venue.
    pub(super) fn say(&mut self, market: Market, said: &Said) {
        let Some(venue) = self.truths.get(market).map(|truth| truth.venue) else { return };
        let before = match said {
            Said::Changed(_, changed) => self.truths.get(market).and_then(|truth| truth.in_former_ids(changed)),
            _ => None,
        };
        let before = before.map(|changed| Said::Changed(market, Arc::new(changed)));
        for leg in 0..self.legs.len() {
            if self.legs.get(leg).is_some_and(|leg| leg.venue == venue) {
                let lags = self.former_ids.contains(&(market, leg));
                self.say_on(leg, before.as_ref().filter(|_| lags).unwrap_or(said));
            }
        }
    }

    fn say_on(&mut self, at: Leg, said: &Said) {
        let Some(leg) = self.legs.get_mut(at).filter(|leg| leg.up && !leg.mute) else { return };
        // A subscription's snapshot opens the stream: without it a connector has nothing to follow.
        let reliable = matches!(said, Said::Whole(..));
        let arrivals = leg.arrivals(self.now_ns, reliable, &mut self.link_chance);
        if arrivals.is_empty() {
            note!(self, "leg {at} loses a message");
        }
        let generation = leg.generation;
        for at_ns in arrivals {
            self.agenda.plan(at_ns, Action::Arrive { leg: at, generation, said: said.clone() });
        }
    }

    pub(super) fn heartbeat(&mut self, at: Leg) {
        let Some(leg) = self.legs.get(at) else { return };
        if leg.up && !leg.mute {
            let (generation, at_ns) = (leg.generation, self.now_ns.saturating_add(leg.link.delay_ns.1));
            self.agenda.plan(at_ns, Action::Arrive { leg: at, generation, said: Said::Heartbeat });
        }
        self.agenda.plan(self.now_ns.saturating_add(self.setup.heartbeat_ns), Action::Heartbeat(at));
    }

    /// The venue changes an instrument by itself.
    pub(super) fn moves(&mut self, market: Market) {
        let Some(truth) = self.truths.get_mut(market) else { return };
        let Some(every_ns) = truth.every_ns else { return };
        let burst = self.bursts.get_mut(market).map_or(0, |left| std::mem::replace(left, left.saturating_sub(1)));
        if self.quiet.get(market) == Some(&false) {
            for _ in 0..=self.venue_chance.below(3) {
                truth.change_by_chance(&mut self.venue_chance);
            }
            // Some messages are put off, so that a snapshot may fall between the ids of the next one.
            if self.venue_chance.in_256(200) {
                self.tell(market);
            }
        }
        let pause_ns = if burst > 0 { every_ns / 64 } else { every_ns };
        let at_ns = self.now_ns.saturating_add(self.venue_chance.around(pause_ns).max(1));
        self.agenda.plan(at_ns, Action::Move(market));
    }

    pub(super) fn plan_open(&mut self, leg: Leg) {
        if let Some(run) = self.server.as_ref().map(|server| server.run) {
            let at_ns = self.now_ns.saturating_add(self.link_chance.between(OPEN_NS));
            self.agenda.plan(at_ns, Action::Open { leg, run });
        }
    }

    pub(super) fn opened(&mut self, at: Leg, run: u64) {
        if self.server.as_ref().is_none_or(|server| server.run != run) {
            return;
        }
        let Some(leg) = self.legs.get_mut(at).filter(|leg| !leg.up && !leg.barred) else { return };
        leg.up = true;
        leg.generation += 1;
        let venue = leg.venue;
        // Whoever takes the connection counts as the venue does now.
        self.former_ids.retain(|(_, leg)| *leg != at);
        note!(self, "leg {at} up");
        self.reconnected(at, true);
        for market in 0..self.truths.len() {
            let Some(truth) = self.truths.get(market).filter(|truth| truth.venue == venue) else { continue };
            match truth.kind {
                MarketKind::Window(_) => self.subscribed(market, at),
                // As a connector does at its start: each book is fetched once, later ones only when they are asked for.
                MarketKind::Numbered { .. } if self.fetched.get(market) == Some(&false) => {
                    if let Some(fetched) = self.fetched.get_mut(market) {
                        *fetched = true;
                    }
                    self.fetch(market);
                }
                MarketKind::Numbered { .. } => {}
            }
        }
    }

    /// The venue answers a subscription with a snapshot on its leg.
    fn subscribed(&mut self, market: Market, leg: Leg) {
        self.tell(market);
        if let Some(truth) = self.truths.get(market) {
            let whole = truth.whole(truth.now());
            self.say_on(leg, &Said::Whole(market, Arc::new(whole)));
        }
    }

    pub(super) fn resubscribed(&mut self, run: u64, market: Market, leg: Leg) {
        let Some(server) = self.server.as_mut().filter(|server| server.run == run) else { return };
        server.connector.asked(market);
        self.subscribed(market, leg);
    }

    pub(super) fn end_leg(&mut self, at: Leg) {
        let Some(leg) = self.legs.get_mut(at).filter(|leg| leg.up) else { return };
        leg.up = false;
        leg.generation += 1;
        note!(self, "leg {at} down");
        self.reconnected(at, false);
    }

    /// A leg's connection begins or ends: the connector's books of it end, and others take over.
    fn reconnected(&mut self, at: Leg, up: bool) {
        let (Some(server), Some(leg)) = (&mut self.server, self.legs.get(at)) else { return };
        let told = server.connector.reconnected(at, &self.truths);
        let body = if up { Body::LegUp } else { Body::LegDown };
        let life = Event::of_leg(0, leg.id, self.now_ns, body);
        let decoded = server.texts.as_mut().map(|texts| texts.life(self.now_ns, server.connector.position(), leg, up));
        self.take(Some(life), told, decoded);
    }

    /// Takes to the lanes what the connector tells, or what the real decoders do, which must be the same.
    fn take(&mut self, life: Option<Event>, told: Vec<Told>, decoded: Option<Result<Vec<Event>, Undecodable>>) {
        let mut events: Vec<Event> = life.into_iter().collect();
        for told in told {
            events.extend(self.event(told));
        }
        match decoded {
            None => {}
            Some(Ok(mut decoded)) => {
                decoded.retain(|event| !matches!(event.body, Body::Listing(_)));
                if let Some(text) = differ(&events, &decoded) {
                    self.fail(&text);
                }
                events = decoded;
            }
            Some(Err(error)) => self.fail(&format!("a venue's text does not decode: {error}")),
        }
        if let Some(server) = &mut self.server {
            events.into_iter().for_each(|event| server.take(event));
        }
        self.look_ahead();
    }

    fn event(&mut self, told: Told) -> Option<Event> {
        let Told { market, leg, body, arrival } = told;
        let server = self.server.as_ref()?;
        if let Some((number, place)) = arrival {
            self.checker.arrived(market, server.run, number, place);
        }
        let (leg, symbol) = (self.legs.get(leg)?.id, *server.symbols.get(market)?);
        Some(Event::of(symbol, leg, self.now_ns, 0, body))
    }

    /// Asks the venue for a snapshot, unless a question is under way.
    pub(super) fn fetch(&mut self, market: Market) {
        let (Some(truth), Some(rest)) = (self.truths.get(market), self.rests.get(market).copied()) else { return };
        let Some(server) = &mut self.server else { return };
        if !server.connector.asks(market) {
            return;
        }
        let run = server.run;
        let at_ns = self.now_ns.saturating_add(self.rest_chance.between(self.setup.rest_ns));
        let back = match rest {
            Rest::Current => Some(0),
            Rest::Lagging(changes) => Some(changes),
            Rest::Silent => None,
        };
        let usable = |leg: &Leg| self.legs.get(*leg).is_some_and(|leg| leg.up && leg.venue == truth.venue);
        let leg = server.connector.active(market).filter(usable).or_else(|| (0..self.legs.len()).find(usable));
        let action = match (back, truth.kind, leg) {
            (Some(back), MarketKind::Numbered { .. }, _) => {
                let whole = Arc::new(truth.whole(truth.now().saturating_sub(back)));
                note!(self, "asked for {market}; the venue answers with {}", whole.id);
                Some(Action::Reply { run, market, whole })
            }
            (Some(_), MarketKind::Window(_), Some(leg)) => {
                note!(self, "asked for {market} on leg {leg}");
                Some(Action::Resubscribe { run, market, leg })
            }
            _ => None,
        };
        match action {
            Some(action) => self.agenda.plan(at_ns, action),
            None => {
                note!(self, "asked for {market} in vain");
                self.agenda.plan(self.now_ns.saturating_add(GIVE_UP_NS), Action::GiveUp { run, market });
            }
        }
    }

    pub(super) fn gave_up(&mut self, run: u64, market: Market) {
        if let Some(server) = self.server.as_mut().filter(|server| server.run == run) {
            server.connector.asked(market);
        }
    }

    /// A REST answer arrives.
    pub(super) fn replied(&mut self, run: u64, market: Market, whole: Arc<Whole>) {
        let Some(server) = self.server.as_mut().filter(|server| server.run == run) else { return };
        server.connector.asked(market);
        note!(self, "snapshot {} of {market}", whole.id);
        self.checker.told(market, self.now_ns, whole.at);
        let Some(truth) = self.truths.get(market) else { return };
        let Some(at) = self.legs.iter().position(|leg| leg.venue == truth.venue) else { return };
        let decoded = self.legs.get(at).zip(server.texts.as_mut());
        let decoded = decoded.map(|(leg, texts)| texts.reply(self.now_ns, leg, &truth.symbol, whole.id, &whole.ticks));
        let body = connector::numbered(&Said::Whole(market, whole));
        let told = body.map(|body| Told { market, leg: at, body, arrival: None });
        self.take(None, told.into_iter().collect(), decoded);
    }

    /// A message of a leg arrives.
    pub(super) fn arrived(&mut self, at: Leg, generation: u64, said: &Said) {
        let Some(leg) = self.legs.get(at).filter(|leg| leg.up && leg.generation == generation) else { return };
        let Some(server) = &mut self.server else { return };
        let heard = server.connector.hear(self.now_ns, at, said, &self.truths);
        let position = server.connector.position();
        let decoded = server.texts.as_mut().map(|texts| texts.said(self.now_ns, position, leg, said, &self.truths));
        let life = heard.alive.then(|| Event::of_leg(0, leg.id, self.now_ns, Body::LegHeard));
        self.heard_ns.insert(leg.venue, self.now_ns);
        if let Some((market, place)) = heard.place {
            self.checker.told(market, self.now_ns, place);
        }
        let run = server.run;
        let now_ns = self.now_ns;
        let repairs = server.texts.as_mut().is_some_and(|texts| texts.repairs(now_ns));
        if repairs && heard.repair.is_none() {
            self.fail("a decoder wants a book repaired that is right");
        }
        if let Some(market) = heard.repair {
            note!(self, "leg {at} has a wrong book of {market}");
            let at_ns = self.now_ns.saturating_add(self.rest_chance.between(self.setup.rest_ns));
            self.agenda.plan(at_ns, Action::Resubscribe { run, market, leg: at });
        }
        self.take(life, heard.told.into_iter().collect(), decoded);
    }
}

/// What the model of a connector and the real decoders do not say alike, if there is such a thing.
fn differ(model: &[Event], decoded: &[Event]) -> Option<String> {
    let place = |event: &Event| match &event.body {
        Body::Snapshot(snapshot) => (event.symbol, "snapshot", Some(snapshot.sequence)),
        Body::Delta(delta) => (event.symbol, "delta", Some(delta.sequence)),
        Body::Broken(_) => (event.symbol, "broken", None),
        Body::LegUp => (event.symbol, "up", None),
        Body::LegDown => (event.symbol, "down", None),
        _ => (event.symbol, "other", None),
    };
    let sorted = |events: &[Event]| {
        let mut places: Vec<_> = events.iter().map(place).collect();
        places.sort_by_key(|(symbol, kind, _)| (*symbol, *kind));
        places
    };
    let (model, decoded) = (sorted(model), sorted(decoded));
    (model != decoded).then(|| format!("the decoders say {decoded:?} where {model:?} is right"))
}
