package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus/natsbus"
	"github.com/gpuhour/gpuhour/platform/obs"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/ingestlog"
)

func TestIngestCommandRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"ingest needs --nats-url": {"ingest"},
		"--lanes 99":              {"ingest", "--nats-url", "nats://127.0.0.1:1", "--lanes", "99"},
		"--queue-mib 0":           {"ingest", "--nats-url", "nats://127.0.0.1:1", "--queue-mib", "0"},
		"1 to 65536 MiB":          {"ingest", "--nats-url", "nats://127.0.0.1:1", "--queue-mib", "99999999999999"},
		"--linger 1h0m0s":         {"ingest", "--nats-url", "nats://127.0.0.1:1", "--linger", "1h"},
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

// TestIngestIsReadyWhileItIsConnected: /readyz is what an operator's alarm asks.
func TestIngestIsReadyWhileItIsConnected(t *testing.T) {
	metrics, log := obs.NewMetrics("test"), slog.New(slog.DiscardHandler)
	var got []int
	for _, broken := range []error{nil, io.EOF, nil} {
		linked(metrics, log, broken)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		got = append(got, w.Code)
	}
	if want := []int{200, 503, 200}; !slices.Equal(got, want) {
		t.Errorf("/readyz answers %v, want %v", got, want)
	}
}

// TestIngestCommandAtAServerWithKeys: it connects as whom the settings name, says when the server goes, and still ends at once.
func TestIngestCommandAtAServerWithKeys(t *testing.T) {
	moved(t, nil)
	made := call(t, "", "node", "nkey", "--out", "services.nk")
	fields := strings.Fields(made.out)
	conf := fmt.Sprintf(`listen: "127.0.0.1:-1", jetstream: { store_dir: %q }, authorization: { users: [{ nkey: %s }] }`, t.TempDir(), fields[len(fields)-1])
	if err := os.WriteFile("nats.conf", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs, options.NoLog = true, true
	log, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	log.Start()
	defer log.Shutdown()
	told, said := io.Pipe()
	lines := bufio.NewScanner(told)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("it never says %q", want)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c, ended := root(), make(chan error, 1)
	c.SetArgs([]string{"ingest", "--nats-url", log.ClientURL(), "--nats-nkey", "services.nk"})
	c.SetErr(said)
	go func() { ended <- c.ExecuteContext(ctx) }()
	until("taking usage from nodes")
	log.Shutdown()
	until("the connection to NATS broke")
	go func() { _, _ = io.Copy(io.Discard, told) }() // attempts to connect are told there too
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
