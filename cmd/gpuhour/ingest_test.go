package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

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

// TestIngestCommandSaysWhoItIs: a server that asks for a user is told the key of nats.nkey. Without it an ingest would not get into a server
// of deploy/nats/nodes.conf.
func TestIngestCommandSaysWhoItIs(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, seedErr := user.Seed()
	public, publicErr := user.PublicKey()
	file := filepath.Join(t.TempDir(), "nats.nk")
	server, listenErr := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(seedErr, publicErr, listenErr, os.WriteFile(file, seed, 0o600)); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan result, 1)
	go func() {
		ended <- runCommand(ctx, root(), "", []string{"ingest", "--nats-url", "nats://" + server.Addr().String(), "--nats-nkey", file, "--log-level", "error"})
	}()
	conn, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "INFO {\"server_id\":\"S\",\"version\":\"2.15.3\",\"proto\":1,\"max_payload\":1048576,\"headers\":true,\"auth_required\":true,\"nonce\":\"n\"}\r\n"); err != nil {
		t.Fatal(err)
	}
	hello, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(hello, "CONNECT ") || !strings.Contains(hello, `"nkey":"`+public+`"`) {
		t.Errorf("it says %q, %v; want CONNECT with the key %s", hello, err, public)
	}
	stop()
	_ = conn.Close() // it waits for an answer
	<-ended
}
