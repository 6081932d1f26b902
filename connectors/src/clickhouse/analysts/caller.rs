//! Who asks: the account's name and password, in each of the ways that clients have for them, and the host that they think
//! they ask.
//!
//! Never: a password in an answer; a comparison that ends at the first difference.

use super::AnalystOptions;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::{HeaderMap, Uri, header};
use sha2::{Digest, Sha256};

/// Names of this host that a request may be for. A page in a browser that was led here by a name of its own (DNS
/// rebinding) says that name.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The caller is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stranger {
    #[error(
        "Code: 516. DB::Exception: {0}: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED)"
    )]
    Credentials(Box<str>),
    #[error("Code: 497. DB::Exception: This listener is for this machine, and not for '{0}'. (ACCESS_DENIED)")]
    Host(Box<str>),
}

/// Lets a caller in, or not.
pub(super) fn check(options: &AnalystOptions, uri: &Uri, headers: &HeaderMap) -> Result<(), Stranger> {
    let own = options.host.to_string();
    let asked = text(headers, header::HOST.as_str()).unwrap_or_default();
    let name = host_name(asked);
    if !LOCAL_NAMES.iter().any(|local| name.eq_ignore_ascii_case(local)) && name != own {
        return Err(Stranger::Host(printable(asked)));
    }
    let (user, password) = credentials(uri, headers);
    let open = options.password.reveal().is_empty();
    let known = user == options.user || open && matches!(user.as_str(), "" | "default");
    if known && same(&password, options.password.reveal()) {
        return Ok(());
    }
    Err(Stranger::Credentials(printable(&user)))
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

/// The parameters win over the headers of ClickHouse, and these over basic authentication.
fn credentials(uri: &Uri, headers: &HeaderMap) -> (String, String) {
    let parameter = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let basic = text(headers, header::AUTHORIZATION.as_str()).and_then(basic);
    let (basic_user, basic_password) = basic.unzip();
    let header = |name: &str| text(headers, name).map(ToOwned::to_owned);
    let user = parameter("user").or_else(|| header("x-clickhouse-user")).or(basic_user);
    let password = parameter("password").or_else(|| header("x-clickhouse-key")).or(basic_password);
    (user.unwrap_or_default(), password.unwrap_or_default())
}

fn basic(value: &str) -> Option<(String, String)> {
    let (scheme, encoded) = value.split_once(' ')?;
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// Compares what cannot be told from the time that it takes.
fn same(given: &str, right: &str) -> bool {
    Sha256::digest(given) == Sha256::digest(right)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Short and without control characters.
fn printable(text: &str) -> Box<str> {
    text.chars().filter(|c| !c.is_control()).take(64).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn asked(options: &AnalystOptions, uri: &str, headers: &[(&'static str, &str)]) -> Result<(), Stranger> {
        let mut map = HeaderMap::new();
        map.insert("host", HeaderValue::from_static("localhost:8123"));
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        check(options, &uri.parse().unwrap(), &map)
    }

    #[test]
    fn a_name_and_password_come_in_three_ways() {
        let options = AnalystOptions { password: "s3:cret".into(), ..AnalystOptions::default() };
        let basic = format!("Basic {}", BASE64_STANDARD.encode("analyst:s3:cret"));
        assert_eq!(asked(&options, "/?user=analyst&password=s3%3Acret", &[]), Ok(()));
        assert_eq!(asked(&options, "/", &[("x-clickhouse-user", "analyst"), ("x-clickhouse-key", "s3:cret")]), Ok(()));
        assert_eq!(asked(&options, "/", &[("authorization", &basic)]), Ok(()));
        for (uri, headers) in [
            ("/", vec![]),
            ("/?user=analyst", vec![]),
            ("/?user=default&password=s3%3Acret", vec![]),
            ("/?user=analyst&password=", vec![("authorization", basic.as_str())]),
            ("/", vec![("authorization", "Basic !")]),
            ("/", vec![("authorization", "Bearer x")]),
        ] {
            assert!(matches!(asked(&options, uri, &headers), Err(Stranger::Credentials(_))), "{uri}");
        }
    }

    #[test]
    fn without_a_password_the_usual_names_will_do() {
        let options = AnalystOptions::default();
        for uri in ["/", "/?user=default", "/?user=analyst&password="] {
            assert_eq!(asked(&options, uri, &[]), Ok(()), "{uri}");
        }
        for uri in ["/?user=root", "/?password=x"] {
            assert!(asked(&options, uri, &[]).is_err(), "{uri}");
        }
    }

    #[test]
    fn another_host_s_name_is_refused() {
        let options = AnalystOptions::default();
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8123", "[::1]:8123", "[::1]"] {
            assert_eq!(asked(&options, "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example:8123", "127.0.0.1.evil:80", "::1"] {
            assert!(matches!(asked(&options, "/", &[("host", host)]), Err(Stranger::Host(_))), "{host}");
        }
    }
}
