//! Tells an insert that brings its own data from every other statement.
//!
//! Never: SQL that is run; this only finds where the table name stands and where the data begins.

/// `INSERT INTO t (…) [SETTINGS …] FORMAT Name` and what follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Insert<'a> {
    /// The statement up to its FORMAT clause, the table qualified by the database if it was not.
    pub(super) head: String,
    /// The format's name.
    pub(super) format: &'a str,
    /// What follows the format's name and one line end.
    pub(super) rest: &'a [u8],
}

/// Reads such an insert; `None` for anything else, `INSERT … SELECT` and `INSERT … VALUES` included.
pub(super) fn split_insert<'a>(sql: &'a [u8], database: Option<&str>) -> Option<Insert<'a>> {
    let mut scan = Scan { sql, at: 0 };
    scan.word("insert")?;
    scan.word("into")?;
    scan.optional("table");
    if scan.optional("function") {
        return None;
    }
    let table = scan.name()?;
    let mut qualified = false;
    while scan.peek() == Some(b'.') {
        scan.at += 1;
        scan.name()?;
        qualified = true;
    }
    let (head_end, format) = scan.format_clause()?;
    let head = std::str::from_utf8(sql.get(..head_end)?).ok()?.trim_end();
    let head = match database.filter(|_| !qualified) {
        Some(database) => format!("{}{database}.{}", head.get(..table)?, head.get(table..)?),
        None => head.to_owned(),
    };
    Some(Insert { head, format, rest: after_line_end(sql.get(scan.at..)?) })
}

/// The format's name is followed by blanks, perhaps a semicolon, and one line end; all after that is data.
fn after_line_end(rest: &[u8]) -> &[u8] {
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b';')).count();
    let rest = rest.get(blanks..).unwrap_or_default();
    rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).unwrap_or(rest)
}

struct Scan<'a> {
    sql: &'a [u8],
    at: usize,
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        self.sql.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is neither a blank nor within a comment.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let rest = self.rest();
            let skipped = match rest {
                [b'-', b'-', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => rest.windows(2).position(|pair| pair == b"*/").map_or(rest.len(), |end| end + 2),
                [byte, ..] if byte.is_ascii_whitespace() => 1,
                [byte, ..] => return Some(*byte),
                [] => return None,
            };
            self.at += skipped;
        }
    }

    fn bare(&mut self) -> Option<&'a [u8]> {
        self.peek()?;
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| is_word(**byte)).count();
        rest.get(..length).filter(|word| !word.is_empty())
    }

    fn optional(&mut self, word: &str) -> bool {
        match self.bare() {
            Some(found) if found.eq_ignore_ascii_case(word.as_bytes()) => {
                self.at += found.len();
                true
            }
            _ => false,
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.optional(word).then_some(())
    }

    /// A bare or quoted name; gives where it begins.
    fn name(&mut self) -> Option<usize> {
        let quote = self.peek()?;
        let start = self.at;
        match quote {
            b'`' | b'"' => self.quoted(quote)?,
            _ => self.at += self.bare()?.len(),
        }
        Some(start)
    }

    /// Passes a quoted text; a quote within it is doubled or follows a backslash.
    fn quoted(&mut self, quote: u8) -> Option<()> {
        self.at += 1;
        loop {
            match self.rest() {
                [b'\\', _, ..] => self.at += 2,
                [first, second, ..] if *first == quote && *second == quote => self.at += 2,
                [first, ..] => {
                    self.at += 1;
                    if *first == quote {
                        return Some(());
                    }
                }
                [] => return None,
            }
        }
    }

    /// Finds the FORMAT clause outside of parentheses; gives where it begins and the format's name.
    fn format_clause(&mut self) -> Option<(usize, &'a str)> {
        let mut depth = 0_u32;
        loop {
            match self.peek()? {
                quote @ (b'\'' | b'`' | b'"') => self.quoted(quote)?,
                b'(' => {
                    depth += 1;
                    self.at += 1;
                }
                b')' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                byte if is_word(byte) => {
                    let start = self.at;
                    let word = self.bare()?;
                    self.at += word.len();
                    let is = |other: &str| depth == 0 && word.eq_ignore_ascii_case(other.as_bytes());
                    if is("select") || is("values") || is("with") || is("from") || is("watch") {
                        return None;
                    }
                    if is("format") {
                        let name = self.bare()?;
                        self.at += name.len();
                        let name = std::str::from_utf8(name).ok()?;
                        return (!name.eq_ignore_ascii_case("values")).then_some((start, name));
                    }
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(sql: &str) -> Option<(String, String, String)> {
        let insert = split_insert(sql.as_bytes(), Some("`d`"))?;
        Some((insert.head, insert.format.to_owned(), String::from_utf8_lossy(insert.rest).into_owned()))
    }

    fn right(head: &str, format: &str, rest: &str) -> Option<(String, String, String)> {
        Some((head.to_owned(), format.to_owned(), rest.to_owned()))
    }

    #[test]
    fn the_table_is_qualified_once() {
        for (sql, head) in [
            ("INSERT INTO t(a) FORMAT X", "INSERT INTO `d`.t(a)"),
            ("insert into `a.b`(x) format X", "insert into `d`.`a.b`(x)"),
            ("INSERT INTO x.t FORMAT X", "INSERT INTO x.t"),
            ("INSERT INTO `x` . `t` (a) FORMAT X", "INSERT INTO `x` . `t` (a)"),
            ("INSERT INTO TABLE t FORMAT X", "INSERT INTO TABLE `d`.t"),
            ("/* c */ INSERT -- c\n INTO t(format, b) FORMAT X", "/* c */ INSERT -- c\n INTO `d`.t(format, b)"),
            ("INSERT INTO t SETTINGS a = 'x FORMAT y' FORMAT X", "INSERT INTO `d`.t SETTINGS a = 'x FORMAT y'"),
        ] {
            assert_eq!(split(sql), right(head, "X", ""), "{sql}");
        }
    }

    #[test]
    fn data_begins_after_one_line_end() {
        let head = "INSERT INTO `d`.t";
        assert_eq!(split("INSERT INTO t FORMAT CSV\n\n1"), right(head, "CSV", "\n1"));
        assert_eq!(split("INSERT INTO t FORMAT JSONEachRow {\"a\":1}"), right(head, "JSONEachRow", "{\"a\":1}"));
        assert_eq!(split("INSERT INTO t FORMAT TSV;\r\nx"), right(head, "TSV", "x"));
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "SELECT 1 FORMAT TSV",
            "INSERT INTO t SELECT 1",
            "INSERT INTO t (a) WITH 1 AS x SELECT x FORMAT Null",
            "INSERT INTO t VALUES (1) ",
            "INSERT INTO t FORMAT Values (1)",
            "INSERT INTO FUNCTION file('x') FORMAT X",
            "INSERT INTO t",
            "INSERT INTO `t",
            "INSERT INTO t(a",
            "INSERT INTO t) FORMAT X",
            "",
            "INSERT INTO t 'FORMAT",
        ] {
            assert_eq!(split(sql), None, "{sql}");
        }
    }
}
