// Package clickhouse owns the store in ClickHouse: the statements, the order of effects of a put, and bringing the
// tables of schemas/clickhouse to this version. The engine in this process, its unix socket, and a server by HTTP or
// by the native protocol are four ways to open one Store.
//
// It does not own the engine (embedded), retries, or meaning. An error leaves the caller to start again from
// Progress; nothing here tries twice. It writes to one server: replicated tables need another DDL.
//
// Why a put counts once. All rows of a table in a put are one insert, one block and one part: the engine stores them
// whole or not at all, and they are on disk when it answers. Progress is put last, a boot deletes the rows above it,
// and that delete is on disk before the next put. An insert whose sender gave up can still land late, before or after the
// same rows are put again. Cut into the same blocks it is dropped by its deduplication token; cut otherwise it is stored
// twice, and reads count rows that are alike once (once). That is right because a block's rows follow from the log alone.
//
// Why two raters at once do no harm. A boot that deletes begins a run (beginRun). Every put checks that its run is still the
// last after all that it read; progress of an earlier run above the new one's block does not count. So what lands late
// was computed from whole rows, and progress never covers rows that a boot deleted. Readers who decide about money check
// progress after they read.
//
// A power loss can take a part's rename, which the engine does not sync by itself. File systems with an ordered
// journal keep renames in the order they were made, so progress never outlives its rows.
//
// Why no sum wraps: every sum adds in 128 bits, and one that does not fit 64 bits is an error.
package clickhouse
