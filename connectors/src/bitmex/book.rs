//! The rows of one symbol on one leg by their key, and what a message's rows mean for levels.
//!
//! Never: a level deleted because another row, which was at its price before, is.

use super::message::BookRow;
use crate::venue_feed::{
    Undecodable, excerpt,
    number::{LevelText, Subject, token},
};
use foldhash::HashMap;
use market::{Side, Venue, quote::Exact};
use std::borrow::Cow;

/// What is done with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Insert,
    Update,
    Delete,
}

/// Why rows could not be applied; the book is wrong then.
#[derive(Debug)]
pub(super) enum Wrong {
    /// Rule 4.
    Unknown,
    Unreadable(Undecodable),
}

impl From<Undecodable> for Wrong {
    fn from(error: Undecodable) -> Self {
        Self::Unreadable(error)
    }
}

/// A level's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change<'a> {
    side: Side,
    price: Cow<'a, str>,
    size: &'a str,
}

impl Change<'_> {
    pub(super) fn text(&self) -> LevelText<'_> {
        LevelText { side: self.side, price: &self.price, quantity: self.size }
    }
}

/// Where a row is.
#[derive(Clone, Debug)]
struct Place {
    price: Box<str>,
    value: Exact,
}

/// All rows of one symbol on one leg, as its partial and what came since say.
#[derive(Debug, Default)]
pub(super) struct Rows {
    by_key: HashMap<(u64, Side), Place>,
    /// The row that is at a price. A venue that moves a level from one row to another may delete the old one last.
    by_price: HashMap<(Side, Exact), u64>,
}

/// The venue's word for a side.
///
/// # Errors
/// [`Undecodable::Field`]: another word.
pub(super) fn side(text: &str) -> Result<Side, Undecodable> {
    match text {
        "Buy" => Ok(Side::Bid),
        "Sell" => Ok(Side::Ask),
        _ => Err(field("side", text)),
    }
}

fn field(field: &'static str, text: &str) -> Undecodable {
    Undecodable::Field { venue: Venue::Bitmex, field, text: excerpt(text) }
}

impl Rows {
    /// The changes of levels that these rows mean, in their order.
    ///
    /// # Errors
    /// [`Wrong`]; the rows are worth nothing then.
    pub(super) fn apply<'a>(&mut self, action: Action, rows: &[&BookRow<'a>]) -> Result<Vec<Change<'a>>, Wrong> {
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            let key = (row.id, side(&row.side)?);
            let known = self.by_key.contains_key(&key);
            match action {
                Action::Update | Action::Delete if !known => return Err(Wrong::Unknown),
                Action::Delete => changes.extend(self.leave(key)),
                Action::Insert | Action::Update => self.set(key, row, &mut changes)?,
            }
        }
        Ok(changes)
    }

    /// A row is there with a size; and at another price than before, if it says so.
    fn set<'a>(
        &mut self,
        key: (u64, Side),
        row: &BookRow<'a>,
        changes: &mut Vec<Change<'a>>,
    ) -> Result<(), Undecodable> {
        let (id, side) = key;
        let size = row.size.map(token).ok_or_else(|| field("size", ""))?;
        let price = match (row.price.map(token), self.by_key.get(&key)) {
            (None, Some(place)) => Cow::Owned(place.price.to_string()),
            (None, None) => return Err(field("price", "")),
            (Some(price), _) => {
                let value = Subject { venue: Venue::Bitmex, symbol: &row.symbol }.exact(price)?;
                if self.by_key.get(&key).is_some_and(|place| place.value != value) {
                    changes.extend(self.leave(key));
                }
                self.by_key.insert(key, Place { price: price.into(), value });
                self.by_price.insert((side, value), id);
                Cow::Borrowed(price)
            }
        };
        changes.push(Change { side, price, size });
        Ok(())
    }

    /// A row is no more where it was; its level ends, unless another row has taken its price.
    fn leave<'a>(&mut self, key: (u64, Side)) -> Option<Change<'a>> {
        let (id, side) = key;
        let place = self.by_key.remove(&key)?;
        if self.by_price.get(&(side, place.value)) != Some(&id) {
            return None;
        }
        self.by_price.remove(&(side, place.value));
        Some(Change { side, price: Cow::Owned(place.price.into_string()), size: "0" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rows: &mut Rows, action: Action, text: &str) -> Result<Vec<(Side, String, String)>, Wrong> {
        let parsed: Vec<BookRow<'_>> = serde_json::from_str(text).unwrap();
        let changes = rows.apply(action, &parsed.iter().collect::<Vec<_>>())?;
        Ok(changes.into_iter().map(|change| (change.side, change.price.into_owned(), change.size.to_owned())).collect())
    }

    fn bid(price: &str, size: &str) -> (Side, String, String) {
        (Side::Bid, price.to_owned(), size.to_owned())
    }

    #[test]
    fn a_price_is_that_of_the_row_and_not_of_its_id() {
        let mut rows = Rows::default();
        let insert = r#"[{"symbol":"X","id":5,"side":"Buy","size":10,"price":1e-8}]"#;
        assert_eq!(told(&mut rows, Action::Insert, insert).unwrap(), [bid("1e-8", "10")]);
        let update = r#"[{"symbol":"X","id":5,"side":"Buy","size":7}]"#;
        assert_eq!(told(&mut rows, Action::Update, update).unwrap(), [bid("1e-8", "7")]);
        let moved = r#"[{"symbol":"X","id":5,"side":"Buy","size":7,"price":2e-8}]"#;
        assert_eq!(told(&mut rows, Action::Update, moved).unwrap(), [bid("1e-8", "0"), bid("2e-8", "7")]);
        let same = r#"[{"symbol":"X","id":5,"side":"Buy","size":8,"price":0.00000002}]"#;
        assert_eq!(told(&mut rows, Action::Update, same).unwrap(), [bid("0.00000002", "8")]);
        let other_side = update.replace("Buy", "Sell");
        assert!(matches!(told(&mut rows, Action::Update, &other_side), Err(Wrong::Unknown)));
        assert_eq!(told(&mut rows, Action::Delete, update).unwrap(), [bid("0.00000002", "0")]);
        assert!(matches!(told(&mut rows, Action::Delete, update), Err(Wrong::Unknown)));
        assert!(rows.by_key.is_empty() && rows.by_price.is_empty());
    }

    #[test]
    fn a_level_that_another_row_has_taken_lives_on() {
        let mut rows = Rows::default();
        let row = |id: u64| format!(r#"[{{"symbol":"X","id":{id},"side":"Buy","size":{id},"price":100}}]"#);
        told(&mut rows, Action::Insert, &row(1)).unwrap();
        told(&mut rows, Action::Insert, &row(2)).unwrap();
        assert_eq!(told(&mut rows, Action::Delete, &row(1)).unwrap(), []);
        assert_eq!(told(&mut rows, Action::Delete, &row(2)).unwrap(), [bid("100", "0")]);
    }

    #[test]
    fn a_row_without_what_it_needs_is_refused() {
        let mut rows = Rows::default();
        for bad in [
            r#"[{"symbol":"X","id":5,"side":"Buy","size":10}]"#,
            r#"[{"symbol":"X","id":5,"side":"Buy","price":10}]"#,
            r#"[{"symbol":"X","id":5,"side":"","size":1,"price":10}]"#,
            r#"[{"symbol":"X","id":5,"side":"Buy","size":1,"price":-10}]"#,
            r#"[{"symbol":"X","id":5,"side":"Buy","size":1,"price":null}]"#,
        ] {
            assert!(matches!(told(&mut rows, Action::Insert, bad), Err(Wrong::Unreadable(_))), "{bad}");
        }
    }
}
