//! Faults by chance: what goes wrong in a random mix, and when it ends.
//!
//! Never: a fault that cannot happen to the real thing; a fault left over when they are told to stop.

use super::{
    START_NS, World,
    agenda::Action,
    note,
    setup::{Leg, LegLink, MS, Market, Rest, SECOND, Viewer, ViewerLink},
    truth::Truth,
};

/// Mean time between two faults, nanoseconds.
const EVERY_NS: u64 = 900 * MS;

/// Below this id a venue's counter is not started anew: the next run of ids could meet the last one's.
const RESTARTED_ID_MIN: u64 = 1_000_000;

/// A fault, or its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Time for the next one, whichever it is.
    Next,
    /// A leg is as it was.
    LegHeals(Leg),
    /// A leg is opened again.
    LegOpens(Leg),
    /// The venue answers again.
    RestHeals(Market),
    /// The venue moves an instrument again.
    Wakes(Market),
    /// The server is started again.
    Starts,
    /// A terminal may connect again.
    ViewerMends(Viewer),
    /// A leg takes the new ids as well.
    Follows(Market, Leg),
    /// Workers are in step again.
    WorkersHeal,
}

impl World {
    /// Lets faults happen from now on, until [`World::settle`].
    pub fn faults_by_chance(&mut self) {
        self.faulty = true;
        self.plan_fault(EVERY_NS, Fault::Next);
    }

    fn plan_fault(&mut self, mean_ns: u64, fault: Fault) {
        let at_ns = self.now_ns.saturating_add(self.fault_chance.around(mean_ns));
        self.agenda.plan(at_ns, Action::Fault(fault));
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        if !self.faulty {
            return;
        }
        match fault {
            Fault::Next => {
                self.next_fault();
                self.plan_fault(EVERY_NS, Fault::Next);
            }
            Fault::LegHeals(leg) => {
                self.link(leg, self.setup.link);
                self.mute(leg, false);
            }
            Fault::LegOpens(leg) => self.open_leg(leg),
            Fault::RestHeals(market) => self.rest(market, Rest::Current),
            Fault::Wakes(market) => self.wake(market),
            Fault::Starts => self.start(),
            Fault::ViewerMends(viewer) => self.mend(viewer),
            Fault::Follows(market, leg) => self.follow_ids(market, leg),
            Fault::WorkersHeal => self.worker_lag_ns = self.setup.worker_lag_ns,
        }
    }

    fn next_fault(&mut self) {
        let leg = self.fault_chance.index(self.legs.len());
        let market = self.fault_chance.index(self.truths.len());
        match self.fault_chance.below(20) {
            0..=3 => self.bad_link(leg),
            4 | 5 => self.leg_ends(leg),
            6 => self.all_legs_end(market),
            7 => {
                self.mute(leg, true);
                note!(self, "fault: leg {leg} is mute");
                self.plan_fault(2 * SECOND, Fault::LegHeals(leg));
            }
            8 | 9 => self.bad_rest(market),
            10 | 11 => self.killed(),
            12 => self.venue_restarts(market),
            13 | 14 => self.bad_viewer_link(),
            15 => self.quiet(market),
            16 => {
                if let Some(burst) = self.bursts.get_mut(market) {
                    *burst = 400;
                }
                note!(self, "fault: a burst of {market}");
            }
            17 => {
                self.worker_lag_ns = self.fault_chance.between((10 * MS, 200 * MS));
                note!(self, "fault: workers lag up to {} ms", self.worker_lag_ns / MS);
                self.plan_fault(SECOND, Fault::WorkersHeal);
            }
            18 => {
                note!(self, "fault: the connector loses something of {market}");
                self.overflow(market);
            }
            _ => self.viewer_breaks(),
        }
    }

    fn bad_link(&mut self, leg: Leg) {
        let parts = |world: &mut Self| u32::try_from(world.fault_chance.below(96)).unwrap_or(0);
        let slowest = self.fault_chance.between((5 * MS, 180 * MS));
        let link = LegLink {
            delay_ns: (5 * MS, slowest),
            lost_in_256: parts(self),
            doubled_in_256: parts(self),
            overtaken_in_256: parts(self),
        };
        note!(self, "fault: leg {leg} is bad: {link:?}");
        self.link(leg, link);
        self.plan_fault(SECOND, Fault::LegHeals(leg));
    }

    fn leg_ends(&mut self, leg: Leg) {
        note!(self, "fault: leg {leg} ends");
        self.close_leg(leg);
        self.plan_fault(SECOND, Fault::LegOpens(leg));
    }

    /// Every leg of an instrument's venue ends at one time.
    fn all_legs_end(&mut self, market: Market) {
        let Some(venue) = self.truths.get(market).map(|truth| truth.venue) else { return };
        note!(self, "fault: every leg of {venue} ends");
        for leg in 0..self.legs.len() {
            if self.legs.get(leg).is_some_and(|leg| leg.venue == venue) {
                self.close_leg(leg);
                self.plan_fault(2 * SECOND, Fault::LegOpens(leg));
            }
        }
    }

    fn bad_rest(&mut self, market: Market) {
        let back = self.fault_chance.index(200);
        let rest = if self.fault_chance.in_256(64) { Rest::Silent } else { Rest::Lagging(back) };
        note!(self, "fault: answers for {market}: {rest:?}");
        self.rest(market, rest);
        self.plan_fault(4 * SECOND, Fault::RestHeals(market));
    }

    fn killed(&mut self) {
        self.kill();
        let lag_ns = self.fault_chance.below(SECOND);
        self.store.set_lag(lag_ns);
        let down_ns = if self.fault_chance.in_256(128) { 50 * MS } else { 2 * SECOND };
        self.plan_fault(down_ns, Fault::Starts);
    }

    /// A venue's counter starts anew, on the connections that there are or with new ones.
    fn venue_restarts(&mut self, market: Market) {
        // Each start lies far below all before, as a counter that begins anew does.
        let far = |truth: &&Truth| truth.numbered() && truth.id() > RESTARTED_ID_MIN;
        let Some(id) = self.truths.get(market).filter(far).map(|truth| truth.id() / 2) else { return };
        note!(self, "fault: the venue restarts {market}");
        match self.fault_chance.below(3) {
            0 => {
                self.all_legs_end(market);
                self.restart_ids(market, id);
            }
            1 => self.restart_ids(market, id),
            _ => {
                let leg = self.fault_chance.index(self.setup.legs);
                self.restart_ids_but_on(market, id, leg);
                self.plan_fault(SECOND, Fault::Follows(market, leg));
            }
        }
    }

    fn quiet(&mut self, market: Market) {
        note!(self, "fault: {market} is quiet");
        if let Some(quiet) = self.quiet.get_mut(market) {
            *quiet = true;
        }
        self.plan_fault(4 * SECOND, Fault::Wakes(market));
    }

    fn wake(&mut self, market: Market) {
        if let Some(quiet) = self.quiet.get_mut(market) {
            *quiet = false;
        }
    }

    fn bad_viewer_link(&mut self) {
        let viewer = self.fault_chance.index(self.viewers.len());
        if self.fault_chance.in_256(128) {
            let stall_ns = self.fault_chance.between((100 * MS, 6 * SECOND));
            note!(self, "fault: viewer {viewer} stalls for {} ms", stall_ns / MS);
            self.stall(viewer, stall_ns);
        } else if let Some(kbit) = [32, 64, 256, 2_000, 20_000].get(self.fault_chance.index(5)).copied() {
            note!(self, "fault: viewer {viewer} has {kbit} kbit/s");
            if let Some(found) = self.viewers.get_mut(viewer) {
                found.link = ViewerLink::kbit(kbit);
            }
        }
    }

    fn viewer_breaks(&mut self) {
        let viewer = self.fault_chance.index(self.viewers.len());
        let sees_ns = self.fault_chance.below(2 * SECOND);
        note!(self, "fault: viewer {viewer} breaks off");
        self.cut_viewer(viewer, sees_ns);
        self.plan_fault(SECOND, Fault::ViewerMends(viewer));
    }

    /// Ends every fault: all links are clean, everybody may connect, and the server is there.
    pub(super) fn heal(&mut self) {
        self.faulty = false;
        note!(self, "faults end at {} ms", (self.now_ns - START_NS) / MS);
        for leg in 0..self.legs.len() {
            self.link(leg, self.setup.link);
            self.mute(leg, false);
            self.lose(leg, 0);
            self.open_leg(leg);
        }
        self.former_ids.clear();
        for market in 0..self.truths.len() {
            self.rest(market, Rest::Current);
            self.wake(market);
        }
        for viewer in 0..self.viewers.len() {
            self.mend(viewer);
        }
        self.worker_lag_ns = self.setup.worker_lag_ns;
        self.start();
    }
}
