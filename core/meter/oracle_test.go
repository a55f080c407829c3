package meter

import (
	"strings"

	"github.com/gpuhour/gpuhour/core/contract"
	"github.com/gpuhour/gpuhour/core/fact"
	"github.com/gpuhour/gpuhour/core/occupancy"
	"github.com/gpuhour/gpuhour/core/price"
	"github.com/gpuhour/gpuhour/core/span"
	"github.com/gpuhour/gpuhour/core/usage"
)

// oracle works everything out a second at a time, from all facts and batches at once.
type oracle struct {
	book      *occupancy.Book
	contracts *contract.Register
	ticks     []fact.Fact
	runs      map[string]map[span.Second]uint64 // by device: the run that measured the second
	busy      map[string]map[span.Second]uint8
	spoken    map[string]map[span.Second]bool // by node
	ledger    map[Entry]Amounts
	devices   map[DeviceEntry]DeviceSeconds
	committed bool // some document has commitments
	purchases []purchase
	ends      []*fact.PackageEnded
	coverings map[span.Second]map[chunk]*covering
	declared  []*fact.DeviceDeclared // in order of position
}

type purchase struct {
	*fact.PackagePurchased
	key string
}

func consult(facts []fact.Fact, list []usage.Batch, until span.Second) *oracle {
	contracts := contract.NewRegister()
	o := &oracle{
		occupancy.NewBook(contracts), contracts, nil,
		map[string]map[span.Second]uint64{},
		map[string]map[span.Second]uint8{},
		map[string]map[span.Second]bool{},
		map[Entry]Amounts{},
		map[DeviceEntry]DeviceSeconds{},
		false, nil, nil,
		map[span.Second]map[chunk]*covering{},
		nil,
	}
	for _, f := range facts {
		switch b := f.Body.(type) {
		case *fact.ContractSigned:
			o.contracts.Apply(f)
			o.committed = o.committed || strings.Contains(b.Document, "quantity: ")
		case *fact.ContractAmended:
			o.contracts.Apply(f)
			o.committed = o.committed || strings.Contains(b.Document, "quantity: ")
		case *fact.PackagePurchased:
			o.purchases = append(o.purchases, purchase{b, f.Key})
		case *fact.PackageEnded:
			o.ends = append(o.ends, b)
		case *fact.SpotPriceChanged:
			o.ticks = append(o.ticks, f)
		case *fact.DeviceDeclared:
			o.declared = append(o.declared, b)
		case *fact.CutRequested:
		default:
			o.book.Apply(f)
		}
	}
	o.book.Changing(func(l *occupancy.Lease) { o.book.Reconsider(l) }) // contracts are known now
	for i := range list {
		o.hear(&list[i])
	}
	units := []occupancy.Unit{{Device: "A"}, {Device: "B"}}
	o.book.Leases(func(l *occupancy.Lease) { units = append(units, occupancy.Unit{Lease: l.ID}) })
	for _, u := range units {
		for at := worldFrom; at < until; at++ {
			o.second(u, at)
		}
	}
	o.book.Leases(o.topUps)
	return o
}

func (o *oracle) hear(b *usage.Batch) {
	if o.spoken[b.Node] == nil {
		o.spoken[b.Node] = map[span.Second]bool{}
	}
	b.Spoken.Each(func(i int) { o.spoken[b.Node][b.Minute.Start()+span.Second(i)] = true })
	for _, data := range b.Blocks {
		var block usage.Block
		if err := block.Decode(data); err != nil {
			panic(err)
		}
		if o.runs[block.Device] == nil {
			o.runs[block.Device], o.busy[block.Device] = map[span.Second]uint64{}, map[span.Second]uint8{}
		}
		block.Seen.Each(func(i int) {
			at := b.Minute.Start() + span.Second(i)
			if known, ok := o.runs[block.Device][at]; !ok || b.Run < known {
				o.runs[block.Device][at], o.busy[block.Device][at] = b.Run, block.Busy[i]
			}
		})
	}
}

// inferred looks ten seconds back and ahead for the nearest seen seconds.
func (o *oracle) inferred(device string, at span.Second) bool {
	for back := at - 1; back >= at-BridgeSeconds; back-- {
		if before, ok := o.runs[device][back]; ok {
			for ahead := at + 1; ahead <= at+BridgeSeconds; ahead++ {
				if after, ok := o.runs[device][ahead]; ok {
					return before == after
				}
			}
			return false
		}
	}
	return false
}

func (o *oracle) second(u occupancy.Unit, at span.Second) {
	held := o.book.On(nil, u, span.Span{From: at, To: at + 1})
	_, seen := o.runs[u.Device][at]
	if len(held) == 0 && !seen {
		return
	}
	inferred := !seen && o.inferred(u.Device, at)
	if u.Device != "" {
		d := DeviceEntry{o.book.Node(u, at.Hour().End()), u.Device, at.Hour()}
		s := o.devices[d]
		switch {
		case seen && len(held) > 0:
			s.SeenLeased++
		case seen:
			s.SeenUnleased++
			if busy := o.busy[u.Device][at]; busy != usage.BusyUnknown && busy > LeakBusyPercent {
				s.Leak++
			}
		case len(held) > 0 && o.spoken[d.Node][at] && !inferred:
			s.Ghost++
		}
		if s != (DeviceSeconds{}) {
			o.devices[d] = s
		}
	}
	each := Amounts{Quantity: 100} // shares are whole hundreds
	switch {
	case seen:
		each.Measured = 100
	case inferred:
		each.Inferred = 100
	default:
		each.Missing = 100
	}
	room := o.saleable(u.Device, at)
	for _, tr := range held {
		type partOf struct {
			by      *covering
			refused bool
		}
		parts := map[partOf]Amounts{}
		for n := range int(tr.Milli / 100) {
			room -= 100
			of := partOf{o.covered(tr, n, at), room < 0 && u.Device != ""}
			parts[of] = parts[of].Plus(each)
		}
		for of, a := range parts {
			k := o.key(tr.Lease, tr.State, at, at, Leased, of.refused)
			if of.by != nil {
				k = o.coveredKey(k, of.by, tr, at)
			}
			k = o.sampled(u, tr.Lease, at, seen, k)
			k.Idle = k.Idle && (of.by == nil || of.by.forward)
			o.add(u, tr.Lease, k, at.Hour(), a)
		}
	}
}

// sampled adds to a key what samples decide of the second.
func (o *oracle) sampled(u occupancy.Unit, l *occupancy.Lease, at span.Second, seen bool, k ChargeKey) ChargeKey {
	v, ok := o.contracts.Version(k.Version)
	if !ok || k.Standing != Priced {
		return k
	}
	if v.Contract.Billing.Observed && o.slowSource(u.Device, at.Hour()) {
		k.Standing, k.Reason = Refused, ReasonSlowSource
		for _, w := range l.Waivers {
			if w.Contains(at) {
				k.Standing = Waived
			}
		}
		return k
	}
	if v.Contract.Billing.Observed && !seen {
		k.Standing, k.Reason = Unobserved, ReasonNotSeen
		return k
	}
	if rule := v.Contract.Idle; rule != nil && u.Device != "" {
		k.Idle = true
		for back := int64(0); back <= rule.AfterSeconds && k.Idle; back++ {
			k.Idle = o.inIdleRun(u, l, at-span.Second(back), rule)
		}
	}
	return k
}

// slowSource counts the seen seconds of an hour, and those that have none beside them.
func (o *oracle) slowSource(device string, h span.Hour) bool {
	n, alone := 0, 0
	seen := func(at span.Second) bool {
		_, ok := o.runs[device][at]
		return ok && at >= h.Start() && at < h.End()
	}
	for at := h.Start(); at < h.End(); at++ {
		if seen(at) {
			n++
			if !seen(at-1) && !seen(at+1) {
				alone++
			}
		}
	}
	return n >= 10 && alone > n/2
}

// inIdleRun tells whether a second is idle, or lies in a gap of unknown ones between two that are.
func (o *oracle) inIdleRun(u occupancy.Unit, l *occupancy.Lease, at span.Second, rule *contract.IdleRelief) bool {
	const idle, busy, unknown = 'i', 'b', 'u' // busy too when the lease does not hold the device
	state := func(at span.Second) rune {
		own, others := false, false
		for _, tr := range o.book.On(nil, u, span.Span{From: at, To: at + 1}) {
			own, others = own || tr.Lease == l, others || tr.Lease != l
		}
		value, seen := o.busy[u.Device][at]
		switch {
		case !own:
			return busy
		case others || !seen || value == usage.BusyUnknown:
			return unknown
		case int64(value) < rule.BelowPercent:
			return idle
		default:
			return busy
		}
	}
	before, after := at, at
	for state(before) == unknown && at-before <= span.Second(rule.BridgeSeconds) {
		before--
	}
	for state(after) == unknown && after-at <= span.Second(rule.BridgeSeconds) {
		after++
	}
	return state(before) == idle && state(after) == idle && max(0, after-before-1) <= span.Second(rule.BridgeSeconds)
}

func (o *oracle) add(u occupancy.Unit, l *occupancy.Lease, k ChargeKey, h span.Hour, a Amounts) {
	e := Entry{Lease: l.ID, Device: u.Device, Hour: h, Key: k}
	o.ledger[e] = o.ledger[e].Plus(a)
}

func (o *oracle) key(l *occupancy.Lease, state fact.LeaseState, at, second span.Second, kind Kind, overlapped bool) ChargeKey {
	s := l.Started
	k := ChargeKey{
		Customer: s.Customer, SKU: s.SKU, PricingMode: s.PricingMode, Region: s.Region, ServiceTier: s.ServiceTier, Dedicated: s.Dedicated,
		Kind: kind, Standing: Priced,
	}
	v, reason := o.contracts.Resolve(s, at)
	if reason == "" {
		d := v.Contract.Zone.DateOf(at)
		period, _ := o.contracts.Periods(v.Contract.ID).At(at)
		k.Contract, k.Version, k.PeriodStart = v.Contract.ID, v.Seq, period.Span.From
		k.LocalDay = int32(d.Year*10000 + int(d.Month)*100 + d.Day)
		if v.Contract.InTrial(at) {
			k.Standing, k.Reason = Free, ReasonTrial
			return k
		}
		if o.free(l, v, second) {
			k.Standing, k.Reason = Free, ReasonReclaimedFree
			return k
		}
		k.SpotPrice, k.State = o.spotPrice(l, v, second), named(v, state)
		if _, refusal := price.Unit(price.Terms{Contract: v.Contract}, Condition(k, at)); refusal != nil {
			reason = string(refusal.Reason)
		}
		if reason == "" {
			k.Window, reason = v.Contract.Schedule.At(k.PricingMode, v.Contract.Zone, second)
		}
	}
	if reason == "" && overlapped {
		reason = ReasonOverlap
	}
	if reason == "" {
		return k
	}
	k.Standing, k.Reason, k.SpotPrice, k.Window, k.State = Refused, reason, "", "", ""
	for _, w := range l.Waivers {
		if w.Contains(second) {
			k.Standing = Waived
		}
	}
	return k
}

// named is a state that the key names: one that is not the whole price of a running lease.
func named(v contract.Version, state fact.LeaseState) fact.LeaseState {
	if state == fact.Running && v.Contract.GPUIn(state).RatString() == "1" {
		return ""
	}
	return state
}

// topUps charges the starts of a lease that are over: share by share, as the last second went.
func (o *oracle) topUps(l *occupancy.Lease) {
	for _, s := range l.Starts {
		if s.Span.To == span.Open || s.EndedBy == fact.ByProvider || s.EndedBy == fact.ByFault {
			continue
		}
		last := max(s.Span.From, s.Span.To-1)
		at := s.Span.To
		if v, reason := o.contracts.Resolve(l.Started, at); reason == "" && v.Contract.GPUIn(s.State).Sign() == 0 {
			at = last
		}
		v, reason := o.contracts.Resolve(l.Started, at)
		if reason != "" {
			continue // the terms of these worlds do not end
		}
		elapsed := int64(s.Span.To - s.Span.From)
		billable := billable(elapsed, v.Contract.Billing, s.AfterFault)
		for _, h := range s.Last {
			refused := o.refusedMilli(h.Unit, l, last)
			if s.Span.Empty() {
				refused = o.refusedOfEmpty(h, l, s)
			}
			for i, milli := range [2]int64{h.Milli - refused, refused} {
				if n := (billable - elapsed) * milli; n != 0 {
					o.add(h.Unit, l, o.key(l, s.State, at, last, TopUp, i == 1), last.Hour(), Amounts{Quantity: n})
				}
			}
		}
	}
}

// billable counts up to the first length that is a whole number of grains, then to the minimum.
func billable(elapsed int64, b contract.Billing, afterFault bool) int64 {
	n := elapsed
	for n%b.GranularitySeconds != 0 {
		n++
	}
	for !afterFault && n < b.MinimumSeconds {
		n++
	}
	return n
}

// refusedOfEmpty is what a start without length asks for beyond what those who began before it leave of the device.
func (o *oracle) refusedOfEmpty(h occupancy.Holding, l *occupancy.Lease, s occupancy.Start) int64 {
	if h.Unit.Device == "" {
		return 0
	}
	at, taken := s.Span.From, int64(0)
	saleable := o.saleable(h.Unit.Device, at)
	for _, tr := range o.book.On(nil, h.Unit, span.Span{From: at, To: at + 1}) {
		if tr.Lease != l && (tr.Began < at || tr.Seq < s.Seq) {
			taken = min(saleable, taken+tr.Milli)
		}
	}
	return max(0, h.Milli-(saleable-taken))
}

func (o *oracle) refusedMilli(u occupancy.Unit, l *occupancy.Lease, at span.Second) (refused int64) {
	if u.Device == "" {
		return 0
	}
	room := o.saleable(u.Device, at)
	for _, tr := range o.book.On(nil, u, span.Span{From: at, To: at + 1}) {
		for range tr.Milli / 100 {
			if room -= 100; room < 0 && tr.Lease == l {
				refused += 100
			}
		}
	}
	return refused
}

// saleable is what the last declaration up to a second says of a device; of two in one second it is the later position.
func (o *oracle) saleable(device string, at span.Second) int64 {
	milli, since := int64(1000), span.Second(-1)
	for _, d := range o.declared {
		if d.Device == device && d.At <= at && d.At >= since {
			milli, since = d.SaleableMilli, d.At
		}
	}
	return milli
}

// seenSeconds counts the distinct seconds of devices that were seen.
func (o *oracle) seenSeconds() (n int64) {
	for _, seconds := range o.runs {
		n += int64(len(seconds))
	}
	return n
}
