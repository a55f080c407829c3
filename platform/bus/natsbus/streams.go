package natsbus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// StreamOptions are what a site may choose. Zero means: 1 replica and no limit for a new stream, as
// it is for an existing one.
type StreamOptions struct {
	Replicas int
	// UsageMaxBytes bounds the usage stream, so that facts always have room. A full stream refuses
	// publications (ErrFull); it never drops what it holds.
	UsageMaxBytes int64
}

func (b *Bus) ensureStreams(ctx context.Context, o StreamOptions) error {
	for _, name := range []string{bus.Facts, bus.Usage} {
		if err := ensureStream(ctx, b.js, name, o); err != nil {
			return fmt.Errorf("prepare stream %s: %w", name, b.explain(ctx, err))
		}
	}
	return nil
}

// ensureStream creates the stream or brings its settings in order, and reads them back: a server
// ignores what it does not know.
func ensureStream(ctx context.Context, js jetstream.JetStream, name string, o StreamOptions) error {
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, streamConfig(name, o, nil))
	}
	if err != nil {
		return err
	}
	have := stream.CachedInfo().Config
	want := streamConfig(name, o, &have)
	if err := checkFixed(have, want); err != nil {
		return err
	}
	if reflect.DeepEqual(have, want) {
		return nil
	}
	if stream, err = js.UpdateStream(ctx, want); err != nil {
		return fmt.Errorf("update its settings: %w", err)
	}
	have = stream.CachedInfo().Config
	have.Metadata = want.Metadata // the server notes its own level there
	if !reflect.DeepEqual(have, want) {
		return fmt.Errorf("the server keeps other settings than asked for (is it older than 2.12?): asked %+v, got %+v", want, have)
	}
	return nil
}

// streamConfig is what the log needs; have is the existing stream's configuration or nil.
func streamConfig(name string, o StreamOptions, have *jetstream.StreamConfig) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:               name,
		Retention:          jetstream.LimitsPolicy,
		Storage:            jetstream.FileStorage,
		Discard:            jetstream.DiscardNew,
		MaxMsgs:            -1,
		MaxBytes:           -1,
		MaxMsgsPerSubject:  -1,
		MaxConsumers:       -1,
		MaxMsgSize:         1 << 20,
		Replicas:           1,
		Duplicates:         100 * time.Millisecond, // the least it allows: the log uses no message ids
		DenyDelete:         true,
		AllowDirect:        true,
		AllowAtomicPublish: true,
	}
	if name == bus.Facts {
		c.Subjects = []string{"gh.fact.>"}
		c.DenyPurge = true
		c.Compression = jetstream.NoCompression
	} else {
		c.Subjects = []string{"gh.usage.>", bus.Tick}
		c.Compression = jetstream.S2Compression
	}
	if have != nil {
		c.Replicas, c.MaxBytes = have.Replicas, have.MaxBytes
		c.Description, c.Placement, c.Metadata = have.Description, have.Placement, have.Metadata
		c.FirstSeq, c.ConsumerLimits = have.FirstSeq, have.ConsumerLimits
	}
	if o.Replicas > 0 {
		c.Replicas = o.Replicas
	}
	if o.UsageMaxBytes > 0 && name == bus.Usage {
		c.MaxBytes = o.UsageMaxBytes
	}
	return c
}

// checkFixed refuses what an update must not touch: it would orphan messages or let others in.
func checkFixed(have, want jetstream.StreamConfig) error {
	for _, f := range []struct {
		name       string
		have, want any
	}{
		{"subjects", have.Subjects, want.Subjects},
		{"storage", have.Storage, want.Storage},
		{"retention", have.Retention, want.Retention},
		{"sealed", have.Sealed, false},
		{"mirror", have.Mirror, (*jetstream.StreamSource)(nil)},
		{"sources", len(have.Sources), 0},
		{"subject transform", have.SubjectTransform, (*jetstream.SubjectTransformConfig)(nil)},
		{"persist mode", have.PersistMode, want.PersistMode},
	} {
		if !reflect.DeepEqual(f.have, f.want) {
			return fmt.Errorf("it exists with %s %v, this needs %v: use another server or account, or move that stream away", f.name, f.have, f.want)
		}
	}
	return nil
}
