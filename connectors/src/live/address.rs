//! URLs of venues, checked before anything is started.
//!
//! Never: credentials in a URL; public market data need none.

use hyper::{Uri, http::uri::InvalidUri};

/// A URL is none that we can use.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// Not a URL.
    #[error("not a URL")]
    Url(#[from] InvalidUri),
    /// A URL of something else.
    #[error("the URL must begin with {secure}:// or {plain}://")]
    Scheme {
        /// With TLS.
        secure: &'static str,
        /// Without.
        plain: &'static str,
    },
    /// It names no host.
    #[error("the URL names no host")]
    Host,
    /// It holds a user or a password.
    #[error("the URL holds credentials, which public market data do not need")]
    Credentials,
    /// A base of REST requests ends before their query.
    #[error("the base of REST requests has a query of its own")]
    Query,
}

fn checked(url: &str, secure: &'static str, plain: &'static str) -> Result<Uri, AddressError> {
    let uri: Uri = url.parse()?;
    if !uri.scheme_str().is_some_and(|scheme| scheme == secure || scheme == plain) {
        return Err(AddressError::Scheme { secure, plain });
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(AddressError::Host);
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(AddressError::Credentials);
    }
    Ok(uri)
}

/// Checks where a WebSocket is: `ws://` or `wss://`, with the whole path.
///
/// # Errors
/// [`AddressError`].
pub fn check_socket_url(url: &str) -> Result<(), AddressError> {
    checked(url, "wss", "ws").map(|_| ())
}

/// Checks what paths of REST requests are put behind: `http://` or `https://`, perhaps with the start of a path.
///
/// # Errors
/// [`AddressError`].
pub fn check_rest_url(url: &str) -> Result<(), AddressError> {
    let uri = checked(url, "https", "http")?;
    if uri.query().is_some() { Err(AddressError::Query) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_refused_by_what_is_wrong_with_them() {
        for url in ["wss://venue", "ws://127.0.0.1:9/kraken_spot/v2", "wss://[::1]:443/stream?x=1"] {
            check_socket_url(url).unwrap();
        }
        for url in ["https://venue", "http://127.0.0.1:9/binance_spot"] {
            check_rest_url(url).unwrap();
        }
        assert!(matches!(check_socket_url("https://venue"), Err(AddressError::Scheme { .. })));
        assert!(matches!(check_socket_url("venue"), Err(AddressError::Scheme { .. })));
        assert!(matches!(check_socket_url("ws://a b"), Err(AddressError::Url(_))));
        assert!(matches!(check_socket_url("ws://me:secret@venue"), Err(AddressError::Credentials)));
        assert!(matches!(check_rest_url("wss://venue"), Err(AddressError::Scheme { .. })));
        assert!(matches!(check_rest_url("http://venue/?a=b"), Err(AddressError::Query)));
        assert!(check_socket_url("").is_err());
    }
}
