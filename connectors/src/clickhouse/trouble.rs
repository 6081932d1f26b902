//! What a failure of the store says of its state, read from its words: the client has nothing else of them.
//!
//! Never: a full disk guessed from a code that has other reasons too.

/// How the store does, as its writer sees it; later ones are worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreState {
    /// It takes what comes.
    #[default]
    Ready,
    /// It takes less than comes: of what waits only the newest change of each tick is kept.
    Behind,
    /// The last attempt failed; it is repeated.
    Failing,
    /// The last attempt failed because its disk is full; it is repeated.
    Full,
}

impl StoreState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Behind, Self::Failing, Self::Full];

    /// As metrics and logs have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Behind => "behind",
            Self::Failing => "failing",
            Self::Full => "full",
        }
    }

    /// What a failed attempt with this text says: `Full` or `Failing`.
    #[must_use]
    pub fn of_error(text: &str) -> Self {
        if FULL.iter().any(|sign| text.contains(sign)) { Self::Full } else { Self::Failing }
    }
}

/// Signs of a full disk: the server's own refusal, by number and by name, and the system's word that comes with failed
/// writes, whose own codes (75 and others) have more reasons than this one. A memory limit (241) is not among them.
const FULL: [&str; 4] = ["Code: 243.", "NOT_ENOUGH_SPACE", "errno: 28,", "No space left on device"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        for (text, state) in [
            (
                "Code: 243. DB::Exception: Could not perform insert: less than 10.00 free bytes. (NOT_ENOUGH_SPACE)",
                StoreState::Full,
            ),
            (
                "bad response: Code: 75. DB::ErrnoException: Cannot write to file /x: , errno: 28, strerror: No space left on \
                 device. (CANNOT_WRITE_TO_FILE_DESCRIPTOR)",
                StoreState::Full,
            ),
            (
                "Code: 75. DB::ErrnoException: Cannot write to file /x: , errno: 5, strerror: Input/output error. \
                 (CANNOT_WRITE_TO_FILE_DESCRIPTOR)",
                StoreState::Failing,
            ),
            ("Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)", StoreState::Failing),
            ("Code: 2430. DB::Exception: something else", StoreState::Failing),
            ("errno: 280, strerror: unknown", StoreState::Failing),
            ("network error: connection refused", StoreState::Failing),
        ] {
            assert_eq!(StoreState::of_error(text), state, "{text}");
        }
    }
}
