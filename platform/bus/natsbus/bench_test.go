package natsbus

import (
	"fmt"
	"testing"

	"github.com/gpuhour/gpuhour/platform/bus"
)

func batchOf(n int) []bus.Publication {
	ps := make([]bus.Publication, n)
	for i := range ps {
		ps[i] = bus.Publication{Subject: fmt.Sprintf("gh.usage.%d.node%d", i%64, i), Data: make([]byte, 300)}
	}
	return ps
}

// BenchmarkPublishBatch measures synced atomic batches of 500 messages of 300 bytes.
func BenchmarkPublishBatch(b *testing.B) {
	e := startBench(b)
	ps := batchOf(500)
	messages := 0
	for b.Loop() {
		if _, err := e.PublishBatch(b.Context(), ps); err != nil {
			b.Fatal(err)
		}
		messages += len(ps)
	}
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkRead measures reads of 1000 messages of 300 bytes from the beginning to the end.
func BenchmarkRead(b *testing.B) {
	e := startBench(b)
	for range 50 {
		if _, err := e.PublishBatch(b.Context(), batchOf(1000)); err != nil {
			b.Fatal(err)
		}
	}
	read, after := 0, uint64(0)
	for b.Loop() {
		messages, err := e.Read(b.Context(), bus.Usage, after, 1000)
		if err != nil {
			b.Fatal(err)
		}
		read += len(messages)
		after = (after + uint64(len(messages))) % 50_000
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "messages/s")
}

func startBench(b *testing.B) *Embedded {
	e, err := Start(b.Context(), Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}
