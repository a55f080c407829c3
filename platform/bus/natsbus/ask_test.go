package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/platform/bus"
)

func TestAsk(t *testing.T) {
	e := start(t, Options{Port: -1})
	b, err := Connect(t.Context(), e.URL(), ConnectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Ask(t.Context(), "q.1", nil); !errors.Is(err, nats.ErrNoResponders) || errors.Is(err, bus.ErrAmbiguous) {
		t.Errorf("nobody is there: %v", err)
	} else if strings.Contains(err.Error(), "stream") { // no stream is missing: whoever serves is
		t.Errorf("the error sends its reader to the streams: %v", err)
	}
	served := make(map[string]int)
	var stops []func(context.Context) error
	for _, name := range []string{"one", "two"} { // both run in a goroutine of their own; answers order them
		stop, err := e.Serve("q.*", "servers", func(subject string, data []byte, answer func([]byte) error) {
			if string(data) == "silence" {
				return
			}
			if err := answer(fmt.Append(nil, name, " ", subject, " ", string(data))); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	for i := range 50 {
		answer, err := b.Ask(t.Context(), "q.1", fmt.Append(nil, i))
		if err != nil {
			t.Fatal(err)
		}
		var who string
		var n int
		if _, err := fmt.Sscanf(string(answer), "%s q.1 %d", &who, &n); err != nil || n != i {
			t.Fatalf("answer %q to question %d", answer, i)
		}
		served[who]++
	}
	if served["one"] == 0 || served["two"] == 0 || served["one"]+served["two"] != 50 {
		t.Errorf("served %v; want each question by one of both", served)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.Ask(short, "q.1", []byte("silence")); !errors.Is(err, bus.ErrAmbiguous) {
		t.Errorf("no answer comes: %v; want %v", err, bus.ErrAmbiguous)
	}
	if _, err := b.Ask(t.Context(), "q.1", make([]byte, 2<<20)); !errors.Is(err, bus.ErrTooLarge) || errors.Is(err, bus.ErrAmbiguous) {
		t.Errorf("a question that the server does not take: %v; want %v", err, bus.ErrTooLarge)
	}
	for _, stop := range stops {
		if err := stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Ask(t.Context(), "q.1", nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("all have stopped: %v", err)
	}
}

// TestServeStopsAfterWhatArrived: nothing that arrived is dropped.
func TestServeStopsAfterWhatArrived(t *testing.T) {
	e := start(t, Options{})
	const all = 1000
	began, gate := make(chan struct{}, all), make(chan struct{})
	stop, err := e.Serve("q", "s", func(string, []byte, func([]byte) error) {
		began <- struct{}{}
		<-gate
	})
	if err != nil {
		t.Fatal(err)
	}
	for range all {
		if err := e.nc.PublishRequest("q", e.nc.NewInbox(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	<-began
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := stop(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it stops while questions wait: %v", err)
	}
	close(gate)
	if err := stop(t.Context()); err != nil && !errors.Is(err, nats.ErrBadSubscription) {
		t.Error(err)
	}
	eventually(t, func() bool { return len(began) == all-1 }, func() string { return fmt.Sprint(len(began)+1, " taken of ", all) })
}

// TestServeEndsWithoutAServer: there is nobody to drain from, and its end must not wait for one.
func TestServeEndsWithoutAServer(t *testing.T) {
	e := start(t, Options{Port: -1})
	links := make(chan error, 1)
	b, err := Connect(t.Context(), e.URL(), ConnectOptions{Link: func(broken error) { links <- broken }})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	stop, err := b.Serve("q", "s", func(string, []byte, func([]byte) error) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if broken := <-links; broken == nil {
		t.Error("the connection broke, and is said to be there again")
	}
	patience, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := stop(patience); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := b.Close(); err != nil || len(links) > 0 {
		t.Errorf("its own end is told as a break: %v, %d", err, len(links))
	}
}
