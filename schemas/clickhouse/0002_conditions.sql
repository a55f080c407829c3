-- +goose Up
-- What decides a price besides what the lease states.
ALTER TABLE quantity
    ADD COLUMN IF NOT EXISTS window LowCardinality(String) COMMENT 'the schedule window that holds',
    ADD COLUMN IF NOT EXISTS idle Bool COMMENT 'idle relief is due',
    ADD COLUMN IF NOT EXISTS commitment LowCardinality(String) COMMENT 'the reservation, forward or package that covers it',
    ADD COLUMN IF NOT EXISTS spot_price LowCardinality(String) COMMENT 'the price of the spot tick, as stated',
    ADD COLUMN IF NOT EXISTS book UInt64 COMMENT 'position of the price book that prices it, 0 for the contract itself' CODEC(ZSTD(1));
