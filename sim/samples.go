package sim

import (
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
	"github.com/gpuhour/gpuhour/platform/codec"
)

// What is known of a device in a second.
const (
	seen     = 1
	inferred = 2
)

// samples is what the log's batches say, second by second.
type samples struct {
	devices map[string]map[int64]reading
	spoken  map[string]map[int64]bool    // by node
	states  map[string]map[int64]byte    // seen or inferred
	runs    map[string]map[uint64]uint64 // by node and run: the last sequence
	lost    bool
	market  []usage.Batch // of the market's node, those that count
	// quarantined are messages that must not count, with the reason: those that nobody can read, and batches that spoke of more
	// than a minute after their tick.
	quarantined map[string]usage.QuarantineReason
}

// reading is the value of the lowest (run, sequence).
type reading struct {
	run, seq uint64
	busy     int64 // -1 is not readable
}

// listen reads the usage stream and holds it against what the machines said. Sequences have no hole unless batches were lost.
func listen(messages []bus.Message, story *story, lost bool) (*samples, error) {
	s := &samples{
		devices: map[string]map[int64]reading{}, spoken: map[string]map[int64]bool{}, states: map[string]map[int64]byte{},
		runs: map[string]map[uint64]uint64{}, lost: lost, quarantined: map[string]usage.QuarantineReason{},
	}
	type batch struct {
		seq uint64
		usage.Batch
	}
	var waiting []batch
	for _, m := range messages {
		if reason := story.expected(m); reason != "" {
			s.quarantined[fmt.Sprintf("usage/%d", m.Seq)] = reason
			continue
		}
		if m.Subject != bus.Tick {
			b, q := codec.DecodeBatch(m)
			if q != nil {
				return nil, fmt.Errorf("usage message %d: %w", m.Seq, q)
			}
			waiting = append(waiting, batch{m.Seq, b})
			continue
		}
		t, err := codec.DecodeTick(m)
		if err != nil {
			return nil, err
		}
		for i := range waiting {
			taken, err := s.take(&waiting[i].Batch, story.nodes, int64(t.At))
			if err != nil {
				return nil, err
			}
			if !taken {
				s.quarantined[fmt.Sprintf("usage/%d", waiting[i].seq)] = usage.AheadOfTick
			}
		}
		waiting = waiting[:0]
	}
	if len(waiting) > 0 {
		return nil, fmt.Errorf("%d batches stand after the last tick", len(waiting))
	}
	for device := range s.devices {
		s.infer(device)
	}
	return s, nil
}

// take tells whether the batch counts.
func (s *samples) take(b *usage.Batch, nodes []node, tick int64) (bool, error) {
	if s.runs[b.Node] == nil {
		s.runs[b.Node], s.spoken[b.Node] = map[uint64]uint64{}, map[int64]bool{}
	}
	if last := s.runs[b.Node][b.Run]; b.Seq > last+1 && !s.lost {
		return false, fmt.Errorf("node %s run %d: sequence %d follows %d", b.Node, b.Run, b.Seq, last)
	}
	s.runs[b.Node][b.Run] = max(s.runs[b.Node][b.Run], b.Seq)
	start := int64(b.Minute) * 60
	if start+int64(b.Spoken.Last()) > tick+60 {
		return false, nil
	}
	b.Spoken.Each(func(i int) { s.spoken[b.Node][start+int64(i)] = true })
	n := &nodes[slices.IndexFunc(nodes, func(n node) bool { return n.name == b.Node })]
	if b.Node == market {
		s.market = append(s.market, *b)
	}
	for _, raw := range b.Blocks {
		if err := s.takeBlock(b, n, raw, start); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *samples) takeBlock(b *usage.Batch, n *node, raw []byte, start int64) (err error) {
	var block usage.Block
	if err := block.Decode(raw); err != nil {
		return err
	}
	k := 0
	if block.Device == n.device(1) {
		k = 1
	}
	if s.devices[block.Device] == nil {
		s.devices[block.Device] = map[int64]reading{}
	}
	block.Seen.Each(func(i int) {
		at := start + int64(i)
		r := reading{b.Run, b.Seq, int64(block.Busy[i])}
		if block.Busy[i] == usage.BusyUnknown {
			r.busy = -1
		}
		if busy, there := n.says(k, at); !there || busy != r.busy {
			err = fmt.Errorf("%s at %s: the log says %d, the machine said %d (there %v)", block.Device, instantText(at), r.busy, busy, there)
		}
		old, known := s.devices[block.Device][at]
		if !known || r.run < old.run || r.run == old.run && r.seq < old.seq {
			s.devices[block.Device][at] = r
		}
	})
	return err
}

// infer calls an unseen second inferred when one run saw the device within ten seconds on both sides.
func (s *samples) infer(device string) {
	values := s.devices[device]
	states := map[int64]byte{}
	near := func(at, step int64) (reading, bool) {
		for i := int64(1); i <= 10; i++ {
			if r, ok := values[at+i*step]; ok {
				return r, true
			}
		}
		return reading{}, false
	}
	for at := range values {
		states[at] = seen
		for gap := at + 1; gap <= at+10; gap++ {
			if _, ok := values[gap]; ok {
				break
			}
			before, _ := near(gap, -1)
			if after, ok := near(gap, 1); ok && before.run == after.run {
				states[gap] = inferred
			}
		}
	}
	s.states[device] = states
}

// count is how many device-seconds were seen.
func (s *samples) count() (n int64) {
	for _, d := range s.devices {
		n += int64(len(d))
	}
	return n
}

// busy is how many seconds of a device were above five percent.
func (s *samples) busy(device string) (n int64) {
	for _, r := range s.devices[device] {
		if r.busy > 5 {
			n++
		}
	}
	return n
}
