package spool

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// End is how a node's newest batch leaves it, so that the next run can say what lies between. The zero value is unknown.
type End struct {
	Boot    string
	At      span.Second // first second after the newest batch
	Stopped bool        // Stop came after it: the collector was ended as it should be
	Began   Began       // behind the newest batch; zero when no run did
}

// Began is a run of which no batch is here: it was in a boot, and sampled from a second on.
type Began struct {
	Boot string
	At   span.Second
}

func endOf(b *usage.Batch) End {
	end := End{Boot: b.Boot, At: b.Last() + 1}
	for _, g := range b.Gaps { // a thinned batch speaks for its first second only
		end.At = max(end.At, g.To)
	}
	return end
}

// End is how the newest batch of a node leaves it.
func (s *Spool) End(name string) End {
	defer s.enter()()
	if n := s.nodes[name]; n != nil {
		return n.end
	}
	return End{}
}

// Stop records that all nodes end here as they should, and syncs it.
func (s *Spool) Stop() error {
	defer s.enter()()
	if s.broken {
		return fmt.Errorf("record the stop: %w", ErrBroken)
	}
	for _, n := range s.order {
		if n.end.Began.At == 0 { // else that run was killed: one that is stopped has stored its batches
			n.end.Stopped = n.end.At > 0
		}
	}
	data := appendRecord(s.scratch[:0], kindStop, s.appendEnds)
	s.scratch = data
	if err := s.write(s.segments[len(s.segments)-1], data, true); err != nil {
		return fmt.Errorf("record the stop: %w", err)
	}
	return nil
}

func (s *Spool) appendEnds(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.order)))
	for _, n := range s.order {
		stopped := uint64(0)
		if n.end.Stopped {
			stopped = 1
		}
		dst = appendText(appendText(dst, n.name), n.end.Boot)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(n.end.At)), stopped)
	}
	return dst
}

func (p *parser) ends(s *Spool) {
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		name := p.text()
		end := End{Boot: p.text(), At: span.Second(p.uvarint()), Stopped: p.uvarint() == 1}
		if !p.bad {
			known := s.node(name)
			end.Began = known.end.Began
			known.end = end
		}
	}
}

// Begin records that a run samples from a second on that lies behind the newest batch, or, when the clock was set back, before its
// end, and syncs it: a run that is killed before its first batch would leave no trace otherwise. Where it is already known that one
// began, nothing is written, so a collector that dies again and again does not fill the spool.
func (s *Spool) Begin(name, boot string, at span.Second) error {
	defer s.enter()()
	if s.broken {
		return fmt.Errorf("record the beginning: %w", ErrBroken)
	}
	n := s.node(name)
	if known := n.end.Began.At; known > 0 && known <= at {
		return nil
	}
	began := Began{Boot: boot, At: at}
	data := appendRecord(s.scratch[:0], kindBegin, func(dst []byte) []byte { return appendBegan(dst, name, began) })
	s.scratch = data
	if err := s.write(s.segments[len(s.segments)-1], data, true); err != nil {
		return fmt.Errorf("record the beginning: %w", err)
	}
	n.end.Began = began
	return nil
}

func appendBegan(dst []byte, name string, b Began) []byte {
	return binary.AppendUvarint(appendText(appendText(dst, name), b.Boot), uint64(b.At))
}

func (p *parser) began(s *Spool) {
	name, began := p.text(), Began{Boot: p.text(), At: span.Second(p.uvarint())}
	if !p.bad {
		s.node(name).end.Began = began
	}
}

// appendAllBegan is the last part of a state record. As a rule it is not there: a segment is begun for a batch.
func (s *Spool) appendAllBegan(dst []byte) []byte {
	for _, n := range s.order {
		if n.end.Began.At > 0 {
			dst = appendBegan(dst, n.name, n.end.Began)
		}
	}
	return dst
}

// errSigned keeps signatures out: a batch is signed when it is published, with the key of that time.
var errSigned = errors.New("a signed batch has no place in the spool")
