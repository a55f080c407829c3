package openb

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// What the facts say of every lease.
const (
	SKU         = "openb-gpu"
	PricingMode = "on_demand"
)

// DemoStart is the stated start date of the demo's trace: 2026-01-01T00:00:00+08:00.
const DemoStart span.Second = 1767196800

// Import is the facts of a trace and what was counted on the way.
type Import struct {
	Facts          []fact.Fact // in order of time; at one instant stops before starts
	Leases         int
	Unplaced       int // leases among them that fit on no node at their start
	NoGPU          int // pods that use none
	NeverScheduled int // pods that ask for GPUs and never ran
}

// Customers are the customers of the facts, in order.
func Customers() []string {
	names := make([]string, 0, len(customers))
	for _, c := range customers {
		names = append(names, c)
	}
	slices.Sort(names)
	return names
}

// event is a start or a stop on its way into order.
type event struct {
	at   int64
	rank int // of equal instants: 0 stops, 1 starts, so that what is freed can be taken
	pod  int
}

const (
	rankStop = iota
	rankStart
)

// Import turns the pods into facts. Keys and order depend on the files and start alone.
func (t *Trace) Import(start span.Second) (*Import, error) {
	im := &Import{}
	events := t.events(im)
	c := newCluster(t.Nodes)
	placed := map[int][]fact.Share{}
	for _, e := range events {
		p := &t.Pods[e.pod]
		at := start + span.Second(e.at)
		if e.rank == rankStop {
			c.free(placed[e.pod])
			im.add(p.stopped(at))
			continue
		}
		shares := c.place(p.GPUs, p.GPUMilli)
		if shares == nil {
			im.Unplaced++
		}
		im.add(p.started(at, shares))
		if p.End == p.Start {
			im.add(p.stopped(at))
			continue
		}
		c.take(shares)
		placed[e.pod] = shares
	}
	for i := range im.Facts {
		if err := im.Facts[i].Body.Validate(); err != nil {
			return nil, fmt.Errorf("fact %s: %w", im.Facts[i].Key, err)
		}
	}
	return im, nil
}

func (t *Trace) events(im *Import) []event {
	var events []event
	for i, p := range t.Pods {
		switch {
		case p.GPUs == 0:
			im.NoGPU++
		case !p.Scheduled:
			im.NeverScheduled++
		default:
			im.Leases++
			events = append(events, event{p.Start, rankStart, i})
			if p.End > p.Start {
				events = append(events, event{p.End, rankStop, i})
			}
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank), cmp.Compare(a.pod, b.pod))
	})
	return events
}

func (im *Import) add(key string, body fact.Body) {
	im.Facts = append(im.Facts, fact.Fact{Key: key, Hash: fact.HashJSON(body), Body: body})
}

func (p *Pod) started(at span.Second, shares []fact.Share) (string, fact.Body) {
	b := &fact.LeaseStarted{
		Lease: p.Name, Customer: customers[p.QoS], SKU: SKU, PricingMode: PricingMode, At: at, Devices: shares,
		Labels: map[string]string{"qos": p.QoS, "phase": p.Phase},
	}
	if shares == nil {
		b.Count, b.ShareMilli = p.GPUs, p.GPUMilli
	}
	return "openb/" + p.Name + "/started", b
}

func (p *Pod) stopped(at span.Second) (string, fact.Body) {
	return "openb/" + p.Name + "/stopped", &fact.LeaseStopped{Lease: p.Name, At: at, By: fact.ByCustomer}
}
