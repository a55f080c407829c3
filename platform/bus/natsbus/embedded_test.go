package natsbus

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuhour/gpuhour/platform/bus"
)

func tick(last uint64) bus.Publication {
	return bus.Publication{Subject: bus.Tick, Data: []byte("tick"), ExpectLast: &last}
}

func publish(t *testing.T, b bus.Bus, p bus.Publication) uint64 {
	t.Helper()
	seq, err := b.Publish(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("error %q; want %q in it", err, part)
		}
	}
}

func TestReopenSeesEverything(t *testing.T) {
	dir := t.TempDir()
	for round := range uint64(3) {
		e := start(t, Options{Dir: dir})
		messages, err := e.Read(t.Context(), bus.Usage, 0, 100)
		if err != nil || uint64(len(messages)) != 3*round {
			t.Fatalf("round %d: %d messages, %v; want %d", round, len(messages), err, 3*round)
		}
		if seq := publish(t, e, tick(3*round)); seq != 3*round+1 {
			t.Fatalf("round %d: tick has sequence %d", round, seq)
		}
		ps := []bus.Publication{{Subject: "gh.usage.1.n"}, tick(3*round + 1)}
		if last, err := e.PublishBatch(t.Context(), ps); err != nil || last != 3*round+3 {
			t.Fatalf("round %d: PublishBatch = %d, %v", round, last, err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSyncsAlways(t *testing.T) {
	e := start(t, Options{})
	if c := e.server.JetStreamConfig(); c == nil || !c.SyncAlways {
		t.Errorf("JetStream runs with %+v; want SyncAlways", c)
	}
}

func TestDirectoryBelongsToOneServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "start")
	e := start(t, Options{Dir: dir})
	publish(t, e, tick(0))
	_, err := Start(t.Context(), Options{Dir: dir})
	wantError(t, err, dir, "in use by process")
	publish(t, e, tick(1))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if seq := publish(t, start(t, Options{Dir: dir}), tick(2)); seq != 3 {
		t.Errorf("tick has sequence %d; want 3", seq)
	}
}

func TestStartRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no directory":     {},
		"needs a password": {Dir: t.TempDir(), Host: "0.0.0.0", Port: -1},
		"password":         {Dir: t.TempDir(), Password: strings.Repeat("x", 100)},
		"not a directory":  {Dir: "/dev/null/x"},
		"insufficient":     {Dir: t.TempDir(), MaxStoreBytes: 1 << 20, Streams: StreamOptions{UsageMaxBytes: 2 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
			_, err := Start(t.Context(), o)
			wantError(t, err, "start NATS", name)
		})
	}
}

// The lists of goroutines are compared by who started them: those of the tests stay.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	e := start(t, Options{Port: -1})
	b, err := Connect(t.Context(), e.URL(), ConnectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, tick(0))
	if _, err := b.Read(t.Context(), bus.Usage, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	left := ""
	eventually(t, func() bool {
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		left = ""
		for one := range strings.SplitSeq(string(all), "\n\n") {
			if strings.Contains(one, "github.com/nats-io/") && !strings.Contains(one, "TestCloseLeavesNoGoroutine") {
				left = one
			}
		}
		return left == ""
	}, func() string { return "still there: " + left })
}

// eventually polls, for things that happen in goroutines of others.
func eventually(t *testing.T, done func() bool, otherwise func() string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline.Done():
			t.Fatal(otherwise())
		}
	}
}

func TestPassword(t *testing.T) {
	e := start(t, Options{Port: -1, Password: "secret", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	_, err := Connect(t.Context(), e.URL(), ConnectOptions{})
	wantError(t, err, "connect to NATS at "+e.URL(), "Authorization Violation")
	_, err = Connect(t.Context(), e.URL(), ConnectOptions{NATS: []nats.Option{nats.UserInfo(user, "wrong")}})
	wantError(t, err, "Authorization Violation")
	b, err := Connect(t.Context(), e.URL(), ConnectOptions{NATS: []nats.Option{nats.UserInfo(user, "secret")}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	publish(t, b, tick(0))
	if e := start(t, Options{}); e.URL() != "" {
		t.Errorf("URL is %q without a port", e.URL())
	}
}

func TestFullStoreRefuses(t *testing.T) {
	e := start(t, Options{MaxStoreBytes: 4 << 20}) // usage gets 3 MiB
	large := bus.Publication{Subject: "gh.usage.1.n", Data: make([]byte, 900<<10)}
	for range 3 {
		publish(t, e, large)
	}
	_, err := e.Publish(t.Context(), large)
	if !errors.Is(err, bus.ErrFull) || errors.Is(err, bus.ErrAmbiguous) {
		t.Fatalf("Publish: %v; want %v", err, bus.ErrFull)
	}
	_, err = e.PublishBatch(t.Context(), []bus.Publication{{Subject: bus.Tick}, large})
	if !errors.Is(err, bus.ErrFull) || errors.Is(err, bus.ErrAmbiguous) {
		t.Fatalf("PublishBatch: %v; want %v", err, bus.ErrFull)
	}
	if last, err := e.LastSeq(t.Context(), bus.Usage); err != nil || last != 3 {
		t.Errorf("LastSeq = %d, %v; want 3: nothing dropped, nothing added", last, err)
	}
	publish(t, e, bus.Publication{Subject: "gh.fact.x.y", Data: make([]byte, 500<<10)})
}

// TestServerRestarts follows a client through a restart of its server on the same address.
func TestServerRestarts(t *testing.T) {
	dir := t.TempDir()
	e := start(t, Options{Dir: dir, Port: -1})
	port := e.server.Addr().(*net.TCPAddr).Port
	b, err := Connect(t.Context(), e.URL(), ConnectOptions{NATS: []nats.Option{nats.ReconnectWait(5 * time.Millisecond)}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	publish(t, b, tick(0))
	publish(t, b, tick(1))
	if messages, err := b.Read(t.Context(), bus.Usage, 0, 1); err != nil || len(messages) != 1 {
		t.Fatalf("Read = %v, %v", messages, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !b.nc.IsConnected() }, func() string { return "still connected" })
	_, err = b.Publish(t.Context(), tick(2))
	if err == nil || errors.Is(err, bus.ErrAmbiguous) {
		t.Fatalf("Publish without a server: %v; want an error that says that nothing was sent", err)
	}
	start(t, Options{Dir: dir, Port: port})
	eventually(t, b.nc.IsConnected, func() string { return "not connected again" })
	if seq, err := bus.Claim(t.Context(), b, tick(2)); err != nil || seq != 3 {
		t.Fatalf("Claim = %d, %v; want 3", seq, err)
	}
	messages, err := b.Read(t.Context(), bus.Usage, 1, 5) // the cursor's consumer went with the server
	if err != nil || len(messages) != 2 || messages[0].Seq != 2 {
		t.Fatalf("Read = %v, %v; want 2 and 3", messages, err)
	}
}

func TestConsumerGone(t *testing.T) {
	e := start(t, Options{})
	for i := range uint64(3) {
		publish(t, e, tick(i))
		messages, err := e.Read(t.Context(), bus.Usage, i, 5)
		if err != nil || len(messages) != 1 || messages[0].Seq != i+1 {
			t.Fatalf("Read after %d = %v, %v", i, messages, err)
		}
		stream, err := e.js.Stream(t.Context(), bus.Usage)
		if err != nil {
			t.Fatal(err)
		}
		consumers := 0
		for name := range stream.ConsumerNames(t.Context()).Name() {
			consumers++
			if err := stream.DeleteConsumer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if consumers != 1 {
			t.Fatalf("%d consumers for one reader", consumers)
		}
	}
}

func TestOutcomeUnknown(t *testing.T) {
	// A server without JetStream, and somebody who hears publications and never answers.
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	b, err := dial("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = b.Publish(t.Context(), tick(0))
	if err == nil || errors.Is(err, bus.ErrAmbiguous) {
		t.Fatalf("Publish to nobody: %v; want an error that is not ambiguous", err)
	}
	if _, err := b.nc.SubscribeSync("gh.>"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = b.Publish(ctx, tick(0))
	if !errors.Is(err, bus.ErrAmbiguous) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Publish to the silent: %v; want %v and %v", err, bus.ErrAmbiguous, context.DeadlineExceeded)
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		code        jetstream.ErrorCode
		class       int
		description string
		want        error
	}{
		{10071, 400, "wrong last sequence: 7", bus.ErrConflict},
		{10164, 400, "wrong last sequence", bus.ErrConflict},
		{10054, 400, "message size exceeds maximum allowed", bus.ErrTooLarge},
		{10199, 400, "atomic publish batch is too large: 1000", bus.ErrTooLarge},
		{10077, 503, "maximum bytes exceeded", bus.ErrFull},
		{10077, 503, "disk unreachable", bus.ErrAmbiguous},
		{10023, 503, "insufficient resources", bus.ErrFull},
		{10009, 500, "server is not cluster leader", bus.ErrAmbiguous},
	} {
		err := refusal(&jetstream.APIError{Code: test.class, ErrorCode: test.code, Description: test.description})
		if !errors.Is(err, test.want) || !errors.Is(test.want, bus.ErrAmbiguous) && errors.Is(err, bus.ErrAmbiguous) {
			t.Errorf("%d %s: %v; want %v", test.code, test.description, err, test.want)
		}
	}
	incomplete := refusal(&jetstream.APIError{Code: 400, ErrorCode: 10176, Description: "atomic publish batch is incomplete"})
	if errors.Is(incomplete, bus.ErrAmbiguous) {
		t.Errorf("%v is ambiguous, but nothing was stored", incomplete)
	}
}
