//! Many receivers over reconnects, and what they swear: no version went back, and no version had two books.
//!
//! Never: a book compared by its steps; they may be refined while its content stays.

use crate::books::{Book, of_receiver};
use anyhow::Result;
use foldhash::{HashMap, fast::FixedState};
use market::{Side, Version};
use receiver::{Notice, Terminal};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher},
    sync::{Arc, Mutex},
};
use tokio::{runtime::Runtime, sync::watch, task::JoinHandle};
use wire::{Channel, SubscriptionItem};

/// Finest power of ten that prices and quantities are brought to.
const FINEST: i8 = -18;

/// What one receiver shows, by instrument.
type Shown = Arc<Mutex<BTreeMap<Arc<str>, (Version, Book)>>>;

/// What all receivers of one server saw together.
#[derive(Default)]
struct Seen {
    /// One book per version.
    books: HashMap<(Arc<str>, Version), u64>,
    broken: Vec<String>,
    reconnects: u64,
    shown: u64,
}

/// Receivers of one server, or of its successors on the same port.
pub(super) struct Receivers {
    seen: Arc<Mutex<Seen>>,
    states: Vec<Shown>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What receivers came to.
pub(super) struct Sworn {
    /// Breaches of what must hold; none.
    pub(super) broken: Vec<String>,
    /// Connections that ended.
    pub(super) reconnects: u64,
    /// Books shown.
    pub(super) shown: u64,
}

impl Receivers {
    /// Connects that many receivers, each with everything subscribed.
    pub(super) fn start(runtime: &Runtime, url: &str, count: usize) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = watch::channel(false);
        let (mut states, mut tasks) = (Vec::new(), Vec::new());
        for number in 0..count {
            let item = |channel| SubscriptionItem { channel, pattern: "*/*".into() };
            let mut items = vec![item(Channel::Book), item(Channel::Digest)];
            if number % 5 == 0 {
                items.push(item(Channel::Priority));
            }
            let terminal = Terminal::new(url, &items)?;
            let state = Shown::default();
            states.push(Arc::clone(&state));
            tasks.push(runtime.spawn(follow(terminal, Arc::clone(&seen), state, stopped.clone())));
        }
        Ok(Self { seen, states, stop, tasks })
    }

    /// Whether every receiver shows exactly these books.
    pub(super) fn all_show(&self, books: &BTreeMap<String, Book>) -> bool {
        self.states.iter().all(|state| {
            let state = state.lock().unwrap();
            books.iter().all(|(name, book)| state.get(name.as_str()).is_some_and(|(_, shown)| shown == book))
        })
    }

    /// How many receivers do not show these books, and the first difference.
    pub(super) fn difference(&self, books: &BTreeMap<String, Book>) -> String {
        let mut behind = 0;
        let mut first = None;
        for state in &self.states {
            let state = state.lock().unwrap();
            let wrong =
                books.iter().find(|(name, book)| state.get(name.as_str()).map(|(_, shown)| shown) != Some(*book));
            if let Some((name, _)) = wrong {
                behind += 1;
                first.get_or_insert_with(|| format!("{name} at {:?}", state.get(name.as_str()).map(|(at, _)| *at)));
            }
        }
        format!("{behind} of {} receivers differ: {first:?}", self.states.len())
    }

    /// Ends all of them.
    pub(super) fn end(self, runtime: &Runtime) -> Sworn {
        self.stop.send_replace(true);
        for task in self.tasks {
            runtime.block_on(task).unwrap();
        }
        let mut seen = self.seen.lock().unwrap();
        Sworn { broken: std::mem::take(&mut seen.broken), reconnects: seen.reconnects, shown: seen.shown }
    }
}

async fn follow(mut terminal: Terminal, seen: Arc<Mutex<Seen>>, state: Shown, mut stopped: watch::Receiver<bool>) {
    loop {
        let told = tokio::select! {
            told = terminal.next() => told,
            _ = stopped.changed() => return terminal.close().await,
        };
        let Ok(notices) = told else {
            seen.lock().unwrap().reconnects += 1;
            continue;
        };
        for notice in notices {
            match notice {
                Notice::BookChanged { instrument, version } => {
                    let Some(book) = terminal.session().book(&instrument) else { continue };
                    let content = content(book);
                    let mut seen = seen.lock().unwrap();
                    seen.shown += 1;
                    let known = *seen.books.entry((Arc::clone(&instrument), version)).or_insert(content);
                    if known != content {
                        seen.broken.push(format!("{instrument}: two books at {version}"));
                    }
                    let mut state = state.lock().unwrap();
                    let before = state.insert(Arc::clone(&instrument), (version, of_receiver(book)));
                    if let Some((before, _)) = before.filter(|(before, _)| *before > version) {
                        seen.broken.push(format!("{instrument}: {version} after {before}"));
                    }
                }
                Notice::DigestMismatch { instrument, .. } => {
                    seen.lock().unwrap().broken.push(format!("{instrument}: a digest does not match"));
                }
                _ => {}
            }
        }
    }
}

/// A number for a book's content, whatever its steps.
fn content(book: &receiver::Book) -> u64 {
    let scale = book.scale();
    let power = |exponent: i8| 10_u128.pow(u32::try_from(exponent - FINEST).unwrap_or(0));
    let (price, quantity) = (power(scale.price), power(scale.quantity));
    let mut hash = FixedState::default().build_hasher();
    for side in Side::BOTH {
        for level in book.levels(side) {
            hash.write_i128(i128::from(level.tick_index) * i128::try_from(price).unwrap());
            let exact = level.quantity * market::U256::from(quantity);
            hash.write(&exact.to_le_bytes::<32>());
        }
        hash.write_u8(0xFF);
    }
    hash.finish()
}
