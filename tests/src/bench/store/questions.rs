//! What is asked, in how many ways.
//!
//! Never: a way that is called right and is not; what is known to be wrong says so.

use super::UPDATES_PER_SECOND;

/// One way to ask.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) sql: String,
    /// Whether its answer must be that of the first way.
    pub(super) right: bool,
}

/// A question; its first way is the one that is told to people.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) name: &'static str,
    /// Of the first way on merged parts, milliseconds.
    pub(super) goal_ms: Option<f64>,
    pub(super) ways: Vec<Way>,
}

/// What names a tick.
const KEY: &str = "asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key";

fn way(name: &'static str, right: bool, sql: &str) -> Way {
    // In one order, so that answers can be compared.
    Way { name, right, sql: format!("SELECT * FROM ({sql}) ORDER BY ALL") }
}

/// All questions about so many updates.
pub(super) fn questions(updates: u64) -> [Question; 3] {
    [book(), changes(updates), whole()]
}

fn newest(table: &str, condition: &str) -> String {
    format!(
        "SELECT {KEY}, argMax(reserves, version) AS newest, max(version) AS at FROM {table} WHERE {condition} \
         GROUP BY {KEY} HAVING argMax(reserves_zero, version) = 0"
    )
}

fn book() -> Question {
    let pair = "asset_0 = 'A3' AND asset_1 = 'USDT'";
    let columns = format!("{KEY}, reserves, version");
    let limit_by = format!(
        "SELECT {columns} FROM (SELECT * FROM tick_state WHERE {pair} ORDER BY version DESC LIMIT 1 BY {KEY}) \
         WHERE reserves_zero = 0"
    );
    let select = |rest: &str| format!("SELECT {columns} FROM tick_state {rest}");
    Question {
        name: "a pair's book",
        goal_ms: Some(20.0),
        ways: vec![
            way("FINAL", true, &select(&format!("FINAL WHERE {pair} AND reserves_zero = 0"))),
            way("argMax GROUP BY", true, &newest("tick_state", pair)),
            way("ORDER BY version DESC LIMIT 1 BY", true, &limit_by),
            way("argMax over tick_updates", true, &newest("written.tick_updates", pair)),
            way("without FINAL (wrong)", false, &select(&format!("WHERE {pair} AND reserves_zero = 0"))),
            way(
                "FINAL and PREWHERE (wrong)",
                false,
                &select(&format!("FINAL PREWHERE reserves_zero = 0 WHERE {pair}")),
            ),
        ],
    }
}

fn changes(updates: u64) -> Question {
    let since_ns = 1_700_000_000_000_000_000 + updates * (1_000_000_000 / UPDATES_PER_SECOND) - 5_000_000_000;
    let since = format!("ingestion_timestamp >= fromUnixTimestamp64Nano({since_ns}::Int64)");
    let newest = |from: &str, condition: &str| {
        format!(
            "SELECT {KEY}, argMax(tuple(reserves, reserves_zero), version) AS state, max(version) AS at FROM {from} \
             {condition} GROUP BY {KEY}"
        )
    };
    let final_ =
        format!("SELECT {KEY}, tuple(reserves, reserves_zero) AS state, version FROM tick_state FINAL WHERE {since}");
    let whole = format!(
        "SELECT {KEY}, state, at FROM (SELECT {KEY}, argMax(tuple(reserves, reserves_zero), version) AS state, \
         max(version) AS at, max(ingestion_timestamp) AS seen FROM tick_state GROUP BY {KEY}) \
         WHERE seen >= fromUnixTimestamp64Nano({since_ns}::Int64)"
    );
    Question {
        name: "the changes of 5 s",
        goal_ms: Some(50.0),
        ways: vec![
            way("argMax by the time index, no FINAL", true, &newest("tick_state", &format!("WHERE {since}"))),
            way("argMax over tick_updates", true, &newest("written.tick_updates", &format!("WHERE {since}"))),
            way("argMax over all, then the time", true, &whole),
            way("FINAL (wrong: no deaths)", false, &final_),
        ],
    }
}

fn whole() -> Question {
    Question {
        name: "the whole state",
        goal_ms: None,
        ways: vec![
            way(
                "FINAL",
                true,
                &format!("SELECT {KEY}, reserves, version FROM tick_state FINAL WHERE reserves_zero = 0"),
            ),
            way("argMax GROUP BY", true, &newest("tick_state", "1")),
            way("argMax over tick_updates", true, &newest("written.tick_updates", "1")),
        ],
    }
}
