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
		n.end.Stopped = n.end.At > 0
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
			s.node(name).end = end
		}
	}
}

// errSigned keeps signatures out: a batch is signed when it is published, with the key of that time.
var errSigned = errors.New("a signed batch has no place in the spool")
