//! The store's start, which brings the analysts' listener with it.
//!
//! Never: a password in the log.

use crate::{
    config::Config,
    store::{Sharing, Store, StoreError},
};
use connectors::clickhouse::running_analysts_url;

/// Opens the store for this process alone, and tells where analysts may ask.
pub(super) async fn open(config: &Config) -> Result<Store, StoreError> {
    let store = Store::open(config, Sharing::Own).await?;
    tell(config);
    Ok(store)
}

/// Logs the address of the embedded engine's listener for analysts, if it has one.
fn tell(config: &Config) {
    if config.analysts.options(&config.store).is_none() {
        return;
    }
    match running_analysts_url(&config.data_dir) {
        Some(url) => tracing::info!(url, user = config.analysts.user, "analysts may ask"),
        None => tracing::warn!("the listener for analysts does not answer"),
    }
}
