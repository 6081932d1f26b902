-- Sprag's store, schema 4. Applied at every start; each statement does nothing where its object exists already.
-- Meanings and limits: docs/STORE.md. What the program expects of these tables is checked before any data is written
-- (connectors/src/clickhouse/schema/), so a change here is a change there, and a migration beside it.
--
-- Times are nanoseconds. `updated_at` is the venue's clock, and 1970-01-01 means that the venue gave none.
-- `ingestion_timestamp` is our clock at reception; a replay keeps that of the capture. `shown_at` is the close of the cut
-- with which the change was shown; 1970-01-01 in rows that were not shown as they were written.
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
    shown_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    raw_id String,
    price Nullable(Decimal(76, 38)) ALIAS if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)),
    quantity Nullable(Decimal(76, 38)) ALIAS toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38),
    INDEX by_ingestion ingestion_timestamp TYPE minmax GRANULARITY 1,
    INDEX by_whole whole TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (asset_0, asset_1, venue, version, asset_in, tick_index)
SETTINGS non_replicated_deduplication_window = 10000;

-- The current state of every tick. Read it with FINAL and `reserves_zero = 0`. Its rows, those of dead ticks too, are
-- never cleaned up by a merge or a TTL: that would let an older row live again (docs/adr/0017-the-sweep.md).
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
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

-- Below which version the rows of dead ticks of an instrument are removed from `tick_state`: nothing that lives may come in
-- below it any more. Never above the instrument's own version. Read it with FINAL.
CREATE TABLE IF NOT EXISTS tick_floors
(
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    version UInt128,
    set_at DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (asset_0, asset_1, venue, symbol)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

-- A tombstone always comes in; a row that lives does not below the floor, so that none can live again.
CREATE MATERIALIZED VIEW IF NOT EXISTS tick_state_fill TO tick_state AS
SELECT
    venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, version,
    price_exponent, quantity_exponent, updated_at, ingestion_timestamp
FROM tick_updates
LEFT JOIN
(
    SELECT venue, symbol, asset_0, asset_1, max(version) AS floor
    FROM tick_floors
    GROUP BY venue, symbol, asset_0, asset_1
) AS floors USING (venue, symbol, asset_0, asset_1)
WHERE reserves_zero = 1 OR version >= ifNull(floor, toUInt128(0));

-- Rows of `tick_state` that a sweep is about to remove; `newest` tells a dead tick's tombstone from what it replaced. Empty
-- between sweeps.
CREATE TABLE IF NOT EXISTS swept_rows
(
    sweep UInt64,
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    venue LowCardinality(String),
    asset_in LowCardinality(String),
    tick_index Int64,
    fee UInt32,
    tranche_key String,
    version UInt128,
    newest UInt8
)
ENGINE = MergeTree
ORDER BY (sweep, newest, asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key, version);

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
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

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
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

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
SETTINGS non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

-- One-minute candles by the venue's clock, in the venue's trade order; of prices that are numbers of steps.
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
WHERE price_exponent >= -38
GROUP BY asset_0, asset_1, venue, minute;

-- Every tick that lives, right by construction: the newest row of each key, and only if it is none of a dead tick. A tick
-- that changed last before its instrument's last whole book is dead, whatever its row says.
CREATE VIEW IF NOT EXISTS live_ticks AS
SELECT
    venue, symbol, asset_0, asset_1, if(asset_in = asset_0, 'ask', 'bid') AS side, tick_index, fee, tranche_key,
    reserves, price_exponent, quantity_exponent, price, quantity,
    version, toUInt64(bitShiftRight(version, 64)) AS epoch, toUInt64(bitAnd(version, 18446744073709551615)) AS seq,
    updated_at, ingestion_timestamp
FROM
(
    SELECT
        venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, price_exponent,
        quantity_exponent, price, quantity, version, updated_at, ingestion_timestamp
    FROM tick_state FINAL
    WHERE reserves_zero = 0
) AS ticks
LEFT JOIN
(
    SELECT venue, symbol, asset_0, asset_1, max(version) AS book_version
    FROM book_snapshots
    GROUP BY venue, symbol, asset_0, asset_1
) AS books USING (venue, symbol, asset_0, asset_1)
WHERE version >= ifNull(book_version, 0);

-- The levels of every side, the best one first: the ticks at one price are one level. Sums run from the best level. A sum of
-- notional is NULL where a price is no number of steps, and so is any that is not exact in 38 decimals.
CREATE VIEW IF NOT EXISTS book_depth AS
SELECT
    venue, symbol, asset_0, asset_1, side, level, tick_index, price, ticks,
    toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38) AS quantity,
    toDecimal256OrNull(concat(toString(reserves_to_here), 'e', toString(quantity_exponent)), 38) AS quantity_to_here,
    if(price_exponent < -38 OR price_exponent + quantity_exponent < -38, NULL,
        toDecimal256OrNull(concat(toString(value), 'e', toString(price_exponent + quantity_exponent)), 38)) AS notional,
    if(price_exponent < -38 OR price_exponent + quantity_exponent < -38, NULL,
        toDecimal256OrNull(concat(toString(value_to_here), 'e', toString(price_exponent + quantity_exponent)), 38))
        AS notional_to_here,
    reserves, reserves_to_here, price_exponent, quantity_exponent, version
FROM
(
    SELECT
        *,
        row_number() OVER (PARTITION BY venue, symbol, asset_0, asset_1, side ORDER BY distance
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS level,
        sum(reserves) OVER (PARTITION BY venue, symbol, asset_0, asset_1, side ORDER BY distance
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS reserves_to_here,
        sum(value) OVER (PARTITION BY venue, symbol, asset_0, asset_1, side ORDER BY distance
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS value_to_here
    FROM
    (
        SELECT
            venue, symbol, asset_0, asset_1, side, tick_index, price_exponent, quantity_exponent,
            if(side = 'ask', toInt128(tick_index), -toInt128(tick_index)) AS distance,
            any(price) AS price,
            count() AS ticks,
            sum(live_ticks.reserves) AS reserves,
            toInt256(tick_index) * toInt256(sum(live_ticks.reserves)) AS value,
            max(live_ticks.version) AS version
        FROM live_ticks
        GROUP BY venue, symbol, asset_0, asset_1, side, tick_index, price_exponent, quantity_exponent
    ) AS levels
) AS sums;

-- The books of a pair as they were known at a time, of what had arrived by then:
-- `book_as_of(asset_0 = 'BTC', asset_1 = 'USDT', at = '2026-01-31 12:00:00')`.
CREATE VIEW IF NOT EXISTS book_as_of AS
SELECT
    venue, symbol, asset_0, asset_1, if(asset_in = asset_0, 'ask', 'bid') AS side, tick_index, fee, tranche_key,
    reserves, price_exponent, quantity_exponent,
    if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)) AS price,
    toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38) AS quantity,
    version, toUInt64(bitShiftRight(version, 64)) AS epoch, toUInt64(bitAnd(version, 18446744073709551615)) AS seq,
    updated_at, ingestion_timestamp
FROM
(
    SELECT
        venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key,
        last.1 AS version, last.3 AS ingestion_timestamp, last.4 AS reserves, last.5 AS price_exponent,
        last.6 AS quantity_exponent, last.7 AS updated_at,
        max(whole_version) OVER (PARTITION BY venue, symbol) AS book_version
    FROM
    (
        SELECT
            venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key,
            max((version, whole, ingestion_timestamp, reserves, price_exponent, quantity_exponent, updated_at)) AS last,
            maxIf(version, whole = 1) AS whole_version
        FROM tick_updates
        WHERE asset_0 = {asset_0:String} AND asset_1 = {asset_1:String}
            AND ingestion_timestamp <= {at:DateTime64(9, 'UTC')}
        GROUP BY venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key
    ) AS ticks
) AS books
WHERE reserves > 0 AND version >= ifNull(book_version, 0);

-- The book of an instrument at a version: `book_at_version(venue = 'binance_spot', symbol = 'BTCUSDT', version = '…')`, a
-- number or its text.
CREATE VIEW IF NOT EXISTS book_at_version AS
SELECT
    venue, symbol, asset_0, asset_1, if(asset_in = asset_0, 'ask', 'bid') AS side, tick_index, fee, tranche_key,
    reserves, price_exponent, quantity_exponent,
    if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)) AS price,
    toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38) AS quantity,
    version, toUInt64(bitShiftRight(version, 64)) AS epoch, toUInt64(bitAnd(version, 18446744073709551615)) AS seq,
    updated_at, ingestion_timestamp
FROM
(
    SELECT
        venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key,
        last.1 AS version, last.3 AS ingestion_timestamp, last.4 AS reserves, last.5 AS price_exponent,
        last.6 AS quantity_exponent, last.7 AS updated_at,
        max(whole_version) OVER (PARTITION BY venue, symbol) AS book_version
    FROM
    (
        SELECT
            venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key,
            max((version, whole, ingestion_timestamp, reserves, price_exponent, quantity_exponent, updated_at)) AS last,
            maxIf(version, whole = 1) AS whole_version
        FROM tick_updates
        WHERE (asset_0, asset_1) IN
            (
                SELECT asset_0, asset_1 FROM instrument_version
                WHERE venue = {venue:String} AND symbol = {symbol:String}
            )
            AND venue = {venue:String} AND symbol = {symbol:String} AND version <= {version:UInt128}
        GROUP BY venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key
    ) AS ticks
) AS books
WHERE reserves > 0 AND version >= ifNull(book_version, 0);

-- The version of every instrument of a pair in the last cut that had closed at a time, of the cuts in which something
-- changed: `version_shown_at(asset_0 = …, asset_1 = …, at = …)`.
CREATE VIEW IF NOT EXISTS version_shown_at AS
SELECT
    venue, symbol, asset_0, asset_1, last.1 AS version, toUInt64(bitShiftRight(version, 64)) AS epoch,
    toUInt64(bitAnd(version, 18446744073709551615)) AS seq, last.2 AS shown_at
FROM
(
    SELECT venue, symbol, asset_0, asset_1, max((version, shown_at)) AS last
    FROM tick_updates
    WHERE asset_0 = {asset_0:String} AND asset_1 = {asset_1:String}
        AND shown_at > toDateTime64(0, 9, 'UTC') AND shown_at <= {at:DateTime64(9, 'UTC')}
    GROUP BY venue, symbol, asset_0, asset_1
) AS shown;

-- The books of a pair at those versions: what a terminal on this server saw at a time, to within its frame
-- (docs/ANALYSTS.md).
CREATE VIEW IF NOT EXISTS book_shown_at AS
SELECT
    venue, symbol, asset_0, asset_1, if(asset_in = asset_0, 'ask', 'bid') AS side, tick_index, fee, tranche_key,
    reserves, price_exponent, quantity_exponent,
    if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)) AS price,
    toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38) AS quantity,
    version, toUInt64(bitShiftRight(version, 64)) AS epoch, toUInt64(bitAnd(version, 18446744073709551615)) AS seq,
    updated_at, ingestion_timestamp
FROM
(
    SELECT
        venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key,
        last.1 AS version, last.3 AS ingestion_timestamp, last.4 AS reserves, last.5 AS price_exponent,
        last.6 AS quantity_exponent, last.7 AS updated_at,
        max(whole_version) OVER (PARTITION BY venue, symbol) AS book_version
    FROM
    (
        SELECT
            venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key,
            max((version, whole, ingestion_timestamp, reserves, price_exponent, quantity_exponent, updated_at)) AS last,
            maxIf(version, whole = 1) AS whole_version
        FROM tick_updates
        INNER JOIN
        (
            SELECT venue, symbol, max(version) AS shown_version
            FROM tick_updates
            WHERE asset_0 = {asset_0:String} AND asset_1 = {asset_1:String}
                AND shown_at > toDateTime64(0, 9, 'UTC') AND shown_at <= {at:DateTime64(9, 'UTC')}
            GROUP BY venue, symbol
        ) AS shown USING (venue, symbol)
        WHERE asset_0 = {asset_0:String} AND asset_1 = {asset_1:String} AND version <= shown_version
        GROUP BY venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key
    ) AS ticks
) AS books
WHERE reserves > 0 AND version >= ifNull(book_version, 0);

-- Ticks with a row that arrived at a time or later, each with its present state, dead ones included (`reserves_zero` = 1):
-- `state_changes(since = …)`. A late row of an older version names its tick, and shows the newer state all the same. Dead
-- ticks are told for six hours.
CREATE VIEW IF NOT EXISTS state_changes AS
SELECT
    venue, symbol, asset_0, asset_1, if(asset_in = asset_0, 'ask', 'bid') AS side, tick_index, fee, tranche_key,
    last.2 AS reserves, last.3 AS reserves_zero, last.4 AS price_exponent, last.5 AS quantity_exponent,
    if(price_exponent < -38, NULL, toDecimal256OrNull(concat(toString(tick_index), 'e', toString(price_exponent)), 38)) AS price,
    toDecimal256OrNull(concat(toString(reserves), 'e', toString(quantity_exponent)), 38) AS quantity,
    last.1 AS version, toUInt64(bitShiftRight(version, 64)) AS epoch,
    toUInt64(bitAnd(version, 18446744073709551615)) AS seq, last.6 AS updated_at, last.7 AS ingestion_timestamp
FROM
(
    SELECT
        venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key,
        argMax((tick_state.version, reserves, reserves_zero, price_exponent, quantity_exponent, updated_at, ingestion_timestamp),
            tick_state.version) AS last
    FROM tick_state
    WHERE (asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key) IN
    (
        SELECT asset_0, asset_1, venue, asset_in, tick_index, fee, tranche_key
        FROM tick_state
        WHERE ingestion_timestamp >= {since:DateTime64(9, 'UTC')}
    )
    GROUP BY venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key
) AS changed;

-- Candles of any length of one pair, like `candles`: `candles_of(asset_0 = …, asset_1 = …, seconds = 300)`.
CREATE VIEW IF NOT EXISTS candles_of AS
SELECT
    asset_0, asset_1, venue,
    toStartOfInterval(toDateTime(traded_at, 'UTC'), toIntervalSecond({seconds:UInt32})) AS begins,
    argMin(price, (trade_order, trade_id)) AS open,
    max(price) AS high,
    min(price) AS low,
    argMax(price, (trade_order, trade_id)) AS close,
    sum(quantity) AS volume,
    count() AS trade_count
FROM trades FINAL
WHERE asset_0 = {asset_0:String} AND asset_1 = {asset_1:String} AND price_exponent >= -38
GROUP BY asset_0, asset_1, venue, begins;

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
SETTINGS non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

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
SETTINGS non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

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
SETTINGS non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;

-- Versions of an instrument between which the history lacks changes, because the store was behind by more than its bound:
-- of every tick the last one is there, so that the state is right, and those before it are not.
CREATE TABLE IF NOT EXISTS history_gaps
(
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    after UInt128,
    through UInt128,
    changes UInt64,
    reason LowCardinality(String),
    noted_at DateTime64(9, 'UTC')
)
ENGINE = MergeTree
ORDER BY (asset_0, asset_1, venue, symbol, after)
SETTINGS non_replicated_deduplication_window = 10000;

-- What the audits compared: one row of each.
CREATE TABLE IF NOT EXISTS audits
(
    audit UInt64,
    host LowCardinality(String),
    begun_at DateTime64(9, 'UTC'),
    ended_at DateTime64(9, 'UTC'),
    instruments UInt32,
    instruments_skipped UInt32,
    compared_ticks UInt64,
    skipped_ticks UInt64,
    divergent_ticks UInt64,
    corrected_ticks UInt64
)
ENGINE = MergeTree
ORDER BY (begun_at, host, audit)
SETTINGS non_replicated_deduplication_window = 10000;

-- What the audits found: ticks of which live state and `tick_state` differ, at the live version, with what `tick_updates`
-- says. A version of 0 says that there is no such row. `kind` is `changed`, `missing`, `phantom` or `ahead`, `verdict` is
-- `store_wrong` or `live_in_doubt`, `action` is `rewritten`, `removed`, `resynced` or `noted`.
CREATE TABLE IF NOT EXISTS audit_evidence
(
    audit UInt64,
    host LowCardinality(String),
    found_at DateTime64(9, 'UTC'),
    venue LowCardinality(String),
    symbol LowCardinality(String),
    asset_0 LowCardinality(String),
    asset_1 LowCardinality(String),
    asset_in LowCardinality(String),
    tick_index Int64,
    fee UInt32,
    tranche_key String,
    live_version UInt128,
    live_reserves UInt256,
    state_version UInt128,
    state_reserves UInt256,
    history_version UInt128,
    history_reserves UInt256,
    kind LowCardinality(String),
    verdict LowCardinality(String),
    action LowCardinality(String),
    explanation String
)
ENGINE = MergeTree
ORDER BY (found_at, venue, symbol, asset_in, tick_index, fee, tranche_key)
SETTINGS non_replicated_deduplication_window = 10000;

-- The migrations that this database has seen. Read it with FINAL.
CREATE TABLE IF NOT EXISTS schema_migrations
(
    number UInt32,
    name String,
    applied_by String,
    applied_at DateTime64(9, 'UTC')
)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY number
SETTINGS non_replicated_deduplication_window = 10000, min_age_to_force_merge_seconds = 600;
