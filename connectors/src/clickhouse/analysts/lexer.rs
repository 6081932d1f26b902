//! The tokens of a statement, as far as they must be known to judge it.
//!
//! The engine has a lexer of its own, and whoever finds a text that the two read differently is past the judge. So this
//! one knows the plain spellings alone and refuses all others, whatever the engine makes of them:
//! 1. outside of texts and comments there are ASCII characters only: the engine takes typographic quotes for quotes;
//! 2. a quoted name holds no backslash and no quote: `\x66ile` is a name that does not look like one;
//! 3. a comment does not nest and is closed; `#` and `//`, which begin comments at times, are none;
//! 4. `$` begins a text between two equal marks of letters, digits and underscores, or nothing;
//! 5. a word that begins with a digit is a number;
//! 6. there is no NUL, where some readers end.
//!
//! Never: a panic, or a guess; any bytes give tokens or an error.

/// A piece of a statement that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword or a name without quotes.
    Word(&'a str),
    /// A name between backquotes or double quotes, without them.
    Quoted(&'a str),
    /// A text, of any kind of quotes.
    Text,
    /// A number.
    Number,
    /// Any other character.
    Sign(u8),
}

/// Why a text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LexError {
    #[error("it is not UTF-8")]
    Utf8,
    #[error("it holds a NUL")]
    Nul,
    #[error("a text, a quoted name or a comment has no end")]
    Open,
    #[error("a comment within a comment is not taken here")]
    Nested,
    #[error("comments are /* … */ and -- to the end of the line; # and // are not taken here")]
    Comment,
    #[error("a quoted name with a backslash or a quote in it is not taken here")]
    QuotedName,
    #[error("a character outside of ASCII stands outside of quotes and comments")]
    NotAscii,
    #[error("$ begins a text as $mark$ … $mark$, with a mark of letters, digits and underscores, or is within quotes")]
    Dollar,
    #[error("a word that begins with a digit is no number")]
    Number,
    #[error("it has more than {TOKENS_MAX} tokens")]
    TooMany,
}

/// Bound of the tokens of one statement; queries by people have some hundreds, those of programs some thousands.
pub(super) const TOKENS_MAX: usize = 200_000;

/// Reads a statement to its end.
pub(super) fn tokens(sql: &[u8]) -> Result<Vec<Token<'_>>, LexError> {
    let text = std::str::from_utf8(sql).map_err(|_| LexError::Utf8)?;
    if sql.contains(&0) {
        return Err(LexError::Nul);
    }
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let (token, length) = match first {
            byte if byte.is_ascii_whitespace() || byte == 0x0b => (None, 1),
            b'-' if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            b'/' if rest.starts_with("/*") => (None, comment(rest)?),
            b'#' => return Err(LexError::Comment),
            b'/' if rest.starts_with("//") => return Err(LexError::Comment),
            b'\'' => (Some(Token::Text), quoted(rest, b'\'')?),
            b'`' | b'"' => {
                let length = quoted(rest, first)?;
                let name = rest.get(1..length.saturating_sub(1)).ok_or(LexError::Open)?;
                if name.bytes().any(|byte| matches!(byte, b'\\' | b'`' | b'"')) {
                    return Err(LexError::QuotedName);
                }
                (Some(Token::Quoted(name)), length)
            }
            b'$' => (Some(Token::Text), heredoc(rest)?),
            byte if is_word(byte) => {
                let word = word(rest)?;
                let number = byte.is_ascii_digit();
                if number && !is_number(word) {
                    return Err(LexError::Number);
                }
                (Some(if number { Token::Number } else { Token::Word(word) }), word.len())
            }
            byte if byte.is_ascii() => (Some(Token::Sign(byte)), 1),
            _ => return Err(LexError::NotAscii),
        };
        tokens.extend(token);
        if tokens.len() > TOKENS_MAX {
            return Err(LexError::TooMany);
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(tokens)
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The word at the beginning. The engine lets `$` go on in one.
fn word(rest: &str) -> Result<&str, LexError> {
    let length = rest.bytes().take_while(|byte| is_word(*byte)).count();
    if rest.as_bytes().get(length) == Some(&b'$') {
        return Err(LexError::Dollar);
    }
    rest.get(..length).ok_or(LexError::NotAscii)
}

/// Decimal digits with an exponent perhaps, hexadecimal or binary ones. A point, a sign and what follows are tokens of
/// their own.
fn is_number(word: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let of_base = |prefix: [&str; 2], right: fn(u8) -> bool| {
        let rest = prefix.iter().find_map(|prefix| word.strip_prefix(*prefix));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(right))
    };
    of_base(["0x", "0X"], |byte| byte.is_ascii_hexdigit())
        || of_base(["0b", "0B"], |byte| matches!(byte, b'0' | b'1'))
        || match word.split_once(['e', 'E']) {
            Some((whole, exponent)) => digits(whole) && digits(exponent),
            None => digits(word),
        }
}

/// Length of the comment at the beginning.
fn comment(rest: &str) -> Result<usize, LexError> {
    let body = rest.get(2..).ok_or(LexError::Open)?;
    let end = body.find("*/").ok_or(LexError::Open)?;
    if body.get(..end).is_some_and(|body| body.contains("/*"))
        || body.get(..=end).is_some_and(|body| body.ends_with("/*"))
    {
        return Err(LexError::Nested);
    }
    Ok(end + 4)
}

/// Length of what is quoted at the beginning; a quote within it is doubled or follows a backslash.
fn quoted(rest: &str, quote: u8) -> Result<usize, LexError> {
    let bytes = rest.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(byte) if *byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            Some(byte) if *byte == quote => return Ok(at + 1),
            Some(_) => at += 1,
            None => return Err(LexError::Open),
        }
    }
}

/// Length of the text between two equal marks at the beginning.
fn heredoc(rest: &str) -> Result<usize, LexError> {
    let body = rest.get(1..).ok_or(LexError::Dollar)?;
    let mark = body.find('$').ok_or(LexError::Dollar)? + 2;
    let (mark, body) = rest.split_at_checked(mark).ok_or(LexError::Dollar)?;
    if !mark.trim_matches('$').bytes().all(is_word) {
        return Err(LexError::Dollar);
    }
    let end = body.find(mark).ok_or(LexError::Dollar)?;
    Ok(mark.len() + end + mark.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_spellings_are_read() {
        let sql =
            "SELECT `a b`, \"c\", 'it''s \\' x', $$ file( $$, $m$ $$ $m$, 1.5e-3, 0xFf, 1_000 -- file(\n/* file( */;";
        let found = tokens(sql.as_bytes()).unwrap();
        let signs = |sign: u8| found.iter().filter(|token| **token == Token::Sign(sign)).count();
        assert_eq!((signs(b','), signs(b';'), signs(b'('), signs(b'-')), (7, 1, 0, 1));
        assert_eq!(found.iter().filter(|token| **token == Token::Text).count(), 3);
        assert_eq!(found.iter().filter(|token| **token == Token::Number).count(), 5);
        assert_eq!(found[..4], [Token::Word("SELECT"), Token::Quoted("a b"), Token::Sign(b','), Token::Quoted("c")]);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (sql, error) in [
            (&b"SELECT \xff"[..], LexError::Utf8),
            (b"SELECT 1\0 file(", LexError::Nul),
            (b"SELECT 'a", LexError::Open),
            (b"SELECT 'a\\'", LexError::Open),
            (b"SELECT `a", LexError::Open),
            (b"SELECT 1 /* a", LexError::Open),
            (b"SELECT 1 /*/", LexError::Open),
            (b"SELECT 1 /* a /* b */ c */", LexError::Nested),
            (b"SELECT 1 /* a /*/ b */", LexError::Nested),
            (b"SELECT 1 # a", LexError::Comment),
            (b"SELECT 1 #! a", LexError::Comment),
            (b"SELECT 1 // a", LexError::Comment),
            (b"SELECT `\\x66ile`('a')", LexError::QuotedName),
            (b"SELECT \"fi\"\"le\"('a')", LexError::QuotedName),
            (b"SELECT \"fi`le\"('a')", LexError::QuotedName),
            ("SELECT \u{2018}a\u{2019}".as_bytes(), LexError::NotAscii),
            ("SELECT \u{201c}file\u{201d}('a')".as_bytes(), LexError::NotAscii),
            ("SELECT 1 \u{2212} 1".as_bytes(), LexError::NotAscii),
            ("SELECT\u{a0}1".as_bytes(), LexError::NotAscii),
            (b"SELECT $ file('a') $ x $ file('a') $", LexError::Dollar),
            (b"SELECT $a$ x", LexError::Dollar),
            (b"SELECT a$b$ c $b$", LexError::Dollar),
            (b"SELECT $", LexError::Dollar),
            (b"SELECT 1file('a')", LexError::Number),
            (b"SELECT 0xfile", LexError::Number),
            (b"SELECT 1e5file", LexError::Number),
        ] {
            assert_eq!(tokens(sql), Err(error), "{}", String::from_utf8_lossy(sql));
        }
        assert_eq!(tokens(&b"+".repeat(TOKENS_MAX + 1)), Err(LexError::TooMany));
    }

    proptest! {
        #[test]
        fn any_bytes_give_tokens_or_an_error(sql in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(tokens(&sql).map_or(true, |tokens| tokens.len() <= sql.len()));
        }

        #[test]
        fn so_does_any_mixture_of_what_matters(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "'", "''", "\\", "`", "\"", "/*", "*/", "/", "*", "--", "\n", "$", "$a$", "#", "file", "(", ")", " ", "1", "e", ";", "é",
                ]),
                0..30,
            ),
        ) {
            let sql = parts.concat();
            if let Ok(tokens) = tokens(sql.as_bytes()) {
                prop_assert!(tokens.len() <= sql.len());
            }
        }

        #[test]
        fn what_stands_in_quotes_never_comes_out(text in "[ -~\n]{0,40}", after in "[a-z]{1,8}") {
            let escaped = text.replace('\\', "\\\\").replace('\'', "''");
            let sql = format!("'{escaped}' {after}");
            prop_assert_eq!(tokens(sql.as_bytes()).unwrap(), vec![Token::Text, Token::Word(&after)]);
        }
    }
}
