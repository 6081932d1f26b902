//! What the reason text of a WebSocket close frame says: when to come back.
//!
//! Never: a free text; a terminal acts on it.

/// The close code of a drain: the server goes away in good order, another one will take the terminal.
pub const CLOSE_DRAIN: u16 = 1012;

/// The close code for bytes that are no message of this wire version.
pub const CLOSE_MALFORMED: u16 = 1002;

/// The close code for a message or book over a bound.
pub const CLOSE_TOO_LARGE: u16 = 1009;

const KEY: &str = "reconnect_after_ms=";

/// The notice in a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseNotice {
    /// How long to wait before the next connection, in milliseconds; chosen by the server to spread a drain.
    pub reconnect_after_ms: u32,
}

impl CloseNotice {
    /// The reason text of the close frame.
    #[must_use]
    pub fn to_reason(self) -> String {
        format!("{KEY}{}", self.reconnect_after_ms)
    }

    /// The notice of a reason text; `None` if it holds none.
    #[must_use]
    pub fn from_reason(reason: &str) -> Option<Self> {
        reason.strip_prefix(KEY)?.parse().ok().map(|reconnect_after_ms| Self { reconnect_after_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_notice_round_trips() {
        let notice = CloseNotice { reconnect_after_ms: 4_250 };
        assert_eq!(notice.to_reason(), "reconnect_after_ms=4250");
        assert_eq!(CloseNotice::from_reason(&notice.to_reason()), Some(notice));
        assert_eq!(CloseNotice::from_reason("going away"), None);
    }
}
