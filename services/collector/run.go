package collector

import (
	"errors"

	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/services/collector/spool"
)

// Run is one life of a collector on its nodes as far as closed batches: it samples and records, and waits for neither disk nor
// log. Engine moves its batches on in the same step, package live in goroutines of their own.
type Run struct {
	cfg       Config
	nodes     []Node
	recorders []*Recorder
	ends      []spool.End // of the runs before, until this run's first second
	readings  []Reading
	now       span.Second
	seen      uint64
	failed    uint64
}

// NewRun starts a run of every node: its number and its predecessor come from the spool.
func NewRun(cfg Config, nodes []Node, sp *spool.Spool) *Run {
	r := &Run{cfg: cfg, nodes: nodes}
	for _, n := range nodes {
		last := sp.Last(n.Name)
		r.recorders = append(r.recorders, NewRecorder(Identity{
			Node: n.Name, Boot: cfg.Boot, Run: max(last.Run+1, cfg.FirstRun), Previous: last, Clock: cfg.Clock,
		}))
		r.ends = append(r.ends, sp.End(n.Name))
	}
	return r
}

// between states what lies between the runs before and the first second of this one.
func (r *Run) between(i int, at span.Second) {
	end := r.ends[i]
	r.ends[i] = spool.End{}
	until := at
	if began := end.Began; began.At > 0 { // a run that was killed before its first batch
		until = min(at, began.At)
		r.recorders[i].Gap(began.At, at, r.died(began.Boot))
	}
	if end.At == 0 {
		return // the spool knows of no other run before
	}
	why := r.died(end.Boot)
	if end.Stopped {
		why = usage.GapStopped
	}
	r.recorders[i].Gap(end.At, until, why)
}

// died is why a run ended that was not stopped.
func (r *Run) died(boot string) usage.GapReason {
	if boot != r.cfg.Boot {
		return usage.GapRebooted
	}
	return usage.GapKilled
}

// Gap states why no node is seen from one second to another, with the next batches.
func (r *Run) Gap(from, to span.Second, why usage.GapReason) {
	for _, rec := range r.recorders {
		rec.Gap(from, to, why)
	}
}

// SetClock is the clock's evidence from now on.
func (r *Run) SetClock(c usage.ClockEvidence) {
	for _, rec := range r.recorders {
		rec.id.Clock = c
	}
}

// Samples counts the device-seconds that were seen and the node-seconds in which a source answered nothing.
func (r *Run) Samples() (seen, failed uint64) { return r.seen, r.failed }

// Now is the latest second that was sampled.
func (r *Run) Now() span.Second { return r.now }

// Unseen sums what the recorders of all nodes counted.
func (r *Run) Unseen() Unseen {
	sum := Unseen{map[usage.GapReason]uint64{}, map[usage.GapReason]uint64{}}
	for _, rec := range r.recorders {
		for why, n := range rec.unseen.Node {
			sum.Node[why] += n
		}
		for why, n := range rec.unseen.Device {
			sum.Device[why] += n
		}
	}
	return sum
}

// Dropped sums what no batch could carry, see Recorder.Dropped.
func (r *Run) Dropped() (sum uint64) {
	for _, rec := range r.recorders {
		sum += rec.dropped
	}
	return sum
}

// Sample asks every node about one second and appends the batches that it closes to out.
func (r *Run) Sample(at span.Second, out []usage.Batch) []usage.Batch {
	r.now = max(r.now, at)
	for i := range r.nodes {
		out = r.sample(i, at, out)
	}
	return out
}

func (r *Run) sample(i int, at span.Second, out []usage.Batch) []usage.Batch {
	readings, err := r.nodes[i].Source.Sample(at, r.readings[:0])
	r.readings = readings[:0]
	if errors.Is(err, ErrSlept) {
		return out
	}
	if err != nil {
		r.failed++
	}
	r.between(i, at)
	if d, ok := r.nodes[i].Source.(Described); ok {
		r.recorders[i].Found(d.Topology())
	}
	out = r.recorders[i].Record(at, readings, failure(err), out)
	for k := range readings {
		if err == nil && readings[k].Seen() {
			r.seen++
		}
	}
	return out
}

// Stop closes open batches at once and appends them to out.
func (r *Run) Stop(out []usage.Batch) []usage.Batch {
	for _, rec := range r.recorders {
		out = rec.Stop(out)
	}
	return out
}
