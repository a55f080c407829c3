package slow

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// World is everything that was stated and seen.
type World struct {
	until     span.Second // nothing later is known
	versions  map[string][]*version
	ends      map[string]*terminated
	books     map[string][]*book
	ticks     []*tick
	purchases map[string][]purchase
	readings  []reading
	leases    []*lease
	declared  []*fact.DeviceDeclared
	ended     []*ended
	samples   map[string]map[span.Second]sample
	slow      map[string]map[span.Second]bool // by device and hour: its source is
	from      span.Second                     // the second of held[0]
	held      [][]grant                       // what leases hold in each second
	reliefs   map[reliefOf][]bool
	prices    map[sale]priced
	unable    []string
}

// version is a document of a contract, in force from an instant on.
type version struct {
	from span.Second
	*contract.Contract
	lengths map[span.Second][2]int64 // of the month and year around a local day
	ended   *terminated              // nil while nobody ended the term
}

type book struct {
	from span.Second
	*contract.Book
}

// tick is a spot price from an instant on.
type tick struct {
	*fact.SpotPriceChanged
	price    contract.Price
	currency money.Currency
}

type purchase struct {
	*fact.PackagePurchased
	sold contract.Package
	key  string
	runs span.Span // while nobody ended it
	end  *fact.PackageEnded
}

type reading struct {
	*fact.MeterRecorded
	value *big.Rat
}

// sample is what was seen of a device in a second.
type sample struct {
	run, seq uint64
	busy     uint8 // per cent, or usage.BusyUnknown
}

// New takes facts in order of position, each once, and batches in any order.
func New(facts []fact.Fact, batches []usage.Batch, until span.Second) *World {
	w := &World{
		until: until, versions: map[string][]*version{}, ends: map[string]*terminated{}, books: map[string][]*book{}, purchases: map[string][]purchase{},
		samples: map[string]map[span.Second]sample{}, slow: map[string]map[span.Second]bool{}, reliefs: map[reliefOf][]bool{}, prices: map[sale]priced{},
	}
	for _, f := range facts {
		w.list(f)
	}
	for _, list := range w.books {
		slices.SortStableFunc(list, func(a, b *book) int { return cmp.Compare(a.from, b.from) })
	}
	for _, f := range facts { // list prices are known by now
		w.agree(f)
	}
	for id := range w.ends {
		w.cut(id)
	}
	slices.SortStableFunc(w.ticks, func(a, b *tick) int { return cmp.Compare(a.At, b.At) })
	for i, f := range facts {
		w.state(i, f)
	}
	for _, f := range facts { // purchases and prices are known by now
		if b, ok := f.Body.(*fact.PackageEnded); ok {
			w.endPackage(b)
		}
	}
	slices.SortStableFunc(w.declared, func(a, b *fact.DeviceDeclared) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(w.readings, func(a, b reading) int { return cmp.Compare(a.At, b.At) })
	w.readings = w.taken()
	for i := range batches {
		w.see(&batches[i])
	}
	w.hold()
	return w
}

// Unable names what this rater cannot judge of its world: contract facts that have to be refused.
func (w *World) Unable() []string { return w.unable }

// agree takes contracts.
func (w *World) agree(f fact.Fact) {
	switch b := f.Body.(type) {
	case *fact.ContractSigned:
		w.sign(f.Key, b.Contract, 0, b.Document)
	case *fact.ContractAmended:
		w.sign(f.Key, b.Contract, b.Effective, b.Document)
	case *fact.ContractTerminated:
		w.terminate(b)
	}
}

// list takes price books and spot prices.
func (w *World) list(f fact.Fact) {
	switch b := f.Body.(type) {
	case *fact.PriceBookPublished:
		if parsed, err := contract.ParseBook(b.Book, []byte(b.Document)); err == nil && parsed.Name == b.Book {
			w.books[b.Book] = append(w.books[b.Book], &book{b.Effective, parsed})
		}
	case *fact.SpotPriceChanged:
		if price, currency, err := contract.SpotPrice(b); err == nil {
			w.ticks = append(w.ticks, &tick{b, price, currency})
		}
	}
}

// sign takes a document. One that has to be refused is beyond this rater.
func (w *World) sign(key, id string, effective span.Second, document string) {
	c, err := contract.Parse(id, []byte(document))
	if err != nil {
		w.unable = append(w.unable, fmt.Sprintf("%s: %v", key, err))
		return
	}
	v := &version{max(effective, c.Term.From), c, map[span.Second][2]int64{}, nil}
	if before := w.versions[id]; len(before) > 0 {
		b := before[0].Contract
		begins := b.Term.From == c.Term.From || b.BoundText(b.Term.From) == c.BoundText(c.Term.From) // with one date
		if b.Trial.Empty() != c.Trial.Empty() || !b.Trial.Empty() && c.Trial.To != min(b.Trial.To, c.Term.To) {
			return // the trial stays as it was signed
		}
		same := b.Customer == c.Customer && b.Currency == c.Currency && begins
		v.from = max(v.from, before[0].from)
		for _, v := range before {
			same = same && feesAlike(v.Contract, c) && cutAlike(v.Contract, c) && cutAlike(c, v.Contract)
		}
		if !same || effective == 0 || effective >= c.Term.To {
			w.unable = append(w.unable, key+": it has to be refused")
			return
		}
	} else if effective > 0 || c.ID != id {
		w.unable = append(w.unable, key+": it has to be refused")
		return
	}
	before := w.versions[id]
	w.versions[id] = append(slices.Clone(before), v)
	slices.SortStableFunc(w.versions[id], func(a, b *version) int { return cmp.Compare(a.from, b.from) })
	if t := w.ends[id]; t != nil && !w.amendsEnded(v, t) {
		w.versions[id] = before
	}
}

// feesAlike tells whether add-ons of one name, and the commitment, are of one unit here and there.
func feesAlike(here, there *contract.Contract) bool {
	units := func(c *contract.Contract) map[string]contract.FeeUnit {
		out := map[string]contract.FeeUnit{}
		for _, a := range c.Addons {
			if out["addon "+a.Name] = 0; a.Fee != nil {
				out["addon "+a.Name] = a.Fee.Unit
			}
		}
		if c.Spend != nil {
			out["commitment"] = c.Spend.Unit
		}
		return out
	}
	other := units(there)
	for name, unit := range units(here) {
		if is, stated := other[name]; stated && is != unit {
			return false
		}
	}
	return true
}

// cutAlike tells whether no SKU is a slice of one SKU here and of another there, nor a whole here and a slice there.
func cutAlike(here, there *contract.Contract) bool {
	for _, a := range here.Rates {
		b, _ := there.Rate(a.SKU)
		whole, _ := there.Rate(a.SliceOf)
		if a.SliceOf != "" && (b.SliceOf != "" && b.SliceOf != a.SliceOf || whole.SliceOf != "") {
			return false
		}
	}
	return true
}

// state takes what happened; contracts are known by then.
func (w *World) state(position int, f fact.Fact) {
	switch b := f.Body.(type) {
	case *fact.PackagePurchased:
		if v := w.inForce(b.Contract, b.At); v != nil {
			for _, p := range v.Packages {
				if p.Name == b.Package {
					w.purchases[b.Contract] = append(w.purchases[b.Contract], purchase{b, p, f.Key, p.Unit.Runs(v.Zone, b.At), nil})
				}
			}
		}
	case *fact.MeterRecorded:
		if value, err := money.ParseDecimal(b.Quantity); err == nil && value.Sign() >= 0 && value.Cmp(big.NewRat(1_000_000_000_000_000, 1)) <= 0 {
			w.readings = append(w.readings, reading{b, value})
		}
	case *fact.DeviceDeclared:
		w.declared = append(w.declared, b)
	case *fact.RefusalWaived:
		l := w.lease(b.Lease)
		l.waived = append(l.waived, span.Span{From: b.From, To: b.To})
	case *fact.LeaseStarted, *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped:
		l := w.lease(b.Entity())
		if s, ok := b.(*fact.LeaseStarted); ok {
			if l.LeaseStarted != nil {
				return // the first one stands
			}
			l.LeaseStarted = s
		}
		l.changes = append(l.changes, change{instant(b), position, b})
	}
}

// taken leaves out readings that are refused: of a meter that the contract has not, and of a counter that falls.
func (w *World) taken() []reading {
	counters := map[[3]string]*big.Rat{}
	return slices.DeleteFunc(w.readings, func(r reading) bool {
		v := w.inForce(r.Contract, r.At)
		if v == nil {
			return true
		}
		m, ok := v.Meter(r.Meter)
		if !ok || m.Aggregate == contract.Unique && r.Resource == "" {
			return true
		}
		of := [3]string{r.Contract, r.Meter, r.Resource}
		if last := counters[of]; m.Cumulative && last != nil && r.value.Cmp(last) < 0 {
			return true
		}
		counters[of] = r.value
		return false
	})
}

// see takes what a batch saw; of two values for a second the lowest run and sequence is believed.
func (w *World) see(b *usage.Batch) {
	var block usage.Block
	for _, data := range b.Blocks {
		if err := block.Decode(data); err != nil {
			w.unable = append(w.unable, "a block cannot be read: "+err.Error())
			continue
		}
		if w.samples[block.Device] == nil {
			w.samples[block.Device] = map[span.Second]sample{}
		}
		of := w.samples[block.Device]
		block.Seen.Each(func(i int) {
			at, s := b.Minute.Start()+span.Second(i), sample{b.Run, b.Seq, block.Busy[i]}
			if old, known := of[at]; !known || s.run < old.run || s.run == old.run && s.seq < old.seq {
				of[at] = s
			}
		})
	}
}

// inForce is the version of a contract at an instant, or nil.
func (w *World) inForce(id string, at span.Second) *version {
	for _, v := range slices.Backward(w.versions[id]) {
		if v.from <= at {
			if v.Term.Contains(at) {
				return v
			}
			return nil
		}
	}
	return nil
}

// of is the version that a lease is billed by at an instant: of the contract it names, else of the only one in force, or that has a
// price of the SKU.
func (w *World) of(l *lease, at span.Second) *version {
	if l.Contract != "" {
		if v := w.inForce(l.Contract, at); v != nil && v.Customer == l.Customer {
			return v
		}
		return nil
	}
	var all, match []*version
	for id := range w.versions {
		if v := w.inForce(id, at); v != nil && v.Customer == l.Customer {
			all = append(all, v)
			_, stated := v.Rate(l.SKU)
			if b := w.bookOf(v, at); b != nil && b.Currency == v.Currency && !stated {
				_, stated = b.Rate(l.SKU)
			}
			if stated {
				match = append(match, v)
			}
		}
	}
	switch {
	case len(all) == 1:
		return all[0]
	case len(match) == 1:
		return match[0]
	default:
		return nil // none, or ambiguous
	}
}

// bookOf is the price book of a contract at an instant, or nil.
func (w *World) bookOf(v *version, at span.Second) *book {
	for _, b := range slices.Backward(w.books[v.PriceBook]) {
		if b.from <= at && v.PriceBook != "" {
			return b
		}
	}
	return nil
}

// tickOf is the price of a spot index at an instant, or nil. One in another currency is none.
func (w *World) tickOf(index, region string, at span.Second, currency money.Currency) *tick {
	for _, t := range slices.Backward(w.ticks) {
		if t.Index == index && t.Region == region && t.At <= at {
			if t.currency == currency {
				return t
			}
			return nil
		}
	}
	return nil
}

// piece is a part of a span in which one version is in force.
type piece struct {
	*version
	span.Span
}

// pieces cuts a span where versions begin and terms end.
func (w *World) pieces(id string, s span.Span) []piece {
	cuts := []span.Second{s.From, s.To}
	for _, v := range w.versions[id] {
		for _, at := range []span.Second{v.from, v.Term.From, v.Term.To} {
			if s.Contains(at) {
				cuts = append(cuts, at)
			}
		}
	}
	slices.Sort(cuts)
	var out []piece
	for i := 1; i < len(cuts); i++ {
		v, n := w.inForce(id, cuts[i-1]), len(out)
		switch {
		case v == nil || cuts[i-1] == cuts[i]:
		case n > 0 && out[n-1].version == v && out[n-1].To == cuts[i-1]:
			out[n-1].To = cuts[i]
		default:
			out = append(out, piece{v, span.Span{From: cuts[i-1], To: cuts[i]}})
		}
	}
	return out
}
