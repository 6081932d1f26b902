//! `[[view]]`: standing views that are kept for pairs.
//!
//! Never: a width that was rounded.

use super::error::Problems;
use crate::name_glob::NameGlob;
use market::{
    ViewRule,
    view::{Band, VIEW_NAME_BYTES_MAX, VIEWS_MAX},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wire::bounds::PATTERN_BYTES_MAX;

/// Most patterns of one view: as many as anybody would write by hand, each held against every pair that is listed.
const PAIRS_MAX: usize = 256;

/// What a view is kept of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewKind {
    /// Per side, the sum of what rests within some percent of each book's own mid.
    ReservesWithin,
    /// How much more of that are bids.
    ImbalanceWithin,
    /// The best ask over all books less the best bid.
    Spread,
}

/// One standing view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Its name; 1 to 64 of a-z, 0-9 and underscore, each name once.
    pub name: String,
    /// What it is kept of.
    pub kind: ViewKind,
    /// How far from the mid, in percent: a decimal number above 0 and at most 100, a multiple of 0.0001. Empty for
    /// `spread`.
    #[serde(default)]
    pub percent: String,
    /// Globs over the names of pairs, `ASSET/ASSET`; 1 to 256 of them, each 1 to 512 bytes.
    pub pairs: Vec<String>,
}

impl View {
    /// What the dataflow keeps; none where the width is not right.
    #[must_use]
    pub fn rule(&self) -> Option<ViewRule> {
        let band = || Band::parse(&self.percent).ok();
        match self.kind {
            ViewKind::ReservesWithin => band().map(ViewRule::ReservesWithin),
            ViewKind::ImbalanceWithin => band().map(ViewRule::ImbalanceWithin),
            ViewKind::Spread => Some(ViewRule::Spread),
        }
    }

    fn check(&self, problems: &mut Problems) {
        let shown: String = self.name.chars().take(VIEW_NAME_BYTES_MAX).collect();
        let field = |part: &str| format!("view {shown} {part}");
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let named = (1..=VIEW_NAME_BYTES_MAX).contains(&self.name.len()) && self.name.bytes().all(plain);
        let limit = format_args!("1 to {VIEW_NAME_BYTES_MAX} of a-z, 0-9 and _");
        problems.unless(named, &field("name"), &format_args!("{shown:?}"), &limit);
        let percent: String = self.percent.chars().take(VIEW_NAME_BYTES_MAX).collect();
        let percent = format_args!("{percent:?}");
        match self.kind {
            ViewKind::Spread => {
                problems.unless(self.percent.is_empty(), &field("percent"), &percent, &"empty for a spread");
            }
            ViewKind::ReservesWithin | ViewKind::ImbalanceWithin => {
                if let Err(error) = Band::parse(&self.percent) {
                    let limit = format_args!("a decimal number above 0 and at most 100 ({error})");
                    problems.unless(false, &field("percent"), &percent, &limit);
                }
            }
        }
        problems.range(&field("pairs (count)"), self.pairs.len(), 1..=PAIRS_MAX);
        for pattern in &self.pairs {
            let right = (1..=PATTERN_BYTES_MAX).contains(&pattern.len()) && NameGlob::new(pattern).is_pattern();
            let shown: String = pattern.chars().take(VIEW_NAME_BYTES_MAX).collect();
            let limit = format_args!("a glob of 1 to {PATTERN_BYTES_MAX} bytes");
            problems.unless(right, &field("pairs"), &format_args!("{shown:?}"), &limit);
        }
    }
}

/// Checks the whole `[[view]]` list.
pub(super) fn check_views(list: &[View], problems: &mut Problems) {
    problems.range("view (count)", list.len(), 0..=VIEWS_MAX);
    let mut seen = BTreeSet::new();
    for view in list {
        view.check(problems);
        let first = seen.insert(&view.name);
        problems.unless(first, &format!("view {} name", view.name), &"given twice", &"given once");
    }
}
