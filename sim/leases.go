package sim

import (
	"fmt"

	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// lease draws one lease from its start to its end.
func (a *author) lease(i int) {
	id := fmt.Sprintf("L%d", i)
	group := "lease " + id
	placed := !a.one(4)
	at := a.from + a.dice.Int64N(a.to-a.from)
	if a.one(2) {
		at = a.edge() - a.dice.Int64N(600)
	}
	if a.one(8) {
		at = a.edge() // starts exactly with an hour
	}
	customer := a.dice.IntN(a.contracts)
	if a.one(15) {
		customer = a.dice.IntN(3) // perhaps one without a contract
	}
	start := &fact.LeaseStarted{
		Lease: id, Customer: fmt.Sprintf("customer%d", customer), SKU: pick(a.dice, "h100", "h100", "h100", "h100", "a100", "a100", "a100", "x9"), PricingMode: "on_demand",
		Region: pick(a.dice, "east", "east", "west", "west", "west", "north"), Dedicated: a.one(5), At: span.Second(at),
	}
	if a.one(2) {
		start.Contract = fmt.Sprintf("c%d", customer)
	}
	start.Devices, start.Count, start.ShareMilli = a.holding(placed)
	a.state(at, group, id, start, func() fact.Body {
		other := *start
		other.At += 7
		return &other
	})
	if a.one(12) {
		a.stop(id, group, at)
		return
	}
	if a.one(15) { // a statement about a time before the start
		a.state(at, group, id+"/early", &fact.LeaseResized{Lease: id, At: span.Second(at - 9), Count: 1, ShareMilli: 500}, nil)
	}
	at = a.changes(id, group, placed, at)
	if a.one(6) {
		from := at - a.dice.Int64N(hour)
		a.state(at, group, id+"/waived", &fact.RefusalWaived{Lease: id, From: span.Second(from), To: span.Second(from + 1 + a.dice.Int64N(hour)), By: "sales"}, nil)
	}
	a.stop(id, group, at+1+a.dice.Int64N(1500))
}

func (a *author) changes(id, group string, placed bool, at int64) int64 {
	suspended := false
	for k := range a.dice.IntN(4) {
		at += 1 + pick(a.dice, a.dice.Int64N(60), a.dice.Int64N(600), a.dice.Int64N(1500))
		key := fmt.Sprintf("%s/%d", id, k)
		if a.one(2) {
			resize := func() fact.Body {
				b := &fact.LeaseResized{Lease: id, At: span.Second(at)}
				b.Devices, b.Count, b.ShareMilli = a.holding(placed)
				return b
			}
			a.state(at, group, key, resize(), resize)
			continue
		}
		if a.one(6) && !suspended { // a fault ends it; running again has no minimum
			a.state(at, group, key, &fact.LeaseStopped{Lease: id, At: span.Second(at), By: fact.ByFault}, nil)
			suspended = true
			continue
		}
		state := fact.Suspended
		if suspended {
			state = fact.Running
		}
		suspended = !suspended
		a.state(at, group, key, &fact.LeaseStateChanged{Lease: id, At: span.Second(at), State: state}, nil)
	}
	return at
}

func (a *author) stop(id, group string, at int64) {
	by := pick(a.dice, fact.ByCustomer, fact.ByCustomer, fact.ByProvider, fact.ByFault, fact.ByArrears, fact.ByExpired)
	body := &fact.LeaseStopped{Lease: id, At: span.Second(at), By: by}
	a.state(at, group, id+"/stop", body, func() fact.Body {
		other := *body
		other.At += 60
		return &other
	})
}

func (a *author) holding(placed bool) (devices []fact.Share, count, share int64) {
	milli := func() int64 { return pick(a.dice, int64(1000), 1000, 500, 250, 143) }
	if !placed {
		return nil, 1 + a.dice.Int64N(4), milli()
	}
	n := &a.nodes[a.dice.IntN(len(a.nodes))]
	both := a.one(2)
	first := a.dice.IntN(2)
	for k := range 2 {
		if both || k == first {
			devices = append(devices, fact.Share{Node: n.name, Device: n.device(k), ShareMilli: milli()})
		}
	}
	return devices, 0, 0
}
