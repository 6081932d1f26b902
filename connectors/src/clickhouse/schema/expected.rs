//! What the program expects of the store's tables: engines, keys, columns, and what of them must not be tuned.
//!
//! Never: a table of `schema.sql` without its entry; a test compares both.

/// One table or view.
pub(super) struct Expected {
    pub(super) table: &'static str,
    /// Beginning of `engine_full`; the settings behind it may be tuned by the operator, but for those that are checked.
    pub(super) engine: &'static str,
    pub(super) sorting_key: &'static str,
    /// In lists, so that tables can have one in common.
    pub(super) columns: &'static [&'static [(&'static str, &'static str)]],
}

impl Expected {
    /// Every column with its type.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.columns.iter().copied().flatten().copied()
    }

    /// Whether rows replace others, so that a row which is lost to a merge or a TTL could let an older one live again.
    pub(super) fn replaces(&self) -> bool {
        self.engine.starts_with("Replacing")
    }

    /// Whether a repeated insert must be dropped: of every table that inserts under tokens reach, directly or by a view.
    pub(super) fn remembers_tokens(&self) -> bool {
        self.engine.ends_with("MergeTree") && self.table != "swept_rows" || self.replaces()
    }

    /// The columns that may be in a partition key. An insert is one part only if an instrument is in one partition, and a
    /// row replaces another only within its partition.
    pub(super) fn partition_columns(&self) -> Option<Vec<&'static str>> {
        let instrument = ["asset_0", "asset_1", "venue"];
        let key = self.sorting_key.split(", ").filter(|column| !column.is_empty());
        match self.table {
            "tick_updates" => Some(instrument.to_vec()),
            _ if !self.replaces() => None,
            _ if instrument.iter().all(|column| self.sorting_key.contains(column)) => Some(instrument.to_vec()),
            _ => Some(key.collect()),
        }
    }
}

const NAME: &str = "LowCardinality(String)";
const TIME: &str = "DateTime64(9, 'UTC')";
const EXACT: &str = "Nullable(Decimal(76, 38))";

const TICK_COLUMNS: &[(&str, &str)] = &[
    ("venue", NAME),
    ("symbol", NAME),
    ("asset_0", NAME),
    ("asset_1", NAME),
    ("asset_in", NAME),
    ("tick_index", "Int64"),
    ("fee", "UInt32"),
    ("tranche_key", "String"),
    ("reserves", "UInt256"),
    ("reserves_zero", "UInt8"),
    ("version", "UInt128"),
    ("price_exponent", "Int8"),
    ("quantity_exponent", "Int8"),
    ("updated_at", TIME),
    ("ingestion_timestamp", TIME),
    ("price", EXACT),
    ("quantity", EXACT),
];

/// What names a tick.
const KEY_COLUMNS: &[(&str, &str)] = &[
    ("asset_0", NAME),
    ("asset_1", NAME),
    ("venue", NAME),
    ("asset_in", NAME),
    ("tick_index", "Int64"),
    ("fee", "UInt32"),
    ("tranche_key", "String"),
];

/// What names an instrument.
const NAME_COLUMNS: &[(&str, &str)] = &[("venue", NAME), ("symbol", NAME), ("asset_0", NAME), ("asset_1", NAME)];

const INSTRUMENT_COLUMNS: &[(&str, &str)] =
    &[("venue", NAME), ("symbol", NAME), ("asset_0", NAME), ("asset_1", NAME), ("version", "UInt128")];

const STREAM_COLUMNS: &[(&str, &str)] = &[("venue", NAME), ("stream", NAME)];

const TIME_COLUMNS: &[(&str, &str)] = &[("updated_at", TIME), ("ingestion_timestamp", TIME)];

pub(super) const EXPECTED: [Expected; 28] = [
    Expected {
        table: "raw_events",
        engine: "MergeTree",
        sorting_key: "venue, stream, height, part",
        columns: &[&[
            ("venue", NAME),
            ("stream", NAME),
            ("height", "UInt64"),
            ("previous_height", "UInt64"),
            ("part", "UInt32"),
            ("parts", "UInt32"),
            ("message_id", "String"),
            ("kind", NAME),
            ("batch_id", "String"),
            ("payload", "String"),
            ("updated_at", TIME),
            ("published_at", TIME),
            ("ingestion_timestamp", TIME),
        ]],
    },
    Expected {
        table: "tick_updates",
        engine: "MergeTree",
        sorting_key: "asset_0, asset_1, venue, version, asset_in, tick_index",
        columns: &[TICK_COLUMNS, &[("whole", "UInt8"), ("shown_at", TIME), ("raw_id", "String")]],
    },
    Expected {
        table: "tick_state",
        engine: "ReplacingMergeTree(version, reserves_zero)",
        sorting_key: "asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key",
        columns: &[TICK_COLUMNS],
    },
    Expected {
        table: "instrument_version",
        engine: "ReplacingMergeTree(version)",
        sorting_key: "asset_0, asset_1, venue, symbol",
        columns: &[INSTRUMENT_COLUMNS, &[("price_exponent", "Int8"), ("quantity_exponent", "Int8")], TIME_COLUMNS],
    },
    Expected {
        table: "book_snapshots",
        engine: "ReplacingMergeTree(version)",
        sorting_key: "asset_0, asset_1, venue, symbol",
        columns: &[INSTRUMENT_COLUMNS, TIME_COLUMNS],
    },
    Expected {
        table: "trades",
        engine: "ReplacingMergeTree",
        sorting_key: "asset_0, asset_1, venue, trade_id",
        columns: &[&[
            ("venue", NAME),
            ("symbol", NAME),
            ("asset_0", NAME),
            ("asset_1", NAME),
            ("trade_id", "String"),
            ("trade_order", "UInt64"),
            ("taker", NAME),
            ("tick_index", "Int64"),
            ("quantity_steps", "UInt256"),
            ("price_exponent", "Int8"),
            ("quantity_exponent", "Int8"),
            ("traded_at", TIME),
            ("ingestion_timestamp", TIME),
            ("price", EXACT),
            ("quantity", EXACT),
        ]],
    },
    Expected {
        table: "epoch_blocks",
        engine: "MergeTree",
        sorting_key: "first",
        columns: &[&[
            ("first", "UInt64"),
            ("identity", "String"),
            ("host", "String"),
            ("owner", "String"),
            ("reserved_at", TIME),
        ]],
    },
    Expected {
        table: "batch_cursors",
        engine: "ReplacingMergeTree(height)",
        sorting_key: "venue, stream",
        columns: &[STREAM_COLUMNS, &[("height", "UInt64"), ("moved_at", TIME)]],
    },
    Expected {
        table: "batch_gaps",
        engine: "ReplacingMergeTree(changed_at)",
        sorting_key: "venue, stream, after, through",
        columns: &[
            STREAM_COLUMNS,
            &[
                ("after", "UInt64"),
                ("through", "UInt64"),
                ("state", NAME),
                ("operator", "String"),
                ("note", "String"),
                ("since", TIME),
                ("changed_at", TIME),
            ],
        ],
    },
    Expected {
        table: "dead_letters",
        engine: "ReplacingMergeTree(changed_at)",
        sorting_key: "id",
        columns: &[
            STREAM_COLUMNS,
            &[
                ("id", "String"),
                ("height", "UInt64"),
                ("message_id", "String"),
                ("attributes", "Map(String, String)"),
                ("payload", "String"),
                ("reason", "String"),
                ("attempts", "UInt32"),
                ("state", NAME),
                ("published_at", TIME),
                ("ingestion_timestamp", TIME),
                ("changed_at", TIME),
            ],
        ],
    },
    Expected {
        table: "tick_floors",
        engine: "ReplacingMergeTree(version)",
        sorting_key: "asset_0, asset_1, venue, symbol",
        columns: &[INSTRUMENT_COLUMNS, &[("set_at", TIME)]],
    },
    Expected {
        table: "swept_rows",
        engine: "MergeTree",
        sorting_key: "sweep, newest, asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key, version",
        columns: &[KEY_COLUMNS, &[("sweep", "UInt64"), ("version", "UInt128"), ("newest", "UInt8")]],
    },
    Expected {
        table: "history_gaps",
        engine: "MergeTree",
        sorting_key: "asset_0, asset_1, venue, symbol, after",
        columns: &[
            NAME_COLUMNS,
            &[
                ("after", "UInt128"),
                ("through", "UInt128"),
                ("changes", "UInt64"),
                ("reason", NAME),
                ("noted_at", TIME),
            ],
        ],
    },
    Expected {
        table: "audits",
        engine: "MergeTree",
        sorting_key: "begun_at, host, audit",
        columns: &[&[
            ("audit", "UInt64"),
            ("host", NAME),
            ("begun_at", TIME),
            ("ended_at", TIME),
            ("instruments", "UInt32"),
            ("instruments_skipped", "UInt32"),
            ("compared_ticks", "UInt64"),
            ("skipped_ticks", "UInt64"),
            ("divergent_ticks", "UInt64"),
            ("corrected_ticks", "UInt64"),
        ]],
    },
    Expected {
        table: "audit_evidence",
        engine: "MergeTree",
        sorting_key: "found_at, venue, symbol, asset_in, tick_index, fee, tranche_key",
        columns: &[
            KEY_COLUMNS,
            &[
                ("audit", "UInt64"),
                ("host", NAME),
                ("found_at", TIME),
                ("symbol", NAME),
                ("live_version", "UInt128"),
                ("live_reserves", "UInt256"),
                ("state_version", "UInt128"),
                ("state_reserves", "UInt256"),
                ("history_version", "UInt128"),
                ("history_reserves", "UInt256"),
                ("kind", NAME),
                ("verdict", NAME),
                ("action", NAME),
                ("explanation", "String"),
            ],
        ],
    },
    Expected {
        table: "schema_migrations",
        engine: "ReplacingMergeTree(applied_at)",
        sorting_key: "number",
        columns: &[&[("number", "UInt32"), ("name", "String"), ("applied_by", "String"), ("applied_at", TIME)]],
    },
    Expected { table: "tick_state_fill", engine: "MaterializedView", sorting_key: "", columns: &[] },
    Expected { table: "instrument_version_fill", engine: "MaterializedView", sorting_key: "", columns: &[] },
    Expected { table: "book_snapshots_fill", engine: "MaterializedView", sorting_key: "", columns: &[] },
    Expected { table: "candles", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "live_ticks", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_depth", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_as_of", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_at_version", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "version_shown_at", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "book_shown_at", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "state_changes", engine: "View", sorting_key: "", columns: &[] },
    Expected { table: "candles_of", engine: "View", sorting_key: "", columns: &[] },
];
