//! What is overdue on an open connection, and when the next look is worth it.
//!
//! Never: a look at all deadlines for each message.

use super::{Action, Fault, Leg, Link, NEVER, Note, Open, QUIET_MS, Stage, ms};

impl Leg {
    /// Looks at every deadline, and notes when the next one is.
    pub(super) fn scan(&mut self, now_ns: u64, open: Open) -> Option<Fault> {
        let terms = self.protocol.terms();
        if open.missing {
            return Some(Fault::Missing);
        }
        if let Some(since_ns) = open.held_since_ns {
            // Nothing is read, so nothing else can be overdue.
            self.scan_at_ns = since_ns.saturating_add(ms(self.held_max_ms));
            return (now_ns >= self.scan_at_ns).then_some(Fault::HeldUp);
        }
        let silent_at_ns = open.heard_ns.saturating_add(ms(terms.silence_ms));
        let sent_ns = self.asked.iter().map(|request| request.sent_ns).min();
        let unanswered_at_ns = sent_ns.map_or(NEVER, |sent_ns| sent_ns.saturating_add(ms(terms.answer_ms)));
        let nothing = !open.proven && self.outbox.is_empty() && self.asked.is_empty();
        let dataless_at_ns = if nothing { open.acknowledged_ns.saturating_add(ms(terms.data_ms)) } else { NEVER };
        let deadlines = [
            (silent_at_ns, Fault::Silent),
            (unanswered_at_ns, Fault::Unanswered),
            (dataless_at_ns, Fault::NoData),
            (open.leave_at_ns, Fault::Leaving),
        ];
        if let Some((_, fault)) = deadlines.into_iter().find(|(at_ns, _)| now_ns >= *at_ns) {
            return Some(fault);
        }
        let ping_at_ns = self.ping(now_ns, open);
        self.scan_at_ns = deadlines.into_iter().map(|(at_ns, _)| at_ns).min().unwrap_or(NEVER).min(ping_at_ns);
        for at in 0..self.subscriptions.len() {
            let due_ns = self.scan_one(now_ns, at);
            self.look_at(due_ns);
        }
        None
    }

    /// Asks the venue for a sign of life if it gave none for long; when that is due next.
    fn ping(&mut self, now_ns: u64, open: Open) -> u64 {
        let ping_ms = self.protocol.terms().ping_ms;
        if ping_ms == 0 {
            return NEVER;
        }
        let due_ns = open.heard_ns.max(open.pinged_ns).saturating_add(ms(ping_ms));
        if now_ns < due_ns {
            return due_ns;
        }
        if let Some(text) = self.protocol.ping(self.next_id) {
            self.next_id += 1;
            self.due.push_back(Action::Send(text));
        }
        if let Link::Open(open) = &mut self.link {
            open.pinged_ns = now_ns;
        }
        now_ns.saturating_add(ms(ping_ms))
    }

    /// Looks at one subscription; when it wants to be looked at again.
    fn scan_one(&mut self, now_ns: u64, at: usize) -> u64 {
        let terms = self.protocol.terms();
        let Some(subscription) = self.subscriptions.get_mut(at) else { return NEVER };
        if let Some(again_at_ns) = subscription.again_at_ns {
            if now_ns < again_at_ns {
                return again_at_ns;
            }
            subscription.again_at_ns = None;
            let insisted = subscription.begun(now_ns);
            self.due.push_back(Action::Note(Note::Resubscribed(at)));
            if insisted {
                self.due.push_back(Action::Note(Note::Insisted(at)));
            }
            self.begin_anew(at);
            return NEVER;
        }
        let Stage::Acknowledged { since_ns } = subscription.stage else { return NEVER };
        let wait_ms = if terms.data_each { terms.data_ms } else { QUIET_MS };
        let due_ns = since_ns.saturating_add(ms(wait_ms));
        if now_ns < due_ns {
            return due_ns;
        }
        if terms.data_each {
            self.due.push_back(Action::Note(Note::Dataless(at)));
            self.retry(now_ns, at);
            return now_ns;
        }
        self.verified(at);
        NEVER
    }
}
