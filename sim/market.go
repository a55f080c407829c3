package sim

import (
	"fmt"
	"maps"
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
	versions := a.renegotiate(c, deal)
	a.quotes(c)
	for range 2 + a.dice.IntN(4) {
		a.rent(c, n)
	}
	bought := map[string]int64{}
	for _, p := range c.Packages {
		for range a.dice.IntN(3) {
			at := a.from + a.dice.Int64N(2*hour)
			key := a.deal("package", at, &fact.PackagePurchased{Contract: market, Package: p.Name, At: span.Second(at), Count: 1 + a.dice.Int64N(2)})
			bought[key] = at
		}
	}
	for _, m := range c.Meters {
		for k := range a.dice.IntN(5) {
			at := a.from + a.dice.Int64N(2*hour)
			quantity := strconv.Itoa(pick(a.dice, k, k*100, a.dice.IntN(3000))) + pick(a.dice, "", ".5")
			a.deal("reading", at, &fact.MeterRecorded{Contract: market, Meter: m.Name, Resource: pick(a.dice, "r", "s"), At: span.Second(at), Quantity: quantity})
		}
	}
	if a.one(3) {
		versions = a.allowEnds()
	}
	a.terminate(versions)
	a.endPackages(bought)
}

// allowEnds lets every version of the market's contract say what is due when it ends early, as far as the language takes it there.
func (a *author) allowEnds() (versions []*contract.Contract) {
	refund, others := pick(a.dice, "none", "prorata"), pick(a.dice, "", ", fee: 12.5%")
	clauses := []string{", clawback: on_demand_difference" + others, others}
	for _, e := range a.events {
		document := documentOf(e.body)
		if e.repeat || document == nil || e.body.Entity() != market {
			continue
		}
		for _, clause := range clauses {
			text := *document + "termination: {refund: " + refund + clause + "}\n"
			if _, err := contract.Parse("market.yaml", []byte(text)); err == nil {
				*document = text
				break
			}
		}
		c, _ := contract.Parse("market.yaml", []byte(*document)) // it was read before
		versions = append(versions, c)
	}
	return versions
}

// terminate ends the market's contract before its time, mostly where some version says what is due then: more than once, by both sides,
// known late, or at an instant at which it cannot end.
func (a *author) terminate(versions []*contract.Contract) {
	if says := slices.ContainsFunc(versions, func(v *contract.Contract) bool { return v.Termination != nil }); !says && !a.one(6) || a.one(5) {
		return
	}
	term := versions[0].Term
	for range pick(a.dice, 1, 1, 1, 2) {
		at := int64(term.From) + a.dice.Int64N(term.Seconds())
		switch a.dice.IntN(12) {
		case 0:
			at = pick(a.dice, int64(term.From), int64(term.From)+1, int64(term.From)-hour)
		case 1:
			at = pick(a.dice, int64(term.To), int64(term.To)-1, int64(term.To)+hour)
		case 2, 3, 4:
			at = a.from + a.dice.Int64N(a.to-a.from) // while leases run
		case 5:
			zone := versions[0].Zone
			at = int64(zone.StartOfDay(zone.DateOf(span.Second(at))))
		}
		body := &fact.ContractTerminated{Contract: market, At: span.Second(at), By: pick(a.dice, fact.ByCustomer, fact.ByCustomer, fact.ByProvider)}
		a.drawn["termination of the market"]++
		a.dealOr("termination", at+pick(a.dice, 0, 0, -a.dice.Int64N(2*day), a.dice.Int64N(4*day)), body, func() fact.Body {
			other := *body
			other.At, other.By = other.At+60, fact.ByProvider
			return &other
		})
	}
}

// endPackages ends purchases before their time, some twice, in vain, or before they were bought.
func (a *author) endPackages(bought map[string]int64) {
	for _, key := range slices.Sorted(maps.Keys(bought)) {
		for range pick(a.dice, 0, 1, 1, 2) {
			at := bought[key] + pick(a.dice, 0, -60, a.dice.Int64N(hour), a.dice.Int64N(hour), a.dice.Int64N(day), a.dice.Int64N(9*day))
			body := &fact.PackageEnded{Contract: market, Purchase: key, At: span.Second(at), By: pick(a.dice, fact.ByCustomer, fact.ByCustomer, fact.ByProvider)}
			a.drawn["early end of a package of the market"]++
			a.dealOr("end", at+pick(a.dice, 0, 0, a.dice.Int64N(4*day)), body, func() fact.Body {
				other := *body
				other.At += 3600
				return &other
			})
		}
	}
}

// renegotiate amends the market's contract: any clause, its zone and cycle, the end of its term.
func (a *author) renegotiate(c *contract.Contract, deal random.Deal) []*contract.Contract {
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
	return versions
}

// turns tells whether a contract cannot follow another: a SKU becomes a slice of another one, or a fee has another unit.
func turns(was, is *contract.Contract) bool { return contract.Unamendable(was, is) != "" }

// deal states something of the market under a name of its own.
func (a *author) deal(what string, at int64, body fact.Body) (name string) {
	return a.dealOr(what, at, body, nil)
}

// dealOr may contradict it under that name.
func (a *author) dealOr(what string, at int64, body fact.Body, other func() fact.Body) (name string) {
	a.deals++
	name = fmt.Sprintf("market %s %d", what, a.deals)
	a.state(at, name, name, body, other)
	return name
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
