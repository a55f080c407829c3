package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/contract/random"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/span"
)

// market is the customer whose contract can hold every clause of the language, with a machine of its own. The auditor's walk over
// the seconds knows nothing of either: core/slow judges them, see marketAudit.
const market = "market"

// writeMarket adds the market to some stories, from dice of its own.
func (a *author) writeMarket(seed uint64) {
	a.dice = rand.New(rand.NewPCG(seed, 5))
	if !a.one(10) {
		return
	}
	deal := random.Deal{
		Contract: market, Customer: market, Currency: pick(a.dice, "CNY", "USD", "JPY", "KWD"),
		From: time.Unix(a.from-a.dice.Int64N(4)*day, 0), Days: 4 + a.dice.IntN(8),
	}
	document := random.ContractOf(a.dice.IntN, deal)
	c, err := contract.Parse("market.yaml", []byte(document))
	if err != nil {
		return // two clauses that do not go together
	}
	a.market = true
	a.drawn["market"]++
	a.node(len(a.nodes))
	n := &a.nodes[len(a.nodes)-1]
	n.name, n.cloned = market, false
	for range a.dice.IntN(4) {
		from := a.edge() - a.dice.Int64N(1200)
		n.idle = append(n.idle, span.Span{From: span.Second(from), To: span.Second(from + 60 + a.dice.Int64N(3000))})
	}
	a.deal("contract", a.from-3*day-a.dice.Int64N(hour), &fact.ContractSigned{Contract: market, Customer: market, Document: document})
	a.renegotiate(c, deal)
	a.quotes(c)
	for range 2 + a.dice.IntN(4) {
		a.rent(c, n)
	}
	for _, p := range c.Packages {
		for range a.dice.IntN(3) {
			at := a.from + a.dice.Int64N(2*hour)
			a.deal("package", at, &fact.PackagePurchased{Contract: market, Package: p.Name, At: span.Second(at), Count: 1 + a.dice.Int64N(2)})
		}
	}
	for _, m := range c.Meters {
		for k := range a.dice.IntN(5) {
			at := a.from + a.dice.Int64N(2*hour)
			quantity := strconv.Itoa(pick(a.dice, k, k*100, a.dice.IntN(3000))) + pick(a.dice, "", ".5")
			a.deal("reading", at, &fact.MeterRecorded{Contract: market, Meter: m.Name, Resource: pick(a.dice, "r", "s"), At: span.Second(at), Quantity: quantity})
		}
	}
}

// renegotiate amends the market's contract: any clause, its zone and cycle, the end of its term.
func (a *author) renegotiate(c *contract.Contract, deal random.Deal) {
	versions := []*contract.Contract{c}
	for range a.dice.IntN(3) {
		other := deal
		if a.one(3) {
			other.Days = 4 + a.dice.IntN(8)
		}
		document := random.ContractOf(a.dice.IntN, other)
		next, err := contract.Parse("market.yaml", []byte(document))
		at := span.Second(a.from + a.dice.Int64N(a.to-a.from+day))
		if err != nil || at >= next.Term.To || slices.ContainsFunc(versions, func(v *contract.Contract) bool { return turns(v, next) }) {
			continue // it would be refused
		}
		versions = append(versions, next)
		a.drawn["amendment of the market"]++
		a.deal("amendment", int64(at)-pick(a.dice, 0, a.dice.Int64N(day)), &fact.ContractAmended{Contract: market, Effective: at, Document: document})
	}
}

// turns tells whether a contract cannot follow another: a SKU becomes a slice of another one, or a fee has another unit.
func turns(was, is *contract.Contract) bool { return contract.Unamendable(was, is) != "" }

// deal states something of the market under a name of its own.
func (a *author) deal(what string, at int64, body fact.Body) {
	a.deals++
	name := fmt.Sprintf("market %s %d", what, a.deals)
	a.state(at, name, name, body, nil)
}

// quotes publishes price books and spot prices, before and while the market runs.
func (a *author) quotes(c *contract.Contract) {
	early := a.from - 3*day
	when := func(k int) int64 {
		if k == 0 {
			return early
		}
		return a.from + a.dice.Int64N(2*hour)
	}
	for k := range 1 + a.dice.IntN(2) {
		text := "book: list-cn\ncurrency: " + c.Currency.String() + "\nrates:\n"
		for _, sku := range []string{"h100-80g", "a100", "mig-1g.10gb", "显卡 4090"} {
			text += fmt.Sprintf("  - {sku: %s, on_demand: %d.%02d/gpu-hour, region: {cn-east: 100%%, eu-1: %d%%}}\n", sku, a.dice.IntN(99), a.dice.IntN(100), a.dice.IntN(200))
		}
		at := when(k)
		a.deal("book", at, &fact.PriceBookPublished{Book: "list-cn", Effective: span.Second(at), Document: text})
	}
	for _, index := range []string{"h100-80g", "指数"} {
		for _, region := range []string{"", "cn-east", "cn-west", "eu-1"} {
			for k := range a.dice.IntN(3) {
				at := when(k)
				price := fmt.Sprintf("%d.%02d/gpu-%s", a.dice.IntN(60), a.dice.IntN(100), pick(a.dice, "hour", "hour", "day", "minute", "month"))
				a.deal("tick", at, &fact.SpotPriceChanged{Index: index, Region: region, At: span.Second(at), Currency: c.Currency.String(), Price: price})
			}
		}
	}
}

// rent draws a lease of the market, from its start to its end.
func (a *author) rent(c *contract.Contract, n *node) {
	rate := c.Rates[a.dice.IntN(len(c.Rates))]
	a.deals++
	id, at := fmt.Sprintf("%s%d", marketLease, a.deals), a.from+a.dice.Int64N(a.to-a.from)
	start := &fact.LeaseStarted{
		Lease: id, Customer: market, SKU: rate.SKU, PricingMode: "on_demand", Region: keyOf(a.dice, rate.Region), ServiceTier: keyOf(a.dice, rate.ServiceTier),
		Dedicated: a.one(4), At: span.Second(at),
	}
	if rate.Spot != nil && (a.one(2) || rate.OnDemand.Amount == nil) {
		start.PricingMode = "spot"
	}
	if a.one(2) {
		start.Contract = market
	}
	placed := !a.one(3)
	start.Devices, start.Count, start.ShareMilli = a.rented(placed, n)
	a.state(at, id, id, start, nil)
	running := true
	for k := range a.dice.IntN(4) {
		at += pick(a.dice, int64(0), 1, 59, 600, 1300)
		key := fmt.Sprintf("%s/%d", id, k)
		switch a.dice.IntN(4) {
		case 0:
			b := &fact.LeaseResized{Lease: id, At: span.Second(at)}
			b.Devices, b.Count, b.ShareMilli = a.rented(placed, n)
			a.state(at, id, key, b, nil)
		case 1:
			a.state(at, id, key, &fact.RefusalWaived{Lease: id, From: span.Second(at - 100), To: span.Second(at + 900), By: "sales"}, nil)
		default:
			state := fact.Running
			if running {
				state = pick(a.dice, fact.Suspended, fact.Halted)
			}
			running = !running
			a.state(at, id, key, &fact.LeaseStateChanged{Lease: id, At: span.Second(at), State: state}, nil)
		}
	}
	a.stop(id, id, at+pick(a.dice, int64(0), 1, 60, a.dice.Int64N(1800)))
}

func (a *author) rented(placed bool, n *node) (devices []fact.Share, count, share int64) {
	milli := func() int64 { return pick(a.dice, int64(1000), 1000, 500, 143) }
	if !placed {
		return nil, 1 + a.dice.Int64N(8), milli()
	}
	first := a.dice.IntN(2)
	for k := range 2 {
		if k == first || a.one(2) {
			devices = append(devices, fact.Share{Node: n.name, Device: n.device(k), ShareMilli: milli()})
		}
	}
	return devices, 0, 0
}

// keyOf is mostly a key of the map, if there is one.
func keyOf[V any](d *rand.Rand, of map[string]V) string {
	var keys []string
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if len(keys) == 0 || d.IntN(20) == 0 {
		return ""
	}
	return keys[d.IntN(len(keys))]
}
