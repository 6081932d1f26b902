//! Answers for people: rows in columns, times and ages.
//!
//! Never: a control character of the store's on the terminal.

use super::Failure;
use crate::exit::Exit;
use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::Value;
use std::io::{self, Write};

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// Rows in columns as wide as they need to be; the last one is not filled up.
pub(super) fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let heads = heads.map(ToOwned::to_owned);
    let rows: Vec<[String; N]> =
        std::iter::once(heads).chain(rows.iter().map(|row| row.each_ref().map(|cell| printable(cell)))).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A text on one line, whatever it holds.
pub(super) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

/// A time as RFC 3339 with all its digits; `-` if it is not known.
pub(super) fn time(ns: u64) -> String {
    if ns == 0 {
        "-".to_owned()
    } else {
        Timestamp::from_nanosecond(i128::from(ns)).map_or("-".to_owned(), |time| time.to_string())
    }
}

/// How long ago a time is, in its two greatest units.
pub(super) fn age(now_ns: u64, ns: u64) -> String {
    if ns == 0 {
        return "-".to_owned();
    }
    let seconds = now_ns.saturating_sub(ns) / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Writes an answer to standard output.
pub(super) fn print(answer: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(answer).and_then(|()| out.flush());
    written.map_err(|error| Failure::new(Exit::Internal, error))
}

/// Writes an answer for programs.
pub(super) fn print_json(answer: &Value) -> Result<(), Failure> {
    print(format!("{answer:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells_and_hold_no_control_characters() {
        let rows = [["é\u{1b}[2J".to_owned(), "x".to_owned()], ["b".to_owned(), "two\nlines".to_owned()]];
        let text = table(["A", "NAME"], &rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, ["A           NAME", "é\\u{1b}[2J  x", "b           two\\nlines"]);
    }

    #[test]
    fn ages_have_two_units() {
        let second = 1_000_000_000;
        let cases =
            [(59, "59 s"), (60, "1 min 0 s"), (3_599, "59 min 59 s"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")];
        for (seconds, text) in cases {
            assert_eq!(age((seconds + 5) * second, 5 * second), text);
        }
        assert_eq!((age(5, 0), age(1, 5 * second)), ("-".to_owned(), "0 s".to_owned()));
        assert_eq!(time(1_700_000_000_345_678_901), "2023-11-14T22:13:20.345678901Z");
    }
}
