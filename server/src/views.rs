//! The standing views as they are declared: names, rules, and the pairs that each is kept for.
//!
//! Never: a value; those are the hub's. A view without a place in the one table that all parts share.

use crate::{config, name_glob::NameGlob};
use dataflow::views::ViewRules;
use market::{PairViews, ViewId, ViewKey, ViewRule, Views, instrument::Pair};
use std::sync::Arc;
use wire::{ListedView, ViewList};

/// One declared view.
#[derive(Clone, Debug)]
pub struct DeclaredView {
    /// Its name.
    pub name: Box<str>,
    /// What it is kept of.
    pub rule: ViewRule,
    /// Patterns over the names of pairs, as they are written.
    pub pairs: Box<[Box<str>]>,
    globs: Box<[NameGlob]>,
}

/// All declared views, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ViewTable {
    views: Vec<DeclaredView>,
}

impl ViewTable {
    /// The table of a configuration that was checked; what is not right in another one is left out.
    #[must_use]
    pub fn of(declared: &[config::View]) -> Self {
        let view = |view: &config::View| {
            Some(DeclaredView {
                name: view.name.as_str().into(),
                rule: view.rule()?,
                pairs: view.pairs.iter().map(|pattern| pattern.as_str().into()).collect(),
                globs: view.pairs.iter().map(|pattern| NameGlob::new(pattern)).collect(),
            })
        };
        Self { views: declared.iter().filter_map(view).take(market::view::VIEWS_MAX).collect() }
    }

    /// What the dataflow keeps.
    #[must_use]
    pub fn rules(&self) -> ViewRules {
        self.views.iter().map(|view| view.rule).collect()
    }

    /// What terminals are told.
    #[must_use]
    pub fn list(&self, generation: u64) -> ViewList {
        let listed = |view: &DeclaredView| ListedView { name: view.name.clone(), rule: view.rule };
        ViewList { generation, views: self.views.iter().map(listed).collect() }
    }

    /// Every view with its place.
    pub fn iter(&self) -> impl Iterator<Item = (ViewId, &DeclaredView)> {
        self.views.iter().enumerate().filter_map(|(place, view)| Some((ViewId::new(place)?, view)))
    }

    /// The view of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(ViewId, &DeclaredView)> {
        self.iter().find(|(_, view)| *view.name == *name)
    }

    /// The views of a pair with their names, `view/asset_0/asset_1`.
    pub fn of_pair<'a>(&'a self, pair: &'a Pair) -> impl Iterator<Item = (ViewKey, String)> + 'a {
        let within = self.iter().filter(|(_, view)| view.takes(&pair.text));
        within.map(|(view, declared)| (ViewKey { view, pair: pair.id }, format!("{}/{}", declared.name, pair.text)))
    }
}

impl DeclaredView {
    /// Whether the view is kept for the pair that is named `asset_0/asset_1`.
    #[must_use]
    pub fn takes(&self, pair: &str) -> bool {
        self.globs.iter().any(|glob| glob.matches(pair))
    }
}

impl PairViews for ViewTable {
    fn of(&self, pair: &str) -> Views {
        let within = self.iter().filter(|(_, view)| view.takes(pair));
        within.fold(Views::NONE, |views, (view, _)| views.with(view))
    }
}

/// The views of a configuration, shared.
#[must_use]
pub fn table(config: &config::Config) -> Arc<ViewTable> {
    Arc::new(ViewTable::of(&config.view))
}
