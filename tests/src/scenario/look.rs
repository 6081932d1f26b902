//! A look at what terminals show: each book against the venue's, each mark against what the server knows, each frame
//! against the bounds of its way.
//!
//! Never: a change of what is looked at.

use super::{
    START_NS, World, note,
    process::HEARTBEAT_MS,
    setup::{MS, Market, SECOND, Viewer, ViewerLink},
    viewers::SOCKET_BYTES,
};
use market::FeedState;
use receiver::session::{HEARTBEAT_MS_MIN, HEARTBEATS_MISSED_MAX};

/// The largest message here, with which a link may be busy: snapshots of all books.
const MESSAGE_BYTES: u64 = 16 << 10;

impl World {
    /// A terminal shows something else of a book.
    pub(super) fn showed(&mut self, viewer: Viewer, market: Market) {
        let (Some(book), Some(truth)) = (self.book(viewer, market), self.truths.get(market)) else { return };
        if let Err(text) = self.checker.shows(viewer, market, truth, &book) {
            self.fail(&text);
        }
        note!(self, "viewer {viewer} shows {market} at {}", book.version);
        let shown = self.viewers.get_mut(viewer).and_then(|viewer| viewer.shown.get_mut(market));
        if let Some(shown) = shown.filter(|shown| shown.versions.last() != Some(&book.version)) {
            shown.versions.push(book.version);
        }
    }

    /// Looks at every mark that a terminal shows.
    pub(super) fn look(&mut self, viewer: Viewer) {
        for market in 0..self.truths.len() {
            self.look_at(viewer, market);
        }
    }

    fn look_at(&mut self, viewer: Viewer, market: Market) {
        let now_ms = self.viewer_ms();
        let (Some(truth), Some(found)) = (self.truths.get(market), self.viewers.get_mut(viewer)) else { return };
        let Some(view) = found.session.view(&truth.name, now_ms).filter(|view| view.book.is_some()) else { return };
        let state = view.feed.state;
        let live = state == FeedState::Live && !view.catching_up;
        let Some(shown) = found.shown.get_mut(market) else { return };
        if shown.state.replace(state) != Some(state) {
            shown.states.push(state);
            note!(self, "viewer {viewer} marks {market} {state}");
        }
        shown.live_ns = if live { shown.live_ns.or(Some(self.now_ns)) } else { None };
        let Some(live_ns) = shown.live_ns else { return };
        let bound_ns = viewer_bound_ns(&found.link, self.setup.ring.age_ms) + self.venue_bound_ns();
        let heard_ns = self.heard_ns.get(&truth.venue).copied().unwrap_or(START_NS);
        let late = |since_ns: u64| self.now_ns > since_ns.max(live_ns).saturating_add(bound_ns);
        if self.checker.behind_since(viewer, market).is_some_and(late) {
            self.fail(&format!("viewer {viewer} calls {} LIVE, which is behind for longer than bounded", truth.name));
        }
        if late(heard_ns) {
            self.fail(&format!("viewer {viewer} calls {} LIVE, whose venue is silent", truth.name));
        }
    }

    /// Time from a message's arrival at the connector to a mark at the latest: the longer of a hole and a silence.
    fn venue_bound_ns(&self) -> u64 {
        let limits = self.setup.limits;
        let silence_ns = self.setup.silent_ns + self.setup.heartbeat_ns + SECOND;
        silence_ns.max(limits.hole_ns + limits.bridge_ns) + self.setup.worker_lag_ns.max(self.worker_lag_ns)
    }

    /// No frame older than the ring's bound arrives, the time of the link itself apart.
    pub(super) fn check_frame_age(&self, viewer: Viewer, at_ms: u64) {
        let Some(found) = self.viewers.get(viewer) else { return };
        let age_ns = self.now_ns.saturating_sub(at_ms * MS);
        let bound_ns = viewer_bound_ns(&found.link, self.setup.ring.age_ms) + self.worker_lag_ns;
        if age_ns > bound_ns && self.now_ns > found.stalled_until_ns.saturating_add(bound_ns) {
            self.fail(&format!("viewer {viewer} gets a frame that is {} ms old", age_ns / MS));
        }
    }

    /// Whether a terminal wants the book of an instrument.
    pub(super) fn wants(&self, viewer: Viewer, market: Market) -> bool {
        let name = self.truths.get(market).map(|truth| &*truth.name).unwrap_or_default();
        self.session(viewer).subscriptions().any(|item| &*item.pattern == "*" || *item.pattern == *name)
    }
}

/// Time from a frame to a terminal at the latest, or until it sees that there is none: the ring's age, a heartbeat that
/// makes the ring look at it, a frame, and the link; or three heartbeats.
fn viewer_bound_ns(link: &ViewerLink, ring_age_ms: u64) -> u64 {
    let silence_ms = HEARTBEAT_MS.max(HEARTBEAT_MS_MIN) * HEARTBEATS_MISSED_MAX + 1_000;
    let ring_ms = ring_age_ms + HEARTBEAT_MS + 100;
    silence_ms.max(ring_ms) * MS + link.transmit_ns(SOCKET_BYTES + MESSAGE_BYTES) + 2 * link.delay_ns
}
