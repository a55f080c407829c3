package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/gpuhour/gpuhour/platform/bus"
)

// Headers of a publication (nats-server, stream.go). They are stored, and left out when read.
const (
	headerExpectLast  = "Nats-Expected-Last-Subject-Sequence"
	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// Errors of the JetStream API (nats-server, errors.json).
const (
	codeWrongLast         jetstream.ErrorCode = 10071 // names the sequence it found
	codeWrongLastInFlight jetstream.ErrorCode = 10164 // another publication on the subject is not settled yet
	codeAccountFull       jetstream.ErrorCode = 10002
	codeServerFull        jetstream.ErrorCode = 10023
	codeStorageFull       jetstream.ErrorCode = 10047
	codeStoreFailed       jetstream.ErrorCode = 10077
	codeMessageTooLarge   jetstream.ErrorCode = 10054
	codeHeaderTooLarge    jetstream.ErrorCode = 10097
	codeBatchTooLarge     jetstream.ErrorCode = 10199
	codeBatchIncomplete   jetstream.ErrorCode = 10176 // also when a message of it could not be written
)

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, p bus.Publication) (uint64, error) {
	stream, err := p.Check()
	if err != nil {
		return 0, err
	}
	seq, err := b.commit(ctx, encode(p), stream, 1)
	if err != nil {
		return 0, fmt.Errorf("publish %s: %w", p.Subject, b.withDisk(withExpectation(err, p)))
	}
	return seq, nil
}

// PublishBatch implements bus.Bus. The server answers the first and the last message only: the first
// so that a refusal to begin has its own error, the last is the commit. Everything before the commit
// leaves nothing behind when it fails; the server drops an unfinished batch after 10 seconds.
func (b *Bus) PublishBatch(ctx context.Context, ps []bus.Publication) (uint64, error) {
	stream, err := bus.CheckBatch(ps)
	if err != nil {
		return 0, err
	}
	id := nuid.Next()
	for i, p := range ps {
		m := encode(p)
		m.Header.Set(headerBatch, id)
		m.Header.Set(headerBatchSeq, strconv.Itoa(i+1))
		switch {
		case i == len(ps)-1:
			m.Header.Set(headerBatchCommit, "1")
			last, err := b.commit(ctx, m, stream, len(ps))
			if err != nil {
				return 0, fmt.Errorf("publish batch of %d from %s: %w", len(ps), ps[0].Subject, b.withDisk(withExpectation(err, ps...)))
			}
			return last, nil
		case i == 0:
			err = b.begin(ctx, m)
		default:
			err = b.explain(ctx, b.nc.PublishMsg(m))
		}
		if err != nil {
			return 0, fmt.Errorf("publish batch of %d from %s: message %d: %w", len(ps), ps[0].Subject, i+1, b.withDisk(err))
		}
	}
	panic("unreachable: a batch has a last message")
}

// begin sends the first message of a batch. Its answer is empty, or a refusal.
func (b *Bus) begin(ctx context.Context, m *nats.Msg) error {
	if err := b.writable(ctx); err != nil {
		return err
	}
	reply, err := b.tell(ctx, m)
	if err != nil || len(reply.Data) == 0 {
		return err
	}
	_, err = decodeAck(reply.Data)
	if err == nil {
		return fmt.Errorf("the server stored %s alone: it is older than 2.12, which cannot do atomic batches", m.Subject)
	}
	return err
}

// commit sends a message whose answer decides about count messages, and returns the last sequence.
func (b *Bus) commit(ctx context.Context, m *nats.Msg, stream string, count int) (uint64, error) {
	if err := b.writable(ctx); err != nil {
		return 0, err // before sending, so that nothing is ambiguous
	}
	reply, err := b.tell(ctx, m)
	switch {
	case err == nil:
	case neverLeft(err):
		return 0, err // it never left, or nobody was there to take it, or nobody may
	default:
		return 0, fmt.Errorf("%w: %w", bus.ErrAmbiguous, err)
	}
	ack, err := decodeAck(reply.Data)
	if err != nil {
		return 0, err
	}
	if ack.Stream != stream || ack.Duplicate || count > 1 && ack.Count != count {
		return 0, fmt.Errorf("%w: answer %s", bus.ErrAmbiguous, reply.Data)
	}
	b.wake()
	return ack.Seq, nil
}

type ack struct {
	apiError
	Stream    string `json:"stream"`
	Seq       uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
	Count     int    `json:"count"`
}

func decodeAck(data []byte) (ack, error) {
	var a ack
	if err := json.Unmarshal(data, &a); err != nil {
		return ack{}, fmt.Errorf("%w: answer %q: %w", bus.ErrAmbiguous, data, err)
	}
	if a.Error != nil {
		return ack{}, refusal(a.Error)
	}
	return a, nil
}

// refusal gives the server's error its meaning. Errors of the 500 class do not say whether the
// message is in the store or still on its way through a cluster.
func refusal(e *jetstream.APIError) error {
	switch e.ErrorCode {
	case codeWrongLast, codeWrongLastInFlight:
		conflict := &bus.ConflictError{}
		if _, found, ok := strings.Cut(e.Description, ": "); ok {
			if actual, err := strconv.ParseUint(found, 10, 64); err == nil {
				conflict.Actual = &actual
			}
		}
		return conflict
	case codeMessageTooLarge, codeHeaderTooLarge, codeBatchTooLarge:
		return fmt.Errorf("%w: %w", bus.ErrTooLarge, e)
	case codeAccountFull, codeServerFull, codeStorageFull:
		return fmt.Errorf("%w: %w", bus.ErrFull, e)
	case codeStoreFailed:
		if strings.HasPrefix(e.Description, "maximum ") { // the stream's own limit, with Discard=New
			return fmt.Errorf("%w: %w", bus.ErrFull, e)
		}
	}
	if e.Code >= 500 {
		return fmt.Errorf("%w: %w", bus.ErrAmbiguous, e)
	}
	return e
}

// withDisk says that the disk is full, which the server does not. A batch that it could not keep until its end left nothing
// behind.
func (b *Bus) withDisk(err error) error {
	if b.dir == "" {
		return err
	}
	free, statErr := freeBytes(b.dir)
	if statErr != nil || free >= bus.MaxBatchBytes { // there is room for whatever it was
		return err
	}
	if isCode(err, codeBatchIncomplete) {
		err = fmt.Errorf("%w: %w", bus.ErrFull, err)
	}
	return fmt.Errorf("%w (the disk of %s has %d bytes left: make room)", err, b.dir, free)
}

// withExpectation completes a conflict when only one of the publications can have caused it.
func withExpectation(err error, ps ...bus.Publication) error {
	var conflict *bus.ConflictError
	if !errors.As(err, &conflict) {
		return err
	}
	var one *bus.Publication
	for i := range ps {
		if ps[i].ExpectLast == nil {
			continue
		}
		if one != nil {
			return err
		}
		one = &ps[i]
	}
	if one != nil {
		conflict.Subject, conflict.Expected = one.Subject, *one.ExpectLast
	}
	return err
}

func encode(p bus.Publication) *nats.Msg {
	header := make(nats.Header, len(p.Header)+4)
	for name, value := range p.Header {
		header.Set(name, value)
	}
	if p.ExpectLast != nil {
		header.Set(headerExpectLast, strconv.FormatUint(*p.ExpectLast, 10))
	}
	return &nats.Msg{Subject: p.Subject, Header: header, Data: p.Data}
}

// userHeader leaves out what the server and this package added.
func userHeader(header nats.Header) map[string]string {
	var out map[string]string
	for name, values := range header {
		if strings.HasPrefix(name, "Nats-") {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(header))
		}
		out[name] = values[0]
	}
	return out
}
