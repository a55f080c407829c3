package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
)

const (
	// A replica that serves a read may be behind the leader; the read waits for it this often and long.
	behindAttempts, behindPause = 20, 50 * time.Millisecond

	// maxIdle is how many cursors are kept for the reads that go on where others ended.
	maxIdle = 8
)

// Read implements bus.Bus.
func (b *Bus) Read(ctx context.Context, stream string, after uint64, max int) ([]bus.Message, error) {
	if err := bus.CheckRead(stream, "", max); err != nil {
		return nil, err
	}
	messages, err := b.read(ctx, stream, "", after, max)
	if err != nil {
		return nil, err
	}
	for i, m := range messages {
		if want := after + 1 + uint64(i); m.Seq != want {
			return nil, &bus.GapError{Stream: stream, After: want - 1, Next: m.Seq}
		}
	}
	return messages, nil
}

// ReadSubject implements bus.Bus. The streams deny deletion, so messages can only go missing at the
// front; that is looked up after the read, because an archiver may purge meanwhile.
func (b *Bus) ReadSubject(ctx context.Context, stream, subject string, after uint64, max int) ([]bus.Message, error) {
	if _, err := bus.StreamOf(subject); err != nil {
		return nil, err
	}
	if err := bus.CheckRead(stream, subject, max); err != nil {
		return nil, err
	}
	messages, err := b.read(ctx, stream, subject, after, max)
	if err != nil {
		return nil, err
	}
	if err := b.checkFront(ctx, stream, after); err != nil {
		return nil, err
	}
	return messages, nil
}

// read takes the cursor that stands at after, or a new one, and keeps it when all went well.
func (b *Bus) read(ctx context.Context, stream, filter string, after uint64, max int) (messages []bus.Message, err error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	c := b.take(stream, filter, after)
	err = b.whileConnected(ctx, func(ctx context.Context) (err error) {
		messages, err = b.follow(ctx, c, max)
		return err
	})
	if err != nil {
		c.close()
		return nil, err
	}
	b.keep(c)
	return messages, nil
}

// follow reads behind the leader's back but not ahead of it. A consumer also delivers messages that
// are not synced yet, and the beginning of an atomic batch whose end is not written; the leader's
// own answer (last) waits for both. So nothing above that answer is returned.
func (b *Bus) follow(ctx context.Context, c *cursor, max int) ([]bus.Message, error) {
	for range behindAttempts {
		if c.settled <= c.after {
			if err := b.settle(ctx, c); err != nil || c.settled <= c.after {
				return nil, err
			}
		}
		messages, err := c.pull(ctx, max)
		if err != nil {
			return nil, fmt.Errorf("read %s after %d: %w", c.stream, c.after, b.explain(ctx, err))
		}
		if n := len(messages); n > 0 {
			if last := messages[n-1].Seq; last > c.settled {
				if err := b.settle(ctx, c); err != nil {
					return nil, err
				}
				if last > c.settled {
					return nil, fmt.Errorf("read %s after %d: a replica has message %d, its leader ends at %d", c.stream, c.after, last, c.settled)
				}
			}
			c.after = messages[n-1].Seq
			return messages, nil
		}
		if err := b.checkFront(ctx, c.stream, c.after); err != nil {
			return nil, err
		}
		if err := b.pause(ctx, behindPause, nil); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("read %s after %d: the leader has messages up to %d, but none is delivered: look for storage errors in the server's log", c.stream, c.after, c.settled)
}

// settle asks the leader for the last message that the cursor may return.
func (b *Bus) settle(ctx context.Context, c *cursor) error {
	filter := c.filter
	if filter == "" {
		filter = ">"
	}
	last, err := b.last(ctx, c.stream, filter)
	if errors.Is(err, bus.ErrNotFound) {
		return b.checkFront(ctx, c.stream, c.after) // empty, or all of it archived
	}
	c.settled = last.Seq
	return err
}

// checkFront returns a *GapError when messages right above after are gone.
func (b *Bus) checkFront(ctx context.Context, stream string, after uint64) error {
	state, err := b.state(ctx, stream)
	if err == nil && state.LastSeq > after && state.FirstSeq > after+1 {
		return &bus.GapError{Stream: stream, After: after, Next: state.FirstSeq}
	}
	return err
}

// take returns an idle cursor at this position for the caller alone, or a new one.
func (b *Bus) take(stream, filter string, after uint64) *cursor {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.idle {
		if c.stream == stream && c.filter == filter && c.after == after {
			b.idle = append(b.idle[:i], b.idle[i+1:]...)
			return c
		}
	}
	return &cursor{nc: b.nc, js: b.js, stream: stream, filter: filter, after: after}
}

// keep makes a cursor idle, at the cost of the one that was idle for longest.
func (b *Bus) keep(c *cursor) {
	if c.sub == nil { // nothing to reuse
		return
	}
	b.mu.Lock()
	b.idle = append(b.idle, c)
	var oldest *cursor
	if len(b.idle) > maxIdle {
		oldest, b.idle = b.idle[0], b.idle[1:]
	}
	b.mu.Unlock()
	if oldest != nil {
		oldest.close()
	}
}
