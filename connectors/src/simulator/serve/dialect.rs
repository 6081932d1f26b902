//! What a hall must know of a venue's protocol: how requests and recorded frames read, and how answers, books, changes and
//! trades are worded. One file per venue implements it, from the venue's published rules alone.
//!
//! Never: a decoder of the venues' connectors; a decision about who gets a message.

use super::{
    bus::Bus,
    hall::Stock,
    http::Reply,
    reference::{Book, Change, Side},
    session::{Marks, Session, Subscription},
};
use crate::simulator::SimInstrument;
use market::Venue;
use std::{borrow::Cow, sync::Arc};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The venues with a dialect: the simulated market is served at them too.
pub(super) const SPOKEN: [Venue; 4] = [Venue::Okx, Venue::Deribit, Venue::Coinbase, Venue::Bitfinex];

/// The dialect of a venue, if it has one.
pub(super) fn of(venue: Venue) -> Option<Box<dyn Dialect>> {
    match venue {
        Venue::Okx => Some(Box::new(super::okx::Okx::default())),
        Venue::Deribit => Some(Box::new(super::deribit::Deribit::default())),
        Venue::Coinbase => Some(Box::new(super::coinbase::Coinbase)),
        Venue::Bitfinex => Some(Box::new(super::bitfinex::Bitfinex::default())),
        _ => None,
    }
}

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// A snapshot of a book, then its changes.
    Book,
    /// Trades.
    Trades,
    /// Something that is only passed on.
    Other,
}

/// A recorded frame as far as it matters.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    /// As in the frame's own subscription.
    pub(super) channel: Cow<'a, str>,
    pub(super) symbol: Cow<'a, str>,
    /// What is passed on: the frame, or the part of it that does not belong to the recorded connection.
    pub(super) text: &'a str,
    pub(super) what: Said<'a>,
}

/// What a recorded frame says.
#[derive(Debug)]
pub(super) enum Said<'a> {
    /// The whole book.
    Snapshot(Levels<'a>),
    /// Some changes of it.
    Update(Levels<'a>),
    /// A trade; what other channels' subscribers are told of it.
    Trade(Trade<'a>),
    /// Anything else.
    Other,
}

/// The levels of a frame in the order in which they are to be applied.
#[derive(Debug, Default)]
pub(super) struct Levels<'a> {
    pub(super) changes: Vec<Change<'a>>,
    /// The venue's id of the update, and of the one before it, where it has any.
    pub(super) id: Option<u64>,
    pub(super) previous: Option<u64>,
    pub(super) checksum: Option<i64>,
}

/// One trade.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trade<'a> {
    pub(super) id: u64,
    /// The taker sold.
    pub(super) sold: bool,
    pub(super) price: &'a str,
    pub(super) quantity: &'a str,
}

/// A change that was applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) side: Side,
    pub(super) price: &'a str,
    /// Zero where the level died.
    pub(super) quantity: &'a str,
    /// There was a level at this price.
    pub(super) existed: bool,
}

impl<'a> Told<'a> {
    pub(super) const fn of(change: &Change<'a>, existed: bool) -> Self {
        Self { side: change.side, price: change.price, quantity: change.quantity, existed }
    }
}

/// A book as it is to be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) listed: &'a SimInstrument,
    pub(super) book: &'a Book,
    /// The id of the last update; none in captures of venues or times without ids.
    pub(super) id: Option<u64>,
    /// The id of the update before it.
    pub(super) previous: Option<u64>,
    /// Unix time, nanoseconds.
    pub(super) at_ns: u64,
}

/// What follows from a request or a beat, in order.
#[derive(Debug)]
pub(super) enum Act {
    /// A message of this connection.
    Say(String),
    /// A message that even a silenced connection gets: an answer to a ping.
    Pong(String),
    /// The snapshot of the subscription with this name.
    Show(Arc<str>),
    /// The connection ends.
    End(u16, &'static str),
}

/// A frame that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unread;

/// The protocol of one venue.
pub(super) trait Dialect: Send {
    fn venue(&self) -> Venue;

    /// The WebSockets' paths and REST's root below the venue's own, for people.
    fn addresses(&self) -> (&'static [&'static str], &'static str);

    /// The session of a connection to a path below the venue's; none where the path is no WebSocket.
    fn open(&self, path: &str, query: &str) -> Option<Session>;

    /// The first messages of a connection.
    fn greet(&self, _number: u64) -> Vec<Act> {
        Vec::new()
    }

    /// Answers a REST request to a path below the venue's. Old snapshots are the stock's business.
    fn rest(&mut self, path: &str, query: &str, stock: &Stock, bus: &mut Bus) -> Reply;

    /// A REST request that a fault lets fail.
    fn failed(&self, status: u16) -> Reply;

    /// A capture's symbol with its assets; none where the venue could not list it.
    fn list(&self, symbol: &str) -> Option<SimInstrument>;

    fn carries(&self, channel: &str) -> Carries;

    /// A plain decimal of the simulated market as the venue spells it.
    fn spell<'a>(&self, decimal: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(decimal)
    }

    /// Reads a frame that was recorded on connection `conn`: none where it concerns that connection alone.
    fn read<'a>(&mut self, conn: &Arc<str>, text: &'a str) -> Result<Option<Piece<'a>>, Unread>;

    /// A text message came.
    fn receive(&mut self, session: &mut Session, stock: &Stock, text: &str) -> Vec<Act>;

    /// The connection's beat, a second unless asked otherwise.
    fn beat(&mut self, _session: &mut Session, _stock: &Stock) -> Vec<Act> {
        Vec::new()
    }

    /// What a book's subscribers are told when nothing has changed for long.
    fn keepalive(&self, _channel: &str, _view: &View<'_>) -> Option<Utf8Bytes> {
        None
    }

    /// The messages of a book as a whole.
    fn snapshot(&self, channel: &str, view: &View<'_>) -> Vec<Utf8Bytes>;

    /// The messages of one update; the view is the book after it.
    fn update(&self, channel: &str, view: &View<'_>, told: &[Told<'_>]) -> Vec<Utf8Bytes>;

    /// The messages of a trade.
    fn trade(&self, channel: &str, view: &View<'_>, trade: &Trade<'_>) -> Vec<Utf8Bytes>;

    /// A recorded text as the subscribers of a channel get it, byte for byte but for the channel's name; none where it
    /// is to be worded anew from what it says.
    fn pass(&self, recorded: &str, wanted: &str, text: &str) -> Option<Utf8Bytes> {
        (recorded == wanted).then(|| text.into())
    }

    /// What follows each message of a book, worded or recorded.
    fn trailer(&self, _channel: &str, _view: &View<'_>) -> Option<Utf8Bytes> {
        None
    }

    /// A message as it goes out on one connection, whose numbers it takes; none where the connection did not ask for it.
    fn address(&self, _marks: &mut Marks, _to: &Subscription, payload: &Utf8Bytes) -> Option<Utf8Bytes> {
        Some(payload.clone())
    }

    /// A reply as it goes out on one connection, whose numbers it takes.
    fn stamp(&self, _marks: &mut Marks, reply: String) -> Utf8Bytes {
        reply.into()
    }

    /// The venue numbers a book's updates, so that ids can be reset.
    fn numbers(&self) -> bool {
        false
    }

    /// After ids were reset, the next update still names the last id before it.
    fn chains_over_reset(&self) -> bool {
        false
    }

    /// A recorded text with other ids.
    fn renumber(&self, text: &str, _id: u64, _previous: Option<u64>) -> String {
        text.to_owned()
    }

    /// The venue sends checksums, at least in captures.
    fn checks(&self) -> bool {
        false
    }

    /// The checksum of a book, to compare recorded ones with.
    fn checksum(&self, _book: &Book) -> Option<i64> {
        None
    }

    /// The payload with another checksum; none where it holds none.
    fn corrupt(&self, _payload: &str) -> Option<String> {
        None
    }
}

/// A text with the whole number after `name` replaced; none where there is none. The name is as in JSON, `"id":`.
pub(super) fn replaced(text: &str, name: &str, with: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    let (head, tail) = text.split_once(name)?;
    let digits = tail.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'-').count();
    let (number, rest) = tail.split_at(digits);
    let number = with(number)?;
    Some(format!("{head}{name}{number}{rest}"))
}

/// A decimal step: `0.01` for two decimals.
pub(super) fn step(decimals: u32) -> String {
    match usize::try_from(decimals) {
        Ok(0) | Err(_) => "1".to_owned(),
        Ok(decimals) => format!("0.{}1", "0".repeat(decimals - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_replaced_and_nothing_else() {
        let text = "{\"seqId\":12,\"prevSeqId\":-1,\"ts\":\"12\"}";
        let with = |number: &str| (number == "12").then(|| "7".to_owned());
        assert_eq!(replaced(text, "\"seqId\":", with).unwrap(), "{\"seqId\":7,\"prevSeqId\":-1,\"ts\":\"12\"}");
        assert_eq!(replaced(text, "\"prevSeqId\":", with), None);
        assert_eq!(replaced(text, "\"id\":", with), None);
        assert_eq!((step(0).as_str(), step(3).as_str()), ("1", "0.001"));
    }

    #[test]
    fn every_spoken_venue_has_its_own_dialect() {
        for venue in Venue::ALL {
            assert_eq!(of(venue).map(|dialect| dialect.venue()), SPOKEN.contains(&venue).then_some(venue));
        }
    }
}
