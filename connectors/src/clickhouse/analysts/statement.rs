//! Which statements an analyst may run: one, that reads, and names nothing that reaches beyond the tables.
//!
//! Never: a statement passed whose every token was not seen.

use super::lexer::{LexError, Token, tokens};

/// Why a statement is refused, in the words and numbers of the engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("Code: 62. DB::Exception: The statement cannot be judged: {0}. (SYNTAX_ERROR)")]
    Unread(#[from] LexError),
    #[error("Code: 62. DB::Exception: Empty query. (SYNTAX_ERROR)")]
    Empty,
    #[error("Code: 62. DB::Exception: One statement at a time is taken here. (SYNTAX_ERROR)")]
    Several,
    #[error(
        "Code: 164. DB::Exception: {0} is not taken here: this listener reads (SELECT, WITH, FROM, SHOW, DESCRIBE, EXPLAIN, EXISTS). (READONLY)"
    )]
    Writes(Box<str>),
    #[error(
        "Code: 497. DB::Exception: {0} is not available to analysts: it reaches beyond the tables. (ACCESS_DENIED)"
    )]
    Beyond(Box<str>),
}

/// A statement that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading<'a> {
    /// The format that it names itself.
    pub(super) format: Option<&'a str>,
}

/// How a statement that reads begins.
const BEGINNINGS: [&str; 8] = ["select", "with", "from", "show", "describe", "desc", "explain", "exists"];

/// Words that are refused wherever they stand as a name, because a function can be named without being called
/// (`APPLY file`): what reads or writes files, runs programs, asks other hosts or models, signals every thread of the
/// process, waits, or writes to the log. Sorted.
const WORDS: [&str; 32] = [
    "addresstoline",
    "addresstolinewithinlines",
    "addresstosymbol",
    "aiclassify",
    "aiembed",
    "aiextract",
    "aigenerate",
    "aitranslate",
    "catboostevaluate",
    "eval",
    "executable",
    "executablepool",
    "fail_points",
    "file",
    "filecluster",
    "filesystemavailable",
    "filesystemcapacity",
    "filesystemunreserved",
    "generateserialid",
    "getmacro",
    "getserverport",
    "getserversetting",
    "infile",
    "jemalloc_profile_text",
    "logtrace",
    "naivebayesclassifier",
    "outfile",
    "showcertificate",
    "sleep",
    "sleepeachrow",
    "stack_trace",
    "trace_log",
];

/// Table functions that make rows out of nothing or of this engine's own tables. Sorted.
const TABLE_FUNCTIONS: [&str; 17] = [
    "format",
    "generate_series",
    "generaterandom",
    "generateseries",
    "merge",
    "mergetreeanalyzeindexes",
    "mergetreeindex",
    "mergetreeprojection",
    "null",
    "numbers",
    "numbers_mt",
    "primes",
    "values",
    "view",
    "viewifpermitted",
    "zeros",
    "zeros_mt",
];

/// All other table functions: sources outside, catalogues of such, endless ones, and what has no use here. The engine's
/// grants close most of them too. Sorted.
const SOURCES: [&str; 69] = [
    "arrowflight",
    "arrowstream",
    "azureblobstorage",
    "azureblobstoragecluster",
    "cluster",
    "clusterallreplicas",
    "cosn",
    "deltalake",
    "deltalakeazure",
    "deltalakeazurecluster",
    "deltalakecluster",
    "deltalakelocal",
    "deltalakes3",
    "deltalakes3cluster",
    "dictionary",
    "eval",
    "executable",
    "file",
    "filecluster",
    "filesystem",
    "fuzzjson",
    "fuzzquery",
    "gcs",
    "hdfs",
    "hdfscluster",
    "hudi",
    "hudicluster",
    "iceberg",
    "icebergazure",
    "icebergazurecluster",
    "icebergcluster",
    "iceberghdfs",
    "iceberghdfscluster",
    "iceberglocal",
    "iceberglocalcluster",
    "icebergs3",
    "icebergs3cluster",
    "input",
    "jdbc",
    "loop",
    "mergetreeanalyzeindexesuuid",
    "mergetreetextindex",
    "mongodb",
    "mysql",
    "odbc",
    "oss",
    "paimon",
    "paimonazure",
    "paimonazurecluster",
    "paimoncluster",
    "paimonhdfs",
    "paimonhdfscluster",
    "paimonlocal",
    "paimons3",
    "paimons3cluster",
    "postgresql",
    "prometheusquery",
    "prometheusqueryrange",
    "redis",
    "remote",
    "remotesecure",
    "s3",
    "s3cluster",
    "sqlite",
    "sqlstandardvalues",
    "url",
    "urlcluster",
    "viewexplain",
    "ytsaurus",
];

/// Beginnings of the names of table functions over a time-series table's inner ones, which are not there.
const SOURCE_FAMILY: &str = "timeseries";

/// Table functions of that family.
const TIME_SERIES: [&str; 5] =
    ["timeseriesdata", "timeseriesmetrics", "timeseriessamples", "timeseriesselector", "timeseriestags"];

/// Whether analysts may call a table function; `None` for one that nobody has judged yet, so that a newer engine's can be
/// found.
#[must_use]
pub fn judged(table_function: &str) -> Option<bool> {
    let name = table_function.to_ascii_lowercase();
    if is_source(&name) {
        return Some(false);
    }
    TABLE_FUNCTIONS.binary_search(&name.as_str()).is_ok().then_some(true)
}

fn is_source(name: &str) -> bool {
    SOURCES.binary_search(&name).is_ok() || name.starts_with(SOURCE_FAMILY) && TIME_SERIES.contains(&name)
}

/// Judges a statement.
pub(super) fn judge(sql: &[u8]) -> Result<Reading<'_>, Refused> {
    let mut tokens = tokens(sql)?;
    while tokens.last() == Some(&Token::Sign(b';')) {
        tokens.pop();
    }
    if tokens.contains(&Token::Sign(b';')) {
        return Err(Refused::Several);
    }
    let first = tokens.iter().find(|token| **token != Token::Sign(b'(')).ok_or(Refused::Empty)?;
    let Token::Word(word) = first else { return Err(Refused::Writes("Such a statement".into())) };
    if !BEGINNINGS.contains(&word.to_ascii_lowercase().as_str()) {
        return Err(Refused::Writes(word.to_ascii_uppercase().into()));
    }
    for (at, token) in tokens.iter().enumerate() {
        let (Token::Word(name) | Token::Quoted(name)) = token else { continue };
        let lower = name.to_ascii_lowercase();
        let next = tokens.get(at + 1);
        let called = next == Some(&Token::Sign(b'('));
        if WORDS.binary_search(&lower.as_str()).is_ok() || called && is_source(&lower) {
            return Err(Refused::Beyond((*name).into()));
        }
        let before = |word: &str| {
            let followed = matches!(next, Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
            followed && matches!(token, Token::Word(_))
        };
        if lower == "parallel" && before("with") {
            return Err(Refused::Several);
        }
        // It may stand behind WITH.
        if lower == "insert" && before("into") {
            return Err(Refused::Writes("INSERT".into()));
        }
    }
    Ok(Reading { format: format(&tokens) })
}

/// The format that a statement names at its end.
fn format<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    match tokens {
        [.., Token::Word(word), Token::Word(name)] if word.eq_ignore_ascii_case("format") => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lists_are_sorted() {
        assert!(WORDS.is_sorted() && TABLE_FUNCTIONS.is_sorted() && SOURCES.is_sorted());
    }

    #[test]
    fn what_reads_passes() {
        for sql in [
            "SELECT * FROM tick_state FINAL WHERE asset_0 = 'BTC'",
            "  -- a comment\n(SELECT 1) UNION ALL (SELECT 2);",
            "WITH x AS (SELECT 1 AS a) SELECT a FROM x FORMAT JSON",
            "FROM numbers(3) SELECT *;;",
            "SHOW TABLES",
            "DESCRIBE TABLE tick_state",
            "EXPLAIN indexes = 1 SELECT 1",
            "EXISTS TABLE tick_state",
            "SELECT 'file(', \"a file\", `files` FROM t -- file(\n/* sleep(3) */",
            "SELECT $$file('x')$$",
            "SELECT url, s3, remote FROM t",
            "SELECT format('{} {}', 'a', 'b'), * FROM book_as_of(asset_0 = 'BTC', asset_1 = 'USDT', at = '2026-01-01')",
            "SELECT name, value FROM system.settings",
            "SELECT {x:UInt64} + 1",
            "SELECT * FROM view(SELECT 1), values('a UInt8', 1)",
        ] {
            assert!(judge(sql.as_bytes()).is_ok(), "{sql}: {:?}", judge(sql.as_bytes()));
        }
        let format = |sql: &'static str| judge(sql.as_bytes()).unwrap().format;
        assert_eq!(format("SELECT 1 FORMAT Native"), Some("Native"));
        assert_eq!(format("SELECT format('x') FROM (SELECT 1) format CSV;"), Some("CSV"));
        assert_eq!(format("SELECT 1"), None);
    }

    #[test]
    fn what_writes_is_refused() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "CREATE TABLE t (a UInt8) ENGINE = Memory",
            "DROP TABLE t",
            "ALTER TABLE t DELETE WHERE 1",
            "SET max_threads = 1",
            "USE system",
            "SYSTEM STOP MERGES",
            "KILL QUERY WHERE 1",
            "BACKUP DATABASE sprag TO File('x')",
            "RESTORE DATABASE sprag FROM File('x')",
            "OPTIMIZE TABLE t FINAL",
            "TRUNCATE TABLE t",
            "GRANT ALL ON *.* TO default",
            "CHECK TABLE t",
            "EXECUTE AS default",
            "`select` 1",
            "'select'",
            "/* select */ DROP TABLE t",
            "WITH 1 AS x INSERT /**/ INTO t SELECT x",
        ] {
            assert!(matches!(judge(sql.as_bytes()), Err(Refused::Writes(_))), "{sql}: {:?}", judge(sql.as_bytes()));
        }
        assert_eq!(judge(b" -- only\n;"), Err(Refused::Empty));
        assert_eq!(judge(b"SELECT 1; DROP TABLE t"), Err(Refused::Several));
        assert_eq!(judge(b"SELECT 1 PARALLEL /**/ WITH DROP TABLE t"), Err(Refused::Several));
        assert!(matches!(judge(b"SELECT 1 /* a /* */ ; DROP TABLE t"), Err(Refused::Unread(_))));
    }

    #[test]
    fn what_reaches_beyond_is_refused() {
        for sql in [
            "SELECT file('/etc/passwd')",
            "SELECT FILE ('/etc/passwd')",
            "SELECT `file`('/etc/passwd')",
            "SELECT \"file\"/**/\n('/etc/passwd')",
            "SELECT * APPLY(file) FROM (SELECT '/etc/passwd')",
            "SELECT * APPLY file FROM (SELECT '/etc/passwd')",
            "WITH x AS (SELECT file('a')) SELECT * FROM x",
            "SELECT (SELECT (SELECT file('a')))",
            "EXPLAIN SELECT file('a')",
            "SELECT 1 INTO OUTFILE '/tmp/x'",
            "SELECT 1 INTO/**/OUTFILE '/tmp/x' TRUNCATE",
            "SELECT 1 into outfile '/tmp/x'",
            "SELECT 1 FROM INFILE '/etc/passwd'",
            "SELECT * FROM url('http://localhost')",
            "SELECT * FROM `url` ('http://localhost')",
            "SELECT * FROM remote('localhost', system.one)",
            "SELECT * FROM executable('x', 'TSV', 'a String')",
            "DESCRIBE TABLE file('x')",
            "SELECT sleep(3)",
            "SELECT sleepEachRow(1) FROM numbers(10)",
            "SELECT * FROM loop(numbers(1))",
            "SELECT * FROM system.stack_trace",
            "SELECT aiGenerate('x', 'y')",
            "SELECT catboostEvaluate('/x', 1)",
            "SELECT * FROM eval('SELECT 1')",
        ] {
            assert!(matches!(judge(sql.as_bytes()), Err(Refused::Beyond(_))), "{sql}: {:?}", judge(sql.as_bytes()));
        }
    }

    proptest! {
        /// However it is written, and whatever stands around it, the name is found.
        #[test]
        fn a_refused_name_is_found_in_every_spelling(
            word in 0..WORDS.len(),
            upper in any::<u64>(),
            quote in prop::sample::select(vec!["", "`", "\""]),
            blank in prop::sample::select(vec!["", " ", "\n", "\t", "/* x */", "-- x\n", "/*`*/", "--'\n"]),
            before in prop::sample::select(vec!["", "1, ", "'a', ", "$x$ ' $x$, ", "`a`, ", "(1), ", "''''  , ", "'\\'', "]),
            after in prop::sample::select(vec!["", "('x')", " ('x')", ", 1", " AS y"]),
        ) {
            let name: String = WORDS[word].chars().enumerate().map(|(at, c)| {
                if upper >> (at % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c }
            }).collect();
            let sql = format!("SELECT {before}{blank}{quote}{name}{quote}{blank}{after}");
            prop_assert_eq!(judge(sql.as_bytes()), Err(Refused::Beyond(name.into())), "{}", sql);
        }

        /// In a text or a comment it is no name.
        #[test]
        fn a_refused_name_in_a_text_is_none(word in 0..WORDS.len(), frame in 0..4_usize) {
            let name = WORDS[word];
            let sql = match frame {
                0 => format!("SELECT '{name}('"),
                1 => format!("SELECT 1 -- {name}(\n"),
                2 => format!("SELECT 1 /* {name}( */"),
                _ => format!("SELECT $a$ {name}( $a$"),
            };
            prop_assert!(judge(sql.as_bytes()).is_ok(), "{}", sql);
        }

        #[test]
        fn any_bytes_are_judged(sql in proptest::collection::vec(any::<u8>(), 0..100)) {
            let with = [b"SELECT ".as_slice(), &sql].concat();
            prop_assert!(judge(&sql).is_ok() || judge(&sql).is_err());
            prop_assert!(judge(&with).is_ok() || judge(&with).is_err());
        }
    }
}
