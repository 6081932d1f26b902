//! Tells at the start where analysts may ask.
//!
//! Never: a password in the log.

use crate::config::Config;
use connectors::clickhouse::running_analysts_url;

/// Logs the address of the embedded engine's listener for analysts, if it has one.
pub(super) fn tell(config: &Config) {
    if config.analysts.options(&config.store).is_none() {
        return;
    }
    match running_analysts_url(&config.data_dir) {
        Some(url) => tracing::info!(url, user = config.analysts.user, "analysts may ask"),
        None => tracing::warn!("the listener for analysts does not answer"),
    }
}
