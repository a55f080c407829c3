package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// Ask sends a question to whoever serves its subject and returns the answer. Neither is in the log. Errors: ErrAmbiguous when
// the question left and no answer came; any other error means that nobody got it.
func (b *Bus) Ask(ctx context.Context, subject string, question []byte) ([]byte, error) {
	if err := b.alive(ctx); err != nil {
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	}
	reply, err := b.request(ctx, &nats.Msg{Subject: subject, Data: question})
	switch {
	case err == nil:
		return reply.Data, nil
	case errors.Is(err, nats.ErrNoResponders): // no stream is missing here, as it is where a publication finds nobody
		return nil, fmt.Errorf("ask %s: nobody serves it, or this account does not import it: %w", subject, nats.ErrNoResponders)
	case neverLeft(err):
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	default:
		return nil, fmt.Errorf("ask %s: %w: %w", subject, bus.ErrAmbiguous, err)
	}
}

// neverLeft tells of an error that came before anybody could take the message.
func neverLeft(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrMaxPayload) ||
		errors.Is(err, bus.ErrDenied)
}

// answerable tells an inbox from any other subject: who asks names where the answer goes, and it is sent with our rights, not with
// the asker's. Across accounts the server puts a subject of its own there.
func answerable(reply string) bool {
	return strings.HasPrefix(reply, "_INBOX") || strings.HasPrefix(reply, "_R_.")
}

// Serve hands every question on a subject, which may have wildcards, to take; of all that serve under one name one gets it.
// take runs in one goroutine and must not block: the server drops the connection of one that does not read. It owns the data,
// and may answer from any goroutine. A question that names no inbox for its answer is dropped. stop ends it: it returns once take was called with all that arrived, or with ctx.
func (b *Bus) Serve(subject, name string, take func(subject string, data []byte, answer func([]byte) error)) (stop func(context.Context) error, err error) {
	sub, err := b.nc.QueueSubscribe(subject, name, func(m *nats.Msg) {
		if answerable(m.Reply) {
			take(m.Subject, m.Data, m.Respond)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", subject, b.explain(context.Background(), err))
	}
	ended := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(ended) })
	if err := b.heard(subject); err != nil {
		return nil, errors.Join(fmt.Errorf("serve %s: %w", subject, err), sub.Unsubscribe())
	}
	return func(ctx context.Context) error {
		leave := sub.Drain
		if !b.nc.IsConnected() { // nobody would hear an answer, and there is no server to end it with
			leave = sub.Unsubscribe
		}
		if err := leave(); err != nil {
			return fmt.Errorf("end serving %s: %w", subject, b.explain(ctx, err))
		}
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("end serving %s: %w", subject, ctx.Err())
		}
	}, nil
}

// heard waits until the server has a subscription. One that it refuses would wait for questions for ever.
func (b *Bus) heard(subject string) error {
	if err := b.nc.FlushTimeout(requestTimeout); err != nil {
		return b.explain(context.Background(), err)
	}
	why := b.nc.LastError()
	if why == nil {
		return nil
	}
	if refused := deniedSubscribe.FindStringSubmatch(why.Error()); refused != nil && refused[1] == subject {
		return fmt.Errorf("the user of this connection may not hear it (deploy/nats says who may what): %w", bus.ErrDenied)
	}
	return nil
}
