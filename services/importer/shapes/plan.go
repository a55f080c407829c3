package shapes

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/services/collector"
	"github.com/gpuhour/gpuhour/services/collector/recorded"
)

// Node is a machine and its devices, in order.
type Node struct {
	Name    string
	Devices []string
}

// Plan says what to generate: every second of the window, for every node, under the leases of the facts. Leases on
// devices of other nodes and unplaced ones have no part in it.
type Plan struct {
	Nodes  []Node
	Window span.Span
	Facts  []fact.Fact
}

// Place is a device, or with no device a node, in a span of time. The zero Place is nowhere.
type Place struct {
	Node, Device string
	Span         span.Span
}

// Planted is what a meter must find in the samples.
type Planted struct{ Silent, Ghost, Leak, Unreadable Place }

// Lengths of what is planted, in seconds, and the distance of the times that are tried, from the middle of the window on.
const (
	silentSeconds     = 1200
	ghostSeconds      = 1800
	leakSeconds       = 3600
	unreadableSeconds = 600
	tryEvery          = 1800
)

const (
	cellSeconds = 33 // one gap in each
	maxGap      = 5
)

// Build returns a fresh source per node, in the plan's order, and what is planted in them.
func (p Plan) Build() ([]collector.Node, Planted, error) {
	s, err := readSeries()
	if err != nil {
		return nil, Planted{}, err
	}
	held := p.stretches()
	planted := p.plant(held)
	nodes := make([]collector.Node, 0, len(p.Nodes))
	for _, n := range p.Nodes {
		src := &recorded.Source{Window: p.Window, Slept: slept(n.Name, planted.Silent)}
		for _, name := range n.Devices {
			d := &device{
				name: name, seed: seed(name), series: s, window: p.Window, stretches: held[name],
				next: p.Window.From, minute: minute{at: -1},
			}
			d.ghost, d.leak, d.unreadable = planted.Ghost.on(name), planted.Leak.on(name), planted.Unreadable.on(name)
			src.Devices = append(src.Devices, d)
		}
		nodes = append(nodes, collector.Node{Name: n.Name, Source: src})
	}
	return nodes, planted, nil
}

func (p Place) on(device string) span.Span {
	if p.Device != device {
		return span.Span{}
	}
	return p.Span
}

// slept tells in which seconds a node's collector did not run.
func slept(node string, silent Place) func(span.Second) bool {
	s := seed(node)
	return func(at span.Second) bool {
		if silent.Node == node && silent.Span.Contains(at) {
			return true
		}
		h := hash(s, uint64(at)/cellSeconds)
		length := 1 + h%maxGap
		from := h >> 8 % (cellSeconds - length + 1)
		in := uint64(at) % cellSeconds
		return from <= in && in < from+length
	}
}

// stretches cuts the window, for each device of the plan, at the starts and stops of its leases.
func (p Plan) stretches() map[string][]stretch {
	type hold struct {
		span.Span
		load
	}
	holds := map[string][]hold{}
	for _, n := range p.Nodes {
		for _, d := range n.Devices {
			holds[d] = nil
		}
	}
	started := map[string]*fact.LeaseStarted{}
	end := func(lease string, at span.Second) {
		b := started[lease]
		if b == nil {
			return
		}
		for _, d := range b.Devices {
			s := span.Span{From: b.At, To: at}.Intersect(p.Window)
			if of, ours := holds[d.Device]; ours && !s.Empty() {
				holds[d.Device] = append(of, hold{s, load{lease, d.ShareMilli, seed(lease)}})
			}
		}
		delete(started, lease)
	}
	for _, f := range p.Facts {
		switch b := f.Body.(type) {
		case *fact.LeaseStarted:
			started[b.Lease] = b
		case *fact.LeaseStopped:
			end(b.Lease, b.At)
		}
	}
	for _, lease := range slices.Sorted(maps.Keys(started)) {
		end(lease, span.Open)
	}
	out := map[string][]stretch{}
	for name, of := range holds {
		cuts := []span.Second{p.Window.From, p.Window.To}
		for _, h := range of {
			cuts = append(cuts, h.From, h.To)
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		for i := range len(cuts) - 1 {
			st := stretch{Span: span.Span{From: cuts[i], To: cuts[i+1]}}
			for _, h := range of {
				if h.Overlaps(st.Span) {
					st.loads = append(st.loads, h.load)
				}
			}
			slices.SortFunc(st.loads, func(a, b load) int { return cmp.Compare(a.lease, b.lease) })
			out[name] = append(out[name], st)
		}
	}
	return out
}

// plant finds a place for each, on nodes of their own.
func (p Plan) plant(held map[string][]stretch) Planted {
	var out Planted
	used := map[string]bool{}
	find := func(seconds span.Second, leased bool) Place {
		middle := p.Window.From + (p.Window.To-p.Window.From)/2
		for from := middle; from+seconds <= p.Window.To; from += tryEvery {
			when := span.Span{From: from, To: from + seconds}
			for _, n := range p.Nodes {
				for _, d := range n.Devices {
					if !used[n.Name] && throughout(held[d], when, leased) {
						used[n.Name] = true
						return Place{n.Name, d, when}
					}
				}
			}
		}
		return Place{}
	}
	out.Silent = find(silentSeconds, true)
	out.Silent.Device = ""
	out.Ghost = find(ghostSeconds, true)
	out.Unreadable = find(unreadableSeconds, true)
	out.Leak = find(leakSeconds, false)
	return out
}

// throughout tells whether the device is leased, or free, in every second of when.
func throughout(of []stretch, when span.Span, leased bool) bool {
	for _, s := range of {
		if s.Overlaps(when) && (len(s.loads) > 0) != leased {
			return false
		}
	}
	return true
}
