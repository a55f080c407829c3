package ingest

import (
	"fmt"
	"time"

	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
	"github.com/gpuhour/gpuhour/services/ingest/wire"
)

// request is one node's, from its arrival to its answer.
type request struct {
	subject string // of its batches, and so the node's name here
	data    []byte
	reply   func([]byte) error
	arrived time.Time
	lane    *lane

	expect  uint64
	batches [][]byte
	bytes   int // of the batches
}

// parse reads and judges a publication as the log's readers will: what they would quarantine is refused.
func (r *request) parse() error {
	w, err := wire.ParseRequest(r.data)
	if err != nil {
		return err
	}
	for i, data := range w.Batches {
		p := bus.Publication{Subject: r.subject, Data: data}
		if _, err := p.Check(); err != nil {
			return fmt.Errorf("batch %d of %d: %w", i+1, len(w.Batches), err)
		}
		if _, q := codec.DecodeBatch(bus.Message{Subject: r.subject, Data: data}); q != nil {
			return fmt.Errorf("batch %d of %d: %w", i+1, len(w.Batches), q)
		}
		r.bytes += len(data)
	}
	r.expect, r.batches = w.ExpectLast, w.Batches
	return nil
}

// publications appends the request's messages to ps. Only the first expects: the others follow it in the same atomic batch.
func (r *request) publications(ps []bus.Publication) []bus.Publication {
	for i, data := range r.batches {
		p := bus.Publication{Subject: r.subject, Data: data}
		if i == 0 {
			p.ExpectLast = &r.expect
		}
		ps = append(ps, p)
	}
	return ps
}
