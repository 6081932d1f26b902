//! What each connection to a venue brought, summed over lanes and cuts, with the distribution of its lead over the others.
//!
//! Never: a lead lost from the sums because the distribution could not take it.

use crate::source::SourceLeg;
use dataflow::cut::LegCounts;
use hdrhistogram::Histogram;
use market::{LegId, Venue};

/// Longest lead told apart, microseconds: as all latencies here.
const LEAD_US_MAX: u64 = 60_000_000;

/// Shares of the leads that are told.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

#[derive(Clone, Debug, Default)]
struct Sum {
    counts: LegCounts,
    /// Microseconds; there once the leg was ahead of another.
    leads: Option<Histogram<u64>>,
}

impl Sum {
    fn add(&mut self, more: &LegCounts) {
        self.counts.add(more);
        if more.leads_ns.is_empty() {
            return;
        }
        if self.leads.is_none() {
            // The bounds are right, so this is there.
            self.leads = Histogram::new_with_bounds(1, LEAD_US_MAX, 3).ok();
        }
        if let Some(leads) = &mut self.leads {
            more.leads_ns.iter().for_each(|lead_ns| leads.saturating_record((lead_ns / 1_000).max(1)));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        match (&mut self.leads, &other.leads) {
            (Some(held), Some(more)) => {
                if held.add(more).is_err() {
                    tracing::warn!("two distributions of leads have other bounds");
                }
            }
            (held @ None, Some(more)) => *held = Some(more.clone()),
            (_, None) => {}
        }
    }
}

/// Sums by the number of the leg.
#[derive(Clone, Debug, Default)]
pub struct LegSums {
    legs: Vec<Sum>,
}

impl LegSums {
    /// Adds what legs brought in a cut.
    pub fn add(&mut self, legs: &[(LegId, LegCounts)]) {
        for (leg, counts) in legs {
            let at = usize::from(leg.0);
            if self.legs.len() <= at {
                self.legs.resize_with(at + 1, Sum::default);
            }
            if let Some(sum) = self.legs.get_mut(at) {
                sum.add(counts);
            }
        }
    }

    /// One row for each leg that said or brought anything, in the order of venue and name. Connections of a venue with one
    /// name are one leg.
    #[must_use]
    pub fn rows(&self, names: &[SourceLeg]) -> Vec<LegRow> {
        let mut legs: Vec<(Venue, &str, u64, Sum)> = Vec::new();
        let none = Sum::default();
        for (at, named) in names.iter().enumerate() {
            let sum = self.legs.get(at).unwrap_or(&none);
            if named.messages == 0 && sum.counts == LegCounts::default() {
                continue;
            }
            match legs.iter_mut().find(|(venue, name, ..)| *venue == named.venue && *name == named.name()) {
                Some((_, _, messages, held)) => {
                    *messages = messages.saturating_add(named.messages);
                    held.merge(sum);
                }
                None => legs.push((named.venue, named.name(), named.messages, sum.clone())),
            }
        }
        legs.sort_by_key(|(venue, name, ..)| (*venue, *name));
        legs.into_iter().map(|(venue, leg, messages, sum)| LegRow::new(venue, leg, messages, sum)).collect()
    }
}

/// What one leg of a venue brought so far.
#[derive(Clone, Debug, PartialEq)]
pub struct LegRow {
    /// The venue.
    pub venue: Venue,
    /// The last part of the connection's name.
    pub leg: Box<str>,
    /// Messages that came on it.
    pub messages: u64,
    /// What the lanes counted.
    pub counts: LegCounts,
    /// Its leads: quantile and microseconds; empty if it had none.
    pub lead_us: Vec<(f64, u64)>,
}

impl LegRow {
    fn new(venue: Venue, leg: &str, messages: u64, sum: Sum) -> Self {
        let quantile = |leads: &Histogram<u64>| QUANTILES.map(|at| (at, leads.value_at_quantile(at))).to_vec();
        let lead_us = sum.leads.as_ref().map(quantile).unwrap_or_default();
        Self { venue, leg: leg.into(), messages, counts: sum.counts, lead_us }
    }

    /// Every count with its name, the messages first.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, u64)> {
        std::iter::once(("messages", self.messages)).chain(self.counts.values()).collect()
    }

    /// The sum of its leads, microseconds.
    #[must_use]
    pub fn lead_us_sum(&self) -> u64 {
        self.counts.lead_ns / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(conn: &str, messages: u64) -> SourceLeg {
        SourceLeg { venue: Venue::BinanceSpot, conn: conn.into(), messages }
    }

    fn led(leads_ns: &[u64]) -> LegCounts {
        let (leads, lead_ns) = (u64::try_from(leads_ns.len()).unwrap(), leads_ns.iter().sum());
        LegCounts { wins: 10, leads, lead_ns, leads_ns: leads_ns.to_vec(), ..LegCounts::default() }
    }

    #[test]
    fn rows_are_named_sums_with_the_distribution_of_leads() {
        let mut sums = LegSums::default();
        let ms = 1_000_000;
        sums.add(&[(LegId(0), led(&[6 * ms, 7 * ms])), (LegId(2), led(&[]))]);
        sums.add(&[(LegId(0), led(&[8 * ms]))]);
        let names = [named("binance_spot/b", 5), named("binance_spot/rest", 0), named("binance_spot/a", 7)];
        let rows = sums.rows(&names);
        let told: Vec<_> = rows.iter().map(|row| (&*row.leg, row.messages, row.counts.wins)).collect();
        assert_eq!(told, [("a", 7, 10), ("b", 5, 20)]);
        assert_eq!((rows[1].counts.leads, rows[1].lead_us_sum()), (3, 21_000));
        let median = rows[1].lead_us[0].1;
        assert!((7_000..7_010).contains(&median), "{median}");
        assert_eq!(rows[0].lead_us, []);
    }

    #[test]
    fn connections_of_one_name_are_one_leg() {
        let mut sums = LegSums::default();
        sums.add(&[(LegId(0), led(&[1_000_000])), (LegId(1), led(&[3_000_000]))]);
        let rows = sums.rows(&[named("x/public/a", 1), named("x/books/a", 2)]);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.messages, row.counts.wins, row.counts.leads), (3, 20, 2));
        assert_eq!(row.lead_us.len(), QUANTILES.len());
    }
}
