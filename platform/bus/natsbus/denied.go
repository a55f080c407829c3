package natsbus

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// What the server says of a subject that a connection may not publish to, or not hear.
var (
	deniedPublish   = regexp.MustCompile(`Permissions Violation for Publish to "([^"]+)"`)
	deniedSubscribe = regexp.MustCompile(`Permissions Violation for Subscription to "([^"]+)"`)
)

// watchDenied takes what the server says apart from answers. It answers nothing to who may not ask, and the request would wait for
// its time to be over.
func (b *Bus) watchDenied(o *nats.Options) error {
	next := o.AsyncErrorCB
	o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) {
		b.denied(err)
		if next != nil {
			next(nc, sub, err)
		}
	}
	return nil
}

// denied ends the requests to a subject that the server refused; all of them when it does not let their answers through.
func (b *Bus) denied(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	publish, subscribe := deniedPublish.FindStringSubmatch(err.Error()), deniedSubscribe.FindStringSubmatch(err.Error())
	b.mu.Lock()
	defer b.mu.Unlock()
	for asked := range b.asked {
		switch {
		case publish != nil && publish[1] == asked.subject:
			asked.end(fmt.Errorf("the user of this connection may not publish to %s (deploy/nats says who may what): %w", asked.subject, bus.ErrDenied))
		case subscribe != nil: // what was asked may have been done all the same
			asked.end(fmt.Errorf("the user of this connection may not hear %s, where answers come: a node's user is for the collector of that node alone", subscribe[1]))
		}
	}
}

// request in flight.
type asked struct {
	subject string
	end     context.CancelCauseFunc
}

// askFor runs f with a context that ends when the server refuses the subject or its answer, with that as the error.
func (b *Bus) askFor(ctx context.Context, subject string, f func(context.Context) error) error {
	limited, end := context.WithCancelCause(ctx)
	defer end(nil)
	a := &asked{subject, end}
	b.mu.Lock()
	b.asked[a] = true
	b.mu.Unlock()
	err := f(limited)
	b.mu.Lock()
	delete(b.asked, a)
	b.mu.Unlock()
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return context.Cause(limited)
	}
	return err
}

// direct reads the last message of one subject by a request that permissions can hold to that subject. On a cluster a follower that is
// behind may answer with an older one; a publisher that expects it is refused by the leader, and asks again.
func (b *Bus) direct(ctx context.Context, stream, subject string) (bus.Message, error) {
	reply, err := b.request(ctx, &nats.Msg{Subject: directGet(stream, subject)})
	if err != nil {
		return bus.Message{}, fmt.Errorf("read last of %s in %s: %w", subject, stream, err)
	}
	switch status := reply.Header.Get("Status"); status {
	case "":
	case "404":
		return bus.Message{}, bus.ErrNotFound
	default:
		return bus.Message{}, fmt.Errorf("read last of %s in %s: the server answers %s %s", subject, stream, status, reply.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return bus.Message{}, fmt.Errorf("read last of %s in %s: its sequence: %w", subject, stream, err)
	}
	at, err := time.Parse(time.RFC3339Nano, reply.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return bus.Message{}, fmt.Errorf("read last of %s in %s: its time: %w", subject, stream, err)
	}
	return bus.Message{
		Stream: stream, Seq: seq, Subject: reply.Header.Get(jetstream.SubjectHeader), Header: userHeader(reply.Header), Data: reply.Data, Time: at.UTC(),
	}, nil
}
