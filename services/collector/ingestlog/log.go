package ingestlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// Asker sends a request and returns its answer (natsbus.Bus). Its error is bus.ErrAmbiguous when the request left.
type Asker interface {
	Ask(ctx context.Context, subject string, question []byte) ([]byte, error)
}

// Errors of an ingest, in which the publisher finds nothing to settle: nothing was stored, and the spool keeps it.
var (
	ErrBusy    = errors.New("the ingest is busy; what waits stays in the spool and is sent again")
	ErrRefused = errors.New("the ingest refused the batches, and will again: upgrade it before its nodes, or report this")
	ErrFailed  = errors.New("the ingest could not store the batches; they stay in the spool and are sent again")
	errSeveral = errors.New("through an ingest one node publishes at a time; several nodes in one process need the log itself")
)

type log struct{ asker Asker }

// New is the log of one node behind an ingest.
func New(a Asker) collector.Log { return log{a} }

// Publish implements collector.Log for batches of one node. What does not fit into one request goes in several, each after
// the answer to the one before; when one of the later ones fails, ErrAmbiguous makes the publisher read how far it came.
func (l log) Publish(ctx context.Context, out []collector.Outgoing) (last uint64, err error) {
	if len(out) == 0 || out[0].ExpectLast == nil {
		return 0, fmt.Errorf("%w: a publication begins with an expectation", bus.ErrInvalid)
	}
	node := out[0].Batch.Node
	for i := range out {
		if other := out[i].Batch.Node; other != node {
			return 0, fmt.Errorf("publish as %s and %s: %w", node, other, errSeveral)
		}
	}
	last = *out[0].ExpectLast
	for done := 0; done < len(out); {
		request, n, err := next(out[done:], last)
		if err != nil {
			return 0, partly(done, len(out), err)
		}
		answer, err := l.ask(ctx, node, request)
		if err == nil && answer.Outcome != wire.Stored {
			err = fault(answer)
		}
		if err != nil {
			return 0, partly(done, len(out), err)
		}
		last, done = answer.Position, done+n
	}
	return last, nil
}

// partly is an error after some of the batches were stored.
func partly(done, of int, err error) error {
	if done == 0 || errors.Is(err, collector.ErrConflict) || errors.Is(err, collector.ErrAmbiguous) {
		return err
	}
	return fmt.Errorf("%w: %d of %d batches were, and then: %w", collector.ErrAmbiguous, done, of, err)
}

// next is a request of as many batches as fit, at least one.
func next(out []collector.Outgoing, last uint64) (request []byte, n int, err error) {
	w := wire.Request{Kind: wire.Publish, ExpectLast: last}
	size := len(w.Append(nil))
	for n < len(out) && n < wire.MaxBatches {
		p, err := codec.EncodeBatch(&out[n].Batch)
		if err != nil {
			return nil, 0, err
		}
		if size += wire.Size(len(p.Data)); size > wire.MaxBytes && n > 0 {
			break
		}
		w.Batches = append(w.Batches, p.Data)
		n++
	}
	return w.Append(nil), n, nil
}

// Last implements collector.Log.
func (l log) Last(ctx context.Context, node string) (collector.Held, error) {
	question := wire.Request{Kind: wire.Last}
	answer, err := l.ask(ctx, node, question.Append(nil))
	switch {
	case err != nil:
		return collector.Held{}, err
	case answer.Outcome != wire.Held:
		return collector.Held{}, fault(answer)
	case answer.Position == 0:
		return collector.Held{}, nil
	}
	subject := codec.UsageSubject(node)
	b, quarantine := codec.DecodeBatch(bus.Message{Subject: subject, Data: answer.Batch})
	if quarantine != nil {
		return collector.Held{}, fmt.Errorf("message %d on %s: %w", answer.Position, subject, quarantine)
	}
	return collector.Held{Batch: b, Position: answer.Position}, nil
}

func (l log) ask(ctx context.Context, node string, request []byte) (wire.Answer, error) {
	reply, err := l.asker.Ask(ctx, wire.Subject(codec.UsageSubject(node)), request)
	if errors.Is(err, bus.ErrAmbiguous) {
		return wire.Answer{}, fmt.Errorf("%w: %w", collector.ErrAmbiguous, err)
	}
	if err != nil {
		return wire.Answer{}, fmt.Errorf("%w; does `gpuhour ingest` run, and may this node send there?", err)
	}
	answer, err := wire.ParseAnswer(reply)
	if err != nil { // it came from something that may have stored them
		return wire.Answer{}, fmt.Errorf("%w: %w", collector.ErrAmbiguous, err)
	}
	return answer, nil
}

// fault is the error of an answer that is not the wanted one.
func fault(a wire.Answer) error {
	is := fmt.Errorf("%w: %w", collector.ErrAmbiguous, collector.ErrUntold)
	switch a.Outcome {
	case wire.Conflict:
		return fmt.Errorf("%w: it stands at %d", collector.ErrConflict, a.Position)
	case wire.Busy:
		is = declined(ErrBusy)
	case wire.Refused:
		is = declined(ErrRefused)
	case wire.Failed:
		is = declined(ErrFailed)
	case wire.Stored, wire.Held, wire.Unknown:
	}
	if a.Detail == "" {
		return is
	}
	return fmt.Errorf("%w: %s", is, a.Detail)
}

func declined(why error) error { return fmt.Errorf("%w: %w", collector.ErrDeclined, why) }
