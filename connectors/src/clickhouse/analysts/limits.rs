//! The settings of an analyst's statement: what is fixed, what a caller may lower, what he may choose.
//!
//! Never: a setting of a caller's that nobody thought of.

use super::AnalystLimits;

/// A setting that is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SettingError {
    #[error("Code: 164. DB::Exception: Setting '{0}' is not an analyst's to choose. (READONLY)")]
    Fixed(Box<str>),
    #[error(
        "Code: 452. DB::Exception: Setting '{name}' = {value} is beyond the limit of {limit}; it can only be lowered. (SETTING_CONSTRAINT_VIOLATION)"
    )]
    Beyond { name: Box<str>, value: Box<str>, limit: u64 },
}

/// What only says how a result is written, or how a question is meant. None of them names a file, a program or a host.
const CHOSEN: [&str; 17] = [
    "any_join_distinct_right_table_keys",
    "asterisk_include_alias_columns",
    "asterisk_include_materialized_columns",
    "cast_keep_nullable",
    "date_time_input_format",
    "date_time_output_format",
    "describe_compact_output",
    "extremes",
    "final",
    "join_use_nulls",
    "limit",
    "offset",
    "prefer_column_name_to_alias",
    "session_timezone",
    "union_default_mode",
    "use_skip_indexes",
    "use_skip_indexes_if_final",
];

/// Families of such.
const CHOSEN_FAMILIES: [&str; 2] = ["output_format_", "format_csv_"];

/// What every statement runs under, the caller's wishes at the end.
pub(super) fn settings(
    limits: &AnalystLimits,
    wishes: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, SettingError> {
    let mut lowered = bounds(limits);
    let mut chosen = Vec::new();
    for (name, value) in wishes {
        if let Some((_, limit)) = lowered.iter_mut().find(|(bound, _)| *bound == name) {
            *limit = lower(&name, &value, *limit)?;
        } else if CHOSEN.contains(&name.as_str()) || CHOSEN_FAMILIES.iter().any(|family| name.starts_with(family)) {
            chosen.push((name, value));
        } else if name == "readonly" && matches!(value.as_str(), "1" | "2") {
            // It is so already.
        } else {
            return Err(SettingError::Fixed(name.into()));
        }
    }
    let lowered = lowered.into_iter().map(|(name, value)| (name.to_owned(), value.to_string()));
    let fixed = FIXED.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(chosen.into_iter().chain(lowered).chain(fixed).collect())
}

/// What is the same for everybody.
const FIXED: [(&str, &str); 9] = [
    ("timeout_overflow_mode", "throw"),
    ("result_overflow_mode", "throw"),
    ("read_overflow_mode", "throw"),
    ("allow_introspection_functions", "0"),
    ("function_sleep_max_microseconds_per_block", "1"),
    ("use_query_cache", "0"),
    ("max_query_size", "1048576"),
    ("allow_ddl", "0"),
    ("readonly", "1"),
];

/// What a caller may lower.
fn bounds(limits: &AnalystLimits) -> Vec<(&'static str, u64)> {
    vec![
        ("max_threads", limits.threads),
        ("max_final_threads", limits.threads),
        ("max_execution_time", limits.seconds),
        ("max_memory_usage", limits.memory_bytes),
        ("max_temporary_data_on_disk_size_for_query", limits.temporary_bytes),
        ("max_rows_to_read", limits.read_rows),
        ("max_result_rows", limits.result_rows),
        ("max_result_bytes", limits.result_bytes),
    ]
}

/// A wish within the limit. Nought means "no limit" to the engine, and anything that is no number is left to be called
/// out of bounds.
fn lower(name: &str, value: &str, limit: u64) -> Result<u64, SettingError> {
    let wished = value.parse::<u64>().ok().filter(|wished| (1..=limit).contains(wished));
    wished.ok_or_else(|| SettingError::Beyond { name: name.into(), value: value.into(), limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Result<Vec<(String, String)>, SettingError> {
        settings(&AnalystLimits::default(), vec![(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn limits_are_lowered_and_nothing_else() {
        let lowered = of("max_threads", "1").unwrap();
        assert!(lowered.contains(&("max_threads".to_owned(), "1".to_owned())));
        assert_eq!(lowered.iter().filter(|(name, _)| name == "max_threads").count(), 1);
        for value in ["0", "3", "-1", "many", "18446744073709551616", ""] {
            assert!(matches!(of("max_threads", value), Err(SettingError::Beyond { limit: 2, .. })), "{value}");
        }
    }

    #[test]
    fn what_is_fixed_stands_last_and_stays() {
        let made = of("output_format_json_quote_64bit_integers", "1").unwrap();
        assert_eq!(made.last().unwrap(), &("readonly".to_owned(), "1".to_owned()));
        assert!(of("readonly", "1").is_ok() && of("readonly", "2").is_ok());
        for name in
            ["readonly", "allow_ddl", "format_schema", "format_template_row", "max_query_size", "path", "async_insert"]
        {
            assert_eq!(of(name, "0"), Err(SettingError::Fixed(name.into())));
        }
    }
}
