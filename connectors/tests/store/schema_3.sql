-- Sprag's store. Applied at every start; each statement does nothing where its object exists already.
-- Meanings and limits: docs/STORE.md. What the program expects of these tables is checked before any data is written
-- (connectors/src/clickhouse/schema.rs), so a change here is a change there.
--
-- Times are nanoseconds. `updated_at` is the venue's clock, and 1970-01-01 means that the venue gave none.
-- `ingestion_timestamp` is our clock at reception; a replay keeps that of the capture.
-- `version` is (epoch << 64) | seq; of a batch stream seq is (height << 30) | ordinal. Numbers are whole steps: the value is
-- steps * 10^exponent. A price exponent of -128 says that the price is 1.0001^tick_index.

-- What arrived, as it arrived: the log of batch streams, from which all else can be derived again. `kind` is `message` of
-- a venue's message, `block` or `snapshot` of a batch, whose `batch_id` is the SHA-256 of its payload, hexadecimal.
CREATE TABLE IF NOT EXISTS raw_events
(
    venue LowCardinality(String),
    stream LowCardinality(String),
    height UInt64,
    previous_height UInt64,
    part UInt32,
    parts UInt32,
    message_id String,
    kind LowCardinality(String),
    batch_id String,
    payload String CODEC(ZSTD(1)),
    updated_at DateTime64(9, 'UTC'),
    published_at DateTime64(9, 'UTC'),
    ingestion_timestamp DateTime64(9, 'UTC'),
    INDEX by_ingestion ingestion_timestamp TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (venue, stream, height, part)
SETTINGS non_replicated_deduplication_window = 10000;

-- Every admitted change of a tick, in order; reserves 0 is its death. `whole` is 1 in the rows of a whole book, which
-- replaces all that came before it.
CREATE TABLE IF NOT EXISTS tick_updates
(
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    asset_in LowCardinality(String),
    tick_index Int64,
    fee UInt32,
    tranche_key String,
    reserves UInt256,
    reserves_zero UInt8,
    version UInt128,
    whole UInt8,
    price_exponent Int8,
    quantity_exponent Int8,
    updated_at DateTime64(9, 'UTC'),
    ingestion_timestamp DateTime64(9, 'UTC'),
    raw_id String,
    price Nullable(Decimal(76, 38)) ALIAS if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)),
    quantity Nullable(Decimal(76, 38)) ALIAS toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38),
    INDEX by_ingestion ingestion_timestamp TYPE minmax GRANULARITY 1,
    INDEX by_whole whole TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (asset_0, asset_1, venue, version, asset_in, tick_index)
SETTINGS non_replicated_deduplication_window = 10000;

-- The current state of every tick. Read it with FINAL and `reserves_zero = 0`.
CREATE TABLE IF NOT EXISTS tick_state
(
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    asset_in LowCardinality(String),
    tick_index Int64,
    fee UInt32,
    tranche_key String,
    reserves UInt256,
    reserves_zero UInt8,
    version UInt128,
    price_exponent Int8,
    quantity_exponent Int8,
    updated_at DateTime64(9, 'UTC'),
    ingestion_timestamp DateTime64(9, 'UTC'),
    price Nullable(Decimal(76, 38)) ALIAS if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)),
    quantity Nullable(Decimal(76, 38)) ALIAS toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38),
    INDEX by_ingestion ingestion_timestamp TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(version, reserves_zero)
ORDER BY (asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS tick_state_fill TO tick_state AS
SELECT
    venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, version,
    price_exponent, quantity_exponent, updated_at, ingestion_timestamp
FROM tick_updates;

-- The greatest version of every instrument. Read it with FINAL.
CREATE TABLE IF NOT EXISTS instrument_version
(
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    version UInt128,
    price_exponent Int8,
    quantity_exponent Int8,
    updated_at DateTime64(9, 'UTC'),
    ingestion_timestamp DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (asset_0, asset_1, venue, symbol)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;

-- One row per instrument of an insert; the tuple compares by its first part, the version.
CREATE MATERIALIZED VIEW IF NOT EXISTS instrument_version_fill TO instrument_version AS
SELECT
    venue, symbol, asset_0, asset_1,
    last.1 AS version, last.2 AS price_exponent, last.3 AS quantity_exponent, last.4 AS updated_at,
    last.5 AS ingestion_timestamp
FROM
(
    SELECT
        venue, symbol, asset_0, asset_1,
        max((version, price_exponent, quantity_exponent, updated_at, ingestion_timestamp)) AS last
    FROM tick_updates
    GROUP BY venue, symbol, asset_0, asset_1
);

-- The greatest version at which every instrument was written whole: a tick whose last change is older is dead, whatever
-- its row says. Read it with FINAL.
CREATE TABLE IF NOT EXISTS book_snapshots
(
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    version UInt128,
    updated_at DateTime64(9, 'UTC'),
    ingestion_timestamp DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (asset_0, asset_1, venue, symbol)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS book_snapshots_fill TO book_snapshots AS
SELECT
    venue, symbol, asset_0, asset_1,
    last.1 AS version, last.2 AS updated_at, last.3 AS ingestion_timestamp
FROM
(
    SELECT venue, symbol, asset_0, asset_1, max((version, updated_at, ingestion_timestamp)) AS last
    FROM tick_updates
    WHERE whole = 1
    GROUP BY venue, symbol, asset_0, asset_1
);

-- Every trade, once. Read it with FINAL.
CREATE TABLE IF NOT EXISTS trades
(
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    trade_id String,
    trade_order UInt64,
    taker LowCardinality(String),
    tick_index Int64,
    quantity_steps UInt256,
    price_exponent Int8,
    quantity_exponent Int8,
    traded_at DateTime64(9, 'UTC'),
    ingestion_timestamp DateTime64(9, 'UTC'),
    price Nullable(Decimal(76, 38)) ALIAS if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)),
    quantity Nullable(Decimal(76, 38)) ALIAS toDecimal256OrNull(concat(toString(quantity_steps), 'e', toString(quantity_exponent)), 38),
    INDEX by_ingestion ingestion_timestamp TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree
ORDER BY (asset_0, asset_1, venue, trade_id)
SETTINGS non_replicated_deduplication_window = 10000;

-- One-minute candles by the venue's clock, in the venue's trade order.
CREATE VIEW IF NOT EXISTS candles AS
SELECT
    asset_0,
    asset_1,
    venue,
    toStartOfMinute(traded_at) AS minute,
    argMin(price, (trade_order, trade_id)) AS open,
    max(price) AS high,
    min(price) AS low,
    argMax(price, (trade_order, trade_id)) AS close,
    sum(quantity) AS volume,
    count() AS trade_count
FROM trades FINAL
GROUP BY asset_0, asset_1, venue, minute;

-- Blocks of epochs that were reserved, by every host that writes here. The first insert of a block wins: later ones carry
-- the same deduplication token.
CREATE TABLE IF NOT EXISTS epoch_blocks
(
    first UInt64,
    identity String,
    host String,
    owner String,
    reserved_at DateTime64(9, 'UTC')
)
ENGINE = MergeTree
ORDER BY first
SETTINGS non_replicated_deduplication_window = 10000;

-- Up to which height everything that was made of a batch stream's log is in the other tables. Read it with FINAL.
CREATE TABLE IF NOT EXISTS batch_cursors
(
    venue LowCardinality(String),
    stream LowCardinality(String),
    height UInt64,
    moved_at DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(height)
ORDER BY (venue, stream)
SETTINGS non_replicated_deduplication_window = 10000;

-- Missing batches: those above `after` and up to `through`. `state` is `open`, `filled`, `accepted`, `healed`; the last one
-- counts. Read it with FINAL.
CREATE TABLE IF NOT EXISTS batch_gaps
(
    venue LowCardinality(String),
    stream LowCardinality(String),
    after UInt64,
    through UInt64,
    state LowCardinality(String),
    operator String,
    note String,
    since DateTime64(9, 'UTC'),
    changed_at DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(changed_at)
ORDER BY (venue, stream, after, through)
SETTINGS non_replicated_deduplication_window = 10000;

-- Batches that could not be taken, with the bytes as they came. `state` is `dead`, `replay` (an operator wants it tried
-- again), `replayed`; the last one counts. Read it with FINAL.
CREATE TABLE IF NOT EXISTS dead_letters
(
    id String,
    venue LowCardinality(String),
    stream LowCardinality(String),
    height UInt64,
    message_id String,
    attributes Map(String, String),
    payload String CODEC(ZSTD(1)),
    reason String,
    attempts UInt32,
    state LowCardinality(String),
    published_at DateTime64(9, 'UTC'),
    ingestion_timestamp DateTime64(9, 'UTC'),
    changed_at DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(changed_at)
ORDER BY id
SETTINGS non_replicated_deduplication_window = 10000;
