package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/ingestlog"
)

func TestIngestCommandRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"ingest needs --nats-url": {"ingest"},
		"--lanes 99":              {"ingest", "--nats-url", "nats://127.0.0.1:1", "--lanes", "99"},
		"--queue-mib 0":           {"ingest", "--nats-url", "nats://127.0.0.1:1", "--queue-mib", "0"},
	} {
		if got := call(t, "", args...); got.code != exitError || !strings.Contains(got.err, want) {
			t.Errorf("%v: %v; want %q", args, got, want)
		}
	}
}

// TestIngestCommand: it waits for its server, takes a node's batch, and ends with its context and no error.
func TestIngestCommand(t *testing.T) {
	e, err := natsbus.Start(t.Context(), natsbus.Options{Dir: t.TempDir(), Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan result, 1)
	go func() {
		ended <- runCommand(ctx, root(), "", []string{"ingest", "--nats-url", e.URL(), "--log-level", "error"})
	}()
	block := usage.Block{Device: "g0", Seen: 1}
	b := usage.Batch{Node: "n", Run: 1, Seq: 1, Minute: 29_500_000, Spoken: 1, Blocks: [][]byte{block.Append(nil)}}
	last := uint64(0)
	for err = nats.ErrNoResponders; errors.Is(err, nats.ErrNoResponders); { // until it serves
		last, err = ingestlog.New(e.Bus).Publish(t.Context(), []collector.Outgoing{{Batch: b, ExpectLast: new(uint64)}})
	}
	if err != nil || last != 1 {
		t.Errorf("published up to %d, %v", last, err)
	}
	stop()
	if got := <-ended; got.code != 0 || got.err != "" {
		t.Errorf("it ended with %v", got)
	}
}
