package quote

import (
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// gathered is what of a log's facts can matter to one customer's bill.
type gathered struct {
	customer  string
	facts     []fact.Fact // in the order of the log
	last      uint64      // position of the last fact
	until     span.Second
	customers map[string]bool               // that have leases
	started   map[string]*fact.LeaseStarted // the first of each lease
	held      map[string]map[string]bool    // the devices of each lease
	reclaims  []*fact.LeaseStopped          // by the provider
	devices   map[string]bool               // of the customer's leases
}

func newGathered(customer string) gathered {
	return gathered{
		customer: customer, customers: map[string]bool{}, started: map[string]*fact.LeaseStarted{}, held: map[string]map[string]bool{},
		devices: map[string]bool{},
	}
}

// take keeps a fact. What services decided is left out: a quote decides anew, and closes nothing.
func (g *gathered) take(f fact.Fact) {
	g.last = max(g.last, f.Seq)
	switch b := f.Body.(type) {
	case *fact.CutRequested, *fact.CutDone, *fact.PeriodClosed, *fact.InvoiceIssued, *fact.InvoiceRecovered, *fact.LogRecovered,
		*fact.AlertRaised, *fact.AlertResolved, *fact.CustomerHalted, *fact.RefusalCarried:
		return
	case *fact.NodeEnrolled, *fact.NodeRevoked: // batches are judged when they are gathered, and lose the blocks of others afterwards
		return
	case *fact.LeaseStarted:
		g.customers[b.Customer] = true
		if g.started[b.Lease] == nil {
			g.started[b.Lease] = b
		}
		g.hold(b.Lease, b.Devices)
	case *fact.LeaseResized:
		g.hold(b.Lease, b.Devices)
	case *fact.LeaseStopped:
		if b.By == fact.ByProvider {
			g.reclaims = append(g.reclaims, b)
		}
	}
	g.facts = append(g.facts, f)
}

func (g *gathered) hold(lease string, devices []fact.Share) {
	for _, d := range devices {
		if g.held[lease] == nil {
			g.held[lease] = map[string]bool{}
		}
		g.held[lease][d.Device] = true
	}
}

// settle drops the leases that share no device with the customer's: two leases meet on devices and nowhere else.
func (g *gathered) settle() {
	for lease, st := range g.started {
		if st.Customer == g.customer {
			for d := range g.held[lease] {
				g.devices[d] = true
			}
		}
	}
	g.facts = slices.DeleteFunc(g.facts, func(f fact.Fact) bool {
		switch f.Body.(type) {
		case *fact.LeaseStarted, *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped, *fact.RefusalWaived:
			return !g.concerns(f.Body.Entity())
		}
		return false
	})
}

func (g *gathered) concerns(lease string) bool {
	st := g.started[lease]
	if st == nil || st.Customer == g.customer {
		return st != nil
	}
	for d := range g.held[lease] {
		if g.devices[d] {
			return true
		}
	}
	return false
}

// terms are what the customer's leases are put under; the zero value leaves everything as the log has it.
type terms struct {
	contract *contract.Contract      // in place of the customer's own ones
	mode     func(sku string) string // the leases' pricing mode; nil for their own
	bare     bool                    // what was bought of the own contracts' packages is left out
}

// under is the log with the customer's leases under other terms: the leases and what was stated of the own contracts name the other
// one. Nothing of other customers changes.
func (g *gathered) under(t terms, known *contract.Register) []fact.Fact {
	if t.contract == nil {
		return slices.Clone(g.facts)
	}
	own := func(id string) bool { return known.Customer(id) == g.customer }
	sign := fact.Fact{Seq: g.last + 1, Key: "quote/sign", Body: signature(t.contract)}
	out := []fact.Fact{sign}
	for _, f := range g.facts {
		switch b := f.Body.(type) {
		case *fact.ContractSigned, *fact.ContractAmended, *fact.ContractTerminated:
			if own(b.Entity()) {
				continue
			}
		case *fact.LeaseStarted:
			if b.Customer == g.customer {
				moved := *b
				moved.Contract = t.contract.ID
				if t.mode != nil {
					moved.PricingMode = t.mode(b.SKU)
				}
				f.Body = &moved
			}
		case *fact.MeterRecorded:
			if own(b.Contract) {
				moved := *b
				moved.Contract = t.contract.ID
				f.Body = &moved
			}
		case *fact.PackagePurchased:
			if own(b.Contract) {
				if t.bare {
					continue
				}
				moved := *b
				moved.Contract = t.contract.ID
				f.Body = &moved
			}
		case *fact.PackageEnded:
			if own(b.Contract) {
				if t.bare {
					continue
				}
				moved := *b
				moved.Contract = t.contract.ID
				f.Body = &moved
			}
		}
		out = append(out, f)
	}
	return out
}

func signature(c *contract.Contract) *fact.ContractSigned {
	return &fact.ContractSigned{Contract: c.ID, Customer: c.Customer, Document: string(c.Source)}
}

// reclaimed lists when the provider took spot leases of a SKU in a region back, whoever's they were.
func (g *gathered) reclaimed(sku, region string) []*fact.LeaseStopped {
	var out []*fact.LeaseStopped
	for _, r := range g.reclaims {
		if st := g.started[r.Lease]; st != nil && st.PricingMode == price.Spot && st.SKU == sku && st.Region == region {
			out = append(out, r)
		}
	}
	return out
}
