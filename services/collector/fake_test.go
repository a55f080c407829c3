package collector_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// stream is a log in memory. Before each publication it asks fault what to do.
type stream struct {
	held      []usage.Batch // Position is the index plus one
	fault     func() fault
	conflicts int
}

type fault int

const (
	fine     fault = iota
	lostAck        // stored, but the answer is lost
	lostCall       // not stored, and no answer
	died           // stored or not, the process dies: see stream.store
)

var errDied = errors.New("the process died here")

func (s *stream) last(node string) collector.Held {
	for i := len(s.held) - 1; i >= 0; i-- {
		if s.held[i].Node == node {
			return collector.Held{Batch: s.held[i], Position: uint64(i + 1)}
		}
	}
	return collector.Held{}
}

func (s *stream) Last(_ context.Context, node string) (collector.Held, error) {
	return s.last(node), nil
}

func (s *stream) Publish(_ context.Context, out []collector.Outgoing) (uint64, error) {
	if len(out) > collector.MaxPublish {
		return 0, errors.New("too many messages in one publication")
	}
	written := map[string]bool{}
	for _, o := range out {
		if o.ExpectLast == nil != written[o.Batch.Node] {
			return 0, errors.New("a publication expects on each subject exactly once, first")
		}
		if o.ExpectLast != nil && *o.ExpectLast != s.last(o.Batch.Node).Position {
			s.conflicts++
			return 0, collector.ErrConflict
		}
		written[o.Batch.Node] = true
	}
	f := fine
	if s.fault != nil {
		f = s.fault()
	}
	if f != lostCall {
		for _, o := range out {
			s.held = append(s.held, o.Batch)
		}
	}
	switch f {
	case fine:
		return uint64(len(s.held)), nil
	case died:
		return 0, errDied
	default:
		return 0, collector.ErrAmbiguous
	}
}

// devices is a source: it answers with busy = second of the minute for each name.
type devices struct {
	names []string
	fail  func(span.Second) error
}

func (d devices) Sample(at span.Second, into []collector.Reading) ([]collector.Reading, error) {
	if d.fail != nil {
		if err := d.fail(at); err != nil {
			return into, err
		}
	}
	for _, name := range d.names {
		into = append(into, collector.Reading{
			Device: name, Busy: collector.Known(int64(at) % 60), Memory: collector.Known(1 << 30),
			Power: collector.Known(70_000), Energy: collector.Known(int64(at) * 70_000), Throttle: collector.Unknown(usage.ReasonNotSupported),
		})
	}
	return into, nil
}

func openSpool(t testing.TB, path string) *spool.Spool {
	t.Helper()
	files, err := spool.Dir(path)
	check(t, err)
	s, err := spool.Open(files, spool.Options{})
	check(t, err)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

type second struct {
	Device string
	At     span.Second
}

// counted merges what the log holds as the rater does and returns every second seen with its value. A second that is
// in two rows of one run fails the test.
func counted(t *testing.T, batches []usage.Batch) map[second]uint8 {
	t.Helper()
	type key struct {
		node, device string
		minute       span.Minute
	}
	pieces := map[key][]usage.Piece{}
	for i := range batches {
		b := &batches[i]
		check(t, b.Validate())
		check(t, b.ValidateBlocks())
		for _, raw := range b.Blocks {
			device, err := usage.BlockDevice(raw)
			check(t, err)
			k := key{b.Node, device, b.Minute}
			pieces[k] = append(pieces[k], usage.Piece{Run: b.Run, Seq: b.Seq, Spoken: b.Spoken, Block: raw})
		}
	}
	seen := map[second]uint8{}
	for k, p := range pieces {
		var m usage.Minute
		for _, row := range usage.Rows(k.node, k.device, k.minute, p, nil) {
			m.AddRow(&row)
		}
		m.Seen.Each(func(i int) { seen[second{k.device, k.minute.Start() + span.Second(i)}] = m.Busy[i] })
	}
	return seen
}
