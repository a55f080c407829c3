package natsbus

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// TestBrokenConnectionEndsRequests: the answer of a server that was killed does not come, so nobody waits for it as long as for
// a slow one.
func TestBrokenConnectionEndsRequests(t *testing.T) {
	// A server without JetStream, and somebody who hears requests and never answers.
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(requestTimeout) {
		t.Fatal("the server is not ready")
	}
	b, err := dial(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	heard := make(chan struct{}, 2)
	for _, subject := range []string{"gh.>", "$JS.API.>"} {
		if _, err := b.nc.Subscribe(subject, func(*nats.Msg) { heard <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
	}
	published, read := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := b.Publish(t.Context(), tick(0))
		published <- err
	}()
	go func() {
		_, err := b.Read(t.Context(), bus.Usage, 0, 1)
		read <- err
	}()
	<-heard
	<-heard
	began := time.Now()
	s.Shutdown()
	if err := <-published; !errors.Is(err, errBroke) || !errors.Is(err, bus.ErrAmbiguous) {
		t.Errorf("Publish: %v; want %v, with an outcome that is not known", err, errBroke)
	}
	if err := <-read; !errors.Is(err, errBroke) {
		t.Errorf("Read: %v; want %v", err, errBroke)
	}
	if waited := time.Since(began); waited > requestTimeout/2 {
		t.Errorf("they waited for %v", waited)
	}
}

// TestStreamThatCannotBeWritten: the server says it to its log once, and answers no publication from then on.
func TestStreamThatCannotBeWritten(t *testing.T) {
	e := start(t, Options{})
	publish(t, e, tick(0))
	e.server.Errorf("JetStream stream '%s > %s' critical write error: %v", "$G", bus.Usage, errors.New("no space left on device"))
	for name, publish := range map[string]func() error{
		"one":   func() error { _, err := e.Publish(t.Context(), tick(1)); return err },
		"batch": func() error { _, err := e.PublishBatch(t.Context(), batchOf(2)); return err },
	} {
		err := publish()
		if err == nil || errors.Is(err, bus.ErrAmbiguous) || !strings.Contains(err.Error(), "until this process is started again") ||
			!strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("%s: %v; want the reason and the remedy", name, err)
		}
	}
	if messages, err := e.Read(t.Context(), bus.Usage, 0, 10); err != nil || len(messages) != 1 {
		t.Errorf("Read = %v, %v; want what is there", messages, err)
	}
}
