package embedded_test

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

// Find the library, load it once a process, open a directory, and use ClickHouse's own client.
func Example() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	library, err := embedded.Library(ctx, func(stage string, done, total int64) {
		fmt.Printf("ClickHouse: %s %d of %d MB\n", stage, done/1e6, total/1e6)
	})
	check(err)
	check(embedded.Load(library))
	engine, err := embedded.Open("data/clickhouse", embedded.Options{Handles: 4, MemoryLimitBytes: 1 << 30})
	check(err)
	defer engine.Close()
	conn, err := clickhouse.Open(engine.ClientOptions())
	check(err)
	defer conn.Close()
	var version string
	check(conn.QueryRow(ctx, "SELECT version()").Scan(&version))
	fmt.Println(version)
}
