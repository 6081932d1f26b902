//! What the readers of books share: who waits, the store, and what was asked.
//!
//! Never: a reader let in beyond a bound.

use super::{numbers::HttpNumbers, stored::StoreReads};
use crate::config;
use clickhouse::Client;
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shared by all requests.
#[derive(Debug)]
pub struct Reads {
    waiting_max: usize,
    waiting: Arc<Semaphore>,
    store: Option<StoreReads>,
    numbers: HttpNumbers,
}

impl Default for Reads {
    /// With the bounds of the default configuration, and without a store.
    fn default() -> Self {
        Self::new(&config::Http::default(), None)
    }
}

impl Reads {
    /// With bounds as configured, and the store if there is one.
    #[must_use]
    pub fn new(config: &config::Http, store: Option<Client>) -> Self {
        Self {
            waiting_max: config.waiting_max,
            waiting: Arc::new(Semaphore::new(config.waiting_max)),
            store: store.map(|client| StoreReads::new(config, client)),
            numbers: HttpNumbers::default(),
        }
    }

    /// The store, if there is one.
    #[must_use]
    pub fn store(&self) -> Option<&StoreReads> {
        self.store.as_ref()
    }

    /// What was asked and how it ended.
    #[must_use]
    pub fn numbers(&self) -> &HttpNumbers {
        &self.numbers
    }

    /// Requests that wait for a change.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting_max.saturating_sub(self.waiting.available_permits())
    }

    /// A place for one that wants to wait; none if all are taken.
    pub(super) fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.waiting).try_acquire_owned().ok()
    }
}

/// Longest wait for a change.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(30);
