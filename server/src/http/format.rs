//! In which form a book goes out, and by which tag it is known again.
//!
//! Never: one tag for two contents; a 304 for a book whose mark has changed.

use super::{body::Shown, wish::Source};
use axum::http::{HeaderMap, header};
use market::FeedState;
use wire::MEDIA_TYPE;

/// A form of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    /// The wire's own bytes under their own name.
    Wire,
    /// The same under the name of any bytes.
    Octets,
}

impl Format {
    /// In the order in which they are chosen where the reader has no wish.
    const ALL: [Self; 3] = [Self::Json, Self::Wire, Self::Octets];

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Wire => MEDIA_TYPE,
            Self::Octets => "application/octet-stream",
        }
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::Json => "",
            Self::Wire => ".v1",
            Self::Octets => ".octets",
        }
    }
}

/// The form that a reader likes best; none if he takes none of `offered`.
pub(super) fn negotiate(headers: &HeaderMap, offered: &[Format]) -> Option<Format> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<(&str, u16)> = values.flat_map(|value| value.split(',')).filter_map(range).collect();
    if ranges.is_empty() && !headers.contains_key(header::ACCEPT) {
        return offered.first().copied();
    }
    // The most special range that covers a form decides about it.
    let quality = |format: Format| {
        let name = format.media_type();
        let covering = ranges.iter().filter_map(|(range, quality)| Some((covers(range, name)?, *quality)));
        covering.max().map_or(0, |(_, quality)| quality)
    };
    let wanted = Format::ALL.into_iter().filter(|format| offered.contains(format) && quality(*format) > 0);
    // Of equals the last one would be taken.
    wanted.rev().max_by_key(|format| quality(*format))
}

/// A media range with its quality in thousandths.
fn range(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().filter(|range| !range.is_empty())?;
    let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    Some((range, quality.map_or(Some(1_000), thousandths)?))
}

/// `0.5` as 500; a number of another form is none.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let part: u16 = format!("{part:0<3}").parse().ok().filter(|_| is_number)?;
    match whole {
        "0" => Some(part),
        "1" if part == 0 => Some(1_000),
        _ => None,
    }
}

/// How special a range is that covers a type.
fn covers(range: &str, media_type: &str) -> Option<u8> {
    if range.eq_ignore_ascii_case(media_type) {
        return Some(2);
    }
    if range == "*/*" {
        return Some(0);
    }
    let of_all = range.strip_suffix("/*")?;
    media_type.split_once('/').is_some_and(|(kind, _)| kind.eq_ignore_ascii_case(of_all)).then_some(1)
}

/// The tag of some books in a form; none if one of them has no version. It is the version alone for a whole LIVE book
/// from memory as JSON, and says what else it is for any other.
pub(super) fn tag(books: &[Shown<'_>], format: Format, depth: Option<usize>) -> Option<String> {
    let mut tag = String::from("\"");
    for (at, book) in books.iter().enumerate() {
        let separator = if at == 0 { "" } else { "+" };
        tag.push_str(&format!("{separator}{}", book.view.version?));
        let feed = book.view.feed;
        match book.source {
            Source::Store => tag.push_str(".store"),
            Source::Memory if feed.state == FeedState::Live => {}
            Source::Memory => tag.push_str(&format!(".{}", feed.state)),
        }
        feed.flags.names().iter().for_each(|flag| tag.push_str(&format!(".{flag}")));
        // A book of which more is stored than its version says may gain more without another version.
        if let Some(newer @ 1..) = book.newer_ticks {
            tag.push_str(&format!(".newer{newer}.{}", book.view.age_ms));
        }
    }
    let depth = depth.map(|depth| format!("-{depth}")).unwrap_or_default();
    Some(format!("{tag}{depth}{}\"", format.suffix()))
}

/// Whether the reader has what the tag names.
pub(super) fn has(headers: &HeaderMap, tag: Option<&str>) -> bool {
    let Some(tag) = tag else { return false };
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // No tag of ours holds a comma.
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|held| held == "*" || held.strip_prefix("W/").unwrap_or(held) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(name: &header::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_reader_gets_the_form_that_he_likes_best() {
        let chosen = |values: &[&str]| negotiate(&headers(&header::ACCEPT, values), &Format::ALL);
        assert_eq!(chosen(&[]), Some(Format::Json));
        for (accept, format) in [
            ("*/*", Some(Format::Json)),
            ("application/*", Some(Format::Json)),
            ("application/json", Some(Format::Json)),
            ("Application/JSON; charset=utf-8", Some(Format::Json)),
            (MEDIA_TYPE, Some(Format::Wire)),
            ("application/octet-stream", Some(Format::Octets)),
            ("application/json;q=0.5, application/vnd.sprag.v1;q=0.501", Some(Format::Wire)),
            ("application/json;q=0, */*;q=0.1", Some(Format::Wire)),
            ("text/html, application/octet-stream;q=0.2", Some(Format::Octets)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("application/json;q=2", None),
            ("", None),
        ] {
            assert_eq!(chosen(&[accept]), format, "{accept}");
        }
        assert_eq!(chosen(&["text/html", MEDIA_TYPE]), Some(Format::Wire), "two lines are one list");
        let json = negotiate(&headers(&header::ACCEPT, &[MEDIA_TYPE]), &[Format::Json]);
        assert_eq!(json, None, "what is not offered");
    }

    #[test]
    fn a_tag_is_found_in_a_list_and_behind_a_weak_mark() {
        let found = |values: &[&str]| has(&headers(&header::IF_NONE_MATCH, values), Some("\"1:5\""));
        for values in [&["\"1:5\""][..], &["*"], &["W/\"1:5\""], &["\"1:4\", \"1:5\""], &["\"1:4\"", "\"1:5\""]] {
            assert!(found(values), "{values:?}");
        }
        for values in [&[][..], &["1:5"], &["\"1:50\""], &["\"1:5.v1\""]] {
            assert!(!found(values), "{values:?}");
        }
        assert!(!has(&headers(&header::IF_NONE_MATCH, &["*"]), None));
    }
}
