package natsbus

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// config returns a stream's configuration without the notes of the server.
func config(t *testing.T, e *Embedded, name string) jetstream.StreamConfig {
	t.Helper()
	stream, err := e.js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	c.Metadata = nil
	return c
}

// The log rests on these settings, so they are written out once more.
func TestStreamConfig(t *testing.T) {
	e := start(t, Options{Streams: StreamOptions{UsageMaxBytes: 1 << 30}})
	facts := jetstream.StreamConfig{
		Name: "GPUHOUR_FACTS", Subjects: []string{"gh.fact.>"},
		Storage: jetstream.FileStorage, Compression: jetstream.NoCompression, Replicas: 1,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, MaxMsgSize: 1 << 20,
		Duplicates: 100 * time.Millisecond,
		DenyDelete: true, DenyPurge: true, AllowDirect: true, AllowAtomicPublish: true,
	}
	usage := facts
	usage.Name, usage.Subjects = "GPUHOUR_USAGE", []string{"gh.usage.>", "gh.tick"}
	usage.Compression, usage.DenyPurge, usage.MaxBytes = jetstream.S2Compression, false, 1<<30
	for _, want := range []jetstream.StreamConfig{facts, usage} {
		if diff := cmp.Diff(want, config(t, e, want.Name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
	usage.Replicas = 3
	if got := streamConfig(usage.Name, StreamOptions{}, &usage); got.Replicas != 3 {
		t.Errorf("who names no number of copies leaves %d of 3", got.Replicas)
	}
}

func TestFactsCannotGo(t *testing.T) {
	e := start(t, Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	publish(t, e, bus.Publication{Subject: "gh.fact.x.y"})
	publish(t, e, tick(0))
	facts, err := e.js.Stream(t.Context(), bus.Facts)
	if err != nil {
		t.Fatal(err)
	}
	usage, err := e.js.Stream(t.Context(), bus.Usage)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, facts.Purge(t.Context()), "purge")
	wantError(t, facts.DeleteMsg(t.Context(), 1), "message delete not permitted")
	wantError(t, facts.SecureDeleteMsg(t.Context(), 1), "message delete not permitted")
	wantError(t, usage.DeleteMsg(t.Context(), 1), "message delete not permitted")

	for _, change := range []func(*jetstream.StreamConfig){
		func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		func(c *jetstream.StreamConfig) { c.DenyPurge = false },
	} {
		c := config(t, e, bus.Facts)
		change(&c)
		_, err = e.js.UpdateStream(t.Context(), c)
		wantError(t, err, "can not cancel deny")
	}
	// The server does not answer what a user may not ask.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.js.DeleteStream(ctx, bus.Facts); err == nil {
		t.Error("the facts could be deleted")
	}
	for _, stream := range []string{bus.Facts, bus.Usage} {
		if messages, err := e.Read(t.Context(), stream, 0, 5); err != nil || len(messages) != 1 {
			t.Errorf("%s holds %v, %v; want its message", stream, messages, err)
		}
	}
}

func TestArchivedUsageIsAGap(t *testing.T) {
	e := start(t, Options{})
	for i := range uint64(10) {
		publish(t, e, tick(i))
	}
	stream, err := e.js.Stream(t.Context(), bus.Usage)
	if err != nil {
		t.Fatal(err)
	}
	first, err := e.Read(t.Context(), bus.Usage, 0, 2) // its cursor stands in what goes away
	if err != nil || len(first) != 2 {
		t.Fatal(first, err)
	}
	for _, purged := range []uint64{6, 10} {
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(purged+1)); err != nil {
			t.Fatal(err)
		}
		for after := range purged {
			var gap *bus.GapError
			_, err := e.Read(t.Context(), bus.Usage, after, 5)
			if !errors.As(err, &gap) || *gap != (bus.GapError{Stream: bus.Usage, After: after, Next: purged + 1}) {
				t.Errorf("Read after %d of purged %d: %v", after, purged, err)
			}
			_, err = e.ReadSubject(t.Context(), bus.Usage, bus.Tick, after, 5)
			if !errors.Is(err, bus.ErrGap) {
				t.Errorf("ReadSubject after %d of purged %d: %v", after, purged, err)
			}
		}
		messages, err := e.Read(t.Context(), bus.Usage, purged, 50)
		if err != nil || uint64(len(messages)) != 10-purged {
			t.Errorf("Read after %d: %v, %v", purged, messages, err)
		}
		if last, err := e.LastSeq(t.Context(), bus.Usage); err != nil || last != 10 {
			t.Errorf("LastSeq = %d, %v; want 10", last, err)
		}
	}
	publish(t, e, tick(0)) // nothing is left of the subject
	if messages, err := e.ReadSubject(t.Context(), bus.Usage, bus.Tick, 10, 5); err != nil || len(messages) != 1 || messages[0].Seq != 11 {
		t.Errorf("ReadSubject = %v, %v; want 11", messages, err)
	}
}

// existing starts a server that holds the usage stream in another shape.
func existing(t *testing.T, change func(*jetstream.StreamConfig)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	options, err := serverOptions(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &Embedded{lock: lock}
	defer e.Close()
	if err := e.serve(options, &serverLog{log: log}); err != nil {
		t.Fatal(err)
	}
	if e.Bus, err = e.dial("", log); err != nil {
		t.Fatal(err)
	}
	c := streamConfig(bus.Usage, StreamOptions{}, nil)
	change(&c)
	if _, err := e.js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExistingStreamIsBroughtInOrder(t *testing.T) {
	dir := existing(t, func(c *jetstream.StreamConfig) {
		c.MaxAge, c.MaxMsgs, c.Duplicates = time.Hour, 10, time.Minute
		c.DenyDelete, c.AllowAtomicPublish, c.AllowDirect, c.AllowRollup = false, false, false, true
		c.Discard, c.Compression, c.MaxBytes = jetstream.DiscardOld, jetstream.NoCompression, 1<<30
		c.Description = "ours"
	})
	want := streamConfig(bus.Usage, StreamOptions{}, nil)
	want.Description, want.MaxBytes = "ours", 1<<30 // a site's own choice stays
	if diff := cmp.Diff(want, config(t, start(t, Options{Dir: dir}), bus.Usage)); diff != "" {
		t.Errorf("usage stream (-want +got):\n%s", diff)
	}
}

func TestForeignStreamIsRefused(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"subjects":  func(c *jetstream.StreamConfig) { c.Subjects = []string{"gh.usage.>"} },
		"retention": func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"subject transform": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "gh.tick", Destination: "gh.usage.x"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := existing(t, change)
			_, err := Start(t.Context(), Options{Dir: dir})
			wantError(t, err, "prepare stream GPUHOUR_USAGE", "it exists with "+name)
		})
	}
}
