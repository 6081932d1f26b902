-- From schema 3 to 4: when a change was shown, floors below which nothing may live again, forced merges. The tables that
-- are new are created by schema.sql, but for the one that the view needs.

ALTER TABLE tick_updates ADD COLUMN IF NOT EXISTS shown_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)) AFTER ingestion_timestamp;

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

ALTER TABLE tick_state_fill MODIFY QUERY
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

-- Made anew by schema.sql, without prices that are powers.
DROP VIEW IF EXISTS candles;

ALTER TABLE tick_state MODIFY SETTING min_age_to_force_merge_seconds = 600;

ALTER TABLE instrument_version MODIFY SETTING min_age_to_force_merge_seconds = 600;

ALTER TABLE book_snapshots MODIFY SETTING min_age_to_force_merge_seconds = 600;

ALTER TABLE trades MODIFY SETTING min_age_to_force_merge_seconds = 600;

ALTER TABLE batch_cursors MODIFY SETTING min_age_to_force_merge_seconds = 600;

ALTER TABLE batch_gaps MODIFY SETTING min_age_to_force_merge_seconds = 600;

ALTER TABLE dead_letters MODIFY SETTING min_age_to_force_merge_seconds = 600;
