package membus

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// Bus implements bus.Bus.
type Bus struct {
	now func() time.Time

	mu      sync.Mutex
	streams map[string][]bus.Message // the message with sequence n is at n-1
	last    map[string]bus.Message   // by subject
	changed chan struct{}            // closed and replaced by every publication and by Close
	closed  bool
}

var _ bus.Bus = (*Bus)(nil)

// New returns an empty log that stamps its messages with now.
func New(now func() time.Time) *Bus {
	return &Bus{
		now:     now,
		streams: make(map[string][]bus.Message),
		last:    make(map[string]bus.Message),
		changed: make(chan struct{}),
	}
}

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, p bus.Publication) (uint64, error) {
	return b.PublishBatch(ctx, []bus.Publication{p})
}

// PublishBatch implements bus.Bus.
func (b *Bus) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	stream, err := bus.CheckBatch(ps)
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return 0, err
	}
	for _, p := range ps {
		if last := b.last[p.Subject].Seq; p.ExpectLast != nil && last != *p.ExpectLast {
			return 0, &bus.ConflictError{Subject: p.Subject, Expected: *p.ExpectLast, Actual: &last}
		}
	}
	for _, p := range ps {
		m := clone(bus.Message{
			Stream: stream, Seq: uint64(len(b.streams[stream])) + 1, Subject: p.Subject,
			Header: p.Header, Data: p.Data, Time: b.now().UTC(),
		})
		b.streams[stream] = append(b.streams[stream], m)
		b.last[p.Subject] = m
	}
	b.wake()
	return uint64(len(b.streams[stream])), nil
}

// Last implements bus.Bus.
func (b *Bus) Last(ctx context.Context, subject string) (bus.Message, error) {
	if _, err := bus.CheckSubject(subject); err != nil {
		return bus.Message{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return bus.Message{}, err
	}
	m, ok := b.last[subject]
	if !ok {
		return bus.Message{}, bus.ErrNotFound
	}
	return clone(m), nil
}

// LastSeq implements bus.Bus.
func (b *Bus) LastSeq(ctx context.Context, stream string) (uint64, error) {
	if err := bus.CheckStream(stream); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return uint64(len(b.streams[stream])), b.usable(ctx)
}

// Read implements bus.Bus.
func (b *Bus) Read(ctx context.Context, stream string, after uint64, max int) ([]bus.Message, error) {
	return b.read(ctx, stream, "", after, max)
}

// ReadSubject implements bus.Bus.
func (b *Bus) ReadSubject(ctx context.Context, stream, subject string, after uint64, max int) ([]bus.Message, error) {
	if _, err := bus.StreamOf(subject); err != nil {
		return nil, err
	}
	return b.read(ctx, stream, subject, after, max)
}

func (b *Bus) read(ctx context.Context, stream, filter string, after uint64, max int) ([]bus.Message, error) {
	if err := bus.CheckRead(stream, filter, max); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	all := b.streams[stream]
	var out []bus.Message
	for i := min(after, uint64(len(all))); i < uint64(len(all)) && len(out) < max; i++ {
		if filter == "" || matches(filter, all[i].Subject) {
			out = append(out, clone(all[i]))
		}
	}
	return out, nil
}

// Wait implements bus.Bus.
func (b *Bus) Wait(ctx context.Context, stream string, after uint64) error {
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		if last, err := b.LastSeq(ctx, stream); err != nil || last > after {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements bus.Bus.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake()
	return nil
}

// usable needs the lock.
func (b *Bus) usable(ctx context.Context) error {
	if b.closed {
		return bus.ErrClosed
	}
	return ctx.Err()
}

// wake needs the lock.
func (b *Bus) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// clone keeps callers and the log from sharing memory, as a real log would.
func clone(m bus.Message) bus.Message {
	m.Data = bytes.Clone(m.Data)
	if m.Header = maps.Clone(m.Header); len(m.Header) == 0 {
		m.Header = nil
	}
	return m
}

// matches is NATS matching: * is one token, a last > one or more.
func matches(filter, subject string) bool {
	want, have := strings.Split(filter, "."), strings.Split(subject, ".")
	if n := len(want) - 1; want[n] == ">" && len(have) > n {
		want, have = want[:n], have[:n]
	}
	return slices.EqualFunc(want, have, func(w, h string) bool { return w == "*" || w == h })
}
