-- The tables of the rater and of the projected invoices. All of them can be rebuilt from the log. Rows are only
-- appended; a row counts when its block is at or below the progress of the service that put it.
--
-- Times are integers since the Unix epoch with their unit in the name, as in the log; a column that ends in _at or
-- _start is the same instant for people, computed when read. Every amount is an integer.
--
-- No table is partitioned: one insert is then one part, which is stored whole or not at all.
-- fsync: ClickHouse acknowledges before the disk has it unless told otherwise. The two *_after_merge settings cover
-- deletes too: without them a power loss could bring rows back that a boot had deleted and put again.
-- non_replicated_deduplication_window: remembers tokens of the last puts, for an insert that arrives after its sender
-- had given up waiting.
-- Sizes, measured with 100,000 generated rows of 1,000 devices: 3 bytes for a quantity row; for a minute row 2 bytes and its
-- samples. Delta takes minute rows from 175 to 172 bytes and ZSTD(3) the samples from 171 to 164; DoubleDelta and
-- T64 gain under half a byte.

-- +goose Up
CREATE TABLE IF NOT EXISTS minute
(
    device LowCardinality(String) COMMENT 'empty in the row of the node itself',
    hour Int64 COMMENT 'epoch hour that holds the minute: finds rows by a list of hours' CODEC(Delta, ZSTD(1)),
    node LowCardinality(String),
    minute Int64 COMMENT 'epoch minute' CODEC(Delta, ZSTD(1)),
    run UInt64 COMMENT 'the collector run that measured',
    block UInt64 COMMENT 'position of the tick at which it was put' CODEC(Delta, ZSTD(1)),
    seq_first UInt64 CODEC(Delta, ZSTD(1)),
    seq_last UInt64 CODEC(Delta, ZSTD(1)),
    spoken UInt64 COMMENT 'bit i: the node spoke for second i' CODEC(ZSTD(1)),
    seen UInt64 COMMENT 'bit i: the device was seen in second i' CODEC(ZSTD(1)),
    data String COMMENT 'samples of the seen seconds, in their frozen form' CODEC(ZSTD(3)),
    minute_start DateTime64(0, 'UTC') ALIAS toDateTime64(minute * 60, 0, 'UTC'),
    seen_seconds UInt8 ALIAS bitCount(seen),
    INDEX block_range block TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (device, hour, node, minute, run, block)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS quantity
(
    device LowCardinality(String) COMMENT 'empty for a lease without devices',
    hour Int64 COMMENT 'epoch hour' CODEC(Delta, ZSTD(1)),
    lease LowCardinality(String),
    customer LowCardinality(String),
    contract LowCardinality(String) COMMENT 'empty when none was found',
    version UInt64 COMMENT 'position of the contract document that prices it' CODEC(ZSTD(1)),
    period_start_second Int64 CODEC(ZSTD(1)),
    local_day Int32 COMMENT 'yyyymmdd in the zone of the contract' CODEC(ZSTD(1)),
    sku LowCardinality(String),
    pricing_mode LowCardinality(String),
    region LowCardinality(String),
    service_tier LowCardinality(String),
    dedicated Bool,
    kind LowCardinality(String) COMMENT 'leased or top_up',
    standing LowCardinality(String) COMMENT 'priced, waived or refused',
    reason LowCardinality(String),
    block UInt64 CODEC(Delta, ZSTD(1)),
    milli_gpu_seconds Int64 COMMENT 'a difference: sum distinct rows, as of a block' CODEC(ZSTD(1)),
    measured_milli_gpu_seconds Int64 CODEC(ZSTD(1)),
    inferred_milli_gpu_seconds Int64 CODEC(ZSTD(1)),
    missing_milli_gpu_seconds Int64 CODEC(ZSTD(1)),
    hour_start DateTime64(0, 'UTC') ALIAS toDateTime64(hour * 3600, 0, 'UTC'),
    period_start DateTime64(0, 'UTC') ALIAS toDateTime64(period_start_second, 0, 'UTC'),
    INDEX block_range block TYPE minmax GRANULARITY 1,
    INDEX contracts contract TYPE set(64) GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (device, hour, lease, block)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS device_hour
(
    device LowCardinality(String),
    hour Int64 COMMENT 'epoch hour' CODEC(Delta, ZSTD(1)),
    node LowCardinality(String),
    block UInt64 CODEC(Delta, ZSTD(1)),
    seen_leased_seconds Int64 COMMENT 'a difference, as are the next three' CODEC(ZSTD(1)),
    seen_unleased_seconds Int64 CODEC(ZSTD(1)),
    ghost_seconds Int64 COMMENT 'leased and not seen while the node spoke' CODEC(ZSTD(1)),
    leak_seconds Int64 COMMENT 'busy without a lease' CODEC(ZSTD(1)),
    hour_start DateTime64(0, 'UTC') ALIAS toDateTime64(hour * 3600, 0, 'UTC'),
    INDEX block_range block TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (device, hour, node, block)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS refusal
(
    id String COMMENT 'key of the fact, or stream/sequence of the message',
    reason LowCardinality(String),
    lease LowCardinality(String),
    customer LowCardinality(String),
    detail String,
    at_second Int64 COMMENT 'the instant of the event, 0 when unknown',
    block UInt64,
    delta Int64 COMMENT '1 when raised, -1 when its cause goes: open while the sum is above 0',
    INDEX block_range block TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (id, reason, lease, block)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1, non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS progress
(
    service LowCardinality(String),
    block UInt64 COMMENT 'rows of the service are whole up to here: the highest counts',
    facts_seq UInt64,
    at_second Int64,
    usage_floor UInt64,
    tick_digest FixedString(32),
    ledger_digest FixedString(32),
    run UInt64 COMMENT 'see the table run; the greatest number where a service puts no rows',
    at DateTime64(0, 'UTC') ALIAS toDateTime64(at_second, 0, 'UTC')
)
ENGINE = ReplacingMergeTree(block) -- merges leave the highest of a service's run: a row is put at every tick
ORDER BY (service, run)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1;

-- A run begins where a boot had to delete rows above a block. Its number is part of the deduplication token: rows that were
-- deleted and are put again must not be taken for a repeat. Progress of an earlier run above that block does not count: what
-- it stood on was deleted, whoever wrote it.
CREATE TABLE IF NOT EXISTS run
(
    run UInt64 COMMENT 'grows; the low half is drawn, so that two boots do not share one',
    block UInt64 COMMENT 'rows above it were deleted'
)
ENGINE = MergeTree
ORDER BY run
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1;

-- The lines are arrays in their invoice's row, so that an invoice is there whole or not at all.
CREATE TABLE IF NOT EXISTS invoice
(
    series LowCardinality(String),
    number UInt64,
    customer LowCardinality(String),
    contract LowCardinality(String),
    closing String,
    currency LowCardinality(String),
    total_minor String COMMENT 'integer minor units of the currency, of any size',
    period_from_second Int64,
    period_to_second Int64,
    document String COMMENT 'the frozen bytes' CODEC(ZSTD(3)),
    line Array(Int64),
    line_description Array(String),
    line_sku Array(String),
    line_pricing_mode Array(String),
    line_region Array(String),
    line_milli_gpu_seconds Array(Int64),
    line_amount_minor Array(String),
    period_from DateTime64(0, 'UTC') ALIAS toDateTime64(period_from_second, 0, 'UTC'),
    period_to DateTime64(0, 'UTC') ALIAS toDateTime64(period_to_second, 0, 'UTC')
)
ENGINE = MergeTree
ORDER BY (series, number)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_compressed_bytes_to_fsync_after_merge = 1;

CREATE VIEW IF NOT EXISTS invoice_line AS
SELECT
    i.series AS series,
    i.number AS number,
    i.customer AS customer,
    i.contract AS contract,
    i.currency AS currency,
    l AS line,
    description,
    sku,
    pricing_mode,
    region,
    milli_gpu_seconds,
    amount_minor
FROM invoice AS i
ARRAY JOIN
    line AS l,
    line_description AS description,
    line_sku AS sku,
    line_pricing_mode AS pricing_mode,
    line_region AS region,
    line_milli_gpu_seconds AS milli_gpu_seconds,
    line_amount_minor AS amount_minor;
