package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// Limits of a commit. Its bytes leave the server's 128 MiB in front of a stream to several lanes of several processes.
const (
	maxCommit      = bus.MaxBatch
	maxCommitBytes = 8 << 20
	maxAttempts    = 4 // a conflict or a lost answer is settled by reading, then tried again; more means a fault
	maxKnown       = 1 << 20
	doubts         = 64 // requests of a node that share no commit with others after a conflict
)

// lane commits the requests of its share of the nodes, one atomic batch after the other. A node has one lane and one request
// at a time in it, so its requests never overtake each other here.
type lane struct {
	in    *Ingest
	queue chan *request
	next  *request // did not fit into the commit before

	mu     sync.Mutex
	inside map[string]bool // subjects with a request that is not answered yet
	closed bool

	// known is where subjects stood last: a cache that spares a commit, and all who are in it, a conflict that is certain.
	known map[string]known
}

// known is where a subject stood. doubt counts its requests that are still kept apart: whoever lies about what it expects, or has a
// second writer, makes the log refuse all who share its commit, and must not do so with every other request.
type known struct {
	position uint64
	doubt    int
}

func newLane(in *Ingest) *lane {
	return &lane{in: in, queue: make(chan *request, maxWaiting), inside: map[string]bool{}, known: map[string]known{}}
}

// admit queues a request, or tells that it cannot be taken now.
func (l *lane) admit(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.inside[r.subject] {
		return false
	}
	to := l.queue
	if len(r.data) > 0 && wire.Kind(r.data[0]) == wire.Last {
		to = l.in.asked
	}
	r.lane = l // before it is seen by others
	select {
	case to <- r:
		l.inside[r.subject] = true
		return true
	default:
		r.lane = nil
		return false
	}
}

// leave lets the node's next request in.
func (l *lane) leave(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inside, r.subject)
}

// close ends the lane once its queue is empty.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.queue)
}

func (l *lane) run(ctx context.Context) {
	for group := l.collect(); len(group) > 0; group = l.collect() {
		l.commit(ctx, group)
	}
}

// collect waits for a request and takes what comes with it: a full commit, or what came within the linger. Malformed ones are
// answered on the way. It returns nothing when the lane was closed.
func (l *lane) collect() (group []*request) {
	first := l.next
	if l.next = nil; first == nil {
		if first = l.await(); first == nil {
			return nil
		}
	}
	group = append(make([]*request, 0, 64), first)
	batches, bytes := len(first.batches), first.bytes
	linger := time.NewTimer(l.in.options.Linger)
	defer linger.Stop()
	for batches < maxCommit && bytes < maxCommitBytes {
		r, more := l.another(linger.C)
		if !more {
			break
		}
		if r = l.valid(r); r == nil {
			continue
		}
		if batches+len(r.batches) > maxCommit || bytes+r.bytes > maxCommitBytes {
			l.next = r
			break
		}
		group, batches, bytes = append(group, r), batches+len(r.batches), bytes+r.bytes
	}
	return group
}

// await is the next valid request, nil when the lane was closed.
func (l *lane) await() *request {
	for r := range l.queue {
		if r = l.valid(r); r != nil {
			return r
		}
	}
	return nil
}

// another is what waits already, or what comes before late.
func (l *lane) another(late <-chan time.Time) (r *request, more bool) {
	select {
	case r, more = <-l.queue:
		return r, more
	default:
	}
	select {
	case r, more = <-l.queue:
		return r, more
	case <-late:
		return nil, false
	}
}

// valid is r, or nil when it was malformed and so is answered.
func (l *lane) valid(r *request) *request {
	if err := r.parse(); err != nil {
		l.in.answer(r, wire.Answer{Outcome: wire.Refused, Detail: err.Error()})
		return nil
	}
	return r
}

// commit brings a group into the log and answers each of it. Suspects are read first, and share a commit with nobody else.
func (l *lane) commit(ctx context.Context, group []*request) {
	fine, suspects := l.apart(group)
	l.store(ctx, fine)
	if len(suspects) == 0 {
		return
	}
	free, err := l.settle(ctx, suspects)
	if err != nil {
		l.giveUp(free, false, wire.Busy, err)
		return
	}
	l.store(ctx, free)
}

// store makes one atomic batch of a group. What another writer overtook is settled by reading and leaves the group; the others go
// again.
func (l *lane) store(ctx context.Context, group []*request) {
	maybe := false // an earlier attempt may be in the log, now or later
	for attempt := 1; len(group) > 0; attempt++ {
		last, err := l.publish(ctx, group)
		conflict, ambiguous := errors.Is(err, bus.ErrConflict), errors.Is(err, bus.ErrAmbiguous)
		maybe = maybe || ambiguous
		switch {
		case err == nil:
			l.stored(group, last)
			return
		case errors.Is(err, bus.ErrTooLarge) && len(group) > 1 && !maybe: // one of them is, and not the others
			half := len(group) / 2
			l.store(ctx, group[:half])
			l.store(ctx, group[half:])
			return
		case !conflict && !ambiguous:
			l.giveUp(group, maybe, wire.Failed, err)
			return
		}
		if group, err = l.settle(ctx, group); err != nil || attempt == maxAttempts {
			l.giveUp(group, maybe, wire.Busy, err)
			return
		}
	}
}

func (l *lane) publish(ctx context.Context, group []*request) (last uint64, err error) {
	ps := make([]bus.Publication, 0, maxCommit)
	for _, r := range group {
		ps = r.publications(ps)
	}
	last, err = l.in.log.PublishBatch(ctx, ps)
	l.in.metrics.Size.Observe(float64(len(ps)))
	result := wire.Failed
	switch {
	case err == nil:
		result = wire.Stored
	case errors.Is(err, bus.ErrConflict):
		result = wire.Conflict
	case errors.Is(err, bus.ErrAmbiguous):
		result = wire.Unknown
	}
	l.in.metrics.Commits.WithLabelValues(result.String()).Inc()
	return last, err
}

// stored answers a commit. Its messages stand side by side and end at last.
func (l *lane) stored(group []*request, last uint64) {
	for i := len(group) - 1; i >= 0; i-- {
		l.in.metrics.Batches.Add(float64(len(group[i].batches)))
		l.in.metrics.Bytes.Add(float64(group[i].bytes))
		l.decided(group[i], verdict{wire.Stored, last})
		last -= uint64(len(group[i].batches))
	}
}

// giveUp answers what could not be settled. A person has to know why.
func (l *lane) giveUp(group []*request, maybe bool, outcome wire.Outcome, err error) {
	if len(group) == 0 { // the last attempt's reading decided all
		return
	}
	if maybe {
		outcome = wire.Unknown
	}
	detail := "the log changed under every attempt"
	if err != nil {
		detail = err.Error()
	}
	l.in.teller.tell(slog.LevelError, outcome.String(), "nodes are told to send again", len(group), "outcome", outcome.String(), "error", detail)
	for _, r := range group {
		l.in.answer(r, wire.Answer{Outcome: outcome, Detail: detail})
	}
}
