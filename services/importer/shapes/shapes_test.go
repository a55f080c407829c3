package shapes

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/importer/openb"
)

func demoPlan(t testing.TB) Plan {
	t.Helper()
	trace, err := openb.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	im, err := trace.Import(openb.DemoStart)
	if err != nil {
		t.Fatal(err)
	}
	return DemoPlan(trace, im)
}

// tally is what a walk over all samples finds.
type tally struct {
	Samples, Spoken, Slept           int64
	Under60, Leased                  int64 // device-seconds
	Ghost, LeakBusy, Unreadable      int64 // of the planted places
	SilentSlept, IdleBusy, OverRange int64
	Digest                           uint64
}

// walk checks each reading against its neighbour before and counts.
func walk(t *testing.T, p Plan) (tally, Planted) {
	t.Helper()
	nodes, planted, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	held := p.stretches()
	var sum tally
	var readings []collector.Reading
	for _, n := range nodes {
		energy := map[string]int64{}
		for at := p.Window.From; at < p.Window.To; at++ {
			readings, err = n.Source.Sample(at, readings[:0])
			if errors.Is(err, collector.ErrSlept) {
				sum.Slept++
				if n.Name == planted.Silent.Node && planted.Silent.Span.Contains(at) {
					sum.SilentSlept++
				}
				continue
			}
			sum.Spoken++
			for i := range readings {
				r := &readings[i]
				sum.Samples++
				if r.Energy.Value <= energy[r.Device] {
					t.Fatalf("%s at %s: energy went from %d to %d", r.Device, at, energy[r.Device], r.Energy.Value)
				}
				energy[r.Device] = r.Energy.Value
				sum.device(r, at, planted, throughout(near(held[r.Device], at), span.Span{From: at, To: at + 1}, true))
			}
		}
	}
	return sum, planted
}

// near drops stretches before at, in place, so that a walk stays linear.
func near(of []stretch, at span.Second) []stretch {
	for len(of) > 1 && of[0].To <= at {
		of = of[1:]
	}
	return of[:1]
}

func (s *tally) device(r *collector.Reading, at span.Second, p Planted, leased bool) {
	s.Digest = hash(s.Digest, uint64(r.Busy.Value)^uint64(r.Memory.Value)<<1^uint64(r.Power.Value)<<2^uint64(r.Energy.Value)<<3)
	busy := r.Busy.Value
	if busy < 0 || busy > 100 || r.Memory.Value < idleMemory || r.Memory.Value > 81<<30 || r.Power.Value < idleMilliwatt || r.Power.Value > 410_000 {
		s.OverRange++
	}
	switch {
	case r.Device == p.Ghost.Device && p.Ghost.Span.Contains(at):
		s.Ghost++
	case r.Device == p.Leak.Device && p.Leak.Span.Contains(at):
		if busy > 90 {
			s.LeakBusy++
		}
	case !r.Busy.Read():
		s.Unreadable++
	case !leased:
		if busy > 1 {
			s.IdleBusy++
		}
	default:
		s.Leased++
		if busy < 60 {
			s.Under60++
		}
	}
}

func TestTheDemosWindow(t *testing.T) {
	p := demoPlan(t)
	sum, planted := walk(t, p)
	t.Logf("%+v\n%+v", sum, planted)
	if sum.Samples != DemoWindowSamples || sum.Samples < 10_000_000 {
		t.Errorf("the window has %d samples; DemoWindowSamples says %d", sum.Samples, DemoWindowSamples)
	}
	if d := cmp.Diff([4]int64{0, 0, 0, silentSeconds}, [4]int64{sum.Ghost, sum.IdleBusy, sum.OverRange, sum.SilentSlept}); d != "" {
		t.Error(d)
	}
	permille := func(part, of int64) int64 { return part * 1000 / of }
	if m := permille(sum.Slept, sum.Slept+sum.Spoken); m < 85 || m > 95 {
		t.Errorf("%d permille of seconds are missing; 90 are meant", m)
	}
	if m := permille(sum.Under60, sum.Leased); m < 300 || m > 900 {
		t.Errorf("%d permille of leased seconds are under 60 percent", m)
	}
	if sum.LeakBusy < leakSeconds*85/100 || sum.Unreadable < unreadableSeconds*85/100 || sum.Unreadable > unreadableSeconds {
		t.Errorf("leak busy in %d s, unreadable in %d s", sum.LeakBusy, sum.Unreadable)
	}
	devices, leases := 0, map[string]bool{}
	for _, n := range p.Nodes {
		devices += len(n.Devices)
	}
	for _, of := range p.stretches() {
		for _, s := range of {
			for _, l := range s.loads {
				leases[l.lease] = true
			}
		}
	}
	if d := cmp.Diff([]int{DemoWindowNodes, DemoWindowDevices, DemoWindowLeases}, []int{len(p.Nodes), devices, len(leases)}); d != "" {
		t.Error(d)
	}
}

func small() Plan {
	return Plan{
		Nodes: []Node{
			{"n0", []string{"n0/0", "n0/1"}}, {"n1", []string{"n1/0"}}, {"n2", []string{"n2/0"}}, {"n3", []string{"n3/0"}},
		},
		Window: span.Span{From: 7200, To: 7200 + 4*3600},
		Facts: []fact.Fact{
			{Body: &fact.LeaseStarted{Lease: "x", At: 100, Devices: []fact.Share{{Node: "n0", Device: "n0/0", ShareMilli: 500}, {Node: "n1", Device: "n1/0", ShareMilli: 1000}}}},
			{Body: &fact.LeaseStarted{Lease: "y", At: 200, Devices: []fact.Share{{Node: "n0", Device: "n0/0", ShareMilli: 500}, {Node: "n2", Device: "n2/0", ShareMilli: 1000}}}},
			{Body: &fact.LeaseStarted{Lease: "elsewhere", At: 200, Devices: []fact.Share{{Node: "z", Device: "z/0", ShareMilli: 1000}}}},
			{Body: &fact.LeaseStopped{Lease: "elsewhere", At: 9000}},
		},
	}
}

func TestTheSameEveryTime(t *testing.T) {
	a, first := walk(t, small())
	b, second := walk(t, small())
	if d := cmp.Diff(a, b) + cmp.Diff(first, second); d != "" {
		t.Fatal(d)
	}
	nodes, _, err := small().Build()
	if err != nil {
		t.Fatal(err)
	}
	var one, again []collector.Reading
	for _, at := range []span.Second{9001, 9002, 8000, 9001} { // the first answer does not depend on the walk
		got, err := nodes[1].Source.Sample(at, nil)
		if err != nil && !errors.Is(err, collector.ErrSlept) {
			t.Fatal(err)
		}
		if at == 9001 {
			one, again = again, got
		}
	}
	if d := cmp.Diff(one, again); d != "" || len(one) != 1 {
		t.Fatalf("%d readings; %s", len(one), d)
	}
}

func TestEachIsPlantedOnANodeOfItsOwn(t *testing.T) {
	_, planted, err := small().Build()
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds span.Second) span.Span { return span.Span{From: 14400, To: 14400 + seconds} }
	want := Planted{
		Silent: Place{"n0", "", at(silentSeconds)}, Ghost: Place{"n1", "n1/0", at(ghostSeconds)},
		Unreadable: Place{"n2", "n2/0", at(unreadableSeconds)}, Leak: Place{"n3", "n3/0", at(leakSeconds)},
	}
	if d := cmp.Diff(want, planted); d != "" {
		t.Fatal(d)
	}
}
