//! Standing views of pairs: what the server says they are, by the name `view/asset_0/asset_1`.
//!
//! Never: a value under a number that the present connection did not explain.

use super::{Session, SessionError, bind, room};
use crate::notice::Notice;
use foldhash::HashMap;
use market::{ViewKey, ViewRule, ViewValue};
use std::sync::Arc;
use wire::{ListedView, ViewBlock, ViewList};

/// A standing view of a pair, as the present or last server told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingView {
    /// `view/asset_0/asset_1`.
    pub name: Arc<str>,
    /// What the view is kept of.
    pub rule: ViewRule,
    /// Its value; none when no book is in it.
    pub value: Option<ViewValue>,
}

/// All standing views of pairs that a value was told of.
#[derive(Debug, Default)]
pub(super) struct Standing {
    views: Vec<StandingView>,
    by_name: HashMap<Arc<str>, usize>,
}

/// What the present connection says of numbers of views.
#[derive(Debug, Default)]
pub(super) struct StandingNumbers {
    listed: Option<Vec<ListedView>>,
    numbers: HashMap<u32, usize>,
}

impl Session {
    /// A standing view of a pair, by its `view/asset_0/asset_1`.
    #[must_use]
    pub fn standing_view(&self, name: &str) -> Option<&StandingView> {
        self.standing.views.get(*self.standing.by_name.get(name)?)
    }

    /// Every standing view of a pair that a value was told of, in the order of their appearance.
    pub fn standing_views(&self) -> impl ExactSizeIterator<Item = &StandingView> {
        self.standing.views.iter()
    }

    /// The standing views that the present server declares, once it has told them.
    #[must_use]
    pub fn declared_views(&self) -> Option<&[ListedView]> {
        self.attachment.as_ref()?.standing.listed.as_deref()
    }

    pub(super) fn learn_views(&mut self, list: ViewList) -> Result<(), SessionError> {
        let attachment = self.greeted()?;
        let expected = attachment.hello.as_ref().map_or(0, |hello| hello.generation);
        if list.generation != expected {
            return Err(SessionError::OtherGeneration { expected, found: list.generation });
        }
        match &attachment.standing.listed {
            Some(listed) if *listed != list.views => Err(SessionError::ViewsRenamed),
            _ => {
                attachment.standing.listed = Some(list.views);
                Ok(())
            }
        }
    }

    pub(super) fn take_view(&mut self, block: &ViewBlock, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        let at = self.standing_at(block.id)?;
        let Some(view) = at.and_then(|at| self.standing.views.get_mut(at)) else {
            self.unknown(block.id, notices);
            return Ok(());
        };
        if view.value != block.value {
            view.value = block.value;
            notices.push(Notice::ViewChanged { name: Arc::clone(&view.name) });
        }
        Ok(())
    }

    /// Name of the view of a pair that a number means now, if it means one.
    pub(super) fn standing_name(&self, number: u32) -> Option<(Arc<str>, ViewRule)> {
        let (attachment, key) = (self.attachment.as_ref()?, ViewKey::of_number(number));
        let listed = attachment.standing.listed.as_ref()?.get(key.view.place())?;
        let pair = self.pairs.get(*attachment.pairs.get(&key.pair.0)?)?;
        Some((format!("{}/{}", listed.name, pair.name).into(), listed.rule))
    }

    /// The place of what a number means now, made if there is none yet.
    fn standing_at(&mut self, number: u32) -> Result<Option<usize>, SessionError> {
        let attachment = self.attachment.as_ref();
        if let Some(at) = attachment.and_then(|attachment| attachment.standing.numbers.get(&number)) {
            return Ok(Some(*at));
        }
        let Some((name, rule)) = self.standing_name(number) else { return Ok(None) };
        let Standing { views, by_name } = &mut self.standing;
        let at = match by_name.get(&name) {
            Some(at) => *at,
            None => {
                let at = room(views.len())?;
                by_name.insert(Arc::clone(&name), at);
                views.push(StandingView { name, rule, value: None });
                at
            }
        };
        if let Some(view) = views.get_mut(at) {
            // Another server may keep something else under the name.
            view.rule = rule;
        }
        bind(&mut self.greeted()?.standing.numbers, number, at)?;
        Ok(Some(at))
    }
}
