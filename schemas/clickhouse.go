package schemas

import (
	"embed"
	"io/fs"
)

//go:embed clickhouse/*.sql
var clickhouse embed.FS

// ClickHouse is the tables' migrations in order, in the form of goose.
func ClickHouse() fs.FS {
	dir, err := fs.Sub(clickhouse, "clickhouse")
	if err != nil {
		panic(err) // unreachable: the name is valid
	}
	return dir
}
