package meter

import (
	"cmp"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
)

// BadSpotPrice refuses a tick whose price or currency cannot be read: it prices nothing, and the tick before it stands.
const BadSpotPrice = "bad_spot_price"

// ReasonReclaimedFree: the provider ended the lease sooner than the contract charges for.
const ReasonReclaimedFree = "reclaimed_free"

// spotTick is a spot price from an instant on.
type spotTick struct {
	at       span.Second
	seq      uint64 // of two in one second the higher position wins
	currency money.Currency
	price    string // 1.0671/gpu-hour, whatever zeros were stated
}

func (t spotTick) compare(o spotTick) int {
	return cmp.Or(cmp.Compare(t.at, o.at), cmp.Compare(t.seq, o.seq))
}

// place is where a spot index has a price of its own.
type place struct{ index, region string }

// spotIndexes are the ticks of every spot index and region in order, and the leases that they may price.
type spotIndexes struct {
	ticks  map[place][]spotTick
	leases map[string]map[string]bool // ids by region
}

func newSpotIndexes() spotIndexes {
	return spotIndexes{map[place][]spotTick{}, map[string]map[string]bool{}}
}

// list remembers a lease that ticks of its region may price.
func (x *spotIndexes) list(l *occupancy.Lease) {
	if l.Started == nil || l.Started.PricingMode != price.Spot {
		return
	}
	if x.leases[l.Started.Region] == nil {
		x.leases[l.Started.Region] = map[string]bool{}
	}
	x.leases[l.Started.Region][l.ID] = true
}

// insert takes a tick and gives the instants at which it is now the price, which are none when a later position holds its second.
func (x *spotIndexes) insert(seq uint64, b *fact.SpotPriceChanged) (span.Span, error) {
	stated, currency, err := contract.SpotPrice(b)
	if err != nil {
		return span.Span{}, err
	}
	t := spotTick{b.At, seq, currency, stated.Text(currency)}
	k := place{b.Index, b.Region}
	i, _ := slices.BinarySearchFunc(x.ticks[k], t, spotTick.compare)
	x.ticks[k] = slices.Insert(x.ticks[k], i, t)
	holds := span.Span{From: t.at, To: span.Open}
	if i+1 < len(x.ticks[k]) {
		holds.To = x.ticks[k][i+1].at
	}
	return holds, nil
}

// at is the price that holds at an instant in a currency, or "": none before the first tick, and none from a tick in another
// currency, which nobody agreed to be billed in.
func (x *spotIndexes) at(k place, at span.Second, currency money.Currency) string {
	list := x.ticks[k]
	i, _ := slices.BinarySearchFunc(list, spotTick{at: at + 1}, spotTick.compare)
	if i == 0 || list[i-1].currency != currency {
		return ""
	}
	return list[i-1].price
}

// edges appends the instants within s at which a price changes.
func (x *spotIndexes) edges(dst []span.Second, k place, s span.Span) []span.Second {
	list := x.ticks[k]
	for i, _ := slices.BinarySearchFunc(list, spotTick{at: s.From}, spotTick.compare); i < len(list) && list[i].at < s.To; i++ {
		dst = append(dst, list[i].at)
	}
	return dst
}

// takeTick takes a tick in, refuses one that cannot be read, and touches what it prices: the seconds while it holds; with a lock by
// the hour also those up to an hour later; and the whole life of a lease that started while it holds.
func (s *State) takeTick(f fact.Fact, b *fact.SpotPriceChanged, w *work) {
	c := &s.classifier
	holds, err := c.spot.insert(f.Seq, b)
	if w == nil {
		return
	}
	if err != nil {
		w.refusals = append(w.refusals, Refusal{ID: f.Key, Reason: BadSpotPrice, Detail: err.Error(), At: b.At, Delta: 1})
		return
	}
	if holds.Empty() || holds.From >= max(s.hoursThrough.Start(), s.cutAt) { // as most: nothing is classified there yet
		return
	}
	for id := range c.spot.leases[b.Region] {
		l := c.book.Lease(id)
		if !slices.ContainsFunc(c.spotTerms(l), func(t *contract.Spot) bool { return t.Index == b.Index }) {
			continue
		}
		touched := holds
		switch {
		case holds.Contains(l.Started.At):
			touched.To = span.Open
		case holds.To != span.Open:
			touched.To += span.SecondsPerHour
		}
		w.touched = append(w.touched, l.Within(touched)...)
	}
}

// spotTerms are those that may price a lease, of any version; none when it is not spot.
func (c *classifier) spotTerms(l *occupancy.Lease) []*contract.Spot {
	st := l.Started
	if st == nil || st.PricingMode != price.Spot {
		return nil
	}
	return c.contracts.Spot(st.Contract, st.Customer, st.SKU)
}

// spotEdges appends the instants within s at which another tick can price the lease.
func (c *classifier) spotEdges(dst []span.Second, l *occupancy.Lease, s span.Span) []span.Second {
	for _, t := range c.spotTerms(l) {
		switch t.Lock {
		case contract.LockNone:
			dst = c.spot.edges(dst, place{t.Index, l.Started.Region}, s)
		case contract.LockHour:
			for at := t.At(l.Started.At, s.To-1); at > s.From; at -= span.SecondsPerHour {
				dst = append(dst, at)
			}
		case contract.LockStart:
		}
	}
	return dst
}

// spotOf are the terms of a version that price the lease, or nil when it is not spot there.
func spotOf(v contract.Version, l *occupancy.Lease) *contract.Spot {
	if l.Started.PricingMode != price.Spot {
		return nil
	}
	rate, _ := v.Contract.Rate(l.Started.SKU)
	return rate.Spot
}

// reclaimedFree tells whether a second of the lease is free because the provider took it back within the time that the version
// in force at that second grants. The time runs from the start that was ended: of a lease that was suspended and resumed, only
// the last run can be free, since the customer ended those before it.
func reclaimedFree(terms *contract.Spot, l *occupancy.Lease, second span.Second) bool {
	in := reclaimed(l)
	return in.Contains(second) && in.Seconds() < terms.ReclaimedFreeSeconds
}

// reclaimed is the start of a spot lease that the provider ended, from its beginning to the stop; else it is empty.
func reclaimed(l *occupancy.Lease) span.Span {
	if l == nil || l.Started == nil || l.Started.PricingMode != price.Spot || len(l.Starts) == 0 {
		return span.Span{}
	}
	last := l.Starts[len(l.Starts)-1]
	if last.EndedBy != fact.ByProvider {
		return span.Span{}
	}
	return last.Span
}

// touchReclaim touches the starts that a lease fact made free or billed again: before is what was reclaimed before it.
func (s *State) touchReclaim(l *occupancy.Lease, before span.Span, w *work) {
	after := reclaimed(l)
	if w == nil || before == after {
		return
	}
	for _, t := range s.classifier.spotTerms(l) {
		for _, in := range []span.Span{before, after} {
			if in.Seconds() < t.ReclaimedFreeSeconds {
				w.touched = append(w.touched, l.Within(in)...)
			}
		}
	}
}
