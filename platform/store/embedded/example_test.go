package embedded_test

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/gpuhour/gpuhour/platform/store/embedded"
)

// Find the library, load it once a process, open a directory, and use ClickHouse's own client.
func Example() {
	query := func(ctx context.Context, dir string) (answer string, err error) {
		library, err := embedded.Library(ctx, func(stage string, done, total int64) {
			fmt.Printf("ClickHouse: %s %d of %d MB\n", stage, done/1e6, total/1e6)
		})
		if err != nil {
			return "", err
		}
		if err := embedded.Load(library); err != nil {
			return "", err
		}
		engine, err := embedded.Open(dir, embedded.Options{Handles: 4, MemoryLimitBytes: 1 << 30})
		if err != nil {
			return "", err
		}
		defer engine.Close()
		conn, err := clickhouse.Open(engine.ClientOptions())
		if err != nil {
			return "", err
		}
		defer conn.Close()
		err = conn.QueryRow(ctx, "SELECT version()").Scan(&answer)
		return answer, err
	}
	_ = query // runs where a directory is at hand
}
