-- +goose Up
-- The lease's state where it scales the price.
ALTER TABLE quantity
    ADD COLUMN IF NOT EXISTS state LowCardinality(String) COMMENT 'the lease state that scales the price, empty for a running lease at the whole price';
