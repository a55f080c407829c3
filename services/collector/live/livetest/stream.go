package livetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
)

// Fault is what happens to a publication.
type Fault int

// Faults of a publication.
const (
	Fine     Fault = iota
	LostAck        // stored, and the answer is lost
	LostCall       // not stored, and no answer
	Down           // refused at once
	Hanging        // not stored, and no answer until the caller gives up
)

// ErrDown is a broker that is away.
var ErrDown = errors.New("no route to the broker")

// Stream is a log in memory.
type Stream struct {
	mu     sync.Mutex
	held   []usage.Batch // a batch's position is its index plus one
	next   []Fault       // of the publications to come, in order
	always Fault         // of those after them
	dead   func() bool   // the process that asks is dead
}

// Owner sets how to tell that the process that publishes is dead: then nothing arrives any more.
func (s *Stream) Owner(dead func() bool) { s.do(func() { s.dead = dead }) }

// Next sets the faults of the publications to come; Always of those after them.
func (s *Stream) Next(faults ...Fault) { s.do(func() { s.next = append(s.next, faults...) }) }

// Always sets the fault of publications to which no other is assigned.
func (s *Stream) Always(f Fault) { s.do(func() { s.always = f }) }

// Rewind forgets what came after the first keep messages.
func (s *Stream) Rewind(keep int) {
	s.do(func() { s.held = slices.Clone(s.held[:min(max(keep, 0), len(s.held))]) })
}

// Put is what another writer publishes.
func (s *Stream) Put(b usage.Batch) { s.do(func() { s.held = append(s.held, b) }) }

// Held is what the log holds.
func (s *Stream) Held() []usage.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.held)
}

func (s *Stream) do(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *Stream) last(node string) collector.Held {
	for i := len(s.held) - 1; i >= 0; i-- {
		if s.held[i].Node == node {
			return collector.Held{Batch: s.held[i], Position: uint64(i + 1)}
		}
	}
	return collector.Held{}
}

// Last implements collector.Log.
func (s *Stream) Last(ctx context.Context, node string) (collector.Held, error) {
	if ctx.Err() != nil {
		return collector.Held{}, ctx.Err()
	}
	s.mu.Lock()
	always := s.always
	held := s.last(node)
	s.mu.Unlock()
	switch always {
	case Down:
		return collector.Held{}, ErrDown
	case Hanging:
		<-ctx.Done()
		return collector.Held{}, ctx.Err()
	default:
		return held, nil
	}
}

// Publish implements collector.Log.
func (s *Stream) Publish(ctx context.Context, out []collector.Outgoing) (uint64, error) {
	if ctx.Err() != nil {
		return 0, errors.Join(ctx.Err(), collector.ErrAmbiguous)
	}
	s.mu.Lock()
	fault := s.always
	if len(s.next) > 0 {
		fault, s.next = s.next[0], s.next[1:]
	}
	s.mu.Unlock()
	switch fault {
	case Down:
		return 0, ErrDown
	case Hanging:
		<-ctx.Done()
		return 0, errors.Join(ctx.Err(), collector.ErrAmbiguous)
	case LostCall:
		return 0, collector.ErrAmbiguous
	case Fine, LostAck:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil && s.dead() {
		return 0, ErrDown
	}
	for _, o := range out {
		if o.ExpectLast != nil && *o.ExpectLast != s.last(o.Batch.Node).Position {
			return 0, collector.ErrConflict
		}
	}
	for _, o := range out {
		s.held = append(s.held, o.Batch)
	}
	if fault == LostAck {
		return 0, collector.ErrAmbiguous
	}
	return uint64(len(s.held)), nil
}
