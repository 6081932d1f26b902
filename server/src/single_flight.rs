//! Many callers with one question: it is asked once, by a task that belongs to none of them, and all get its answer.
//!
//! A caller that goes away takes nothing with it. An attempt that fails or panics is replaced once, if anybody still
//! waits. Nothing is kept: with its answer a flight is over, and the next caller begins another.
//!
//! Never: an answer from before its question was asked by anybody who waits; a lock held over an await.

use foldhash::HashMap;
use std::{
    fmt,
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};
use tokio::sync::watch;

/// Attempts at one question: the first, and the one that replaces it.
const ATTEMPTS: usize = 2;

/// How much may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightBounds {
    /// Different questions.
    pub questions_max: usize,
    /// Callers that wait, over all questions.
    pub waiting_max: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FlightError<E> {
    /// So many different questions are under way already.
    #[error("too many questions are under way")]
    TooManyQuestions,
    /// So many callers wait already.
    #[error("too many callers wait")]
    TooManyWaiting,
    /// Both attempts ended without an answer, the last one by this error.
    #[error("no answer")]
    Failed(#[source] Arc<E>),
    /// The last attempt panicked.
    #[error("the question could not be asked to its end")]
    Panicked,
    /// The process is ending.
    #[error("the process is ending")]
    Ended,
}

impl<E> Clone for FlightError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::TooManyQuestions => Self::TooManyQuestions,
            Self::TooManyWaiting => Self::TooManyWaiting,
            Self::Failed(error) => Self::Failed(Arc::clone(error)),
            Self::Panicked => Self::Panicked,
            Self::Ended => Self::Ended,
        }
    }
}

/// What became of questions.
#[derive(Debug, Default)]
pub struct FlightNumbers {
    callers: AtomicU64,
    joined: AtomicU64,
    attempts: AtomicU64,
    replaced: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    waiting: AtomicUsize,
}

impl FlightNumbers {
    /// Every count with its name.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 6] {
        [
            ("callers", self.callers.load(Relaxed)),
            ("joined", self.joined.load(Relaxed)),
            ("attempts", self.attempts.load(Relaxed)),
            ("replaced", self.replaced.load(Relaxed)),
            ("failed", self.failed.load(Relaxed)),
            ("refused", self.refused.load(Relaxed)),
        ]
    }

    /// Callers that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

type Answer<V, E> = Result<Arc<V>, FlightError<E>>;
type Landing<V, E> = watch::Sender<Option<Answer<V, E>>>;

struct Inner<K, V, E> {
    bounds: FlightBounds,
    flights: Mutex<HashMap<K, Landing<V, E>>>,
    numbers: FlightNumbers,
}

impl<K: Hash + Eq, V, E> Inner<K, V, E> {
    fn with<T>(&self, use_flights: impl FnOnce(&mut HashMap<K, Landing<V, E>>) -> T) -> T {
        use_flights(&mut self.flights.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Questions under way.
pub struct SingleFlight<K, V, E>(Arc<Inner<K, V, E>>);

impl<K, V, E> Clone for SingleFlight<K, V, E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V, E> fmt::Debug for SingleFlight<K, V, E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SingleFlight").field("bounds", &self.0.bounds).finish_non_exhaustive()
    }
}

/// Counts a caller as waiting for as long as it lives.
struct Waiter<'a>(&'a FlightNumbers);

impl<'a> Waiter<'a> {
    fn enter(numbers: &'a FlightNumbers, max: usize) -> Option<Self> {
        let entered = numbers.waiting.fetch_update(Relaxed, Relaxed, |waiting| (waiting < max).then(|| waiting + 1));
        entered.is_ok().then(|| Self(numbers))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// Takes a question off the list, however its task ends.
struct Entry<K: Hash + Eq, V, E> {
    inner: Arc<Inner<K, V, E>>,
    key: K,
}

impl<K: Hash + Eq, V, E> Drop for Entry<K, V, E> {
    fn drop(&mut self) {
        // The sender is dropped after the lock.
        let landing = self.inner.with(|flights| flights.remove(&self.key));
        drop(landing);
    }
}

impl<K, V, E> SingleFlight<K, V, E>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// No question under way.
    #[must_use]
    pub fn new(bounds: FlightBounds) -> Self {
        Self(Arc::new(Inner { bounds, flights: Mutex::default(), numbers: FlightNumbers::default() }))
    }

    /// What became of questions so far.
    #[must_use]
    pub fn numbers(&self) -> &FlightNumbers {
        &self.0.numbers
    }

    /// The answer to a question: of the one under way with this key, else of a new one that `ask` begins. To be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// [`FlightError`].
    pub async fn ask<F>(&self, key: K, ask: impl Fn() -> F + Send + 'static) -> Answer<V, E>
    where
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        let numbers = &self.0.numbers;
        numbers.callers.fetch_add(1, Relaxed);
        let refused = |error| {
            numbers.refused.fetch_add(1, Relaxed);
            Err(error)
        };
        let Some(_waiter) = Waiter::enter(numbers, self.0.bounds.waiting_max) else {
            return refused(FlightError::TooManyWaiting);
        };
        let joined = self.0.with(|flights| {
            if let Some(landing) = flights.get(&key) {
                numbers.joined.fetch_add(1, Relaxed);
                return Some((landing.subscribe(), None));
            }
            if flights.len() >= self.0.bounds.questions_max {
                return None;
            }
            let (landing, answer) = watch::channel(None);
            flights.insert(key.clone(), landing.clone());
            Some((answer, Some(landing)))
        });
        let Some((mut answer, landing)) = joined else { return refused(FlightError::TooManyQuestions) };
        if let Some(landing) = landing {
            let entry = Entry { inner: Arc::clone(&self.0), key };
            // Detached: it is nobody's, so nobody's end is its own.
            drop(tokio::spawn(fly(entry, landing, ask)));
        }
        match answer.wait_for(Option::is_some).await {
            Ok(landed) => landed.clone().unwrap_or(Err(FlightError::Ended)),
            Err(_) => Err(FlightError::Ended),
        }
    }
}

/// Asks, at most twice, takes the question off the list, and tells everybody who waits.
async fn fly<K, V, E, F>(entry: Entry<K, V, E>, landing: Landing<V, E>, ask: impl Fn() -> F + Send + 'static)
where
    K: Hash + Eq + Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    F: Future<Output = Result<V, E>> + Send + 'static,
{
    let inner = Arc::clone(&entry.inner);
    let numbers = &inner.numbers;
    let mut answer = Err(FlightError::Ended);
    for attempt in 1..=ATTEMPTS {
        numbers.attempts.fetch_add(1, Relaxed);
        numbers.replaced.fetch_add(u64::from(attempt > 1), Relaxed);
        // A task of its own, so that a panic is one attempt's end.
        answer = match tokio::spawn(ask()).await {
            Ok(Ok(value)) => Ok(Arc::new(value)),
            Ok(Err(error)) => Err(FlightError::Failed(Arc::new(error))),
            Err(error) if error.is_panic() => Err(FlightError::Panicked),
            Err(_) => Err(FlightError::Ended),
        };
        if answer.is_ok() || landing.receiver_count() == 0 {
            break;
        }
    }
    numbers.failed.fetch_add(u64::from(answer.is_err()), Relaxed);
    // Off the list first: whoever comes from now on asks anew.
    drop(entry);
    landing.send_replace(Some(answer));
}

#[cfg(test)]
mod tests;
