//! A script as single statements.
//!
//! Never: SQL that is understood beyond its quotes and comments.

/// Splits a script at semicolons outside of quotes and comments; comments are kept, empty statements left out.
pub(super) fn statements(script: &str) -> Vec<&str> {
    let bytes = script.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match rest {
            [b';', ..] => {
                found.push(script.get(start..at).unwrap_or_default());
                start = at + 1;
                1
            }
            [b'-', b'-', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => {
                rest.windows(2).skip(2).position(|pair| pair == b"*/").map_or(rest.len(), |end| end + 4)
            }
            [quote @ (b'\'' | b'"' | b'`'), ..] => quoted_length(rest, *quote),
            _ => 1,
        };
        at += length;
    }
    found.push(script.get(start..).unwrap_or_default());
    found.into_iter().map(str::trim).filter(|statement| !only_comments(statement)).collect()
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        at += match byte {
            b'\\' => 2,
            byte if *byte == quote => return at + 1,
            _ => 1,
        };
    }
    rest.len()
}

fn only_comments(statement: &str) -> bool {
    statement.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_split_at_real_semicolons_only() {
        let script =
            "-- a; comment\nCREATE a ';' ; /* ; */ CREATE \"b;\" -- it's\n;\n CREATE 'it\\';s', `c;`;; -- end;\n";
        let right = ["-- a; comment\nCREATE a ';'", "/* ; */ CREATE \"b;\" -- it's", "CREATE 'it\\';s', `c;`"];
        assert_eq!(statements(script), right);
        assert_eq!(statements(""), [""; 0]);
    }
}
