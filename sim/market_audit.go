package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gpuhour/gpuhour/core/bill"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/meter"
	"github.com/gpuhour/gpuhour/core/money"
	"github.com/gpuhour/gpuhour/core/slow"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
	"github.com/gpuhour/gpuhour/platform/bus"
)

// marketLease begins the names of the market's leases.
const marketLease = "M"

func ofMarket(lease string) bool { return strings.HasPrefix(lease, marketLease) }

// marketPeriod is a period of the market's contract as its documents bill it.
type marketPeriod struct {
	span.Span
	lines map[slow.Key]*owed
	open  bool // billed in advance only
}

// bookMarket adds a document to its period, and at some cuts holds the period against the slow rater.
func (w *watcher) bookMarket(d *bill.Document, c *fact.PeriodClosed) error {
	p := w.market[c.PeriodStart]
	if p == nil {
		p = &marketPeriod{lines: map[slow.Key]*owed{}}
		w.market[c.PeriodStart] = p
	}
	p.Span, p.open = span.Span{From: c.PeriodStart, To: c.PeriodEnd}, c.N == 0
	currency, err := money.ParseCurrency(d.Currency)
	if err != nil {
		return err
	}
	total := new(big.Int)
	for i := range d.Lines {
		l := &d.Lines[i]
		amount, err := minorUnits(l.Amount, currency)
		if err != nil {
			return err
		}
		k := slowKey(l.Key())
		if p.lines[k] == nil {
			p.lines[k] = &owed{new(big.Int), 0}
		}
		p.lines[k].minor.Add(p.lines[k].minor, amount)
		p.lines[k].milli += l.Quantity.MilliGPUSeconds
		total.Add(total, amount)
	}
	said, err := minorUnits(d.Total, currency)
	if err != nil {
		return err
	}
	if said.Cmp(total) != 0 {
		return fmt.Errorf("the total says %s, the lines are %s minor units", d.Total, total)
	}
	cut := w.cuts[c.Cut]
	if c.N == 0 {
		w.figures.count("bills of the market in advance audited as of their cut", 1)
		if err := p.compare(inAdvance(w.upTo(w.knownAt(c.Cut)), p.Span, cut.At)); err != nil {
			return fmt.Errorf("as of cut %s: %w", c.Cut, err)
		}
		return nil
	}
	if len(w.heard)%3 > 0 {
		return nil
	}
	w.figures.count("bills of the market audited as of their cut", 1)
	n := 0
	for n < len(w.heard) && w.heard[n].Seq <= cut.Block {
		n++
	}
	s, err := listen(w.heard[:n], w.story, true)
	if err != nil {
		return err
	}
	if err := w.compareMarket(p, slowly(w.upTo(w.knownAt(c.Cut)), s.market, cut.At)); err != nil {
		return fmt.Errorf("as of cut %s: %w", c.Cut, err)
	}
	return nil
}

// slowly gives the slow rater the market's facts.
func slowly(facts []fact.Fact, batches []usage.Batch, until span.Second) *slow.World {
	return slow.New(ofTheMarket(facts), batches, until)
}

// ofTheMarket are the facts that the market's bills can hang on.
func ofTheMarket(facts []fact.Fact) []fact.Fact {
	var own []fact.Fact
	signed := false
	for _, f := range facts {
		switch b := f.Body.(type) {
		case *fact.ContractSigned:
			if b.Contract != market {
				continue
			}
			signed = true
		case *fact.ContractAmended:
			if b.Contract != market || !signed { // an amendment in front of the signature is none
				continue
			}
		case *fact.ContractTerminated:
			if !signed {
				continue
			}
		case *fact.LeaseStarted, *fact.LeaseResized, *fact.LeaseStateChanged, *fact.LeaseStopped, *fact.RefusalWaived:
			if !ofMarket(b.Entity()) {
				continue
			}
		case *fact.PackagePurchased, *fact.PackageEnded, *fact.MeterRecorded, *fact.PriceBookPublished, *fact.SpotPriceChanged,
			*fact.DeviceDeclared:
		default:
			continue
		}
		own = append(own, f)
	}
	return own
}

// statementOf is the slow rater's statement of the period that begins where the given one does, or nil.
func statementOf(world *slow.World, p span.Span) *slow.Statement {
	for _, now := range world.Periods(market, p.From+1) {
		if now.From == p.From {
			return world.Statement(market, now)
		}
	}
	return nil
}

func (w *watcher) compareMarket(p *marketPeriod, world *slow.World) error {
	if why := world.Unable(); len(why) > 0 {
		return fmt.Errorf("the slow rater cannot judge it: %v", why)
	}
	return p.compare(statementOf(world, p.Span))
}

// inAdvance is what the slow rater has the market pay when a period begins: contracts and price books decide it.
func inAdvance(facts []fact.Fact, p span.Span, until span.Second) *slow.Statement {
	agreed := slices.DeleteFunc(ofTheMarket(facts), func(f fact.Fact) bool {
		switch f.Body.(type) {
		case *fact.ContractSigned, *fact.ContractAmended, *fact.ContractTerminated, *fact.PriceBookPublished:
			return false
		}
		return true
	})
	return slow.New(agreed, nil, until).Advance(market, p)
}

func (p *marketPeriod) compare(s *slow.Statement) error {
	want := map[slow.Key]*owed{}
	if s != nil {
		for k, l := range s.Lines {
			o := &owed{l.Rounded, 0}
			if k.Item == "" {
				o.milli = l.Quantity.Num().Int64() // of milli-GPU-seconds: whole
			}
			want[k] = o
		}
	}
	var wrong []string
	for _, lines := range []map[slow.Key]*owed{p.lines, want} {
		for k := range lines {
			if err := compareLine(k, p.lines[k], want[k]); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	if err := first(wrong); err != nil {
		return fmt.Errorf("%s %v: %w", market, p.Span, err)
	}
	return nil
}

// allMarket: what the market was billed, and the seconds of its leases, are what the slow rater makes of the log.
func (r *road) allMarket(s *samples) error {
	w := r.watch
	if len(w.market) == 0 {
		return nil
	}
	world := slowly(w.facts, s.market, span.Second(w.last))
	r.weighMarket(world, s)
	r.figures.count("periods of the market billed", len(w.market))
	for _, p := range w.market {
		if p.open {
			return fmt.Errorf("%v was billed in advance and never closed", p.Span)
		}
		for k, o := range p.lines {
			if o.minor.Sign() != 0 {
				r.figures.count("lines of the market that cost something: "+cmp.Or(k.Item, k.Mode), 1)
			}
		}
		if err := w.compareMarket(p, world); err != nil {
			return err
		}
		totals, err := r.tables.PeriodTotals(context.Background(), market, p.From, every)
		if err != nil {
			return err
		}
		held, want := map[slow.Cell]int64{}, map[slow.Cell]int64{}
		if statement := statementOf(world, p.Span); statement != nil {
			want = statement.Leased
		}
		for _, t := range totals {
			if t.Key.Kind != meter.Leased {
				continue
			}
			for coverage, milli := range map[string]int64{slow.Measured: t.Measured, slow.Inferred: t.Inferred, slow.Missing: t.Missing} {
				held[slow.Cell{Lease: t.Lease, Device: t.Device, Standing: string(t.Key.Standing), Reason: t.Key.Reason, Coverage: coverage}] += milli
			}
		}
		var wrong []string
		for _, cells := range []map[slow.Cell]int64{held, want} {
			for c := range cells {
				if held[c] != want[c] {
					wrong = append(wrong, fmt.Sprintf("%v %+v: the ledger holds %d, the seconds are %d", p.Span, c, held[c], want[c]))
				}
			}
		}
		if err := first(wrong); err != nil {
			return err
		}
	}
	for _, p := range world.Periods(market, span.Second(w.last)) {
		// A stub that became known late and changes no line is no reason for a correction, which would say its end.
		if got := w.market[p.From]; got == nil || got.To < p.To {
			return fmt.Errorf("period %v of the market is closed as %v", p, got)
		}
	}
	return nil
}

func slowKey(k bill.LineKey) slow.Key {
	return slow.Key{
		Item: string(k.Item), Name: k.Name, SKU: k.SKU, Region: k.Region, ServiceTier: k.ServiceTier, Dedicated: k.Dedicated,
		Mode: k.PricingMode, Window: k.Window, Idle: k.Idle, Commitment: k.Commitment,
	}
}

func minorUnits(text string, c money.Currency) (*big.Int, error) {
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("amount %q is no number", text)
	}
	v.Mul(v, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.Digits())), nil)))
	if !v.IsInt() {
		return nil, fmt.Errorf("amount %q has more digits than %s", text, c)
	}
	return v.Num(), nil
}

// hears keeps usage messages for the audits of the market.
func (w *watcher) hears(m bus.Message) {
	if w.story.market {
		w.heard = append(w.heard, m)
	}
}
