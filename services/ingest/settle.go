package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// settlers is how many subjects are read at once.
const settlers = 16

// verdict is what a subject says of a request: Stored or Conflict with where it stands, or 0, when the place that the request
// expects is still free.
type verdict struct {
	outcome  wire.Outcome
	position uint64
}

// settle reads where each node of a group stands, answers those that are decided by it, and returns those that may still be
// stored. After an error it returns all that it could not decide.
func (l *lane) settle(ctx context.Context, group []*request) (free []*request, err error) {
	verdicts, errs := make([]verdict, len(group)), make([]error, len(group))
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range min(settlers, len(group)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(group); i = int(next.Add(1)) - 1 {
				if failed.Load() { // the log does not answer; one wait for it is enough
					continue
				}
				verdicts[i], errs[i] = l.in.judge(ctx, group[i])
				if errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for i, r := range group {
		if verdicts[i].outcome == 0 {
			free = append(free, r)
			continue
		}
		l.decided(r, verdicts[i])
	}
	for _, err := range errs {
		if err != nil {
			return free, err // the others say the same
		}
	}
	return free, nil
}

// apart splits a group into those of which nothing is feared, and those that are read before they are committed: the log will refuse
// them for certain, or they caused a conflict lately.
func (l *lane) apart(group []*request) (fine, suspects []*request) {
	fine = group[:0]
	for _, r := range group {
		if k, ok := l.known[r.subject]; ok && (k.doubt > 0 || r.expect < k.position) {
			suspects = append(suspects, r)
		} else {
			fine = append(fine, r)
		}
	}
	return fine, suspects
}

// decided remembers where a node stands and answers it.
func (l *lane) decided(r *request, v verdict) {
	if len(l.known) >= maxKnown {
		clear(l.known) // it is a cache
	}
	doubt := doubts
	if v.outcome != wire.Conflict {
		doubt = max(l.known[r.subject].doubt-1, 0)
	}
	l.known[r.subject] = known{v.position, doubt}
	l.in.answer(r, wire.Answer{Outcome: v.outcome, Position: v.position})
}

// judge compares what stands with a request. The log's word is enough: that the request's own bytes are all that follows the
// message it expects can only come from an earlier attempt of it, whoever made that.
func (in *Ingest) judge(ctx context.Context, r *request) (verdict, error) {
	m, err := in.last(ctx, r.subject)
	if err != nil || m.Seq == r.expect {
		return verdict{}, err
	}
	if n := len(r.batches); m.Seq > r.expect && bytes.Equal(m.Data, r.batches[n-1]) {
		stands := n == 1
		if !stands {
			stands, err = in.stands(ctx, r)
		}
		if err != nil || stands {
			return verdict{wire.Stored, m.Seq}, err
		}
	}
	return verdict{wire.Conflict, m.Seq}, nil
}

// stands tells whether a request's batches are what follows the message that it expects.
func (in *Ingest) stands(ctx context.Context, r *request) (bool, error) {
	after := r.expect
	for at := 0; at < len(r.batches); {
		held, err := in.log.ReadSubject(ctx, bus.Usage, r.subject, after, len(r.batches)-at)
		if errors.Is(err, bus.ErrGap) {
			return false, nil // archived: the node settles it with its spool
		}
		if err != nil || len(held) == 0 {
			return false, err
		}
		for _, m := range held {
			if !bytes.Equal(m.Data, r.batches[at]) {
				return false, nil
			}
			at++
		}
		after = held[len(held)-1].Seq
	}
	return true, nil
}

// last is a subject's last message, the zero one when it has none.
func (in *Ingest) last(ctx context.Context, subject string) (bus.Message, error) {
	m, err := in.log.Last(ctx, subject)
	if errors.Is(err, bus.ErrNotFound) {
		return bus.Message{}, nil
	}
	return m, err
}

// standing answers what the log holds last of a node.
func (in *Ingest) standing(ctx context.Context, r *request) wire.Answer {
	if _, err := wire.ParseRequest(r.data); err != nil {
		return wire.Answer{Outcome: wire.Refused, Detail: err.Error()}
	}
	m, err := in.last(ctx, r.subject)
	if err != nil {
		return wire.Answer{Outcome: wire.Failed, Detail: fmt.Sprintf("read the last message of %s: %v", r.subject, err)}
	}
	return wire.Answer{Outcome: wire.Held, Position: m.Seq, Batch: m.Data}
}

// answer lets the node's next request in and then answers, so that it may follow at once.
func (in *Ingest) answer(r *request, a wire.Answer) {
	if r.lane != nil {
		r.lane.leave(r)
	}
	in.hold(-len(r.data))
	in.metrics.Requests.WithLabelValues(a.Outcome.String()).Inc()
	in.metrics.Answer.Observe(time.Since(r.arrived).Seconds())
	switch a.Outcome {
	case wire.Refused:
		in.teller.tell(slog.LevelWarn, "refused", "a node sends what the log's readers would not take", 1, "one_on", r.subject, "reason", a.Detail)
	case wire.Conflict:
		in.teller.tell(slog.LevelWarn, "conflict", "another writer overtook a node; if it goes on, it is cloned", 1, "one_on", r.subject, "expected", r.expect, "found", a.Position)
	default:
	}
	if err := r.reply(a.Append(nil)); err != nil {
		in.metrics.Lost.Inc()
	}
}
