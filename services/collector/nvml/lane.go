//go:build linux && cgo

package nvml

import (
	"context"
	"sync"
)

// lane lets one call at a time into one part of the driver. A call that hangs keeps its lane.
type lane chan struct{}

func newLane() lane { return make(lane, 1) }

// take waits for the lane, until ctx ends.
func (l lane) take(ctx context.Context) bool {
	select {
	case l <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l lane) try() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l lane) give() { <-l }

// gate counts who is inside the driver. A closed one lets nobody in, and tells when the last has left.
type gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{}
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside++
	}
	return !g.closed
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	if g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// ask runs f as the lane's only call and waits for it until ctx ends. Then f goes on alone, and the lane is taken until it is done.
func ask[T any](ctx context.Context, g *gate, l lane, f func() T) (answer T, ok bool) {
	if !l.take(ctx) {
		return answer, false
	}
	if !g.enter() {
		l.give()
		return answer, false
	}
	done := make(chan T, 1)
	go func() {
		v := f()
		g.leave()
		l.give()
		done <- v
	}()
	select {
	case answer = <-done:
		return answer, true
	case <-ctx.Done():
		return answer, false
	}
}
