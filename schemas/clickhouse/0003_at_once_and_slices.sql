-- +goose Up
-- What prices a second by how many GPUs are held in it, and by the share of a slice.
ALTER TABLE quantity
    ADD COLUMN IF NOT EXISTS at_once_milli Int64 COMMENT 'milli-GPUs held at once, the fewest that are priced alike; 0 where no tiers count them' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS slice_milli Int64 COMMENT 'share of a slice with a price per slice, else 0' CODEC(ZSTD(1));
